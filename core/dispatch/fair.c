/* The books of fair share. Pure data structures: no clock, no I/O. */
#include "dispatch_internal.h"

#include <math.h>
#include <stdlib.h>

enum { LIGHT_HELD_MAX = 8 };

static size_t bucket(const char *key, size_t n)
{
	uint64_t h = UINT64_C(14695981039346656037); /* FNV-1a; keys are addresses and account names, and the book is bounded */
	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)key[i]) * UINT64_C(1099511628211);
	return (size_t)(h ^ h >> 32) % FAIR_BUCKETS;
}

void fair_init(struct fair_book *b)
{
	*b = (struct fair_book){ .epoch = 1 };
	for (size_t i = 0; i < FAIR_BUCKETS; i++)
		SLIST_INIT(&b->buckets[i]);
	TAILQ_INIT(&b->waiting);
}

static struct sender *make(struct fair_book *b, const char *key, size_t n)
{
	struct sender *s = calloc(1, sizeof *s + n + 1);
	if (!s)
		return NULL;
	memcpy(s->key, key, n);
	s->time_us = b->floor_us;
	TAILQ_INIT(&s->flights);
	SLIST_INSERT_HEAD(&b->buckets[bucket(key, n)], s, chain);
	b->n++;
	return s;
}

struct sender *fair_sender(struct fair_book *b, const char *key)
{
	size_t n = strnlen(key, FAIR_KEY_MAX);
	struct sender *s;
	SLIST_FOREACH(s, &b->buckets[bucket(key, n)], chain)
		if (strncmp(s->key, key, n) == 0 && !s->key[n])
			return s;
	s = b->n < FAIR_SENDERS_MAX ? make(b, key, n) : NULL;
	if (!s && !b->shared)
		b->shared = make(b, "", 0);
	return s ? s : b->shared;
}

void fair_hold(struct fair_book *b, struct sender *s)
{
	if (!s->held && !s->reserved && s->time_us < b->floor_us)
		s->time_us = b->floor_us;
	s->held++;
}

void fair_release(struct fair_book *b, struct sender *s)
{
	(void)b;
	s->held--;
}

void fair_put(struct fair_book *b, struct sender *s, struct flight *f, bool front)
{
	if (front)
		TAILQ_INSERT_HEAD(&s->flights, f, mine);
	else
		TAILQ_INSERT_TAIL(&s->flights, f, mine);
	if (!s->waits) {
		TAILQ_INSERT_TAIL(&b->waiting, s, waiting_link);
		s->waits = true;
	}
}

void fair_take(struct fair_book *b, struct sender *s, struct flight *f)
{
	TAILQ_REMOVE(&s->flights, f, mine);
	if (TAILQ_EMPTY(&s->flights)) {
		TAILQ_REMOVE(&b->waiting, s, waiting_link);
		s->waits = false;
	}
}

struct sender *fair_next(struct fair_book *b, bool *by_age)
{
	struct sender *s, *least = TAILQ_FIRST(&b->waiting);
	*by_age = false;
	if (!least)
		return NULL;
	TAILQ_FOREACH(s, &b->waiting, waiting_link)
		if (s->time_us < least->time_us)
			least = s;
	if (least->time_us > b->floor_us)
		b->floor_us = least->time_us;
	b->fifo_credit += b->fifo_percent;
	if (b->fifo_credit >= 100) {
		b->fifo_credit -= 100;
		*by_age = true;
	}
	return least;
}

void fair_charge(struct sender *s, double us)
{
	s->time_us += us;
}

void fair_decay(struct fair_book *b, double dt_us, double half_life_us)
{
	double keep = half_life_us > 0 ? exp2(-dt_us / half_life_us) : 1;
	for (size_t i = 0; i < FAIR_BUCKETS; i++) {
		struct sender *s, *next;
		for (s = SLIST_FIRST(&b->buckets[i]); s; s = next) {
			next = SLIST_NEXT(s, chain);
			double lead = s->time_us - b->floor_us;
			if (lead > 0)
				s->time_us = b->floor_us + lead * keep;
			/* level with the floor and nothing under way: as if it had never been here */
			if (!s->held && !s->reserved && s->deferred < b->epoch && s != b->shared &&
			    (lead < 1000 || b->n > FAIR_SENDERS_MAX * 9 / 10)) {
				SLIST_REMOVE(&b->buckets[i], s, sender, chain);
				b->n--;
				free(s);
			}
		}
	}
}

bool fair_light(const struct fair_book *b, const struct sender *s, double message_us)
{
	return s->deferred < b->epoch && s->held + s->reserved < LIGHT_HELD_MAX && s->time_us <= b->floor_us + 2 * message_us;
}

void fair_done(struct fair_book *b)
{
	for (size_t i = 0; i < FAIR_BUCKETS; i++) {
		struct sender *s;
		while ((s = SLIST_FIRST(&b->buckets[i]))) {
			SLIST_REMOVE_HEAD(&b->buckets[i], chain);
			free(s);
		}
	}
	b->n = 0;
	b->shared = NULL;
}
