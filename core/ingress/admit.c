/* Gather lists, ids in hand and the batches in flight: one at any time on each way to the
 * database. */
#include "admit.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <sys/mman.h>

struct list {
	struct message *head, **tail;
	unsigned n;
};

/* What a pending database call points to: outlives the admission when that is freed first. */
struct id_call {
	struct admit *a;        /* NULL: nobody waits any more */
	unsigned generation;
};

struct batch {
	struct admit *a;
	struct way *way;
	int64_t sent_us;
	size_t n;
	bool sending;           /* the backend is being called */
	bool answered;          /* it answered from inside that call (no memory): kept in rcs */
	struct message *msgs[ADMIT_ROWS_MAX];
	struct store_message rows[ADMIT_ROWS_MAX];
	struct str maps[ADMIT_ROWS_MAX]; /* of bodies that have a descriptor: until the answer */
	enum store_rc rcs[ADMIT_ROWS_MAX];
};

/* To the database. */
struct way {
	struct batch *flight, *spare;
};

struct admit {
	struct admission_backend be;
	struct ingress_sink sink;
	admit_done_fn done;
	void *arg;
	struct event *kick;
	struct list small, large;
	bool last_large;
	unsigned max_rows;
	size_t max_octets;
	bool up;
	unsigned generation;    /* of the connection: ids of an older one are void */
	struct id_call *id_call;
	struct way ways[1 + ADMIT_LARGE_MAX]; /* the others: large messages, as many as the backend has */
	struct admit_stats stats;
	unsigned ids_at, n_ids; /* first of those in hand, and how many; given out in order, for age in the
	                           queue goes by id */
	int64_t ids[ADMIT_IDS_MAX];
};

static void list_init(struct list *l)
{
	*l = (struct list){ NULL, &l->head, 0 };
}

static void list_put(struct list *l, struct message *m)
{
	m->next = NULL;
	*l->tail = m;
	l->tail = &m->next;
	l->n++;
}

static struct message *list_take(struct list *l)
{
	struct message *m = l->head;
	if (m && !(l->head = m->next))
		l->tail = &l->head;
	if (m)
		l->n--;
	return m;
}

static void kick(struct admit *a)
{
	event_active(a->kick, EV_TIMEOUT, 0);
}

/* Hands back everything that was not sent. */
static void fail_waiting(struct admit *a, enum store_rc rc)
{
	struct message *msgs[64];
	enum store_rc rcs[64];
	for (;;) {
		size_t n = 0;
		struct message *m;
		while (n < 64 && ((m = list_take(&a->small)) || (m = list_take(&a->large)))) {
			msgs[n] = m;
			rcs[n++] = rc;
		}
		if (!n)
			return;
		a->stats.failed_rows += n;
		a->done(a->arg, msgs, rcs, n);
	}
}

static void on_ids(void *arg, enum store_rc rc, const int64_t *ids, size_t n)
{
	struct id_call *call = arg;
	struct admit *a = call->a;
	bool valid = a && call->generation == a->generation;
	if (a && a->id_call == call)
		a->id_call = NULL;
	free(call);
	if (!a)
		return;
	if (!valid) {
		kick(a); /* asks again on the new connection if need be */
		return;
	}
	if (rc == STORE_OK) {
		memmove(a->ids, a->ids + a->ids_at, a->n_ids * sizeof *a->ids);
		a->ids_at = 0;
		for (size_t i = 0; i < n && a->n_ids < ADMIT_IDS_MAX; i++)
			a->ids[a->n_ids++] = ids[i];
		kick(a);
		return;
	}
	log_warn(NULL, "event=queue-ids-failed rc=%d in_hand=%u", (int)rc, a->n_ids);
	if (!a->n_ids)
		fail_waiting(a, rc == STORE_FULL ? STORE_FULL : STORE_AWAY);
}

static void want_ids(struct admit *a)
{
	if (!a->up || a->id_call || a->n_ids >= ADMIT_IDS_LOW)
		return;
	struct id_call *call = malloc(sizeof *call);
	if (!call)
		return; /* the next message asks again */
	*call = (struct id_call){ a, a->generation };
	a->id_call = call;
	a->be.reserve_ids(a->be.ctx, ADMIT_IDS_BLOCK, on_ids, call);
}

static unsigned bucket(uint64_t v, uint64_t first)
{
	unsigned i = 0;
	while (i < ADMIT_BUCKETS - 1 && v > first << i)
		i++;
	return i;
}

static void run(struct admit *a);

/* Needs the messages no more: they may be gone, when the admission is. */
static void unmap(struct batch *b)
{
	for (size_t i = 0; i < b->n; i++)
		if (b->maps[i].n)
			munmap((void *)(uintptr_t)b->maps[i].p, b->maps[i].n);
}

/* The batch has its answers: the next one goes first, so that the database works while we talk to the clients. */
static void settle(struct admit *a, struct batch *b)
{
	int64_t us = clock_mono_us() - b->sent_us;
	b->way->flight = NULL;
	a->stats.batches++;
	a->stats.rows += b->n;
	a->stats.time_us += us;
	a->stats.rows_le[bucket(b->n, 1)]++;
	a->stats.time_le[bucket((uint64_t)(us > 0 ? us : 0), 500)]++;
	for (size_t i = 0; i < b->n; i++)
		a->stats.failed_rows += b->rcs[i] != STORE_OK && b->rcs[i] != STORE_REPEAT;
	unmap(b);
	run(a);
	a->done(a->arg, b->msgs, b->rcs, b->n);
	if (b->way->spare)
		free(b);
	else
		b->way->spare = b;
}

static void on_admitted(void *arg, const enum store_rc *rcs, size_t n)
{
	struct batch *b = arg;
	struct admit *a = b->a;
	if (!a) {
		unmap(b);
		free(b);
		return;
	}
	/* A short answer would leave clients without one: what is missing is in doubt. */
	bool whole = recover(n == b->n);
	for (size_t i = 0; i < b->n; i++)
		b->rcs[i] = whole ? rcs[i] : STORE_AWAY;
	if (b->sending)
		b->answered = true;
	else
		settle(a, b);
}

/* Takes one message into the batch: id, trace field, place at a worker. */
static int prepare(struct admit *a, struct message *m)
{
	struct wire_item item;
	m->id = a->ids[a->ids_at++];
	a->n_ids--;
	m->reserved = false;
	if (message_compose(m, clock_wall_us()))
		return -1;
	/* what may have been taken before is no worker's until the database has said so */
	if (!m->once.n && !message_held(m) && message_item(m, &item)) {
		m->reserved_octets = message_octets(m);
		m->reserved = a->sink.reserve(a->sink.arg, message_stage(m), m->sender_key, m->reserved_octets);
	}
	return 0;
}

static void unprepare(struct admit *a, struct message *m)
{
	if (m->reserved)
		a->sink.unreserve(a->sink.arg, message_stage(m), m->sender_key, m->reserved_octets);
	m->reserved = false;
}

/* Sends the next batch from this list. */
static void send_from(struct admit *a, struct list *l, struct way *w)
{
	size_t octets = 0;
	struct batch *b = w->spare ? w->spare : malloc(sizeof *b);
	w->spare = NULL;
	if (!b) {
		fail_waiting(a, STORE_FULL);
		return;
	}
	b->a = a;
	b->way = w;
	b->n = 0;
	w->flight = b; /* also while preparing: done() below may submit */
	while (l->head && a->n_ids && b->n < a->max_rows) {
		struct message *m = l->head;
		size_t size = message_octets(m);
		if (b->n && octets + size > a->max_octets)
			break;
		list_take(l);
		octets += size;
		enum store_rc full = STORE_FULL;
		struct str body;
		if (prepare(a, m) == 0 && spool_map(&m->spool, &body) == 0) {
			message_row(m, body, &b->rows[b->n]);
			b->maps[b->n] = m->spool.fd >= 0 ? body : STR_NULL;
			b->msgs[b->n++] = m;
			continue;
		}
		unprepare(a, m);
		a->stats.failed_rows++;
		a->done(a->arg, &m, &full, 1);
	}
	if (!b->n) {
		w->flight = NULL;
		w->spare = b;
		if (a->small.n || a->large.n)
			kick(a);
		return;
	}
	b->sent_us = clock_mono_us();
	b->sending = true;
	b->answered = false;
	if (w == a->ways)
		a->be.admit(a->be.ctx, b->rows, b->n, on_admitted, b);
	else
		a->be.admit_large(a->be.ctx, (unsigned)(w - a->ways) - 1, b->rows, b->n, on_admitted, b);
	b->sending = false;
	if (b->answered)
		settle(a, b);
}

/* Sends what may be sent. */
static void run(struct admit *a)
{
	want_ids(a);
	if (!a->up)
		fail_waiting(a, STORE_AWAY);
	else if (!a->n_ids && !a->id_call)
		fail_waiting(a, STORE_FULL); /* no memory to ask for ids */
	if (a->be.n_large) {
		if (!a->ways[0].flight && a->n_ids && a->small.n)
			send_from(a, &a->small, &a->ways[0]);
		for (unsigned i = 1; i <= a->be.n_large; i++)
			if (!a->ways[i].flight && a->n_ids && a->large.n)
				send_from(a, &a->large, &a->ways[i]);
	} else if (!a->ways[0].flight && a->n_ids && (a->small.n || a->large.n)) {
		a->last_large = a->large.n && (!a->small.n || !a->last_large);
		send_from(a, a->last_large ? &a->large : &a->small, &a->ways[0]);
	}
	want_ids(a);
}

static void on_kick(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	run(arg);
}

struct admit *admit_new(struct event_base *base, const struct admission_backend *be, const struct ingress_sink *sink,
    admit_done_fn done, void *arg)
{
	struct admit *a = calloc(1, sizeof *a);
	if (!a)
		return NULL;
	a->kick = event_new(base, -1, 0, on_kick, a);
	if (!a->kick) {
		free(a);
		return NULL;
	}
	a->be = *be;
	if (!recover(be->n_large <= ADMIT_LARGE_MAX))
		a->be.n_large = ADMIT_LARGE_MAX;
	a->sink = *sink;
	a->done = done;
	a->arg = arg;
	list_init(&a->small);
	list_init(&a->large);
	admit_limits(a, ADMIT_ROWS_MAX, (size_t)16 * 1024 * 1024);
	return a;
}

void admit_free(struct admit *a)
{
	if (!a)
		return;
	for (unsigned i = 0; i <= ADMIT_LARGE_MAX; i++) {
		if (a->ways[i].flight)
			a->ways[i].flight->a = NULL;
		free(a->ways[i].spare);
	}
	if (a->id_call)
		a->id_call->a = NULL;
	event_free(a->kick);
	free(a);
}

void admit_limits(struct admit *a, unsigned rows, size_t octets)
{
	a->max_rows = rows < 1 ? 1 : rows > ADMIT_ROWS_MAX ? ADMIT_ROWS_MAX : rows;
	a->max_octets = octets;
}

void admit_database(struct admit *a, bool up)
{
	a->up = up;
	a->generation++;
	a->ids_at = a->n_ids = 0;
	if (up)
		kick(a);
	else
		fail_waiting(a, STORE_AWAY);
}

void admit_submit(struct admit *a, struct message *m)
{
	list_put(spool_body_size(&m->spool) > ADMIT_LARGE ? &a->large : &a->small, m);
	kick(a);
}

void admit_stats(const struct admit *a, struct admit_stats *ret)
{
	*ret = a->stats;
	ret->waiting = a->small.n + a->large.n;
	ret->in_flight = 0;
	for (unsigned i = 0; i <= ADMIT_LARGE_MAX; i++)
		ret->in_flight += a->ways[i].flight ? (unsigned)a->ways[i].flight->n : 0;
	ret->ids = a->n_ids;
}
