/* The loop. Ids are answered strictly in the order they came, whatever happened to them; rows that did not come along are
 * loaded a few at a time; an outcome waits for others only as long as run.h says. */
#include "run.h"

#include "base/clock.h"
#include "fuse.h"
#include "page.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

enum { LOAD_MAX = RUN_BATCH, LOAD_CONTENT_MAX = 16, LOAD_ARENA_MAX = 512 * 1024 * 1024, AHEAD_MAX = 200 };

static struct run_slot *new_slot(struct run *r, int64_t id)
{
	struct run_slot *s = &r->slots[r->n_slots++];
	*s = (struct run_slot){ .id = id };
	if (!r->first_us)
		r->first_us = clock_mono_us();
	return s;
}

static void refuse(struct run *r, struct item *it)
{
	struct run_slot *s = new_slot(r, it->w.id);
	struct wire_status st = { .status = it->st == ITEM_GONE && !r->by_hand ? 0 : 1 };
	struct buf b = BUF_INIT(sizeof s->json - 1);
	s->settled = true;
	s->status = st.status;
	/* why is our own text (it may quote a line of standard input, so it is escaped) */
	buf_addf(&b, st.status ? "{\"error\":\"" : "{\"outcome\":\"gone\",\"note\":\"");
	for (const char *p = it->why; *p; p++) {
		unsigned char c = (unsigned char)*p;
		if (c == '"' || c == '\\')
			buf_addf(&b, "\\%c", c);
		else
			buf_addc(&b, c < 0x20 || c > 0x7e ? '?' : (char)c);
	}
	buf_addz(&b, "\"}");
	snprintf(s->json, sizeof s->json, "%s", b.failed ? "{\"error\":\"refused\"}" : buf_z(&b));
	buf_free(&b);
	if (st.status)
		log_warn(NULL, "id=%lld stage=%s event=refused reason=%s", (long long)it->w.id, r->env->stage, log_qz(it->why));
}

/* --- loading */

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
	int64_t until = clock_mono_us() + r->patience_s * US_PER_S;
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
static int load_some(struct run *r)
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
	if (r->n_slots && run_commit(r))
		return -1;
	struct input_block *b = input_block_new(LOAD_ARENA_MAX);
	enum store_rc rc = b ? load_patiently(r, b->a, ids, n, &rows, &n_rows) : STORE_FULL;
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

/* --- one pass */

struct pepsi_msg *run_begin(struct run *r, struct item *it)
{
	if (!r->begun) {
		r->begun = true;
		while (r->n_spare < RUN_BATCH) {
			r->spare[r->n_spare] = &r->msgs[RUN_BATCH - 1 - r->n_spare]; /* the first one first: it has memory already */
			r->n_spare++;
		}
	}
	struct pepsi_msg *m = r->spare[r->n_spare - 1];
	if (pass_begin(m, r->env, &it->w)) {
		snprintf(it->why, sizeof it->why, "out of memory");
		it->st = ITEM_REFUSED;
		return NULL;
	}
	r->n_spare--;
	return m;
}

void run_over(struct run *r, struct item *it, struct pepsi_msg *m)
{
	struct run_slot *s = new_slot(r, it->w.id);
	s->msg = m;
	s->took_us = clock_mono_us() - m->began_us;
	fuse_learn(r->fuse, m);
	r->caps |= m->caps;
	for (size_t i = 0; i <= m->n_hops; i++) {
		const struct worker_env *env = i < m->n_hops ? m->hops[i].env : m->env;
		if (env->runs && *env->runs < RUN_PROVEN)
			++*env->runs;
		if (!(env->mod->stage.caps & RUN_EFFECT))
			continue;
		r->effects_mixed |= r->effect && r->effect != env;
		r->effect = env;
	}
	unsigned touched = m->touched | m->base_touched;
	r->held += touched & STORE_SET_BODY ? m->body.n : 0;
	r->held += touched & STORE_SET_HEADERS ? m->headers.n : 0;
	for (size_t i = 0; i < m->n_injects; i++)
		r->held += m->injects[i].headers.n + m->injects[i].body.n;
}

static void run_item(struct run *r, struct item *it)
{
	struct pepsi_msg *m = NULL;
	if (it->st == ITEM_READY)
		item_map(it);
	if (it->st != ITEM_READY || !(m = run_begin(r, it))) {
		refuse(r, it);
		return;
	}
	pass_run(m);
	run_over(r, it, m);
	page_idle();
}

/* The dispatcher is gone: its rows will be handed out anew, so nothing more is begun. When it only says that nothing more
 * comes, what came is done first. */
static bool nobody_there(const struct run *r)
{
	struct pollfd p = { .fd = r->in.fd };
	return poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR | POLLNVAL);
}

bool run_before_hop(void *arg, const struct worker_env *hop)
{
	struct run *r = arg;
	/* a module that closed what is not its own has done enough: nothing goes on in a process that cannot say so */
	if (hop != r->env && !r->by_hand && nobody_there(r))
		return false;
	if (!r->n_slots)
		return true;
	bool proven = hop->runs && *hop->runs >= RUN_PROVEN;
	bool foreign = r->effect && !proven && (r->effects_mixed || r->effect != hop);
	bool stalls = (hop->mod->stage.caps | r->caps) & RUN_EFFECT && clock_mono_us() - r->first_us >= RUN_HOLD_EFFECT_US;
	if (foreign || stalls)
		r->lost |= run_commit(r) != 0;
	return !r->lost;
}

static bool commit_now(const struct run *r)
{
	return r->n_slots == RUN_BATCH || r->held >= RUN_OCTETS_MAX || clock_mono_us() - r->first_us >= RUN_HOLD_US ||
	    (r->n_slots && r->slots[r->n_slots - 1].took_us > RUN_SLOW_US);
}

static int more(void *arg)
{
	const struct run *r = arg;
	return r->in.head || input_readable(&r->in);
}

static bool may_read(const struct run *r)
{
	return !*r->stop && !r->in.ended && r->in.n < AHEAD_MAX && r->in.octets < RUN_OCTETS_MAX &&
	    (!r->max_messages || r->in.taken < r->max_messages);
}

int run_loop(struct run *r)
{
	char err[256] = "";
	int got;
	r->env->more = more;
	r->env->more_arg = r;
	for (;;) {
		while (may_read(r) && (got = input_fill(&r->in, 0, -1, err, sizeof err)) != 0)
			if (got < 0)
				goto broken;
		bool leave = *r->stop || (r->in.ended && !r->by_hand && nobody_there(r));
		if (!r->in.head || leave) {
			if (run_commit(r))
				return 1;
			if (leave || !may_read(r))
				return 0;
			if (input_fill(&r->in, -1, r->stop_fd, err, sizeof err) < 0)
				goto broken;
			continue;
		}
		if (r->in.head->st == ITEM_BARE && load_some(r))
			return 1;
		if (!run_before_hop(r, r->env))
			return 1;
		if (r->env->mod->stage.process_batch && r->env->mod->stage.load_class == PEPSI_LOAD_METADATA &&
		    !r->env->steer && r->in.head->st == ITEM_READY) {
			run_batch(r);
		} else {
			struct item *it = input_take(&r->in);
			run_item(r, it);
			item_free(it);
		}
		if (r->lost || (commit_now(r) && run_commit(r)))
			return 1;
	}
broken:
	log_error(NULL, "event=channel-broken stage=%s error=%s", r->env->stage, log_qz(err));
	run_commit(r);
	return 1;
}

void run_done(struct run *r)
{
	for (size_t i = 0; i < RUN_BATCH; i++)
		pass_free(&r->msgs[i]);
	input_done(&r->in);
}
