/* Fuzz: what replies say of a destination, and shaping that is told them. The first octets say what happens: each is one reply or event for one
 * of a few destinations; the last line is the text of all replies. */
#include "proto/relay/traffic.h"

#include "base/check.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N = 40 };
struct run {
	struct traffic *t;
	struct traffic_item item[N];
	struct traffic_link link[N];
	bool item_used[N], link_used[N], sending[N];
	struct traffic_item *of[N];
	int64_t now;
};

static void give(struct run *r, struct traffic_item *i)
{
	must(r->item_used[i - r->item]);
	r->item_used[i - r->item] = false;
}

static void pump(struct run *r)
{
	struct traffic_todo todo;
	unsigned n = 0;
	while (traffic_next(r->t, r->now, &todo) != TRAFFIC_NOTHING) {
		must(++n < 100000);
		size_t k = todo.link ? (size_t)(todo.link - r->link) : 0;
		switch (todo.what) {
		case TRAFFIC_START:
			while (k < N && r->link_used[k])
				k++;
			if (k == N) {
				traffic_drop(r->t, r->now, todo.item);
				give(r, todo.item);
				break;
			}
			r->link_used[k] = true;
			r->of[k] = todo.item;
			r->link[k] = (struct traffic_link){ .owner = r };
			traffic_begin(r->t, r->now, &r->link[k], todo.item);
			break;
		case TRAFFIC_REUSE:
			must(r->link_used[k] && !r->of[k]);
			r->of[k] = todo.item;
			break;
		case TRAFFIC_ABANDON:
			must(r->of[k] == todo.item && todo.back.seconds);
			r->of[k] = NULL;
			r->link_used[k] = false;
			give(r, todo.item);
			break;
		case TRAFFIC_RETURN:
			must(todo.back.seconds && todo.back.why && todo.back.text);
			give(r, todo.item);
			break;
		default:
			must(r->link_used[k] && !r->of[k]);
			r->link_used[k] = false;
			break;
		}
	}
	must(traffic_wait(r->t, r->now) != 0);
}

static struct smtp_result result_of(unsigned a, unsigned b, struct str text)
{
	static const unsigned codes[] = { 0, 421, 450, 451, 452, 550, 552, 554 };
	static const char *const statuses[] = { "", "4.7.0", "4.7.1", "4.2.1", "4.3.2", "5.1.1", "5.7.1", "5.7.25", "4.7.28", "4.4.2", "9.9.9", "4.7.650" };
	struct smtp_result r = { .outcome = (enum smtp_outcome)(1 + a % 5), .phase = (enum smtp_phase)(b % (SMTP_PHASE_QUIT + 1)), .code = codes[a / 5 % 8],
		.text = text };
	snprintf(r.status, sizeof r.status, "%s", statuses[b % 12]);
	return r;
}

static void step(struct run *r, unsigned a, unsigned b, struct str text)
{
	struct smtp_result res = result_of(b, a ^ b, text);
	struct traffic_back back;
	size_t k = b % N;
	switch (a % 8) {
	case 0:
	case 1:
		for (k = 0; k < N && r->item_used[k]; k++)
			;
		if (k < N) {
			static struct shape shape;
			struct shape_name name = { .shape = &shape };
			shape = shape_default;
			shape.rate = b % 3 ? 0 : b;
			shape.concurrency = 1 + b % 7;
			shape.initial = 1;
			snprintf(name.key, sizeof name.key, "%sd%u", b & 64 ? "?" : "", b % 5);
			r->item[k] = (struct traffic_item){ .owner = r };
			r->item_used[k] = traffic_add(r->t, r->now, &name, b / 64, &r->item[k], &back) == TRAFFIC_KEPT;
			must(r->item_used[k] || back.seconds);
		}
		break;
	case 2:
		if (r->link_used[k])
			traffic_ready(r->t, r->now, &r->link[k]);
		break;
	case 3:
	case 4:
		if (r->link_used[k] && r->of[k]) {
			struct traffic_item *i = r->of[k];
			r->of[k] = NULL;
			int rc = traffic_sent(r->t, r->now, &r->link[k], &res);
			if (rc == TRAFFIC_YOURS)
				give(r, i);
			if (rc == TRAFFIC_KEPT || res.outcome == SMTP_OUT_LOST) {
				must(traffic_end(r->t, r->now, &r->link[k], &res, TROUBLE_NONE) == TRAFFIC_YOURS);
				r->link_used[k] = false;
			}
		}
		break;
	case 5:
		if (r->link_used[k]) {
			struct traffic_item *i = r->of[k];
			r->of[k] = NULL;
			r->link_used[k] = false;
			if (traffic_end(r->t, r->now, &r->link[k], b & 1 ? &res : NULL, b & 2 ? TROUBLE_NONE : (enum trouble)(b % TROUBLE_N)) == TRAFFIC_YOURS && i)
				give(r, i);
		}
		break;
	case 6:
		r->now += (int64_t)b * b * (b & 128 ? 1000 : 1);
		break;
	default:
		for (size_t i = 0; i < N; i++)
			if (r->link_used[i] && r->of[i] == &r->item[k]) {
				r->link_used[i] = false;
				r->of[i] = NULL;
			}
		if (r->item_used[k])
			traffic_drop(r->t, r->now, &r->item[k]);
		r->item_used[k] = false;
		struct traffic_view v;
		while (traffic_news(r->t, r->now, &v))
			must(v.key[0]);
		break;
	}
	pump(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct run r;
	struct str all = str_n((const char *)data, size > 8192 ? 8192 : size), text;
	struct traffic_conf conf = { .slots = 1 + (size ? data[0] % 30 : 0), .workers = 1, .sessions = size > 1 ? data[1] % 30 : 0, .seed = size };
	struct traffic_totals totals;
	struct traffic_view v;
	unsigned held = 0;
	size_t n = all.n;
	while (n && data[n - 1] != '\n')
		n--;
	text = str_skip(all, n);
	r = (struct run){ .t = traffic_new(&conf), .now = 1000 };
	must(r.t);
	for (size_t i = 2; i + 1 < n; i += 2)
		step(&r, data[i], data[i + 1], text);
	traffic_totals(r.t, &totals);
	for (size_t i = 0; i < N; i++)
		held += r.item_used[i];
	must(totals.held == held && held <= conf.slots);
	for (const void *pos = NULL; traffic_view(r.t, r.now, &pos, &v);) {
		struct buf out = BUF_INIT(8192);
		traffic_view_json(&v, &out);
		must(!out.failed && v.window <= v.concurrency);
		buf_free(&out);
	}
	traffic_free(r.t);
	return 0;
}
