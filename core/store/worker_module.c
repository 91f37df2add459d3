/* The connection that a worker has for its module: made when it is first asked for, and again when it broke, which includes a module that shut it down
 * because nothing came. Waits for it, or, in a worker with a loop, makes it step by step beside the loop. Knows nothing of what is asked over it. */
#include "store/worker_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <event2/event.h>
#include <stdio.h>

enum {
	RESTS = 4,             /* times as long as a connection took that could not be had, none is tried */
	REST_LEAST_US = 200 * 1000, /* in a loop, where nobody notices the time it takes */
};

/* A host that says nothing costs the whole time-out, and a module may ask for each of hundreds of messages. */
static void failed(struct module_link *m, const char *why)
{
	int64_t now = clock_mono_us(), rest = RESTS * (now - m->began_us);

	if (m->base && rest < REST_LEAST_US)
		rest = REST_LEAST_US;
	m->rest_us = now + rest;
	log_warn(NULL, "database-away for=module err=%s", log_qz(why));
}

static void wait_now(struct module_link *m)
{
	static const struct worker_wait by = { NULL, NULL };
	char err[STORE_ERR_MAX];

	m->pg = worker_connect(&by, &m->params, err, sizeof(err));
	if (!m->pg)
		failed(m, err);
}

/* --- in a loop --- */

static void drop_coming(struct module_link *m)
{
	if (m->ev)
		event_free(m->ev);
	m->ev = NULL;
	if (m->coming)
		PQfinish(m->coming);
	m->coming = NULL;
}

static void give_up(struct module_link *m, const char *text)
{
	char err[STORE_ERR_MAX];

	connect_one_line(err, sizeof(err), text);
	drop_coming(m);
	failed(m, err);
}

static void step(evutil_socket_t fd, short what, void *arg);

/* The descriptor may be another one now (next host). */
static void watch(struct module_link *m, short what)
{
	int64_t left = m->began_us + STORE_CONNECT_S * US_PER_S - clock_mono_us();
	struct timeval tv = { 0 };

	if (m->ev)
		event_free(m->ev);
	if (left > 0)
		tv = (struct timeval){ .tv_sec = left / US_PER_S, .tv_usec = left % US_PER_S };
	m->ev = event_new(m->base, PQsocket(m->coming), what, step, m);
	if (!m->ev || event_add(m->ev, &tv))
		give_up(m, "out of memory");
}

static void set_up(struct module_link *m)
{
	const char *values[2] = CONNECT_SETUP_PARAMS(&m->params);

	PQsetNoticeReceiver(m->coming, connect_notice, NULL);
	m->setup = true;
	/* Some hundred octets: they fit into any socket. */
	if (PQsendQueryParams(m->coming, connect_setup_sql, 2, NULL, values, NULL, NULL, 1))
		watch(m, EV_READ);
	else
		give_up(m, PQerrorMessage(m->coming));
}

static void take_result(struct module_link *m)
{
	PGresult *res;

	if (!PQconsumeInput(m->coming)) {
		give_up(m, PQerrorMessage(m->coming));
		return;
	}
	while (!PQisBusy(m->coming)) {
		res = PQgetResult(m->coming);
		if (!res) {
			m->pg = m->coming;
			m->coming = NULL;
			drop_coming(m);
			return;
		}
		if (PQresultStatus(res) != PGRES_TUPLES_OK) {
			char err[STORE_ERR_MAX];

			connect_result_error(err, sizeof(err), res);
			PQclear(res);
			give_up(m, err);
			return;
		}
		PQclear(res);
	}
	watch(m, EV_READ);
}

static void step(evutil_socket_t fd, short what, void *arg)
{
	struct module_link *m = arg;

	(void)fd;
	if (what & EV_TIMEOUT && !(what & (EV_READ | EV_WRITE))) {
		give_up(m, "the database did not answer in time while connecting");
		return;
	}
	if (m->setup) {
		take_result(m);
		return;
	}
	switch (PQconnectPoll(m->coming)) {
	case PGRES_POLLING_OK:
		set_up(m);
		break;
	case PGRES_POLLING_READING:
		watch(m, EV_READ);
		break;
	case PGRES_POLLING_WRITING:
		watch(m, EV_WRITE);
		break;
	default:
		give_up(m, PQerrorMessage(m->coming));
	}
}

static void begin(struct module_link *m)
{
	struct connect_words words;

	m->setup = false;
	connect_words_set(&words, &m->params, NULL);
	m->coming = PQconnectStartParams(words.keys, words.values, 1);
	if (!m->coming || PQstatus(m->coming) == CONNECTION_BAD)
		give_up(m, m->coming ? PQerrorMessage(m->coming) : "out of memory");
	else
		watch(m, EV_WRITE);
}

/* --- for the worker --- */

PGconn *module_link_get(struct module_link *m, const struct store_params *params)
{
	if (m->pg && PQstatus(m->pg) != CONNECTION_OK) {
		PQfinish(m->pg);
		m->pg = NULL;
	}
	int64_t now = clock_mono_us();
	if (m->pg || m->coming || now < m->rest_us)
		return m->pg;
	m->began_us = now;
	m->params = *params;
	snprintf(m->name, sizeof(m->name), "%.50s module", params->name ? params->name : "pepsi");
	m->params.name = m->name;
	if (m->base)
		begin(m);
	else
		wait_now(m);
	return m->pg;
}

void module_link_live(struct module_link *m, struct event_base *base)
{
	if (m->base != base)
		drop_coming(m);
	m->base = base;
}

void module_link_done(struct module_link *m)
{
	drop_coming(m);
	if (m->pg)
		PQfinish(m->pg);
	m->pg = NULL;
}
