/* The authentication of one message: which method may go on, and what becomes of all of them together. See verify.h. */
#include "verify_internal.h"

#include <stdlib.h>

enum { HELO_MAX = 512, SENDER_MAX = 2048, RECEIVER_MAX = 256 };

const char *verify_method_name(enum verify_method m)
{
	static const char *const names[VERIFY_METHODS] = { "spf-helo", "spf", "dkim", "arc", "dmarc" };
	return (unsigned)m < VERIFY_METHODS ? names[m] : "?";
}

const char *verify_override_name(enum verify_override o)
{
	static const char *const names[] = { "", "policy_test_mode", "local_policy" };
	return (unsigned)o < 3 ? names[o] : "";
}

/* Whoever has an RFC 7489 view of suffixes asks it through this, so that it is known whether it mattered. */
static int ask_fallback(void *arg, const char *domain, char ret[DNS_NAME_MAX + 1])
{
	struct verify *v = arg;
	v->psl_asked = true;
	return v->policy.fallback(v->policy.fallback_arg, domain, ret);
}

struct verify *verify_new(const struct verify_policy *p)
{
	struct verify *v = calloc(1, sizeof *v);
	if (!v)
		return NULL;
	v->policy = *p;
	v->policy.dkim_policy.arc = p->arc;
	v->wanted[VERIFY_HELO] = v->wanted[VERIFY_MAILFROM] = p->spf || p->dmarc;
	v->wanted[VERIFY_DKIM] = p->dkim || p->dmarc;
	v->wanted[VERIFY_ARC] = p->arc;
	v->wanted[VERIFY_DMARC] = p->dmarc;
	v->dmarc = (struct dmarc_check){ .author = &v->author, .id = v->id };
	if (p->fallback) {
		v->dmarc.fallback = ask_fallback;
		v->dmarc.fallback_arg = v;
	}
	v->text = BUF_INIT(VERIFY_TEXT_MAX);
	if (v->wanted[VERIFY_DKIM] || v->wanted[VERIFY_ARC])
		v->dkim = dkim_new(&v->policy.dkim_policy);
	if (v->dkim || !(v->wanted[VERIFY_DKIM] || v->wanted[VERIFY_ARC]))
		return v;
	free(v);
	return NULL;
}

void verify_free(struct verify *v)
{
	if (!v)
		return;
	dkim_release(v->dkim);
	free(v->record_text);
	buf_free(&v->text);
	free(v);
}

static bool all_done(const struct verify *v)
{
	for (unsigned m = 0; m < VERIFY_METHODS; m++)
		if (v->wanted[m] && !v->done[m])
			return false;
	return true;
}

static void finished(struct verify *v, enum verify_method m, struct dns_answers *set)
{
	v->done[m] = true;
	verify_trace_done(v, m, set);
}

/* -- input */

static struct str keep(struct verify *v, struct str s, size_t most)
{
	size_t at = v->text.n;
	buf_add(&v->text, s.p, s.n < most ? s.n : most);
	return str_n(v->text.p + at, v->text.n - at);
}

int verify_envelope(struct verify *v, const struct verify_envelope *e)
{
	if (!buf_room(&v->text, HELO_MAX + SENDER_MAX + RECEIVER_MAX))
		return -1;
	struct str helo = keep(v, e->helo, HELO_MAX), receiver = keep(v, e->receiver, RECEIVER_MAX), sender = e->mail_from;
	if (sender.n > SENDER_MAX) /* the domain counts, and stands at the end */
		sender = str_skip(sender, sender.n - SENDER_MAX);
	sender = keep(v, sender, SENDER_MAX);
	memcpy(v->ip, e->ip, sizeof v->ip);
	for (unsigned i = VERIFY_HELO; i <= VERIFY_MAILFROM; i++)
		v->spf[i] = (struct spf_check){ .ip = v->ip, .ip_n = e->ip_n, .identity = i == VERIFY_HELO ? SPF_HELO : SPF_MAILFROM,
			.helo = helo, .sender = sender, .receiver = receiver, .now = v->policy.dkim_policy.now };
	if (!sender.n) /* the other check is of the same name */
		v->wanted[VERIFY_HELO] = false;
	v->enveloped = true;
	return v->text.failed ? -1 : 0;
}

int verify_headers(struct verify *v, struct str headers)
{
	dmarc_author(headers, &v->author);
	v->verdict.author = &v->author;
	if (!v->dkim || dkim_headers(v->dkim, headers) == 0)
		return 0;
	v->verdict.dkim_error = "out of memory";
	return -1;
}

bool verify_wants_body(const struct verify *v)
{
	return v->dkim && !v->verdict.dkim_error && dkim_wants_body(v->dkim);
}

void verify_body(struct verify *v, const void *p, size_t n)
{
	if (v->dkim)
		dkim_body_feed(v->dkim, p, n);
}

void verify_body_end(struct verify *v)
{
	if (v->dkim)
		dkim_body_end(v->dkim);
}

/* -- SPF */

_Static_assert(VERIFY_SPF_QUERIES + DMARC_AUTHORS_QUERIES <= VERIFY_QUERIES, "no author's policy is out of reach");

/* Did none of its look-ups fail, so that only their number can have ended it? */
static bool all_answered(const struct dns_answers *set)
{
	struct str name;
	enum dns_type type;
	const struct dns_answer *a;
	for (size_t i = 0; dns_answers_at(set, i, &name, &type, &a); i++)
		if (!a || a->status == DNS_TEMPFAIL)
			return false;
	return true;
}

static int run_spf(struct verify *v, enum verify_method m, struct dns_answers *set)
{
	if (!v->enveloped)
		return DNS_DONE;
	size_t before = dns_answers_n(set);
	dns_answers_limit(set, before + VERIFY_SPF_QUERIES - v->spf_asked);
	int rc = spf_evaluate(&v->spf[m], set);
	dns_answers_limit(set, 0);
	v->spf_asked += dns_answers_n(set) - before;
	/* a limit is no trouble that passes (RFC 7208 §4.6.4): who names a sender with such a record must not get "not known" for it */
	if (rc == DNS_DONE && m == VERIFY_MAILFROM && v->spf[m].result == SPF_TEMPERROR && v->spf_asked >= VERIFY_SPF_QUERIES && all_answered(set)) {
		v->spf[m].result = SPF_PERMERROR;
		v->spf[m].reason = "the record asks for more than is looked up";
	}
	if (rc == DNS_DONE) {
		*(m == VERIFY_HELO ? &v->verdict.spf_helo : &v->verdict.spf) = &v->spf[m];
		finished(v, m, set);
	}
	return rc;
}

static bool spf_open(const struct verify *v)
{
	return (v->wanted[VERIFY_HELO] && !v->done[VERIFY_HELO]) || (v->wanted[VERIFY_MAILFROM] && !v->done[VERIFY_MAILFROM]);
}

bool verify_explain(struct verify *v)
{
	static const enum verify_method order[] = { VERIFY_MAILFROM, VERIFY_HELO };
	for (size_t i = 0; i < 2; i++) {
		struct spf_check *c = &v->spf[order[i]];
		if (!v->done[order[i]] || c->result != SPF_FAIL)
			continue;
		v->explaining = c->has_explanation ? c : NULL;
		v->explain_most = 0;
		return v->explaining;
	}
	return false;
}

/* The same check once more, on answers that are all there, and then its explanation. */
static int run_explanation(struct verify *v, struct dns_answers *set)
{
	struct spf_check *c = v->explaining, again = *c;
	enum verify_method m = c == &v->spf[VERIFY_HELO] ? VERIFY_HELO : VERIFY_MAILFROM;
	again.explain = true;
	if (!v->explain_most)
		v->explain_most = dns_answers_n(set) + VERIFY_EXPLAIN_QUERIES;
	dns_answers_limit(set, v->explain_most);
	int rc = spf_evaluate(&again, set);
	dns_answers_limit(set, 0);
	verify_trace_questions(v, set, m);
	if (rc != DNS_DONE)
		return rc;
	if (again.result == SPF_FAIL)
		memcpy(c->explanation, again.explanation, sizeof c->explanation);
	v->explaining = NULL;
	return DNS_DONE;
}

/* -- DKIM and ARC, which one engine does */

static void end_dkim(struct verify *v, struct dns_answers *set)
{
	struct verify_verdict *r = &v->verdict;
	r->dkim_checked = v->wanted[VERIFY_DKIM];
	if (r->dkim_error) {
		r->n_dkim = 0;
	} else {
		r->n_dkim = dkim_n(v->dkim);
		r->dkim_ignored = dkim_n_ignored(v->dkim);
		for (size_t i = 0; i < r->n_dkim; i++)
			r->dkim[i] = (struct verify_dkim){ .signature = dkim_signature(v->dkim, i) };
		r->arc = v->wanted[VERIFY_ARC] ? dkim_arc(v->dkim) : NULL;
	}
	if (v->wanted[VERIFY_DKIM])
		finished(v, VERIFY_DKIM, set);
	if (v->wanted[VERIFY_ARC])
		finished(v, VERIFY_ARC, set);
}

static int run_dkim(struct verify *v, struct dns_answers *set)
{
	int rc = DNS_DONE;
	if (!v->verdict.author) /* no headers yet */
		return DNS_DONE;
	if (!v->keyed && !v->verdict.dkim_error) {
		bool others = (!v->wanted[VERIFY_DMARC] || v->policy_known) && (!v->enveloped || !spf_open(v));
		rc = dkim_evaluate_keys(v->dkim, set);
		if (rc == DNS_DONE && !others)
			return DNS_DONE; /* who is waited for says so */
		if (rc == DNS_DONE)
			rc = dkim_evaluate(v->dkim, set);
		v->keyed = rc == DNS_DONE;
		v->only_arc = rc == DNS_MORE && others && dkim_evaluate_keys(v->dkim, set) == DNS_DONE;
		if (rc < 0) {
			v->verdict.dkim_error = "out of memory";
			rc = DNS_DONE;
		}
	}
	if (v->verdict.dkim_error || dkim_done(v->dkim))
		end_dkim(v, set);
	return rc;
}

/* -- DMARC */

static void collect_ids(struct verify *v)
{
	const struct spf_check *s = &v->spf[VERIFY_MAILFROM];
	size_t n = 0;
	v->id[n++] = (struct dmarc_id){ .domain = str_from(s->domain), .spf = true, .pass = s->result == SPF_PASS,
		.temperror = s->result == SPF_TEMPERROR };
	for (size_t i = 0; i < v->verdict.n_dkim; i++) {
		const struct dkim_signature *one = v->verdict.dkim[i].signature;
		v->id[n++] = (struct dmarc_id){ .domain = one->domain, .pass = one->result == DKIM_PASS,
			.temperror = one->result == DKIM_TEMPERROR };
	}
	v->dmarc.n_ids = n;
}

/* All about the author is looked up at once, while the body is still on its way, and before other questions of the message. */
static int prefetch(struct verify *v, struct dns_answers *set)
{
	struct dmarc_walk *w = &v->dmarc.walk;
	bool more = false, any = true;
	if (v->policy_known)
		return DNS_DONE;
	any = !v->author.more;
	for (size_t k = 0; any; k++) {
		any = false;
		for (size_t i = 0; i < v->author.n; i++)
			any |= dmarc_walk_ask(str_from(v->author.domain[i]), k, set, &more);
	}
	/* a policy from further up may depend on whether the name exists; of several authors at once, before the keys take what is left */
	for (size_t i = 0; i < v->author.n && v->author.n > 1 && !v->author.more; i++)
		more |= !dns_answers_get(set, str_from(v->author.domain[i]), DNS_A);
	for (size_t i = 0; i < v->author.n && !more && !v->author.more; i++)
		if (dmarc_walk(str_from(v->author.domain[i]), set, w) == DNS_DONE && w->policy_domain[0] && strcmp(w->policy_domain, w->start) &&
		    w->record.np != w->record.sp)
			more |= !dns_answers_get(set, str_from(w->start), DNS_A);
	v->policy_known = !more;
	return more ? DNS_MORE : DNS_DONE;
}

/* The record outlives the set. */
static void keep_record(struct verify *v)
{
	struct dmarc_walk *w = &v->dmarc.walk;
	struct str text = w->policy_domain[0] ? w->record.text : STR_NULL;
	if (text.p && (v->record_text = str_dupz(text)) && dmarc_record_parse(str_n(v->record_text, text.n), &v->record) == 0)
		v->verdict.record = &v->record;
	w->record = v->record; /* nothing, where none was kept */
}

static int run_dmarc(struct verify *v, struct dns_answers *set)
{
	struct verify_verdict *r = &v->verdict;
	if (!r->author)
		return DNS_DONE;
	if (!v->done[VERIFY_MAILFROM] || !v->done[VERIFY_DKIM] || (v->wanted[VERIFY_ARC] && !v->done[VERIFY_ARC]))
		return DNS_DONE;
	collect_ids(v);
	if (dmarc_evaluate(&v->dmarc, set) == DNS_MORE)
		return DNS_MORE;
	if (r->dkim_error && v->dmarc.result == DMARC_RESULT_FAIL && v->author.state == DMARC_AUTHOR_OK) {
		v->dmarc.result = DMARC_RESULT_TEMPERROR; /* a signature might have been good */
		v->dmarc.disposition = DMARC_NONE;
		v->dmarc.reason = "signatures could not be checked";
	}
	r->spf_aligned = v->dmarc.spf_aligned;
	for (size_t i = 0; i < r->n_dkim; i++)
		r->dkim[i].aligned = v->id[1 + i].aligned && v->dmarc.result != DMARC_RESULT_NONE;
	keep_record(v);
	r->dmarc = &v->dmarc;
	r->psl = v->psl_asked && !v->dmarc.walk.psd;
	verify_seal(v);
	finished(v, VERIFY_DMARC, set);
	return DNS_DONE;
}

/* -- all of it */

int verify_evaluate(void *arg, struct dns_answers *set)
{
	struct verify *v = arg;
	int rc = DNS_DONE;
	v->only_arc = false;
	verify_trace_answers(v, set);
	if (v->wanted[VERIFY_DMARC] && !v->done[VERIFY_DMARC] && v->verdict.author)
		rc |= prefetch(v, set);
	verify_trace_questions(v, set, VERIFY_DMARC);
	/* keys that may make the message its author's, before those that nobody but their owner cares about: whoever puts ten signatures of slow zones in front
	 * of it takes none of its time */
	for (size_t i = 0; i < v->author.n && v->verdict.author && v->dkim && !v->verdict.dkim_error && !v->keyed; i++)
		dkim_ask_first(v->dkim, str_from(v->author.domain[i]), set);
	verify_trace_questions(v, set, VERIFY_DKIM);
	for (unsigned m = VERIFY_MAILFROM + 1; m-- > VERIFY_HELO;) {
		if (v->wanted[m] && !v->done[m])
			rc |= run_spf(v, (enum verify_method)m, set);
		verify_trace_questions(v, set, (enum verify_method)m);
		if (m == VERIFY_MAILFROM && v->wanted[m] && !v->done[m])
			break; /* a HELO name is anybody's: what it asks comes out of what is left */
	}
	if ((v->wanted[VERIFY_DKIM] && !v->done[VERIFY_DKIM]) || (v->wanted[VERIFY_ARC] && !v->done[VERIFY_ARC]))
		rc |= run_dkim(v, set);
	verify_trace_questions(v, set, VERIFY_DKIM);
	if (v->wanted[VERIFY_DMARC] && !v->done[VERIFY_DMARC])
		rc |= run_dmarc(v, set);
	verify_trace_questions(v, set, VERIFY_DMARC);
	if (v->policy.explain && all_done(v)) {
		v->policy.explain = false;
		verify_explain(v);
	}
	if (v->explaining)
		rc |= run_explanation(v, set);
	return rc ? DNS_MORE : DNS_DONE;
}

bool verify_only_arc(const struct verify *v)
{
	return v->only_arc;
}

bool verify_done(const struct verify *v)
{
	return all_done(v) && !v->explaining;
}

void verify_abandon(struct verify *v, const char *why)
{
	struct verify_verdict *r = &v->verdict;
	v->explaining = NULL;
	v->policy.explain = false;
	for (unsigned m = VERIFY_HELO; m <= VERIFY_MAILFROM; m++) {
		struct spf_check *c = &v->spf[m];
		if (!v->wanted[m] || v->done[m])
			continue;
		c->identity = m == VERIFY_HELO ? SPF_HELO : SPF_MAILFROM;
		c->result = SPF_TEMPERROR;
		c->reason = why;
		c->where[0] = c->term[0] = 0;
		*(m == VERIFY_HELO ? &r->spf_helo : &r->spf) = c;
		finished(v, (enum verify_method)m, NULL);
	}
	if ((v->wanted[VERIFY_DKIM] && !v->done[VERIFY_DKIM]) || (v->wanted[VERIFY_ARC] && !v->done[VERIFY_ARC])) {
		r->dkim_error = why;
		end_dkim(v, NULL);
	}
	if (!v->wanted[VERIFY_DMARC] || v->done[VERIFY_DMARC])
		return;
	v->dmarc.result = DMARC_RESULT_TEMPERROR;
	v->dmarc.policy = v->dmarc.disposition = DMARC_NONE;
	v->dmarc.reason = why;
	v->dmarc.walk = (struct dmarc_walk){ 0 };
	r->dmarc = &v->dmarc;
	r->disposition = DMARC_NONE;
	finished(v, VERIFY_DMARC, NULL);
}

const struct verify_verdict *verify_verdict(const struct verify *v)
{
	return &v->verdict;
}

void verify_applied(struct verify *v, enum dmarc_policy done)
{
	v->has_applied = true;
	v->applied = done;
}

enum dkim_result verify_dkim_result(const struct verify_verdict *r)
{
	/* by what a reader would want to know first */
	static const enum dkim_result order[] = { DKIM_PASS, DKIM_TEMPERROR, DKIM_FAIL, DKIM_POLICY, DKIM_PERMERROR, DKIM_NEUTRAL };
	if (r->dkim_error)
		return DKIM_TEMPERROR;
	for (size_t k = 0; k < sizeof order / sizeof *order; k++)
		for (size_t i = 0; i < r->n_dkim; i++)
			if (r->dkim[i].signature->result == order[k])
				return order[k];
	return DKIM_NONE;
}

bool verify_temporary(const struct verify_verdict *r)
{
	return (r->spf && r->spf->result == SPF_TEMPERROR) || (r->spf_helo && r->spf_helo->result == SPF_TEMPERROR) || r->dkim_error ||
	    (r->dkim_checked && verify_dkim_result(r) == DKIM_TEMPERROR) || (r->arc && r->arc->temporary) ||
	    (r->dmarc && r->dmarc->result == DMARC_RESULT_TEMPERROR);
}
