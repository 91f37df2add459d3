/* Passwords and their digests; see password.h. libargon2 does the work; what goes into it is bounded here. */
#include "password.h"

#include "proto/sasl/prep.h"
#include "proto/sasl/scram.h"
#include "proto/wire/signin.h"

#include <argon2.h>
#include <stdio.h>
#include <sys/random.h>

enum {
	SALT = 16, HASH = 32,
	/* Of a digest that comes from the database: beyond these it is no digest but an attack. */
	MEMORY_MAX_KIB = 256 * 1024, PASSES_MAX = 20, LANES_MAX = 16,
	PREPARED_MAX = 4 * WIRE_SIGNIN_PASSWORD_MAX,
};

const char *password_fault(struct str password)
{
	struct buf out = BUF_INIT(PREPARED_MAX);
	if (!password.n)
		return "it is empty";
	if (password.n > WIRE_SIGNIN_PASSWORD_MAX)
		return "it is longer than 1024 octets";
	if (!str_is_utf8(password))
		return "it is not UTF-8";
	int bad = password_prepare(password, &out);
	buf_free_secret(&out);
	return bad ? "it holds a character that no password may have (a control character, or text of both directions)" : NULL;
}

int password_prepare(struct str password, struct buf *out)
{
	if (!buf_room(out, 4 * password.n)) /* at once: growing leaves copies */
		return -1;
	return sasl_prep(password, out);
}

static int random_octets(void *p, size_t n)
{
	return getrandom(p, n, 0) == (ssize_t)n ? 0 : -1;
}

int password_hash(struct str prepared, struct buf *out)
{
	unsigned char salt[SALT];
	char phc[PASSWORD_PHC_MAX];
	if (random_octets(salt, sizeof salt) ||
	    argon2id_hash_encoded(PASSWORD_PASSES, PASSWORD_MEMORY_KIB, PASSWORD_LANES, prepared.p, prepared.n, salt, sizeof salt, HASH, phc,
	        sizeof phc) != ARGON2_OK)
		return -1;
	return buf_addz(out, phc);
}

int password_scram(struct str password, struct buf *out)
{
	char salt[SCRAM_SALT];
	struct scram_verifier v;
	if (random_octets(salt, sizeof salt) || scram_verifier_make(password, str_n(salt, sizeof salt), SCRAM_ITERATIONS, &v))
		return -1;
	int r = scram_verifier_write(&v, out);
	scram_verifier_wipe(&v);
	return r;
}

/* "name=number" up to `end`, the number in 1..max. */
static bool parameter(struct str *rest, const char *name, char end, uint64_t max)
{
	size_t n = strlen(name);
	uint64_t v;
	ptrdiff_t at = str_chr(*rest, end);
	if (at < 0 || (size_t)at <= n || memcmp(rest->p, name, n) != 0 || str_u64(str_n(rest->p + n, (size_t)at - n), max, &v) || !v)
		return false;
	*rest = str_skip(*rest, (size_t)at + 1);
	return true;
}

static bool affordable(struct str phc)
{
	static const struct str head = STR_INIT("$argon2id$v=19$");
	struct str rest = str_skip(phc, head.n);
	return phc.n < PASSWORD_PHC_MAX && str_starts(phc, head) && str_chr(phc, 0) < 0 && parameter(&rest, "m=", ',', MEMORY_MAX_KIB) &&
	    parameter(&rest, "t=", ',', PASSES_MAX) && parameter(&rest, "p=", '$', LANES_MAX);
}

int password_verify(struct str phc, struct str prepared)
{
	char z[PASSWORD_PHC_MAX];
	if (!affordable(phc))
		return -1;
	memcpy(z, phc.p, phc.n);
	z[phc.n] = 0;
	int r = argon2id_verify(z, prepared.p, prepared.n);
	wire_signin_wipe(z, sizeof z);
	return r == ARGON2_OK ? 1 : r == ARGON2_VERIFY_MISMATCH ? 0 : -1;
}

static void base64(const unsigned char *in, size_t n, char *out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t acc = 0;
	unsigned bits = 0;
	for (size_t i = 0; i < n; i++) {
		acc = (acc << 8 | in[i]) & 0xffff;
		for (bits += 8; bits >= 6; bits -= 6)
			*out++ = digits[acc >> (bits - 6) & 63];
	}
	if (bits)
		*out++ = digits[acc << (6 - bits) & 63];
	*out = 0;
}

int password_dummy(char *out)
{
	unsigned char r[SALT + HASH];
	char salt[SALT * 2], hash[HASH * 2];
	if (random_octets(r, sizeof r))
		return -1;
	base64(r, SALT, salt);
	base64(r + SALT, HASH, hash); /* of no password: nobody finds one for 256 random bits */
	snprintf(out, PASSWORD_PHC_MAX, "$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", PASSWORD_MEMORY_KIB, PASSWORD_PASSES, PASSWORD_LANES, salt,
	    hash);
	return 0;
}
