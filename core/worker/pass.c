/* A pass: begin, the helpers that setters, terminals and fan-out share, and the end. What came out of the hook is judged in
 * outcome.c. May not touch a database or the channel. */
#include "pass.h"

#include "base/clock.h"
#include "resolve.h"
#include "state.h"

#include <json-c/json.h>
#include <stdio.h>
#include <sys/random.h>

int pass_begin(struct pepsi_msg *msg, const struct worker_env *env, const struct wire_item *it)
{
	struct arena *a = msg->a;
	if (a)
		arena_reset(a);
	else if (!(a = arena_new(PASS_ARENA_MAX)))
		return -1;
	*msg = (struct pepsi_msg){ .env = env, .env0 = env, .a = a, .id = it->id, .received_at = it->received_at, .rcpts0 = it->rcpts,
		.n_rcpts0 = it->n_rcpts, .mail_from0 = it->mail_from, .mail_from = it->mail_from, .rcpts = it->rcpts,
		.n_rcpts = it->n_rcpts, .headers0 = it->headers, .headers = it->headers, .body0 = it->body, .body = it->body,
		.loaded = it->has_content ? PEPSI_LOAD_FULL : env->mod->stage.load_class, .caps = env->mod->stage.caps,
		.pass = { .id = it->id } };
	msg->state0 = it->state.n ? arena_str(a, it->state) : STR("{}"); /* a copy for the NUL behind it */
	msg->state_text = msg->state0;
	msg->began_us = msg->hop_began_us = clock_mono_us();
	log_ctx_set(&msg->log, NULL, "id=%lld stage=%s", (long long)it->id, env->stage);
	return msg->state0.p ? 0 : -1;
}

void pass_end(struct pepsi_msg *msg)
{
	resolve_end(msg);
	json_object_put(msg->state);
	json_object_put(msg->merge);
	json_object_put(msg->base_merge);
	json_object_put(msg->base_state);
	msg->state = msg->merge = msg->base_merge = msg->base_state = NULL;
}

void pass_free(struct pepsi_msg *msg)
{
	pass_end(msg);
	arena_free(msg->a);
	msg->a = NULL;
}

int32_t pass_misuse(struct pepsi_msg *msg, const char *fmt, ...)
{
	if (!msg->misuse[0]) {
		va_list ap;
		va_start(ap, fmt);
		vsnprintf(msg->misuse, sizeof msg->misuse, fmt, ap);
		va_end(ap);
	}
	return PEPSI_MISUSE;
}

int32_t pass_open(struct pepsi_msg *msg, const char *what)
{
	if (msg->end == END_NONE)
		return PEPSI_OK;
	return pass_misuse(msg, "%s() was called after a terminal: exactly one terminal, and nothing behind it", what);
}

struct json_object *pass_state(struct pepsi_msg *msg)
{
	const char *why;
	struct json_object *o;
	if (msg->state)
		return msg->state;
	/* as this hop found it */
	o = msg->base_state ? json_object_new_object() : state_parse(msg->state0, &why);
	if (!o) {
		pass_misuse(msg, "the state of this row cannot be read: %s", msg->base_state ? "out of memory" : why);
		return NULL;
	}
	if ((msg->base_state && state_merge(o, msg->base_state, false)) || (msg->base_merge && state_merge(o, msg->base_merge, false))) {
		pass_misuse(msg, "the state of this row cannot be read: out of memory");
		json_object_put(o);
		return NULL;
	}
	msg->state = o;
	return o;
}

int32_t pass_merge_object(struct pepsi_msg *msg, struct json_object *o)
{
	if (!pass_state(msg))
		return PEPSI_MISUSE;
	if (!msg->merge && !(msg->merge = json_object_new_object()))
		return PEPSI_RETRY;
	msg->state_text = STR_NULL;
	if (state_merge(msg->state, o, false) || state_merge(msg->merge, o, true))
		return PEPSI_RETRY;
	return PEPSI_OK;
}

int32_t pass_merge(struct pepsi_msg *msg, const char *what, const char *json)
{
	const char *why;
	struct json_object *o = state_parse(str_trim(str_from(json)), &why);
	if (!o)
		return pass_misuse(msg, "%s(): the state to merge is no JSON object that can be stored: %s", what, why);
	int32_t r = pass_merge_object(msg, o);
	json_object_put(o);
	return r;
}

int pass_merge_key(struct pepsi_msg *msg, const char *key, struct json_object *value)
{
	struct json_object *o = json_object_new_object();
	if (!o || json_object_object_add(o, key, value)) {
		json_object_put(value);
		json_object_put(o);
		return -1;
	}
	int32_t r = pass_merge_object(msg, o);
	json_object_put(o);
	return r == PEPSI_OK ? 0 : -1;
}

const char *pass_address_wrong(struct str s, bool sender)
{
	if (!s.n)
		return sender ? NULL : "is empty";
	if (s.n > PASS_ADDRESS_MAX)
		return "is too long";
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
			return "holds a control character";
	return str_is_utf8(s) ? NULL : "is no valid UTF-8";
}

const char *pass_stage(struct pepsi_msg *msg, const char *what, const char *stage)
{
	struct str s = str_from(stage);
	if (!s.n || s.n > PASS_STAGE_MAX || !str_is_utf8(s)) {
		pass_misuse(msg, "%s(): no stage was named", what);
		return NULL;
	}
	bool bounce = msg->env->bounce && !strcmp(stage, msg->env->bounce); /* before acceptance it may be but a name for "refused" */
	if (!msg->env->any_stage && !bounce && !conf_has_stage(msg->env->conf->c, stage)) {
		pass_misuse(msg, "%s(): there is no section [stage-%s]", what, stage);
		return NULL;
	}
	const char *copy = arena_strz(msg->a, s);
	if (!copy)
		pass_misuse(msg, "%s(): out of memory", what);
	return copy;
}

const uint32_t *pass_indices(struct pepsi_msg *msg, const char *what, const uint32_t *indices, size_t n, bool gone_too,
    bool *bad)
{
	*bad = true;
	if (n > msg->n_rcpts0 || (n && !indices)) {
		pass_misuse(msg, "%s(): %zu recipients of a row that has %zu", what, n, msg->n_rcpts0);
		return NULL;
	}
	bool *seen = arena_calloc(msg->a, msg->n_rcpts0, sizeof *seen);
	uint32_t *copy = arena_calloc(msg->a, n + 1, sizeof *copy); /* + 1: an empty list is not "all" */
	if (!seen || !copy) {
		pass_misuse(msg, "%s(): out of memory", what);
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		if (indices[i] >= msg->n_rcpts0 || seen[indices[i]]) {
			pass_misuse(msg, "%s(): recipient index %u %s", what, indices[i],
			    indices[i] >= msg->n_rcpts0 ? "is out of range" : "stands twice");
			return NULL;
		}
		if (!gone_too && msg->gone && msg->gone[indices[i]]) {
			pass_misuse(msg, "%s(): recipient index %u was split off before", what, indices[i]);
			return NULL;
		}
		seen[indices[i]] = true;
		copy[i] = indices[i];
	}
	*bad = false;
	return copy;
}

const uint32_t *pass_left(struct pepsi_msg *msg, size_t *ret_n)
{
	uint32_t *left = arena_calloc(msg->a, msg->n_rcpts0 + 1, sizeof *left);
	size_t n = 0;
	for (size_t i = 0; left && i < msg->n_rcpts0; i++)
		if (!msg->gone || !msg->gone[i])
			left[n++] = (uint32_t)i;
	*ret_n = n;
	return left;
}

/* Room for one more; NULL: memory or limit (recorded). */
static struct store_clone *new_clone(struct pepsi_msg *msg, const char *what)
{
	if (msg->n_clones >= PASS_CLONES_MAX) {
		pass_misuse(msg, "%s(): more than %d rows out of one message", what, PASS_CLONES_MAX);
		return NULL;
	}
	if (msg->n_clones == msg->cap_clones) {
		size_t cap = msg->cap_clones ? msg->cap_clones * 2 : 8;
		struct store_clone *more = arena_calloc(msg->a, cap, sizeof *more);
		if (!more) {
			pass_misuse(msg, "%s(): out of memory", what);
			return NULL;
		}
		if (msg->n_clones)
			memcpy(more, msg->clones, msg->n_clones * sizeof *more);
		msg->clones = more;
		msg->cap_clones = cap;
	}
	struct store_clone *c = &msg->clones[msg->n_clones++];
	unsigned char rnd[16];
	if (getrandom(rnd, sizeof rnd, 0) != sizeof rnd) {
		pass_misuse(msg, "%s(): no random numbers for the clone's token", what);
		return NULL;
	}
	*c = (struct store_clone){ .stage = NULL };
	for (size_t i = 0; i < sizeof rnd; i++)
		snprintf(c->token + 2 * i, 3, "%02x", rnd[i]);
	return c;
}

/* What is merged into the clone's state: the scratch pad of another stage's retries forgotten, and `given` on top. The
 * stored functions cut dsn.rcpt down to the clone's recipients themselves (state_subset in db/procedures.sql). Text from the
 * arena or NULL for nothing; -1: memory. */
static int clone_state(struct pepsi_msg *msg, bool elsewhere, struct json_object *given, const char **ret)
{
	static const char *const pad[] = { "attempts", "last_error", "last_reply" };
	struct json_object *state = pass_state(msg), *o = json_object_new_object();
	bool bad = !state || !o;
	for (size_t i = 0; i < sizeof pad / sizeof *pad && elsewhere && !bad; i++)
		if (state_at(state, pad[i]))
			bad = json_object_object_add(o, pad[i], NULL);
	if (given && !bad)
		bad = state_merge(o, given, true);
	if (!bad) {
		*ret = NULL;
		if (json_object_object_length(o)) {
			*ret = state_text(msg->a, o).p;
			bad = !*ret;
		}
	}
	json_object_put(o);
	return bad ? -1 : 0;
}

int32_t pass_clone_add(struct pepsi_msg *msg, const char *stage, const uint32_t *indices, size_t n, struct json_object *state)
{
	struct store_clone *c = new_clone(msg, "clone");
	if (!c)
		return PEPSI_MISUSE;
	c->stage = stage;
	c->indices = indices;
	c->n = n;
	if (clone_state(msg, strcmp(stage, msg->env->stage) != 0, state, &c->state))
		return pass_misuse(msg, "the state of a clone could not be made");
	return PEPSI_OK;
}

/* Fresh addresses, checked and copied. */
static int fresh(struct pepsi_msg *msg, const char *what, const struct pepsi_clone *in, struct store_clone *c)
{
	struct str *r = arena_calloc(msg->a, in->n, sizeof *r);
	if (!r)
		return pass_misuse(msg, "%s(): out of memory", what);
	for (size_t i = 0; i < in->n; i++) {
		const char *wrong = pass_address_wrong(str_from(in->rcpts[i]), false);
		if (wrong)
			return pass_misuse(msg, "%s(): a recipient of a clone %s", what, wrong);
		r[i] = arena_str(msg->a, str_from(in->rcpts[i]));
		if (!r[i].p)
			return pass_misuse(msg, "%s(): out of memory", what);
	}
	c->fresh_rcpts = true;
	c->rcpts = r;
	return 0;
}

static int32_t clone_from(struct pepsi_msg *msg, const char *what, const struct pepsi_clone *in, bool gone_too)
{
	const char *why;
	struct json_object *given = NULL;
	const char *stage = pass_stage(msg, what, in->stage);
	if (!stage)
		return PEPSI_MISUSE;
	if (in->status > PEPSI_CLONE_FAILED || !in->n || in->n > PASS_CLONES_MAX || (!in->indices && !in->rcpts))
		return pass_misuse(msg, "%s(): a clone without recipients, or of unknown status", what);
	struct store_clone *c = new_clone(msg, what);
	if (!c)
		return PEPSI_MISUSE;
	c->stage = stage;
	c->status = in->status;
	c->retry_s = pass_pause_cap(msg, in->retry_s);
	c->n = in->n;
	if (in->indices) {
		bool bad;
		c->indices = pass_indices(msg, what, in->indices, in->n, gone_too, &bad);
		if (bad)
			return PEPSI_MISUSE;
	} else if (fresh(msg, what, in, c)) {
		return PEPSI_MISUSE;
	}
	if (in->mail_from) {
		const char *wrong = pass_address_wrong(str_from(in->mail_from), true);
		struct str *from = arena_alloc(msg->a, sizeof *from);
		if (wrong || !from)
			return pass_misuse(msg, "%s(): the sender of a clone %s", what, wrong ? wrong : "does not fit into memory");
		*from = arena_str(msg->a, str_from(in->mail_from));
		c->mail_from = from;
	}
	if (in->state && !(given = state_parse(str_trim(str_from(in->state)), &why)))
		return pass_misuse(msg, "%s(): the state of a clone is no JSON object that can be stored: %s", what, why);
	int bad = clone_state(msg, strcmp(stage, msg->env->stage) != 0, given, &c->state);
	json_object_put(given);
	return bad ? pass_misuse(msg, "%s(): the state of a clone could not be made", what) : PEPSI_OK;
}

int32_t pass_clones(struct pepsi_msg *msg, const char *what, const struct pepsi_clone *clones, size_t n, bool gone_too)
{
	if (!n)
		return PEPSI_OK;
	/* An array of structs that may have grown since: its writer's size is its stride. */
	size_t stride = clones ? clones->abi.size : 0;
	if (stride < offsetof(struct pepsi_clone, mail_from) + sizeof(char *) || stride > 65536 ||
	    clones->abi.major != PEPSI_ABI_MAJOR)
		return pass_misuse(msg, "%s(): begin each struct pepsi_clone with PEPSI_ABI_OF(struct pepsi_clone)", what);
	if (msg->touched || msg->merge)
		return pass_misuse(msg, "%s(): content or state was changed before; clones are made of the row as it is stored", what);
	for (size_t i = 0; i < n; i++) {
		struct pepsi_clone one = { .n = 0 };
		const char *at = (const char *)clones + i * stride;
		memcpy(&one, at, stride < sizeof one ? stride : sizeof one);
		if (one.abi.size != stride)
			return pass_misuse(msg, "%s(): clone %zu says another size than the first", what, i);
		int32_t r = clone_from(msg, what, &one, gone_too);
		if (r != PEPSI_OK)
			return r;
	}
	return PEPSI_OK;
}
