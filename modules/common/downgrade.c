/* The relay stages' side of conversion; see downgrade.h. Talks to the host only. */
#include "downgrade.h"

#include "base/buf.h"
#include "proto/mail/downgrade.h"

void relay_downgrade_open(struct relay_downgrade *d, const struct pepsi_host *host, const struct pepsi_conf *conf)
{
	const char *policy = host->conf_str(conf, "DOWNGRADE");
	*d = (struct relay_downgrade){ .policy = SMTP_DOWNGRADE_ALWAYS };
	if (policy && !strcmp(policy, "never"))
		d->policy = SMTP_DOWNGRADE_NEVER;
	else if (policy && !strcmp(policy, "unsigned"))
		d->policy = SMTP_DOWNGRADE_UNSIGNED;
	if (PEPSI_HAS(host, metric))
		d->count = host->metric(conf, PEPSI_METRIC_COUNTER, "downgrades", "result", "Messages for next hops that take less than they need.");
}

static void count(const struct relay_downgrade *d, const struct pepsi_host *host, const char *what)
{
	if (d->count && PEPSI_HAS(host, measure))
		host->measure(d->count, what, 1);
}

/* Was it refused here for what the hop lacks? */
static bool refused(const struct smtp_client_msg *m)
{
	for (size_t i = 0; i < m->n_rcpts; i++) {
		const struct smtp_result *r = &m->rcpts[i].result;
		if (r->outcome == SMTP_OUT_PERMANENT && !r->code && (!strcmp(r->status, "5.6.3") || !strcmp(r->status, "5.6.7")))
			return true;
	}
	return false;
}

void relay_downgrade_tell(const struct relay_downgrade *d, const struct pepsi_host *host, struct pepsi_msg *msg, const struct smtp_client_msg *m, const char *hop)
{
	const struct smtp_downgraded *w = &m->downgraded;
	struct buf b = BUF_INIT(1024);
	if (refused(m)) /* why is in the line of the recipient */
		count(d, host, "refused");
	if (!w->lacks && !w->envelope)
		return;
	count(d, host, w->breaks ? "signature_broken" : w->lacks ? "converted" : "addresses");
	buf_addf(&b, "event=downgraded hop=%s lacks=%s parts=%u fields=%u left_out=%u addresses=%s signature=%s", hop, w->lacks ? smtp_lacking(w->lacks) : "SMTPUTF8", w->parts,
	    w->fields, w->left_out, w->envelope ? "yes" : "no", w->breaks ? "broken" : mail_is_signed(m->headers) ? "kept" : "none");
	host->log(msg, w->breaks ? PEPSI_LOG_WARN : PEPSI_LOG_INFO, buf_z(&b));
	buf_free(&b);
}
