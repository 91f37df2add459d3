/* Tokens of an OAuth 2.0 server: signed ones (JWT, RFC 7519, checked against a key set, RFC 7517), and what an introspection says
 * of any (RFC 7662). Pure, but for OpenSSL: no clock, no network. A token is input from the open Internet, a key set and an
 * introspection come from whom the operator named. The BCP is RFC 8725: the algorithm is the key's and the configuration's choice,
 * never the token's alone. */
#ifndef SIGNIN_JWT_H
#define SIGNIN_JWT_H

#include "base/buf.h"

enum {
	JWT_TOKEN_MAX = 12 * 1024,
	JWT_KEYS_MAX = 64 * 1024,     /* octets of a key set */
	JWT_KEYS = 64,                /* keys in it */
	JWT_TRIES = 4,                /* keys tried for a token that names none */
	JWT_LEEWAY_S = 60,            /* clocks differ */
};

struct jwt_policy {
	struct str issuer;      /* iss must be this; empty: not looked at */
	struct str audiences;   /* blank-separated; aud must hold one; empty: not looked at */
	struct str scope;       /* blank-separated; scope (or scp) must hold all of them; empty: not looked at */
	struct str name_claim;  /* "email", "sub", "preferred_username", …: the account */
	bool unstated;          /* an e-mail address of which nobody says whether it is verified is taken (of one server whose word is good) */
	struct str algorithms;  /* blank-separated, of RS256, ES256, EdDSA */
	int64_t now;            /* Unix seconds */
};

struct jwt_result {
	struct buf name;        /* initialised by the caller, appended to */
	int64_t expires;        /* Unix seconds; 0: not said (introspection only) */
	bool unknown_key;       /* refused because no key of the set fits: a newer set may have it */
};

/* NULL: valid, and *r is filled. Else why not: a constant, for the log. */
const char *jwt_verify(struct str token, struct str key_set, const struct jwt_policy *p, struct jwt_result *r);
/* The same of an introspection's answer. */
const char *jwt_introspection(struct str json, const struct jwt_policy *p, struct jwt_result *r);
/* Is this a key set with at least one key we can use? NULL, or why not. */
const char *jwt_key_set_fault(struct str key_set);

/* For tests: strict base64url without padding (RFC 7515 §2). 0 or -1. */
int jwt_base64url(struct str in, struct buf *out);

#endif
