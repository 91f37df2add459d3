/* A line: one session and the message it works for. Goes through the addresses of a delivery until every recipient has got an answer or there are
 * none left (RFC 5321 §5.1): what fails before a host has said anything of a recipient is tried at the next address; a host that says no for
 * now is followed by the next host; what may have been delivered is not sent again. */
#include "internet.h"

#include "base/log.h"
#include "count.h"
#include "say.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

enum { BACK_MOST_S = 1800 };

static void next(struct line *l);
static void send_part(struct line *l);

static void on_session(void *arg, struct session *s, enum session_event ev);

/* -- lines */

static struct line *line_new(struct worker *w)
{
	struct line *l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	l->w = w;
	l->next = w->lines;
	if (w->lines)
		w->lines->prev = l;
	w->lines = l;
	return l;
}

static void drop_session(struct line *l, bool polite)
{
	struct session *s = l->s;
	l->s = NULL;
	if (s && polite)
		session_quit(s);
	else
		session_free(s);
}

static void unlink_line(struct line *l)
{
	if (l->prev)
		l->prev->next = l->next;
	else
		l->w->lines = l->next;
	if (l->next)
		l->next->prev = l->prev;
	warm_end(&l->share, false);
	free(l->rcpts);
	free(l->idx);
	free(l);
}

void line_free(struct line *l)
{
	drop_session(l, false);
	unlink_line(l);
}

void line_quit(struct line *l)
{
	drop_session(l, true);
	unlink_line(l);
}

/* -- results */
/* Is another offer within this attempt harmless and of use? Not where the message may have arrived (RFC 1047). */
static bool may_go_on(const struct smtp_result *r)
{
	return relay_judge(r) == RELAY_RETRY && !r->maybe;
}

static bool lost(const struct smtp_result *r)
{
	return r->outcome == SMTP_OUT_LOST || r->outcome == SMTP_OUT_PROTOCOL;
}

/* The results of a transaction into the delivery. True: the session can go on. */
static bool collect(struct line *l)
{
	struct delivery *d = l->d;
	bool alive = true, progress = false, noted = false;
	const char *how = log_sent(d, l);
	log_downgrade(l);
	for (size_t i = 0; i < l->part.n_rcpts; i++)
		progress |= !relay_too_many(&l->part.rcpts[i].result);
	for (size_t i = 0; i < l->part.n_rcpts; i++) {
		struct smtp_result *r = &l->part.rcpts[i].result;
		uint32_t to = l->idx[i];
		*r = delivery_keep(d, r); /* looked at again when the session may be gone: worst() */
		alive &= !lost(r);
		d->todo[to] = may_go_on(r);
		if (relay_too_many(r) && progress)
			d->asked[to] = false; /* another transaction with the same host */
		delivery_result(d, to, r, l->where, how);
		if (r->outcome == SMTP_OUT_OK) {
			unsigned caps = session_facts(l->s)->caps;
			d->taken = true;
			d->m.rcpts[to].dsn_passed = l->part.rcpts[i].dsn_passed;
			d->no_dsn |= !(caps & SMTP_CAP_DSN);
			d->no_deliver_by |= !(caps & SMTP_CAP_DELIVERBY);
			if (!noted && d->w->ratchet && !d->route.literal)
				ratchet_memory_note(d->w->ratchet, d->msg, str_from(d->route.name), l->level);
			noted = true;
		}
	}
	return alive;
}

/* The result that says most of the destination. */
static const struct smtp_result *worst(const struct line *l)
{
	const struct smtp_result *w = &l->part.rcpts[0].result;
	for (size_t i = 1; i < l->part.n_rcpts; i++)
		w = traffic_worse(w, &l->part.rcpts[i].result);
	return w;
}

/* Is there no exchanger that would be better? A session with a backup is not kept: the next message begins with the first one. */
static bool best(const struct delivery *d, unsigned h)
{
	for (unsigned i = 0; i < d->n_hosts; i++)
		if (d->route.host[i].state == ROUTE_HOST_USED && d->host[i].need.usable && d->route.host[i].preference < d->route.host[h].preference)
			return false;
	return true;
}

/* The message is over as far as this session goes. True: the session is worth keeping. */
static bool finish(struct line *l, bool told)
{
	struct delivery *d = l->d;
	bool again = told && queue_sent(l, worst(l)) == QUEUE_KEPT;
	warm_end(&l->share, told && !again);
	bool keep = !again && best(d, l->at_host) && source_stays(l);
	l->d = NULL;
	d->line = NULL;
	l->sent = l->judged = false;
	if (again) {
		for (size_t i = 0; i < d->m.n_rcpts; i++)
			if (d->todo[i])
				d->m.rcpts[i].result = (struct smtp_result){ .outcome = SMTP_OUT_NONE };
		delivery_reset(d);
		return false;
	}
	if (l->s)
		session_for(l->s, NULL);
	delivery_end(d);
	return keep;
}

/* No address is left. */
static void all_failed(struct line *l)
{
	struct delivery *d = l->d;
	bool answered = false;
	for (size_t i = 0; i < d->m.n_rcpts; i++)
		answered |= d->m.rcpts[i].result.outcome != SMTP_OUT_NONE;
	if (answered) { /* some host had its say before the last one failed */
		finish(l, l->part.n_rcpts > 0);
		queue_over(l, NULL);
		line_free(l);
		return;
	}
	bool none = !d->n_order; /* all failed lately, whatever message was for them: no attempt of this one */
	if (none)
		delivery_failed_by(d, log_where(d, NULL), SMTP_PHASE_CONNECT, "4.4.1", address_health_why(d->w->health, &d->route.address[0]));
	if (d->failure.outcome == SMTP_OUT_NONE)
		delivery_failed_by(d, NULL, SMTP_PHASE_CONNECT, "4.4.1", "no exchanger can be connected to now");
	if (d->unsafe)
		safety_refused(d);
	enum queue_says says = queue_over(l, &d->failure);
	l->d = NULL;
	line_free(l);
	d->line = NULL;
	if (says == QUEUE_KEPT) {
		delivery_reset(d);
	} else if (none) {
		int64_t left = d->healthy_at - d->w->host->now_us() / 1000000;
		delivery_back(d, left < 1 ? 1 : left > BACK_MOST_S ? BACK_MOST_S : (uint32_t)left, "health", d->failure.text.p);
	} else {
		delivery_end(d);
	}
}

/* -- addresses */

static bool connect_to(struct line *l, const struct route_address *a)
{
	struct delivery *d = l->d;
	const struct plan_host *h = &d->host[a->host];
	const char *base = h->need.dane && h->dane.base[0] ? h->dane.base : d->route.host[a->host].name;
	struct session_peer peer = { .helo = d->w->set.helo, .name = base, .tls = h->need.try_tls && !l->plain };
	l->ip = *a;
	l->at_host = a->host;
	inet_ntop(a->n == 4 ? AF_INET : AF_INET6, a->ip, l->ip_text, sizeof l->ip_text);
	snprintf(l->host, sizeof l->host, "%s", d->route.host[a->host].name);
	l->where = log_where(d, l);
	l->verified = "no";
	l->judged = l->sent = l->stale = l->reused = false;
	hop_address_set(&peer.to, a->ip, a->n, d->w->set.port);
	if (!source_for(l, a, &peer))
		return false;
	l->s = session_new(&d->w->env, &peer, on_session, l);
	if (!l->s) {
		delivery_failed_by(d, l->where, SMTP_PHASE_CONNECT, "4.3.0", "out of memory");
		return false;
	}
	session_for(l->s, d->msg);
	if (d->w->health)
		address_health_try(d->w->health, a);
	d->began = true;
	d->tries++;
	return true;
}

/* True: the session is on its way. */
static bool next_address(struct line *l)
{
	struct delivery *d = l->d;
	while (d->at < d->n_order && d->tries < TRIES_MAX && !d->grace) {
		const struct route_address *a = &d->route.address[d->order[d->at++]];
		if (!choice_open(d, a->host))
			continue;
		if (!d->host[a->host].need.usable) {
			plan_refuse(d, a->host);
			continue;
		}
		if (connect_to(l, a))
			return true;
	}
	return false;
}

static void next(struct line *l)
{
	drop_session(l, true);
	l->plain = false;
	if (!next_address(l) && !(choice_settle(l->d) && next_address(l)))
		all_failed(l);
}

/* -- a session's events */

/* The host spoke SMTP (why NULL), or there is nobody, or nobody well, at its address. */
static void health(struct line *l, const char *why)
{
	struct delivery *d = l->d;
	if (!d->w->health)
		return;
	if (why)
		address_health_bad(d->w->health, l->host, &l->ip, plan_ttl(d, &l->ip), why);
	else
		address_health_good(d->w->health, l->host, &l->ip, plan_ttl(d, &l->ip));
}

/* Does whoever is there call himself by a name of ours? Then mail would come back to us (a port that is passed on, an address of ours that no
 * interface has), each time longer by a Received field, until it has too many. */
static bool is_ourselves(struct line *l)
{
	struct delivery *d = l->d;
	struct worker *w = l->w;
	struct str name = smtp_client_name(session_engine(l->s));
	char text[SMTP_CLIENT_TEXT_MAX];
	if (!w->set.loops || l->reused || !settings_own(&w->set, name))
		return false;
	snprintf(text, sizeof text, "mail for %s loops back to ourselves: the host calls itself %.*s, as we do", d->domain, STR_ARG(name));
	say(w->host, d->msg, PEPSI_LOG_WARN, "event=loop domain=%s host=%s ip=%s name=%s hint=\"OWN_ADDRESSES and OWN_NAMES tell of it before; LOOP_DETECT = NO sends all the same\"",
	    log_qz(d->domain), l->host[0] ? l->host : "-", l->ip_text, log_q(name));
	count_add(w->host, w->loops, NULL, 1);
	relay_measure_session(&w->measure, "failed");
	delivery_failed_by(d, l->where, SMTP_PHASE_EHLO, "5.4.6", text);
	return true;
}

static void judge(struct line *l)
{
	struct delivery *d = l->d;
	struct tls_verdict v;
	l->judged = true;
	if (!l->reused)
		health(l, NULL);
	if (l->source)
		source_there(l);
	if (is_ourselves(l)) {
		next(l);
		return;
	}
	bool go = plan_judge(d, l->at_host, session_facts(l->s), l->plain, &v, &l->verified, &l->level);
	measure_session(l, go);
	if (!l->reused && !l->plain) /* the first connection was told of */
		results_tell(d, l->at_host, &v, l);
	if (go && choice_leave(l)) {
		next(l);
		return;
	}
	if (go) {
		safety_met(d);
		l->how = log_how(d, l);
		queue_ready(l);
		send_part(l);
		return;
	}
	char text[SMTP_CLIENT_TEXT_MAX];
	snprintf(text, sizeof text, "%s%s%s", v.reason, v.detail ? ": " : "", v.detail ? v.detail : "");
	delivery_unsafe(d, l->where, SMTP_PHASE_STARTTLS, v.status, text);
	next(l);
}

/* The host has answered for all it was offered. If the session is not alive, SESSION_OVER follows. */
static void message_over(struct line *l, bool alive)
{
	struct delivery *d = l->d;
	bool more = false, replied = false;
	for (size_t i = 0; i < d->m.n_rcpts; i++) {
		more |= d->todo[i];
		replied |= d->todo[i] && !lost(&d->m.rcpts[i].result);
	}
	if (replied)
		d->host[l->at_host].done = true;
	if (more && !d->grace && d->tries < TRIES_MAX && ++d->offered < HOSTS_SEND_MAX && choice_more(d)) {
		memset(d->asked, 0, d->m.n_rcpts * sizeof *d->asked);
		next(l);
		return;
	}
	if (!finish(l, true) && alive) {
		queue_over(l, NULL);
		line_quit(l);
	}
}

static void send_part(struct line *l)
{
	struct delivery *d = l->d;
	const struct smtp_client *engine = session_engine(l->s);
	size_t n = 0, most = smtp_client_limits(engine).rcpt_max;
	if (smtp_client_full(engine)) { /* RFC 9422 §4.1: it takes no more over this session */
		struct route_address a = l->ip;
		drop_session(l, true);
		if (!connect_to(l, &a))
			next(l);
		return;
	}
	if (!l->room) {
		l->room = d->m.n_rcpts < RCPTS_MAX ? d->m.n_rcpts : RCPTS_MAX;
		l->rcpts = calloc(l->room, sizeof *l->rcpts);
		l->idx = calloc(l->room, sizeof *l->idx);
	}
	for (size_t i = 0; l->rcpts && l->idx && i < d->m.n_rcpts && n < l->room && (!most || n < most); i++)
		if (d->todo[i] && !d->asked[i]) {
			d->asked[i] = true;
			l->rcpts[n] = d->m.rcpts[i];
			l->rcpts[n].result = (struct smtp_result){ .outcome = SMTP_OUT_NONE };
			l->idx[n++] = (uint32_t)i;
		}
	if (!n) {
		if (!l->rcpts || !l->idx)
			delivery_failed_by(d, l->where, SMTP_PHASE_MAIL, "4.3.0", "out of memory");
		message_over(l, true);
		return;
	}
	l->part = d->m;
	l->part.rcpts = l->rcpts;
	l->part.n_rcpts = n;
	l->part.deliver_by -= (l->w->host->mono_ms() - d->loaded_at) / 1000;
	if (session_send(l->s, &l->part)) {
		delivery_failed_by(d, l->where, SMTP_PHASE_MAIL, "4.4.2", "the session cannot take a message");
		next(l);
		return;
	}
	l->sent = true;
}

/* A kept session that turns out dead before anything of this message was acknowledged is nobody's failure. */
static bool died_before(const struct line *l)
{
	bool all = l->reused && !l->part.mail_accepted;
	for (size_t i = 0; all && i < l->part.n_rcpts; i++)
		all = l->part.rcpts[i].result.outcome == SMTP_OUT_LOST;
	return all;
}

static void done(struct line *l)
{
	struct delivery *d = l->d;
	l->sent = false;
	if (died_before(l)) {
		memset(d->asked, 0, d->m.n_rcpts * sizeof *d->asked);
		l->stale = true;
		return;
	}
	l->reused = false;
	bool alive = collect(l), more = false;
	for (size_t i = 0; i < d->m.n_rcpts; i++)
		more |= d->todo[i] && !d->asked[i];
	if (alive && more && !d->grace)
		return; /* the next transaction, when it is READY */
	message_over(l, alive);
}

/* TLS did not come about over this connection: without it, where that may be (RFC 7435), over a new one. */
static bool without_tls(struct line *l)
{
	struct delivery *d = l->d;
	struct session_facts f = { .starttls = true, .tls_failed = true };
	struct tls_verdict v;
	bool go = plan_judge(d, l->at_host, &f, true, &v, &l->verified, &l->level);
	results_tell(d, l->at_host, &v, l);
	if (!go) {
		relay_measure_tls(&l->w->measure, "refused");
		struct smtp_result r = *session_failure(l->s);
		char text[SMTP_CLIENT_TEXT_MAX];
		snprintf(text, sizeof text, "%s: %.*s", v.reason, STR_ARG(r.text));
		delivery_unsafe(d, l->where, SMTP_PHASE_STARTTLS, v.status, text);
		return false;
	}
	if (d->tries >= TRIES_MAX || d->grace)
		return false;
	drop_session(l, false);
	l->plain = true;
	struct route_address a = l->ip;
	return connect_to(l, &a);
}

static void over(struct line *l)
{
	struct delivery *d = l->d;
	if (!d) {
		queue_over(l, NULL);
		line_free(l);
		return;
	}
	if (l->stale || (l->reused && !l->judged)) {
		enum queue_says says = queue_over(l, NULL);
		l->d = NULL;
		line_free(l);
		delivery_reset(d);
		if (says != QUEUE_KEPT)
			queue_add(d);
		return;
	}
	const struct smtp_result *failure = session_failure(l->s);
	if (session_facts(l->s)->no_source && l->source && d->tries < TRIES_MAX && !d->grace) {
		/* the address is gone from this machine: another one, for the same host */
		struct route_address a = l->ip;
		source_gone(l, failure);
		drop_session(l, false);
		if (!connect_to(l, &a))
			next(l);
		return;
	}
	if (l->source && session_facts(l->s)->connected)
		source_there(l);
	if (!l->judged)
		relay_measure_session(&l->w->measure, "failed");
	/* a host that says "not now" instead of a greeting is there; one of our own faults is not its */
	bool ours = !failure->code && strcmp(failure->status, "4.3.0") == 0;
	if (!l->judged && !ours)
		health(l, session_facts(l->s)->greeted || failure->code ? NULL : failure->text.p);
	if (session_facts(l->s)->tls_failed) {
		if (without_tls(l))
			return;
	} else {
		delivery_failed(d, failure, l->where);
	}
	drop_session(l, false);
	next(l);
}

static void on_session(void *arg, struct session *s, enum session_event ev)
{
	struct line *l = arg;
	switch (ev) {
	case SESSION_READY:
		if (!l->d) { /* idle: queue.c knows */
			if (smtp_client_full(session_engine(s))) {
				queue_over(l, NULL);
				line_quit(l);
			}
			return;
		}
		if (l->judged)
			send_part(l);
		else
			judge(l);
		return;
	case SESSION_DONE:
		done(l);
		return;
	case SESSION_STALE:
		if (l->d)
			return;
		queue_over(l, NULL);
		line_quit(l);
		return;
	case SESSION_OVER:
		over(l);
		return;
	}
}

/* -- queue.c's side */

/* Which addresses, and in which order: those that failed lately are left out. */
static void order(struct delivery *d)
{
	d->at = 0;
	if (d->w->health) {
		d->n_order = (unsigned)address_health_order(d->w->health, d->route.address, d->route.n_addresses, d->order, &d->healthy_at);
		return;
	}
	d->n_order = (unsigned)d->route.n_addresses;
	for (unsigned i = 0; i < d->n_order; i++)
		d->order[i] = (unsigned char)i;
}

static void take(struct line *l, struct delivery *d)
{
	l->d = d;
	d->line = l;
	free(l->rcpts);
	free(l->idx);
	l->rcpts = NULL;
	l->idx = NULL;
	l->room = 0;
	l->part.n_rcpts = 0;
	d->w->host->in_hand(d->msg);
}

void line_start(struct delivery *d)
{
	struct line *l = line_new(d->w);
	if (!l) {
		delivery_failed_by(d, NULL, SMTP_PHASE_CONNECT, "4.3.0", "out of memory");
		delivery_end(d);
		return;
	}
	queue_begin(l, d);
	take(l, d);
	order(d);
	next(l);
}

void line_use(struct line *l, struct delivery *d)
{
	unsigned h = 0;
	take(l, d);
	while (h < d->n_hosts && strcmp(d->route.host[h].name, l->host) != 0)
		h++;
	if (h == d->n_hosts || !d->host[h].need.usable) { /* the exchangers have changed */
		order(d);
		next(l);
		return;
	}
	order(d);
	l->at_host = h;
	l->where = log_where(d, l);
	l->reused = d->began = true;
	l->judged = l->sent = l->stale = false;
	session_for(l->s, d->msg);
	if (session_is_ready(l->s))
		judge(l);
}

void line_abort(struct line *l, const char *why)
{
	struct delivery *d = l->d;
	if (l->sent) { /* its results come from the engine, and tell how far things had come */
		session_give_up(l->s, why);
		return;
	}
	delivery_failed_by(d, l->where, SMTP_PHASE_CONNECT, "4.4.2", why);
	queue_drop(d);
	l->d = NULL;
	d->line = NULL;
	line_free(l);
	delivery_end(d);
}
