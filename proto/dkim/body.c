/* Body hashes while the body arrives: each canonicalisation runs once, however many signatures want it, and equal hashes are
 * computed once. */
#include "dkim_internal.h"

EVP_MD_CTX *dkim_digest_new(bool sha1)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	if (ctx && EVP_DigestInit_ex(ctx, sha1 ? EVP_sha1() : EVP_sha256(), NULL) == 1)
		return ctx;
	EVP_MD_CTX_free(ctx);
	return NULL;
}

static void feed(struct dkim_bodies *b, enum dkim_canon c, const char *p, size_t n)
{
	b->total[c] += n;
	for (size_t i = 0; i < b->n; i++) {
		struct dkim_hash *h = &b->hash[i];
		size_t k = h->limited && h->left < n ? (size_t)h->left : n;
		if (h->canon != c || !k)
			continue;
		h->left -= h->limited ? k : 0;
		if (EVP_DigestUpdate(h->ctx, p, k) != 1)
			b->failed = true;
	}
}

static void simple_sink(void *arg, const char *p, size_t n)
{
	feed(arg, DKIM_SIMPLE, p, n);
}

static void relaxed_sink(void *arg, const char *p, size_t n)
{
	feed(arg, DKIM_RELAXED, p, n);
}

void dkim_bodies_init(struct dkim_bodies *b)
{
	memset(b, 0, sizeof *b);
	b->canon[DKIM_SIMPLE].canon = DKIM_SIMPLE;
	b->canon[DKIM_SIMPLE].out.sink = simple_sink;
	b->canon[DKIM_SIMPLE].out.arg = b;
	b->canon[DKIM_RELAXED].canon = DKIM_RELAXED;
	b->canon[DKIM_RELAXED].out.sink = relaxed_sink;
	b->canon[DKIM_RELAXED].out.arg = b;
}

void dkim_bodies_free(struct dkim_bodies *b)
{
	for (size_t i = 0; i < b->n; i++)
		EVP_MD_CTX_free(b->hash[i].ctx);
	b->n = 0;
}

int dkim_bodies_want(struct dkim_bodies *b, enum dkim_canon c, bool sha1, bool limited, uint64_t length)
{
	for (size_t i = 0; i < b->n; i++) {
		const struct dkim_hash *h = &b->hash[i];
		if (h->canon == c && h->sha1 == sha1 && h->limited == limited && h->length == length)
			return (int)i;
	}
	if (b->n == DKIM_HASHES_MAX)
		return -1;
	struct dkim_hash *h = &b->hash[b->n];
	*h = (struct dkim_hash){ .canon = c, .sha1 = sha1, .limited = limited, .length = length, .left = length };
	h->ctx = dkim_digest_new(sha1);
	if (!h->ctx)
		return -1;
	b->used[c] = true;
	return (int)b->n++;
}

void dkim_bodies_add(struct dkim_bodies *b, const char *p, size_t n)
{
	for (unsigned c = 0; c < 2; c++)
		if (b->used[c])
			dkim_canon_body_add(&b->canon[c], p, n);
}

void dkim_bodies_end(struct dkim_bodies *b)
{
	for (unsigned c = 0; c < 2; c++)
		if (b->used[c])
			dkim_canon_body_end(&b->canon[c]);
	for (size_t i = 0; i < b->n; i++) {
		unsigned n = 0;
		if (b->failed || EVP_DigestFinal_ex(b->hash[i].ctx, b->hash[i].digest, &n) != 1)
			n = 0;
		b->hash[i].n_digest = n;
	}
}
