/* Pools: worker processes of a stage, from the request for one to its end. Grows on demand up to PARALLELISM (not counting
 * those that are on their way out), retires idle and worn-out workers, kills those that overrun MAX_RUNTIME, waits out the cool-down of a module that cannot start. Never
 * forks: the daemon's spawner does. */
#include "dispatch_internal.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STATUS_BUFFER_MAX = 1 << 20 };

static void on_read(evutil_socket_t fd, short what, void *arg);
static void on_write(evutil_socket_t fd, short what, void *arg);

static bool leaving(const struct worker *w)
{
	return w->state == WORKER_RETIRING && !w->n_flights && w->pid;
}

unsigned pool_leaving(const struct stage *st)
{
	const struct worker *w;
	unsigned n = 0;
	TAILQ_FOREACH(w, &st->workers, link)
		n += leaving(w);
	return n;
}

/* Is there a place for one more? Which one matters where workers drive many messages at once (many.c). */
static bool has_place(const struct stage *st, int *ret_slot)
{
	if (st->many)
		return many_wants(st, ret_slot);
	*ret_slot = (int)(st->n_workers % st->parallelism);
	return st->n_workers - pool_leaving(st) < st->parallelism && st->n_workers < 2 * st->parallelism;
}

void pool_grow(struct dispatch *d, struct stage *st)
{
	unsigned depth = flight_depth(st), want = st->many ? 2 * st->parallelism : st->n_backlog / (depth ? depth : 1) + 1;
	if (d->stopping || st->cooldown_until > clock_mono_us())
		return;
	int slot;
	while (st->n_starting < want && has_place(st, &slot) && d->n_starting < STARTING_MAX) {
		struct worker *w = calloc(1, sizeof *w);
		if (!w)
			return;
		w->stage = st;
		w->fd = -1;
		w->token = ++d->next_token;
		w->asked_at = clock_mono_us();
		w->state = WORKER_STARTING;
		w->slot = slot;
		w->in = BUF_INIT(STATUS_BUFFER_MAX);
		TAILQ_INIT(&w->flights);
		TAILQ_INSERT_TAIL(&st->workers, w, link);
		st->n_workers++;
		st->n_starting++;
		d->n_starting++;
		d->sp.start(d->sp.arg, w->token, st->name);
	}
}

static struct worker *by_token(struct dispatch *d, uint32_t token)
{
	struct stage *st;
	struct worker *w;
	TAILQ_FOREACH(st, &d->stages, link)
		TAILQ_FOREACH(w, &st->workers, link)
			if (w->token == token)
				return w;
	return NULL;
}

void dispatch_worker_started(struct dispatch *d, uint32_t token, pid_t pid, int fd)
{
	struct worker *w = by_token(d, token);
	if (!w || w->pid) {
		close(fd); /* its stage went away meanwhile: the worker sees the end and leaves */
		return;
	}
	w->pid = pid;
	w->fd = fd;
	w->stage->n_starting--;
	d->n_starting--;
	w->ev_read = event_new(d->base, fd, EV_READ | EV_PERSIST, on_read, w);
	w->ev_write = event_new(d->base, fd, EV_WRITE, on_write, w);
	if (!w->ev_read || !w->ev_write || map_put(&d->pids, (uint64_t)pid, w)) {
		d->sp.kill(d->sp.arg, pid, SIGKILL);
		close(fd);
		w->fd = -1;
		pool_forget(d, w);
		return;
	}
	event_add(w->ev_read, NULL);
	w->idle_since = clock_mono_us();
	w->state = w->state == WORKER_STARTING ? WORKER_READY : w->state;
	if (w->state == WORKER_RETIRING)
		shutdown(fd, SHUT_WR);
	log_debug(NULL, "stage=%s pid=%d event=worker-started", w->stage->name, (int)pid);
	dispatch_turn_soon(d);
}

static void cool_down(struct dispatch *d, struct stage *st, const char *why)
{
	st->cooldown_until = clock_mono_us() + d->cooldown_us;
	if (!st->down_since)
		st->down_since = clock_mono_us();
	if (strcmp(st->trouble, why))
		log_error(NULL, "stage=%s event=launch-failed reason=%s retry_s=%lld", st->name, log_qz(why),
		    (long long)(d->cooldown_us / US_PER_S));
	snprintf(st->trouble, sizeof st->trouble, "%s", why);
	/* what waits here is pending again, for all to see, and not lost in this process */
	struct flight *f;
	while ((f = flight_waiting(st))) {
		dispatch_sour_add(d, st, f->id, 0);
		flight_free(d, f);
	}
}

void dispatch_worker_failed(struct dispatch *d, uint32_t token)
{
	struct worker *w = by_token(d, token);
	if (!w)
		return;
	cool_down(d, w->stage, "the worker process could not be made");
	w->stage->n_starting--;
	d->n_starting--;
	pool_forget(d, w);
}

static void on_read(evutil_socket_t fd, short what, void *arg)
{
	struct worker *w = arg;
	(void)fd;
	(void)what;
	flight_read(w->stage->d, w);
}

static void on_write(evutil_socket_t fd, short what, void *arg)
{
	struct worker *w = arg;
	(void)fd;
	(void)what;
	flight_send(w->stage->d, w);
}

/* No more work for it; it ends when it has answered what it holds (it sees the end of its channel). */
void pool_retire(struct dispatch *d, struct worker *w)
{
	if (w->state == WORKER_RETIRING)
		return;
	w->state = WORKER_RETIRING;
	w->left = true;
	if (!w->n_flights)
		w->idle_since = clock_mono_us(); /* the time to leave begins */
	for (struct flight *f = TAILQ_LAST(&w->flights, flight_list), *before; f; f = before) {
		before = TAILQ_PREV(f, flight_list, link);
		if (!f->sent)
			flight_to_backlog(d, f, true);
	}
	if (w->fd >= 0)
		shutdown(w->fd, SHUT_WR);
}

/* Frees the structure; its flights were dealt with. */
void pool_forget(struct dispatch *d, struct worker *w)
{
	struct stage *st = w->stage;
	if (w->pid)
		map_del(&d->pids, (uint64_t)w->pid);
	if (w->ev_read)
		event_free(w->ev_read);
	if (w->ev_write)
		event_free(w->ev_write);
	if (w->fd >= 0)
		close(w->fd);
	buf_free(&w->in);
	page_drop(d, w);
	measure_drop(w);
	TAILQ_REMOVE(&st->workers, w, link);
	st->n_workers--;
	free(w);
	dispatch_turn_soon(d);
}

/* Its channel ended and its exit status is known: only then can it be said what happened. */
static void gone_for_good(struct dispatch *d, struct worker *w)
{
	struct stage *st = w->stage;
	int status = w->exit_status;
	bool held = w->n_flights > 0, clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;

	if (!w->ready && !(clean && !held) && !w->killed_leaving) {
		struct flight *f;
		while ((f = TAILQ_LAST(&w->flights, flight_list)))
			flight_to_backlog(d, f, true);
		/* a kill by somebody else says nothing of the module, unless it always comes (out of memory); ours, of one that was told
		 * to go while its module was still opening, says nothing at all */
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL || w->killed_for_overrun || ++st->early_kills >= EARLY_KILLS_MAX)
			cool_down(d, st, "the module cannot be loaded or opened (see the worker's log)");
	} else if (held && many_left(w)) {
		repair_leave(d, w);
	} else if (held || (!clean && w->state != WORKER_RETIRING && !w->killed_leaving)) {
		repair_crash(d, w, status);
	} else {
		st->trouble[0] = 0;
		log_debug(NULL, "stage=%s pid=%d event=worker-left served=%llu", st->name, (int)w->pid,
		    (unsigned long long)w->served);
	}
	pool_forget(d, w);
}

void pool_worker_gone(struct dispatch *d, struct worker *w)
{
	event_del(w->ev_read);
	event_del(w->ev_write);
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
	if (!w->n_flights)
		w->idle_since = clock_mono_us(); /* the time to leave begins */
	if (w->state == WORKER_READY)
		w->state = WORKER_RETIRING; /* nothing new for it; whether it crashed, its status tells */
	if (w->exited)
		gone_for_good(d, w);
	else if (w->n_flights && w->pid) /* it closed its channel with work in hand, or is out of step */
		d->sp.kill(d->sp.arg, w->pid, SIGKILL);
}

void dispatch_worker_exited(struct dispatch *d, pid_t pid, int status)
{
	struct worker *w = map_get(&d->pids, (uint64_t)pid);
	if (!w)
		return;
	w->exited = true;
	w->exit_status = status;
	if (w->fd < 0) {
		gone_for_good(d, w);
		return;
	}
	flight_read(d, w); /* what it still wrote; finds the end and comes back to pool_worker_gone() */
	w = map_get(&d->pids, (uint64_t)pid);
	if (w) /* something it forked holds the channel open: that is not a worker */
		pool_worker_gone(d, w);
}

/* Nothing to do, told to go, and still there: its module hangs in close() or in a destructor. */
static void check_leaving(struct dispatch *d, struct worker *w, int64_t now)
{
	const struct stage *st = w->stage;
	bool pressed = st->n_backlog && st->n_workers >= 2 * st->parallelism;
	if (!leaving(w) || w->killed_leaving || w->exited || now - w->idle_since < (pressed ? LEAVE_PRESSED_US : LEAVE_US))
		return;
	w->killed_leaving = true;
	log_warn(NULL, "stage=%s pid=%d event=worker-stays hint=\"close() of its module does not return; killing it\"", w->stage->name,
	    (int)w->pid);
	d->sp.kill(d->sp.arg, w->pid, SIGKILL);
}

static void check_runtime(struct dispatch *d, struct worker *w, int64_t now)
{
	struct page_hand hand;
	/* without a database a worker that delivered waits to write it down; that is nobody's overrun */
	if (!w->n_flights || !w->busy_since || w->killed_for_overrun || !w->pid || w->exited || !d->db_up ||
	    !page_overrun(d, w, now, &hand))
		return;
	w->killed_for_overrun = true;
	w->overrun_id = hand.id;
	w->overrun_since = hand.since;
	w->stage->kills++;
	w->stage->d_kills++;
	log_error(NULL, "id=%lld stage=%s pid=%d event=overrun in=%s max_runtime_s=%lld held=%u",
	    (long long)(hand.id ? hand.id : TAILQ_FIRST(&w->flights)->id), w->stage->name, (int)w->pid, hand.stage->name,
	    (long long)(hand.stage->max_runtime_us / US_PER_S), w->n_flights);
	d->sp.kill(d->sp.arg, w->pid, SIGKILL);
}

void pool_tick(struct dispatch *d, int64_t now)
{
	struct stage *st;
	struct worker *w, *next;
	page_tick(d, now);
	TAILQ_FOREACH(st, &d->stages, link) {
		for (w = TAILQ_FIRST(&st->workers); w; w = next) {
			next = TAILQ_NEXT(w, link);
			check_runtime(d, w, now);
			check_leaving(d, w, now);
			if (w->state != WORKER_READY || w->n_flights)
				continue;
			if (st->removed || w->worn || now - w->idle_since > d->idle_timeout_us ||
			    (st->max_messages && w->served >= st->max_messages))
				pool_retire(d, w);
		}
		if (st->cooldown_until && st->cooldown_until <= now) {
			st->cooldown_until = 0;
			dispatch_wake(d, st->name);
		}
	}
}
