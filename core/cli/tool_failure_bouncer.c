/* pepsi failure-bouncer: moves messages that ended in failed or timeout to the bounce stage, once or as a service. Talks to
 * the database alone: it works beside pepsid, or without it. Which messages, and what becomes of each, is decided by
 * pepsi.failure_bounce(); here are the configuration, the account, the waiting and the log.
 *
 * The service, told: two connections come up, one that listens on workqueue_failed and one that works. Whenever either of
 * them comes (back), everything that is stuck already is swept. The end of a sweep says when the oldest failure that still
 * waits will be MIN_AGE old: that sets the alarm. A notification sets it, too, if it would ring later than MIN_AGE from now. */
#include "base/clock.h"
#include "base/log.h"
#include "service.h"
#include "store/bounce.h"

#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>

#define SECTION "pepsi-failure-bouncer"

enum {
	BATCH = 500,            /* messages in one transaction */
	ALARM_MIN_MS = 100,     /* between two sweeps, however fast failures come */
	ALARM_MAX_MS = 3600000, /* a look now and then, whatever was notified: clocks jump */
	HELD_MS = 1000,         /* due, but somebody had the row: look again soon */
	ERROR_MAX_MS = 300000,  /* longest pause after a sweep that the database refused */
	GRACE_MS = 5000,        /* for a batch that is under way when we are to stop */
};

struct bouncer {
	const struct cli *cli;
	bool once;
	struct store_bounce_rule rule;
	char conninfo[SERVICE_CONNINFO_SIZE];
	struct event_base *base;
	struct store_conn *work, *ears; /* ears: NULL with --once */
	struct event *alarm, *grace, *on_int, *on_term;
	int64_t alarm_at;       /* monotonic; INT64_MAX: not set */
	int64_t error_ms;
	bool sweeping, told;    /* told: of a failure, during the sweep */
	bool away, stopping;
	uint64_t n[STORE_BOUNCE_ACTIONS]; /* of this sweep */
	int64_t waiting;
	int rc;
};

/* ---- waiting */

static void end(struct bouncer *b, int rc)
{
	b->rc = rc;
	b->stopping = true;
	event_base_loopbreak(b->base);
}

static void timer(struct event *e, int64_t ms)
{
	struct timeval tv = { .tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000) };
	evtimer_add(e, &tv);
}

/* Rings in so many milliseconds, unless it would ring earlier anyhow. */
static void alarm_in(struct bouncer *b, int64_t ms)
{
	ms = ms < ALARM_MIN_MS ? ALARM_MIN_MS : ms > ALARM_MAX_MS ? ALARM_MAX_MS : ms;
	int64_t at = clock_mono_us() + ms * 1000;
	if (b->once || b->stopping || at >= b->alarm_at)
		return;
	b->alarm_at = at;
	timer(b->alarm, ms);
}

static int64_t age_ms(const struct bouncer *b)
{
	return (b->rule.min_age_us + 999) / 1000;
}

/* ---- the sweep */

static void on_row(void *arg, const struct store_bounce_row *r)
{
	static const char *const events[STORE_BOUNCE_ACTIONS] = {
		[STORE_BOUNCE_MOVED] = "failure-bounced",
		[STORE_BOUNCE_DELETED] = "list-copy-deleted",
		[STORE_BOUNCE_DROPPED] = "unauthenticated-dropped",
	};
	struct bouncer *b = arg;
	b->n[r->action]++;
	log_warn(NULL, "id=%" PRId64 " event=%s sender=%s stage=%s status=%.*s failed_at=%s error=%s", r->id, events[r->action],
	    log_q(r->mail_from), log_q(r->stage), STR_ARG(r->status), log_q(r->failed_at),
	    r->error.p ? log_q(r->error) : "\"none was recorded\"");
}

/* We are told to stop. A service may at any time; one sweep that was asked for has not been done then. */
static void stop(struct bouncer *b)
{
	end(b, b->once ? cli_fail("stopped by a signal before the sweep was finished") : CLI_DONE);
}

static void sweep_failed(struct bouncer *b, enum store_rc rc, const char *err)
{
	b->sweeping = false;
	if (b->stopping) {
		stop(b);
	} else if (b->once) {
		end(b, cli_fail("the sweep was not finished: %s", err));
	} else if (rc != STORE_AWAY) { /* that one was told, and leads to a sweep when it is back */
		log_error(NULL, "event=sweep-failed err=%s", log_qz(err));
		b->error_ms = b->error_ms ? b->error_ms * 2 : 1000;
		if (b->error_ms > ERROR_MAX_MS)
			b->error_ms = ERROR_MAX_MS;
		alarm_in(b, b->error_ms);
	}
}

static void report(const struct bouncer *b)
{
	uint64_t moved = b->n[STORE_BOUNCE_MOVED], deleted = b->n[STORE_BOUNCE_DELETED], dropped = b->n[STORE_BOUNCE_DROPPED];
	if (b->once && b->cli->json)
		printf("{\"bounced\":%" PRIu64 ",\"deleted\":%" PRIu64 ",\"dropped\":%" PRIu64 ",\"waiting\":%" PRId64 "}\n", moved,
		    deleted, dropped, b->waiting);
	log_line(b->once || moved || deleted || dropped ? LOG_LV_INFO : LOG_LV_DEBUG, NULL,
	    "event=sweep bounced=%" PRIu64 " deleted=%" PRIu64 " dropped=%" PRIu64 " waiting=%" PRId64, moved, deleted, dropped,
	    b->waiting);
}

static void on_wait(void *arg, enum store_rc rc, int64_t waiting, int64_t next_us, const char *err)
{
	struct bouncer *b = arg;
	if (rc != STORE_OK) {
		sweep_failed(b, rc, err);
		return;
	}
	b->sweeping = false;
	b->error_ms = 0;
	b->waiting = waiting;
	report(b);
	if (b->once || b->stopping) {
		end(b, CLI_DONE);
		return;
	}
	alarm_in(b, !waiting ? ALARM_MAX_MS : next_us <= 0 ? HELD_MS : (next_us + 999) / 1000);
	if (b->told)
		alarm_in(b, age_ms(b));
	b->told = false;
}

static void on_batch(void *arg, enum store_rc rc, unsigned n, int64_t last_id, const char *err)
{
	struct bouncer *b = arg;
	if (rc != STORE_OK)
		sweep_failed(b, rc, err);
	else if (b->stopping)
		stop(b);
	else if (n == BATCH)
		store_failure_bounce(b->work, &b->rule, last_id, BATCH, on_row, on_batch, b);
	else
		store_failure_wait(b->work, &b->rule, on_wait, b);
}

static void sweep(struct bouncer *b)
{
	/* without ears, what fails behind the sweep would be missed; either connection's coming up leads here */
	if (b->sweeping || b->stopping || !store_conn_up(b->work) || (b->ears && !store_conn_up(b->ears)))
		return;
	evtimer_del(b->alarm);
	b->alarm_at = INT64_MAX;
	b->sweeping = true;
	b->told = false;
	memset(b->n, 0, sizeof b->n);
	store_failure_bounce(b->work, &b->rule, 0, BATCH, on_row, on_batch, b);
}

/* ---- events */

static void on_alarm(evutil_socket_t fd, short what, void *arg)
{
	struct bouncer *b = arg;
	(void)fd;
	(void)what;
	b->alarm_at = INT64_MAX;
	sweep(b);
}

static void on_state(void *arg, struct store_conn *c, bool up, const char *err)
{
	struct bouncer *b = arg;
	if (b->stopping)
		return;
	if (!up && b->once) {
		end(b, cli_fail("no connection to the database: %s", err));
		return;
	}
	if (!up && !b->away)
		log_warn(NULL, "event=database-away err=%s text=\"trying again, with growing pauses\"", log_qz(err));
	b->away |= !up;
	if (!up)
		return;
	/* everything that failed while nobody listened is found by the sweep */
	b->told |= b->sweeping;
	if (store_conn_up(b->work) && (!b->ears || store_conn_up(b->ears))) {
		if (!b->once)
			log_info(NULL, "event=%s channel=workqueue_failed", b->away ? "listening-again" : "listening");
		b->away = false;
	}
	(void)c;
	sweep(b);
}

static void on_notify(void *arg, const char *channel, const char *payload)
{
	struct bouncer *b = arg;
	(void)channel;
	(void)payload; /* the id: what is due is asked for by age, not by name */
	if (b->sweeping)
		b->told = true;
	else
		alarm_in(b, age_ms(b));
}

static void on_grace(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	stop(arg);
}

static void on_signal(evutil_socket_t sig, short what, void *arg)
{
	struct bouncer *b = arg;
	(void)what;
	log_info(NULL, "event=stop signal=%d", (int)sig);
	if (b->stopping || !b->sweeping) {
		stop(b);
		return;
	}
	b->stopping = true;
	timer(b->grace, GRACE_MS);
}

static int run(struct bouncer *b)
{
	static const char *const channels[] = { "workqueue_failed" };
	struct store_params p = { .conninfo = b->conninfo, .role = "pepsi", .name = "pepsi failure-bouncer" };
	b->base = event_base_new();
	if (!b->base)
		return cli_fail("out of memory");
	b->alarm_at = INT64_MAX;
	b->alarm = evtimer_new(b->base, on_alarm, b);
	b->grace = evtimer_new(b->base, on_grace, b);
	b->on_int = evsignal_new(b->base, SIGINT, on_signal, b);
	b->on_term = evsignal_new(b->base, SIGTERM, on_signal, b);
	b->work = store_conn_open(b->base, &p, on_state, b);
	if (!b->once) {
		p.name = "pepsi failure-bouncer listener";
		b->ears = store_conn_open(b->base, &p, on_state, b);
	}
	if (!b->alarm || !b->grace || !b->on_int || !b->on_term || evsignal_add(b->on_int, NULL) || evsignal_add(b->on_term, NULL) ||
	    !b->work || (!b->once && (!b->ears || store_conn_listen(b->ears, channels, 1, on_notify, b)))) {
		b->rc = cli_fail("out of memory");
	} else {
		b->rc = CLI_FAILED; /* unless the loop is left in order */
		event_base_dispatch(b->base);
	}
	b->stopping = true;
	store_conn_close(b->ears);
	store_conn_close(b->work);
	struct event *const events[] = { b->alarm, b->grace, b->on_int, b->on_term };
	for (size_t i = 0; i < 4; i++)
		if (events[i])
			event_free(events[i]);
	event_base_free(b->base);
	return b->rc;
}

int tool_failure_bouncer(struct cli *c)
{
	struct bouncer *b = calloc(1, sizeof *b);
	char *words = NULL, *stage = NULL, *account = NULL;
	struct config *conf = NULL;
	const char *bounce;
	int rc = CLI_FAILED;
	if (c->args.set & CLI_BIT(CLI_FAILED_ONLY) && c->args.set & CLI_BIT(CLI_TIMEOUT_ONLY)) {
		free(b);
		return cli_usage(c, "--failed-only and --timeout-only exclude each other");
	}
	if (!b) {
		cli_fail("out of memory");
		goto out;
	}
	if (!(conf = service_config(c)))
		goto out;
	bounce = config_str(conf, SECTION, "BOUNCE_STAGE");
	if (!bounce || !*bounce) {
		cli_fail("%s: [" SECTION "] BOUNCE_STAGE is not set", cli_config_file(c));
		goto out;
	}
	b->cli = c;
	b->once = c->args.set & CLI_BIT(CLI_ONCE);
	stage = strdup(bounce);
	account = strdup(config_str(conf, "pepsi", "USER"));
	words = service_words(config_str(conf, "pepsi", "RELAY_NETWORKS"), &b->rule.networks, &b->rule.n_networks);
	if (!stage || !account || !words) {
		cli_fail("out of memory");
		goto out;
	}
	b->rule.stage = stage;
	b->rule.failed = !(c->args.set & CLI_BIT(CLI_TIMEOUT_ONLY));
	b->rule.timeout = !(c->args.set & CLI_BIT(CLI_FAILED_ONLY));
	b->rule.min_age_us = config_int(conf, SECTION, "MIN_AGE") * US_PER_S;
	b->rule.unauthenticated = config_int(conf, SECTION, "BOUNCE_UNAUTHENTICATED");
	if (service_leave_root(account) || service_conninfo(conf, b->conninfo))
		goto out;
	config_free(conf); /* and with it the secrets that are not needed any more */
	conf = NULL;
	rc = run(b);
out:
	config_free(conf);
	if (b)
		free((void *)b->rule.networks);
	free(b);
	free(words);
	free(stage);
	free(account);
	return rc;
}
