/* The dispatcher's life: wake-ups, the lock and the recovery at the start, stages from the configuration, places for the ingress, reload and
 * stop. Decides when the other files do their parts, never what becomes of a row. */
#include "dispatch_internal.h"

#include "base/clock.h"

#include <signal.h>
#include <stdlib.h>

struct stage *dispatch_stage_find(struct dispatch *d, const char *name)
{
	struct stage *st;
	TAILQ_FOREACH(st, &d->stages, link)
		if (strcmp(st->name, name) == 0)
			return st;
	return NULL;
}

void dispatch_turn_soon(struct dispatch *d)
{
	event_active(d->turn, 0, 0);
}

void dispatch_wake(struct dispatch *d, const char *name)
{
	struct stage *st;
	TAILQ_FOREACH(st, &d->stages, link)
		if (!name || strcmp(st->name, name) == 0) {
			st->maybe_pending = true;
			st->wakes++;
		}
	dispatch_turn_soon(d);
}

static void told(void *arg, enum store_rc rc, const char *err)
{
	(void)arg;
	(void)rc; /* the heartbeat finds the row too */
	(void)err;
}

void dispatch_wake_sink(void *arg, const char *stage)
{
	struct dispatch *d = arg;
	dispatch_wake(d, stage);
	if (d->connected && d->other_said) /* another process dispatches: it listens */
		store_notify(d->db, told, NULL);
}

/* ---- the loop */

static void finish_stop(struct dispatch *d);

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
	struct dispatch *d = arg;
	struct stage *st;
	(void)fd;
	(void)what;
	TAILQ_FOREACH(st, &d->stages, link)
		if (!d->stopping || st->n_workers)
			flight_deal(d, st);
	dispatch_claim(d);
	if (d->stopping)
		finish_stop(d);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct dispatch *d = arg;
	struct stage *st;
	int64_t now = clock_mono_us();
	(void)fd;
	(void)what;
	pool_tick(d, now);
	TAILQ_FOREACH(st, &d->stages, link) {
		repair_run(d, st);
		fair_decay(&st->book, (double)(now - d->last_decay), (double)d->half_life_us);
	}
	d->last_decay = now;
	sour_run(d, now);
	if (now - d->last_poll > d->poll_interval_us) { /* safety net: a notification may have been missed */
		d->last_poll = now;
		dispatch_wake(d, NULL);
	}
	if (now - d->last_sweep > ORPHAN_SWEEP_US)
		sweep_run(d, now);
	expire_tick(d, now);
	page_retries(d);
	if (stats_dirty(d) && (now - d->last_flush > STATS_FLUSH_US || (!d->flights.n && now - d->last_flush > US_PER_S)))
		stats_flush(d);
	if (d->stopping)
		finish_stop(d);
}

static void recovered(void *arg, enum store_rc rc, unsigned n)
{
	struct dispatch *d = arg;
	d->recovering = false;
	if (rc != STORE_OK)
		return; /* again with the next connection, or below */
	d->recovered = true;
	if (n)
		log_info(NULL, "event=recovered rows=%u hint=\"left running by a former life\"", n);
	dispatch_wake(d, NULL);
	due_begin(d);
}

/* The connection is there and ours: the books of this process and the database are brought together. */
static void begin(struct dispatch *d)
{
	struct stage *st;
	d->db_up = true;
	if (!d->recovered) {
		if (!d->recovering) {
			d->recovering = true;
			store_release(d->db, NULL, 0, recovered, d);
		}
		return;
	}
	TAILQ_FOREACH(st, &d->stages, link) {
		struct worker *w;
		repair_run(d, st);
		TAILQ_FOREACH(w, &st->workers, link)
			if (w->busy_since) /* their time begins anew: they were waiting for the same database */
				w->busy_since = clock_mono_us();
	}
	d->last_sweep = clock_mono_us() - ORPHAN_SWEEP_US + US_PER_S; /* answers may have been lost: sweep in a second */
	dispatch_wake(d, NULL);
	due_begin(d);
}

static void lock_later(struct dispatch *d, int ms)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	event_add(d->lock, &tv);
}

static void locked(void *arg, enum store_rc rc, bool got)
{
	struct dispatch *d = arg;
	d->locking = false;
	if (rc == STORE_AWAY || !d->connected)
		return;
	if (rc == STORE_OK && got) {
		if (d->other_said)
			log_info(NULL, "event=dispatcher hint=\"the other one is gone\"");
		d->other_said = false;
		begin(d);
		return;
	}
	/* a predecessor that has just died holds on until the server notices */
	if (!d->other_said && clock_mono_us() - d->lock_since > 3 * US_PER_S) {
		d->other_said = true;
		log_error(NULL, "event=other-dispatcher hint=\"another pepsid dispatches from this database; this one accepts mail, "
				"claims nothing, and asks again each second\"");
	}
	lock_later(d, d->other_said ? 1000 : 100);
}

static void on_lock(evutil_socket_t fd, short what, void *arg)
{
	struct dispatch *d = arg;
	(void)fd;
	(void)what;
	if (!d->connected || d->db_up || d->locking)
		return;
	d->locking = true;
	store_lock_dispatcher(d->db, locked, d);
}

void dispatch_database(struct dispatch *d, bool up)
{
	d->connected = up;
	d->db_up = d->draining = false;
	d->lock_since = clock_mono_us();
	if (up) /* when it went, answers to what was under way have come as STORE_AWAY */
		on_lock(-1, 0, d);
}

bool dispatch_ready(const struct dispatch *d)
{
	return d->db_up && d->recovered;
}

/* ---- stages from the configuration */

void dispatch_stage_kind(struct stage *st, bool many)
{
	st->many = many;
	st->queue_limit = st->limits[many].queue;
	st->max_runtime_us = st->limits[many].runtime_us;
}

static struct stage *stage_add(struct dispatch *d, const char *name)
{
	struct stage *st = calloc(1, sizeof *st);
	if (!st || !(st->name = strdup(name))) {
		free(st);
		return NULL;
	}
	st->d = d;
	TAILQ_INIT(&st->workers);
	TAILQ_INIT(&st->backlog);
	TAILQ_INIT(&st->suspects);
	fair_init(&st->book);
	TAILQ_INIT(&st->repairs);
	st->number = d->n_stages++;
	TAILQ_INSERT_TAIL(&d->stages, st, link);
	return st;
}

static int configure(struct dispatch *d, const struct config *c)
{
	struct stage *st;
	const char *section;
	d->config = c;
	TAILQ_FOREACH(st, &d->stages, link)
		st->removed = true;
	for (size_t i = 0; (section = config_section(c, i)); i++) {
		if (strncasecmp(section, "stage-", 6) || !section[6])
			continue;
		st = dispatch_stage_find(d, section + 6);
		if (!st && !(st = stage_add(d, section + 6)))
			return -1;
		const char *program = config_str(c, section, "PROGRAM");
		char *copy = strdup(program ? program : "");
		if (!copy)
			return -1;
		st->known &= st->program && !strcmp(st->program, copy);
		st->many &= st->known;
		free(st->program);
		st->program = copy;
		st->removed = false;
		st->parallelism = (unsigned)config_int(c, section, "PARALLELISM");
		st->max_messages = (uint64_t)config_int(c, section, "MAX_MESSAGES");
		if (!st->parallelism)
			st->parallelism = 1;
		for (int many = 0; many < 2; many++) {
			st->limits[many].queue = config_queue_limit(c, section, many);
			st->limits[many].runtime_us = config_max_runtime(c, section, many) * US_PER_S;
		}
		dispatch_stage_kind(st, st->many);
		char *bounce = NULL;
		if (config_str(c, section, "BOUNCE_STAGE") && !(bounce = strdup(config_str(c, section, "BOUNCE_STAGE"))))
			return -1;
		free(st->bounce);
		st->bounce = bounce;
		st->life_s = config_int(c, section, "MAX_LIFETIME");
		st->cooldown_until = st->down_since = 0;
		st->maybe_pending = true;
	}
	d->poll_interval_us = config_int(c, "pepsi-dispatch", "POLL_INTERVAL") * US_PER_S;
	d->idle_timeout_us = config_int(c, "pepsi-dispatch", "WORKER_IDLE_TIMEOUT") * US_PER_S;
	d->cooldown_us = config_int(c, "pepsi-dispatch", "LAUNCH_COOLDOWN") * US_PER_S;
	d->half_life_us = config_int(c, "pepsi-dispatch", "FAIR_HALF_LIFE") * US_PER_S;
	d->fifo_percent = (unsigned)config_int(c, "pepsi-dispatch", "FAIR_FIFO_PERCENT");
	d->max_crashes = (unsigned)config_int(c, "pepsi-dispatch", "MAX_CRASHES");
	if (d->poll_interval_us <= 0)
		d->poll_interval_us = 30 * US_PER_S;
	if (d->cooldown_us <= 0)
		d->cooldown_us = 5 * US_PER_S;
	if (!d->max_crashes)
		d->max_crashes = 3;
	TAILQ_FOREACH(st, &d->stages, link)
		st->book.fifo_percent = d->fifo_percent;
	return 0;
}

struct dispatch *dispatch_new(struct event_base *base, const struct config *c, const struct dispatch_spawner *sp)
{
	struct dispatch *d = calloc(1, sizeof *d);
	if (!d)
		return NULL;
	d->base = base;
	d->sp = *sp;
	TAILQ_INIT(&d->stages);
	d->turn = event_new(base, -1, 0, on_turn, d);
	d->tick = event_new(base, -1, EV_PERSIST, on_tick, d);
	d->lock = event_new(base, -1, 0, on_lock, d);
	if (dispatch_claim_init(d) || due_init(d) || !d->turn || !d->tick || !d->lock || configure(d, c)) {
		dispatch_free(d);
		return NULL;
	}
	return d;
}

int dispatch_start(struct dispatch *d, struct store_conn *db)
{
	struct timeval tv = { .tv_usec = TICK_MS * 1000 };
	d->db = db;
	d->last_poll = d->last_sweep = d->last_flush = d->last_decay = clock_mono_us();
	return event_add(d->tick, &tv);
}

void dispatch_reload(struct dispatch *d, const struct config *c)
{
	struct stage *st;
	struct worker *w, *next;
	if (configure(d, c))
		log_error(NULL, "event=reload-incomplete reason=\"out of memory\"");
	TAILQ_FOREACH(st, &d->stages, link)
		for (w = TAILQ_FIRST(&st->workers); w; w = next) {
			next = TAILQ_NEXT(w, link);
			pool_retire(d, w);
		}
	dispatch_turn_soon(d);
}

/* ---- the ingress' side */

bool dispatch_reserve(void *arg, const char *name, const char *sender_key, size_t octets)
{
	struct dispatch *d = arg;
	struct stage *st = dispatch_stage_find(d, name);
	struct sender *from;
	if (!st || st->removed || st->cooldown_until || d->stopping || d->sweeping || d->draining || !d->db_up || !d->recovered ||
	    st->backlog_bytes + octets > STAGE_BYTES_MAX || !(from = fair_sender(&st->book, sender_key)))
		return false;
	/* Whoever waits in the database comes first, and the places are counted; but a sender who has had no more than anybody
	 * else neither waits behind a crowd of others' rows nor finds the places taken by them. */
	unsigned all = st->parallelism * st->queue_limit + HAND_OFF_EXTRA, used = st->in_flight + st->reserved;
	bool light = fair_light(&st->book, from, st->avg_us ? (double)st->avg_us : 1000);
	if ((st->maybe_pending || used >= all) && !(light && used < all + all / 2)) {
		from->deferred = st->book.epoch; /* its next ones must not overtake this one */
		return false;
	}
	if (!from->held && !from->reserved && from->time_us < st->book.floor_us)
		from->time_us = st->book.floor_us;
	from->reserved++;
	st->reserved++;
	return true;
}

void dispatch_unreserve(void *arg, const char *name, const char *sender_key, size_t octets)
{
	struct stage *st = dispatch_stage_find(arg, name);
	struct sender *from = st ? fair_sender(&st->book, sender_key) : NULL;
	(void)octets;
	if (st && st->reserved)
		st->reserved--;
	if (from && from->reserved)
		from->reserved--;
}

void dispatch_hand_off(void *arg, const char *name, const char *sender_key, const struct wire_item *item, int body_fd)
{
	struct dispatch *d = arg;
	struct stage *st = dispatch_stage_find(d, name);
	struct flight *f = st ? flight_new(d, st, item->id, sender_key) : NULL;
	dispatch_unreserve(arg, name, sender_key, 0);
	if (!f) {
		if (body_fd >= 0)
			close(body_fd);
		if (st) /* running in the database, known to nobody: give it back */
			dispatch_sour_add(d, st, item->id, 0);
		return;
	}
	st->hand_offs++;
	if (wire_size(item) > WIRE_DATAGRAM_MAX || wire_put(&f->record, item)) {
		buf_free(&f->record); /* the worker reads it from the database */
		if (body_fd >= 0)
			close(body_fd);
		body_fd = -1;
	}
	f->body_fd = body_fd;
	f->place = item->n_rcpts ? many_place(item->rcpts[0]) : 0;
	f->octets = f->record.n + (body_fd >= 0 ? (size_t)item->body_size : 0);
	flight_wait(f, false);
	dispatch_turn_soon(d);
}

/* ---- stop */

static bool quiet(const struct dispatch *d)
{
	const struct stage *st;
	TAILQ_FOREACH(st, &d->stages, link)
		if (st->n_workers)
			return false;
	return !d->claiming && !d->flushing;
}

static void finish_stop(struct dispatch *d)
{
	struct stage *st;
	struct worker *w;
	bool late = clock_mono_us() > d->stop_deadline;
	if (!d->stop_done)
		return;
	if (late)
		TAILQ_FOREACH(st, &d->stages, link)
			TAILQ_FOREACH(w, &st->workers, link)
				if (w->pid && !w->exited)
					d->sp.kill(d->sp.arg, w->pid, SIGKILL);
	if (!quiet(d) && !(late && clock_mono_us() > d->stop_deadline + 5 * US_PER_S))
		return;
	if (stats_dirty(d) && d->db_up && !d->flushing && d->stop_flushes < STOP_FLUSHES_MAX) {
		d->stop_flushes++;
		stats_flush(d);
		return;
	}
	void (*done)(void *) = d->stop_done;
	d->stop_done = NULL;
	event_del(d->tick);
	event_del(d->due);
	event_del(d->lock);
	done(d->stop_arg);
}

void dispatch_stop(struct dispatch *d, unsigned grace_s, void (*done)(void *arg), void *arg)
{
	struct stage *st;
	struct worker *w, *next;
	struct flight *f;
	d->stopping = true;
	d->stop_done = done;
	d->stop_arg = arg;
	d->stop_deadline = clock_mono_us() + (int64_t)grace_s * US_PER_S;
	TAILQ_FOREACH(st, &d->stages, link) {
		for (w = TAILQ_FIRST(&st->workers); w; w = next) {
			next = TAILQ_NEXT(w, link);
			pool_retire(d, w);
			if (w->by_id && w->n_flights && w->pid && !w->exited) /* it would take its time */
				d->sp.kill(d->sp.arg, w->pid, SIGTERM);
		}
		while ((f = flight_waiting(st))) {
			if (d->db_up)
				dispatch_release(d, &f->id, 1);
			flight_free(d, f);
		}
	}
	/* what cannot be written now (database away) is reset by the next start */
	finish_stop(d);
}

void dispatch_free(struct dispatch *d)
{
	struct stage *st;
	struct worker *w;
	struct flight *f;
	if (!d)
		return;
	while ((st = TAILQ_FIRST(&d->stages))) {
		while ((w = TAILQ_FIRST(&st->workers))) {
			while ((f = TAILQ_FIRST(&w->flights)))
				flight_free(d, f);
			pool_forget(d, w);
		}
		while ((f = TAILQ_FIRST(&st->repairs))) {
			TAILQ_REMOVE(&st->repairs, f, link);
			flight_wait(f, false);
		}
		while ((f = flight_waiting(st)))
			flight_free(d, f);
		fair_done(&st->book);
		metrics_set_done(&st->metrics);
		TAILQ_REMOVE(&d->stages, st, link);
		free(st->name);
		free(st->bounce);
		free(st->program);
		free(st);
	}
	if (d->turn)
		event_free(d->turn);
	if (d->tick)
		event_free(d->tick);
	due_done(d);
	if (d->lock)
		event_free(d->lock);
	map_done(&d->flights);
	map_done(&d->pids);
	map_done(&d->marked);
	free(d->sour);
	free(d->lost);
	free(d->claim);
	free(d);
}
