/* Patterns for names of domains and hosts, as operators write them: "mx.example.org" is that name, "*.example.org" every name below it, "*" all
 * names; with "@" in front a domain of an address is meant instead of a host. Shared by shape.c and source.c. */
#ifndef PROTO_RELAY_PATTERN_H
#define PROTO_RELAY_PATTERN_H

#include "base/buf.h"
#include "proto/relay/route.h"

enum { PATTERNS_MAX = 32, PATTERNS_OCTETS_MAX = 4096 }; /* of one list, joined by commas */

struct pattern {
	char name[DNS_NAME_MAX + 1]; /* folded; "" : all */
	bool domain;                 /* with @ */
	bool below;                  /* "*." */
};
struct patterns {
	struct pattern *one;
	size_t n;
};

/* *ret is to be empty. 0; 1: *why says what is wrong; -1: memory. */
int patterns_parse(struct str list, struct patterns *ret, struct buf *why);
void patterns_done(struct patterns *p);
/* Does a domain pattern fit this one, folded? */
bool patterns_fit_domain(const struct patterns *p, const char *domain);
/* Does one fit the domain, or one of the exchangers of the best preference that can be used? r may be NULL. */
bool patterns_fit(const struct patterns *p, const struct route *r, const char *domain);
bool pattern_covers(const struct pattern *wide, const struct pattern *narrow);

/* "google": letters, digits, - and _, at most `max` octets, into out. */
bool pattern_label(struct str s, size_t max, char *out);

#endif
