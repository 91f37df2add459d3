/* What a pass comes to: process() ran, returned something, called terminals or broke a rule. Here that becomes store
 * operations, a status line and a log event (requirements C5, C6, C10). Trouble is an outcome too: this never fails. */
#include "pass.h"

#include "base/clock.h"
#include "proto/relay/backoff.h"
#include "state.h"

#include <json-c/json.h>
#include <stdio.h>

enum {
	REASON_MAX = 500,       /* octets of a reason in state and on the status line */
	BACKOFF_S = 60,         /* first retry of the host; doubled each time */
	BACKOFF_MAX_S = 3600,
	LINE_MAX_HERE = WIRE_LINE_MAX - 32, /* status and id stand before it */
	ALSO_MAX = 8,           /* stages named on the status line besides the row's own */
};

char *pass_text(struct pepsi_msg *msg, struct str s)
{
	char *z;
	if (s.n > REASON_MAX)
		s.n = REASON_MAX;
	if (!(z = arena_strz(msg->a, s)))
		return NULL;
	if (!str_is_utf8(s))
		for (size_t i = 0; i < s.n; i++)
			if ((unsigned char)z[i] > 0x7f)
				z[i] = '?';
	return z;
}

static struct json_object *json_reason(struct pepsi_msg *msg, const char *text)
{
	const char *z = pass_text(msg, str_from(text));
	return z ? json_object_new_string(z) : NULL;
}

/* "fused":[{"stage":"b","us":12},…]: the hops behind the first, so that the dispatcher's statistics know of them. The last is
 * the present one. PASS_HOPS_MAX names of PASS_STAGE_MAX octets fit into a line. */
static void put_fused(struct pepsi_msg *msg, struct buf *b)
{
	int64_t now = msg->n_hops ? clock_mono_us() : 0;
	for (size_t i = 1; i <= msg->n_hops; i++) {
		bool last = i == msg->n_hops;
		const struct worker_env *env = last ? msg->env : msg->hops[i].env;
		buf_addf(b, "%s{\"stage\":\"%s\",\"us\":%lld}", i > 1 ? "," : ",\"fused\":[",
		    state_escape(msg->a, str_from(env->stage), PASS_STAGE_MAX), (long long)(last ? now - msg->hop_began_us : msg->hops[i].us));
	}
	if (msg->n_hops)
		buf_addc(b, ']');
}

/* secs: for a pause, how long; 0: nothing is said of it. */
static void set_json(struct pepsi_msg *msg, const char *outcome, unsigned secs, const char *to, const char *error)
{
	const char *also[ALSO_MAX];
	size_t n_also = 0;
	struct buf b = BUF_INIT(LINE_MAX_HERE);
	for (size_t i = 0; i < msg->n_clones + msg->n_injects && n_also < ALSO_MAX; i++) {
		const char *s = i < msg->n_clones ? msg->clones[i].stage : msg->injects[i - msg->n_clones].stage;
		bool waits = i < msg->n_clones && msg->clones[i].status == PEPSI_CLONE_RETRY; /* "also" makes the dispatcher look when it is due */
		bool dup = to && !waits && !strcmp(s, to);
		for (size_t k = 0; k < n_also && !dup; k++)
			dup = !strcmp(also[k], s);
		if (!dup)
			also[n_also++] = s;
	}
	if (!to && n_also) /* the row itself goes nowhere, so the first of the new ones stands in front */
		to = also[0];
	buf_addf(&b, "{\"outcome\":\"%s\"", outcome);
	if (secs)
		buf_addf(&b, ",\"secs\":%u", secs);
	if (to)
		buf_addf(&b, ",\"to\":\"%s\"", state_escape(msg->a, str_from(to), PASS_STAGE_MAX));
	/* what may make the line too long is left out then */
	size_t fits = b.n;
	put_fused(msg, &b);
	if (!b.failed)
		fits = b.n;
	for (size_t k = 0; k < n_also; k++)
		buf_addf(&b, "%s\"%s\"", k ? "," : ",\"also\":[", state_escape(msg->a, str_from(also[k]), PASS_STAGE_MAX));
	if (n_also && !buf_addc(&b, ']') && b.n < LINE_MAX_HERE - 8)
		fits = b.n;
	if (error && !buf_addf(&b, ",\"error\":\"%s\"", state_escape(msg->a, str_from(error), REASON_MAX)) && b.n < LINE_MAX_HERE - 8)
		fits = b.n;
	msg->json = arena_printf(msg->a, "%.*s}", (int)fits, buf_z(&b));
	buf_free(&b);
}

static void set_event(struct pepsi_msg *msg, const char *event, enum log_level lv, size_t rcpts, const char *reason)
{
	msg->event = event;
	msg->event_level = lv;
	msg->n_done = rcpts;
	msg->reason = reason;
}

/* What the hops before this one changed, for the operation that takes it along. */
static void put_base(struct pepsi_msg *msg, struct store_op *op, unsigned touched)
{
	op->touched |= touched;
	if (touched & STORE_SET_HEADERS)
		op->headers = msg->headers;
	if (touched & STORE_SET_BODY)
		op->body = msg->body;
	if (touched & STORE_SET_MAIL_FROM)
		op->mail_from = msg->mail_from;
	if (touched & STORE_SET_RCPT_TO) {
		op->rcpts = msg->rcpts;
		op->n_rcpts = msg->n_rcpts;
	}
}

/* The state part of an operation: what the hops before changed, and `more` on top (or NULL). */
static int put_state(struct pepsi_msg *msg, struct store_op *op, struct json_object *whole, struct json_object *merge,
    struct json_object *more)
{
	struct json_object *o = NULL, *first = whole ? whole : merge;
	if (!first && !more)
		return 0;
	if (first && more) {
		if (!(o = json_object_new_object()))
			return -1;
		if (state_merge(o, first, !whole) || state_merge(o, more, !whole)) {
			json_object_put(o);
			return -1;
		}
	}
	op->touched |= whole ? STORE_STATE_REPLACE : STORE_STATE_MERGE;
	op->state = state_text(msg->a, o ? o : first ? first : more).p;
	json_object_put(o);
	return op->state ? 0 : -1;
}

/* The one operation that stands for itself when nothing else can. The row fails at this hop's stage, as the hops before left
 * it; where that cannot be said (no memory, or the database has refused it: whole), at the stage where it is, as it is. */
static void only_fail(struct pepsi_msg *msg, const char *reason, bool whole)
{
	pass_forget(msg);
	msg->pass.put_off = NULL;
	size_t n = whole ? 0 : msg->base_injects; /* side messages of the hops before */
	struct store_op *ops = arena_calloc(msg->a, n + 1, sizeof *ops);
	const char *text = state_escape(msg->a, str_from(reason), REASON_MAX);
	const char *why = text ? arena_printf(msg->a, "{\"last_error\":\"%s\"}", text) : NULL, *ignored;
	msg->end = END_FAIL;
	if (!ops && n) {
		n = 0;
		whole = true;
		ops = arena_calloc(msg->a, 1, sizeof *ops);
	}
	if (!ops) { /* the arena is full: no operation, and whoever commits reports the row as not done */
		msg->pass.n_ops = 0;
		msg->json = NULL;
		set_event(msg, "not-done", LOG_LV_ERROR, msg->n_rcpts0, "out of memory");
		return;
	}
	const struct store_op plain = { .kind = STORE_OP_MOVE, .id = msg->id, .from_stage = msg->env0->stage, .stage = msg->env0->stage,
		.status = STORE_FAILED, .touched = why ? STORE_STATE_MERGE : 0, .state = why };
	*ops = plain;
	if (!whole && msg->n_hops) {
		struct json_object *o = why ? state_parse(str_from(why), &ignored) : NULL;
		ops->stage = msg->env->stage;
		ops->touched = 0;
		ops->state = NULL;
		put_base(msg, ops, msg->base_touched);
		if (put_state(msg, ops, msg->base_state, msg->base_merge, o)) {
			*ops = plain;
			n = 0;
		}
		json_object_put(o);
	}
	for (size_t i = 0; i < n; i++) {
		ops[i + 1] = msg->injects[i];
		ops[i + 1].from_stage = msg->env0->stage;
	}
	msg->n_injects = n;
	msg->pass.ops = ops;
	msg->pass.n_ops = n + 1;
	msg->reason = text ? text : "out of memory";
	set_json(msg, "fail", 0, NULL, reason);
	set_event(msg, "failed", LOG_LV_ERROR, msg->n_rcpts0, arena_strz(msg->a, str_from(reason)));
}

void pass_refused(struct pepsi_msg *msg, const char *why)
{
	char text[300];
	snprintf(text, sizeof text, "the database refused what %s decided: %s", msg->n_hops ? "these stages" : "this stage", why);
	only_fail(msg, text, true);
}

/* The operations of a pass as they are put together. */
struct plan {
	struct store_op *ops;
	size_t n;
	const char *from; /* where the row is in the database when the next operation comes */
	bool base;        /* what the hops before decided is still to be said */
};

static struct store_op *plan_op(struct plan *p, const struct store_op *op)
{
	p->ops[p->n] = *op;
	p->ops[p->n].from_stage = p->from;
	return &p->ops[p->n++];
}

/* What comes is made of the row as it is stored, or cannot change the stage: so the row first arrives where this hop is,
 * still running. `content`: with what the hops before changed; else only the fact that it is another message now. */
static int arrive(struct pepsi_msg *msg, struct plan *p, bool content)
{
	struct store_op *op = plan_op(p, &(struct store_op){ .kind = STORE_OP_MOVE, .id = msg->id, .stage = msg->env->stage,
	    .status = STORE_RUNNING });
	p->from = msg->env->stage;
	p->base = false;
	if (!content) {
		op->touched = STORE_STATE_REPLACE;
		op->state = "{}";
		return 0;
	}
	op->touched = msg->base_touched;
	op->headers = msg->headers0;
	op->body = msg->body0;
	op->mail_from = msg->mail_from0;
	op->rcpts = msg->rcpts0;
	op->n_rcpts = msg->n_rcpts0;
	return put_state(msg, op, msg->base_state, msg->base_merge, NULL);
}

/* The state of this hop, with that of the hops before if that is still to be said. */
static int state_for(struct pepsi_msg *msg, const struct plan *p, struct store_op *op)
{
	if (msg->state_cleared)
		return put_state(msg, op, msg->state, NULL, NULL);
	return put_state(msg, op, p->base ? msg->base_state : NULL, p->base ? msg->base_merge : NULL, msg->merge);
}

static int build_move(struct pepsi_msg *msg, struct plan *p)
{
	bool fail = msg->end == END_FAIL;
	const char *to = fail ? msg->env->stage : msg->end_stage;
	if (msg->n_clones) { /* of fan-out, or of a terminal that moves: complete_success() with a NEXT_STAGE */
		size_t n_left;
		const uint32_t *left = pass_left(msg, &n_left);
		bool fewer = msg->fanned && msg->n_gone;
		if (!left || (pass_has_base(msg) && arrive(msg, p, true)))
			return -1;
		plan_op(p, &(struct store_op){ .kind = STORE_OP_SPLIT, .id = msg->id, .keep = fewer ? left : NULL,
		    .n_keep = fewer ? n_left : 0, .clones = msg->clones, .n_clones = msg->n_clones });
	}
	if (!fail && pass_drop_pad(msg, to))
		return -1;
	struct store_op *op = plan_op(p, &(struct store_op){ .kind = STORE_OP_MOVE, .id = msg->id, .stage = to,
	    .status = fail ? STORE_FAILED : STORE_PENDING });
	put_base(msg, op, (p->base ? msg->base_touched : 0) | (msg->touched & ~(unsigned)(STORE_STATE_MERGE | STORE_STATE_REPLACE)));
	if (state_for(msg, p, op))
		return -1;
	const char *why = fail || (msg->env->bounce && !strcmp(to, msg->env->bounce)) ? pass_reason(msg) : NULL;
	set_json(msg, fail ? "fail" : "move", 0, fail ? NULL : to, fail ? why : NULL);
	if (fail)
		set_event(msg, "failed", LOG_LV_WARN, msg->n_rcpts, why);
	else
		set_event(msg, "moved", why ? LOG_LV_INFO : LOG_LV_DEBUG, msg->n_rcpts, why);
	return 0;
}

static bool can_bounce(const struct pepsi_msg *msg)
{
	return msg->env->bounce && strcmp(msg->env->bounce, msg->env->stage) != 0;
}

/* The message's time is over: its sender is told. 0, or -1: memory. */
static int to_bounce(struct pepsi_msg *msg, const char *why)
{
	struct json_object *b = json_object_new_object();
	bool bad = !b || json_object_object_add(b, "kind", json_object_new_string("permanent")) ||
	    json_object_object_add(b, "diagnostic", json_reason(msg, why)) ||
	    json_object_object_add(b, "enhanced_status", json_object_new_string("4.4.7")) ||
	    json_object_object_add(b, "phase", json_object_new_string("queue"));
	if (bad) {
		json_object_put(b);
		return -1;
	}
	if (pass_merge_key(msg, "bounce", b)) /* takes it over */
		return -1;
	msg->end = END_MOVE;
	msg->end_stage = msg->env->bounce;
	return 0;
}

/* The hook paused a message whose MAX_LIFETIME is over: that is the end of it, whatever the module thought. Returns 1: it is a move or a
 * failure now; 0: nothing to do; -1: memory. Rows that it made of this one stay, and count their time themselves. */
static int pause_over(struct pepsi_msg *msg)
{
	if (msg->end_held || host_lifetime_left(msg) >= 0)
		return 0;
	const char *why = pass_reason(msg);
	char text[REASON_MAX];
	snprintf(text, sizeof text, "delivery time expired; %.400s", why ? why : "the stage would have it wait on");
	if (msg->end_keep) { /* pause_with(): the others went where its clones are */
		bool *gone = arena_calloc(msg->a, msg->n_rcpts0 + 1, sizeof *gone);
		if (!gone)
			return -1;
		for (size_t i = 0; i < msg->n_rcpts0; i++)
			gone[i] = true;
		for (size_t i = 0; i < msg->end_n_keep; i++)
			gone[msg->end_keep[i]] = false;
		msg->gone = gone;
		msg->n_gone = msg->n_rcpts0 - msg->end_n_keep;
		msg->fanned = true;
		msg->end_keep = NULL;
	}
	if (can_bounce(msg))
		return to_bounce(msg, text) ? -1 : 1;
	msg->end = END_FAIL;
	return pass_merge_key(msg, "last_error", json_reason(msg, text)) ? -1 : 1;
}

static int build_pause(struct pepsi_msg *msg, struct plan *p)
{
	int over = pause_over(msg);
	if (over)
		return over < 0 ? -1 : build_move(msg, p);
	if (!msg->end_held && pass_tell_late(msg))
		return -1;
	const uint32_t *keep = msg->end_keep;
	size_t n_keep = msg->end_n_keep;
	if (!msg->end_held)
		msg->end_secs = pass_pause_cap(msg, msg->end_secs);
	if (!keep && msg->n_gone && !(keep = pass_left(msg, &n_keep)))
		return -1;
	bool simple = !keep && !msg->n_clones;
	struct store_op *op;
	if (msg->n_hops && simple) { /* at this hop's stage, and with what the hops before changed, in one */
		op = plan_op(p, &(struct store_op){ .kind = STORE_OP_MOVE, .id = msg->id, .stage = msg->env->stage, .status = STORE_PAUSED,
		    .pause_s = msg->end_secs });
		put_base(msg, op, msg->base_touched);
	} else {
		if (msg->n_hops && arrive(msg, p, true))
			return -1;
		op = plan_op(p, &(struct store_op){ .kind = STORE_OP_PAUSE, .id = msg->id, .pause_s = msg->end_secs, .keep = keep,
		    .n_keep = n_keep, .clones = msg->clones, .n_clones = msg->n_clones });
	}
	if (state_for(msg, p, op))
		return -1;
	if (!msg->end_held)
		msg->pass.put_off = msg->put_off;
	set_json(msg, "pause", msg->end_held ? 0 : (unsigned)msg->end_secs, NULL, NULL);
	set_event(msg, msg->end_held ? "held" : "paused", msg->end_held ? LOG_LV_DEBUG : LOG_LV_INFO, keep ? n_keep : msg->n_rcpts0, pass_reason(msg));
	return 0;
}

static int build_finish(struct pepsi_msg *msg, struct plan *p)
{
	uint64_t caps = msg->env->mod->stage.caps;
	const char *how = caps & PEPSI_CAP_DELIVER ? "delivered" : caps & PEPSI_CAP_BOUNCE ? "bounced" : "discarded";
	if (msg->n_clones ? pass_has_base(msg) && arrive(msg, p, true) : msg->base_state && arrive(msg, p, false))
		return -1;
	plan_op(p, &(struct store_op){ .kind = STORE_OP_FINISH, .id = msg->id, .clones = msg->clones, .n_clones = msg->n_clones,
	    .outcome = how });
	set_json(msg, "finish", 0, NULL, NULL);
	set_event(msg, how, LOG_LV_INFO, msg->n_rcpts0 - msg->n_gone, NULL);
	return 0;
}

static int build(struct pepsi_msg *msg)
{
	enum { ARRIVE_SPLIT_END = 3 };
	struct plan p = { .ops = arena_calloc(msg->a, msg->n_injects + ARRIVE_SPLIT_END, sizeof *p.ops), .from = msg->env0->stage,
		.base = true };
	msg->pass.put_off = NULL;
	if (!p.ops)
		return -1;
	p.n = msg->n_injects;
	int r = msg->end == END_PAUSE ? build_pause(msg, &p) : msg->end == END_FINISH ? build_finish(msg, &p) : build_move(msg, &p);
	for (size_t i = 0; i < msg->n_injects; i++) { /* done before the terminal, behind an arrival */
		p.ops[i] = msg->injects[i];
		p.ops[i].from_stage = p.from;
	}
	msg->pass.ops = p.ops;
	msg->pass.n_ops = p.n;
	return r;
}

/* The environment said no. Again later; and when the time is up, the sender is told. */
static void again_later(struct pepsi_msg *msg)
{
	char why[sizeof msg->last_log];
	snprintf(why, sizeof why, "%s", msg->last_log[0] ? msg->last_log : "the stage asked for another try");
	pass_forget(msg);
	if (!pass_state(msg)) {
		only_fail(msg, msg->misuse, false);
		return;
	}
	struct json_object *o = state_at(msg->state, "attempts");
	int64_t attempts = json_object_is_type(o, json_type_int) ? json_object_get_int64(o) : 0;
	attempts = attempts < 0 || attempts > 1000000 ? 1 : attempts + 1;
	int64_t left = host_lifetime_left(msg);
	if (pass_merge_key(msg, "attempts", json_object_new_int64(attempts)) ||
	    pass_merge_key(msg, "last_error", json_reason(msg, why))) {
		only_fail(msg, "out of memory", false);
		return;
	}
	if (left < 0) {
		if (!can_bounce(msg)) {
			only_fail(msg, why, false);
			return;
		}
		if (to_bounce(msg, why)) {
			only_fail(msg, "out of memory", false);
			return;
		}
	} else {
		msg->end = END_PAUSE;
		msg->end_keep = NULL;
		msg->end_secs = relay_backoff_s(BACKOFF_S, BACKOFF_MAX_S, (uint64_t)attempts - 1, left + 1, (uint64_t)msg->id ^ (uint64_t)clock_mono_us());
	}
	if (build(msg))
		only_fail(msg, "out of memory", false);
}

void pass_rules(struct pepsi_msg *msg, int32_t rc)
{
	if (!msg->misuse[0] && rc == PEPSI_OK && msg->end == END_NONE)
		pass_misuse(msg, "process() returned PEPSI_OK without a terminal (advance, finish, pause, fail, …): "
				 "every pass ends with exactly one");
	if (!msg->misuse[0] && rc == PEPSI_PENDING && !msg->pending)
		pass_misuse(msg, "process() returned PEPSI_PENDING, but the module does not declare PEPSI_CAP_CONCURRENT");
	if (!msg->misuse[0] && rc != PEPSI_OK && rc != PEPSI_RETRY && rc != PEPSI_PERMANENT)
		pass_misuse(msg, "%s %d, which is none of PEPSI_OK, PEPSI_RETRY, PEPSI_PERMANENT",
		    msg->pending ? "the pass ended with" : "process() returned", rc);
}

void pass_conclude(struct pepsi_msg *msg, int32_t rc)
{
	pass_rules(msg, rc);
	if (msg->misuse[0]) {
		char text[sizeof msg->misuse + 160];
		snprintf(text, sizeof text, "%.120s broke the stage ABI: %s", msg->env->mod->stage.name, msg->misuse);
		only_fail(msg, text, false);
	} else if (rc == PEPSI_RETRY) {
		again_later(msg);
	} else if (rc == PEPSI_PERMANENT) {
		{
		char why[sizeof msg->last_log];
		snprintf(why, sizeof why, "%s", msg->last_log[0] ? msg->last_log : "the stage gave the message up");
		only_fail(msg, why, false);
	}
	} else if (build(msg)) {
		only_fail(msg, msg->misuse[0] ? msg->misuse : "out of memory", false);
	}
}
