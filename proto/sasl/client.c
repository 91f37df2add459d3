/* The client of client.h. Iterations are bounded: a server must not make us compute for minutes. */
#include "client.h"

#include "base64.h"
#include "prep.h"
#include "scram.h"
#include "server_internal.h"

#include <openssl/crypto.h>
#include <stdlib.h>

enum { CLIENT_ITERATIONS_MAX = 1000000 }; /* some hundred milliseconds */

struct sasl_client {
	struct sasl_client_conf conf; /* strings in `kept` */
	struct buf kept, name, password;
	unsigned step;
	bool done;
	struct buf gs2, bare, error;
	unsigned char signature[SCRAM_KEY];
};

static struct str keep(struct sasl_client *c, struct str v)
{
	size_t at = c->kept.n;
	return buf_adds(&c->kept, v) ? STR_NULL : str_n(c->kept.p + at, v.n);
}

static bool scram(enum sasl_mech m)
{
	return m == SASL_SCRAM_SHA_256 || m == SASL_SCRAM_SHA_256_PLUS;
}

static bool needs_password(enum sasl_mech m)
{
	return scram(m) || m == SASL_PLAIN || m == SASL_LOGIN;
}

static bool no_nul(struct str s)
{
	return str_chr(s, 0) < 0;
}

static bool fits(const struct sasl_client_conf *f)
{
	bool bearer = f->mech == SASL_OAUTHBEARER || f->mech == SASL_XOAUTH2;
	if (f->name.n > SASL_NAME_MAX || f->authzid.n > SASL_NAME_MAX || f->password.n > SASL_PASSWORD_MAX || f->host.n > 255 ||
	    f->token.n > SASL_BLOB_MAX / 2 || f->binding.type.n > 64 || f->binding.data.n > 128)
		return false;
	if (!no_nul(f->name) || !no_nul(f->authzid) || !no_nul(f->password) || !no_nul(f->token))
		return false;
	if (needs_password(f->mech) && (!f->name.n || !f->password.n))
		return false;
	if (bearer && (!f->token.n || str_chr(f->token, 1) >= 0 || str_chr(f->name, 1) >= 0))
		return false;
	if (f->mech == SASL_XOAUTH2 && !f->name.n)
		return false;
	return !scram(f->mech) || (sasl_nonce_ok(f->nonce) && (f->mech == SASL_SCRAM_SHA_256 || f->binding.type.n));
}

struct sasl_client *sasl_client_make(const struct sasl_client_conf *conf)
{
	struct sasl_client *c;
	if (!fits(conf) || !(c = calloc(1, sizeof *c)))
		return NULL;
	c->kept = BUF_INIT(SASL_BLOB_MAX);
	c->name = BUF_INIT(4 * SASL_NAME_MAX);
	c->password = BUF_INIT(4 * SASL_PASSWORD_MAX);
	c->gs2 = c->bare = c->error = BUF_INIT(SASL_BLOB_MAX);
	buf_room(&c->kept, SASL_BLOB_MAX); /* secrets: no copies left behind by growing */
	buf_room(&c->password, 4 * SASL_PASSWORD_MAX);
	c->conf = *conf;
	c->conf.name = keep(c, conf->name);
	c->conf.authzid = keep(c, conf->authzid);
	c->conf.password = keep(c, conf->password);
	c->conf.token = keep(c, conf->token);
	c->conf.nonce = keep(c, conf->nonce);
	c->conf.binding.type = keep(c, conf->binding.type);
	c->conf.binding.data = keep(c, conf->binding.data);
	c->conf.host = keep(c, conf->host);
	if (c->kept.failed || (scram(conf->mech) && (sasl_prep(conf->name, &c->name) || sasl_prep(conf->password, &c->password)))) {
		sasl_client_free(c);
		return NULL;
	}
	return c;
}

void sasl_client_free(struct sasl_client *c)
{
	if (!c)
		return;
	struct buf *all[] = { &c->kept, &c->name, &c->password, &c->gs2, &c->bare, &c->error };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		buf_free_secret(all[i]);
	OPENSSL_cleanse(c, sizeof *c);
	free(c);
}

static int failed(struct sasl_client *c, struct str why)
{
	c->done = false; /* whatever was proved before: an exchange that went on is none to believe */
	buf_reset(&c->error);
	buf_adds(&c->error, why);
	return -1;
}

static void put_gs2(struct sasl_client *c)
{
	if (c->conf.mech == SASL_SCRAM_SHA_256_PLUS)
		buf_addf(&c->gs2, "p=%.*s,", STR_ARG(c->conf.binding.type));
	else
		buf_addz(&c->gs2, scram(c->conf.mech) && c->conf.could_bind ? "y," : "n,");
	struct str as = c->conf.authzid.n || scram(c->conf.mech) ? c->conf.authzid : c->conf.name;
	if (as.n) {
		buf_addz(&c->gs2, "a=");
		sasl_name_escape(as, &c->gs2);
	}
	buf_addc(&c->gs2, ',');
}

static void scram_first(struct sasl_client *c, struct buf *out)
{
	put_gs2(c);
	buf_addz(&c->bare, "n=");
	sasl_name_escape(buf_str(&c->name), &c->bare);
	buf_addz(&c->bare, ",r=");
	buf_adds(&c->bare, c->conf.nonce);
	buf_adds(out, buf_str(&c->gs2));
	buf_adds(out, buf_str(&c->bare));
}

static void bearer_first(struct sasl_client *c, struct buf *out)
{
	if (c->conf.mech == SASL_XOAUTH2) {
		buf_addz(out, "user=");
		buf_adds(out, c->conf.name);
	} else {
		put_gs2(c);
		buf_adds(out, buf_str(&c->gs2));
		if (c->conf.host.n) {
			buf_addz(out, "\1host=");
			buf_adds(out, c->conf.host);
		}
		if (c->conf.port)
			buf_addf(out, "\1port=%u", c->conf.port);
	}
	buf_addz(out, "\1auth=Bearer ");
	buf_adds(out, c->conf.token);
	buf_addz(out, "\1\1");
	c->done = true;
}

int sasl_client_first(struct sasl_client *c, struct buf *out)
{
	switch (c->conf.mech) {
	case SASL_LOGIN:
		return 0;
	case SASL_PLAIN:
		buf_adds(out, c->conf.authzid);
		buf_addc(out, 0);
		buf_adds(out, c->conf.name);
		buf_addc(out, 0);
		buf_adds(out, c->conf.password);
		c->done = true;
		break;
	case SASL_EXTERNAL:
		buf_adds(out, c->conf.authzid);
		c->done = true;
		break;
	case SASL_SCRAM_SHA_256:
	case SASL_SCRAM_SHA_256_PLUS:
		scram_first(c, out);
		break;
	case SASL_OAUTHBEARER:
	case SASL_XOAUTH2:
		bearer_first(c, out);
		break;
	case SASL_MECHS:
		return -1;
	}
	c->step = 1;
	return out->failed || c->gs2.failed || c->bare.failed ? -1 : 1;
}

/* "r=…,s=…,i=…" → "c=…,r=…,p=…" (RFC 5802 §3). */
static int scram_final(struct sasl_client *c, struct str challenge, struct buf *out)
{
	struct buf salt = BUF_INIT(256), cbind = BUF_INIT(SASL_BLOB_MAX), message = BUF_INIT(4 * SASL_BLOB_MAX);
	unsigned char client_key[SCRAM_KEY], stored_key[SCRAM_KEY], server_key[SCRAM_KEY], proof[SCRAM_KEY];
	struct str rest = challenge, nonce, salt64, count;
	uint64_t iterations;
	size_t begin = out->n;
	int r = -1;
	if (sasl_attribute_take(&rest, 'r', &nonce) || sasl_attribute_take(&rest, 's', &salt64) ||
	    sasl_attribute_take(&rest, 'i', &count))
		return failed(c, STR("SCRAM: bad challenge"));
	if (!str_starts(nonce, c->conf.nonce) || nonce.n <= c->conf.nonce.n)
		return failed(c, STR("SCRAM: the nonce is not ours"));
	if (str_u64(count, CLIENT_ITERATIONS_MAX, &iterations) || iterations < SCRAM_ITERATIONS_MIN)
		return failed(c, STR("SCRAM: iterations out of bounds"));
	buf_adds(&cbind, buf_str(&c->gs2));
	if (c->conf.mech == SASL_SCRAM_SHA_256_PLUS)
		buf_adds(&cbind, c->conf.binding.data);
	buf_addz(out, "c=");
	sasl_base64_encode(buf_str(&cbind), out);
	buf_addz(out, ",r=");
	buf_adds(out, nonce);
	buf_adds(&message, buf_str(&c->bare));
	buf_addc(&message, ',');
	buf_adds(&message, challenge);
	buf_addc(&message, ',');
	if (!out->failed)
		buf_add(&message, out->p + begin, out->n - begin);
	if (!sasl_base64_decode(salt64, &salt) && salt.n && !cbind.failed && !out->failed && !message.failed &&
	    !scram_client_keys(buf_str(&c->password), buf_str(&salt), (unsigned)iterations, client_key, stored_key,
		server_key) &&
	    !scram_client_proof(client_key, stored_key, buf_str(&message), proof) &&
	    !scram_server_signature(server_key, buf_str(&message), c->signature)) {
		buf_addz(out, ",p=");
		r = sasl_base64_encode(str_n((const char *)proof, SCRAM_KEY), out);
	}
	buf_free(&salt);
	buf_free(&cbind);
	buf_free(&message);
	OPENSSL_cleanse(client_key, sizeof client_key);
	OPENSSL_cleanse(stored_key, sizeof stored_key);
	OPENSSL_cleanse(server_key, sizeof server_key);
	return r ? failed(c, STR("SCRAM: bad challenge, or out of memory")) : 0;
}

/* "v=…": the server has our verifier. */
static int scram_end(struct sasl_client *c, struct str challenge)
{
	struct buf b = BUF_INIT(SCRAM_KEY + 3);
	struct str v;
	bool ok = !sasl_attribute_take(&challenge, 'v', &v) && !sasl_base64_decode(v, &b) && b.n == SCRAM_KEY &&
	    CRYPTO_memcmp(b.p, c->signature, SCRAM_KEY) == 0;
	buf_free(&b);
	if (!ok)
		return failed(c, STR("SCRAM: the server does not know the password"));
	c->done = true;
	return 0;
}

static int login(struct sasl_client *c, struct buf *out)
{
	/* prompts differ from server to server; what counts is their order */
	if (c->step == 1)
		return buf_adds(out, c->conf.name);
	if (c->step > 2)
		return failed(c, STR("LOGIN: a third question"));
	c->done = true;
	return buf_adds(out, c->conf.password);
}

int sasl_client_answer(struct sasl_client *c, struct str challenge, struct buf *out)
{
	bool begun = c->step > 0;
	if (challenge.n > SASL_BLOB_MAX)
		return failed(c, STR("challenge too long"));
	if (c->conf.mech == SASL_LOGIN) {
		c->step++;
		return login(c, out);
	}
	if (!begun) /* the initial response was not sent along: this asks for it */
		return challenge.n ? failed(c, STR("a challenge before the client began")) : sasl_client_first(c, out) == 1 ? 0 : -1;
	c->step++;
	if (scram(c->conf.mech)) {
		if (c->step == 2)
			return scram_final(c, challenge, out);
		return c->step == 3 ? scram_end(c, challenge) : failed(c, STR("SCRAM: a third challenge"));
	}
	failed(c, challenge.n ? challenge : STR("a challenge where none belongs"));
	if (c->step == 2 && c->conf.mech == SASL_OAUTHBEARER) /* the token was refused: RFC 7628 §3.2.3 */
		return buf_addc(out, 1);
	return c->step == 2 && c->conf.mech == SASL_XOAUTH2 ? 0 : -1;
}

bool sasl_client_over(const struct sasl_client *c)
{
	return c->done;
}

struct str sasl_client_error(const struct sasl_client *c)
{
	return buf_str(&c->error);
}

int sasl_client_choose(struct str offer, bool password, bool token, bool binding, bool external, enum sasl_mech *ret,
    bool *ret_could_bind)
{
	enum sasl_mech m, best = SASL_MECHS;
	bool plus = false;
	struct str word;
	while (str_word(&offer, " \t", &word)) {
		if (sasl_mech_parse(word, &m))
			continue;
		plus = plus || m == SASL_SCRAM_SHA_256_PLUS;
		bool can = m == SASL_EXTERNAL ? external : needs_password(m) ? password : token;
		if (can && (m != SASL_SCRAM_SHA_256_PLUS || binding) && m < best)
			best = m;
	}
	if (best == SASL_MECHS)
		return -1;
	*ret = best;
	*ret_could_bind = binding && !plus && best == SASL_SCRAM_SHA_256;
	return 0;
}
