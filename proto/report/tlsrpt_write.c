/* The words of TLS reports, and their JSON; see tlsrpt.h. */
#include "proto/report/tlsrpt.h"

#include "base/json.h"

#include <stdio.h>
#include <time.h>

static const char *const types[] = { "no-policy-found", "tlsa", "sts", "" };
static const char *const results[] = { "starttls-not-supported", "certificate-host-mismatch", "certificate-expired", "certificate-not-trusted",
	"validation-failure", "tlsa-invalid", "dnssec-invalid", "dane-required", "sts-policy-fetch-error", "sts-policy-invalid",
	"sts-webpki-invalid", "" };

const char *tlsrpt_type_name(enum tlsrpt_type t)
{
	return (unsigned)t < TLSRPT_OTHER_TYPE ? types[t] : "";
}

const char *tlsrpt_result_name(enum tlsrpt_result r)
{
	return (unsigned)r < TLSRPT_OTHER_RESULT ? results[r] : "";
}

enum tlsrpt_type tlsrpt_type_parse(struct str s)
{
	unsigned i = 0;
	while (i < TLSRPT_OTHER_TYPE && !str_ieq(s, str_from(types[i])))
		i++;
	return (enum tlsrpt_type)i;
}

enum tlsrpt_result tlsrpt_result_parse(struct str s)
{
	unsigned i = 0;
	while (i < TLSRPT_OTHER_RESULT && !str_ieq(s, str_from(results[i])))
		i++;
	return (enum tlsrpt_result)i;
}

static void put_time(struct buf *out, const char *key, int64_t when)
{
	struct tm tm;
	time_t t = (time_t)when;
	char text[64] = "";
	if (gmtime_r(&t, &tm))
		strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
	json_put_member(out, key, str_from(text));
}

static void put_list(struct buf *out, const char *key, const struct str *s, size_t n)
{
	json_put_key(out, key);
	buf_addc(out, '[');
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_addc(out, ',');
		json_put_str(out, s[i]);
	}
	buf_addc(out, ']');
}

static void put_number(struct buf *out, const char *key, uint64_t n)
{
	json_put_key(out, key);
	buf_addf(out, "%llu", (unsigned long long)n);
}

static void put_maybe(struct buf *out, const char *key, struct str s)
{
	if (s.n)
		json_put_member(out, key, s);
}

static void put_failure(struct buf *out, const struct tlsrpt_failure *f)
{
	buf_addc(out, '{');
	json_put_member(out, "result-type", str_from(tlsrpt_result_name(f->result)));
	put_maybe(out, "sending-mta-ip", f->sending_ip);
	put_maybe(out, "receiving-mx-hostname", f->mx_host);
	put_maybe(out, "receiving-mx-helo", f->mx_helo);
	put_maybe(out, "receiving-ip", f->receiving_ip);
	put_number(out, "failed-session-count", f->count);
	put_maybe(out, "additional-information", f->info);
	put_maybe(out, "failure-reason-code", f->code);
	buf_addc(out, '}');
}

static void put_policy(struct buf *out, const struct tlsrpt_policy *p)
{
	buf_addz(out, "{\"policy\":{");
	json_put_member(out, "policy-type", str_from(tlsrpt_type_name(p->type)));
	if (p->n_strings)
		put_list(out, "policy-string", p->string, p->n_strings);
	json_put_member(out, "policy-domain", p->domain);
	if (p->n_mx)
		put_list(out, "mx-host", p->mx, p->n_mx);
	buf_addz(out, "},\"summary\":{");
	put_number(out, "total-successful-session-count", p->successes);
	put_number(out, "total-failure-session-count", p->failures);
	buf_addc(out, '}');
	if (p->n_failures) {
		buf_addz(out, ",\"failure-details\":[");
		for (size_t i = 0; i < p->n_failures; i++) {
			if (i)
				buf_addc(out, ',');
			put_failure(out, &p->failure[i]);
		}
		buf_addc(out, ']');
	}
	buf_addc(out, '}');
}

static bool writable(const struct tlsrpt *r)
{
	/* years of four digits */
	if (!r->org.n || !r->contact.n || !r->id.n || !r->n_policies || r->begin < 0 || r->end < r->begin || r->end > INT64_C(253402300799))
		return false;
	for (size_t i = 0; i < r->n_policies; i++) {
		const struct tlsrpt_policy *p = &r->policy[i];
		if (!*tlsrpt_type_name(p->type) || !p->domain.n)
			return false;
		for (size_t k = 0; k < p->n_failures; k++)
			if (!*tlsrpt_result_name(p->failure[k].result))
				return false;
	}
	return true;
}

int tlsrpt_write(const struct tlsrpt *r, struct buf *out)
{
	if (!writable(r))
		return -1;
	buf_addc(out, '{');
	json_put_member(out, "organization-name", r->org);
	json_put_key(out, "date-range");
	buf_addc(out, '{');
	put_time(out, "start-datetime", r->begin);
	put_time(out, "end-datetime", r->end);
	buf_addc(out, '}');
	json_put_member(out, "contact-info", r->contact);
	json_put_member(out, "report-id", r->id);
	json_put_key(out, "policies");
	buf_addc(out, '[');
	for (size_t i = 0; i < r->n_policies; i++) {
		if (i)
			buf_addc(out, ',');
		put_policy(out, &r->policy[i]);
	}
	buf_addz(out, "]}\n");
	return out->failed ? -1 : 0;
}
