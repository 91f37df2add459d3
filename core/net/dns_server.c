/* The servers we ask: which comes next, which are down, what resolv.conf says now. A server is down after some attempts in a row
 * without any reply; what it answers (SERVFAIL, REFUSED) says something about a name, not about its health. */
#include "dns_internal.h"

#include "base/log.h"

#include <stdlib.h>
#include <sys/stat.h>

static bool same_server(const struct net_dns_server *a, const struct net_dns_server *b)
{
	return strcmp(a->text, b->text) == 0;
}

bool dns_servers_set(struct net_dns *d)
{
	struct server old[NET_DNS_SERVERS_MAX];
	unsigned n_old = d->n_servers;
	bool changed = n_old != d->s.n_servers;
	memcpy(old, d->server, sizeof old);
	for (unsigned i = 0; i < d->s.n_servers; i++) {
		struct server s = { .at = d->s.server[i] };
		for (unsigned k = 0; k < n_old; k++)
			if (same_server(&old[k].at, &s.at))
				s = old[k];
		changed |= i >= n_old || !same_server(&old[i].at, &s.at);
		d->server[i] = s;
	}
	d->n_servers = d->s.n_servers;
	if (changed)
		dns_sockets_flush(d);
	return changed;
}

bool dns_servers_watch(struct net_dns *d, int64_t now_us)
{
	struct stat st;
	if (!d->s.resolv_conf[0] || now_us - d->resolv_checked_us < DNS_RESOLV_CHECK_S * US_PER_S)
		return false;
	d->resolv_checked_us = now_us;
	if (stat(d->s.resolv_conf, &st)) /* away for a moment, while it is replaced: what we know stays */
		return false;
	if (st.st_ino == d->resolv_inode && st.st_mtim.tv_sec == d->resolv_time.tv_sec && st.st_mtim.tv_nsec == d->resolv_time.tv_nsec)
		return false;
	if (dns_resolv_load(&d->s, &d->resolv_time, &d->resolv_inode))
		log_warn(NULL, "event=dns-resolv-conf file=%s error=\"not readable: asking 127.0.0.1\"", log_qz(d->s.resolv_conf));
	if (!dns_servers_set(d))
		return false;
	log_info(NULL, "event=dns-servers-changed file=%s servers=%u first=%s", log_qz(d->s.resolv_conf), d->n_servers, d->server[0].at.text);
	return true;
}

/* Of the servers in this state, the one with the fewest attempts; in a tie the one that stands first. */
static int fewest(const struct net_dns *d, const struct flight *f, bool down)
{
	int best = -1;
	for (unsigned i = 0; i < d->n_servers; i++)
		if (d->server[i].down == down && !f->answered[i] && f->tried[i] < d->s.attempts &&
		    (best < 0 || f->tried[i] < f->tried[best]))
			best = (int)i;
	return best;
}

int dns_server_next(const struct net_dns *d, const struct flight *f, unsigned *ret)
{
	int i = fewest(d, f, false);
	if (i < 0)
		i = fewest(d, f, true); /* better than no answer at all */
	if (i < 0)
		return -1;
	*ret = (unsigned)i;
	return 0;
}

void dns_server_replied(struct net_dns *d, unsigned i, int64_t rtt_us)
{
	struct server *s = &d->server[i];
	s->silent = 0;
	s->rtt_us = s->rtt_us ? (7 * s->rtt_us + rtt_us) / 8 : rtt_us;
	if (!s->down)
		return;
	s->down = false;
	log_info(NULL, "event=dns-server-up server=%s", s->at.text);
}

void dns_server_silent(struct net_dns *d, unsigned i, const char *why)
{
	struct server *s = &d->server[i];
	if (++s->silent < DNS_DOWN_AFTER)
		return;
	s->silent = DNS_DOWN_AFTER;
	if (s->down)
		return;
	s->down = true;
	s->backoff_s = DNS_RETRY_FIRST_S;
	s->retry_us = clock_mono_us() + s->backoff_s * US_PER_S;
	unsigned up = 0;
	for (unsigned k = 0; k < d->n_servers; k++)
		up += !d->server[k].down;
	log_warn(NULL, "event=dns-server-down server=%s reason=%s servers_left=%u", s->at.text, log_qz(why), up);
}

int dns_server_probe(struct net_dns *d, int64_t now_us, unsigned *ret)
{
	for (unsigned i = 0; i < d->n_servers; i++) {
		struct server *s = &d->server[i];
		if (!s->down || now_us < s->retry_us)
			continue;
		s->backoff_s = 2 * s->backoff_s < DNS_RETRY_MAX_S ? 2 * s->backoff_s : DNS_RETRY_MAX_S;
		s->retry_us = now_us + s->backoff_s * US_PER_S;
		*ret = i;
		return 0;
	}
	return -1;
}
