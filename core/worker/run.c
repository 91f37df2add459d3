/* The loop. Ids are answered strictly in the order they came, whatever happened to them; an outcome waits for others only as long as run.h
 * says. Modules that drive many messages at once have another one: serve.c. */
#include "run.h"

#include "base/clock.h"
#include "fuse.h"
#include "measure.h"
#include "page.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

enum { AHEAD_MAX = 200 };

struct run_slot *run_slot_new(struct run *r, int64_t id)
{
	struct run_slot *s = &r->slots[r->n_slots++];
	*s = (struct run_slot){ .id = id };
	if (!r->first_us)
		r->first_us = clock_mono_us();
	return s;
}

void run_refuse(struct run *r, struct item *it)
{
	struct run_slot *s = run_slot_new(r, it->w.id);
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

void run_take(struct run *r, struct run_slot *s, struct pepsi_msg *m)
{
	s->msg = m;
	s->took_us = clock_mono_us() - m->began_us;
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
	r->held += run_octets_held(m);
}

size_t run_octets_held(const struct pepsi_msg *m)
{
	unsigned touched = m->touched | m->base_touched;
	size_t n = (touched & STORE_SET_BODY ? m->body.n : 0) + (touched & STORE_SET_HEADERS ? m->headers.n : 0);
	for (size_t i = 0; i < m->n_injects; i++)
		n += m->injects[i].headers.n + m->injects[i].body.n;
	return n;
}

void run_over(struct run *r, struct item *it, struct pepsi_msg *m)
{
	run_take(r, run_slot_new(r, it->w.id), m);
	fuse_learn(r->fuse, m);
}

static void run_item(struct run *r, struct item *it)
{
	struct pepsi_msg *m = NULL;
	if (it->st == ITEM_READY)
		item_map(it);
	if (it->st != ITEM_READY || !(m = run_begin(r, it))) {
		run_refuse(r, it);
		return;
	}
	pass_run(m);
	run_over(r, it, m);
	page_idle();
}

/* The dispatcher is gone: its rows will be handed out anew, so nothing more is begun. When it only says that nothing more
 * comes, what came is done first. */
bool run_nobody_there(const struct run *r)
{
	struct pollfd p = { .fd = r->in.fd };
	return poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR | POLLNVAL);
}

bool run_before_hop(void *arg, const struct worker_env *hop)
{
	struct run *r = arg;
	/* a module that closed what is not its own has done enough: nothing goes on in a process that cannot say so */
	if (hop != r->env && !r->by_hand && run_nobody_there(r))
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
		bool leave = *r->stop || (r->in.ended && !r->by_hand && run_nobody_there(r));
		if (!r->in.head || leave) {
			if (run_commit(r))
				return 1;
			if (leave || !may_read(r))
				return 0;
			measure_tell(r->by_hand ? -1 : r->out_fd, false);
			if (input_fill(&r->in, r->by_hand ? -1 : measure_due_ms(), r->stop_fd, err, sizeof err) < 0)
				goto broken;
			continue;
		}
		if (r->in.head->st == ITEM_BARE && run_load(r))
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
