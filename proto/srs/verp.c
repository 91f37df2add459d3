/* Return addresses that are bound to a recipient; see verp.h. */
#include "verp.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <string.h>

enum { MAC = 32, ADDRESS_MAX = 1024 };

static const char base32[] = "abcdefghijklmnopqrstuvwxyz234567"; /* RFC 4648 §6, in lower case: a user's letters are no forgery then */

static int mac(struct str key, struct str text, unsigned char ret[MAC])
{
	size_t n = 0;
	return EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, key.p, key.n, (const unsigned char *)text.p, text.n, ret, MAC, &n) && n == MAC ? 0 : -1;
}

/* The ring's keys for this purpose: *d is s with them; room is where they are, to be wiped. */
static int derive(const struct srs *s, const char *purpose, struct srs *d, unsigned char room[2][MAC])
{
	*d = *s;
	for (int i = 0; i < 2; i++) {
		if (!s->keys[i].n)
			continue;
		if (mac(s->keys[i], str_from(purpose), room[i]))
			return -1;
		d->keys[i] = str_n((const char *)room[i], MAC);
	}
	return 0;
}

static void put_lower(struct buf *b, struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		buf_addc(b, s.p[i] >= 'A' && s.p[i] <= 'Z' ? (char)(s.p[i] + 32) : s.p[i]);
}

static int bind(struct str key, struct str recipient, char ret[VERP_BIND + 1])
{
	unsigned char m[MAC];
	struct buf b = BUF_INIT(4 * ADDRESS_MAX);
	put_lower(&b, recipient);
	int r = b.failed || mac(key, buf_str(&b), m) ? -1 : 0;
	for (unsigned i = 0; !r && i < VERP_BIND; i++) { /* five bits each */
		unsigned bit = i * 5, two = (unsigned)m[bit / 8] << 8 | m[bit / 8 + 1];
		ret[i] = base32[two >> (11 - bit % 8) & 31];
	}
	ret[VERP_BIND] = 0;
	buf_free(&b);
	return r;
}

static bool dot_string(struct str local)
{
	for (size_t i = 0; i < local.n; i++)
		if ((unsigned char)local.p[i] <= ' ' || strchr("\"(),:;<>@[\\]", local.p[i]))
			return false;
	return local.n && local.p[0] != '.' && local.p[local.n - 1] != '.';
}

int verp_make(const struct srs *s, struct str sender, struct str recipient, int64_t now, struct buf *out)
{
	unsigned char room[2][MAC], bound[2][MAC];
	struct srs d, k;
	struct buf inner = BUF_INIT(ADDRESS_MAX);
	char b[VERP_BIND + 1];
	size_t at = sender.n, before = out->n;
	while (at && sender.p[at - 1] != '@')
		at--;
	int r = SRS_BAD_ADDRESS;
	if (!at || !dot_string(str_n(sender.p, at - 1)))
		return r;
	if (!s->keys[0].n)
		return SRS_KEY;
	if (derive(s, "verp return", &d, room) || derive(s, "verp recipient", &k, bound) || bind(k.keys[0], recipient, b)) {
		r = SRS_MEMORY;
	} else {
		buf_addf(&inner, "%s-", b);
		buf_adds(&inner, sender);
		r = inner.failed ? SRS_BAD_ADDRESS : srs_forward(&d, buf_str(&inner), now, out);
		if (r == SRS_UNCHANGED) { /* a sender of that very domain: nobody lives there */
			out->n = before;
			r = SRS_BAD_ADDRESS;
		}
	}
	OPENSSL_cleanse(room, sizeof room);
	OPENSSL_cleanse(bound, sizeof bound);
	buf_free(&inner);
	return r;
}

int verp_read(const struct srs *s, struct str address, int64_t now, struct buf *out, struct verp *ret)
{
	unsigned char room[2][MAC];
	struct srs d;
	struct buf inner = BUF_INIT(ADDRESS_MAX);
	int r = derive(s, "verp return", &d, room) ? SRS_MEMORY : srs_reverse(&d, address, now, &inner);
	struct str text = buf_str(&inner);
	if (r == SRS_KEPT || (r == SRS_OK && (text.n <= VERP_BIND + 1 || text.p[VERP_BIND] != '-')))
		r = SRS_MALFORMED; /* none of ours is so */
	if (r == SRS_OK) {
		memcpy(ret->bind, text.p, VERP_BIND);
		ret->bind[VERP_BIND] = 0;
		for (char *p = ret->bind; *p; p++) /* a relay may have folded the whole local part */
			*p = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p;
		r = buf_adds(out, str_skip(text, VERP_BIND + 1)) ? SRS_MEMORY : SRS_OK;
	}
	OPENSSL_cleanse(room, sizeof room);
	buf_free(&inner);
	return r;
}

int verp_recipient(const struct srs *s, struct str recipient, struct verp_recipient *ret)
{
	unsigned char bound[2][MAC];
	struct srs k;
	int r = derive(s, "verp recipient", &k, bound) ? SRS_MEMORY : SRS_OK;
	ret->n = 0;
	for (int i = 0; i < 2 && !r; i++)
		if (k.keys[i].n)
			r = bind(k.keys[i], recipient, ret->bind[ret->n++]) ? SRS_MEMORY : SRS_OK;
	if (r)
		ret->n = 0;
	OPENSSL_cleanse(bound, sizeof bound);
	return r;
}

bool verp_is_for(const struct verp *v, const struct verp_recipient *r)
{
	bool is = false;
	for (size_t i = 0; i < r->n; i++)
		is |= CRYPTO_memcmp(r->bind[i], v->bind, VERP_BIND) == 0;
	return is;
}

bool verp_fits(const struct srs *s, const struct verp *v, struct str recipient)
{
	struct verp_recipient r;
	return !verp_recipient(s, recipient, &r) && verp_is_for(v, &r);
}
