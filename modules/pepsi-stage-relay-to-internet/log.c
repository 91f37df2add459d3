/* Log lines of deliveries: one per recipient and outcome, with what an operator asks first. */
#include "internet.h"

#include "base/log.h"
#include "say.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>

enum { LOG_RCPTS_MAX = 20 }; /* recipients of one message that get a line */

const struct relay_where *log_where(struct delivery *d, const struct line *l)
{
	struct relay_where *w = arena_alloc(d->a, sizeof *w);
	if (!w)
		return NULL;
	if (!l) {
		w->hop = d->domain;
		return w;
	}
	w->hop = l->host[0] ? arena_printf(d->a, "%s[%s]:%u", l->host, l->ip_text, d->w->set.port)
			    : arena_printf(d->a, "[%s]:%u", l->ip_text, d->w->set.port);
	w->remote_mta = l->host[0] ? arena_printf(d->a, "%s", l->host)
				   : arena_printf(d->a, l->ip.n == 16 ? "[IPv6:%s]" : "[%s]", l->ip_text);
	return w->hop ? w : NULL;
}

const char *log_from(const struct line *l, char *ret, size_t size)
{
	struct hop_address local;
	if (!l->s || !session_local(l->s, &local) || getnameinfo((const void *)&local.sa, local.len, ret, (socklen_t)size, NULL, 0, NI_NUMERICHOST))
		snprintf(ret, size, "-");
	return ret;
}

const char *log_how(struct delivery *d, const struct line *l)
{
	const struct session_facts *f = session_facts(l->s);
	char from[64];
	return arena_printf(d->a, "host=%s ip=%s port=%u from=%s tls=\"%s\" verified=%s reused=%s", l->host[0] ? l->host : "-", l->ip_text,
	    d->w->set.port, log_from(l, from, sizeof from), f->tls_text, l->verified, l->reused ? "yes" : "no");
}

const char *log_sent(struct delivery *d, const struct line *l)
{
	const char *how = l->part.chunked && l->how ? arena_printf(d->a, "%s chunked=yes", l->how) : NULL;
	return how ? how : l->how;
}

void log_refused(struct delivery *d)
{
	const struct route *r = &d->route;
	char text[INET6_ADDRSTRLEN] = "?";
	inet_ntop(r->refused_ip.n == 4 ? AF_INET : AF_INET6, r->refused_ip.ip, text, sizeof text);
	say(d->w->host, d->msg, r->state == ROUTE_FOUND ? PEPSI_LOG_INFO : PEPSI_LOG_WARN,
	    "event=address-refused domain=%s address=%s why=%s%s", d->domain, text, log_qz(r->refused),
	    r->state == ROUTE_FOUND ? "" : " hint=\"ALLOW_NETWORKS of this stage allows networks of one's own\"");
}

void log_results(struct delivery *d)
{
	struct buf b = BUF_INIT(4096);
	for (size_t i = 0; i < d->m.n_rcpts && i < LOG_RCPTS_MAX; i++) {
		const struct smtp_client_rcpt *to = &d->m.rcpts[i];
		const struct smtp_result *r = &to->result;
		enum relay_verdict v = relay_judge(r);
		if (d->back_s && v == RELAY_RETRY && !d->how[i]) /* "waits" has been said; who was answered for has his line all the same */
			continue;
		buf_reset(&b);
		buf_addf(&b, "%s to=%s %s%s phase=%s code=%u status=%s reply=%s%s",
		    v == RELAY_OK ? "relayed" : v == RELAY_RETRY ? "deferred" : "refused", log_address(to->address),
		    d->how[i] ? "" : "hop=",
		    d->how[i] ? d->how[i] : d->where[i] ? d->where[i]->hop : d->domain, smtp_phase_name(r->phase), r->code, r->status[0] ? r->status : "-",
		    log_q(r->text), r->maybe ? " maybe_delivered=yes" : "");
		d->w->host->log(d->msg, v == RELAY_OK ? PEPSI_LOG_INFO : PEPSI_LOG_WARN, buf_z(&b));
	}
	buf_free(&b);
	if (d->m.n_rcpts > LOG_RCPTS_MAX)
		say(d->w->host, d->msg, PEPSI_LOG_INFO, "and %zu more recipients", d->m.n_rcpts - LOG_RCPTS_MAX);
}

void log_downgrade(struct line *l)
{
	struct delivery *d = l->d;
	if (d->downgrade_told != l->where)
		relay_downgrade_tell(&d->w->set.downgrade, d->w->host, d->msg, &l->part, l->where ? l->where->hop : d->domain);
	d->downgrade_told = l->where;
}
