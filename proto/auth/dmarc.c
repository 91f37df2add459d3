/* DMARC: who the author is, which identifiers align, and what follows. */
#include "proto/auth/dmarc.h"

#include "proto/mail/addrlist.h"
#include "proto/mail/header.h"

#include <stdio.h>

const char *dmarc_result_name(enum dmarc_result r)
{
	static const char *const names[] = { "none", "pass", "fail", "temperror", "permerror" };
	return (unsigned)r < 5 ? names[r] : "none";
}

/* -- the author */

static void add_domain(struct dmarc_author *a, const char *folded)
{
	for (size_t i = 0; i < a->n; i++)
		if (!strcmp(a->domain[i], folded))
			return;
	if (a->n == DMARC_DOMAINS_MAX) {
		a->more = true;
		return;
	}
	snprintf(a->domain[a->n++], sizeof a->domain[0], "%s", folded);
	size_t queries = 0;
	for (size_t i = 0; i < a->n; i++)
		queries += dmarc_walk_queries(a->domain[i]) + 1; /* and whether it exists */
	a->more |= queries > DMARC_AUTHORS_QUERIES;
}

/* One From field. Returns a clause if it cannot be read for certain. */
static const char *read_from(struct dmarc_author *a, struct str value)
{
	struct mail_addrlist l;
	char folded[DNS_NAME_MAX + 1];
	if (mail_addrlist_parse(&l, value))
		return "the From field is too large to read";
	const char *bad = l.bad ? "the From field is no list of addresses" : NULL;
	for (size_t i = 0; i < l.n; i++) {
		const struct mail_address *m = &l.item[i];
		if (m->kind != MAIL_ADDR_MAILBOX)
			continue;
		a->mailboxes++;
		a->unreadable += !m->valid;
		if (!m->valid || m->literal)
			continue;
		if (dns_name_fold(m->domain, folded) < 0)
			bad = "a domain in the From field is none";
		else
			add_domain(a, folded);
	}
	mail_addrlist_free(&l);
	return bad;
}

void dmarc_author(struct str headers, struct dmarc_author *ret)
{
	struct mail_field f;
	const char *bad = NULL;
	int r;
	*ret = (struct dmarc_author){ 0 };
	while ((r = mail_field_next(&headers, &f))) {
		if (r < 0 || !str_ieq(f.name, STR("From")))
			continue;
		const char *why = ret->fields < 2 ? read_from(ret, f.value) : NULL;
		bad = bad ? bad : why;
		ret->more |= ret->fields == 2; /* what a third one says nobody looks at */
		ret->fields += ret->fields < 2;
	}
	ret->state = DMARC_AUTHOR_OK;
	if (ret->more)
		bad = NULL; /* several, at any rate */
	if (ret->fields > 1) {
		ret->state = DMARC_AUTHOR_SEVERAL;
		ret->why = ret->more ? "there are too many From fields, or authors" : "there are several From fields";
	} else if (bad) {
		ret->state = DMARC_AUTHOR_BAD;
		ret->why = bad;
	} else if (ret->n > 1) {
		ret->state = DMARC_AUTHOR_SEVERAL;
		ret->why = ret->more ? "the From field has addresses of too many domains" : "the From field has addresses of several domains";
	} else if (!ret->n) {
		ret->state = DMARC_AUTHOR_NONE;
		ret->why = ret->fields ? "the From field has no domain" : "there is no From field";
	}
}

/* -- alignment (§4.4) */

/* Is the domain the parent, or below it? Both folded. */
static bool within(const char *domain, const char *parent)
{
	size_t d = strlen(domain), p = strlen(parent);
	return d >= p && !strcmp(domain + d - p, parent) && (d == p || domain[d - p - 1] == '.');
}

static bool fallback_same(const struct dmarc_check *c, const char *a, const char *b)
{
	char org_a[DNS_NAME_MAX + 1], org_b[DNS_NAME_MAX + 1];
	return c->fallback && c->fallback(c->fallback_arg, a, org_a) == 0 && c->fallback(c->fallback_arg, b, org_b) == 0 &&
	    !strcmp(org_a, org_b);
}

enum { ALIGN_NO, ALIGN_YES, ALIGN_UNKNOWN, ALIGN_MORE };

/* Only names at or below the author's organizational domain can have the same one: no others are asked for, so that who signs with
 * a domain of his own cannot make the outcome "temperror" by not answering. */
static int align(const struct dmarc_check *c, struct str domain, bool strict, struct dns_answers *set)
{
	char folded[DNS_NAME_MAX + 1];
	struct dmarc_walk w;
	if (dns_name_fold(domain, folded) < 0)
		return ALIGN_NO;
	if (!strcmp(folded, c->walk.start))
		return ALIGN_YES;
	if (strict)
		return ALIGN_NO;
	bool below = within(folded, c->walk.org), other = !c->walk.psd && fallback_same(c, c->walk.start, folded);
	if (!below && !other)
		return ALIGN_NO;
	if (dmarc_walk(domain, set, &w) == DNS_MORE)
		return ALIGN_MORE;
	if (w.tempfail)
		return ALIGN_UNKNOWN;
	return !strcmp(w.org, c->walk.org) || (other && !w.psd) ? ALIGN_YES : ALIGN_NO;
}

/* -- the policy (§4.10.1) */

enum { EXISTS_NO, EXISTS_YES, EXISTS_UNKNOWN, EXISTS_MORE };

/* §3.2.13: a name for which the answer is NXDOMAIN does not exist. */
static int exists(const char *domain, struct dns_answers *set)
{
	const struct dns_answer *a = dns_answers_get(set, str_from(domain), DNS_A);
	if (!a)
		return EXISTS_MORE;
	if (a->status == DNS_TEMPFAIL)
		return EXISTS_UNKNOWN;
	return a->status == DNS_NXDOMAIN ? EXISTS_NO : EXISTS_YES;
}

/* The policy of the record a walk found for its start. DNS_DONE or DNS_MORE; *unknown: it depends on an answer that did not come. */
static int policy_of(const struct dmarc_walk *w, struct dns_answers *set, enum dmarc_policy *policy, enum dmarc_tag *tag, bool *unknown)
{
	const struct dmarc_record *r = &w->record;
	*policy = r->p;
	*tag = DMARC_TAG_P;
	if (!strcmp(w->policy_domain, w->start))
		return DNS_DONE;
	int e = r->np == r->sp ? EXISTS_YES : exists(w->start, set);
	*unknown |= e == EXISTS_UNKNOWN;
	*policy = e == EXISTS_NO ? r->np : r->sp;
	*tag = e == EXISTS_NO ? DMARC_TAG_NP : r->seen & DMARC_FAULT(DMARC_TAG_SP) ? DMARC_TAG_SP : DMARC_TAG_P;
	return e == EXISTS_MORE ? DNS_MORE : DNS_DONE;
}

static int end(struct dmarc_check *c, enum dmarc_result result, enum dmarc_policy disposition, const char *reason)
{
	c->result = result;
	c->disposition = disposition;
	c->reason = reason;
	return DNS_DONE;
}

/* No single author: it fails, and the strictest of the policies that were broken decides. RFC 9989 §5.3.1 leaves such mail alone,
 * which whoever wants to evade a policy would use. For the same reason nothing that the sender puts beside that author may lead to "not
 * known": neither so many domains that the queries do not suffice (more), nor one that does not answer. */
static int evaluate_unsure(struct dmarc_check *c, struct dns_answers *set)
{
	const struct dmarc_author *a = c->author;
	bool more = false, unknown = false;
	enum dmarc_policy worst = a->unreadable ? DMARC_QUARANTINE : DMARC_NONE; /* it may show any domain to people */
	if (!a->n)
		return a->state == DMARC_AUTHOR_BAD ? end(c, DMARC_RESULT_PERMERROR, DMARC_REJECT, a->why) :
						      end(c, DMARC_RESULT_FAIL, DMARC_REJECT, a->why);
	if (a->more)
		return end(c, DMARC_RESULT_FAIL, DMARC_REJECT, a->why);
	for (size_t i = a->n; i-- > 0;) {
		enum dmarc_policy p = DMARC_NONE;
		enum dmarc_tag tag = DMARC_TAG_P;
		if (dmarc_walk(str_from(a->domain[i]), set, &c->walk) == DNS_MORE ||
		    (c->walk.policy_domain[0] && policy_of(&c->walk, set, &p, &tag, &unknown) == DNS_MORE)) {
			more = true;
			continue;
		}
		unknown |= c->walk.tempfail;
		if (c->walk.policy_domain[0] && c->walk.record.usable && !c->walk.record.t && p >= worst) {
			worst = p;
			c->policy = p;
			c->policy_tag = tag;
		}
	}
	if (more)
		return DNS_MORE;
	if (unknown && worst == DMARC_NONE)
		return end(c, DMARC_RESULT_TEMPERROR, DMARC_NONE, "the policy of a From domain could not be looked up");
	return end(c, DMARC_RESULT_FAIL, worst, a->why);
}

static int check_ids(struct dmarc_check *c, struct dns_answers *set, bool *unknown)
{
	bool more = false;
	for (size_t i = 0; i < c->n_ids && i < DMARC_IDS_MAX; i++) {
		struct dmarc_id *id = &c->id[i];
		id->aligned = false;
		if (!id->pass && !id->temperror)
			continue;
		int how = align(c, id->domain, id->spf ? c->walk.record.aspf_strict : c->walk.record.adkim_strict, set);
		more |= how == ALIGN_MORE;
		*unknown |= how == ALIGN_UNKNOWN || (how == ALIGN_YES && !id->pass);
		id->aligned = how == ALIGN_YES && id->pass;
		*(id->spf ? &c->spf_aligned : &c->dkim_aligned) |= id->aligned;
	}
	return more ? DNS_MORE : DNS_DONE; /* all of them: reports and Authentication-Results name each */
}

int dmarc_evaluate(void *arg, struct dns_answers *set)
{
	struct dmarc_check *c = arg;
	bool unknown = false;
	c->result = DMARC_RESULT_NONE;
	c->policy = c->disposition = DMARC_NONE;
	c->policy_tag = DMARC_TAG_P;
	c->reason = NULL;
	c->testing = c->spf_aligned = c->dkim_aligned = false;
	if (c->author->state == DMARC_AUTHOR_NONE)
		return end(c, DMARC_RESULT_NONE, DMARC_NONE, c->author->why);
	if (c->author->state != DMARC_AUTHOR_OK)
		return evaluate_unsure(c, set);
	if (dmarc_walk(str_from(c->author->domain[0]), set, &c->walk) == DNS_MORE)
		return DNS_MORE;
	if (c->walk.tempfail)
		return end(c, DMARC_RESULT_TEMPERROR, DMARC_NONE, "the policy could not be looked up");
	if (!c->walk.policy_domain[0])
		return end(c, DMARC_RESULT_NONE, DMARC_NONE,
		    c->walk.several ? "the domain has several DMARC records" : "no DMARC record");
	if (!c->walk.record.usable)
		return end(c, DMARC_RESULT_NONE, DMARC_NONE, "the DMARC record has no valid policy and no report address");
	bool policy_unknown = false;
	int more = policy_of(&c->walk, set, &c->policy, &c->policy_tag, &policy_unknown);
	more |= check_ids(c, set, &unknown);
	if (more)
		return DNS_MORE;
	if (c->spf_aligned || c->dkim_aligned)
		return end(c, DMARC_RESULT_PASS, DMARC_NONE, "an authenticated domain is aligned");
	if (unknown || policy_unknown) /* §5.3.2: no permanent failure can be concluded */
		return end(c, DMARC_RESULT_TEMPERROR, DMARC_NONE,
		    unknown ? "an aligned domain could not be checked" : "whether the domain exists could not be looked up");
	c->testing = c->walk.record.t && c->policy != DMARC_NONE;
	return end(c, DMARC_RESULT_FAIL, c->testing ? DMARC_NONE : c->policy,
	    c->testing ? "the owner is testing (t=y)" : "no authenticated domain is aligned");
}
