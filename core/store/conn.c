/* The life of one asynchronous connection: connecting, setting up, watching, dropping, trying again; see conn.h.
 * Calls go through conn_io.c. */
#include "store/conn_internal.h"

#include "base/check.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define BACKOFF_MIN_US (50 * INT64_C(1000))
#define BACKOFF_MAX_US (10 * US_PER_S)
#define WATCH_US (1 * US_PER_S)

static void try_connect(struct store_conn *c);

static void plan(struct store_conn *c, int64_t us)
{
	struct timeval tv = { .tv_sec = us / US_PER_S, .tv_usec = us % US_PER_S };

	event_add(c->timer, &tv);
}

/* Decorrelated jitter: anything between the least and three times the last wait, so that many clients of a server that
 * comes back do not come all at once. */
static void plan_attempt(struct store_conn *c)
{
	uint32_t r = 0;
	int64_t span = c->backoff_us * 3 - BACKOFF_MIN_US;

	if (getrandom(&r, sizeof(r), GRND_NONBLOCK) != (ssize_t)sizeof(r))
		r = (uint32_t)clock_mono_us() * UINT32_C(2654435761);
	c->backoff_us = BACKOFF_MIN_US + (span > 0 ? (int64_t)((double)r / UINT32_MAX * (double)span) : 0);
	if (c->backoff_us > BACKOFF_MAX_US)
		c->backoff_us = BACKOFF_MAX_US;
	plan(c, c->backoff_us);
}

static void free_socket_events(struct store_conn *c)
{
	if (c->ev_read)
		event_free(c->ev_read);
	if (c->ev_write)
		event_free(c->ev_write);
	c->ev_read = c->ev_write = NULL;
}

static void conn_free(struct store_conn *c)
{
	free_socket_events(c);
	if (c->pg)
		PQfinish(c->pg);
	if (c->timer)
		event_free(c->timer);
	if (c->kick)
		event_free(c->kick);
	free((char *)c->params.conninfo);
	free((char *)c->params.role);
	free((char *)c->params.set_role);
	free((char *)c->params.name);
	free(c);
}

bool conn_reap(struct store_conn *c)
{
	if (!c->closed || c->busy > 0)
		return c->closed;
	conn_free(c);
	return true;
}

static void fail_sent(struct store_conn *c, const char *why)
{
	struct call *call;

	c->feeding = NULL;
	while ((call = call_list_take(&c->sent)) || (call = call_list_take(&c->queued))) {
		c->n_pending--;
		c->pending_octets -= call->octets;
		/* An error that this call itself met before the end says more than the end. A commit may have happened only
		 * when no error came. */
		if (call->rc != STORE_OK && call->rc != STORE_AWAY)
			call_end(c, call, call->rc, call->err);
		else
			call_end(c, call, STORE_AWAY, call->rc == STORE_AWAY ? call->err : why);
	}
}

void conn_drop(struct store_conn *c, const char *why)
{
	char text[STORE_ERR_MAX];
	bool was_up = c->state == CONN_UP, first = !c->told;

	connect_one_line(text, sizeof(text), why && *why ? why : "connection lost");
	memcpy(c->why, text, sizeof(c->why));
	/* Events before the descriptor: libevent must never watch one that is closed. */
	free_socket_events(c);
	if (c->pg)
		PQfinish(c->pg);
	c->pg = NULL;
	c->owed = 0;
	c->blocked = false;
	c->state = CONN_WAITING;
	memset(c->prepared, 0, sizeof(c->prepared));
	c->prepare_rc = STORE_OK;
	plan_attempt(c);
	fail_sent(c, text);
	c->broken = false;
	c->told = true; /* the first failure is told too, later ones only after it was up */
	if (!c->closed && c->state_fn && (was_up || first)) {
		c->busy++;
		c->state_fn(c->state_arg, c, false, text);
		c->busy--;
	}
}

/* --- setting up a fresh session --- */

static void setup_done(struct call *call, enum store_rc rc, const char *err)
{
	struct store_conn *c = call->c;

	if (rc == STORE_OK && c->state == CONN_SETUP) {
		c->state = CONN_UP;
		c->told = true;
		c->backoff_us = BACKOFF_MIN_US;
		c->why[0] = '\0';
		if (c->state_fn)
			c->state_fn(c->state_arg, c, true, "");
	} else if (rc != STORE_AWAY) {
		connect_one_line(c->why, sizeof(c->why), err);
		c->broken = true;
	}
}

static void setup(struct store_conn *c)
{
	const char *values[2] = CONNECT_SETUP_PARAMS(&c->params);
	struct call *call = call_new(sizeof(*call), setup_done);

	c->state = CONN_SETUP;
	plan(c, WATCH_US);
	if (!call || PQsetnonblocking(c->pg, 1) < 0 || PQenterPipelineMode(c->pg) != 1) {
		if (call)
			call_free(call);
		c->broken = true;
		return;
	}
	/* Settings and LISTENs as unnamed statements closed by one sync; an error of any is one of the setup. */
	call->c = c;
	call->once = true;
	call->sent_us = clock_mono_us();
	call_list_put(&c->sent, call);
	c->n_pending++;
	c->owed = 2 + (unsigned)c->n_listens;
	c->broken = PQsendQueryParams(c->pg, connect_setup_sql, 2, NULL, values, NULL, NULL, 1) != 1;
	for (size_t i = 0; i < c->n_listens && !c->broken; i++)
		c->broken = PQsendQueryParams(c->pg, stmts[c->listens[i]].sql, 0, NULL, NULL, NULL, NULL, 1) != 1;
	if (!c->broken && PQpipelineSync(c->pg) != 1)
		c->broken = true;
	if (!c->broken)
		conn_flush(c);
}

/* --- events --- */

static void on_socket(evutil_socket_t fd, short what, void *arg);

static bool watch(struct store_conn *c, bool connecting, bool want_write)
{
	int fd = PQsocket(c->pg);

	free_socket_events(c);
	if (fd < 0)
		return false;
	c->ev_read = event_new(c->base, fd, EV_READ | EV_PERSIST, on_socket, c);
	c->ev_write = event_new(c->base, fd, EV_WRITE, on_socket, c);
	if (!c->ev_read || !c->ev_write)
		return false;
	if (connecting)
		return event_add(want_write ? c->ev_write : c->ev_read, NULL) == 0;
	return event_add(c->ev_read, NULL) == 0;
}

static void poll_connect(struct store_conn *c)
{
	switch (PQconnectPoll(c->pg)) {
	case PGRES_POLLING_OK:
		if (!watch(c, false, false))
			c->broken = true;
		else
			setup(c);
		break;
	case PGRES_POLLING_READING:
		if (!watch(c, true, false)) /* the descriptor may be another one now (next host) */
			c->broken = true;
		break;
	case PGRES_POLLING_WRITING:
		if (!watch(c, true, true))
			c->broken = true;
		break;
	default:
		c->broken = true;
	}
	if (c->broken)
		conn_drop(c, PQerrorMessage(c->pg));
}

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
	struct store_conn *c = arg;

	(void)fd;
	if (c->state == CONN_CONNECTING) {
		poll_connect(c);
	} else {
		if (what & EV_WRITE)
			conn_flush(c);
		if (what & EV_READ)
			conn_receive(c);
		if (!c->closed && c->broken)
			conn_drop(c, c->why);
	}
	conn_reap(c);
}

static int64_t answer_s(const struct store_conn *c)
{
	int64_t most = STORE_ANSWER_S, own = c->params.answer_s;

	return own && own < most ? own : most;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct store_conn *c = arg;
	int64_t now = clock_mono_us(), since;

	(void)fd;
	(void)what;
	switch (c->state) {
	case CONN_WAITING:
		try_connect(c);
		break;
	case CONN_CONNECTING:
		conn_drop(c, "the database did not answer in time while connecting");
		break;
	case CONN_SETUP:
	case CONN_UP:
		plan(c, WATCH_US);
		if (!c->sent.head)
			break;
		since = c->sent.head->sent_us > c->heard_us ? c->sent.head->sent_us : c->heard_us;
		if (now - since > answer_s(c) * US_PER_S)
			conn_drop(c, "the database does not answer");
	}
	conn_reap(c);
}

static void on_kick(evutil_socket_t fd, short what, void *arg)
{
	struct store_conn *c = arg;

	(void)fd;
	(void)what;
	if (c->broken && c->pg)
		conn_drop(c, c->why);
	if (!c->closed)
		conn_end_late(c);
	conn_reap(c);
}

static void try_connect(struct store_conn *c)
{
	struct connect_words w;

	connect_words_set(&w, &c->params, NULL);
	c->state = CONN_CONNECTING;
	plan(c, STORE_CONNECT_S * US_PER_S);
	c->pg = PQconnectStartParams(w.keys, w.values, 1);
	if (!c->pg) {
		conn_drop(c, "out of memory");
		return;
	}
	PQsetNoticeReceiver(c->pg, connect_notice, NULL);
	c->heard_us = clock_mono_us();
	if (PQstatus(c->pg) == CONNECTION_BAD || !watch(c, true, true))
		conn_drop(c, PQerrorMessage(c->pg));
}

/* --- for everybody --- */

static bool copy(const char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return !from || *to;
}

struct store_conn *store_conn_open(struct event_base *base, const struct store_params *params, store_state_fn state, void *arg)
{
	struct store_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->base = base;
	c->state_fn = state;
	c->state_arg = arg;
	c->params.async_commit = params->async_commit;
	c->params.answer_s = params->answer_s;
	c->backoff_us = BACKOFF_MIN_US;
	call_list_init(&c->queued);
	call_list_init(&c->sent);
	call_list_init(&c->late);
	c->timer = evtimer_new(base, on_timer, c);
	c->kick = evtimer_new(base, on_kick, c);
	if (!copy(&c->params.conninfo, params->conninfo) || !copy(&c->params.role, params->role) ||
	    !copy(&c->params.set_role, params->set_role) || !copy(&c->params.name, params->name) || !c->timer || !c->kick) {
		conn_free(c);
		return NULL;
	}
	plan(c, 0); /* the first attempt, from the event loop */
	return c;
}

void store_conn_close(struct store_conn *c)
{
	struct call *call;

	if (!c || c->closed)
		return;
	c->closed = true;
	c->state_fn = NULL;
	c->notify_fn = NULL;
	c->state = CONN_WAITING; /* what a callback still asks for fails, and is ended below */
	c->busy++;
	fail_sent(c, "the connection was closed");
	/* A callback that asks again and again is a bug of its owner; it must not hang the reactor. */
	for (unsigned round = 0; c->late.head && recover(round < 100); round++)
		conn_end_late(c);
	while ((call = call_list_take(&c->late)))
		call_free(call);
	c->busy--;
	conn_reap(c);
}

bool store_conn_up(const struct store_conn *c)
{
	return c && c->state == CONN_UP && !c->broken && !c->closed;
}

unsigned store_conn_pending(const struct store_conn *c)
{
	return c->n_pending;
}

uint64_t store_conn_retries(const struct store_conn *c)
{
	return c->retries;
}

int store_conn_listen(struct store_conn *c, const char *const *channels, size_t n, store_notify_fn fn, void *arg)
{
	static const struct {
		const char *channel;
		enum stmt_id stmt;
	} known[] = {
		{ "workqueue", STMT_LISTEN_WORKQUEUE },
		{ "config_changed", STMT_LISTEN_CONFIG },
		{ "workqueue_failed", STMT_LISTEN_FAILED },
		{ "recipient_changed", STMT_LISTEN_RECIPIENT },
	};
	enum { KNOWN = sizeof(known) / sizeof(*known) };
	enum stmt_id found[KNOWN];

	if (n > KNOWN)
		return -1;
	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (k < KNOWN && strcmp(known[k].channel, channels[i]) != 0)
			k++;
		if (k == KNOWN)
			return -1;
		found[i] = known[k].stmt;
	}
	memcpy(c->listens, found, sizeof(found));
	c->n_listens = n;
	c->notify_fn = fn;
	c->notify_arg = arg;
	if (c->state == CONN_SETUP || c->state == CONN_UP) { /* the session is without them: a new one */
		c->broken = true;
		snprintf(c->why, sizeof(c->why), "reconnecting to listen");
		event_active(c->kick, EV_TIMEOUT, 0);
	}
	return 0;
}
