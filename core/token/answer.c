/* What a token endpoint says (RFC 6749 §5), and the form it is asked with. Text in, text out; the answer is a stranger's. */
#include "token.h"

#include <json-c/json.h>
#include <openssl/crypto.h>
#include <stdio.h>

enum { DEPTH = 8, LIFE_DEFAULT_S = 3600, LIFE_MAX_S = 366 * 86400 };

bool token_ok(struct str t)
{
	for (size_t i = 0; i < t.n; i++)
		if (t.p[i] <= ' ' || t.p[i] > '~')
			return false;
	return t.n && t.n <= TOKEN_MAX;
}

void token_form_add(struct buf *form, const char *name, struct str value)
{
	static const char hex[] = "0123456789ABCDEF";
	if (form->n)
		buf_addc(form, '&');
	buf_addz(form, name);
	buf_addc(form, '=');
	for (size_t i = 0; i < value.n; i++) {
		unsigned char c = (unsigned char)value.p[i];
		if (ascii_is_alnum((char)c) || (c && strchr("-._~", c))) {
			buf_addc(form, (char)c);
		} else {
			buf_addc(form, '%');
			buf_addc(form, hex[c >> 4]);
			buf_addc(form, hex[c & 15]);
		}
	}
}

static struct str text(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;
	if (!json_object_object_get_ex(o, key, &v) || !json_object_is_type(v, json_type_string))
		return STR_NULL;
	return str_n(json_object_get_string(v), (size_t)json_object_get_string_len(v));
}

/* A number, or text that is one: both are met. */
static int64_t seconds(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;
	uint64_t n = 0;
	if (!json_object_object_get_ex(o, key, &v))
		return 0;
	if (json_object_is_type(v, json_type_string))
		(void)str_u64(text(o, key), LIFE_MAX_S, &n);
	else if (json_object_is_type(v, json_type_int) && json_object_get_int64(v) > 0)
		n = (uint64_t)json_object_get_int64(v);
	return n > LIFE_MAX_S ? LIFE_MAX_S : (int64_t)n;
}

static void wipe(struct json_object *o, const char *key)
{
	struct str s = text(o, key);
	if (s.n)
		OPENSSL_cleanse((char *)(uintptr_t)s.p, s.n);
}

/* RFC 6749 §5.2, for who sees such a code for the first time and no words with it. */
static struct str meaning(struct str code)
{
	return str_eq(code, STR("invalid_client"))    ? STR("the provider does not know the application, or its secret is another one (CLIENT_ID, CLIENT_SECRET)") :
	    str_eq(code, STR("invalid_grant"))        ? STR("the provider does not take the refresh token, or the code: expired, revoked, or given to another application") :
	    str_eq(code, STR("unauthorized_client"))  ? STR("the provider does not let the application do this: look at its registration there") :
	    str_eq(code, STR("invalid_scope"))        ? STR("the provider does not give what SCOPE asks for") :
	    str_eq(code, STR("interaction_required")) || str_eq(code, STR("login_required")) ? STR("somebody must sign in again: pepsi token sign-in") :
							STR_NULL;
}

static void put_error(char out[TOKEN_ERROR_MAX + 1], struct str code, struct str words, long status)
{
	if (!words.n)
		words = meaning(code);
	int n = snprintf(out, TOKEN_ERROR_MAX + 1, "%.*s%s%.*s", STR_ARG(code), code.n && words.n ? ": " : "", STR_ARG(words));
	if (n == 0)
		snprintf(out, TOKEN_ERROR_MAX + 1, "the provider answers with HTTP status %ld", status);
	for (char *p = out; *p; p++)
		if ((unsigned char)*p < 32 || (unsigned char)*p > 126)
			*p = ' ';
}

int token_answer_parse(struct str body, long status, struct token_answer *ret)
{
	struct json_tokener *tok = json_tokener_new_ex(DEPTH);
	struct json_object *o = NULL;
	int r = -1;
	*ret = (struct token_answer){ .access = BUF_INIT(TOKEN_MAX), .refresh = BUF_INIT(TOKEN_MAX) };
	if (tok && body.n <= TOKEN_ANSWER_MAX) {
		json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
		o = json_tokener_parse_ex(tok, body.p ? body.p : "", (int)body.n);
	}
	if (tok)
		json_tokener_free(tok);
	if (o && !json_object_is_type(o, json_type_object)) {
		json_object_put(o);
		o = NULL;
	}
	struct str access = o ? text(o, "access_token") : STR_NULL, refresh = o ? text(o, "refresh_token") : STR_NULL, type = o ? text(o, "token_type") : STR_NULL;
	if (status != 200) {
		struct str code = o ? text(o, "error") : STR_NULL;
		put_error(ret->error, code, o ? text(o, "error_description") : STR_NULL, status);
		/* §5.2; interaction_required and login_required: by OpenID Connect, and Microsoft */
		ret->refused = str_eq(code, STR("invalid_grant")) || str_eq(code, STR("invalid_client")) || str_eq(code, STR("unauthorized_client")) ||
		    str_eq(code, STR("invalid_scope")) || str_eq(code, STR("interaction_required")) || str_eq(code, STR("login_required"));
	} else if (!token_ok(access)) {
		snprintf(ret->error, sizeof ret->error, "the provider's answer holds no access token");
	} else if (type.n && !str_ieq(type, STR("bearer"))) {
		snprintf(ret->error, sizeof ret->error, "the provider's token is not of the kind \"bearer\"");
	} else if (refresh.n && !token_ok(refresh)) {
		snprintf(ret->error, sizeof ret->error, "the provider's refresh token cannot be kept: its form is not known");
	} else if (buf_room(&ret->access, TOKEN_MAX) && buf_room(&ret->refresh, TOKEN_MAX) && buf_adds(&ret->access, access) == 0 &&
	    buf_adds(&ret->refresh, refresh) == 0) {
		ret->life_s = seconds(o, "expires_in");
		if (!ret->life_s)
			ret->life_s = LIFE_DEFAULT_S;
		ret->refresh_life_s = seconds(o, "refresh_token_expires_in");
		r = 0;
	} else {
		snprintf(ret->error, sizeof ret->error, "out of memory");
	}
	if (o) {
		wipe(o, "access_token");
		wipe(o, "refresh_token");
		wipe(o, "id_token");
	}
	json_object_put(o);
	return r;
}

void token_answer_done(struct token_answer *a)
{
	buf_free_secret(&a->access);
	buf_free_secret(&a->refresh);
}
