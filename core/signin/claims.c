/* What a token, or an introspection about it, must say: issuer, audience, time, scope, and whose it is (RFC 7519 §4.1, RFC 7662
 * §2.2). json-c takes duplicate members (the last counts) and huge numbers (cut off): both are the issuer's, who signed them. */
#include "jwt_internal.h"

#include <math.h>

/* A NumericDate. 1: there; 0: absent; -1: something else stands there. */
static int when(struct json_object *o, const char *key, int64_t *ret)
{
	struct json_object *v;
	if (!json_object_object_get_ex(o, key, &v))
		return 0;
	if (json_object_is_type(v, json_type_int)) {
		*ret = json_object_get_int64(v);
		return 1;
	}
	if (json_object_is_type(v, json_type_double)) {
		double d = json_object_get_double(v);
		if (isfinite(d) && fabs(d) < 1e15) {
			*ret = (int64_t)floor(d);
			return 1;
		}
	}
	return -1;
}

static bool word_in(struct str words, struct str w)
{
	struct str one;
	while (str_word(&words, " \t", &one))
		if (str_eq(one, w))
			return true;
	return false;
}

/* A member that is a string of words (split), one string, or a list of strings: does it hold w? */
static bool holds(struct json_object *o, const char *key, struct str w, bool split)
{
	struct json_object *v;
	if (!json_object_object_get_ex(o, key, &v))
		return false;
	if (json_object_is_type(v, json_type_string)) {
		struct str s = jwt_text(o, key);
		return split ? word_in(s, w) : str_eq(s, w);
	}
	if (!json_object_is_type(v, json_type_array))
		return false;
	for (size_t i = 0; i < json_object_array_length(v); i++) {
		struct json_object *e = json_object_array_get_idx(v, i);
		if (json_object_is_type(e, json_type_string) &&
		    str_eq(str_n(json_object_get_string(e), (size_t)json_object_get_string_len(e)), w))
			return true;
	}
	return false;
}

const char *jwt_claims(struct json_object *c, const struct jwt_policy *p, bool expires_needed, struct jwt_result *r)
{
	struct json_object *verified;
	struct str words = p->audiences, w;
	int64_t exp = 0, nbf = 0;
	int has_exp = when(c, "exp", &exp), has_nbf = when(c, "nbf", &nbf);
	bool any = false;
	if (has_exp < 0 || has_nbf < 0)
		return "a time in the token is no number";
	if (expires_needed && !has_exp)
		return "the token says no end of its time";
	/* differences, not sums: a time may be any number */
	if (has_exp && (exp <= 0 || p->now - exp >= JWT_LEEWAY_S))
		return "the token has expired";
	if (has_nbf && nbf > 0 && nbf - p->now > JWT_LEEWAY_S)
		return "the token is not valid yet";
	if (p->issuer.n && !str_eq(jwt_text(c, "iss"), p->issuer))
		return "the token is of another issuer";
	while (str_word(&words, " \t", &w) && !any)
		any = holds(c, "aud", w, false);
	if (p->audiences.n && !any)
		return "the token is for another audience";
	words = p->scope;
	while (str_word(&words, " \t", &w))
		if (!holds(c, "scope", w, true) && !holds(c, "scp", w, true))
			return "the token lacks a scope";
	/* an address that its owner has never confirmed is anybody's; and who says nothing has not said that it was */
	if (str_eq(p->name_claim, STR("email"))) {
		bool said = json_object_object_get_ex(c, "email_verified", &verified);
		if (said ? !json_object_is_type(verified, json_type_boolean) || !json_object_get_boolean(verified) : !p->unstated)
			return said ? "the token's e-mail address is not verified" :
			              "the token does not say that its e-mail address is verified (OAUTH_EMAIL_UNSTATED)";
	}
	char claim[64];
	if (p->name_claim.n >= sizeof claim)
		return "the claim's name is too long";
	memcpy(claim, p->name_claim.p, p->name_claim.n);
	claim[p->name_claim.n] = 0;
	struct str name = jwt_text(c, claim);
	if (!name.n)
		return "the token does not say whose it is";
	if (buf_adds(&r->name, name))
		return "the name in the token is too long";
	r->expires = has_exp ? exp : 0;
	return NULL;
}

const char *jwt_introspection(struct str json, const struct jwt_policy *p, struct jwt_result *r)
{
	struct json_object *o = jwt_json(json, JWT_CLAIMS_DEPTH), *active;
	const char *bad;
	if (!o)
		return "the introspection's answer is no JSON object";
	if (!json_object_object_get_ex(o, "active", &active) || !json_object_is_type(active, json_type_boolean))
		bad = "the introspection's answer has no \"active\"";
	else if (!json_object_get_boolean(active))
		bad = "the token is not active";
	else
		bad = jwt_claims(o, p, false, r);
	json_object_put(o);
	return bad;
}
