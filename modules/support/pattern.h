/* Address patterns of the route, if and aliases stages. There is no expression language over mail data: a pattern is one of
 *
 *     local@domain    this address           local@*       this local part at any domain
 *     domain          any address there      *.domain      any address below the domain, not at it
 *     *               any address
 *
 * Domains compare in A-label form, local parts without quotes and without ASCII case (what nearly every mailbox store does,
 * though RFC 5321 §2.4 leaves it to the receiving system). */
#ifndef SUPPORT_PATTERN_H
#define SUPPORT_PATTERN_H

#include "base/str.h"

enum pattern_kind { PATTERN_ANY, PATTERN_ADDRESS, PATTERN_LOCAL, PATTERN_DOMAIN, PATTERN_BELOW };

/* An address in the form that is compared. */
struct pattern_address {
	char local[260], domain[260]; /* lower case; domain "" when there is none */
};

struct pattern {
	enum pattern_kind kind;
	struct pattern_address a;
};

/* 0, or -1: no pattern, or longer than an address may be. */
int pattern_parse(struct str s, struct pattern *ret);
/* 0, or -1: too long, or its domain is no domain. The null sender gives two empty parts. */
int pattern_address(struct str addr, struct pattern_address *ret);
bool pattern_match(const struct pattern *p, const struct pattern_address *a);
/* One of n of them. */
bool pattern_match_any(const struct pattern *p, size_t n, const struct pattern_address *a);

#endif
