/* See concurrent.h. */
#include "concurrent.h"

#include "base/clock.h"
#include "misuse.h"
#include "resolve.h"
#include "steer.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	YIELD_MINOR = 3,        /* modules built for this ABI know PEPSI_STOP_YIELD; others would take it for an end */
	/* After so many callbacks, or so long, the loop looks again at what has come meanwhile: the host's own turn comes first. */
	CALLBACKS_MAX = 64,
	CALLBACKS_US = 20 * 1000,
};

TAILQ_HEAD(pending_list, pending);

struct concurrent {
	const struct worker_env *env;
	struct concurrent_owner owner;
	struct event_base *base;
	struct event_list events;
	struct pending_list waits; /* oldest first */
	size_t n;
	uint64_t serial;
	int64_t since;             /* the module's code runs since then; 0: it does not */
	const struct pepsi_msg *hand;
};

static struct concurrent *here;
static struct pepsi_host table;

static struct event_base *new_base(void)
{
	struct event_config *cfg = event_config_new();
	struct timeval tv = { .tv_usec = CALLBACKS_US };
	if (!cfg || event_config_set_max_dispatch_interval(cfg, &tv, CALLBACKS_MAX, 1)) {
		if (cfg)
			event_config_free(cfg);
		return NULL;
	}
	struct event_base *base = event_base_new_with_config(cfg);
	event_config_free(cfg);
	if (base && event_base_priority_init(base, 2)) {
		event_base_free(base);
		return NULL;
	}
	return base;
}

struct concurrent *concurrent_new(const struct worker_env *env, const struct concurrent_owner *owner, const struct pepsi_host *host)
{
	struct concurrent *c = here ? NULL : calloc(1, sizeof *c);
	if (!c || !(c->base = new_base())) {
		free(c);
		return NULL;
	}
	c->env = env;
	c->owner = *owner;
	TAILQ_INIT(&c->waits);
	TAILQ_INIT(&c->events);
	table = *host;
	concurrent_host(&table);
	return here = c;
}

void concurrent_free(struct concurrent *c)
{
	struct pending *p;
	if (!c)
		return;
	TAILQ_FOREACH(p, &c->waits, link)
		ask_end(p->msg);
	ask_end_all();
	resolve_done();
	events_free(c);
	event_base_free(c->base);
	here = NULL;
	free(c);
}

struct event_base *concurrent_base(const struct concurrent *c)
{
	return c->base;
}

struct concurrent *concurrent_here(void)
{
	return here;
}

struct event_list *concurrent_events(struct concurrent *c)
{
	return &c->events;
}

const struct pepsi_host *concurrent_table(void)
{
	return &table;
}

size_t concurrent_pending(const struct concurrent *c)
{
	return c->n;
}

void concurrent_misuse(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	misuse_vsay("program", here ? here->env->mod->stage.name : "-", fmt, ap);
	va_end(ap);
}

bool concurrent_alive(const struct pepsi_msg *m)
{
	return m && m->pending && m->pending->life != PENDING_OVER;
}

bool concurrent_usable(const struct pepsi_conf *conf, const char *what)
{
	if (here && conf && conf == here->env->conf && conf->m->stage.caps & PEPSI_CAP_CONCURRENT)
		return true;
	concurrent_misuse("%s() is for modules that declare PEPSI_CAP_CONCURRENT, with the conf that open() was given", what);
	return false;
}

/* --- whose turn it is */

static void show(struct concurrent *c, const struct pepsi_msg *m)
{
	c->hand = m;
	c->owner.hand(c->owner.arg, m, c->since);
}

void concurrent_enter(struct concurrent *c, const struct pepsi_msg *m)
{
	c->since = clock_mono_us();
	show(c, m);
}

void concurrent_leave(struct concurrent *c)
{
	c->since = 0;
	show(c, NULL);
}

void host_in_hand(struct pepsi_msg *m)
{
	if (!here || !here->since)
		concurrent_misuse("in_hand() outside of a hook or callback");
	else if (m && !concurrent_alive(m))
		concurrent_misuse("in_hand() for a message that is complete");
	else
		show(here, m);
}

/* --- messages */

/* In the list or not: it is the module's no longer. */
static void end(struct concurrent *c, struct pending *p, int32_t rc)
{
	struct pepsi_msg *m = p->msg;
	ask_end(m);
	p->life = PENDING_OVER;
	if (c->hand == m)
		show(c, NULL);
	c->owner.over(c->owner.arg, m, rc);
}

void concurrent_begin(struct concurrent *c, struct pepsi_msg *m, struct pending *p)
{
	*p = (struct pending){ .msg = m, .life = PENDING_BEGUN, .serial = ++c->serial };
	m->pending = p;
	ask_begin(m);
	int32_t rc = PEPSI_OK;
	if (!pass_steer(m) && !pass_expired(m)) {
		concurrent_enter(c, m);
		rc = c->env->mod->stage.process(c->env->state, &table, m);
		concurrent_leave(c);
	}
	if (rc != PEPSI_PENDING) {
		end(c, p, rc);
		return;
	}
	p->life = PENDING_WAITS;
	TAILQ_INSERT_TAIL(&c->waits, p, link);
	c->n++;
}

int32_t host_complete(struct pepsi_msg *m, int32_t rc)
{
	struct pending *p = m ? m->pending : NULL;
	if (!here || !p || p->life == PENDING_OVER) {
		concurrent_misuse("complete() for a message that is not pending");
		return PEPSI_MISUSE;
	}
	if (p->life == PENDING_BEGUN)
		return pass_misuse(m, "complete() within process(): a message is pending once that has returned PEPSI_PENDING; to end it there, return PEPSI_OK");
	TAILQ_REMOVE(&here->waits, p, link);
	here->n--;
	end(here, p, rc);
	return PEPSI_OK;
}

/* --- stop */

static void stop(struct concurrent *c, struct pending *p, uint32_t why)
{
	p->stops |= why;
	concurrent_enter(c, p->msg);
	c->env->mod->stage.stop(c->env->state, &table, p->msg, why);
	concurrent_leave(c);
}

/* stop() may complete messages, this one and others: what the list was is looked at, not what it is. */
static void stop_some(struct concurrent *c, uint32_t why, int64_t begun_before)
{
	struct told {
		struct pending *p;
		uint64_t serial;
	} *told = c->n ? malloc(c->n * sizeof *told) : NULL;
	struct pending *p;
	size_t n = 0;
	if (!told) /* out of memory: at the next tick */
		return;
	TAILQ_FOREACH(p, &c->waits, link) {
		if (p->msg->began_us > begun_before)
			break;
		if (!(p->stops & why))
			told[n++] = (struct told){ p, p->serial };
	}
	for (size_t i = 0; i < n; i++) {
		p = told[i].p;
		if (p->life == PENDING_WAITS && p->serial == told[i].serial && !(p->stops & why))
			stop(c, p, why);
	}
	free(told);
}

struct pepsi_msg *concurrent_stop_near(struct concurrent *c, int64_t now)
{
	int64_t runtime = c->env->runtime_ms * 1000, near = runtime / 2 < CONCURRENT_GRACE_US ? runtime / 2 : CONCURRENT_GRACE_US;
	struct pending *first = TAILQ_FIRST(&c->waits);
	if (!first || now - first->msg->began_us < runtime - near)
		return NULL;
	stop_some(c, PEPSI_STOP_RUNTIME, now - (runtime - near));
	first = TAILQ_FIRST(&c->waits);
	return first && now - first->msg->began_us >= runtime ? first->msg : NULL;
}

void concurrent_stop_all(struct concurrent *c)
{
	stop_some(c, PEPSI_STOP_LEAVE, INT64_MAX);
}

void concurrent_yield_all(struct concurrent *c)
{
	if (c->env->mod->stage.abi.minor >= YIELD_MINOR)
		stop_some(c, PEPSI_STOP_YIELD, INT64_MAX);
}

int64_t host_mono_ms(void)
{
	return clock_mono_us() / 1000;
}
