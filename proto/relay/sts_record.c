/* The TXT record of MTA-STS, and where it is; see sts.h. */
#include "proto/relay/sts.h"

#include "proto/dns/fields.h"

#include <stdio.h>

bool sts_record_is(struct str txt)
{
	return fields_begin(&txt, STR("v=STSv1"));
}

int sts_record_parse(struct str txt, struct str *ret_id, const char **ret_why)
{
	struct str name, value, id = STR_NULL;
	int rc;
	if (!fields_begin(&txt, STR("v=STSv1"))) {
		*ret_why = "it does not begin with v=STSv1;";
		return -1;
	}
	while ((rc = fields_next(&txt, &name, &value)) == 1) {
		if (!str_eq(name, STR("id"))) {
			if (fields_value_ok(value))
				continue;
			rc = -1;
			break;
		}
		*ret_why = id.p ? "it has two ids" : "its id is not of 1 to 32 letters and digits";
		if (id.p || !value.n || value.n > STS_ID_MAX || !fields_alnum(value))
			return -1;
		id = value;
	}
	*ret_why = rc < 0 ? "it is not in the grammar" : "it has no id";
	if (rc < 0 || !id.p)
		return -1;
	*ret_id = id;
	return 0;
}

static int end(struct sts_lookup *l, enum sts_txt state, const char *reason)
{
	l->state = state;
	l->reason = reason;
	return DNS_DONE;
}

void sts_lookup_records(struct sts_lookup *l, const struct str *txt, size_t n_txt)
{
	struct str one = STR_NULL, id;
	const char *why = NULL;
	size_t n = 0;
	l->id[0] = 0;
	for (size_t i = 0; i < n_txt; i++)
		if (sts_record_is(txt[i])) {
			one = txt[i];
			n++;
		}
	l->state = STS_TXT_NONE;
	if (n != 1) /* §3.1: of several none counts */
		l->reason = n ? "it has several records" : "it has no record";
	else if (sts_record_parse(one, &id, &why))
		l->reason = why;
	else {
		l->state = STS_TXT_FOUND;
		l->reason = NULL;
		snprintf(l->id, sizeof l->id, "%.*s", STR_ARG(id));
	}
}

int sts_lookup_name(struct str domain, char *out, size_t size)
{
	char folded[DNS_NAME_MAX + 1];
	if (dns_name_fold(domain, folded) < 0 || folded[0] == '[')
		return -1;
	int n = snprintf(out, size, "_mta-sts.%s", folded);
	return n > 0 && (size_t)n < size ? 0 : -1;
}

int sts_evaluate(void *arg, struct dns_answers *set)
{
	struct sts_lookup *l = arg;
	char name[DNS_NAME_MAX + 16];
	struct str txt[STS_TXT_MAX];
	size_t n = 0;
	l->id[0] = 0;
	if (sts_lookup_name(l->domain, name, sizeof name))
		return end(l, STS_TXT_NONE, "not a domain name");
	const struct dns_answer *a = dns_answers_get(set, str_from(name), DNS_TXT);
	if (!a)
		return DNS_MORE;
	if (a->status == DNS_TEMPFAIL)
		return end(l, STS_TXT_UNKNOWN, "its record cannot be looked up");
	for (size_t i = 0; i < a->n_rr && n < STS_TXT_MAX; i++)
		if (sts_record_is(a->rr[i].data))
			txt[n++] = a->rr[i].data;
	sts_lookup_records(l, txt, n);
	return DNS_DONE;
}
