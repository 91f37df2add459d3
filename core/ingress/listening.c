/* Listening sockets, and what happens between accept() and a session: places, early talkers, who may come at all. */
#include "listening.h"

#include "ingress_internal.h"
#include "proxied.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	DRAIN_TURNS = 16,
	SOCKETS_PER_WORD = 32,
	WAITING_MAX = 1000, /* connections that owe their PROXY header: cheap, and not told apart yet */
};

/* --- accepting --- */

/* A place is not free: say so politely. One attempt; whoever does not read it is closed all the same. Where TLS comes
 * first, nothing that we could say would be understood. */
static void turn_away(
    struct listening *l, int fd, const struct net_addr *peer, enum refusal why, const char *code, const char *text)
{
	char line[512], rest[4096];
	unsigned turns = 0;
	int n = snprintf(line, sizeof line, "%s %.255s %s\r\n", code, l->terms->hostname, text);
	ingress_refused(l->in, NULL, why, "client=%s listener=%s text=%s", peer->text, l->terms->name, log_qz(text));
	if (!l->terms->implicit_tls && send(fd, line, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug(NULL, "event=write-failed client=%s error=%s", peer->text, log_qz(strerror(errno)));
	/* with input unread, close() would be a reset, which overtakes the line */
	shutdown(fd, SHUT_WR);
	while (recv(fd, rest, sizeof rest, MSG_DONTWAIT) == (ssize_t)sizeof rest && ++turns < DRAIN_TURNS)
		;
	close(fd);
}

/* Who has something to say before the banner is no SMTP client: a browser, a reflector, a worm (RFC 5321 §3.1), or a proxy
 * that is not in PROXY_FROM. */
static bool talks_first(int fd)
{
	char c;
	return recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

/* LMTP takes mail without queueing rules for strangers (RFC 2033 §5): this machine and our own networks only. */
static bool may_come(const struct listening *l, const struct net_addr *peer, bool relay)
{
	return !l->terms->lmtp || relay || peer->family == AF_UNIX || config_networks_match("127.0.0.0/8 ::1", peer->text);
}

/* Are all places taken but those that are kept for others? */
static bool full(const struct ingress *in, unsigned reserved_percent)
{
	uint64_t max = in->set.abuse.max_sessions;
	return max && in->n_sessions >= max - max * reserved_percent / 100;
}

static bool crowded(const struct listening *l, const struct proxy_info *via, unsigned reserved)
{
	/* what came by a proxy is counted once more until it is let go of there */
	return l->terms->max_connections && l->sessions - l->waiting - (via != NULL) >= l->terms->max_connections - reserved;
}

void listening_admit(struct listening *l, int fd, const struct net_addr *peer, const struct proxy_info *via)
{
	struct ingress *in = l->in;
	bool relay = config_networks_has(l->terms->relay, peer->text);
	bool exempt = abuse_exempt(l, peer, relay);
	const struct abuse_terms *t = &l->terms->abuse;
	if (l->terms->user_known && peer->family != AF_UNIX) {
		turn_away(l, fd, peer, REFUSED_RELAY, "554 5.7.1", "This is for users of this machine");
		return;
	}
	if (!may_come(l, peer, relay)) {
		turn_away(l, fd, peer, REFUSED_RELAY, "554 5.7.1", "LMTP is for our own servers");
		return;
	}
	if (!l->terms->implicit_tls && talks_first(fd)) {
		turn_away(l, fd, peer, REFUSED_EARLY, "554 5.5.1", "You talked before the banner");
		return;
	}
	if (crowded(l, via, exempt ? 0 : t->reserved) || full(in, exempt || l->terms->need_auth || l->terms->user_known ? 0 : in->set.abuse.reserved_percent)) {
		turn_away(l, fd, peer, REFUSED_CONNECTIONS, "421 4.7.0", "Too many connections; try again later");
		return;
	}
	if (!clients_enter(&in->clients, peer, exempt ? 0 : l->terms->max_per_address)) {
		turn_away(l, fd, peer, REFUSED_CONNECTIONS, "421 4.7.0",
		    l->terms->user_known ? "Too many connections of yours; try again later" : "Too many connections from your address; try again later");
		return;
	}
	if (!clients_enter(&in->networks, peer, exempt ? 0 : t->max_per_network)) {
		clients_leave(&in->clients, peer);
		turn_away(l, fd, peer, REFUSED_CONNECTIONS, "421 4.7.0", "Too many connections from your network; try again later");
		return;
	}
	if (!exempt && !limits_take(in->limits, &t->rates, peer, LIMIT_CONNECTIONS, clock_mono_us())) {
		clients_leave(&in->clients, peer);
		clients_leave(&in->networks, peer);
		turn_away(l, fd, peer, REFUSED_RATE, "421 4.7.0", "Too many connections in a short time; try again later");
		return;
	}
	if (!session_begin(l, fd, peer, relay, via)) {
		clients_leave(&in->clients, peer);
		clients_leave(&in->networks, peer);
		log_error(NULL, "event=session-failed client=%s error=\"out of memory\"", peer->text);
	}
}

static void on_accept(void *arg, int fd, const struct net_addr *peer)
{
	struct listening *l = arg;
	l->in->connections++;
	if (!config_networks_has(l->terms->proxy, peer->text))
		listening_admit(l, fd, peer, NULL);
	else if (l->waiting >= WAITING_MAX && l->waiting >= l->terms->max_connections)
		turn_away(l, fd, peer, REFUSED_CONNECTIONS, "421 4.7.0", "Too many connections; try again later");
	else
		proxied_begin(l, fd, peer);
}

/* --- sockets --- */

/* The same place, however it is written. */
static bool same_place(const struct ingress_bind *a, const struct ingress_bind *b)
{
	struct net_addr x, y;
	if (a->at.kind != b->at.kind)
		return false;
	if (a->at.kind != CONFIG_BIND_TCP)
		return strcmp(a->at.name, b->at.name) == 0;
	return a->at.port == b->at.port && !net_addr_parse(&x, str_from(a->at.host), 0) &&
	    !net_addr_parse(&y, str_from(b->at.host), 0) && x.family == y.family && memcmp(x.ip, y.ip, sizeof x.ip) == 0;
}

static struct listening *add(struct ingress *in, struct terms *t, const struct ingress_bind *b, int fd)
{
	struct listening *l = calloc(1, sizeof *l), **at = &in->listening;
	if (!l || !(l->text = str_dupz(b->word))) {
		free(l);
		return NULL;
	}
	l->in = in;
	l->terms = terms_ref(t);
	l->bind = *b;
	l->bind.word = str_from(l->text);
	l->fd = fd;
	l->port = net_listen_port(fd);
	l->kept = true;
	while (*at)
		at = &(*at)->next;
	*at = l;
	return l;
}

struct opening {
	struct ingress *in;
	const struct config *c;
	const char *section;
	struct terms *terms;
	const struct ingress_supply *supply;
	struct config_faults *faults;
	unsigned n;
};

/* Takes over what is open there. False: nothing is. */
static bool take_over(struct opening *o, const struct ingress_bind *b)
{
	bool found = false;
	for (struct listening *l = o->in->listening; l; l = l->next) {
		if (l->gone || l->kept || !same_place(&l->bind, b))
			continue;
		if (b->at.kind == CONFIG_BIND_UNIX && (l->bind.mode != b->mode || strcmp(l->bind.group, b->group) != 0))
			config_fault_add(o->faults, "", 0, true, "[%s]: %s keeps its permissions until restart", o->section, l->text);
		struct terms *old = l->terms;
		l->terms = terms_ref(o->terms);
		terms_unref(old);
		l->kept = found = true;
		o->n++;
	}
	return found;
}

static void open_one(void *arg, const struct ingress_bind *b)
{
	struct opening *o = arg;
	const struct config_value *at = config_get(o->c, o->section, "BIND");
	int fd[SOCKETS_PER_WORD];
	char err[256] = "out of memory";
	if (o->terms->user_known && b->at.kind == CONFIG_BIND_TCP) {
		config_fault_add(o->faults, at ? at->file : "", at ? at->line : 0, false,
		    "[%s] BIND: %.*s: PROTOCOL = local is for unix sockets: who sends is asked of the kernel", o->section, STR_ARG(b->word));
		o->n++;
		return;
	}
	if (take_over(o, b))
		return;
	int n = o->supply->sockets(o->supply->arg, b, fd, SOCKETS_PER_WORD, err, sizeof err);
	for (int i = 0; i < n; i++) {
		struct listening *l = add(o->in, o->terms, b, fd[i]);
		if (!l)
			close(fd[i]);
		else if (o->in->started && listening_start(l))
			listening_close(l);
		else
			o->n++;
	}
	if (n <= 0) {
		config_fault_add(o->faults, at ? at->file : "", at ? at->line : 0, false, "[%s] BIND: cannot listen on %.*s: %s",
		    o->section, STR_ARG(b->word), err);
		o->n++; /* said */
	}
}

void listening_open(struct ingress *in, const struct config *c, const char *section, struct terms *t,
    const struct ingress_supply *supply, struct config_faults *faults)
{
	struct opening o = { in, c, section, t, supply, faults, 0 };
	size_t before = config_faults_n(faults, false);
	ingress_binds(c, section, open_one, &o, faults);
	if (!o.n && config_faults_n(faults, false) == before) {
		const struct config_value *at = config_get(c, section, "BIND");
		config_fault_add(faults, at ? at->file : "", at ? at->line : 0, false, "[%s] BIND: no address to listen on", section);
	}
}

int listening_start(struct listening *l)
{
	static const char *const names[] = { "smtp", "submission", "submissions", "lmtp", "local" };
	l->listener = net_listener_new(l->in->base, l->fd, on_accept, l);
	if (!l->listener)
		return -1;
	log_info(NULL, "event=listening listener=%s at=%s port=%u protocol=%s tls=%s", l->terms->name, log_qz(l->text), l->port,
	    names[l->terms->protocol], !l->terms->tls ? "no" : l->terms->implicit_tls ? "implicit" : "starttls");
	return 0;
}

static void destroy(struct listening *l)
{
	struct listening **at = &l->in->listening;
	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	terms_unref(l->terms);
	free(l->text);
	free(l);
}

/* Its socket's file goes with it where we may (run by an ordinary user); else the next pepsid clears it away. */
static void forget_path(const struct listening *l)
{
	if (l->bind.at.kind == CONFIG_BIND_UNIX && unlink(l->bind.at.name) && errno != ENOENT && errno != EACCES && errno != EPERM)
		log_warn(NULL, "event=socket-left path=%s error=%s", log_qz(l->bind.at.name), log_qz(strerror(errno)));
}

void listening_close(struct listening *l)
{
	net_listener_free(l->listener);
	l->listener = NULL;
	if (l->fd < 0)
		return;
	forget_path(l);
	close(l->fd); /* what waits in the backlog gets a reset and comes again */
	l->fd = -1;
}

static void retire(struct listening *l)
{
	listening_close(l);
	l->gone = true;
	if (!l->sessions)
		destroy(l);
}

void listening_leave(struct listening *l)
{
	l->sessions--;
	if (l->gone && !l->sessions)
		destroy(l);
}

void listening_free_all(struct ingress *in)
{
	for (struct listening *l = in->listening, *next; l; l = next) {
		next = l->next;
		l->sessions = 0;
		retire(l);
	}
}

/* --- reload --- */

struct terms *listening_terms(const struct ingress *in, const char *section)
{
	for (struct listening *l = in->listening; l; l = l->next)
		if (!l->gone && str_ieq(str_from(l->terms->section), str_from(section)))
			return l->terms;
	return NULL;
}

void listening_keep(struct ingress *in, const char *section)
{
	for (struct listening *l = in->listening; l; l = l->next)
		if (str_ieq(str_from(l->terms->section), str_from(section)))
			l->kept = true;
}

void listening_mark(struct ingress *in)
{
	for (struct listening *l = in->listening; l; l = l->next)
		l->kept = false;
}

void listening_sweep(struct ingress *in)
{
	for (struct listening *l = in->listening, *next; l; l = next) {
		next = l->next;
		if (l->kept || l->gone)
			continue;
		log_info(NULL, "event=listening-ended listener=%s at=%s sessions=%u", l->terms->name, log_qz(l->text), l->sessions);
		retire(l);
	}
}
