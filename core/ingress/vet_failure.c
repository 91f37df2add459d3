/* A verdict as one message for a DMARC failure report (failures.h): whether its domain wants to hear of it (RFC 9989 §4.7, fo), and what is said. */
#include "vet_internal.h"

#include "base/clock.h"
#include "proto/mail/header.h"

static bool spf_failed(const struct verify_verdict *r)
{
	return r->spf && (r->spf->result == SPF_FAIL || r->spf->result == SPF_SOFTFAIL || r->spf->result == SPF_PERMERROR);
}

/* The first signature that was looked at and does not hold. */
static const struct dkim_signature *bad_signature(const struct verify_verdict *r)
{
	for (size_t i = 0; i < r->n_dkim; i++)
		if (r->dkim[i].signature->result == DKIM_FAIL || r->dkim[i].signature->result == DKIM_PERMERROR || r->dkim[i].signature->result == DKIM_POLICY)
			return r->dkim[i].signature;
	return NULL;
}

/* What failed, of what fo asks for; NULL: nothing that is to be told. */
static const char *failure(const struct verify_verdict *r, const struct dkim_signature *bad)
{
	const struct dmarc_check *c = r->dmarc;
	unsigned fo = r->record->fo;
	if (c->result == DMARC_RESULT_FAIL && fo & (DMARC_FO_0 | DMARC_FO_1))
		return "dmarc";
	if (c->result == DMARC_RESULT_PASS && fo & DMARC_FO_1 && !(c->spf_aligned && c->dkim_aligned))
		return "dmarc";
	if (bad && fo & DMARC_FO_D)
		return bad->body == DKIM_FAIL ? "bodyhash" : "signature";
	return fo & DMARC_FO_S && spf_failed(r) ? "spf" : NULL;
}

/* Of what verify_authres() wrote: the value. */
static struct str value_of(const struct buf *field)
{
	struct str rest = buf_str(field);
	struct mail_field f;
	return mail_field_next(&rest, &f) == 1 ? str_trim(f.value) : STR_NULL;
}

void vet_failure(struct session *s, const struct verify *v, bool refused, bool quarantine)
{
	const struct verify_verdict *r = verify_verdict(v);
	const struct dmarc_check *c = r->dmarc;
	struct message *m = &s->message;
	struct failures *f = s->in->failures;
	if (!f || !r->record || !c || !r->record->n_ruf || c->author->n != 1 || verify_temporary(r) ||
	    !failures_wanted(f, str_from(c->walk.org), clock_mono_us()))
		return;
	const struct dkim_signature *bad = bad_signature(r);
	const char *what = failure(r, bad);
	struct buf results = BUF_INIT(SPOOL_HEADER_OCTETS);
	if (!what || verify_authres(v, &results, str_from(s->terms->hostname), NULL, 0, false)) {
		buf_free(&results);
		return;
	}
	const struct failure_message one = { .domain = str_from(c->walk.policy_domain), .org = str_from(c->walk.org),
		.ip = net_addr_is_ip(&s->peer) ? str_from(s->peer.text) : STR_NULL, .mail_from = m->mail_from, .rcpts = m->rcpts, .n_rcpts = m->n_rcpts,
		.failure = what, .result = refused ? "reject" : quarantine ? "spam" : "delivered",
		.alignment = c->dkim_aligned && c->spf_aligned ? "dkim, spf" : c->dkim_aligned ? "dkim" : c->spf_aligned ? "spf" : "none",
		.auth_results = value_of(&results), .dkim_domain = bad ? bad->domain : STR_NULL, .dkim_selector = bad ? bad->selector : STR_NULL,
		.spf_domain = r->spf ? str_from(r->spf->domain) : STR_NULL, .headers = buf_str(&m->spool.head) };
	m->failed = BUF_INIT(FAILURES_SLIP_MAX);
	failures_write(f, &one, clock_wall_us(), &m->failed);
	buf_free(&results);
}
