/* A DMARC policy and the seals of those we trust (RFC 8617 §7.2): mail that a list or a forwarder has changed fails here although it
 * passed there. */
#include "verify_internal.h"

#include <stdio.h>

static bool is_listed(const struct verify *v, struct str domain)
{
	for (size_t i = 0; i < v->policy.n_sealers; i++)
		if (str_ieq(v->policy.sealers[i], domain))
			return true;
	return false;
}

static struct str prop(const struct authres_result *r, const char *ptype, const char *name)
{
	for (size_t i = 0; i < r->n_props; i++)
		if (str_ieq(r->prop[i].ptype, str_from(ptype)) && str_ieq(r->prop[i].name, str_from(name)))
			return r->prop[i].value;
	return STR_NULL;
}

static bool is_author(const struct verify *v, struct str domain)
{
	char folded[DNS_NAME_MAX + 1];
	for (size_t i = domain.n; i-- > 0;)
		if (domain.p[i] == '@') {
			domain = str_skip(domain, i + 1);
			break;
		}
	return dns_name_fold(domain, folded) > 0 && !strcmp(folded, v->author.domain[0]);
}

/* Do the results that a sealer saw say that this author's mail passed DMARC there? Where it did not look at DMARC, a pass of SPF or
 * DKIM for the very domain of the author says the same (RFC 9989 §4.4, strict alignment). */
static bool vouches(const struct verify *v, struct str results)
{
	struct authres a;
	bool dmarc = false, yes = false, other = false;
	if (authres_parse(&a, results))
		return false;
	for (size_t i = 0; i < a.n && !a.bad; i++) {
		const struct authres_result *r = &a.result[i];
		bool pass = str_ieq(r->result, STR("pass"));
		if (str_ieq(r->method, STR("dmarc"))) {
			dmarc = true;
			yes |= pass && is_author(v, prop(r, "header", "from"));
		} else if (str_ieq(r->method, STR("dkim"))) {
			other |= pass && is_author(v, prop(r, "header", "d"));
		} else if (str_ieq(r->method, STR("spf"))) {
			other |= pass && is_author(v, prop(r, "smtp", "mailfrom"));
		}
	}
	authres_free(&a);
	return dmarc ? yes : other;
}

/* Which instance's results count: from the newest down, as long as each is sealed by one on the list. Who seals a chain vouches for what
 * it saw, not for what those before it wrote, so the first that is not listed ends the search. 0: none. */
static unsigned find(const struct verify *v, const struct arc_result *arc)
{
	for (unsigned i = arc->n; i-- > 0 && is_listed(v, arc->set[i].seal_domain);)
		if (vouches(v, arc->set[i].results))
			return i + 1;
	return 0;
}

/* RFC 8617 §7.2.2: the seals, newest first, for the report to the domain's owner. */
static void comment(struct verify_verdict *r)
{
	const struct arc_result *arc = r->arc;
	int n = snprintf(r->comment, sizeof r->comment, "arc=pass");
	for (unsigned i = arc->n; i-- > 0 && n > 0 && (size_t)n < sizeof r->comment;) {
		int more = snprintf(r->comment + n, sizeof r->comment - (size_t)n, " as[%u].d=%.*s as[%u].s=%.*s", i + 1,
		    STR_ARG(arc->set[i].seal_domain), i + 1, STR_ARG(arc->set[i].seal_selector));
		if (more < 0 || (size_t)(n + more) >= sizeof r->comment)
			r->comment[n] = 0; /* whole seals only */
		n += more;
	}
	for (char *p = r->comment; *p; p++)
		*p = *p > 0x1f && *p < 0x7f ? *p : '?';
}

void verify_seal(struct verify *v)
{
	struct verify_verdict *r = &v->verdict;
	r->disposition = v->dmarc.disposition;
	if (v->dmarc.result != DMARC_RESULT_FAIL)
		return;
	if (v->dmarc.testing) {
		r->override = VERIFY_TEST_MODE;
		snprintf(r->comment, sizeof r->comment, "%s", v->dmarc.reason);
	}
	if (r->disposition == DMARC_NONE || v->author.state != DMARC_AUTHOR_OK || !r->arc || r->arc->result != DKIM_PASS ||
	    !(r->sealer = find(v, r->arc)))
		return;
	r->override = VERIFY_TRUSTED_SEALER;
	r->disposition = DMARC_NONE;
	comment(r);
}
