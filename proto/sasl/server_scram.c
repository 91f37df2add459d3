/* SCRAM-SHA-256 and -PLUS, the server (RFC 5802 §3, §5, §6). What a client sends is either exactly of the grammar or refused;
 * of a name without account it learns nothing before the end, and there only "no". */
#include "base64.h"
#include "server_internal.h"

#include <openssl/crypto.h>

/* RFC 5802 §6: which form of binding the client chose, and whether somebody in between took a better one away. */
static int check_binding(struct sasl_server *s, const struct sasl_gs2 *g)
{
	bool plus = s->mech == SASL_SCRAM_SHA_256_PLUS;
	if (plus != (g->flag == 'p')) {
		sasl_server_fail(s, SASL_F_BINDING, plus ? "-PLUS without channel binding" : "channel binding without -PLUS");
		return -1;
	}
	if (g->flag == 'y' && s->plus_offered) {
		sasl_server_fail(s, SASL_F_BINDING, "the client saw no -PLUS on offer, but it was: somebody took it away");
		return -1;
	}
	for (size_t i = 0; plus && i < s->n_bindings; i++)
		if (str_eq(s->bindings[i].type, g->binding))
			s->binding = &s->bindings[i];
	if (plus && !s->binding) {
		sasl_server_fail(s, SASL_F_BINDING, "channel binding type is not available");
		return -1;
	}
	return 0;
}

static int take_names(struct sasl_server *s, struct str name, struct str authzid)
{
	struct buf b = BUF_INIT(SASL_NAME_MAX);
	int r = -1;
	if (sasl_name_unescape(name, &b)) {
		sasl_server_fail(s, SASL_F_MALFORMED, "SCRAM: bad name");
	} else if (!sasl_server_take_name(s, buf_str(&b))) {
		buf_reset(&b);
		if (sasl_name_unescape(authzid, &b))
			sasl_server_fail(s, SASL_F_MALFORMED, "SCRAM: bad authorization identity");
		else
			r = sasl_server_take_authzid(s, buf_str(&b));
	}
	buf_free(&b);
	return r;
}

static enum sasl_server_state client_first(struct sasl_server *s, struct str blob)
{
	struct sasl_gs2 g;
	struct str name, nonce, bare;
	if (sasl_gs2_take(&blob, &g))
		return sasl_server_fail(s, SASL_F_MALFORMED, "SCRAM: bad GS2 header");
	bare = blob;
	/* "m=", a mandatory extension nobody has defined, is refused here too: it is no "n=" */
	if (sasl_attribute_take(&blob, 'n', &name) || sasl_attribute_take(&blob, 'r', &nonce) || !nonce.n ||
	    nonce.n > SASL_NONCE_MAX)
		return sasl_server_fail(s, SASL_F_MALFORMED, "SCRAM: bad first message");
	for (size_t i = 0; i < nonce.n; i++)
		if (nonce.p[i] <= ' ' || nonce.p[i] > '~')
			return sasl_server_fail(s, SASL_F_MALFORMED, "SCRAM: bad nonce");
	if (check_binding(s, &g) || take_names(s, name, g.authzid))
		return s->state;
	if (buf_adds(&s->gs2, g.whole) || buf_adds(&s->bare, bare) || buf_adds(&s->full_nonce, nonce) ||
	    buf_adds(&s->full_nonce, s->nonce))
		return sasl_server_no_memory(s);
	return sasl_server_need(s, SASL_NEED_VERIFIER);
}

enum sasl_server_state sasl_scram_ask(struct sasl_server *s, const struct scram_verifier *v)
{
	struct scram_verifier dummy;
	struct str name = s->one_form.n ? buf_str(&s->one_form) : buf_str(&s->name);
	if (scram_verifier_dummy(s->dummy_key, name, s->dummy_iterations, &dummy))
		return sasl_server_no_memory(s);
	s->unknown = !v;
	s->verifier = v ? *v : dummy;
	buf_addf(&s->challenge, "r=%.*s,s=", STR_ARG(buf_str(&s->full_nonce)));
	sasl_base64_encode(str_n((const char *)s->verifier.salt, s->verifier.salt_n), &s->challenge);
	buf_addf(&s->challenge, ",i=%u", s->verifier.iterations);
	if (buf_adds(&s->server_first, buf_str(&s->challenge)))
		return sasl_server_no_memory(s);
	return sasl_server_ask(s);
}

/* Is the value of c= the header the client began with, and behind it the data of the binding? 1, 0, -1: memory. */
static int same_channel(struct sasl_server *s, struct str c)
{
	struct buf want = BUF_INIT(SASL_BLOB_MAX), text = BUF_INIT(2 * SASL_BLOB_MAX);
	int r = -1;
	buf_adds(&want, buf_str(&s->gs2));
	if (s->binding)
		buf_adds(&want, s->binding->data);
	if (!want.failed && !sasl_base64_encode(buf_str(&want), &text))
		r = str_eq_secret(buf_str(&text), c);
	buf_free_secret(&want);
	buf_free_secret(&text);
	return r;
}

/* The end of the message is ",p=proof"; what stands before it is signed. 0, or -1: malformed. */
static int take_proof(struct str blob, struct str *ret_without, unsigned char *ret_proof)
{
	enum { TEXT = SASL_BASE64_SIZE(SCRAM_KEY), TAIL = TEXT + 3 };
	struct buf b = BUF_INIT(SCRAM_KEY + 3);
	int r = -1;
	if (blob.n > TAIL && str_eq(str_n(blob.p + blob.n - TAIL, 3), STR(",p=")) &&
	    !sasl_base64_decode(str_skip(blob, blob.n - TEXT), &b) && b.n == SCRAM_KEY) {
		memcpy(ret_proof, b.p, SCRAM_KEY);
		*ret_without = str_n(blob.p, blob.n - TAIL);
		r = 0;
	}
	buf_free_secret(&b);
	return r;
}

static enum sasl_server_state client_final(struct sasl_server *s, struct str blob)
{
	struct buf message = BUF_INIT(4 * SASL_BLOB_MAX);
	unsigned char proof[SCRAM_KEY];
	struct str without, rest, c, r;
	int same, ok;
	if (take_proof(blob, &without, proof))
		return sasl_server_fail(s, SASL_F_MALFORMED, "SCRAM: no proof");
	rest = without;
	if (sasl_attribute_take(&rest, 'c', &c) || sasl_attribute_take(&rest, 'r', &r))
		return sasl_server_fail(s, SASL_F_MALFORMED, "SCRAM: bad final message");
	if (!str_eq(r, buf_str(&s->full_nonce)))
		return sasl_server_fail(s, SASL_F_CREDENTIALS, "SCRAM: another nonce");
	same = same_channel(s, c);
	buf_adds(&message, buf_str(&s->bare));
	buf_addc(&message, ',');
	buf_adds(&message, buf_str(&s->server_first));
	buf_addc(&message, ',');
	buf_adds(&message, without);
	ok = message.failed ? -1 : scram_proof_check(s->verifier.stored_key, buf_str(&message), proof);
	if (ok >= 0 && scram_server_signature(s->verifier.server_key, buf_str(&message), s->signature))
		ok = -1;
	buf_free(&message);
	OPENSSL_cleanse(proof, sizeof proof);
	if (same < 0 || ok < 0)
		return sasl_server_no_memory(s);
	if (!same)
		return sasl_server_fail(s, SASL_F_BINDING, "another channel: somebody is in between");
	if (!ok || s->unknown)
		return sasl_server_fail(s, SASL_F_CREDENTIALS, s->unknown ? "no such account" : "wrong password");
	return sasl_server_need(s, SASL_NEED_ACCOUNT);
}

enum sasl_server_state sasl_scram_accepted(struct sasl_server *s)
{
	buf_addz(&s->challenge, "v=");
	sasl_base64_encode(str_n((const char *)s->signature, SCRAM_KEY), &s->challenge);
	return sasl_server_ask(s);
}

enum sasl_server_state sasl_scram_feed(struct sasl_server *s, struct str blob)
{
	switch (s->step) {
	case 1:
		return client_first(s, blob);
	case 2:
		return client_final(s, blob);
	default: /* behind the server's signature there is nothing more to say */
		if (blob.n)
			return sasl_server_fail(s, SASL_F_MALFORMED, "SCRAM: something behind the end");
		return s->state = SASL_OK;
	}
}
