/* What a listener makes of a verdict: the reply (RFC 7372, RFC 8617 §7.3 codes), the place in quarantine, the fields. */
#include "vet_internal.h"

#include "proto/auth/spf_authres.h"
#include "proto/mail/header.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* --- terms */

static enum vet_mode mode(const struct config *c, const char *section, const char *option, bool smtp)
{
	const char *set = config_str(c, section, option);
	if (!set)
		return smtp ? VET_RECORD : VET_OFF;
	return !strcmp(set, "enforce") ? VET_ENFORCE : !strcmp(set, "record") ? VET_RECORD : VET_OFF;
}

static int read_sealers(struct vet_terms *t, const char *list)
{
	struct str rest, word;
	size_t n = 0;
	if (!list || !*list)
		return 0;
	if (!(t->sealer_text = strdup(list)))
		return -1;
	rest = str_from(t->sealer_text);
	while (str_word(&rest, " \t,", &word))
		n++;
	if (!(t->sealers = calloc(n ? n : 1, sizeof *t->sealers)))
		return -1;
	rest = str_from(t->sealer_text);
	while (str_word(&rest, " \t,", &word))
		t->sealers[t->n_sealers++] = word;
	return 0;
}

int vet_terms_read(struct vet_terms *t, const struct config *c, const char *section, bool smtp)
{
	const char *exempt = config_str(c, section, "AUTHENTICATION_EXEMPT"), *stage = config_str(c, section, "QUARANTINE_STAGE"),
		   *temperror = config_str(c, section, "AUTHENTICATION_TEMPERROR");
	*t = (struct vet_terms){
		.spf = mode(c, section, "SPF", smtp),
		.dkim = mode(c, section, "DKIM", smtp),
		.arc = mode(c, section, "ARC", smtp),
		.dmarc = mode(c, section, "DMARC", smtp),
		.tempfail = temperror && !strcmp(temperror, "tempfail"),
		.timeout_us = config_int(c, section, "AUTHENTICATION_TIMEOUT") * INT64_C(1000000),
		.received_spf = config_int(c, section, "RECEIVED_SPF"),
	};
	if (exempt && !(t->exempt = config_networks_new(exempt)))
		return -1;
	if (stage && *stage && !(t->quarantine = strdup(stage)))
		return -1;
	return read_sealers(t, config_str(c, section, "ARC_SEALERS"));
}

void vet_terms_done(struct vet_terms *t)
{
	config_networks_free(t->exempt);
	free(t->sealer_text);
	free(t->sealers);
	free(t->quarantine);
}

/* --- the reply */

/* Names come from outside: what is no printable ASCII becomes "?". */
static bool refuse(const struct session *s, enum verify_method m, struct vet_refusal *ret, enum refusal why, unsigned code, const char *status,
    const char *fmt, ...) __attribute__((format(printf, 7, 8)));
static bool refuse(const struct session *s, enum verify_method m, struct vet_refusal *ret, enum refusal why, unsigned code, const char *status,
    const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(ret->text, sizeof ret->text, fmt, ap);
	va_end(ap);
	for (char *p = ret->text; *p; p++)
		*p = *p >= 0x20 && *p < 0x7f ? *p : '?';
	ret->why = why;
	ret->reply = (struct smtp_reply){ code, status, ret->text };
	if (code < 500)
		s->in->vet->deferred++;
	else
		s->in->vet->refused[m]++;
	return true;
}

static bool judge_dmarc(const struct session *s, const struct verify_verdict *r, struct vet_refusal *ret, bool *quarantine)
{
	const struct vet_terms *t = &s->terms->vet;
	const struct dmarc_check *c = r->dmarc;
	if (t->dmarc != VET_ENFORCE || !c)
		return false;
	if (r->disposition == DMARC_REJECT && !c->author->n)
		return refuse(s, VERIFY_DMARC, ret, REFUSED_DMARC, 550, "5.7.1", "Whose mail this is cannot be told: %s", c->author->why);
	if (r->disposition == DMARC_REJECT)
		return refuse(s, VERIFY_DMARC, ret, REFUSED_DMARC, 550, "5.7.26", "Refused by the DMARC policy of %.253s: %s",
		    c->author->domain[0], c->reason);
	if (c->result == DMARC_RESULT_TEMPERROR && t->tempfail)
		return refuse(s, VERIFY_DMARC, ret, REFUSED_UNKNOWN_AUTHOR, 451, "4.7.0", "Try again later: %s", c->reason);
	*quarantine = r->disposition == DMARC_QUARANTINE;
	return false;
}

/* Mail that was passed on fails SPF although it is its author's: where DMARC says that it is, that counts (RFC 9989 §7.1). */
static bool judge_spf(const struct session *s, const struct verify_verdict *r, struct vet_refusal *ret)
{
	const struct vet_terms *t = &s->terms->vet;
	const struct spf_check *both[2] = { r->spf, r->spf_helo };
	if (t->spf != VET_ENFORCE || (r->dmarc && (r->dmarc->result == DMARC_RESULT_PASS || r->override == VERIFY_TRUSTED_SEALER)))
		return false;
	for (unsigned i = 0; i < 2; i++)
		if (both[i] && both[i]->result == SPF_FAIL)
			return refuse(s, VERIFY_MAILFROM, ret, REFUSED_SPF, 550, "5.7.23", "SPF: %s does not let [%s] send mail as %s",
			    both[i]->domain, s->peer.text, both[i]->by_helo ? "this host" : "that domain");
	for (unsigned i = 0; i < 2 && t->tempfail; i++)
		if (both[i] && both[i]->result == SPF_TEMPERROR)
			return refuse(s, VERIFY_MAILFROM, ret, REFUSED_UNKNOWN_AUTHOR, 451, "4.7.24",
			    "SPF of %s cannot be looked up at the moment; try again later", both[i]->domain);
	return false;
}

/* Signed, and no signature holds. Who does not sign is let through, as RFC 6376 §6.1 has it, and so is who only tries it out (t=y). */
static bool judge_dkim(const struct session *s, const struct verify_verdict *r, struct vet_refusal *ret)
{
	const struct vet_terms *t = &s->terms->vet;
	enum dkim_result all = verify_dkim_result(r);
	const struct dkim_signature *first = NULL;
	bool good = false;
	if (t->dkim != VET_ENFORCE || !r->dkim_checked || all == DKIM_PASS || all == DKIM_NONE)
		return false;
	if (all == DKIM_TEMPERROR)
		return t->tempfail && refuse(s, VERIFY_DKIM, ret, REFUSED_UNKNOWN_AUTHOR, 451, "4.7.0",
		    "A signature cannot be checked at the moment; try again later");
	for (size_t i = r->n_dkim; i-- > 0;) {
		first = r->dkim[i].signature;
		good |= first->raw == DKIM_PASS;
		if (first->testing)
			return false;
	}
	if (good) /* RFC 7372 §3.1: passing ones, none of them acceptable */
		return refuse(s, VERIFY_DKIM, ret, REFUSED_DKIM, 550, "5.7.21", "No acceptable DKIM signature: %s", first->reason);
	return refuse(s, VERIFY_DKIM, ret, REFUSED_DKIM, 550, "5.7.20", "No DKIM signature holds: %s", first->reason);
}

static bool judge_arc(const struct session *s, const struct verify_verdict *r, struct vet_refusal *ret)
{
	const struct vet_terms *t = &s->terms->vet;
	if (t->arc != VET_ENFORCE || !r->arc || r->arc->result != DKIM_FAIL)
		return false;
	if (r->arc->temporary)
		return t->tempfail && refuse(s, VERIFY_ARC, ret, REFUSED_UNKNOWN_AUTHOR, 451, "4.7.0",
		    "The ARC chain cannot be checked at the moment; try again later");
	return refuse(s, VERIFY_ARC, ret, REFUSED_ARC, 550, "5.7.29", "The ARC chain is broken: %s", r->arc->reason);
}

bool vet_judge(const struct session *s, const struct verify_verdict *r, struct vet_refusal *ret, bool *ret_quarantine)
{
	return judge_dmarc(s, r, ret, ret_quarantine) || judge_spf(s, r, ret) || judge_dkim(s, r, ret) || judge_arc(s, r, ret);
}

/* --- the fields */

/* RFC 8601 §3: iprev is told beside the others. */
static size_t put_iprev(const struct session *s, struct authres_result *ret)
{
	if (reverse_result(s) == IPREV_NONE)
		return 0;
	*ret = (struct authres_result){ .method = STR("iprev"), .result = str_from(iprev_result_name(reverse_result(s))),
		.prop = { { STR("policy"), STR("iprev"), str_from(s->peer.text) } }, .n_props = 1 };
	if (s->rdns.n)
		ret->comment = buf_str(&s->rdns);
	return 1;
}

enum spool_fault vet_fields(struct session *s, const struct verify *v, size_t *ret_forged)
{
	struct spool *sp = &s->message.spool;
	struct str id = str_from(s->terms->hostname), head = buf_str(&sp->head);
	struct mail_field f;
	struct authres_result iprev;
	const struct verify_verdict *r = v ? verify_verdict(v) : NULL;
	*ret_forged = 0;
	if (!v && mail_field_find(head, STR("Authentication-Results"), 0, &f))
		return SPOOL_OK;
	struct buf out = BUF_INIT(SPOOL_HEADER_OCTETS + 256 * 1024);
	bool bad = v && verify_authres(v, &out, id, &iprev, put_iprev(s, &iprev), s->message.smtputf8);
	if (!bad && r && r->spf && s->terms->vet.spf && s->terms->vet.received_spf)
		bad = spf_received_write(&out, r->spf, id);
	bad = bad || authres_strip(&out, head, &id, 1, ret_forged);
	enum spool_fault fault = bad ? SPOOL_FULL : v || *ret_forged ? spool_set_head(sp, buf_str(&out)) : SPOOL_OK;
	buf_free(&out);
	return fault;
}
