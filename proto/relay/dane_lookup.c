/* Where the TLSA records of a host are, and what they are worth; see dane.h. */
#include "proto/relay/dane.h"

#include <stdio.h>

const char *dane_status_name(enum dane_status s)
{
	static const char *const names[] = { "none", "unusable", "usable", "bogus" };
	return (unsigned)s < sizeof names / sizeof *names ? names[s] : "";
}

static size_t add_name(const char *name, const char *ret[DANE_NAMES_MAX], size_t n)
{
	if (!name || !*name)
		return n;
	for (size_t i = 0; i < n; i++)
		if (str_ieq(str_from(name), str_from(ret[i])))
			return n;
	ret[n] = name;
	return n + 1;
}

size_t dane_names(const struct dane_lookup *d, const char *host, const char *domain, const char *canonical, bool mx_secure,
    const char *ret[DANE_NAMES_MAX])
{
	size_t n = add_name(d->base, ret, 0);
	n = add_name(host, ret, n);
	n = add_name(domain, ret, n);
	return mx_secure ? add_name(canonical, ret, n) : n;
}

static int end(struct dane_lookup *d, enum dane_status status, const char *reason)
{
	d->status = status;
	d->reason = reason;
	return DNS_DONE;
}

/* TLSA records at "_PORT._tcp.BASE": 1: found, validated; 0: none that is; -1: more is needed; -2: not to be known. */
static int ask(struct dane_lookup *d, struct dns_answers *set, struct str base)
{
	char name[DNS_NAME_MAX + 32];
	int n = snprintf(name, sizeof name, "_%u._tcp.%.*s", d->port, STR_ARG(base));
	if (n < 0 || n > DNS_NAME_MAX)
		return 0;
	const struct dns_answer *a = dns_answers_get(set, str_n(name, (size_t)n), DNS_TLSA);
	if (!a)
		return -1;
	if (a->status == DNS_TEMPFAIL)
		return -2;
	if (!a->n_rr || !a->authenticated)
		return 0;
	snprintf(d->base, sizeof d->base, "%.*s", STR_ARG(base));
	d->tlsa = a;
	for (size_t i = 0; i < a->n_rr; i++)
		d->n_usable += dane_record_usable(&a->rr[i]);
	return 1;
}

/* RFC 7672 §2.2.2, §2.2.3: of a name that is an alias all the way within validated zones the records are looked for where it leads, then
 * where it began. */
static int ask_bases(struct dane_lookup *d, struct dns_answers *set, struct str first, struct str second)
{
	int rc = first.n ? ask(d, set, first) : 0;
	if (rc == 0 && second.n)
		rc = ask(d, set, second);
	if (rc == -1)
		return DNS_MORE;
	if (rc == -2) /* §2.1.2: a host whose records cannot be had is not used: an attacker would else just block the answers */
		return end(d, DANE_BOGUS, "its TLSA records cannot be looked up");
	if (rc == 0)
		return end(d, DANE_NONE, "it has no TLSA records");
	if (!d->n_usable)
		return end(d, DANE_UNUSABLE, "none of its TLSA records can be used");
	return end(d, DANE_USABLE, "it has TLSA records");
}

int dane_evaluate(void *arg, struct dns_answers *set)
{
	struct dane_lookup *d = arg;
	char host[DNS_NAME_MAX + 1];
	struct str name, canonical = STR_NULL;
	d->base[0] = 0;
	d->tlsa = NULL;
	d->n_usable = 0;
	int n = dns_name_fold(d->host, host);
	if (n < 0)
		return end(d, DANE_NONE, "it has no name");
	name = str_n(host, (size_t)n);
	const struct dns_answer *six = d->ipv6 ? dns_answers_get(set, name, DNS_AAAA) : NULL;
	const struct dns_answer *four = d->ipv4 ? dns_answers_get(set, name, DNS_A) : NULL;
	if ((d->ipv6 && !six) || (d->ipv4 && !four))
		return DNS_MORE;
	const struct dns_answer *a = six && six->n_rr ? six : four && four->n_rr ? four : NULL;
	if (!a) {
		bool fails = (six && six->status == DNS_TEMPFAIL) || (four && four->status == DNS_TEMPFAIL);
		return end(d, fails ? DANE_BOGUS : DANE_NONE, fails ? "its addresses cannot be looked up" : "it has no address");
	}
	/* where both families have addresses, both must be validated: either is connected to */
	bool secure = (!six || !six->n_rr || six->authenticated) && (!four || !four->n_rr || four->authenticated);
	if (a->n_chain)
		canonical = a->chain[a->n_chain - 1];
	if (secure)
		return ask_bases(d, set, canonical, name);
	/* §2.1.2: a zone that is not signed is not asked for TLSA records: some servers there fail on the type */
	if (!canonical.n)
		return end(d, DANE_NONE, "its addresses are not validated");
	/* §2.2.2: an alias in a signed zone that leads out of it: the name itself may still have records */
	const struct dns_answer *alias = dns_answers_get(set, name, DNS_CNAME);
	if (!alias)
		return DNS_MORE;
	if (alias->status == DNS_TEMPFAIL)
		return end(d, DANE_BOGUS, "its alias cannot be looked up");
	if (!alias->n_rr || !alias->authenticated)
		return end(d, DANE_NONE, "its addresses are not validated");
	return ask_bases(d, set, STR_NULL, name);
}
