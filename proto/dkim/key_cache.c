/* Keys that were read before, kept as OpenSSL has them: half of what a common signature costs beside its arithmetic is to make a key out of the
 * same octets again. Belongs to whoever owns the evaluators, one thread; bounded in number and octets. Which key may count for what is
 * not decided here: key.c asks that of each record anew. */
#include "dkim_internal.h"

#include <stdlib.h>

enum {
	KEYS = 256,            /* senders of most of a site's mail; looked through as a list: a comparison of two numbers each */
	KEY_TEXT_MAX = 2048,   /* octets of p=: RSA of 4096 bits has 740; longer ones are not kept */
};

struct kept {
	uint64_t hash, used;
	struct str text;       /* p= as it stands in the record */
	bool ed25519;
	unsigned bits;
	struct dkim_pkey *pkey;
};

struct dkim_keys {
	struct kept key[KEYS];
	size_t n;
	uint64_t clock;
};

struct dkim_pkey *dkim_pkey_new(EVP_PKEY *key)
{
	struct dkim_pkey *k = key ? malloc(sizeof *k) : NULL;
	if (k)
		*k = (struct dkim_pkey){ .refs = 1, .key = key };
	else
		EVP_PKEY_free(key);
	return k;
}

struct dkim_pkey *dkim_pkey_ref(struct dkim_pkey *k)
{
	k->refs++;
	return k;
}

void dkim_pkey_unref(struct dkim_pkey *k)
{
	if (!k || --k->refs)
		return;
	EVP_PKEY_CTX_free(k->prepared);
	EVP_PKEY_free(k->key);
	free(k);
}

struct dkim_keys *dkim_keys_new(void)
{
	return calloc(1, sizeof(struct dkim_keys));
}

static void drop(struct kept *k)
{
	dkim_pkey_unref(k->pkey);
	free((char *)(uintptr_t)k->text.p);
	*k = (struct kept){ 0 };
}

void dkim_keys_free(struct dkim_keys *keys)
{
	for (size_t i = 0; keys && i < keys->n; i++)
		drop(&keys->key[i]);
	free(keys);
}

static uint64_t hash_of(struct str text)
{
	uint64_t h = 14695981039346656037u; /* FNV-1a: equal ones are compared, octet by octet */
	for (size_t i = 0; i < text.n; i++)
		h = (h ^ (unsigned char)text.p[i]) * 1099511628211u;
	return h;
}

struct dkim_pkey *dkim_keys_get(struct dkim_keys *keys, struct str text, bool ed25519, unsigned *ret_bits)
{
	if (!keys || text.n > KEY_TEXT_MAX)
		return NULL;
	uint64_t h = hash_of(text);
	for (size_t i = 0; i < keys->n; i++) {
		struct kept *k = &keys->key[i];
		if (k->hash != h || k->ed25519 != ed25519 || !str_eq(k->text, text))
			continue;
		k->used = ++keys->clock;
		*ret_bits = k->bits;
		return dkim_pkey_ref(k->pkey);
	}
	return NULL;
}

void dkim_keys_put(struct dkim_keys *keys, struct str text, bool ed25519, unsigned bits, struct dkim_pkey *pkey)
{
	if (!keys || text.n > KEY_TEXT_MAX)
		return;
	char *copy = str_dupz(text);
	if (!copy)
		return;
	struct kept *k = &keys->key[0];
	if (keys->n < KEYS)
		k = &keys->key[keys->n++];
	else
		for (size_t i = 1; i < KEYS; i++) /* the one that was not used for the longest time gives way */
			k = keys->key[i].used < k->used ? &keys->key[i] : k;
	drop(k);
	*k = (struct kept){ .hash = hash_of(text), .used = ++keys->clock, .text = str_n(copy, text.n), .ed25519 = ed25519, .bits = bits,
		.pkey = dkim_pkey_ref(pkey) };
}
