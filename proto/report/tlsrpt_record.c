/* The TXT record that asks for TLS reports, and where it is; see tlsrpt.h. */
#include "proto/report/tlsrpt.h"

#include "proto/dns/fields.h"
#include "proto/report/rua.h"

#include <stdio.h>

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

/* RFC 3986: a scheme, a colon, and something of the characters a URI may have. */
static bool uri_ok(struct str s)
{
	ptrdiff_t colon = str_chr(s, ':');
	if (colon <= 0 || (size_t)colon + 1 == s.n || s.n > TLSRPT_URI_MAX)
		return false;
	for (size_t i = 0; i < (size_t)colon; i++)
		if (!fields_alnum(str_n(s.p + i, 1)) && (!i || !s.p[i] || !strchr("+-.", s.p[i])))
			return false;
	if (s.p[0] >= '0' && s.p[0] <= '9')
		return false;
	for (size_t i = (size_t)colon + 1; i < s.n; i++) {
		if (s.p[i] == '%' && (i + 2 >= s.n || !is_hex(s.p[i + 1]) || !is_hex(s.p[i + 2])))
			return false;
		if (!fields_alnum(str_n(s.p + i, 1)) && (!s.p[i] || !strchr("-._~:/?#[]@!$&'()*+;=%", s.p[i])))
			return false;
	}
	return true;
}

static enum tlsrpt_scheme scheme_of(struct str uri)
{
	return str_istarts(uri, STR("mailto:")) ? TLSRPT_MAILTO : str_istarts(uri, STR("https://")) ? TLSRPT_HTTPS : TLSRPT_UNKNOWN;
}

/* tlsrpt-uri *(*WSP "," *WSP tlsrpt-uri) */
static const char *take_uris(struct str list, struct tlsrpt_record *r)
{
	for (;;) {
		ptrdiff_t comma = str_chr(list, ',');
		struct str uri = str_n(list.p, comma < 0 ? list.n : (size_t)comma);
		while (comma >= 0 && uri.n && (uri.p[uri.n - 1] == ' ' || uri.p[uri.n - 1] == '\t'))
			uri.n--;
		if (!uri_ok(uri))
			return "what it names is no URI";
		if (r->n < TLSRPT_RUA_MAX) {
			r->scheme[r->n] = scheme_of(uri);
			r->uri[r->n++] = uri;
		} else {
			r->cut++;
		}
		if (comma < 0)
			return NULL;
		list = str_skip(list, (size_t)comma + 1);
		while (list.n && (list.p[0] == ' ' || list.p[0] == '\t'))
			list = str_skip(list, 1);
	}
}

bool tlsrpt_record_is(struct str txt)
{
	return fields_begin(&txt, STR("v=TLSRPTv1"));
}

int tlsrpt_record_parse(struct str txt, struct tlsrpt_record *ret, const char **ret_why)
{
	struct tlsrpt_record r = { 0 };
	struct str name, value;
	bool rua = false;
	int rc;
	*ret_why = "it does not begin with v=TLSRPTv1;";
	if (!fields_begin(&txt, STR("v=TLSRPTv1")))
		return -1;
	while ((rc = fields_next(&txt, &name, &value)) == 1) {
		if (!str_eq(name, STR("rua"))) {
			if (fields_value_ok(value))
				continue;
			rc = -1;
			break;
		}
		*ret_why = "it has two rua";
		if (rua || (*ret_why = take_uris(value, &r)))
			return -1;
		rua = true;
	}
	*ret_why = rc < 0 ? "it is not in the grammar" : "it has no rua";
	if (rc < 0 || !rua)
		return -1;
	*ret = r;
	return 0;
}

static int end(struct tlsrpt_lookup *l, enum tlsrpt_txt state, const char *reason)
{
	l->state = state;
	l->reason = reason;
	return DNS_DONE;
}

/* A host without anything about who we would be there. */
static bool https_ok(struct str uri)
{
	struct str host = str_skip(uri, 8);
	size_t n = 0;
	while (n < host.n && !strchr("/?#", host.p[n]))
		n++;
	host.n = n;
	return host.n && str_chr(host, '@') < 0 && host.p[0] != ':';
}

static void add(struct tlsrpt_lookup *l, struct str uri, enum tlsrpt_scheme scheme)
{
	struct tlsrpt_target *t = &l->target[l->n];
	*t = (struct tlsrpt_target){ .scheme = scheme };
	snprintf(t->uri, sizeof t->uri, "%.*s", STR_ARG(uri));
	if (scheme == TLSRPT_MAILTO ? rua_mailto(uri, t->address) != 0 : scheme != TLSRPT_HTTPS || !https_ok(uri))
		return;
	for (size_t i = 0; i < l->n; i++)
		if (scheme == l->target[i].scheme && (scheme == TLSRPT_MAILTO ? str_ieq(str_from(t->address), str_from(l->target[i].address)) :
									      !strcmp(t->uri, l->target[i].uri)))
			return;
	l->n++;
}

int tlsrpt_evaluate(void *arg, struct dns_answers *set)
{
	struct tlsrpt_lookup *l = arg;
	char domain[DNS_NAME_MAX + 1], name[DNS_NAME_MAX + 16];
	const struct dns_rr *one = NULL;
	struct tlsrpt_record r;
	const char *why = NULL;
	size_t n = 0;
	l->n = 0;
	if (dns_name_fold(l->domain, domain) < 0 || domain[0] == '[')
		return end(l, TLSRPT_TXT_NONE, "not a domain name");
	snprintf(name, sizeof name, "_smtp._tls.%s", domain);
	const struct dns_answer *a = dns_answers_get(set, str_from(name), DNS_TXT);
	if (!a)
		return DNS_MORE;
	if (a->status == DNS_TEMPFAIL)
		return end(l, TLSRPT_TXT_UNKNOWN, "its record cannot be looked up");
	for (size_t i = 0; i < a->n_rr; i++)
		if (tlsrpt_record_is(a->rr[i].data)) {
			one = &a->rr[i];
			n++;
		}
	if (n != 1) /* §3: of several none counts */
		return end(l, TLSRPT_TXT_NONE, n ? "it has several records" : "it has no record");
	if (tlsrpt_record_parse(one->data, &r, &why))
		return end(l, TLSRPT_TXT_NONE, why);
	for (size_t i = 0; i < r.n; i++)
		add(l, r.uri[i], r.scheme[i]);
	return end(l, l->n ? TLSRPT_TXT_FOUND : TLSRPT_TXT_NONE, l->n ? NULL : "no address in its record can be used");
}
