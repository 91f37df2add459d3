/* The simulated worker; see traffic_sim.h. */
#include "traffic_sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct message {
	struct traffic_item item;
	struct sim_host *host;
	unsigned backs, attempts;
	bool sent, asked;   /* asked: sent by a session now */
};
enum step { CONNECT, BANNER, EHLO, TRANSACTION, IDLE };
struct session {
	struct traffic_link link;
	struct sim_host *host;
	struct message *m;
	enum step step;
	bool gone, counted;
	struct session *after;
};
struct event { /* a session's reply (s), a message that is due (m), or a connection that the host forgets (h) */
	int64_t at;
	uint64_t n;
	struct session *s;
	struct message *m;
	struct sim_host *h;
};
struct heap {
	struct event *e;
	size_t n, cap;
};
struct sim {
	const struct sim_conf *conf;
	struct sim_result *r;
	struct traffic *t;
	int64_t us;
	uint64_t seq;
	struct heap replies, queue;
	unsigned held, left;
	struct session *sessions; /* all there ever were */
};

static bool before(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->n < b->n;
}

static void push(struct sim *s, struct heap *h, struct event e)
{
	size_t i = h->n++;
	e.n = s->seq++;
	if (h->n > h->cap) {
		h->cap = h->cap ? h->cap * 2 : 1024;
		h->e = realloc(h->e, h->cap * sizeof *h->e);
		assert_non_null(h->e);
	}
	for (; i && before(&e, &h->e[(i - 1) / 2]); i = (i - 1) / 2)
		h->e[i] = h->e[(i - 1) / 2];
	h->e[i] = e;
}

static struct event pop(struct heap *h)
{
	struct event top = h->e[0], e = h->e[--h->n];
	size_t i = 0;
	for (size_t c; (c = 2 * i + 1) < h->n; i = c) {
		if (c + 1 < h->n && before(&h->e[c + 1], &h->e[c]))
			c++;
		if (!before(&h->e[c], &e))
			break;
		h->e[i] = h->e[c];
	}
	if (h->n)
		h->e[i] = e;
	return top;
}

static int64_t ms(const struct sim *s)
{
	return s->us / 1000;
}

static void reply_in(struct sim *s, struct session *k, int64_t in_ms)
{
	push(s, &s->replies, (struct event){ .at = s->us + in_ms * 1000, .s = k });
}

static void back_to_queue(struct sim *s, struct message *m, int64_t seconds)
{
	s->held--;
	s->us += s->conf->give_back_us;
	push(s, &s->queue, (struct event){ .at = s->us + seconds * 1000000, .m = m });
}

static void given_back(struct sim *s, struct message *m, const struct traffic_back *back)
{
	assert_true(back->seconds >= 1 && back->seconds <= TRAFFIC_BACK_MOST_S);
	assert_non_null(back->why);
	m->backs++;
	s->r->backs++;
	if (m->backs > s->r->backs_most)
		s->r->backs_most = m->backs;
	back_to_queue(s, m, back->seconds);
}

static void tried(struct sim *s, struct message *m) /* the retry policy: five minutes, doubling to an hour */
{
	m->attempts++;
	s->r->attempts++;
	back_to_queue(s, m, m->attempts < 4 ? 300 << (m->attempts - 1) : 3600);
}

static void closed(struct sim *s, struct session *k)
{
	if (k->step == CONNECT && !k->gone)
		k->host->connecting--;
	if (k->counted) /* the host notices a little later */
		push(s, &s->replies, (struct event){ .at = s->us + 30000, .h = k->host });
	k->gone = true;
	k->m = NULL;
}

static void pump(struct sim *s)
{
	struct traffic_todo todo;
	while (traffic_next(s->t, ms(s), &todo) != TRAFFIC_NOTHING) {
		struct message *m = todo.item ? todo.item->owner : NULL;
		struct session *k = todo.link ? todo.link->owner : NULL;
		switch (todo.what) {
		case TRAFFIC_START:
			k = calloc(1, sizeof *k);
			assert_non_null(k);
			k->link.owner = k;
			k->after = s->sessions;
			s->sessions = k;
			k->host = m->host;
			k->m = m;
			traffic_begin(s->t, ms(s), &k->link, todo.item);
			k->host->openings++;
			if (++k->host->connecting > k->host->probes_at_once_most)
				k->host->probes_at_once_most = k->host->connecting;
			if (ms(s) >= k->host->dead_from && ms(s) < k->host->dead_until) {
				k->host->connects_dead++;
				reply_in(s, k, k->host->connect_dead_ms);
			} else {
				reply_in(s, k, k->host->connect_ms);
			}
			break;
		case TRAFFIC_REUSE:
			assert_true(k->step == IDLE && !k->gone && k->host == m->host);
			k->m = m;
			k->step = TRANSACTION;
			reply_in(s, k, 4 * k->host->reply_ms);
			break;
		case TRAFFIC_ABANDON:
			assert_true(k->step <= BANNER);
			closed(s, k);
			given_back(s, m, &todo.back);
			break;
		case TRAFFIC_RETURN:
			given_back(s, m, &todo.back);
			break;
		default:
			assert_int_equal(k->step, IDLE);
			closed(s, k);
			break;
		}
	}
}

static void ended(struct sim *s, struct session *k, const struct smtp_result *failure)
{
	struct message *m = k->m;
	closed(s, k);
	if (traffic_end(s->t, ms(s), &k->link, failure, TROUBLE_NONE) == TRAFFIC_YOURS && m)
		tried(s, m);
}

static struct smtp_result answer(enum smtp_outcome o, enum smtp_phase p, unsigned code, const char *status, const char *text)
{
	struct smtp_result r = { .outcome = o, .phase = p, .code = code, .text = str_from(text) };
	snprintf(r.status, sizeof r.status, "%s", status);
	return r;
}

static void sent(struct sim *s, struct session *k)
{
	struct sim_host *h = k->host;
	struct message *m = k->m;
	struct smtp_result r = answer(SMTP_OUT_OK, SMTP_PHASE_DOT, 250, "2.0.0", "queued");
	if (h->minute != ms(s) / 60000) {
		h->minute = ms(s) / 60000;
		h->minute_taken = 0;
	}
	if (h->per_minute && h->minute_taken >= h->per_minute) {
		h->limited++;
		r = answer(SMTP_OUT_TRANSIENT, SMTP_PHASE_RCPT, 450, "4.7.1", "Error: too much mail from you, rate limit exceeded");
	}
	k->step = IDLE;
	k->m = NULL;
	s->us += s->conf->send_us;
	assert_int_equal(traffic_sent(s->t, ms(s), &k->link, &r), TRAFFIC_YOURS);
	if (r.outcome != SMTP_OUT_OK) {
		tried(s, m);
		return;
	}
	s->held--;
	m->sent = true;
	h->taken++;
	h->minute_taken++;
	h->last_ms = ms(s);
	s->r->sent++;
	if (h < s->conf->hosts + s->conf->until_host) {
		s->left--;
		s->r->done_ms = ms(s);
	}
}

static void replied(struct sim *s, struct session *k)
{
	struct sim_host *h = k->host;
	if (k->gone)
		return;
	switch (k->step) {
	case CONNECT:
		if (ms(s) - h->connect_dead_ms >= h->dead_from && ms(s) - h->connect_dead_ms < h->dead_until) {
			struct smtp_result r = answer(SMTP_OUT_LOST, SMTP_PHASE_CONNECT, 0, "", "connection timed out");
			ended(s, k, &r);
			return;
		}
		h->connecting--;
		k->step = BANNER;
		k->counted = true;
		if (++h->open > h->open_most)
			h->open_most = h->open;
		reply_in(s, k, h->reply_ms);
		return;
	case BANNER:
		if (h->max_open && h->open > h->max_open) {
			struct smtp_result r = answer(SMTP_OUT_TRANSIENT, SMTP_PHASE_BANNER, 421, "4.7.0", "Too many connections from your host");
			h->refused++;
			ended(s, k, &r);
			return;
		}
		if (h->banner) {
			struct smtp_result r = answer(SMTP_OUT_TRANSIENT, SMTP_PHASE_BANNER, 421, "", h->banner);
			h->refused++;
			ended(s, k, &r);
			return;
		}
		k->step = EHLO;
		reply_in(s, k, h->reply_ms);
		return;
	case EHLO:
		k->step = TRANSACTION;
		traffic_ready(s->t, ms(s), &k->link);
		reply_in(s, k, 4 * h->reply_ms);
		return;
	case TRANSACTION:
		sent(s, k);
		return;
	default:
		return;
	}
}

static void claim(struct sim *s)
{
	struct message *m = pop(&s->queue).m;
	struct shape_name name = { .shape = m->host->shape ? m->host->shape : &shape_default };
	struct traffic_back back;
	snprintf(name.key, sizeof name.key, "%s", m->host->name);
	s->us += s->conf->claim_us;
	s->r->claims++;
	m->host->claims++;
	s->held++;
	m->item.owner = m;
	if (traffic_add(s->t, ms(s), &name, 0, &m->item, &back) == TRAFFIC_BACK)
		given_back(s, m, &back);
}

static void watch(struct sim *s)
{
	struct traffic_totals now;
	traffic_totals(s->t, &now);
	assert_int_equal(now.held, s->held);
	assert_true(now.held <= s->conf->slots);
	assert_true(now.sessions <= (s->conf->sessions ? s->conf->sessions : s->conf->slots));
	if (now.held_poor > s->r->held_poor_most)
		s->r->held_poor_most = now.held_poor;
	if (now.sessions > s->r->sessions_most)
		s->r->sessions_most = now.sessions;
}

void sim_run(const struct sim_conf *conf, struct sim_result *ret)
{
	struct traffic_conf tc = { .slots = conf->slots, .workers = conf->workers, .sessions = conf->sessions, .seed = conf->seed };
	struct sim s = { .conf = conf, .r = ret, .t = traffic_new(&tc), .us = 1000000 };
	struct message *m = calloc(conf->n, sizeof *m);
	uint64_t rounds = 0;
	assert_true(s.t && m);
	*ret = (struct sim_result){ 0 };
	for (unsigned i = 0; i < conf->n; i++) {
		m[i].host = &conf->hosts[conf->to[i]];
		s.left += conf->to[i] < conf->until_host;
		push(&s, &s.queue, (struct event){ .at = s.us + i * conf->gap_us, .m = &m[i] });
	}
	while (s.left && ms(&s) < conf->end_ms) {
		bool did = false;
		pump(&s);
		if (++rounds % 256 == 0)
			watch(&s);
		if (s.replies.n && s.replies.e[0].at <= s.us) {
			struct event e = pop(&s.replies);
			if (e.s)
				replied(&s, e.s);
			else
				e.h->open--;
			did = true;
			pump(&s);
		}
		if (s.queue.n && s.queue.e[0].at <= s.us && s.held < conf->slots) {
			claim(&s);
			did = true;
		}
		if (did)
			continue;
		int64_t next = INT64_MAX, wait = traffic_wait(s.t, ms(&s));
		if (s.replies.n)
			next = s.replies.e[0].at;
		if (s.queue.n && s.held < conf->slots && s.queue.e[0].at < next)
			next = s.queue.e[0].at;
		if (wait >= 0 && (ms(&s) + wait) * 1000 < next)
			next = (ms(&s) + wait) * 1000;
		assert_true(next != INT64_MAX); /* else everybody waits for ever */
		s.us = next > s.us ? next : s.us + 1;
	}
	ret->end_ms = ms(&s);
	traffic_totals(s.t, &ret->totals);
	traffic_free(s.t);
	for (struct session *k = s.sessions, *after; k; k = after) {
		after = k->after;
		free(k);
	}
	free(s.replies.e);
	free(s.queue.e);
	free(m);
}
