/* Values with parameters: Content-Type, Content-Disposition and their like (RFC 2045 §5.1, RFC 2183; continuations, charsets and languages of
 * RFC 2231). Lenient as all readers must be; `bad` says that another reader may see something else. Work is linear. */
#ifndef PROTO_MAIL_PARAM_H
#define PROTO_MAIL_PARAM_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

enum {
	MAIL_PARAMS_MAX = 100,         /* parameters of one field, each continuation counting */
	MAIL_PARAMS_OCTETS_MAX = 65536, /* of the whole value */
};

struct mail_param {
	struct str name;     /* lower case, without the '*' of RFC 2231 */
	struct str value;    /* unquoted, put together, in UTF-8 where a charset was said that we know; any octets else. Encoded words stay (encoded.h) */
	struct str language; /* RFC 2231 §5, empty: none */
};

struct mail_params {
	struct str value;         /* "text/plain" or "attachment", in lower case, without blanks and comments; may be empty */
	struct str type, subtype; /* its halves; without a '/' all of it is the type */
	struct mail_param *item;
	size_t n;
	bool bad;          /* broken syntax, a parameter twice, a gap in continuations */
	struct arena *mem; /* not yours */
};

enum { MAIL_PARAMS_MEMORY = -1, MAIL_PARAMS_LIMIT = -2 };
/* Reads a field's value, folds and all. Everything is copied. Returns 0, or MAIL_PARAMS_*: *ret is empty then. */
int mail_params_parse(struct mail_params *ret, struct str value);
void mail_params_free(struct mail_params *p);

/* The value of that parameter (name in lower case); .p is NULL: there is none. */
struct str mail_params_get(const struct mail_params *p, struct str name);

#endif
