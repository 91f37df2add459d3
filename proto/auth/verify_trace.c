/* What is told of an authentication step by step: questions with their answers, and what follows from them. */
#include "verify_internal.h"

#include <stdio.h>

enum { LINE_MAX_ = 1024 };

static void say(struct verify *v, enum verify_step_kind kind, enum verify_method m, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void say(struct verify *v, enum verify_step_kind kind, enum verify_method m, const char *fmt, ...)
{
	char line[LINE_MAX_];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	for (char *p = line; *p; p++)
		*p = *p > 0x1f && *p < 0x7f ? *p : '?';
	v->trace(v->trace_arg, &(struct verify_step){ .kind = kind, .method = m, .text = line });
}

void verify_trace(struct verify *v, verify_trace_fn *fn, void *arg)
{
	v->trace = fn;
	v->trace_arg = arg;
}

void verify_trace_questions(struct verify *v, const struct dns_answers *set, enum verify_method m)
{
	struct verify_step s = { .kind = VERIFY_ASKS, .method = m };
	const struct dns_answer *answer;
	for (; v->trace && v->asked < DNS_ANSWERS_MAX && dns_answers_at(set, v->asked, &s.name, &s.type, &answer); v->asked++) {
		v->asker[v->asked] = (unsigned char)m;
		v->trace(v->trace_arg, &s);
	}
}

void verify_trace_answers(struct verify *v, const struct dns_answers *set)
{
	struct verify_step s = { .kind = VERIFY_ANSWER };
	for (size_t i = 0; v->trace && i < v->asked && dns_answers_at(set, i, &s.name, &s.type, &s.answer); i++) {
		if (!s.answer || v->answered[i])
			continue;
		v->answered[i] = true;
		s.method = (enum verify_method)v->asker[i];
		v->trace(v->trace_arg, &s);
	}
}

/* -- SPF */

struct spf_teller {
	struct verify *v;
	enum verify_method m;
};

static void on_term(void *arg, size_t depth, const char *domain, struct str term, const char *outcome)
{
	const struct spf_teller *t = arg;
	say(t->v, VERIFY_SAYS, t->m, "%*s%s: %.*s %s", (int)(2 * depth), "", domain, STR_ARG(term), outcome);
}

static void tell_spf(struct verify *v, enum verify_method m, struct dns_answers *set)
{
	struct spf_check again = v->spf[m];
	struct spf_teller t = { v, m };
	struct buf b = BUF_INIT(LINE_MAX_);
	say(v, VERIFY_SAYS, m, "%s of %s", again.by_helo ? "HELO" : "MAIL FROM", again.domain[0] ? again.domain : "no domain");
	if (set) { /* once more, aloud: all its answers are there */
		again.step = on_term;
		again.step_arg = &t;
		spf_evaluate(&again, set);
	}
	spf_text(&v->spf[m], &b);
	say(v, VERIFY_DECIDES, m, "%s", buf_z(&b));
	buf_free(&b);
}

/* -- DKIM, ARC */

static void tell_dkim(struct verify *v)
{
	const struct verify_verdict *r = &v->verdict;
	if (r->dkim_error)
		say(v, VERIFY_DECIDES, VERIFY_DKIM, "temperror: %s", r->dkim_error);
	else if (!r->n_dkim)
		say(v, VERIFY_DECIDES, VERIFY_DKIM, "none: not signed");
	for (size_t i = 0; i < r->n_dkim; i++) {
		const struct dkim_signature *s = r->dkim[i].signature;
		char key[40] = "";
		if (s->bits)
			snprintf(key, sizeof key, " (%u-bit key%s)", s->bits, s->testing ? ", testing" : "");
		say(v, VERIFY_DECIDES, VERIFY_DKIM, "%s: signature %zu of d=%.*s s=%.*s a=%.*s%s%s%s", dkim_result_name(s->result), i + 1,
		    STR_ARG(s->domain), STR_ARG(s->selector), STR_ARG(s->algorithm), key, s->reason[0] ? ": " : "", s->reason);
	}
	if (r->dkim_ignored)
		say(v, VERIFY_SAYS, VERIFY_DKIM, "%zu more signatures were not looked at", r->dkim_ignored);
}

static void tell_arc(struct verify *v)
{
	const struct verify_verdict *r = &v->verdict;
	if (!r->arc) {
		say(v, VERIFY_DECIDES, VERIFY_ARC, "temperror: %s", r->dkim_error);
		return;
	}
	for (unsigned i = 0; i < r->arc->n; i++)
		say(v, VERIFY_SAYS, VERIFY_ARC, "set %u: sealed by d=%.*s s=%.*s cv=%s, message signature of d=%.*s", i + 1,
		    STR_ARG(r->arc->set[i].seal_domain), STR_ARG(r->arc->set[i].seal_selector), dkim_result_name(r->arc->set[i].cv),
		    STR_ARG(r->arc->set[i].message_domain));
	say(v, VERIFY_DECIDES, VERIFY_ARC, "%s%s%s%s", dkim_result_name(r->arc->result), r->arc->reason[0] ? ": " : "", r->arc->reason,
	    r->arc->result == DKIM_NONE ? ": no ARC sets" : "");
}

/* -- DMARC */

static void tell_dmarc(struct verify *v)
{
	const struct verify_verdict *r = &v->verdict;
	const struct dmarc_check *c = &v->dmarc;
	for (size_t i = 0; i < v->author.n; i++)
		say(v, VERIFY_SAYS, VERIFY_DMARC, "the author's domain is %s", v->author.domain[i]);
	for (size_t i = 0; i < c->walk.n_queries; i++)
		say(v, VERIFY_SAYS, VERIFY_DMARC, "tree walk: looked at _dmarc.%s", c->walk.queries[i]);
	if (c->walk.n_queries)
		say(v, VERIFY_SAYS, VERIFY_DMARC, "the organizational domain is %s", c->walk.org);
	if (r->record)
		say(v, VERIFY_SAYS, VERIFY_DMARC, "the record of %s applies: %.*s", c->walk.policy_domain, STR_ARG(r->record->text));
	for (size_t i = 0; i < c->n_ids && c->result != DMARC_RESULT_NONE; i++) {
		const struct dmarc_id *id = &v->id[i];
		say(v, VERIFY_SAYS, VERIFY_DMARC, "%s of %.*s %s, %s", id->spf ? "SPF" : "DKIM", STR_ARG(id->domain.n ? id->domain : STR("no domain")),
		    id->pass ? "passed" : id->temperror ? "is not known" : "did not pass",
		    id->aligned ? "aligned" : id->pass ? "not aligned" : "so it does not count");
	}
	if (r->override == VERIFY_TRUSTED_SEALER)
		say(v, VERIFY_SAYS, VERIFY_DMARC, "the policy %s is overridden: a listed sealer vouches in set %u (%s)",
		    dmarc_policy_name(c->disposition), r->sealer, r->comment);
	say(v, VERIFY_DECIDES, VERIFY_DMARC, "%s: %s; disposition %s", dmarc_result_name(c->result), c->reason ? c->reason : "",
	    dmarc_policy_name(r->disposition));
}

void verify_trace_done(struct verify *v, enum verify_method m, struct dns_answers *set)
{
	if (!v->trace)
		return;
	switch (m) {
	case VERIFY_HELO:
	case VERIFY_MAILFROM:
		tell_spf(v, m, set);
		return;
	case VERIFY_DKIM:
		tell_dkim(v);
		return;
	case VERIFY_ARC:
		tell_arc(v);
		return;
	case VERIFY_DMARC:
		tell_dmarc(v);
		return;
	case VERIFY_METHODS:
		return;
	}
}
