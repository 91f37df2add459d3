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
	store_change_fn change;
	store_rule_fn rule;
	struct store_changed changed;
	store_data_fn data;
	const char *text;
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
	} else if (k->change) {
		k->change(k->arg, rc, rc == STORE_OK ? &k->changed : &(struct store_changed){ .matched = 0 }, err);
	} else if (k->rule) {
		k->rule(k->arg, rc, rc == STORE_OK ? k->id : 0, err);
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

void store_queue_change(struct store_conn *c, enum store_change what, const struct store_filter *f, const char *to, bool dry,
    store_change_fn fn, void *arg)
{
	static const char *const names[] = { "delete", "retry", "set-stage", "hold", "release" };
	struct store_changed n = { .matched = 7, .changed = 7, .last_id = 7 };
	note(c, names[what], f);
	snprintf(c->to, sizeof c->to, "%s", to ? to : "");
	c->dry = dry;
	if (f->n_ids) {
		n = (struct store_changed){ .last_id = f->ids[f->n_ids - 1] };
		for (size_t i = 0; i < f->n_ids; i++)
			n.matched += f->ids[i] <= 100;
		n.changed = n.matched;
	} else if (c->rows) { /* a long queue: as many as are asked for, until there are no more */
		int64_t left = c->rows - f->after_id;
		n.matched = n.changed = left < f->limit ? (unsigned)left : f->limit;
		n.last_id = f->after_id + n.matched;
	}
	ask(c, (struct fake_call){ .change = fn, .arg = arg, .changed = n });
}

void store_rule_add(struct store_conn *c, const char *rule, store_rule_fn fn, void *arg)
{
	note(c, "rule-add", NULL);
	snprintf(c->rule, sizeof c->rule, "%s", rule);
	ask(c, (struct fake_call){ .rule = fn, .arg = arg, .id = 3 });
}

void store_rule_remove(struct store_conn *c, int64_t id, store_rule_fn fn, void *arg)
{
	note(c, "rule-remove", NULL);
	ask(c, (struct fake_call){ .rule = fn, .arg = arg, .id = id == 3 });
}

void store_rule_list(struct store_conn *c, const char *action, store_json_fn fn, void *arg)
{
	note(c, action, NULL);
	ask(c, (struct fake_call){ .json = fn, .arg = arg, .text = "[]" });
}

void store_rule_apply(struct store_conn *c, int64_t id, const char *rule, bool dry, int64_t after_id, unsigned limit, store_change_fn fn, void *arg)
{
	struct store_filter f = { .after_id = after_id, .limit = limit };
	int64_t left = c->rows - after_id;
	unsigned n = left < limit ? (unsigned)left : limit;
	note(c, "rule-apply", &f);
	c->dry = dry;
	if (!id)
		snprintf(c->rule, sizeof c->rule, "%s", rule);
	ask(c, (struct fake_call){ .change = fn, .arg = arg, .changed = { n, n, after_id + n } });
}

void store_rule_release(struct store_conn *c, int64_t id, unsigned limit, store_rule_fn fn, void *arg)
{
	unsigned n = c->rows < limit ? c->rows : limit;
	(void)id;
	note(c, "rule-release", NULL);
	c->rows -= n;
	ask(c, (struct fake_call){ .rule = fn, .arg = arg, .id = n });
}
