/* The fake database connection. Implements as much of store/queue.h as the admin calls. */
#include "fake_store.h"

#include <stdio.h>
#include <stdlib.h>

struct fake_call {
	struct fake_call *next;
	struct store_conn *c;
	void *arg;
	store_counts_fn counts;
	store_json_fn json;
	store_count_fn count;
	store_data_fn data;
	const char *text;
	unsigned n;
	int64_t id, offset;
	int32_t limit;
};

static void answer(struct fake_call *k)
{
	struct store_conn *c = k->c;
	enum store_rc rc = c->rc;
	const char *err = rc == STORE_OK ? NULL : "constraint \"x\" says no";
	if (k->counts) {
		k->counts(k->arg, rc, &c->counts);
	} else if (k->json) {
		k->json(k->arg, rc, rc == STORE_OK ? k->text : NULL, err);
	} else if (k->count) {
		k->count(k->arg, rc, k->n);
	} else if (k->id > 100) {
		k->data(k->arg, rc, STR_NULL, -1);
	} else {
		struct str part = str_skip(c->message, (size_t)k->offset);
		if (part.n > (size_t)k->limit)
			part.n = (size_t)k->limit;
		k->data(k->arg, rc, part, (int64_t)c->message.n);
	}
	free(k);
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	answer(arg);
}

static void ask(struct store_conn *c, struct fake_call call)
{
	struct fake_call *k = malloc(sizeof *k);
	struct timeval now = { 0, 0 };
	if (!k)
		abort();
	*k = call;
	k->c = c;
	c->asked++;
	if (c->silent) {
		k->next = c->held;
		c->held = k;
	} else {
		event_base_once(c->base, -1, EV_TIMEOUT, on_turn, k, &now);
	}
}

void fake_store_release(struct store_conn *c)
{
	while (c->held) {
		struct fake_call *k = c->held;
		c->held = k->next;
		answer(k);
	}
}

bool store_conn_up(const struct store_conn *c)
{
	return c->up;
}

unsigned store_conn_pending(const struct store_conn *c)
{
	(void)c;
	return 0;
}

void store_counts(struct store_conn *c, store_counts_fn fn, void *arg)
{
	ask(c, (struct fake_call){ .counts = fn, .arg = arg });
}

static void note(struct store_conn *c, const char *what, const struct store_filter *f)
{
	snprintf(c->last, sizeof c->last, "%s", what);
	snprintf(c->stage, sizeof c->stage, "%s", f && f->stage ? f->stage : "");
	if (f)
		c->filter = *f;
}

void store_queue_list(struct store_conn *c, const struct store_filter *f, store_json_fn fn, void *arg)
{
	note(c, "list", f);
	ask(c, (struct fake_call){ .json = fn, .arg = arg, .text = f->after_id ? "[]" : c->list });
}

void store_queue_show(struct store_conn *c, int64_t id, store_json_fn fn, void *arg)
{
	note(c, "show", NULL);
	ask(c, (struct fake_call){ .json = fn, .arg = arg, .text = id > 100 ? "null" : c->show });
}

void store_queue_cat(struct store_conn *c, int64_t id, int64_t offset, int32_t limit, store_data_fn fn, void *arg)
{
	note(c, "cat", NULL);
	ask(c, (struct fake_call){ .data = fn, .arg = arg, .id = id, .offset = offset, .limit = limit });
}

static void change(struct store_conn *c, const char *what, const struct store_filter *f, store_count_fn fn, void *arg)
{
	note(c, what, f);
	ask(c, (struct fake_call){ .count = fn, .arg = arg, .n = f->id > 100 ? 0 : f->id ? 1 : 7 });
}

void store_queue_delete(struct store_conn *c, const struct store_filter *f, store_count_fn fn, void *arg)
{
	change(c, "delete", f, fn, arg);
}

void store_queue_retry(struct store_conn *c, const struct store_filter *f, store_count_fn fn, void *arg)
{
	change(c, "retry", f, fn, arg);
}

void store_queue_set_stage(struct store_conn *c, const struct store_filter *f, const char *stage, store_count_fn fn,
    void *arg)
{
	snprintf(c->to, sizeof c->to, "%s", stage);
	change(c, "set-stage", f, fn, arg);
}
