/* Flights: dealing rows out to workers, the datagrams down to them and the status lines back. Knows the wire format
 * through proto/wire only; decides nothing about processes (pool.c) or broken workers (repair.c). */
#include "dispatch_internal.h"

#include "base/clock.h"
#include "base/fds.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct flight *flight_new(struct dispatch *d, struct stage *st, int64_t id, const char *sender_key)
{
	struct flight *f = calloc(1, sizeof *f);
	struct sender *from = fair_sender(&st->book, sender_key ? sender_key : "");
	if (!f || !from) {
		free(f);
		return NULL;
	}
	f->id = id;
	f->stage = st;
	f->body_fd = -1;
	f->record = BUF_INIT(WIRE_DATAGRAM_MAX);
	f->since = clock_mono_us();
	if (map_put(&d->flights, (uint64_t)id, f)) {
		free(f);
		return NULL;
	}
	f->from = from;
	if (repair_marked(d, id)) {
		f->suspect = true;
		st->n_suspects++;
	}
	fair_hold(&st->book, from);
	st->in_flight++;
	return f;
}

static void drop_content(struct flight *f)
{
	buf_free(&f->record);
	if (f->body_fd >= 0)
		close(f->body_fd);
	f->body_fd = -1;
}

/* Takes it out of the worker it is at, with its counts. */
static void leave_worker(struct flight *f)
{
	struct worker *w = f->worker;
	many_clock(w, clock_mono_us());
	TAILQ_REMOVE(&w->flights, f, link);
	w->n_flights--;
	if (f->sent)
		w->n_sent--;
	w->bytes -= f->octets;
	f->worker = NULL;
	f->sent = false;
}

void flight_wait(struct flight *f, bool front)
{
	struct stage *st = f->stage;
	struct flight_list *l = f->suspect ? &st->suspects : &st->backlog;
	f->waits_as_suspect = f->suspect;
	if (front)
		TAILQ_INSERT_HEAD(l, f, link);
	else
		TAILQ_INSERT_TAIL(l, f, link);
	if (!f->suspect)
		fair_put(&st->book, f->from, f, front);
	st->n_backlog++;
	st->backlog_bytes += f->octets;
	f->since = clock_mono_us();
}

void flight_leave_backlog(struct flight *f)
{
	struct stage *st = f->stage;
	if (f->waits_as_suspect) {
		TAILQ_REMOVE(&st->suspects, f, link);
	} else {
		TAILQ_REMOVE(&st->backlog, f, link);
		fair_take(&st->book, f->from, f);
	}
	st->n_backlog--;
	st->backlog_bytes -= f->octets;
}

struct flight *flight_waiting(struct stage *st)
{
	struct flight *f = TAILQ_FIRST(&st->suspects);
	return f ? f : TAILQ_FIRST(&st->backlog);
}

void flight_free(struct dispatch *d, struct flight *f)
{
	/* repairs are taken off their list by repair.c before this; a flight is at a worker or in the backlog */
	if (f->worker)
		leave_worker(f);
	else
		flight_leave_backlog(f);
	if (f->suspect)
		f->stage->n_suspects--;
	fair_release(&f->stage->book, f->from);
	f->stage->in_flight--;
	map_del(&d->flights, (uint64_t)f->id);
	drop_content(f);
	free(f);
}

/* A worker's commit is seen by a claim before its status line is read here: the row may be ours again already, for the
 * stage it moved to (or the same one). */
void flight_over(struct dispatch *d, struct flight *f)
{
	struct stage *then = f->then;
	char key[FAIR_KEY_MAX + 1];
	int64_t id = f->id;
	uint32_t place = f->then_place;
	snprintf(key, sizeof key, "%s", f->from->key);
	flight_free(d, f);
	if (!then)
		return;
	f = d->stopping ? NULL : flight_new(d, then, id, key);
	if (!f) {
		dispatch_sour_add(d, then, id, 0);
		return;
	}
	f->place = place;
	flight_wait(f, false);
	dispatch_turn_soon(d);
}

void flight_to_backlog(struct dispatch *d, struct flight *f, bool front)
{
	if (f->worker) {
		leave_worker(f);
		fair_charge(f->from, -f->charged_us); /* it was not worked on, or will be charged anew */
		f->charged_us = 0;
	}
	flight_wait(f, front);
	dispatch_turn_soon(d);
}

/* How many messages a worker of this stage may hold. */
unsigned flight_depth(const struct stage *st)
{
	if (st->many)
		return st->queue_limit;
	if (!st->avg_us)
		return st->queue_limit < DEPTH_UNKNOWN ? st->queue_limit : DEPTH_UNKNOWN;
	if (st->avg_us >= DEPTH_SLOW_US)
		return 1;
	int64_t depth = DEPTH_TARGET_US / st->avg_us + 1;
	return depth > st->queue_limit ? st->queue_limit : (unsigned)depth;
}

bool flight_room(const struct stage *st, const struct worker *w)
{
	return w->state == WORKER_READY && !w->worn && (!st->max_messages || w->served + w->n_flights < st->max_messages) &&
	       w->bytes < (w->by_id ? MANY_BYTES_MAX : WORKER_BYTES_MAX) && (!st->many || w->n_flights < st->queue_limit);
}

/* The worker for the next flight: the first that has less than PACK_TARGET_US ahead of it, else the least laden; none
 * when all have what they may hold. `kept` is being emptied for a suspect. */
static struct worker *pick(struct stage *st, const struct worker *kept)
{
	struct worker *w, *least = NULL;
	unsigned depth = flight_depth(st), pack = st->avg_us ? (unsigned)(PACK_TARGET_US / st->avg_us) + 1 : 1;
	TAILQ_FOREACH(w, &st->workers, link) {
		const struct flight *first = TAILQ_FIRST(&w->flights);
		if (w == kept || !flight_room(st, w) || (first && first->suspect) || w->n_flights >= depth)
			continue;
		if (w->n_flights < pack)
			return w;
		if (!least || w->n_flights < least->n_flights)
			least = w;
	}
	return least;
}

void flight_give(struct flight *f, struct worker *w)
{
	struct stage *st = f->stage;
	flight_leave_backlog(f);
	f->worker = w;
	f->since = clock_mono_us();
	f->charged_us = st->avg_us ? (double)st->avg_us : 1000;
	fair_charge(f->from, f->charged_us);
	TAILQ_INSERT_TAIL(&w->flights, f, link);
	w->bytes += f->octets;
	if (!w->n_flights++)
		w->busy_since = f->since;
}

/* Suspects each get an empty worker to themselves. Returns the worker that must run empty for the next one. */
static struct worker *deal_suspects(struct stage *st)
{
	struct flight *f;
	while ((f = TAILQ_FIRST(&st->suspects))) {
		struct worker *w, *empty = NULL, *least = NULL;
		TAILQ_FOREACH(w, &st->workers, link) {
			const struct flight *first = TAILQ_FIRST(&w->flights);
			if (!flight_room(st, w) || (first && first->suspect))
				continue;
			if (!first && !empty)
				empty = w;
			if (!least || w->n_flights < least->n_flights)
				least = w;
		}
		if (!empty)
			return least;
		flight_give(f, empty);
	}
	return NULL;
}

void flight_deal(struct dispatch *d, struct stage *st)
{
	struct worker *w, *kept;
	struct sender *s;
	bool by_age;
	if (st->many) {
		many_deal(d, st);
		return;
	}
	kept = deal_suspects(st);
	while (!TAILQ_EMPTY(&st->backlog) && (w = pick(st, kept))) {
		s = fair_next(&st->book, &by_age);
		flight_give(by_age || !s ? TAILQ_FIRST(&st->backlog) : TAILQ_FIRST(&s->flights), w);
	}
	if (st->n_backlog)
		pool_grow(d, st);
	TAILQ_FOREACH(w, &st->workers, link)
		if (w->n_sent < w->n_flights)
			flight_send(d, w);
}

/* One datagram: as many unsent flights as fit. Returns false when the socket is full or broken. */
static bool send_some(struct dispatch *d, struct worker *w)
{
	static struct buf out; /* scratch of this single-threaded loop; never holds anything between calls */
	int fds[WIRE_FDS_MAX], n_fds = 0;
	struct flight *f, *first = NULL, *behind = NULL;
	unsigned n = 0;
	if (!out.max)
		out = BUF_INIT(WIRE_DATAGRAM_MAX);
	buf_reset(&out);
	/* what is not sent stands behind all that is, which may be thousands */
	for (f = TAILQ_LAST(&w->flights, flight_list); f && !f->sent && (behind = TAILQ_PREV(f, flight_list, link)) && !behind->sent; f = behind)
		;
	behind = NULL;
	for (; f && !f->sent; f = TAILQ_NEXT(f, link)) {
		if (f->body_fd >= 0 && n_fds == WIRE_FDS_MAX) {
			behind = f;
			break;
		}
		struct wire_item id_only = { .id = f->id };
		size_t need = f->record.n ? f->record.n : wire_size(&id_only);
		if (out.n + need > WIRE_DATAGRAM_MAX) {
			behind = f;
			break;
		}
		if (f->record.n)
			buf_add(&out, f->record.p, f->record.n);
		else
			wire_put(&out, &id_only);
		if (f->body_fd >= 0)
			fds[n_fds++] = f->body_fd;
		if (!first)
			first = f;
		n++;
	}
	if (!n)
		return false;

	union fds_room ctl;
	struct iovec v = { out.p, out.n };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	fds_attach(&m, &ctl, fds, (size_t)n_fds);
	if (sendmsg(w->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)
			event_add(w->ev_write, NULL);
		/* else it is broken: the read event says so */
		return false;
	}
	many_clock(w, clock_mono_us());
	for (f = first; n; f = TAILQ_NEXT(f, link), n--) {
		drop_content(f);
		f->sent = true;
		f->clock0 = w->clock;
		w->n_sent++;
	}
	(void)d;
	return behind != NULL;
}

void flight_send(struct dispatch *d, struct worker *w)
{
	if (event_pending(w->ev_write, EV_WRITE, NULL))
		return;
	while (send_some(d, w))
		;
}

/* {"outcome":"…","to":"…"}: only these two words matter here, and the text is our own worker's. */
static struct str json_word(struct str json, struct str key)
{
	for (size_t i = 0; i + key.n < json.n; i++) {
		if (memcmp(json.p + i, key.p, key.n))
			continue;
		struct str rest = str_skip(json, i + key.n);
		ptrdiff_t end = str_chr(rest, '"');
		return end < 0 ? STR_NULL : str_n(rest.p, (size_t)end);
	}
	return STR_NULL;
}

/* {"outcome":"pause","secs":N,…}: microseconds; 0: it was not paused; INT64_MAX: without end, or nobody knows. */
static int64_t paused_us(struct str json)
{
	static const struct str key = STR_INIT("{\"outcome\":\"pause\""), secs = STR_INIT(",\"secs\":");
	uint64_t n;
	if (!str_starts(json, key))
		return 0;
	json = str_skip(json, key.n);
	if (!str_starts(json, secs))
		return INT64_MAX;
	json = str_skip(json, secs.n);
	size_t digits = 0;
	while (digits < json.n && json.p[digits] >= '0' && json.p[digits] <= '9')
		digits++;
	return str_u64(str_n(json.p, digits), UINT32_MAX, &n) || !n ? INT64_MAX : (int64_t)n * US_PER_S;
}

static void wake_word(struct dispatch *d, struct str word)
{
	char to[128];
	if (!word.n || word.n >= sizeof to)
		return;
	memcpy(to, word.p, word.n);
	to[word.n] = 0;
	dispatch_wake(d, to);
}

/* "also":["…","…"]: stages of rows that were made out of this one; some of them may be paused ones with a time. */
static void wake_also(struct dispatch *d, struct str json)
{
	static const struct str key = STR_INIT("\"also\":[\"");
	for (size_t i = 0; i + key.n < json.n; i++) {
		if (memcmp(json.p + i, key.p, key.n))
			continue;
		struct str rest = str_skip(json, i + key.n);
		ptrdiff_t end;
		while ((end = str_chr(rest, '"')) >= 0) {
			wake_word(d, str_n(rest.p, (size_t)end));
			rest = str_skip(rest, (size_t)end + 1);
			if (!str_starts(rest, STR(",\"")))
				break;
			rest = str_skip(rest, 2);
		}
		dispatch_due_soon(d);
		return;
	}
}

/* "fused":[{"stage":"b","us":12},…]: further stages that this pass went through, in the words of our own worker. Each is
 * booked like a message of that stage's own. "worn":true comes with one of them at most: what the worker has run of another
 * stage is as much as that stage's MAX_MESSAGES. Returns the time of all. */
static int64_t count_fused(struct dispatch *d, struct worker *w, struct str json)
{
	static const struct str key = STR_INIT("\"fused\":["), stage = STR_INIT("{\"stage\":\""), us = STR_INIT("\",\"us\":");
	const char *at = json.n ? memmem(json.p, json.n, key.p, key.n) : NULL;
	struct str rest = at ? str_skip(json, (size_t)(at - json.p) + key.n) : STR_NULL;
	int64_t sum = 0;
	while (str_starts(rest, stage)) {
		char name[128];
		uint64_t t;
		rest = str_skip(rest, stage.n);
		ptrdiff_t end = str_chr(rest, '"');
		if (end < 0 || (size_t)end >= sizeof name)
			break;
		memcpy(name, rest.p, (size_t)end);
		name[end] = 0;
		rest = str_skip(rest, (size_t)end);
		if (!str_starts(rest, us))
			break;
		rest = str_skip(rest, us.n);
		end = str_chr(rest, '}');
		if (end < 0 || str_u64(str_n(rest.p, (size_t)end), FUSED_US_MAX, &t))
			break;
		struct stage *st = dispatch_stage_find(d, name);
		if (st) {
			st->done++;
			st->fused++;
			st->d_messages++;
			st->d_time_us += (int64_t)t;
		}
		sum += (int64_t)t;
		rest = str_skip(rest, (size_t)end + 1);
		if (!str_starts(rest, STR(",")))
			break;
		rest = str_skip(rest, 1);
	}
	if (at && memmem(json.p, json.n, "\"worn\":true", 11))
		w->worn = true;
	return sum;
}

static void answered(struct dispatch *d, struct worker *w, struct flight *f, const struct wire_status *line, int64_t each)
{
	struct stage *st = w->stage;
	struct str word;

	w->served++;
	st->left_unasked = 0;
	st->avg_us = w->by_id ? (st->avg_us ? (st->avg_us * 7 + each) / 8 : each) : st->avg_us;
	int64_t elsewhere = count_fused(d, w, line->json);
	st->d_time_us += each > elsewhere ? each - elsewhere : 0;
	fair_charge(f->from, (double)each - f->charged_us);
	if (line->status) {
		st->errors++;
		log_warn(NULL, "id=%lld stage=%s event=worker-error report=%s", (long long)f->id, st->name, log_q(line->json));
		dispatch_sour_add(d, st, f->id, SOUR_DELAY_US);
		flight_free(d, f);
		return;
	}
	st->done++;
	st->d_messages++;
	repair_passed(d, f->id, st);
	word = json_word(line->json, STR("\"outcome\":\""));
	due_answered(d, st, f->place, paused_us(line->json));
	flight_over(d, f);
	wake_word(d, json_word(line->json, STR("\"to\":\"")));
	wake_also(d, line->json);
	if (str_eq(word, STR("pause")))
		dispatch_due_soon(d);
	else if (str_eq(word, STR("fail"))) {
		d->failed_total++;
		d->d_failed++;
	}
}

static void ready(struct worker *w, bool by_id)
{
	w->ready = true;
	w->by_id = by_id;
	if (w->stage->many != by_id)
		dispatch_stage_kind(w->stage, by_id);
	w->stage->known = true;
	w->start_us = clock_mono_us() - w->asked_at;
	log_debug(NULL, "stage=%s pid=%d event=worker-ready after_us=%lld", w->stage->name, (int)w->pid, (long long)w->start_us);
	w->stage->early_kills = 0;
	w->stage->down_since = 0;
	w->busy_since = w->n_flights ? clock_mono_us() : 0; /* loading and opening is no message's time */
	w->clock_at = 0;
	if (by_id) /* it may have more than it got */
		dispatch_turn_soon(w->stage->d);
}

/* The answers. 0, or -1: one that answers nothing. */
static int read_lines(struct dispatch *d, struct worker *w, size_t lines, int64_t now, bool *ret_leaves)
{
	int64_t each = w->busy_since && lines ? (now - w->busy_since) / (int64_t)lines : 0;
	struct stage *st = w->stage;
	struct wire_status line;
	size_t pos = 0;
	int bad = 0;
	if (each < 1)
		each = 1;
	if (!w->by_id && lines)
		st->avg_us = st->avg_us ? (st->avg_us * 7 + each) / 8 : each;
	while (!bad && wire_status_get(&w->in, &pos, &line) > 0) {
		struct flight *f = w->by_id ? many_find(d, w, line.id) : w->n_sent && !line.id ? TAILQ_FIRST(&w->flights) : NULL;
		if (line.status == WIRE_METRIC || line.status == WIRE_REPORT)
			bad = measure_line(d, w, &line, now);
		else if (line.status == WIRE_LEAVING && w->by_id)
			*ret_leaves = true;
		else if (f && line.status != WIRE_READY && line.status != WIRE_LEAVING)
			answered(d, w, f, &line, w->by_id ? many_cost(w, f, now) : each);
		else
			bad = -1; /* an answer to nothing */
	}
	buf_consume(&w->in, pos);
	return bad;
}

void flight_read(struct dispatch *d, struct worker *w)
{
	bool end = false;
	for (;;) {
		char *room = buf_room(&w->in, 64 * 1024);
		ssize_t n = room ? page_recv(w, room, 64 * 1024) : -1;
		if (n > 0) {
			w->in.n += (size_t)n;
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		end = n == 0 || !room || errno != EAGAIN;
		break;
	}

	/* count first: the lines of one commit share the time since the first of them began */
	size_t pos = 0, lines = 0, told = 0, from = 0;
	struct wire_status line;
	int r;
	for (; (r = wire_status_get(&w->in, &pos, &line)) > 0; from = pos) {
		if (line.status == WIRE_METRIC || line.status == WIRE_REPORT) {
			if (!w->ready) {
				r = -1;
				break;
			}
			told++;
			continue;
		}
		if (line.status != WIRE_READY) {
			lines++;
			continue;
		}
		if (w->ready || lines || from) {
			r = -1;
			break;
		}
		ready(w, line.by_id);
		buf_consume(&w->in, pos);
		pos = 0;
	}
	int64_t now = clock_mono_us();
	bool leaves = false;
	if ((lines || told) && read_lines(d, w, lines, now, &leaves))
		r = -1;
	if (lines) {
		w->busy_since = w->n_flights ? now : 0;
		w->idle_since = now;
		w->left |= leaves;
		w->unasked |= leaves && w->state == WORKER_READY;
		if ((leaves && w->state != WORKER_RETIRING) || (!w->n_flights && w->state == WORKER_READY &&
		    (w->worn || (w->stage->max_messages && w->served >= w->stage->max_messages))))
			pool_retire(d, w);
		dispatch_turn_soon(d);
	}
	if (r < 0) {
		log_error(NULL, "stage=%s pid=%d event=worker-garbage hint=\"its status channel is out of step; killing it\"",
		    w->stage->name, (int)w->pid);
		end = true;
		if (w->pid && !w->exited && !w->n_flights) /* with work in hand, pool_worker_gone() does it */
			d->sp.kill(d->sp.arg, w->pid, SIGKILL);
	}
	if (end)
		pool_worker_gone(d, w);
}
