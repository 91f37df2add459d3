/* Canonicalisation and body hashes in every segmentation. A short body is cut in all the ways there are (2^(n-1)); a longer one at each
 * single place, octet by octet, and into random pieces out of the input. All must give what one piece gives. The first octet seeds the
 * random pieces; a whole message through dkim_body_feed() must do the same. May not be the judge of the canonical form itself: that is
 * canon.c beside it. */
#include "base/buf.h"
#include "base/check.h"
#include "proto/dkim/dkim_internal.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ALL_WAYS_MAX = 10, ONE_CUT_MAX = 400, INPUT_MAX = 1 << 16 };

static void to_buf(void *arg, const char *p, size_t n)
{
	must(buf_add(arg, p, n) == 0);
}

/* next(arg, at) octets are the next piece. */
typedef size_t next_fn(void *arg, size_t at);

static void canon(enum dkim_canon c, struct str s, next_fn *next, void *arg, struct buf *out)
{
	struct dkim_canon_body b = { .canon = c, .out = { .sink = to_buf, .arg = out } };
	size_t n;
	buf_reset(out);
	for (size_t i = 0; i < s.n; i += n) {
		n = next(arg, i);
		n = n < s.n - i ? n : s.n - i;
		/* a copy of its own: a read behind the piece is seen */
		char *piece = malloc(n ? n : 1);
		must(piece);
		memcpy(piece, s.p + i, n);
		dkim_canon_body_add(&b, piece, n);
		free(piece);
	}
	dkim_canon_body_end(&b);
}

static size_t whole(void *arg, size_t at)
{
	(void)at;
	return *(size_t *)arg;
}

static size_t by_bits(void *arg, size_t at)
{
	unsigned bits = *(unsigned *)arg >> at;
	size_t n = 1;
	while (n < ALL_WAYS_MAX && !(bits & 1)) {
		bits >>= 1;
		n++;
	}
	return n;
}

static size_t one_cut(void *arg, size_t at)
{
	size_t cut = *(size_t *)arg;
	return at < cut ? cut - at : INPUT_MAX;
}

static size_t randomly(void *arg, size_t at)
{
	uint32_t *x = arg;
	(void)at;
	*x = *x * 1664525u + 1013904223u;
	return (*x >> 24) % 7 == 0 ? 0 : (*x >> 16) % 61; /* pieces of nothing, too */
}

static void ways(enum dkim_canon c, struct str s, uint32_t seed)
{
	struct buf want = BUF_INIT(1 << 20), got = BUF_INIT(1 << 20);
	size_t n = s.n + 1, one = 1;
	canon(c, s, whole, &n, &want);
	canon(c, s, whole, &one, &got);
	must(str_eq(buf_str(&want), buf_str(&got)));
	for (unsigned bits = 0; s.n && s.n <= ALL_WAYS_MAX && bits < 1u << (s.n - 1); bits++) {
		unsigned b = bits;
		canon(c, s, by_bits, &b, &got);
		must(str_eq(buf_str(&want), buf_str(&got)));
	}
	for (size_t cut = 1; s.n > ALL_WAYS_MAX && s.n <= ONE_CUT_MAX && cut < s.n; cut++) {
		canon(c, s, one_cut, &cut, &got);
		must(str_eq(buf_str(&want), buf_str(&got)));
	}
	for (int i = 0; i < 4; i++) {
		canon(c, s, randomly, &seed, &got);
		must(str_eq(buf_str(&want), buf_str(&got)));
	}
	/* what is canonical stays as it is */
	if (c == DKIM_RELAXED) {
		struct buf again = BUF_INIT(1 << 20);
		n = want.n + 1;
		canon(c, buf_str(&want), whole, &n, &again);
		must(str_eq(buf_str(&want), buf_str(&again)));
		buf_free(&again);
	}
	buf_free(&want);
	buf_free(&got);
}

/* The hashes of l=0, l=some and no l= at all, by both canonicalisations. */
static void hashes(struct str s, uint64_t length, next_fn *next, void *arg, unsigned char ret[6][32])
{
	struct dkim_bodies b;
	size_t n;
	int h[6];
	dkim_bodies_init(&b);
	for (int i = 0; i < 6; i++)
		h[i] = dkim_bodies_want(&b, (enum dkim_canon)(i % 2), false, i >= 2, i >= 4 ? length : 0);
	for (size_t i = 0; i < s.n; i += n) {
		n = next(arg, i);
		n = n < s.n - i ? n : s.n - i;
		dkim_bodies_add(&b, s.p + i, n);
	}
	dkim_bodies_end(&b);
	for (int i = 0; i < 6; i++) {
		must(h[i] >= 0 && b.hash[h[i]].n_digest == 32);
		memcpy(ret[i], b.hash[h[i]].digest, 32);
	}
	dkim_bodies_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char a[6][32], b[6][32];
	if (!size || size > INPUT_MAX)
		return 0;
	uint32_t seed = data[0] * 2654435761u;
	struct str s = str_n((const char *)data + 1, size - 1);
	ways(DKIM_SIMPLE, s, seed);
	ways(DKIM_RELAXED, s, seed);
	size_t n = s.n + 1, one = 1;
	hashes(s, data[0] % 40, whole, &n, a);
	hashes(s, data[0] % 40, whole, &one, b);
	must(memcmp(a, b, sizeof a) == 0);
	hashes(s, data[0] % 40, randomly, &seed, b);
	must(memcmp(a, b, sizeof a) == 0);
	return 0;
}
