/* Parsing and asking lists of addresses. */
#include "proto/dns/dnsbl.h"

#include <stdio.h>

static const char *const actions[] = { "reject", "defer", "record", "allow" };

const char *dnsbl_action_name(enum dnsbl_action a)
{
	return (unsigned)a < sizeof actions / sizeof *actions ? actions[a] : "";
}

static int octet(struct str s, unsigned char *low, unsigned char *high)
{
	uint64_t a = 0, b = 255;
	ptrdiff_t dash = str_chr(s, '-');
	if (!str_eq(s, STR("*"))) {
		if (str_u64(dash < 0 ? s : str_n(s.p, (size_t)dash), 255, &a))
			return -1;
		b = a;
		if (dash >= 0 && (str_u64(str_skip(s, (size_t)dash + 1), 255, &b) || b < a))
			return -1;
	}
	*low = (unsigned char)a;
	*high = (unsigned char)b;
	return 0;
}

static int pattern(struct str s, struct dnsbl_pattern *ret)
{
	struct str part;
	unsigned n = 0;
	for (; n < 4 && str_word(&s, ".", &part); n++)
		if (octet(part, &ret->low[n], &ret->high[n]))
			return -1;
	return n == 4 && !s.n ? 0 : -1;
}

static int take_action(struct str s, enum dnsbl_action *ret)
{
	for (unsigned i = 0; i < DNSBL_ALLOW; i++)
		if (str_ieq(s, str_from(actions[i]))) {
			*ret = (enum dnsbl_action)i;
			return 0;
		}
	return -1;
}

int dnsbl_parse(struct str word, bool allow, struct dnsbl_list *ret, const char **ret_why)
{
	ptrdiff_t colon = str_chr(word, ':'), equal;
	struct str rest = colon < 0 ? word : str_n(word.p, (size_t)colon), one;
	struct dnsbl_list l = { .action = allow ? DNSBL_ALLOW : DNSBL_REJECT };
	*ret_why = "an action must be reject, defer or record";
	if (colon >= 0 && allow) {
		*ret_why = "an allow list takes no action";
		return -1;
	}
	if (colon >= 0 && take_action(str_skip(word, (size_t)colon + 1), &l.action))
		return -1;
	equal = str_chr(rest, '=');
	*ret_why = "its zone is no domain name";
	if (dns_name_fold(equal < 0 ? rest : str_n(rest.p, (size_t)equal), l.zone) < 0 || !strchr(l.zone, '.'))
		return -1;
	*ret_why = "an address must have four numbers, ranges or *, within 127.0.0.0/8; several are separated by |";
	if (equal >= 0) {
		rest = str_skip(rest, (size_t)equal + 1);
		while (l.n < DNSBL_PATTERNS_MAX && str_word(&rest, "|", &one)) {
			if (pattern(one, &l.pattern[l.n]) || l.pattern[l.n].low[0] != 127 || l.pattern[l.n].high[0] != 127)
				return -1;
			l.n++;
		}
		if (!l.n || rest.n)
			return -1;
	}
	*ret = l;
	return 0;
}

bool dnsbl_matches(const struct dnsbl_list *l, const unsigned char ip[4])
{
	if (ip[0] != 127)
		return false;
	for (unsigned i = 0; i < l->n; i++) {
		bool in = true;
		for (unsigned k = 0; k < 4; k++)
			in &= ip[k] >= l->pattern[i].low[k] && ip[k] <= l->pattern[i].high[k];
		if (in)
			return true;
	}
	return !l->n;
}

static void take_text(struct dnsbl_result *r, const struct dns_answer *a)
{
	size_t n = 0;
	struct str s = a->n_rr ? a->rr[0].data : STR_NULL;
	for (; n < s.n && n < DNSBL_TEXT_MAX; n++)
		r->text[n] = s.p[n] < ' ' || s.p[n] > '~' ? '?' : s.p[n];
	r->text[n] = 0;
}

/* One list; true: more is needed. */
static bool evaluate_one(const struct dnsbl_check *c, size_t i, struct dns_answers *set)
{
	const struct dnsbl_list *l = &c->lists[i];
	struct dnsbl_result *r = &c->results[i];
	char name[DNS_NAME_MAX + 1];
	int n = dns_name_reverse(c->ip, c->ip_n, l->zone, name);
	*r = (struct dnsbl_result){ .failed = false };
	if (n < 0)
		return false;
	const struct dns_answer *a = dns_answers_get(set, str_n(name, (size_t)n), DNS_A);
	if (!a)
		return true;
	r->failed = a->status == DNS_TEMPFAIL;
	for (size_t k = 0; k < a->n_rr && !r->listed; k++)
		if (a->rr[k].data.n == 4 && dnsbl_matches(l, (const unsigned char *)a->rr[k].data.p)) {
			r->listed = true;
			memcpy(r->address, a->rr[k].data.p, 4);
		}
	if (!r->listed || !c->texts || l->action > DNSBL_DEFER)
		return false;
	const struct dns_answer *t = dns_answers_get(set, str_n(name, (size_t)n), DNS_TXT);
	if (t)
		take_text(r, t);
	return !t;
}

int dnsbl_evaluate(void *arg, struct dns_answers *set)
{
	const struct dnsbl_check *c = arg;
	bool more = false;
	for (size_t i = 0; i < c->n; i++)
		more |= evaluate_one(c, i, set);
	return more ? DNS_MORE : DNS_DONE;
}
