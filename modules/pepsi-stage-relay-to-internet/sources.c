/* From which of our addresses a line connects (proto/relay/source.h), with the warm-up plans of new ones (warm.c), and whether a session from there is
 * kept for the next message. Knows nothing of sessions but their peer. */
#include "internet.h"

#include "base/log.h"
#include "say.h"

#include <arpa/inet.h>

static const char *sender_domain(const struct delivery *d, char ret[DNS_NAME_MAX + 1])
{
	size_t at = d->m.mail_from.n;
	while (at && d->m.mail_from.p[at - 1] != '@')
		at--;
	if (!at || dns_name_fold(str_skip(d->m.mail_from, at), ret) < 0)
		ret[0] = 0;
	return ret;
}

struct source_ask line_ask(const struct delivery *d, unsigned family, char sender[DNS_NAME_MAX + 1])
{
	return (struct source_ask){ .sender = sender_domain(d, sender), .pool = d->name.shape->sources, .route = &d->route, .domain = d->domain,
		.key = d->name.key, .family = (unsigned char)family, .allow = d->w->warm ? warm_allows : NULL, .allow_arg = d->w->warm };
}

bool source_for(struct line *l, const struct route_address *a, struct session_peer *peer)
{
	struct delivery *d = l->d;
	char sender[DNS_NAME_MAX + 1];
	struct source_ask ask = line_ask(d, a->n, sender);
	int64_t when;
	warm_end(&l->share, false);
	l->source = NULL;
	if (!d->w->set.sources)
		return true;
	switch (source_choose(d->w->set.sources, &ask, d->w->host->mono_ms(), &l->source, &when)) {
	case SOURCE_SYSTEM:
		return true;
	case SOURCE_FOUND:
		if (!warm_book(d->w->warm, l->source, ask.key, &l->share))
			warm_over(d->w->warm, l->source, ask.key);
		hop_address_set(&peer->from, l->source->ip, l->source->n, 0);
		if (l->source->helo)
			peer->helo = l->source->helo;
		return true;
	case SOURCE_NO_FAMILY:
		delivery_failed_by(d, l->where, SMTP_PHASE_CONNECT, "4.3.0", "we have no source address of that family");
		return false;
	case SOURCE_SUSPENDED:
		delivery_failed_by(d, l->where, SMTP_PHASE_CONNECT, "4.3.0", "none of our source addresses can be used now");
		return false;
	}
	return false;
}

static const char *text_of(const struct source *s, char ret[INET6_ADDRSTRLEN])
{
	return inet_ntop(s->n == 4 ? AF_INET : AF_INET6, s->ip, ret, INET6_ADDRSTRLEN) ? ret : "?";
}

void source_gone(struct line *l, const struct smtp_result *failure)
{
	const struct pepsi_host *host = l->w->host;
	char text[INET6_ADDRSTRLEN];
	if (source_failed(l->source, host->mono_ms()))
		say(host, l->d->msg, PEPSI_LOG_WARN, "event=source-suspended address=%s error=%s", text_of(l->source, text), log_q(failure->text));
	outlook_soon(l->w->outlook);
}

void source_there(struct line *l)
{
	char text[INET6_ADDRSTRLEN];
	if (source_ok(l->source))
		say(l->w->host, l->d->msg, PEPSI_LOG_INFO, "event=source-back address=%s", text_of(l->source, text));
}

bool source_stays(struct line *l)
{
	struct worker *w = l->w;
	char sender[DNS_NAME_MAX + 1];
	struct source *again = NULL;
	int64_t when;
	if (!w->warm || !l->source)
		return true;
	struct source_ask ask = line_ask(l->d, l->ip.n, sender);
	return source_choose(w->set.sources, &ask, w->host->mono_ms(), &again, &when) == SOURCE_FOUND && again == l->source &&
	    warm_book(w->warm, l->source, ask.key, &l->share);
}
