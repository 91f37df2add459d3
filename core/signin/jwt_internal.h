/* Between jwt.c and claims.c. */
#ifndef SIGNIN_JWT_INTERNAL_H
#define SIGNIN_JWT_INTERNAL_H

#include "jwt.h"

#include <json-c/json.h>

enum { JWT_CLAIMS_DEPTH = 16 };

/* The whole of text as one JSON object, or NULL. */
struct json_object *jwt_json(struct str text, int depth);
/* A member that is a string; STR_NULL. */
struct str jwt_text(struct json_object *o, const char *key);
/* NULL: they are as the policy wants them. expires_needed: without "exp" they are not. */
const char *jwt_claims(struct json_object *claims, const struct jwt_policy *p, bool expires_needed, struct jwt_result *r);

#endif
