/* A verdict and the session it is for: what the listener decides (vet_decide.h) as its refusal, counted; the fields. */
#include "vet_internal.h"

#include "proto/auth/spf_authres.h"
#include "proto/mail/header.h"

bool vet_judge(const struct session *s, const struct verify_verdict *r, struct vet_refusal *ret, bool *ret_quarantine)
{
	static const enum refusal by[VERIFY_METHODS] = { [VERIFY_HELO] = REFUSED_SPF, [VERIFY_MAILFROM] = REFUSED_SPF,
		[VERIFY_DKIM] = REFUSED_DKIM, [VERIFY_ARC] = REFUSED_ARC, [VERIFY_DMARC] = REFUSED_DMARC };
	struct vet_decision *d = &ret->decision;
	vet_decide(&s->terms->vet, r, s->peer.text, d);
	*ret_quarantine = d->action == VET_QUARANTINES;
	if (d->action == VET_ACCEPTS || d->action == VET_QUARANTINES)
		return false;
	ret->why = d->action == VET_PUTS_OFF ? REFUSED_UNKNOWN_AUTHOR : by[d->method];
	ret->reply = (struct smtp_reply){ d->code, d->status, d->text };
	if (d->action == VET_PUTS_OFF)
		s->in->vet->deferred++;
	else
		s->in->vet->refused[d->method]++;
	return true;
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
