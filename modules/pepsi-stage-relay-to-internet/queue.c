/* Who may send now: proto/relay/traffic.h, with our clock, timer, deliveries and lines. */
#include "internet.h"

#include "base/log.h"
#include "say.h"

#include <stdio.h>
#include <stdlib.h>

enum { TOTALS_MS = 60000 };

struct queue {
	struct worker *w;
	struct traffic *t;
	struct pepsi_event *timer;
	int64_t totals_at;
	struct traffic_totals told;
};

static int64_t now_ms(const struct queue *q)
{
	return q->w->host->mono_ms();
}

/* Something happened: what may be done about it is done from the loop, soon. */
static void soon(struct queue *q)
{
	q->w->host->event_arm(q->timer, 0, 0);
}

/* What an operator would like to hear: a destination is left alone, or served again. */
static void news(struct queue *q)
{
	struct traffic_view v;
	while (traffic_news(q->t, now_ms(q), &v)) {
		if (v.backoff_ms > 0)
			say(q->w->host, NULL, PEPSI_LOG_WARN, "event=destination-paused destination=%s seconds=%lld why=%s sent=%llu failed=%llu error=%s", v.key,
			    (long long)(v.backoff_ms + 999) / 1000, trouble_name(v.trouble), (unsigned long long)v.sent, (unsigned long long)v.failed,
			    log_qz(v.error));
		else
			say(q->w->host, NULL, PEPSI_LOG_INFO, "event=destination-back destination=%s given_back=%llu", v.key, (unsigned long long)v.given_back);
	}
}

/* Once a minute, while there is something to do. */
static void totals(struct queue *q)
{
	struct traffic_totals n, *o = &q->told;
	int64_t now = now_ms(q);
	if (now - q->totals_at < TOTALS_MS)
		return;
	traffic_totals(q->t, &n);
	say(q->w->host, NULL, PEPSI_LOG_INFO, "event=traffic destinations=%u failing=%u slots=%u held=%u new=%u poor=%u sessions=%u idle=%u connections=%llu "
	    "reused=%llu sent=%llu refused=%llu failed=%llu given_back=%llu abandoned=%llu", n.destinations, n.failing, n.slots, n.held, n.held_new,
	    n.held_poor, n.sessions, n.idle, (unsigned long long)(n.started - o->started), (unsigned long long)(n.reused - o->reused),
	    (unsigned long long)(n.sent - o->sent), (unsigned long long)(n.refused - o->refused), (unsigned long long)(n.failed - o->failed),
	    (unsigned long long)(n.given_back - o->given_back), (unsigned long long)(n.abandoned - o->abandoned));
	q->totals_at = now;
	q->told = n;
}

static void act(struct queue *q, const struct traffic_todo *todo)
{
	struct delivery *d = todo->item ? todo->item->owner : NULL;
	struct line *l = todo->link ? todo->link->owner : NULL;
	switch (todo->what) {
	case TRAFFIC_START:
		if (d->looking)
			delivery_look(d);
		else
			line_start(d);
		return;
	case TRAFFIC_REUSE:
		line_use(l, d);
		return;
	case TRAFFIC_ABANDON:
		q->w->host->in_hand(d->msg);
		if (l) { /* else a look-up: it is cancelled with the delivery */
			l->d = NULL;
			d->line = NULL;
			line_free(l);
		}
		delivery_give_back(d, &todo->back);
		return;
	case TRAFFIC_RETURN:
		delivery_give_back(d, &todo->back);
		return;
	case TRAFFIC_CLOSE:
		line_quit(l);
		return;
	case TRAFFIC_NOTHING:
		return;
	}
}

enum { TURN_MAX = 200 }; /* done in one callback: sockets are to be heard in between */

static void pump(void *arg, uint32_t what)
{
	struct queue *q = arg;
	struct traffic_todo todo;
	int n = 0;
	(void)what;
	while (n < TURN_MAX && traffic_next(q->t, now_ms(q), &todo) != TRAFFIC_NOTHING) {
		act(q, &todo);
		n++;
	}
	q->w->host->in_hand(NULL);
	news(q);
	totals(q);
	outlook_soon(q->w->outlook);
	int64_t wait = n == TURN_MAX ? 0 : traffic_wait(q->t, now_ms(q));
	if (wait >= 0)
		q->w->host->event_arm(q->timer, 0, wait);
}

static unsigned stage_number(const struct worker *w, const char *option, unsigned otherwise)
{
	char section[160];
	uint64_t n;
	snprintf(section, sizeof section, "stage-%s", w->set.stage);
	const char *text = w->host->conf_global(w->conf, section, option);
	return text && !str_u64(str_from(text), 10000, &n) && n ? (unsigned)n : otherwise;
}

struct queue *queue_new(struct worker *w)
{
	struct queue *q = calloc(1, sizeof *q);
	struct traffic_conf conf = { .slots = stage_number(w, "QUEUE_LIMIT", 1000), .workers = stage_number(w, "PARALLELISM", 1),
		.seed = route_mix(&w->seed) };
	if (!q)
		return NULL;
	q->w = w;
	q->t = traffic_new(&conf);
	q->timer = w->host->event_new(w->conf, -1, pump, q);
	q->totals_at = now_ms(q);
	if (!q->t || !q->timer) {
		queue_free(q);
		return NULL;
	}
	return q;
}

void queue_free(struct queue *q)
{
	if (!q)
		return;
	q->w->host->event_free(q->timer);
	traffic_free(q->t);
	free(q);
}

const struct traffic *queue_traffic(const struct queue *q)
{
	return q->t;
}

void queue_name(struct delivery *d)
{
	if (d->looking)
		shape_lookup(d->domain, &d->name);
	else
		shape_find(d->w->set.shapes, &d->route, d->domain, &d->name);
}

bool queue_would(struct delivery *d, struct traffic_back *ret)
{
	struct queue *q = d->w->queue;
	return traffic_would(q->t, now_ms(q), &d->name, ret) != TRAFFIC_BACK;
}

void queue_add(struct delivery *d)
{
	struct queue *q = d->w->queue;
	struct traffic_back back;
	d->item.owner = d;
	if (traffic_add(q->t, now_ms(q), &d->name, d->tag, &d->item, &back) == TRAFFIC_BACK)
		delivery_give_back(d, &back);
	soon(q);
}

void queue_drop(struct delivery *d)
{
	struct queue *q = d->w->queue;
	if (!q)
		return;
	traffic_drop(q->t, now_ms(q), &d->item);
	soon(q);
}

void queue_look(struct delivery *d)
{
	struct queue *q = d->w->queue;
	d->look_link = (struct traffic_link){ .owner = NULL };
	traffic_begin(q->t, now_ms(q), &d->look_link, &d->item);
}

enum queue_says queue_looked(struct delivery *d, const struct smtp_result *failure)
{
	static const struct smtp_result ok = { .outcome = SMTP_OUT_OK, .phase = SMTP_PHASE_DOT, .code = 250 };
	struct queue *q = d->w->queue;
	int64_t now = now_ms(q);
	int says = TRAFFIC_YOURS;
	if (failure) {
		says = traffic_end(q->t, now, &d->look_link, failure, TROUBLE_DNS);
	} else {
		traffic_ready(q->t, now, &d->look_link);
		traffic_sent(q->t, now, &d->look_link, &ok);
		traffic_end(q->t, now, &d->look_link, NULL, TROUBLE_NONE);
	}
	soon(q);
	return says == TRAFFIC_KEPT ? QUEUE_KEPT : QUEUE_YOURS;
}

void queue_begin(struct line *l, struct delivery *d)
{
	struct queue *q = l->w->queue;
	l->link.owner = l;
	traffic_begin(q->t, now_ms(q), &l->link, &d->item);
}

void queue_ready(struct line *l)
{
	struct queue *q = l->w->queue;
	traffic_ready(q->t, now_ms(q), &l->link);
	soon(q);
}

enum queue_says queue_sent(struct line *l, const struct smtp_result *worst)
{
	struct queue *q = l->w->queue;
	int says = traffic_sent(q->t, now_ms(q), &l->link, worst);
	soon(q);
	return says == TRAFFIC_KEPT ? QUEUE_KEPT : QUEUE_YOURS;
}

/* What we know better than the words of a failure tell. unsafe: some host was well, but not safe enough for this domain: that another one is dead
 * must not keep others from the first. */
static enum trouble trouble_known(const struct smtp_result *r, bool unsafe)
{
	if (!r)
		return TROUBLE_NONE;
	if (!r->code && !strcmp(r->status, "4.3.0"))
		return TROUBLE_LOCAL;
	return unsafe ? TROUBLE_TLS : TROUBLE_NONE;
}

enum queue_says queue_over(struct line *l, const struct smtp_result *failure)
{
	struct queue *q = l->w->queue;
	int says = traffic_end(q->t, now_ms(q), &l->link, failure, trouble_known(failure, l->d && l->d->unsafe));
	soon(q);
	return says == TRAFFIC_KEPT ? QUEUE_KEPT : QUEUE_YOURS;
}
