/* A verdict as one count of a DMARC report (tally.h): what the domain wants, what came of it, who sent it. Kept with the message until it is known what its
 * sender is told: what is put off comes again. */
#include "vet_internal.h"

#include "base/clock.h"

void vet_tally(struct session *s, const struct verify_verdict *r, bool refused, bool quarantine)
{
	const struct dmarc_record *p = r->record;
	const struct dmarc_check *c = r->dmarc;
	struct message *m = &s->message;
	struct tally_dkim dkim[TALLY_DKIM_MAX];
	if (!p || !c || !p->n_rua || !c->author->n || !s->in->tally)
		return;
	struct tally_message t = { .domain = str_from(c->walk.policy_domain), .org = str_from(c->walk.org), .asks = true, .p = p->p, .sp = p->sp, .np = p->np, .adkim_strict = p->adkim_strict,
		.aspf_strict = p->aspf_strict, .testing = p->t, .psl = r->psl, .fo = p->fo, .result = c->result, .wanted = c->policy,
		.done = refused ? DMARC_REJECT : quarantine ? DMARC_QUARANTINE : DMARC_NONE,
		.reason = r->override ? verify_override_name(r->override) : NULL, .comment = r->comment, .dkim_aligned = c->dkim_aligned,
		.spf_aligned = c->spf_aligned, .header_from = str_from(c->author->domain[0]), .envelope_from = str_behind(m->mail_from, '@'), .rcpts = m->rcpts,
		.n_rcpts = m->n_rcpts, .dkim = dkim };
	if (net_addr_is_ip(&s->peer)) {
		memcpy(t.ip, s->peer.ip, sizeof t.ip);
		t.ip_n = s->peer.family == AF_INET ? 4 : 16;
	}
	for (size_t i = 0; i < r->n_dkim && t.n_dkim < TALLY_DKIM_MAX; i++) {
		const struct dkim_signature *d = r->dkim[i].signature;
		if (d->domain.n && d->selector.n) /* one without says nothing to its owner */
			dkim[t.n_dkim++] = (struct tally_dkim){ d->domain, d->selector, dkim_result_name(d->result), r->dkim[i].aligned };
	}
	if (r->spf) {
		t.spf_domain = str_from(r->spf->domain);
		t.spf_result = spf_result_name(r->spf->result);
	}
	m->counted = BUF_INIT(TALLY_SLIP_MAX);
	tally_write(s->in->tally, &t, &m->counted);
}

void vet_settled(struct ingress *in, struct message *m)
{
	if (in->tally)
		tally_count(in->tally, buf_str(&m->counted), clock_wall_us());
	if (in->failures)
		failures_keep(in->failures, buf_str(&m->failed), clock_mono_us());
	buf_free(&m->counted);
	buf_free(&m->failed);
}
