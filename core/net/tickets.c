/* Ticket keys. The callback is called by OpenSSL within a handshake; the clock is looked at there, so no timer runs. */
#include "tickets.h"

#include "base/clock.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 2, NAME = 16, AES = 32, MAC = 32 };

struct ticket_key {
	unsigned char name[NAME], aes[AES], mac[MAC];
};

struct net_tickets {
	unsigned refs, n;
	int64_t born_us;             /* of the newest */
	struct ticket_key key[KEPT]; /* newest first */
};

int net_tickets_rotate(struct net_tickets *t)
{
	struct ticket_key fresh;
	if (RAND_bytes(fresh.name, NAME) != 1 || RAND_priv_bytes(fresh.aes, AES) != 1 || RAND_priv_bytes(fresh.mac, MAC) != 1)
		return -1;
	t->key[1] = t->key[0];
	t->key[0] = fresh;
	t->n = t->n < KEPT ? t->n + 1 : KEPT;
	t->born_us = clock_mono_us();
	OPENSSL_cleanse(&fresh, sizeof fresh);
	return 0;
}

struct net_tickets *net_tickets_new(void)
{
	struct net_tickets *t = calloc(1, sizeof *t);
	if (!t)
		return NULL;
	t->refs = 1;
	if (net_tickets_rotate(t)) {
		free(t);
		return NULL;
	}
	return t;
}

struct net_tickets *net_tickets_ref(struct net_tickets *t)
{
	if (t)
		t->refs++;
	return t;
}

void net_tickets_unref(struct net_tickets *t)
{
	if (!t || --t->refs)
		return;
	OPENSSL_cleanse(t, sizeof *t);
	free(t);
}

/* After long rest both keys may be too old for what they sealed. */
static void rotate_when_due(struct net_tickets *t)
{
	int64_t age = clock_mono_us() - t->born_us;
	if (age < NET_TICKETS_LIFE_S * US_PER_S)
		return;
	net_tickets_rotate(t); /* without random octets the old key goes on: better than no service */
	if (age >= 2 * (int64_t)NET_TICKETS_LIFE_S * US_PER_S) {
		OPENSSL_cleanse(&t->key[1], sizeof t->key[1]);
		t->n = 1;
	}
}

static int set_mac(EVP_MAC_CTX *mac, struct ticket_key *k)
{
	char digest[] = "SHA256";
	OSSL_PARAM p[] = { OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, k->mac, MAC),
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0), OSSL_PARAM_construct_end() };
	return EVP_MAC_CTX_set_params(mac, p);
}

/* SSL_CTX_set_tlsext_ticket_key_evp_cb(3): 1 go on, 2 opened but give a new one, 0 a full handshake, -1 failure. */
static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int seal)
{
	struct net_tickets *t = SSL_get_app_data(ssl);
	if (!t)
		return 0;
	rotate_when_due(t);
	if (seal) {
		struct ticket_key *k = &t->key[0];
		memcpy(name, k->name, NAME);
		if (RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) != 1 ||
		    EVP_EncryptInit_ex(cipher, EVP_aes_256_cbc(), NULL, k->aes, iv) != 1 || set_mac(mac, k) != 1)
			return -1;
		return 1;
	}
	for (unsigned i = 0; i < t->n; i++) {
		struct ticket_key *k = &t->key[i];
		if (CRYPTO_memcmp(name, k->name, NAME) != 0)
			continue;
		if (set_mac(mac, k) != 1 || EVP_DecryptInit_ex(cipher, EVP_aes_256_cbc(), NULL, k->aes, iv) != 1)
			return -1;
		return i ? 2 : 1;
	}
	return 0;
}

void net_tickets_use(SSL_CTX *ctx)
{
	SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, on_ticket);
}

void net_tickets_bind(struct net_tickets *t, SSL *ssl)
{
	SSL_set_app_data(ssl, t);
}
