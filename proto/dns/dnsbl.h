/* Lists of addresses in the DNS (RFC 5782): block lists and allow lists. One word of configuration becomes a list; an evaluator asks
 * all lists about one address at the same time. Pure.
 *
 * A word: zone[=ADDRESS[|ADDRESS…]][:ACTION], where each octet of ADDRESS is a number, a range N-M, or *:
 *     zen.example                          listed by whatever it answers within 127.0.0.0/8, rejected
 *     zen.example=127.0.0.2-11:defer
 *     mix.example=127.0.0.2|127.0.1.*:record
 * An answer outside 127.0.0.0/8 is not one (§2.1): a zone that somebody else took over must not refuse the world's mail. */
#ifndef PROTO_DNS_DNSBL_H
#define PROTO_DNS_DNSBL_H

#include "answers.h"

enum { DNSBL_PATTERNS_MAX = 8, DNSBL_TEXT_MAX = 200, DNSBL_LISTS_MAX = 32 };

enum dnsbl_action { DNSBL_REJECT, DNSBL_DEFER, DNSBL_RECORD, DNSBL_ALLOW };
/* "reject", … */
const char *dnsbl_action_name(enum dnsbl_action a);

struct dnsbl_list {
	char zone[DNS_NAME_MAX + 1];
	enum dnsbl_action action;
	unsigned n; /* patterns; 0: all of 127.0.0.0/8 */
	struct dnsbl_pattern {
		unsigned char low[4], high[4];
	} pattern[DNSBL_PATTERNS_MAX];
};
/* allow: a word of an allow list, which takes no action. 0, or -1 with a clause in *ret_why (a constant). */
int dnsbl_parse(struct str word, bool allow, struct dnsbl_list *ret, const char **ret_why);
/* Does this answer mean "listed"? */
bool dnsbl_matches(const struct dnsbl_list *l, const unsigned char ip[4]);

struct dnsbl_result {
	bool listed, failed;          /* failed: not known, which is taken for "not listed" */
	unsigned char address[4];     /* what the list said */
	char text[DNSBL_TEXT_MAX + 1]; /* its TXT, printable ASCII; "" : none, or not wanted */
};
struct dnsbl_check {
	const struct dnsbl_list *lists; /* n of them */
	struct dnsbl_result *results;   /* likewise */
	size_t n;
	const unsigned char *ip;
	size_t ip_n;                  /* 4 or 16 */
	bool texts;                   /* of lists that reject or defer */
};
/* dns_evaluate_fn: arg is a struct dnsbl_check. */
int dnsbl_evaluate(void *arg, struct dns_answers *set);

#endif
