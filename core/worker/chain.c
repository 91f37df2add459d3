/* Fusion inside a pass: one hop ends, the next begins, and nobody writes anything in between. What is decided here is kept in
 * the message; whether a stage may follow in this process is asked of env->successor() (fuse.c). */
#include "pass.h"

#include "base/clock.h"
#include "page.h"
#include "state.h"
#include "steer.h"

#include <json-c/json.h>

bool pass_has_base(const struct pepsi_msg *msg)
{
	return msg->base_touched || msg->base_merge || msg->base_state;
}

void pass_forget(struct pepsi_msg *msg)
{
	json_object_put(msg->state);
	json_object_put(msg->merge);
	msg->state = msg->merge = NULL;
	msg->state_text = msg->base_merge || msg->base_state ? STR_NULL : msg->state0;
	msg->state_cleared = false;
	msg->touched = 0;
	msg->gone = NULL;
	msg->n_gone = msg->n_clones = 0;
	msg->n_injects = msg->base_injects;
	msg->fanned = false;
	msg->end = END_NONE;
	msg->put_off = NULL;
	msg->end_held = false;
	msg->mail_from = msg->mail_from0;
	msg->headers = msg->headers0;
	msg->body = msg->body0;
	msg->rcpts = msg->rcpts0;
	msg->n_rcpts = msg->n_rcpts0;
}

int pass_drop_pad(struct pepsi_msg *msg, const char *to)
{
	static const char *const pad[] = { "attempts", "last_error", "last_reply" };
	if (!strcmp(to, msg->env->stage) || (msg->env->bounce && !strcmp(to, msg->env->bounce)) || msg->state_cleared)
		return 0;
	for (size_t i = 0; i < sizeof pad / sizeof *pad; i++) {
		if (!msg->state && !memmem(msg->state0.p, msg->state0.n, pad[i], strlen(pad[i])))
			continue; /* cheap look first: most rows never waited */
		if (!pass_state(msg))
			return -1;
		if (state_at(msg->state, pad[i]) && !(msg->merge && json_object_object_get_ex(msg->merge, pad[i], NULL)) &&
		    pass_merge_key(msg, pad[i], NULL))
			return -1;
	}
	return 0;
}

const char *pass_reason(struct pepsi_msg *msg)
{
	static const char *const paths[] = { "last_error", "bounce.diagnostic" };
	for (size_t i = 0; i < 2 && msg->merge; i++) {
		struct json_object *o = state_at(msg->merge, paths[i]);
		if (json_object_is_type(o, json_type_string))
			return arena_strz(msg->a, str_from(json_object_get_string(o)));
	}
	/* last_log is the next hop's, too */
	return msg->last_log[0] ? arena_strz(msg->a, str_from(msg->last_log)) : NULL;
}

/* What the row's state changes by, this hop included. Both untouched on failure. */
static int base_state(struct pepsi_msg *msg, struct json_object **ret_state, struct json_object **ret_merge)
{
	struct json_object *o;
	*ret_state = *ret_merge = NULL;
	if (!msg->merge && !msg->state_cleared) { /* nothing new */
		*ret_state = json_object_get(msg->base_state);
		*ret_merge = json_object_get(msg->base_merge);
		return 0;
	}
	if (!(o = json_object_new_object()))
		return -1;
	bool whole = msg->base_state || msg->state_cleared;
	bool bad = whole ? !pass_state(msg) || state_merge(o, msg->state, false)
			 : (msg->base_merge && state_merge(o, msg->base_merge, true)) || state_merge(o, msg->merge, true);
	if (bad) {
		json_object_put(o);
		return -1;
	}
	*(whole ? ret_state : ret_merge) = o;
	return 0;
}

int pass_next(struct pepsi_msg *msg, const struct worker_env *next)
{
	struct json_object *state, *merge;
	if (!msg->hops && !(msg->hops = arena_calloc(msg->a, PASS_HOPS_MAX, sizeof *msg->hops)))
		return -1;
	if (msg->n_hops + 1 >= PASS_HOPS_MAX || pass_drop_pad(msg, msg->end_stage) || base_state(msg, &state, &merge))
		return -1;

	int64_t now = clock_mono_us();
	const char *bounce = msg->env->bounce;
	msg->hops[msg->n_hops++] = (struct pass_hop){ msg->env, now - msg->hop_began_us, msg->n_rcpts,
		bounce && !strcmp(msg->end_stage, bounce) ? pass_reason(msg) : NULL };
	if (state && !msg->base_state) /* another message now, as the database will have it, too */
		msg->received_at = clock_wall_us();
	json_object_put(msg->base_state);
	json_object_put(msg->base_merge);
	msg->base_state = state;
	msg->base_merge = merge;
	msg->base_touched |= msg->touched & ~(unsigned)(STORE_STATE_MERGE | STORE_STATE_REPLACE);
	msg->base_injects = msg->n_injects;
	msg->mail_from0 = msg->mail_from;
	msg->headers0 = msg->headers;
	msg->body0 = msg->body;
	msg->rcpts0 = msg->rcpts;
	msg->n_rcpts0 = msg->n_rcpts;

	json_object_put(msg->merge);
	msg->merge = NULL;
	msg->touched = 0;
	msg->state_cleared = false;
	msg->end = END_NONE;
	msg->put_off = NULL;
	msg->end_stage = NULL;
	msg->last_log[0] = 0;
	msg->env = next;
	msg->caps |= next->mod->stage.caps;
	msg->hop_began_us = now;
	log_ctx_set(&msg->log, NULL, "id=%lld stage=%s", (long long)msg->id, next->stage);
	page_hop(msg->id, (uint32_t)msg->n_hops, next, now);
	return 0;
}

/* The hook of this hop, unless what an operator or the sender wants comes before it. */
static int32_t hook(struct pepsi_msg *msg)
{
	if (pass_steer(msg) || pass_expired(msg))
		return PEPSI_OK;
	return msg->env->mod->stage.process(msg->env->state, &worker_host, msg);
}

/* Rows made out of this one are made of it as it is stored; a chain that made some ends here, and the queue goes on. */
static bool may_go_on(const struct pepsi_msg *msg, int32_t rc)
{
	return rc == PEPSI_OK && msg->end == END_MOVE && !msg->misuse[0] && !msg->fanned && !msg->n_clones && msg->env0->successor;
}

void pass_go_on(struct pepsi_msg *msg, int32_t rc)
{
	while (may_go_on(msg, rc)) {
		const struct worker_env *next = msg->env0->successor(msg->env0->successor_arg, msg, msg->end_stage);
		if (!next || pass_next(msg, next))
			break;
		rc = hook(msg);
	}
	pass_conclude(msg, rc);
}

void pass_run(struct pepsi_msg *msg)
{
	page_hop(msg->id, 0, msg->env, msg->began_us);
	pass_go_on(msg, hook(msg));
}
