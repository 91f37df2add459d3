/* The TXT record of MTA-STS, and where it is; see sts.h. */
#include "proto/relay/sts.h"

#include "proto/relay/fields.h"

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

int sts_evaluate(void *arg, struct dns_answers *set)
{
	struct sts_lookup *l = arg;
	char domain[DNS_NAME_MAX + 1], name[DNS_NAME_MAX + 16];
	const struct dns_rr *one = NULL;
	struct str id;
	const char *why = NULL;
	size_t n = 0;
	l->id[0] = 0;
	if (dns_name_fold(l->domain, domain) < 0 || domain[0] == '[')
		return end(l, STS_TXT_NONE, "not a domain name");
	snprintf(name, sizeof name, "_mta-sts.%s", domain);
	const struct dns_answer *a = dns_answers_get(set, str_from(name), DNS_TXT);
	if (!a)
		return DNS_MORE;
	if (a->status == DNS_TEMPFAIL)
		return end(l, STS_TXT_UNKNOWN, "its record cannot be looked up");
	for (size_t i = 0; i < a->n_rr; i++)
		if (sts_record_is(a->rr[i].data)) {
			one = &a->rr[i];
			n++;
		}
	if (n != 1) /* §3.1: of several none counts */
		return end(l, STS_TXT_NONE, n ? "it has several records" : "it has no record");
	if (sts_record_parse(one->data, &id, &why))
		return end(l, STS_TXT_NONE, why);
	snprintf(l->id, sizeof l->id, "%.*s", STR_ARG(id));
	return end(l, STS_TXT_FOUND, NULL);
}
