/* SPF's check_host() (RFC 7208 §4): records, include and redirect on a stack of levels, and the explanation. */
#include "proto/auth/spf.h"
#include "proto/auth/spf_internal.h"

#include <arpa/inet.h>
#include <stdio.h>

const char *spf_result_name(enum spf_result r)
{
	static const char *const names[] = { "none", "neutral", "pass", "fail", "softfail", "temperror", "permerror" };
	return (unsigned)r < sizeof names / sizeof *names ? names[r] : "none";
}

/* Text of a record, for people. */
static void keep_term(struct spf_check *c, const char *where, struct str term)
{
	size_t n = term.n < SPF_TERM_MAX ? term.n : SPF_TERM_MAX;
	for (size_t i = 0; i < n; i++)
		c->term[i] = (char)(term.p[i] > 0x1f && term.p[i] < 0x7f ? term.p[i] : '?');
	c->term[n] = 0;
	snprintf(c->where, sizeof c->where, "%s", where);
}

/* -- what is checked (§2.3, §2.4, §4.1) */

static void address_values(struct spf_run *r)
{
	static const char hex[] = "0123456789ABCDEF";
	size_t n = 0;
	inet_ntop(r->ip_n == 4 ? AF_INET : AF_INET6, r->ip, r->ip_text, sizeof r->ip_text);
	for (size_t i = 0; r->ip_n == 16 && i < 16; i++) { /* nibbles, §7.3; upper case, as the reference implementations have it */
		r->ip_dotted[n++] = hex[r->ip[i] >> 4];
		r->ip_dotted[n++] = '.';
		r->ip_dotted[n++] = hex[r->ip[i] & 15];
		r->ip_dotted[n++] = '.';
	}
	if (n)
		r->ip_dotted[n - 1] = 0;
	else
		snprintf(r->ip_dotted, sizeof r->ip_dotted, "%s", r->ip_text);
	r->values.i = str_from(r->ip_dotted);
	r->values.c = str_from(r->ip_text);
	r->values.v = r->ip_n == 4 ? STR("in-addr") : STR("ip6");
}

/* Folds the domain and fills the values of sender and domain. A clause: there is nothing to check (§4.3). */
static const char *subject(struct spf_run *r)
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct spf_check *c = r->c;
	r->ip = c->ip;
	r->ip_n = c->ip_n;
	if (c->ip_n == 16 && !memcmp(c->ip, mapped, 12)) {
		r->ip += 12;
		r->ip_n = 4;
	}
	if (r->ip_n != 4 && r->ip_n != 16)
		return "the client has no IP address";
	address_values(r);
	c->by_helo = c->identity == SPF_HELO || !c->sender.n;
	struct str sender = c->by_helo ? c->helo : c->sender, local = STR("postmaster"), domain = sender;
	for (size_t i = sender.n; !c->by_helo && i-- > 0;) {
		if (sender.p[i] != '@')
			continue;
		local = i ? str_n(sender.p, i) : local; /* §4.3: no local part: "postmaster" */
		domain = str_skip(sender, i + 1);
		break;
	}
	/* what is too long for SMTP must not evade the check: it only means nothing in macros */
	local.n = local.n > SPF_LOCAL_MAX ? SPF_LOCAL_MAX : local.n;
	if (domain.n && domain.p[0] == '[')
		return "an address literal has no SPF record";
	if (dns_name_fold(domain, c->domain) < 0) {
		c->domain[0] = 0;
		return "not a domain name";
	}
	if (domain.p[domain.n - 1] == '.')
		domain.n--;
	domain = str_is_ascii(domain) ? domain : str_from(c->domain); /* RFC 8616 §4: A-labels */
	snprintf(r->domain_as_given, sizeof r->domain_as_given, "%.*s", STR_ARG(domain));
	snprintf(r->sender, sizeof r->sender, "%.*s@%s", STR_ARG(local), r->domain_as_given);
	r->values.s = str_from(r->sender);
	r->values.l = str_n(r->sender, strlen(r->sender) - strlen(r->domain_as_given) - 1);
	r->values.o = str_from(r->domain_as_given);
	r->values.h = c->helo.n && c->helo.n <= DNS_NAME_MAX + 2 ? c->helo : STR("unknown");
	r->values.r = c->receiver.n ? c->receiver : STR("unknown");
	snprintf(r->now, sizeof r->now, "%lld", (long long)c->now);
	r->values.t = str_from(r->now);
	return strchr(c->domain, '.') ? NULL : "not a multi-label domain name";
}

/* -- records */

/* Puts the record of a domain into a level. YES: it is there; NO: there is none. */
static enum spf_step open_level(struct spf_run *r, struct spf_level *l, const char *domain)
{
	const struct dns_answer *a = dns_answers_get(r->set, str_from(domain), DNS_TXT);
	struct str found = STR_NULL;
	if (!a)
		return SPF_STEP_MORE;
	if (a->status == DNS_TEMPFAIL)
		return spf_stop(r, SPF_STEP_TEMPERROR, "the look-up of an SPF record failed");
	for (size_t i = 0; i < a->n_rr; i++) {
		if (!spf_record_is(a->rr[i].data))
			continue;
		if (found.p) { /* §4.5 */
			keep_term(r->c, domain, STR_NULL);
			return spf_stop(r, SPF_STEP_PERMERROR, "several SPF records");
		}
		found = a->rr[i].data;
	}
	if (!found.p)
		return SPF_STEP_NO;
	snprintf(l->domain, sizeof l->domain, "%s", domain);
	if (spf_record_parse(found, &l->record)) {
		keep_term(r->c, domain, l->record.bad);
		return spf_stop(r, SPF_STEP_PERMERROR, l->record.why);
	}
	l->rest = l->record.terms;
	return SPF_STEP_YES;
}

/* Follows include or redirect into a level. A domain without a record is a permerror for both (§5.2, §6.1). */
static enum spf_step follow(struct spf_run *r, const struct spf_term *t, struct spf_level *into)
{
	char target[DNS_NAME_MAX + 1];
	if (spf_count_term(r) == SPF_STEP_PERMERROR)
		return SPF_STEP_PERMERROR;
	enum spf_step step = spf_target(r, t->spec, target);
	bool redirect = t->kind == SPF_REDIRECT;
	if (step == SPF_STEP_YES)
		step = open_level(r, into, target);
	if (step != SPF_STEP_NO)
		return step;
	return spf_stop(r, SPF_STEP_PERMERROR,
	    redirect ? "a redirect to a domain without SPF record" : "an included domain without SPF record");
}

/* -- the end */

static int finish(struct spf_check *c, enum spf_result result)
{
	c->result = result;
	return DNS_DONE;
}

/* The explanation of a fail (§6.2): that of the last record reached by redirect, never an included one's. Whatever is wrong
 * with it, there is just none. */
static int explain(struct spf_run *r)
{
	char name[DNS_NAME_MAX + 1];
	struct spf_check *c = r->c;
	struct str spec = r->level[0].record.exp.spec;
	c->has_explanation = spec.p;
	if (!c->explain || !spec.p)
		return DNS_DONE;
	if (spf_values_for(r, spec) == SPF_STEP_MORE)
		return DNS_MORE;
	int n = spf_expand_domain(spec, &r->values, name);
	if (n <= 0 || !str_is_ascii(str_n(name, (size_t)n)))
		return DNS_DONE;
	const struct dns_answer *a = dns_answers_get(r->set, str_from(name), DNS_TXT);
	if (!a)
		return DNS_MORE;
	if (a->n_rr != 1 || a->rr[0].data.n > SPF_RECORD_MAX)
		return DNS_DONE;
	if (spf_values_for(r, a->rr[0].data) == SPF_STEP_MORE)
		return DNS_MORE;
	spf_expand_text(a->rr[0].data, &r->values, c->explanation, sizeof c->explanation);
	return DNS_DONE;
}

static int decide(struct spf_run *r, enum spf_result result)
{
	static const char *const reasons[] = {
		[SPF_NEUTRAL] = "the domain says nothing about the host",
		[SPF_PASS] = "the host may send",
		[SPF_FAIL] = "the host may not send",
		[SPF_SOFTFAIL] = "the host probably may not send",
	};
	r->c->reason = reasons[result];
	if (result == SPF_FAIL && explain(r) == DNS_MORE)
		return DNS_MORE;
	return finish(r->c, result);
}

/* The end of a level that is included: pass is a match of the include, all else none (§5.2). True: go on at the level below. */
static bool leave(struct spf_run *r, enum spf_result *result)
{
	while (r->depth > 0) {
		struct spf_level *l = &r->level[r->depth--];
		if (*result != SPF_PASS)
			return true;
		*result = l->include.verdict;
	}
	return false;
}

static void tell(const struct spf_run *r, const char *domain, struct str term, enum spf_step step)
{
	static const char *const outcomes[] = { "does not match", "matches", "needs an answer", "temperror", "permerror", "leads on" };
	if (r->c->step)
		r->c->step(r->c->step_arg, r->depth, domain, term, outcomes[step]);
}

/* One term, or the end of the record. YES: *result is the level's. */
static enum spf_step step_level(struct spf_run *r, enum spf_result *result)
{
	struct spf_level *l = &r->level[r->depth];
	struct spf_term t;
	const char *why;
	enum spf_step step = SPF_STEP_NO;
	if (spf_term_next(&l->rest, &t, &why) > 0) {
		if (t.kind >= SPF_REDIRECT)
			return SPF_STEP_NO;
		if (t.kind != SPF_INCLUDE) {
			step = spf_mechanism_match(r, &t);
		} else if ((step = follow(r, &t, &r->level[r->depth < SPF_TERMS_MAX ? r->depth + 1 : r->depth])) == SPF_STEP_YES) {
			tell(r, l->domain, t.text, SPF_STEP_LEADS_ON);
			r->level[++r->depth].include = t; /* cannot pass the last: each takes one of SPF_TERMS_MAX terms */
			return SPF_STEP_NO;
		}
		if (step == SPF_STEP_YES)
			*result = t.verdict;
	} else if (l->record.redirect.spec.p) { /* §6.1: behind all mechanisms */
		struct spf_term include = l->include;
		char from[DNS_NAME_MAX + 1];
		snprintf(from, sizeof from, "%s", l->domain);
		t = l->record.redirect;
		step = follow(r, &t, l);
		l->include = include;
		if (step == SPF_STEP_YES) {
			tell(r, from, t.text, SPF_STEP_LEADS_ON);
			return SPF_STEP_NO;
		}
	} else {
		*result = SPF_NEUTRAL; /* §4.7 */
		keep_term(r->c, l->domain, STR_NULL);
		return SPF_STEP_YES;
	}
	tell(r, l->domain, t.text, step);
	if (step == SPF_STEP_YES || ((step == SPF_STEP_TEMPERROR || step == SPF_STEP_PERMERROR) && !r->c->where[0]))
		keep_term(r->c, l->domain, t.text);
	return step;
}

int spf_evaluate(void *arg, struct dns_answers *set)
{
	struct spf_check *c = arg;
	struct spf_run r;
	enum spf_result result = SPF_NONE;
	memset(&r, 0, offsetof(struct spf_run, level));
	r.c = c;
	r.set = set;
	r.level[0].include = (struct spf_term){ 0 };
	c->result = SPF_NONE;
	c->domain[0] = c->where[0] = c->term[0] = c->explanation[0] = 0;
	c->n_terms = c->n_voids = 0;
	c->has_explanation = false;
	c->reason = subject(&r);
	if (c->reason)
		return finish(c, SPF_NONE);
	enum spf_step step = open_level(&r, &r.level[0], c->domain);
	if (step == SPF_STEP_NO) {
		c->reason = "no SPF record";
		return finish(c, SPF_NONE);
	}
	while (step != SPF_STEP_MORE && step != SPF_STEP_TEMPERROR && step != SPF_STEP_PERMERROR) {
		c->where[0] = c->term[0] = 0;
		step = step_level(&r, &result);
		if (step == SPF_STEP_YES && !leave(&r, &result))
			return decide(&r, result);
	}
	if (step == SPF_STEP_MORE)
		return DNS_MORE;
	return finish(c, step == SPF_STEP_TEMPERROR ? SPF_TEMPERROR : SPF_PERMERROR);
}

int spf_text(const struct spf_check *c, struct buf *out)
{
	int r = buf_addf(out, "%s: ", spf_result_name(c->result));
	if (c->where[0] && (c->result == SPF_TEMPERROR || c->result == SPF_PERMERROR))
		r |= buf_addf(out, "%s%s%s in the record of %s", c->reason, c->term[0] ? ": " : "", c->term, c->where);
	else if (c->where[0])
		r |= buf_addf(out, "%s in the record of %s", c->term[0] ? c->term : "no term matches", c->where);
	else
		r |= buf_addz(out, c->reason);
	return r ? -1 : 0;
}
