/* The DNS tree walk (RFC 9989 §4.10): policy and organizational domain of a name, in at most eight queries. */
#include "proto/auth/dmarc.h"

#include <stdio.h>

static size_t labels_of(const char *name)
{
	size_t n = 1;
	for (; *name; name++)
		n += *name == '.';
	return n;
}

/* The n rightmost labels. */
static const char *rightmost(const char *name, size_t n)
{
	size_t all = labels_of(name);
	for (; all > n; all--)
		name = strchr(name, '.') + 1;
	return name;
}

/* The one DMARC record of an answer. 1: found; 0: there is none; 2: several. */
static int pick(const struct dns_answer *a, struct dmarc_record *ret)
{
	int n = 0;
	for (size_t i = 0; i < a->n_rr; i++)
		if (dmarc_record_parse(a->rr[i].data, ret) == 0 && ++n > 1)
			return 2;
	return n;
}

static void copy(char *to, const char *from)
{
	snprintf(to, DNS_NAME_MAX + 1, "%s", from);
}

struct state {
	struct dmarc_record at_start, last, psd;
	bool has_start, has_last, has_psd, decided;
	char last_name[DNS_NAME_MAX + 1], psd_name[DNS_NAME_MAX + 1];
};

/* A record found at `name`. True: the walk stops. */
static bool take(struct dmarc_walk *w, struct state *s, const char *name, size_t labels, const struct dmarc_record *r)
{
	bool start = strcmp(name, w->start) == 0;
	w->found = true;
	if (start) {
		s->at_start = *r;
		s->has_start = true;
	}
	if (r->psd == 'n') {
		copy(w->org, name);
		s->decided = true;
	} else if (r->psd == 'y' && !start) { /* §4.10.2: the domain one label below */
		copy(w->org, rightmost(w->start, labels + 1));
		s->psd = *r;
		s->has_psd = s->decided = true;
		copy(s->psd_name, name);
	}
	if (!(r->psd == 'y' && !start)) {
		s->last = *r;
		s->has_last = true;
		copy(s->last_name, name);
	}
	w->psd |= r->psd != 'u';
	return r->psd != 'u';
}

/* §4.10.1: the author's own record, else the organizational domain's, else that of its public suffix. */
static void apply(struct dmarc_walk *w, const struct state *s)
{
	if (!s->decided)
		copy(w->org, s->has_last ? s->last_name : w->start);
	if (w->several)
		return;
	if (s->has_start) {
		w->record = s->at_start;
		copy(w->policy_domain, w->start);
	} else if (s->has_last && strcmp(s->last_name, w->org) == 0) {
		w->record = s->last;
		copy(w->policy_domain, s->last_name);
	} else if (s->has_psd) {
		w->record = s->psd;
		copy(w->policy_domain, s->psd_name);
	}
}

/* Labels of the next name behind the one with n of `all`. */
static size_t next_labels(size_t n, size_t all)
{
	return n == all && all >= DMARC_WALK_MAX ? DMARC_WALK_MAX - 1 : n - 1;
}

size_t dmarc_walk_queries(const char *domain)
{
	size_t all = labels_of(domain);
	return all < DMARC_WALK_MAX ? all : DMARC_WALK_MAX;
}

bool dmarc_walk_ask(struct str domain, size_t i, struct dns_answers *set, bool *more)
{
	char start[DNS_NAME_MAX + 1], name[DNS_NAME_MAX + 16];
	size_t queries = 0, labels[DMARC_WALK_MAX];
	if (dns_name_fold(domain, start) < 0)
		return false;
	size_t all = labels_of(start);
	for (size_t n = all; n > 0 && queries < DMARC_WALK_MAX; n = next_labels(n, all))
		labels[queries++] = n;
	if (i >= queries)
		return false;
	/* the domain, two labels, one, three, four … */
	size_t at = i == 0 ? 0 : i < 3 ? queries - (queries > 2 ? 3 - i : 1) : queries - i;
	int length = snprintf(name, sizeof name, "_dmarc.%s", rightmost(start, labels[at]));
	*more |= !dns_answers_get(set, str_n(name, (size_t)length), DNS_TXT);
	return true;
}

int dmarc_walk(struct str domain, struct dns_answers *set, struct dmarc_walk *ret)
{
	struct state s = { 0 };
	char name[DNS_NAME_MAX + 16];
	*ret = (struct dmarc_walk){ 0 };
	if (dns_name_fold(domain, ret->start) < 0) {
		ret->start[0] = 0;
		return DNS_DONE;
	}
	size_t all = labels_of(ret->start);
	for (size_t n = all; n > 0 && ret->n_queries < DMARC_WALK_MAX; n = next_labels(n, all)) {
		const char *at = rightmost(ret->start, n);
		struct dmarc_record r;
		copy(ret->queries[ret->n_queries++], at);
		int length = snprintf(name, sizeof name, "_dmarc.%s", at);
		const struct dns_answer *a = dns_answers_get(set, str_n(name, (size_t)length), DNS_TXT);
		if (!a)
			return DNS_MORE;
		if (a->status == DNS_TEMPFAIL) {
			ret->tempfail = true;
			ret->why = a->why;
			return DNS_DONE;
		}
		int found = pick(a, &r);
		if (found == 2 && n == all)
			ret->several = true;
		if (found == 1 && take(ret, &s, at, n, &r))
			break;
	}
	apply(ret, &s);
	return DNS_DONE;
}
