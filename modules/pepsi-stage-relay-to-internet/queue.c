/* Who may send now. Each message has a session at once: one that is idle and will do, or a new one. */
#include "internet.h"

#include <stdlib.h>

struct queue {
	struct worker *w;
	struct pepsi_event *soon;
	struct delivery *first, **last;
};

static void pump(void *arg, uint32_t what);

static void arm(struct queue *q)
{
	q->w->host->event_arm(q->soon, 0, 0);
}

struct queue *queue_new(struct worker *w)
{
	struct queue *q = calloc(1, sizeof *q);
	if (!q)
		return NULL;
	q->w = w;
	q->last = &q->first;
	q->soon = w->host->event_new(w->conf, -1, pump, q);
	if (!q->soon) {
		free(q);
		return NULL;
	}
	return q;
}

void queue_free(struct queue *q)
{
	if (!q)
		return;
	q->w->host->event_free(q->soon);
	free(q);
}

void queue_add(struct delivery *d)
{
	struct queue *q = d->w->queue;
	d->waiting = true;
	d->wait_next = NULL;
	*q->last = d;
	q->last = &d->wait_next;
	arm(q);
}

void queue_drop(struct delivery *d)
{
	struct queue *q = d->w->queue;
	if (!d->waiting)
		return;
	struct delivery **p = &q->first;
	while (*p != d)
		p = &(*p)->wait_next;
	*p = d->wait_next;
	if (!*p)
		q->last = p;
	d->waiting = false;
}

void queue_ready(struct line *l)
{
	(void)l;
}

void queue_sent(struct line *l, const struct smtp_result *worst)
{
	(void)worst;
	arm(l->w->queue);
}

enum queue_says queue_over(struct line *l, const struct smtp_result *failure)
{
	(void)l;
	(void)failure;
	return QUEUE_YOURS;
}

static void pump(void *arg, uint32_t what)
{
	struct queue *q = arg;
	struct delivery *d;
	(void)what;
	while ((d = q->first)) {
		struct line *l = q->w->lines;
		queue_drop(d);
		while (l && (l->d || !l->s || l->tag != d->tag || strcmp(l->domain, d->domain) != 0))
			l = l->next;
		if (l)
			line_use(l, d);
		else
			line_start(d);
	}
}
