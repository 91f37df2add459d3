/* OAUTHBEARER (RFC 7628) and XOAUTH2, which Google and Microsoft had before it: a token somebody else gave to the client. */
#include "server_internal.h"

/* b64token of RFC 6750 §2.1. */
static bool token_ok(struct str t)
{
	size_t i = 0;
	for (; i < t.n; i++) {
		char c = t.p[i];
		if (!ascii_is_alnum(c) && !memchr("-._~+/", c, 6))
			break;
	}
	if (!i)
		return false;
	for (; i < t.n; i++)
		if (t.p[i] != '=')
			return false;
	return true;
}

/* "Bearer <token>", the scheme in any case (RFC 7235 §2.1). */
static enum sasl_server_state take_token(struct sasl_server *s, struct str auth)
{
	if (!str_istarts(auth, STR("Bearer ")))
		return sasl_server_fail(s, SASL_F_MALFORMED, "no bearer token");
	auth = str_skip(auth, 7);
	while (auth.n && auth.p[0] == ' ')
		auth = str_skip(auth, 1);
	if (!token_ok(auth))
		return sasl_server_fail(s, SASL_F_MALFORMED, "token has other octets than tokens have");
	s->token = BUF_INIT(SASL_BLOB_MAX);
	if (!buf_room(&s->token, auth.n) || buf_adds(&s->token, auth))
		return sasl_server_no_memory(s);
	return sasl_server_need(s, SASL_NEED_TOKEN);
}

/* Next part up to ^A. 0, or -1: no ^A. */
static int part(struct str *rest, struct str *ret)
{
	ptrdiff_t at = str_chr(*rest, 1);
	if (at < 0)
		return -1;
	*ret = str_n(rest->p, (size_t)at);
	*rest = str_skip(*rest, (size_t)at + 1);
	return 0;
}

/* The key=value list ends with an empty part. *ret_auth: the value of auth; nothing else matters to us (host, port, mthd, …:
 * the listener knows where it is). */
static int pairs(struct str rest, struct str *ret_auth)
{
	struct str p;
	bool found = false;
	while (!part(&rest, &p)) {
		ptrdiff_t eq = str_chr(p, '=');
		if (!p.n)
			return found && !rest.n ? 0 : -1;
		if (eq < 1)
			return -1;
		for (ptrdiff_t i = 0; i < eq; i++) /* RFC 7628 §3.1: key is letters */
			if (!ascii_is_alpha(p.p[i]))
				return -1;
		if (str_eq(str_n(p.p, (size_t)eq), STR("auth"))) {
			if (found)
				return -1;
			*ret_auth = str_skip(p, (size_t)eq + 1);
			found = true;
		}
	}
	return -1;
}

static enum sasl_server_state oauthbearer(struct sasl_server *s, struct str blob)
{
	struct buf name = BUF_INIT(SASL_NAME_MAX);
	struct sasl_gs2 g;
	struct str first, auth;
	bool ok = !sasl_gs2_take(&blob, &g) && !part(&blob, &first) && !first.n && !pairs(blob, &auth);
	if (!ok)
		return sasl_server_fail(s, SASL_F_MALFORMED, "OAUTHBEARER: bad message");
	if (g.flag == 'p')
		return sasl_server_fail(s, SASL_F_BINDING, "OAUTHBEARER has no channel binding");
	if (g.authzid.n) {
		ok = !sasl_name_unescape(g.authzid, &name) && !sasl_server_take_name(s, buf_str(&name));
		buf_free(&name);
		if (!ok)
			return sasl_server_fail(s, SASL_F_CREDENTIALS, "OAUTHBEARER: bad name");
	}
	return take_token(s, auth);
}

static enum sasl_server_state xoauth2(struct sasl_server *s, struct str blob)
{
	struct str user, auth;
	if (part(&blob, &user) || !str_starts(user, STR("user=")) || pairs(blob, &auth))
		return sasl_server_fail(s, SASL_F_MALFORMED, "XOAUTH2: bad message");
	if (sasl_server_take_name(s, str_skip(user, 5)))
		return s->state;
	return take_token(s, auth);
}

enum sasl_server_state sasl_bearer_feed(struct sasl_server *s, struct str blob)
{
	return s->mech == SASL_OAUTHBEARER ? oauthbearer(s, blob) : xoauth2(s, blob);
}

/* The operator's text as a JSON string. */
static void put_json(struct buf *out, const char *key, struct str v)
{
	buf_addf(out, ",\"%s\":\"", key);
	for (size_t i = 0; i < v.n; i++) {
		unsigned char c = (unsigned char)v.p[i];
		if (c == '"' || c == '\\')
			buf_addc(out, '\\');
		if (c < 0x20)
			buf_addf(out, "\\u%04x", c);
		else
			buf_addc(out, (char)c);
	}
	buf_addc(out, '"');
}

enum sasl_server_state sasl_bearer_refused(struct sasl_server *s)
{
	sasl_server_fail(s, SASL_F_CREDENTIALS, "token refused");
	buf_reset(&s->challenge);
	if (s->mech == SASL_OAUTHBEARER)
		buf_addz(&s->challenge, "{\"status\":\"invalid_token\"");
	else
		buf_addz(&s->challenge, "{\"status\":\"401\",\"schemes\":\"bearer\"");
	if (s->scope.n)
		put_json(&s->challenge, "scope", s->scope);
	if (s->openid_configuration.n && s->mech == SASL_OAUTHBEARER)
		put_json(&s->challenge, "openid-configuration", s->openid_configuration);
	buf_addc(&s->challenge, '}');
	s->failing = true;
	return sasl_server_ask(s);
}
