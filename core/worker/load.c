/* Loading rows that did not come along with their ids: a few at a time, how many depends on how large the last ones were; and which of them
 * may be worked on. */
#include "run.h"

#include "base/clock.h"

#include <poll.h>
#include <stdio.h>
#include <strings.h>

enum { LOAD_MAX = RUN_BATCH, LOAD_CONTENT_MAX = 16, LOAD_ARENA_MAX = 512 * 1024 * 1024 };

static const char *program_of(struct run *r, struct str stage)
{
	char section[160];
	if (!r->c || snprintf(section, sizeof section, "stage-%.*s", STR_ARG(stage)) >= (int)sizeof section)
		return NULL;
	return config_str(r->c, section, "PROGRAM");
}

/* A row read from the table is worked on only if it was claimed for this stage (requirement C3). */
static void judge(struct run *r, struct item *it, const struct store_row *row)
{
	it->st = ITEM_REFUSED;
	if (!str_ieq(row->stage, str_from(r->env->stage))) {
		const char *p = program_of(r, row->stage);
		if (!p || strcmp(p, r->env->mod->stage.name) != 0)
			snprintf(it->why, sizeof it->why, "row %lld is at stage %.*s, whose PROGRAM is %s, not %s",
			    (long long)row->id, STR_ARG(row->stage), p ? p : "not configured", r->env->mod->stage.name);
		else
			snprintf(it->why, sizeof it->why, "row %lld is at stage %.*s, and this is a worker of stage %s",
			    (long long)row->id, STR_ARG(row->stage), r->env->stage);
	} else if (!str_eq(row->status, STR("running"))) {
		snprintf(it->why, sizeof it->why, "row %lld is %.*s, not running: work is done on claimed rows only; by hand, stop "
		    "the daemon and set status = 'running' in pepsi.workqueue first", (long long)row->id, STR_ARG(row->status));
	} else {
		it->st = ITEM_READY;
		it->w = (struct wire_item){ .id = row->id, .received_at = row->received_at, .body_id = row->body_id,
			.mail_from = row->mail_from, .rcpts = row->rcpts, .n_rcpts = row->n_rcpts, .state = row->state,
			.headers = row->headers, .body = row->body, .body_size = row->body.n };
	}
}

static enum store_rc load_patiently(struct run *r, struct arena *a, const int64_t *ids, size_t n, struct store_row **rows,
    size_t *n_rows)
{
	int64_t until = clock_mono_us() + (r->by_id ? -1 : r->patience_s * US_PER_S);
	int ms = 50;
	for (;;) {
		enum store_rc rc = r->store.load(r->store.arg, a, ids, n, r->env->mod->stage.load_class, rows, n_rows);
		if ((rc != STORE_AWAY && rc != STORE_RETRY) || *r->stop || clock_mono_us() > until)
			return rc;
		struct pollfd p[2] = { { .fd = r->stop_fd, .events = POLLIN }, { .fd = r->by_hand ? -1 : r->in.fd } };
		if (poll(p, 2, ms) > 0)
			return rc;
		ms = ms * 2 > 2000 ? 2000 : ms * 2;
		arena_reset(a);
	}
}

/* Loads the first bare items of the queue. How many at once depends on how large the last ones were. */
int run_load(struct run *r)
{
	struct item *want[LOAD_MAX];
	int64_t ids[LOAD_MAX];
	size_t n = 0, n_rows = 0, largest = 1, most = r->env->mod->stage.load_class == PEPSI_LOAD_METADATA ? LOAD_MAX : LOAD_CONTENT_MAX;
	struct store_row *rows = NULL;
	if (!r->chunk)
		r->chunk = r->env->mod->stage.load_class == PEPSI_LOAD_FULL ? 2 : most;
	for (struct item *it = r->in.head; it && n < r->chunk; it = it->next)
		if (it->st == ITEM_BARE) {
			ids[n] = it->w.id;
			want[n++] = it;
		}
	/* nothing that is done may wait for a database that is slow to answer */
	if (!r->by_id && r->n_slots && run_commit(r))
		return -1;
	struct input_block *b = input_block_new(LOAD_ARENA_MAX);
	enum store_rc rc = b ? load_patiently(r, b->a, ids, n, &rows, &n_rows) : STORE_FULL;
	if (r->by_id && (rc == STORE_AWAY || rc == STORE_RETRY)) { /* whoever comes again does not wait here */
		input_block_unref(b);
		return 1;
	}
	for (size_t i = 0; i < n; i++) {
		struct item *it = want[i];
		const struct store_row *row = NULL;
		for (size_t k = 0; k < n_rows && rc == STORE_OK && !row; k++)
			if (rows[k].id == ids[i])
				row = &rows[k];
		if (rc != STORE_OK) {
			if (rc == STORE_FULL && r->chunk > 1 && i > 0)
				continue; /* stays bare; smaller bites below */
			it->st = ITEM_REFUSED;
			snprintf(it->why, sizeof it->why, "the row could not be loaded: %s", rc == STORE_AWAY ? "the database is away"
			    : rc == STORE_FULL ? "out of memory" : "the database refused");
		} else if (!row) {
			it->st = ITEM_GONE;
			snprintf(it->why, sizeof it->why, "there is no row %lld", (long long)ids[i]);
		} else {
			size_t octets = row->headers.n + row->body.n;
			judge(r, it, row);
			input_block_unref(it->block); /* the datagram that brought the id */
			it->block = b;
			b->refs++;
			largest = octets > largest ? octets : largest;
		}
	}
	r->chunk = rc == STORE_FULL ? 1 : RUN_OCTETS_MAX / largest;
	if (r->chunk > most)
		r->chunk = most;
	if (!r->chunk)
		r->chunk = 1;
	input_block_unref(b);
	return 0;
}
