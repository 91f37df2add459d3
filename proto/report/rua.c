/* The look-ups of rua.h. What an address's own zone says is the last word: nobody is sent reports because a stranger wrote his name
 * into a record. */
#include "proto/report/rua.h"

#include "proto/address/address.h"

#include <stdio.h>

const char *rua_verdict_name(enum rua_verdict v)
{
	static const char *const names[] = { "send", "scheme", "address", "not-agreed", "override", "later", "repeated", "replaced" };
	return names[v];
}

int rua_mailto(struct str uri, char *address)
{
	char text[321];
	size_t n = 0;
	struct smtp_address a;
	if (!str_istarts(uri, STR("mailto:")))
		return -1;
	uri = str_skip(uri, 7);
	for (size_t i = 0; i < uri.n && uri.p[i] != '?' && uri.p[i] != '#'; i++) {
		char c = uri.p[i];
		if (c == '%') {
			if (i + 2 >= uri.n || ascii_hex(uri.p[i + 1]) < 0 || ascii_hex(uri.p[i + 2]) < 0)
				return -2;
			c = (char)(ascii_hex(uri.p[i + 1]) << 4 | ascii_hex(uri.p[i + 2]));
			i += 2;
		}
		if (n == sizeof text - 1 || c <= ' ' || c >= 0x7f)
			return -2;
		text[n++] = c;
	}
	text[n] = 0;
	/* a quoted local part is legal and never seen but in attacks */
	if (smtp_address_parse(str_n(text, n), false, &a) || a.literal || a.quoted || !a.domain.n)
		return -2;
	memcpy(address, text, n + 1);
	return 0;
}

static struct str host_of(const char *address)
{
	const char *at = strrchr(address, '@');
	return str_from(at ? at + 1 : "");
}

/* The record of the domain itself. 1: *ret; 0: none, or several; DNS_MORE is -1, temporary -2. */
static int own_record(struct rua_check *c, struct dns_answers *set, struct dmarc_record *ret)
{
	char name[DNS_NAME_MAX + 16];
	int length = snprintf(name, sizeof name, "_dmarc.%s", c->domain), n = 0;
	const struct dns_answer *a = dns_answers_get(set, str_n(name, (size_t)length), DNS_TXT);
	if (!a)
		return -1;
	if (a->status == DNS_TEMPFAIL)
		return -2;
	for (size_t i = 0; i < a->n_rr; i++)
		n += dmarc_record_parse(a->rr[i].data, ret) == 0;
	return n == 1;
}

/* Same organisation? 1, 0; -1: more is needed; -2: cannot be known now. */
static int related(const char *domain, struct str host, struct dns_answers *set)
{
	struct dmarc_walk ours, theirs;
	if (smtp_domain_equal(str_from(domain), host))
		return 1;
	int a = dmarc_walk(str_from(domain), set, &ours), b = dmarc_walk(host, set, &theirs);
	if (a == DNS_MORE || b == DNS_MORE)
		return -1;
	if (ours.tempfail || theirs.tempfail)
		return -2;
	return *ours.org && strcmp(ours.org, theirs.org) == 0;
}

static const struct dmarc_uri *uris(const struct rua_check *c, const struct dmarc_record *r, size_t *ret_n)
{
	*ret_n = c->failures ? r->n_ruf : r->n_rua;
	return c->failures ? r->ruf : r->rua;
}

static struct rua_target *add(struct rua_check *c, const struct dmarc_uri *u)
{
	if (c->n == sizeof c->target / sizeof *c->target)
		return NULL;
	struct rua_target *t = &c->target[c->n++];
	*t = (struct rua_target){ .max = u->max };
	snprintf(t->uri, sizeof t->uri, "%.*s", STR_ARG(u->uri));
	int r = rua_mailto(u->uri, t->address);
	t->verdict = r == -1 ? RUA_SCHEME : r ? RUA_ADDRESS : RUA_SEND;
	for (struct rua_target *o = c->target; !r && o < t; o++)
		if (str_ieq(str_from(o->address), str_from(t->address)) && o->verdict == RUA_SEND)
			t->verdict = RUA_REPEATED;
	return t;
}

/* The zone of an external address agreed with this record: its own addresses count, if it names any (§4 step 9). */
static void override(struct rua_check *c, size_t at, const struct dmarc_record *r)
{
	struct rua_target old = c->target[at];
	size_t first = c->n, n_uris;
	const struct dmarc_uri *uri = uris(c, r, &n_uris);
	if (!n_uris)
		return;
	for (size_t i = 0; i < n_uris; i++) {
		struct rua_target *t = add(c, &uri[i]);
		if (!t)
			break;
		t->external = true;
		if (t->verdict == RUA_SEND && !smtp_domain_equal(host_of(t->address), host_of(old.address))) {
			/* a third party: nothing to anybody */
			c->n = first;
			c->target[at].verdict = RUA_OVERRIDE;
			return;
		}
		if (!t->max)
			t->max = old.max;
	}
	/* what is named anew stands in the place of the old one */
	bool again = false;
	for (size_t i = first; i < c->n; i++)
		again |= c->target[i].verdict == RUA_REPEATED && str_ieq(str_from(c->target[i].address), str_from(old.address));
	if (!again)
		c->target[at].verdict = RUA_REPLACED;
}

/* §4, for one address outside. True: more is needed. */
static bool ask_outside(struct rua_check *c, size_t at, struct dns_answers *set)
{
	struct rua_target *t = &c->target[at];
	struct str host = host_of(t->address);
	char name[2 * DNS_NAME_MAX + 32];
	struct dmarc_record r, first;
	bool agreed = false, names = false;
	int length = snprintf(name, sizeof name, "%s._report._dmarc.%.*s", c->domain, STR_ARG(host));
	t->external = true;
	t->verdict = RUA_NOT_AGREED;
	if (length < 0 || length > DNS_NAME_MAX)
		return false;
	const struct dns_answer *a = dns_answers_get(set, str_n(name, (size_t)length), DNS_TXT);
	if (!a)
		return true;
	if (a->status == DNS_TEMPFAIL) {
		t->verdict = RUA_LATER;
		return false;
	}
	for (size_t i = 0; i < a->n_rr; i++) {
		if (!dmarc_record_is(a->rr[i].data) || dmarc_record_parse(a->rr[i].data, &r))
			continue;
		agreed = true;
		if ((c->failures ? r.n_ruf : r.n_rua) && !names) {
			first = r;
			names = true;
		}
	}
	if (!agreed)
		return false;
	t->verdict = RUA_SEND;
	if (names)
		override(c, at, &first);
	return false;
}

int rua_evaluate(void *arg, struct dns_answers *set)
{
	struct rua_check *c = arg;
	struct dmarc_record record;
	bool more = false;
	c->n = 0;
	c->state = RUA_NONE;
	int r = own_record(c, set, &record);
	if (r < 0) {
		c->state = RUA_TEMPFAIL;
		return r == -1 ? DNS_MORE : DNS_DONE;
	}
	size_t n_uris = 0;
	const struct dmarc_uri *uri = r ? uris(c, &record, &n_uris) : NULL;
	if (!n_uris)
		return DNS_DONE;
	c->state = RUA_FOUND;
	for (size_t i = 0; i < n_uris; i++)
		add(c, &uri[i]);
	size_t n = c->n;
	for (size_t i = 0; i < n; i++) {
		if (c->target[i].verdict != RUA_SEND)
			continue;
		int same = related(c->domain, host_of(c->target[i].address), set);
		if (same == -1)
			more = true;
		else if (same == -2)
			c->target[i].verdict = RUA_LATER;
		else if (!same)
			more |= ask_outside(c, i, set);
	}
	return more ? DNS_MORE : DNS_DONE;
}
