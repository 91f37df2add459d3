/* A server's exchange as such: life, limits, names, answers. What each mechanism says is in server_<mechanism>.c. */
#include "server_internal.h"

#include "prep.h"

#include <openssl/crypto.h>
#include <stdlib.h>

enum { KEPT_MAX = 4096 };

/* Copies into s->kept, whose room was taken before, so that nothing moves. */
static struct str keep(struct sasl_server *s, struct str v)
{
	size_t at = s->kept.n;
	return buf_adds(&s->kept, v) ? STR_NULL : str_n(s->kept.p + at, v.n);
}

/* A buffer for secrets takes all its room at once: growing would leave copies behind. */
static void secret(struct buf *b, size_t max)
{
	*b = BUF_INIT(max);
	buf_room(b, max);
}

struct sasl_server *sasl_server_make(const struct sasl_server_conf *conf)
{
	bool scram = conf->mech == SASL_SCRAM_SHA_256 || conf->mech == SASL_SCRAM_SHA_256_PLUS;
	struct sasl_server *s;
	if (conf->n_bindings > SASL_BINDINGS_MAX || (scram && (!sasl_nonce_ok(conf->nonce) || conf->dummy_key.n < 16)))
		return NULL;
	s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->mech = conf->mech;
	s->state = SASL_CHALLENGE; /* waits for a message */
	s->plus_offered = conf->plus_offered;
	s->dummy_iterations = conf->dummy_iterations ? conf->dummy_iterations : SCRAM_ITERATIONS;
	secret(&s->kept, KEPT_MAX);
	s->challenge = BUF_INIT(SASL_BLOB_MAX);
	s->name = BUF_INIT(4 * SASL_NAME_MAX);
	s->account = BUF_INIT(4 * SASL_NAME_MAX);
	s->gs2 = s->bare = s->server_first = s->full_nonce = BUF_INIT(SASL_BLOB_MAX);
	s->password = s->password_raw = s->token = BUF_INIT(0);
	if (scram) {
		s->nonce = keep(s, conf->nonce);
		s->dummy_key = keep(s, conf->dummy_key);
	}
	s->scope = keep(s, conf->scope);
	s->openid_configuration = keep(s, conf->openid_configuration);
	for (; s->n_bindings < conf->n_bindings; s->n_bindings++)
		s->bindings[s->n_bindings] = (struct sasl_binding){
			keep(s, conf->bindings[s->n_bindings].type),
			keep(s, conf->bindings[s->n_bindings].data),
		};
	if (s->kept.failed) {
		sasl_server_free(s);
		return NULL;
	}
	return s;
}

void sasl_server_free(struct sasl_server *s)
{
	if (!s)
		return;
	struct buf *all[] = { &s->kept, &s->challenge, &s->name, &s->password, &s->password_raw, &s->token, &s->account, &s->gs2,
		&s->bare, &s->server_first, &s->full_nonce, &s->one_form };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		buf_free_secret(all[i]);
	OPENSSL_cleanse(s, sizeof *s);
	free(s);
}

enum sasl_server_state sasl_server_fail(struct sasl_server *s, enum sasl_failure f, const char *reason)
{
	if (!s->failure) { /* the first cause counts */
		s->failure = f;
		s->reason = reason;
	}
	buf_free_secret(&s->password);
	buf_free_secret(&s->password_raw);
	buf_free_secret(&s->token);
	return s->state = SASL_FAIL;
}

enum sasl_server_state sasl_server_no_memory(struct sasl_server *s)
{
	return sasl_server_fail(s, SASL_F_LATER, "out of memory, or the cryptographic library failed");
}

enum sasl_server_state sasl_server_ask(struct sasl_server *s)
{
	if (s->challenge.failed)
		return sasl_server_no_memory(s);
	return s->state = SASL_CHALLENGE;
}

enum sasl_server_state sasl_server_need(struct sasl_server *s, enum sasl_server_state what)
{
	return s->state = what;
}

int sasl_server_take_name(struct sasl_server *s, struct str name)
{
	buf_reset(&s->name);
	if (name.n && name.n <= SASL_NAME_MAX && !sasl_prep(name, &s->name) && s->name.n <= SASL_NAME_MAX)
		return 0;
	buf_reset(&s->name);
	sasl_server_fail(s, SASL_F_CREDENTIALS, name.n > SASL_NAME_MAX ? "name too long" : "name is empty or not preparable");
	return -1;
}

int sasl_server_take_password(struct sasl_server *s, struct str password)
{
	if (!password.n || password.n > SASL_PASSWORD_MAX) {
		sasl_server_fail(s, SASL_F_CREDENTIALS, password.n ? "password longer than 1024 octets" : "empty password");
		return -1;
	}
	secret(&s->password, 4 * SASL_PASSWORD_MAX);
	secret(&s->password_raw, SASL_PASSWORD_MAX);
	if (buf_adds(&s->password_raw, password)) {
		sasl_server_no_memory(s);
		return -1;
	}
	if (sasl_prep(password, &s->password) || s->password.n > SASL_PASSWORD_MAX) {
		sasl_server_fail(s, SASL_F_CREDENTIALS, "password is not preparable");
		return -1;
	}
	return 0;
}

int sasl_server_take_authzid(struct sasl_server *s, struct str authzid)
{
	struct buf b = BUF_INIT(4 * SASL_NAME_MAX);
	bool same = !authzid.n ||
	    (authzid.n <= SASL_NAME_MAX && !sasl_prep(authzid, &b) && str_eq(buf_str(&b), buf_str(&s->name)));
	buf_free(&b);
	if (same)
		return 0;
	sasl_server_fail(s, SASL_F_IDENTITY, "authorization identity differs from the name");
	return -1;
}

static enum sasl_server_state first_challenge(struct sasl_server *s)
{
	if (s->mech == SASL_LOGIN)
		buf_addz(&s->challenge, "Username:");
	return sasl_server_ask(s); /* others: an empty one, "go ahead" (RFC 4422 §3.3) */
}

enum sasl_server_state sasl_server_feed(struct sasl_server *s, bool has, struct str blob)
{
	if (s->state != SASL_CHALLENGE)
		return s->state;
	buf_reset(&s->challenge);
	if (s->failing)
		return s->state = SASL_FAIL;
	if (!has) {
		if (s->step)
			return sasl_server_fail(s, SASL_F_MALFORMED, "response missing");
		return first_challenge(s);
	}
	if (blob.n > SASL_BLOB_MAX)
		return sasl_server_fail(s, SASL_F_MALFORMED, "message too long");
	s->step++;
	switch (s->mech) {
	case SASL_PLAIN:
		return sasl_plain_feed(s, blob);
	case SASL_LOGIN:
		return sasl_login_feed(s, blob);
	case SASL_EXTERNAL:
		return sasl_external_feed(s, blob);
	case SASL_SCRAM_SHA_256:
	case SASL_SCRAM_SHA_256_PLUS:
		return sasl_scram_feed(s, blob);
	case SASL_OAUTHBEARER:
	case SASL_XOAUTH2:
		return sasl_bearer_feed(s, blob);
	case SASL_MECHS:
		break;
	}
	return sasl_server_fail(s, SASL_F_MALFORMED, "no such mechanism");
}

enum sasl_server_state sasl_server_answer(struct sasl_server *s, enum sasl_answer a, struct str account)
{
	enum sasl_server_state asked = s->state;
	if (asked == SASL_CHALLENGE || asked == SASL_OK || asked == SASL_FAIL)
		return asked;
	if (a == SASL_LATER)
		return sasl_server_fail(s, SASL_F_LATER, "a backend cannot answer");
	if (asked == SASL_NEED_VERIFIER) /* wants a verifier, not a word */
		return sasl_scram_ask(s, NULL);
	if (a == SASL_NO) {
		if (asked == SASL_NEED_TOKEN)
			return sasl_bearer_refused(s);
		return sasl_server_fail(s, SASL_F_CREDENTIALS, "refused by the backend");
	}
	buf_reset(&s->account);
	if (buf_adds(&s->account, account.n ? account : buf_str(&s->name)) || !s->account.n)
		return sasl_server_no_memory(s);
	buf_free_secret(&s->password);
	buf_free_secret(&s->password_raw);
	buf_free_secret(&s->token);
	if (asked == SASL_NEED_ACCOUNT)
		return sasl_scram_accepted(s);
	return s->state = SASL_OK;
}

enum sasl_server_state sasl_server_verifier(struct sasl_server *s, const struct scram_verifier *v)
{
	return s->state == SASL_NEED_VERIFIER ? sasl_scram_ask(s, v) : s->state;
}

int sasl_server_one_form(struct sasl_server *s, struct str name)
{
	buf_free(&s->one_form);
	s->one_form = BUF_INIT(SASL_NAME_MAX);
	return buf_adds(&s->one_form, name);
}

enum sasl_server_state sasl_server_state(const struct sasl_server *s)
{
	return s->state;
}

struct str sasl_server_challenge(const struct sasl_server *s)
{
	return buf_str(&s->challenge);
}

struct str sasl_server_name(const struct sasl_server *s)
{
	return buf_str(&s->name);
}

struct str sasl_server_password(const struct sasl_server *s)
{
	return buf_str(&s->password);
}

struct str sasl_server_password_raw(const struct sasl_server *s)
{
	return buf_str(&s->password_raw);
}

struct str sasl_server_token(const struct sasl_server *s)
{
	return buf_str(&s->token);
}

struct str sasl_server_account(const struct sasl_server *s)
{
	return buf_str(&s->account);
}

enum sasl_failure sasl_server_failure(const struct sasl_server *s)
{
	return s->failure;
}

const char *sasl_server_reason(const struct sasl_server *s)
{
	return s->reason ? s->reason : "";
}
