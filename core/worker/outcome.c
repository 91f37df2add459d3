/* What a pass comes to: process() ran, returned something, called terminals or broke a rule. Here that becomes store
 * operations, a status line and a log event (requirements C5, C6, C10). Trouble is an outcome too: this never fails. */
#include "pass.h"
#include "state.h"

#include <json-c/json.h>
#include <stdio.h>

enum {
	REASON_MAX = 500,       /* octets of a reason in state and on the status line */
	BACKOFF_S = 60,         /* first retry of the host; doubled each time */
	BACKOFF_MAX_S = 3600,
	ALSO_MAX = 8,           /* stages named on the status line besides the row's own */
};

/* Text that jsonb takes, whatever a module said. */
static struct json_object *json_reason(struct pepsi_msg *msg, const char *text)
{
	struct str s = str_from(text);
	char *z;
	if (s.n > REASON_MAX)
		s.n = REASON_MAX;
	if (!(z = arena_strz(msg->a, s)))
		return NULL;
	if (!str_is_utf8(s))
		for (size_t i = 0; i < s.n; i++)
			if ((unsigned char)z[i] > 0x7f)
				z[i] = '?';
	return json_object_new_string(z);
}

/* Whatever the module asked for did not happen. */
static void forget(struct pepsi_msg *msg)
{
	json_object_put(msg->state);
	json_object_put(msg->merge);
	msg->state = msg->merge = NULL;
	msg->state_text = msg->state0;
	msg->state_cleared = false;
	msg->touched = 0;
	msg->gone = NULL;
	msg->n_gone = msg->n_clones = msg->n_injects = 0;
	msg->fanned = false;
	msg->end = END_NONE;
	msg->mail_from = msg->mail_from0;
	msg->rcpts = msg->rcpts0;
	msg->n_rcpts = msg->n_rcpts0;
}

static void set_json(struct pepsi_msg *msg, const char *outcome, const char *to, const char *error)
{
	const char *also[ALSO_MAX];
	size_t n_also = 0;
	struct buf b = BUF_INIT(WIRE_LINE_MAX - 8);
	for (size_t i = 0; i < msg->n_clones + msg->n_injects && n_also < ALSO_MAX; i++) {
		const char *s = i < msg->n_clones ? msg->clones[i].stage : msg->injects[i - msg->n_clones].stage;
		bool dup = to && !strcmp(s, to);
		for (size_t k = 0; k < n_also && !dup; k++)
			dup = !strcmp(also[k], s);
		if (!dup)
			also[n_also++] = s;
	}
	if (!to && n_also) /* the row itself goes nowhere, so the first of the new ones stands in front */
		to = also[0];
	buf_addf(&b, "{\"outcome\":\"%s\"", outcome);
	if (to)
		buf_addf(&b, ",\"to\":\"%s\"", state_escape(msg->a, str_from(to), PASS_STAGE_MAX));
	for (size_t k = 0; k < n_also; k++)
		buf_addf(&b, "%s\"%s\"", k ? "," : ",\"also\":[", state_escape(msg->a, str_from(also[k]), PASS_STAGE_MAX));
	if (n_also)
		buf_addc(&b, ']');
	if (error)
		buf_addf(&b, ",\"error\":\"%s\"", state_escape(msg->a, str_from(error), REASON_MAX));
	buf_addc(&b, '}');
	msg->json = b.failed ? NULL : arena_strz(msg->a, buf_str(&b));
	buf_free(&b);
}

static void set_event(struct pepsi_msg *msg, const char *event, enum log_level lv, size_t rcpts, const char *reason)
{
	msg->event = event;
	msg->event_level = lv;
	msg->n_done = rcpts;
	msg->reason = reason;
}

/* The one operation that stands for itself when nothing else can: no memory needed beyond a few octets. */
static void only_fail(struct pepsi_msg *msg, const char *reason)
{
	forget(msg);
	struct store_op *op = arena_calloc(msg->a, 1, sizeof *op);
	const char *text = state_escape(msg->a, str_from(reason), REASON_MAX);
	msg->end = END_FAIL;
	if (!op) { /* the arena is full: no operation, and whoever commits reports the row as not done */
		msg->pass.n_ops = 0;
		msg->json = NULL;
		set_event(msg, "not-done", LOG_LV_ERROR, msg->n_rcpts0, "out of memory");
		return;
	}
	*op = (struct store_op){ .kind = STORE_OP_MOVE, .id = msg->id, .touched = STORE_STATE_MERGE, .stage = msg->env->stage,
		.status = STORE_FAILED, .state = text ? arena_printf(msg->a, "{\"last_error\":\"%s\"}", text) : NULL };
	if (!op->state)
		op->touched = 0;
	msg->pass.ops = op;
	msg->pass.n_ops = 1;
	msg->reason = text ? text : "out of memory";
	set_json(msg, "fail", NULL, reason);
	set_event(msg, "failed", LOG_LV_ERROR, msg->n_rcpts0, arena_strz(msg->a, str_from(reason)));
}

void pass_refused(struct pepsi_msg *msg, const char *why)
{
	char text[300];
	snprintf(text, sizeof text, "the database refused what this stage decided: %s", why);
	only_fail(msg, text);
}

/* The texts that say why, for log and status line. */
static const char *reason_of(struct pepsi_msg *msg)
{
	static const char *const paths[] = { "last_error", "bounce.diagnostic" };
	for (size_t i = 0; i < 2 && msg->merge; i++) {
		struct json_object *o = state_at(msg->merge, paths[i]);
		if (json_object_is_type(o, json_type_string))
			return arena_strz(msg->a, str_from(json_object_get_string(o)));
	}
	return msg->last_log[0] ? msg->last_log : NULL;
}

/* A row that goes on elsewhere does not take its retry counter along: the next stage counts its own. */
static int drop_pad(struct pepsi_msg *msg, const char *to)
{
	static const char *const pad[] = { "attempts", "last_error", "delay_sent" };
	if (!strcmp(to, msg->env->stage) || (msg->env->bounce && !strcmp(to, msg->env->bounce)) || msg->state_cleared)
		return 0;
	for (size_t i = 0; i < sizeof pad / sizeof *pad; i++) {
		if (!memmem(msg->state0.p, msg->state0.n, pad[i], strlen(pad[i])))
			continue; /* cheap look first: most rows never waited */
		if (!pass_state(msg))
			return -1;
		if (state_at(msg->state, pad[i]) && !(msg->merge && json_object_object_get_ex(msg->merge, pad[i], NULL)) &&
		    pass_merge_key(msg, pad[i], NULL))
			return -1;
	}
	return 0;
}

static int state_for(struct pepsi_msg *msg, struct store_op *op)
{
	struct json_object *o = msg->state_cleared ? msg->state : msg->merge;
	if (!o)
		return 0;
	op->touched |= msg->state_cleared ? STORE_STATE_REPLACE : STORE_STATE_MERGE;
	op->state = state_text(msg->a, o).p;
	return op->state ? 0 : -1;
}

static int build_move(struct pepsi_msg *msg, struct store_op *ops, size_t *n)
{
	bool fail = msg->end == END_FAIL;
	const char *to = fail ? msg->env->stage : msg->end_stage;
	if (msg->fanned && msg->n_clones) {
		struct store_op *split = &ops[(*n)++];
		size_t n_left;
		const uint32_t *left = pass_left(msg, &n_left);
		if (!left)
			return -1;
		*split = (struct store_op){ .kind = STORE_OP_SPLIT, .id = msg->id, .keep = msg->n_gone ? left : NULL,
			.n_keep = msg->n_gone ? n_left : 0, .clones = msg->clones, .n_clones = msg->n_clones };
	} else if (msg->n_clones) { /* clones of a terminal that moves: complete_success() with a NEXT_STAGE */
		ops[(*n)++] = (struct store_op){ .kind = STORE_OP_SPLIT, .id = msg->id, .clones = msg->clones,
			.n_clones = msg->n_clones };
	}
	if (!fail && drop_pad(msg, to))
		return -1;
	struct store_op *op = &ops[(*n)++];
	*op = (struct store_op){ .kind = STORE_OP_MOVE, .id = msg->id, .stage = to, .status = fail ? STORE_FAILED : STORE_PENDING,
		.touched = msg->touched & ~(unsigned)(STORE_STATE_MERGE | STORE_STATE_REPLACE) };
	if (op->touched & STORE_SET_HEADERS)
		op->headers = msg->headers;
	if (op->touched & STORE_SET_BODY)
		op->body = msg->body;
	if (op->touched & STORE_SET_MAIL_FROM)
		op->mail_from = msg->mail_from;
	if (op->touched & STORE_SET_RCPT_TO) {
		op->rcpts = msg->rcpts;
		op->n_rcpts = msg->n_rcpts;
	}
	if (state_for(msg, op))
		return -1;
	const char *why = fail || (msg->env->bounce && !strcmp(to, msg->env->bounce)) ? reason_of(msg) : NULL;
	set_json(msg, fail ? "fail" : "move", fail ? NULL : to, fail ? why : NULL);
	if (fail)
		set_event(msg, "failed", LOG_LV_WARN, msg->n_rcpts, why);
	else
		set_event(msg, "moved", why ? LOG_LV_INFO : LOG_LV_DEBUG, msg->n_rcpts, why);
	return 0;
}

static int build_pause(struct pepsi_msg *msg, struct store_op *ops, size_t *n)
{
	const uint32_t *keep = msg->end_keep;
	size_t n_keep = msg->end_n_keep;
	if (!keep && msg->n_gone && !(keep = pass_left(msg, &n_keep)))
		return -1;
	struct store_op *op = &ops[(*n)++];
	*op = (struct store_op){ .kind = STORE_OP_PAUSE, .id = msg->id, .pause_s = msg->end_secs, .keep = keep, .n_keep = n_keep,
		.clones = msg->clones, .n_clones = msg->n_clones };
	if (state_for(msg, op))
		return -1;
	set_json(msg, "pause", NULL, NULL);
	set_event(msg, "paused", LOG_LV_INFO, keep ? n_keep : msg->n_rcpts0, reason_of(msg));
	return 0;
}

static int build_finish(struct pepsi_msg *msg, struct store_op *ops, size_t *n)
{
	uint64_t caps = msg->env->mod->stage.caps;
	const char *how = caps & PEPSI_CAP_DELIVER ? "delivered" : caps & PEPSI_CAP_BOUNCE ? "bounced" : "discarded";
	ops[(*n)++] = (struct store_op){ .kind = STORE_OP_FINISH, .id = msg->id, .clones = msg->clones,
		.n_clones = msg->n_clones, .outcome = how };
	set_json(msg, "finish", NULL, NULL);
	set_event(msg, how, LOG_LV_INFO, msg->n_rcpts0 - msg->n_gone, NULL);
	return 0;
}

static int build(struct pepsi_msg *msg)
{
	size_t n = 0;
	struct store_op *ops = arena_calloc(msg->a, msg->n_injects + 2, sizeof *ops);
	if (!ops)
		return -1;
	for (; n < msg->n_injects; n++)
		ops[n] = msg->injects[n];
	int r = msg->end == END_PAUSE ? build_pause(msg, ops, &n)
	    : msg->end == END_FINISH ? build_finish(msg, ops, &n)
				     : build_move(msg, ops, &n);
	msg->pass.ops = ops;
	msg->pass.n_ops = n;
	return r;
}

/* The environment said no. Again later; and when the time is up, the sender is told. */
static void again_later(struct pepsi_msg *msg)
{
	char why[sizeof msg->last_log];
	snprintf(why, sizeof why, "%s", msg->last_log[0] ? msg->last_log : "the stage asked for another try");
	forget(msg);
	if (!pass_state(msg)) {
		only_fail(msg, msg->misuse);
		return;
	}
	struct json_object *o = state_at(msg->state, "attempts");
	int64_t attempts = json_object_is_type(o, json_type_int) ? json_object_get_int64(o) : 0;
	attempts = attempts < 0 || attempts > 1000000 ? 1 : attempts + 1;
	int64_t left = host_lifetime_left(msg), wait = BACKOFF_MAX_S;
	if (attempts <= 6) /* 60, 120, … 1920 s */
		wait = (int64_t)BACKOFF_S << (attempts - 1);
	if (pass_merge_key(msg, "attempts", json_object_new_int64(attempts)) ||
	    pass_merge_key(msg, "last_error", json_reason(msg, why))) {
		only_fail(msg, "out of memory");
		return;
	}
	if (left < 0) {
		const char *bounce = msg->env->bounce;
		if (!bounce || !strcmp(bounce, msg->env->stage)) {
			only_fail(msg, why);
			return;
		}
		struct json_object *b = json_object_new_object();
		bool bad = !b || json_object_object_add(b, "kind", json_object_new_string("permanent")) ||
		    json_object_object_add(b, "diagnostic", json_reason(msg, why)) ||
		    json_object_object_add(b, "enhanced_status", json_object_new_string("4.4.7")) ||
		    json_object_object_add(b, "phase", json_object_new_string("queue"));
		if (bad) {
			json_object_put(b);
			only_fail(msg, "out of memory");
			return;
		}
		if (pass_merge_key(msg, "bounce", b)) {
			only_fail(msg, "out of memory");
			return;
		}
		msg->end = END_MOVE;
		msg->end_stage = bounce;
	} else {
		msg->end = END_PAUSE;
		msg->end_keep = NULL;
		msg->end_secs = (uint32_t)(wait < left ? wait : left + 1);
	}
	if (build(msg))
		only_fail(msg, "out of memory");
}

void pass_conclude(struct pepsi_msg *msg, int32_t rc)
{
	if (!msg->misuse[0] && rc == PEPSI_OK && msg->end == END_NONE)
		pass_misuse(msg, "process() returned PEPSI_OK without a terminal (advance, finish, pause, fail, …): "
				 "every pass ends with exactly one");
	if (!msg->misuse[0] && rc != PEPSI_OK && rc != PEPSI_RETRY && rc != PEPSI_PERMANENT)
		pass_misuse(msg, "process() returned %d, which is none of PEPSI_OK, PEPSI_RETRY, PEPSI_PERMANENT", rc);
	if (msg->misuse[0]) {
		char text[sizeof msg->misuse + 160];
		snprintf(text, sizeof text, "%.120s broke the stage ABI: %s", msg->env->mod->stage.name, msg->misuse);
		only_fail(msg, text);
	} else if (rc == PEPSI_RETRY) {
		again_later(msg);
	} else if (rc == PEPSI_PERMANENT) {
		only_fail(msg, msg->last_log[0] ? msg->last_log : "the stage gave the message up");
	} else if (build(msg)) {
		only_fail(msg, msg->misuse[0] ? msg->misuse : "out of memory");
	}
}

void pass_run(struct pepsi_msg *msg)
{
	pass_conclude(msg, msg->env->mod->stage.process(msg->env->state, &worker_host, msg));
}
