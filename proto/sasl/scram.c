/* Keys, proofs and verifiers of SCRAM-SHA-256; see scram.h. */
#include "scram.h"

#include "base64.h"
#include "prep.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

static int hmac(struct str key, struct str a, struct str b, unsigned char *ret)
{
	struct buf m = BUF_INIT(64 * 1024);
	unsigned n = SCRAM_KEY;
	int r = -1;
	if (!buf_adds(&m, a) && !buf_adds(&m, b) &&
	    HMAC(EVP_sha256(), key.p, (int)key.n, (const unsigned char *)buf_z(&m), m.n, ret, &n))
		r = 0;
	buf_free_secret(&m);
	return r;
}

static struct str key_str(const unsigned char *p)
{
	return str_n((const char *)p, SCRAM_KEY);
}

static int sha256(const unsigned char *p, unsigned char *ret)
{
	return EVP_Digest(p, SCRAM_KEY, ret, NULL, EVP_sha256(), NULL) == 1 ? 0 : -1;
}

int scram_client_keys(struct str prepared, struct str salt, unsigned iterations, unsigned char *ret_client_key,
    unsigned char *ret_stored_key, unsigned char *ret_server_key)
{
	unsigned char salted[SCRAM_KEY];
	int r = -1;
	if (iterations > SCRAM_ITERATIONS_MAX || prepared.n > SASL_PREP_MAX * 4)
		return -1;
	if (PKCS5_PBKDF2_HMAC(prepared.p ? prepared.p : "", (int)prepared.n, (const unsigned char *)salt.p, (int)salt.n,
		(int)iterations, EVP_sha256(), SCRAM_KEY, salted) == 1 &&
	    !hmac(key_str(salted), STR("Client Key"), STR_NULL, ret_client_key) &&
	    !hmac(key_str(salted), STR("Server Key"), STR_NULL, ret_server_key) && !sha256(ret_client_key, ret_stored_key))
		r = 0;
	OPENSSL_cleanse(salted, sizeof salted);
	return r;
}

int scram_client_proof(const unsigned char *client_key, const unsigned char *stored_key, struct str auth_message,
    unsigned char *ret_proof)
{
	if (hmac(key_str(stored_key), auth_message, STR_NULL, ret_proof))
		return -1;
	for (unsigned i = 0; i < SCRAM_KEY; i++)
		ret_proof[i] ^= client_key[i];
	return 0;
}

int scram_server_signature(const unsigned char *server_key, struct str auth_message, unsigned char *ret_signature)
{
	return hmac(key_str(server_key), auth_message, STR_NULL, ret_signature);
}

int scram_proof_check(const unsigned char *stored_key, struct str auth_message, const unsigned char *proof)
{
	unsigned char key[SCRAM_KEY], hash[SCRAM_KEY];
	int r = -1;
	if (!hmac(key_str(stored_key), auth_message, STR_NULL, key)) {
		for (unsigned i = 0; i < SCRAM_KEY; i++)
			key[i] ^= proof[i];
		if (!sha256(key, hash))
			r = CRYPTO_memcmp(hash, stored_key, SCRAM_KEY) == 0;
	}
	OPENSSL_cleanse(key, sizeof key);
	OPENSSL_cleanse(hash, sizeof hash);
	return r;
}

int scram_verifier_make(struct str password, struct str salt, unsigned iterations, struct scram_verifier *ret)
{
	struct buf prepared = BUF_INIT(SASL_PREP_MAX * 4);
	unsigned char client_key[SCRAM_KEY];
	int r = -1;
	if (salt.n < SCRAM_SALT_MIN || salt.n > SCRAM_SALT_MAX || iterations < SCRAM_ITERATIONS_MIN ||
	    iterations > SCRAM_ITERATIONS_MAX)
		return -1;
	ret->iterations = iterations;
	ret->salt_n = salt.n;
	memcpy(ret->salt, salt.p, salt.n);
	if (!sasl_prep(password, &prepared))
		r = scram_client_keys(buf_str(&prepared), salt, iterations, client_key, ret->stored_key, ret->server_key);
	OPENSSL_cleanse(client_key, sizeof client_key);
	buf_free_secret(&prepared);
	return r;
}

int scram_verifier_dummy(struct str key, struct str name, unsigned iterations, struct scram_verifier *ret)
{
	unsigned char salt[SCRAM_KEY];
	*ret = (struct scram_verifier){ .iterations = iterations, .salt_n = SCRAM_SALT };
	if (hmac(key, STR("salt:"), name, salt) || hmac(key, STR("stored key:"), name, ret->stored_key) ||
	    hmac(key, STR("server key:"), name, ret->server_key))
		return -1;
	memcpy(ret->salt, salt, SCRAM_SALT);
	return 0;
}

/* Base64 of between min and max octets. 0 or -1. */
static int take_octets(struct str text, size_t min, size_t max, unsigned char *ret, size_t *ret_n)
{
	struct buf b = BUF_INIT(max + 3);
	int r = -1;
	if (text.n <= SASL_BASE64_SIZE(max) && !sasl_base64_decode(text, &b) && b.n >= min && b.n <= max) {
		memcpy(ret, b.p, b.n);
		*ret_n = b.n;
		r = 0;
	}
	buf_free_secret(&b);
	return r;
}

/* Cuts *rest at the first c. 0, or -1: there is none. */
static int cut(struct str *rest, char c, struct str *ret)
{
	ptrdiff_t at = str_chr(*rest, c);
	if (at < 0)
		return -1;
	*ret = str_n(rest->p, (size_t)at);
	*rest = str_skip(*rest, (size_t)at + 1);
	return 0;
}

int scram_verifier_parse(struct str text, struct scram_verifier *ret)
{
	struct scram_verifier v = { 0 };
	struct str name, iterations, salt, stored;
	uint64_t i;
	size_t n;
	int r = -1;
	if (text.n <= SCRAM_VERIFIER_TEXT_MAX && !cut(&text, '$', &name) && str_eq(name, STR("SCRAM-SHA-256")) &&
	    !cut(&text, ':', &iterations) && !cut(&text, '$', &salt) && !cut(&text, ':', &stored) &&
	    !str_u64(iterations, SCRAM_ITERATIONS_MAX, &i) && i >= SCRAM_ITERATIONS_MIN &&
	    !take_octets(salt, SCRAM_SALT_MIN, SCRAM_SALT_MAX, v.salt, &v.salt_n) &&
	    !take_octets(stored, SCRAM_KEY, SCRAM_KEY, v.stored_key, &n) &&
	    !take_octets(text, SCRAM_KEY, SCRAM_KEY, v.server_key, &n)) {
		v.iterations = (unsigned)i;
		*ret = v;
		r = 0;
	}
	scram_verifier_wipe(&v);
	return r;
}

int scram_verifier_write(const struct scram_verifier *v, struct buf *out)
{
	buf_addf(out, "SCRAM-SHA-256$%u:", v->iterations);
	sasl_base64_encode(str_n((const char *)v->salt, v->salt_n), out);
	buf_addc(out, '$');
	sasl_base64_encode(key_str(v->stored_key), out);
	buf_addc(out, ':');
	sasl_base64_encode(key_str(v->server_key), out);
	return out->failed ? -1 : 0;
}

int scram_verifier_check(const struct scram_verifier *v, struct str password)
{
	struct scram_verifier made = { 0 };
	struct buf prepared = BUF_INIT(SASL_PREP_MAX * 4);
	unsigned char client_key[SCRAM_KEY];
	/* what cannot be prepared is nobody's password, but takes the time of one */
	bool bad = sasl_prep(password, &prepared) != 0;
	int r = scram_client_keys(buf_str(&prepared), str_n((const char *)v->salt, v->salt_n), v->iterations, client_key,
	    made.stored_key, made.server_key);
	if (!r)
		r = !bad & (CRYPTO_memcmp(made.stored_key, v->stored_key, SCRAM_KEY) == 0);
	OPENSSL_cleanse(client_key, sizeof client_key);
	scram_verifier_wipe(&made);
	buf_free_secret(&prepared);
	return r;
}

void scram_verifier_wipe(struct scram_verifier *v)
{
	OPENSSL_cleanse(v, sizeof *v);
}
