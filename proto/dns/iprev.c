/* The evaluation of iprev. */
#include "proto/dns/iprev.h"

#include <stdio.h>

const char *iprev_result_name(enum iprev_result r)
{
	static const char *const names[] = { "none", "pass", "fail", "temperror", "permerror" };
	return (unsigned)r < sizeof names / sizeof *names ? names[r] : "none";
}

static int end(struct iprev *v, enum iprev_result r, struct str name)
{
	v->result = r;
	snprintf(v->name, sizeof v->name, "%.*s", STR_ARG(name));
	return DNS_DONE;
}

static bool leads_back(const struct iprev *v, const struct dns_answer *a)
{
	for (size_t i = 0; i < a->n_rr; i++)
		if (a->rr[i].data.n == v->ip_n && memcmp(a->rr[i].data.p, v->ip, v->ip_n) == 0)
			return true;
	return false;
}

int iprev_evaluate(void *arg, struct dns_answers *set)
{
	struct iprev *v = arg;
	char reverse[DNS_NAME_MAX + 1];
	int n = dns_name_reverse(v->ip, v->ip_n, NULL, reverse);
	if (n < 0)
		return end(v, IPREV_PERMERROR, STR_NULL);
	const struct dns_answer *ptr = dns_answers_get(set, str_n(reverse, (size_t)n), DNS_PTR);
	if (!ptr)
		return DNS_MORE;
	if (ptr->status != DNS_OK) /* §2.7.3: nothing published is permerror */
		return end(v, ptr->status == DNS_TEMPFAIL ? IPREV_TEMPERROR : IPREV_PERMERROR, STR_NULL);
	bool more = false, unknown = false;
	for (size_t i = 0; i < ptr->n_rr && i < IPREV_NAMES_MAX; i++) {
		const struct dns_answer *a = dns_answers_get(set, ptr->rr[i].data, v->ip_n == 4 ? DNS_A : DNS_AAAA);
		if (!a)
			more = true;
		else if (leads_back(v, a))
			return end(v, IPREV_PASS, ptr->rr[i].data);
		else
			unknown |= a->status == DNS_TEMPFAIL;
	}
	if (more)
		return DNS_MORE;
	return end(v, unknown ? IPREV_TEMPERROR : IPREV_FAIL, unknown ? STR_NULL : ptr->rr[0].data);
}
