/* What is told and asked: messages come, sessions begin, end, and are waited for. See traffic.h. */
#include "proto/relay/traffic_internal.h"

#include <stdlib.h>

struct traffic *traffic_new(const struct traffic_conf *conf)
{
	struct traffic *t = calloc(1, sizeof *t);
	uint64_t seed = conf->seed;
	if (!t)
		return NULL;
	t->conf = *conf;
	if (!t->conf.slots)
		t->conf.slots = 1;
	if (!t->conf.workers)
		t->conf.workers = 1;
	t->sessions_max = conf->sessions ? conf->sessions : t->conf.slots;
	t->salt = route_mix(&seed);
	t->chance = route_mix(&seed);
	t->shed_end = &t->shed;
	t->news_end = &t->news;
	t->poor_ms = FAILED_TIME_MS;
	t->new_ms = TRAFFIC_TRIAL_MS / 4;
	return t;
}

void traffic_free(struct traffic *t)
{
	if (!t)
		return;
	table_free(t);
	free(t);
}

static void earlier(int64_t *at, int64_t when)
{
	if (!*at || when < *at)
		*at = when;
}

/* What may be done for it now, and when time alone changes that. To be called when anything of it changed. */
static void touch(struct traffic *t, struct traffic_destination *d, int64_t now)
{
	int64_t at = 0, wait;
	bool ready = false;
	if (d->until && d->until <= now && !d->probe)
		d->until = 0;
	if (d->n_waiting) {
		if (t->local_until > now)
			earlier(&at, t->local_until);
		else if (d->until > now)
			earlier(&at, d->until);
		else if (d->probe && d->busy.n + d->n_starting)
			; /* its outcome will tell */
		else if ((wait = learn_rate_wait(d, now)))
			earlier(&at, wait);
		else if (d->idle.n)
			ready = true;
		else if (dest_links(d) < learn_window(d, now)) {
			if (d->reopen_at > now)
				earlier(&at, d->reopen_at);
			else
				ready = true;
		} else if (d->ceiling) {
			earlier(&at, d->ceiling_until);
		}
	}
	if (d->idle.n) {
		int64_t due = d->idle.last->since + d->idle_ms;
		if (due <= now)
			ready = true;
		else
			earlier(&at, due);
	}
	if (d->n_opening && !d->proven && !d->suspect)
		earlier(&at, d->busy.first->since + trial_ms(t));
	else if (d->busy.n)
		earlier(&at, d->busy.first->since + 2 * slow_ms(t) > now ? d->busy.first->since + 2 * slow_ms(t) : now + 1000);
	dest_ready(t, d, ready);
	dest_wake(t, d, at);
}

/* The time that was waited for has come. */
static void on_time(struct traffic *t, struct traffic_destination *d, int64_t now)
{
	if (d->n_opening && !d->proven && !d->suspect && now - d->busy.first->since >= trial_ms(t))
		dest_suspect(t, d, now);
	if (d->busy.n) {
		unsigned late = 0;
		for (const struct traffic_link *k = d->busy.first; k && now - k->since >= 2 * slow_ms(t); k = k->next)
			late++;
		d->stalled = late * 2 >= d->busy.n;
	}
	room_sort(t, d, now);
	touch(t, d, now);
}

int traffic_would(struct traffic *t, int64_t now, const struct shape_name *name, struct traffic_back *back)
{
	struct traffic_destination *d = table_find(t, now, name, false);
	if (!d || dest_held(d) < room_of(t, d, now))
		return TRAFFIC_KEPT;
	room_back(t, d, now, back);
	return TRAFFIC_BACK;
}

int traffic_add(struct traffic *t, int64_t now, const struct shape_name *name, uint64_t tag, struct traffic_item *item,
    struct traffic_back *back)
{
	struct traffic_destination *d = table_find(t, now, name, true);
	if (!d) {
		*back = (struct traffic_back){ .seconds = 30 + (unsigned)(route_mix(&t->chance) % 30), .why = "memory", .text = "" };
		t->totals.given_back++;
		return TRAFFIC_BACK;
	}
	if (now - d->used > FORGET_MS && !dest_links(d)) {
		d->steady = false;
		if (d->window > d->initial * WINDOW_ONE)
			d->window = d->initial * WINDOW_ONE;
	}
	d->used = now;
	if (d->room == ROOM_NEW)
		room_press(t, now);
	if (dest_held(d) >= room_of(t, d, now)) {
		room_back(t, d, now, back);
		return TRAFFIC_BACK;
	}
	item->tag = tag;
	item->since = now;
	item->passed = item->tries = 0;
	item->link = NULL;
	dest_wait(d, item, false);
	dest_count(t, d, 1, 0);
	touch(t, d, now);
	return TRAFFIC_KEPT;
}

/* -- what to do */

/* Out of the books: the caller's again. */
static void item_out(struct traffic *t, struct traffic_item *i, int64_t now)
{
	struct traffic_destination *d = i->at;
	if (d->room == ROOM_POOR && i->state == ITEM_WORKING && !d->abandoning)
		t->poor_ms += (now - i->since - t->poor_ms) / 8;
	if (t->poor_ms < 100)
		t->poor_ms = 100;
	dest_count(t, d, -1, i->state == ITEM_WAITING ? 0 : -1);
	if (i->state == ITEM_WAITING)
		dest_unwait(d, i);
	i->state = ITEM_OUT;
	i->at = NULL;
	i->link = NULL;
}

static void link_out(struct traffic *t, struct traffic_link *k, int64_t now)
{
	trial_over(t, k, now);
	if (k->state == LINK_IDLE) {
		idle_del(&t->idle, k);
		links_del(&k->at->idle, k);
	} else if (k->state == LINK_LEAVING) {
		idle_del(&t->leaving, k);
	} else {
		links_del(&k->at->busy, k);
		if (k->state == LINK_OPENING)
			k->at->n_opening--;
	}
	t->n_links--;
	k->state = LINK_OUT;
	k->at = NULL;
	k->item = NULL;
}

static enum traffic_what close_idle(struct traffic *t, struct traffic_link *k, int64_t now, struct traffic_todo *ret)
{
	struct traffic_destination *d = k->at;
	link_out(t, k, now);
	if (d->ceiling)
		d->reopen_at = now + REOPEN_MS;
	touch(t, d, now);
	ret->link = k;
	return ret->what = TRAFFIC_CLOSE;
}

static enum traffic_what reuse(struct traffic *t, struct traffic_link *k, struct traffic_item *i, int64_t now, struct traffic_todo *ret)
{
	struct traffic_destination *d = k->at;
	idle_del(&t->idle, k);
	links_del(&d->idle, k);
	dest_unwait(d, i);
	dest_count(t, d, 0, 1);
	k->state = LINK_WORKING;
	k->since = now;
	k->item = i;
	links_add(&d->busy, k, false);
	i->state = ITEM_WORKING;
	i->link = k;
	learn_rate_take(d, now);
	t->totals.reused++;
	touch(t, d, now);
	ret->item = i;
	ret->link = k;
	return ret->what = TRAFFIC_REUSE;
}

static struct traffic_link *fitting(const struct traffic_destination *d, const struct traffic_item *i)
{
	unsigned n = 0;
	for (struct traffic_link *k = d->idle.first; k && n < LOOK_MAX; k = k->next, n++)
		if (k->tag == i->tag)
			return k;
	return NULL;
}

/* For a destination that has something to do: what. TRAFFIC_NOTHING: room for no session, which others may need less. */
static enum traffic_what act(struct traffic *t, struct traffic_destination *d, int64_t now, struct traffic_todo *ret)
{
	struct traffic_item *head = d->first, *i;
	struct traffic_link *k;
	unsigned n = 0;
	if (d->idle.n && d->idle.last->since + d->idle_ms <= now)
		return close_idle(t, d->idle.last, now, ret);
	if (!head)
		return TRAFFIC_NOTHING;
	if ((k = fitting(d, head)))
		return reuse(t, k, head, now, ret);
	if (dest_links(d) >= learn_window(d, now) || d->reopen_at > now) {
		/* sessions enough, of which none fits the first: another message, unless the first was passed often */
		for (i = head->next; d->idle.n && head->passed < PASSED_MAX && i && n < LOOK_MAX; i = i->next, n++)
			if ((k = fitting(d, i))) {
				head->passed++;
				return reuse(t, k, i, now, ret);
			}
		return d->idle.n ? close_idle(t, d->idle.last, now, ret) : TRAFFIC_NOTHING;
	}
	if (t->busy[d->room] >= room_share(t->sessions_max, d->room))
		return TRAFFIC_NOTHING;
	if (t->n_links >= t->sessions_max)
		return t->idle.last ? close_idle(t, t->idle.last, now, ret) : TRAFFIC_NOTHING;
	dest_unwait(d, head);
	dest_count(t, d, 0, 1);
	head->state = ITEM_STARTING;
	d->n_starting++;
	t->n_links++;
	learn_rate_take(d, now);
	t->totals.started++;
	touch(t, d, now);
	ret->item = head;
	return ret->what = TRAFFIC_START;
}

/* A destination holds more than it may since things changed. TRAFFIC_NOTHING: no more. */
static enum traffic_what shed(struct traffic *t, struct traffic_destination *d, int64_t now, struct traffic_todo *ret)
{
	unsigned keep = d->busy.n + d->n_starting ? 0 : 1;
	struct traffic_link *k = d->busy.first;
	bool late = d->abandon && k && k->state == LINK_OPENING;
	d->abandon = false;
	if (late && t->held[ROOM_POOR] > room_share(t->conf.slots, ROOM_POOR)) {
		struct traffic_item *i = k->item;
		d->abandoning = true;
		item_out(t, i, now);
		d->abandoning = false;
		link_out(t, k, now);
		d->stalled = false;
		room_back(t, d, now, &ret->back);
		ret->back.why = "poor";
		ret->item = i;
		ret->link = k;
		t->totals.abandoned++;
		touch(t, d, now);
		return ret->what = TRAFFIC_ABANDON;
	}
	if ((d->until > now && d->until - now > TRAFFIC_HORIZON_MS) ||
	    (d->room == ROOM_POOR && t->held[ROOM_POOR] > room_share(t->conf.slots, ROOM_POOR)))
		keep = 0;
	else if (d->until <= now && !d->probe && d->room != ROOM_POOR)
		return TRAFFIC_NOTHING; /* it got well meanwhile */
	if (d->n_waiting <= keep)
		return TRAFFIC_NOTHING;
	ret->item = keep ? d->first->next : d->first;
	item_out(t, ret->item, now);
	room_back(t, d, now, &ret->back);
	touch(t, d, now);
	return ret->what = TRAFFIC_RETURN;
}

/* The next of this kind that can do something; at most LOOK_MAX that cannot are passed. */
static enum traffic_what turn(struct traffic *t, enum room r, int64_t now, struct traffic_todo *ret)
{
	for (unsigned n = 0; n < LOOK_MAX && t->ready[r].first; n++) {
		struct traffic_destination *d = t->ready[r].first;
		t->ready[r].first = d->ring_next;
		touch(t, d, now); /* time may have passed since */
		if (d->ready && act(t, d, now, ret) != TRAFFIC_NOTHING)
			return ret->what;
	}
	return TRAFFIC_NOTHING;
}

enum traffic_what traffic_next(struct traffic *t, int64_t now, struct traffic_todo *ret)
{
	*ret = (struct traffic_todo){ 0 };
	while (t->n_heap && t->heap[0]->wake <= now) {
		struct traffic_destination *d = t->heap[0];
		dest_wake(t, d, 0);
		on_time(t, d, now);
		if (d->heap && d->wake <= now)
			dest_wake(t, d, now + 1); /* whatever it waits for, time goes on */
	}
	room_press(t, now); /* those that are well may not come because the others have their places */
	if (t->leaving.last) {
		struct traffic_link *k = t->leaving.last;
		return close_idle(t, k, now, ret);
	}
	while (t->shed) {
		struct traffic_destination *d = t->shed;
		if (shed(t, d, now, ret) != TRAFFIC_NOTHING)
			return ret->what;
		d->shedding = false;
		t->shed = d->shed_next;
		if (!t->shed)
			t->shed_end = &t->shed;
	}
	if (t->local_until > now)
		return TRAFFIC_NOTHING;
	for (unsigned i = 0; i < ROOM_N; i++) {
		t->turn = (t->turn + 1) % ROOM_N;
		if (turn(t, (enum room)t->turn, now, ret) != TRAFFIC_NOTHING)
			return ret->what;
	}
	return TRAFFIC_NOTHING;
}

int64_t traffic_wait(struct traffic *t, int64_t now)
{
	int64_t wait = -1;
	if (t->shed || t->leaving.last)
		return 0;
	if (t->n_heap)
		wait = t->heap[0]->wake > now ? t->heap[0]->wake - now : 0;
	/* those that could begin wait for a failure of our own to pass, and have no time of their own */
	for (unsigned i = 0; i < ROOM_N && t->local_until > now; i++)
		if (t->ready[i].first && (wait < 0 || wait > t->local_until - now))
			wait = t->local_until - now;
	return wait;
}

/* -- what happened */

void traffic_begin(struct traffic *t, int64_t now, struct traffic_link *link, struct traffic_item *item)
{
	struct traffic_destination *d = item->at;
	must(item->state == ITEM_STARTING);
	link->at = d;
	link->item = item;
	link->tag = item->tag;
	link->since = now;
	link->messages = 0;
	link->state = LINK_OPENING;
	link->trial = !d->proven && !d->suspect;
	if (link->trial)
		idle_add(&t->trial, link);
	item->state = ITEM_WORKING;
	item->link = link;
	d->n_starting--;
	d->n_opening++;
	links_add(&d->busy, link, false);
	touch(t, d, now);
}

bool traffic_news(struct traffic *t, int64_t now, struct traffic_view *ret)
{
	struct traffic_destination *d = t->news;
	if (!d)
		return false;
	t->news = d->news_next;
	if (!t->news)
		t->news_end = &t->news;
	d->news = false;
	view_of(d, now, ret);
	return true;
}

void traffic_retag(struct traffic *t, struct traffic_link *link, uint64_t tag)
{
	(void)t;
	link->tag = tag;
}

void traffic_ready(struct traffic *t, int64_t now, struct traffic_link *link)
{
	struct traffic_destination *d = link->at;
	if (!d || link->state != LINK_OPENING)
		return;
	link->state = LINK_WORKING;
	d->n_opening--;
	trial_over(t, link, now);
	usual(&t->typical_open, now - link->since);
	learn_alive(t, d, now);
	room_sort(t, d, now);
	touch(t, d, now);
}

static unsigned others_alive(const struct traffic_destination *d, const struct traffic_link *k)
{
	return d->busy.n - d->n_opening + d->idle.n - (k->state == LINK_WORKING || k->state == LINK_IDLE);
}

/* Did the other side just close a session that had been idle (RFC 5321 §3.8 lets it), as we began to use it? Then nothing was said of the message. */
static bool closed_idle(const struct traffic_link *k, const struct smtp_result *r)
{
	return k->messages && k->item->tries < TRIES_MAX && (r->phase == SMTP_PHASE_IDLE || r->phase == SMTP_PHASE_MAIL || r->phase == SMTP_PHASE_RSET) &&
	    (r->outcome == SMTP_OUT_LOST || r->code == 421);
}

int traffic_sent(struct traffic *t, int64_t now, struct traffic_link *link, const struct smtp_result *result)
{
	struct traffic_destination *d = link->at;
	struct traffic_item *i = link->item;
	enum trouble what = trouble_of(result);
	bool again;
	if (!d || !i)
		return TRAFFIC_YOURS;
	traffic_ready(t, now, link);
	again = closed_idle(link, result);
	if (!again || what == TROUBLE_CONNECTIONS || what == TROUBLE_RATE || what == TROUBLE_BLOCKED)
		learn_trouble(t, d, now, what, result, false, others_alive(d, link));
	if (!again) {
		if (t->second != now / 1000) {
			t->each_second = now / 1000 - t->second == 1 ? t->in_second : 0;
			t->in_second = 0;
			t->second = now / 1000;
		}
		t->in_second++;
		learn_time(t, d, now - link->since);
		if (!trouble_is_destination(what))
			learn_alive(t, d, now);
		if (what == TROUBLE_NONE) {
			learn_accepted(d, now);
			t->totals.sent++;
		} else {
			d->refused++;
			t->totals.refused++;
		}
	}
	link->messages++;
	link->item = NULL;
	links_del(&d->busy, link);
	if (again) {
		i->tries++;
		i->link = NULL;
		dest_count(t, d, 0, -1);
		dest_wait(d, i, true);
	} else {
		item_out(t, i, now);
	}
	link->since = now;
	if (again || link->messages >= d->per_connection) {
		link->state = LINK_LEAVING;
		idle_add(&t->leaving, link);
	} else {
		link->state = LINK_IDLE;
		links_add(&d->idle, link, true);
		idle_add(&t->idle, link);
	}
	d->stalled = d->stalled && d->busy.n;
	room_sort(t, d, now);
	touch(t, d, now);
	return again ? TRAFFIC_KEPT : TRAFFIC_YOURS;
}

/* Was it no attempt of this message's? Its session did not come to be, and another may: or it is no fault of the destination. */
static bool once_more(const struct traffic_item *i, enum trouble what, unsigned alive)
{
	if (what == TROUBLE_NONE)
		return true;
	if (i->tries >= TRIES_MAX && what != TROUBLE_CONNECTIONS && what != TROUBLE_RATE)
		return false;
	return what == TROUBLE_CONNECTIONS || what == TROUBLE_RATE || what == TROUBLE_LOCAL ||
	    (alive && (what == TROUBLE_UNREACHABLE || what == TROUBLE_LOST || what == TROUBLE_SYSTEM));
}

int traffic_end(struct traffic *t, int64_t now, struct traffic_link *link, const struct smtp_result *failure, enum trouble trouble)
{
	struct traffic_destination *d = link->at;
	struct traffic_item *i = link->item;
	enum trouble what = trouble != TROUBLE_NONE ? trouble : failure ? trouble_of(failure) : TROUBLE_NONE;
	bool opening = link->state == LINK_OPENING && what != TROUBLE_TLS, again;
	unsigned alive;
	if (!d)
		return TRAFFIC_YOURS;
	if (what == TROUBLE_TLS) /* it greeted: whatever paused it is over */
		traffic_ready(t, now, link);
	alive = link->state == LINK_LEAVING ? 0 : others_alive(d, link);
	if (!i) { /* idle: that it ends says nothing, but the last words may */
		link_out(t, link, now);
		if (what == TROUBLE_CONNECTIONS || what == TROUBLE_RATE)
			learn_trouble(t, d, now, what, failure, false, alive);
		if (d->ceiling)
			d->reopen_at = now + REOPEN_MS;
		room_sort(t, d, now);
		touch(t, d, now);
		return TRAFFIC_YOURS;
	}
	if (what != TROUBLE_NONE) {
		d->failed++;
		t->totals.failed++;
		if (what != TROUBLE_LOCAL)
			d->failed_ms = now - link->since;
	}
	again = once_more(i, what, alive);
	if (again) {
		dest_count(t, d, 0, -1);
		i->tries += i->tries < 255;
		i->link = NULL;
	} else {
		item_out(t, i, now);
	}
	link_out(t, link, now);
	if (again)
		dest_wait(d, i, true);
	if (d->ceiling)
		d->reopen_at = now + REOPEN_MS;
	learn_trouble(t, d, now, what, failure, opening, alive);
	d->stalled = d->stalled && d->busy.n;
	room_sort(t, d, now);
	touch(t, d, now);
	return again ? TRAFFIC_KEPT : TRAFFIC_YOURS;
}

void traffic_drop(struct traffic *t, int64_t now, struct traffic_item *item)
{
	struct traffic_destination *d = item->at;
	if (!d || item->state == ITEM_OUT)
		return;
	struct traffic_link *k = item->link;
	if (item->state == ITEM_STARTING) {
		d->n_starting--;
		t->n_links--;
	}
	item_out(t, item, now);
	if (k)
		link_out(t, k, now);
	d->stalled = d->stalled && d->busy.n;
	room_sort(t, d, now);
	touch(t, d, now);
}

/* What a destination says of itself weighs more than what it says of a recipient; a refusal more than an acceptance. */
static unsigned weight(const struct smtp_result *r)
{
	enum trouble t = trouble_of(r);
	return t == TROUBLE_NONE ? 0 : !trouble_is_destination(t) ? 1 : t == TROUBLE_LOST || t == TROUBLE_PROTOCOL ? 3 : 2;
}

const struct smtp_result *traffic_worse(const struct smtp_result *a, const struct smtp_result *b)
{
	return weight(b) > weight(a) ? b : a;
}
