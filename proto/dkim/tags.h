/* Tag lists (RFC 6376 §3.2): "a=b; c = d". One parser for signatures, seals and key records; strict, linear, no allocation. */
#ifndef PROTO_DKIM_TAGS_H
#define PROTO_DKIM_TAGS_H

#include "base/str.h"

enum { DKIM_TAGS_MAX = 64 }; /* tags of one list; a longer one is an error */

struct dkim_tag {
	struct str name;
	struct str value;    /* without the white space around it; folds may be inside */
	size_t begin, end;   /* all between "=" and ";" in the text: what is cut out of a signature for its own hash */
};

struct dkim_tags {
	struct dkim_tag tag[DKIM_TAGS_MAX];
	size_t n;
};

/* text: a field's value or a record. Everything points into it. Returns 0, or -1 and *why: a constant text. A tag twice is an
 * error. */
int dkim_tags_parse(struct str text, struct dkim_tags *ret, const char **why);
/* NULL: there is none. Names are compared with case. */
const struct dkim_tag *dkim_tags_get(const struct dkim_tags *t, const char *name);

/* The next item of a list with colons, without white space around it; false at the end. Set *more to true first. An empty
 * list has one item, which is empty. */
bool dkim_tags_item(struct str *rest, bool *more, struct str *ret);
/* Is the word an item of the list? */
bool dkim_tags_lists(struct str list, struct str word);

/* Base64 with white space between any two octets, padding optional (RFC 6376 §3.2 base64string). out has room for
 * max octets. Returns how many, or -1: not Base64 or longer than max. */
long dkim_base64(struct str text, unsigned char *out, size_t max);
/* dkim-quoted-printable (RFC 6376 §2.11): white space dropped, =XX decoded; out has room for text.n octets. Returns the
 * length, or -1: not of that form. */
long dkim_unquote(struct str text, char *out);
/* Digits only. What exceeds 12 digits is "infinite" (RFC 6376 §3.5): UINT64_MAX. Returns 0, or -1: not digits, or more than 76. */
int dkim_number(struct str text, uint64_t *ret);

#endif
