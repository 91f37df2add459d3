/* Destinations: found by name, forgotten when long unused; their lists and timers. See traffic_internal.h. */
#include "proto/relay/traffic_internal.h"

#include <stdlib.h>

/* Names come from the DNS, so from anybody: the hash is salted, and equal hashes are chained. */
static uint64_t hash_of(uint64_t salt, const char *key, size_t n)
{
	uint64_t h = salt ^ (n * UINT64_C(0x9e3779b97f4a7c15)), w;
	for (size_t i = 0; i < n; i += 8) {
		size_t m = n - i < 8 ? n - i : 8;
		w = 0;
		memcpy(&w, key + i, m);
		uint64_t state = h ^ w;
		h = route_mix(&state) + salt;
	}
	return h;
}

static void use_del(struct traffic *t, struct traffic_destination *d)
{
	*(d->use_prev ? &d->use_prev->use_next : &t->use_first) = d->use_next;
	*(d->use_next ? &d->use_next->use_prev : &t->use_last) = d->use_prev;
}

static void use_add(struct traffic *t, struct traffic_destination *d)
{
	d->use_prev = NULL;
	d->use_next = t->use_first;
	*(d->use_next ? &d->use_next->use_prev : &t->use_last) = d;
	t->use_first = d;
}

static void forget(struct traffic *t, struct traffic_destination *d)
{
	struct traffic_destination *head = map_get(&t->table, d->hash);
	dest_ready(t, d, false);
	dest_wake(t, d, 0);
	use_del(t, d);
	if (head == d && d->same_hash) {
		must(!map_put(&t->table, d->hash, d->same_hash)); /* in the place of one that is there: nothing is allocated */
	} else if (head == d) {
		map_del(&t->table, d->hash);
	} else {
		while (head->same_hash != d)
			head = head->same_hash;
		head->same_hash = d->same_hash;
	}
	t->n--;
	t->totals.forgotten++;
	free(d);
}

/* Room for one more: the longest unused that nothing depends on. Those in use are at most as many as messages and sessions, so they are passed
 * by moving them to the front: each once. */
static bool make_room(struct traffic *t)
{
	for (unsigned i = 0; i < 64 && t->n >= TRAFFIC_DESTINATIONS_MAX; i++) {
		struct traffic_destination *d = t->use_last;
		if (d->n_waiting || dest_links(d) || d->shedding || d->news) {
			use_del(t, d);
			use_add(t, d);
		} else {
			forget(t, d);
		}
	}
	if (t->n >= t->heap_room) {
		unsigned room = t->heap_room ? t->heap_room * 2 : 64;
		struct traffic_destination **heap = realloc(t->heap, room * sizeof *heap);
		if (!heap)
			return false;
		t->heap = heap;
		t->heap_room = room;
	}
	return t->n < TRAFFIC_DESTINATIONS_MAX;
}

static struct traffic_destination *make(struct traffic *t, const struct shape_name *name, size_t n, uint64_t hash)
{
	struct traffic_destination *d;
	if (!make_room(t) || !(d = calloc(1, sizeof *d + n + 1)))
		return NULL;
	memcpy(d->key, name->key, n);
	d->hash = hash;
	d->lookup = n && name->key[0] == '?';
	learn_limits(d, name->shape, d->lookup ? 1 : t->conf.workers);
	d->window = WINDOW_ONE; /* one, until it speaks */
	d->same_hash = map_get(&t->table, hash);
	if (map_put(&t->table, hash, d)) {
		free(d);
		return NULL;
	}
	use_add(t, d);
	t->n++;
	return d;
}

struct traffic_destination *table_find(struct traffic *t, int64_t now, const struct shape_name *name, bool add)
{
	size_t n = strnlen(name->key, SHAPE_KEY_MAX);
	uint64_t hash = hash_of(t->salt, name->key, n);
	struct traffic_destination *d = map_get(&t->table, hash);
	while (d && (strlen(d->key) != n || memcmp(d->key, name->key, n)))
		d = d->same_hash;
	if (!d && add && (d = make(t, name, n, hash)))
		d->used = now;
	if (d && add) {
		use_del(t, d);
		use_add(t, d);
	}
	return d;
}

void table_free(struct traffic *t)
{
	for (struct traffic_destination *d = t->use_first, *next; d; d = next) {
		next = d->use_next;
		free(d);
	}
	map_done(&t->table);
	free(t->heap);
}

void dest_wait(struct traffic_destination *d, struct traffic_item *i, bool front)
{
	i->prev = front ? NULL : d->last;
	i->next = front ? d->first : NULL;
	*(i->prev ? &i->prev->next : &d->first) = i;
	*(i->next ? &i->next->prev : &d->last) = i;
	i->state = ITEM_WAITING;
	i->at = d;
	d->n_waiting++;
}

void dest_unwait(struct traffic_destination *d, struct traffic_item *i)
{
	*(i->prev ? &i->prev->next : &d->first) = i->next;
	*(i->next ? &i->next->prev : &d->last) = i->prev;
	i->next = i->prev = NULL;
	d->n_waiting--;
}

void links_add(struct links *l, struct traffic_link *k, bool front)
{
	k->prev = front ? NULL : l->last;
	k->next = front ? l->first : NULL;
	*(k->prev ? &k->prev->next : &l->first) = k;
	*(k->next ? &k->next->prev : &l->last) = k;
	l->n++;
}

void links_del(struct links *l, struct traffic_link *k)
{
	*(k->prev ? &k->prev->next : &l->first) = k->next;
	*(k->next ? &k->next->prev : &l->last) = k->prev;
	k->next = k->prev = NULL;
	l->n--;
}

void idle_add(struct idles *l, struct traffic_link *k)
{
	k->idle_prev = NULL;
	k->idle_next = l->first;
	*(k->idle_next ? &k->idle_next->idle_prev : &l->last) = k;
	l->first = k;
}

void idle_del(struct idles *l, struct traffic_link *k)
{
	*(k->idle_prev ? &k->idle_prev->idle_next : &l->first) = k->idle_next;
	*(k->idle_next ? &k->idle_next->idle_prev : &l->last) = k->idle_prev;
	k->idle_next = k->idle_prev = NULL;
}

/* -- timers: a binary heap by `wake` */

static void put(struct traffic *t, unsigned i, struct traffic_destination *d)
{
	t->heap[i] = d;
	d->heap = i + 1;
}

static void sift(struct traffic *t, unsigned i)
{
	struct traffic_destination *d = t->heap[i];
	while (i && t->heap[(i - 1) / 2]->wake > d->wake) {
		put(t, i, t->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	for (;;) {
		unsigned c = 2 * i + 1;
		if (c + 1 < t->n_heap && t->heap[c + 1]->wake < t->heap[c]->wake)
			c++;
		if (c >= t->n_heap || t->heap[c]->wake >= d->wake)
			break;
		put(t, i, t->heap[c]);
		i = c;
	}
	put(t, i, d);
}

void dest_wake(struct traffic *t, struct traffic_destination *d, int64_t at)
{
	if (at) {
		d->wake = at;
		if (!d->heap)
			put(t, t->n_heap++, d);
		sift(t, d->heap - 1);
	} else if (d->heap) {
		unsigned i = d->heap - 1;
		d->heap = 0;
		if (i < --t->n_heap) {
			put(t, i, t->heap[t->n_heap]);
			sift(t, i);
		}
	}
}

/* -- those that have something to do, in turns */

void dest_ready(struct traffic *t, struct traffic_destination *d, bool ready)
{
	struct ring *r = &t->ready[d->room];
	if (ready == d->ready)
		return;
	d->ready = ready;
	if (!ready) {
		if (d->ring_next == d) {
			r->first = NULL;
		} else {
			d->ring_next->ring_prev = d->ring_prev;
			d->ring_prev->ring_next = d->ring_next;
			if (r->first == d)
				r->first = d->ring_next;
		}
		d->ring_next = d->ring_prev = NULL;
	} else if (!r->first) {
		r->first = d->ring_next = d->ring_prev = d;
	} else { /* behind all others */
		d->ring_next = r->first;
		d->ring_prev = r->first->ring_prev;
		d->ring_prev->ring_next = r->first->ring_prev = d;
	}
}

void dest_shed(struct traffic *t, struct traffic_destination *d)
{
	if (d->shedding)
		return;
	d->shedding = true;
	d->shed_next = NULL;
	*t->shed_end = d;
	t->shed_end = &d->shed_next;
}

void dest_news(struct traffic *t, struct traffic_destination *d)
{
	if (d->news)
		return;
	d->news = true;
	d->news_next = NULL;
	*t->news_end = d;
	t->news_end = &d->news_next;
}

void dest_count(struct traffic *t, const struct traffic_destination *d, int held, int busy)
{
	t->held[d->room] += (unsigned)held;
	t->busy[d->room] += (unsigned)busy;
}
