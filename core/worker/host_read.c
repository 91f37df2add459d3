/* Host functions that read: envelope, state, content, time; and logging with the message's context. */
#include "base/clock.h"
#include "pass.h"
#include "state.h"

#include <json-c/json.h>
#include <stdio.h>

int64_t host_id(struct pepsi_msg *m)
{
	return m->id;
}

int64_t host_received_at(struct pepsi_msg *m)
{
	return m->received_at;
}

struct pepsi_str host_mail_from(struct pepsi_msg *m)
{
	return host_str(m->mail_from);
}

size_t host_n_rcpt(struct pepsi_msg *m)
{
	return m->n_rcpts;
}

struct pepsi_str host_rcpt(struct pepsi_msg *m, size_t i)
{
	return i < m->n_rcpts ? host_str(m->rcpts[i]) : (struct pepsi_str){ NULL, 0 };
}

struct pepsi_str host_state(struct pepsi_msg *m)
{
	if (!m->state_text.p && pass_state(m))
		m->state_text = state_text(m->a, m->state);
	return m->state_text.p ? host_str(m->state_text) : (struct pepsi_str){ "{}", 2 };
}

int32_t host_state_get(struct pepsi_msg *m, const char *path, struct pepsi_str *ret)
{
	struct json_object *root = pass_state(m);
	struct json_object *o = root ? state_at(root, path ? path : "") : NULL;
	struct str s;
	if (!root)
		return PEPSI_MISUSE;
	if (!o)
		return PEPSI_NONE;
	if (json_object_is_type(o, json_type_string))
		s = arena_str(m->a, str_n(json_object_get_string(o), (size_t)json_object_get_string_len(o)));
	else
		s = state_text(m->a, o);
	if (!s.p)
		return PEPSI_RETRY;
	*ret = host_str(s);
	return PEPSI_OK;
}

const char *host_next_stage(struct pepsi_msg *m)
{
	return m->env->next;
}

const char *host_bounce_stage(struct pepsi_msg *m)
{
	return m->env->bounce;
}

int64_t host_lifetime_left(struct pepsi_msg *m)
{
	return (pass_life_began(m) - clock_wall_us()) / US_PER_S + m->env->lifetime_s;
}

int64_t host_runtime_left_ms(struct pepsi_msg *m)
{
	return m->env->runtime_ms - (clock_mono_us() - m->hop_began_us) / 1000;
}

int32_t host_headers(struct pepsi_msg *m, struct pepsi_str *ret)
{
	if (m->env->mod->stage.load_class < PEPSI_LOAD_HEADERS && !(m->touched & STORE_SET_HEADERS))
		return pass_misuse(m, "headers() was called, but the module loads METADATA only: declare PEPSI_LOAD_HEADERS");
	*ret = host_str(m->headers);
	return PEPSI_OK;
}

int32_t host_body(struct pepsi_msg *m, struct pepsi_str *ret)
{
	if (m->env->mod->stage.load_class < PEPSI_LOAD_FULL && !(m->touched & STORE_SET_BODY))
		return pass_misuse(m, "body() was called, but the module does not load bodies: declare PEPSI_LOAD_FULL");
	*ret = host_str(m->body);
	return PEPSI_OK;
}

void host_log(struct pepsi_msg *m, int32_t level, const char *text)
{
	static const enum log_level map[] = { LOG_LV_ERROR, LOG_LV_WARN, LOG_LV_INFO, LOG_LV_DEBUG };
	if (level < 0 || level > PEPSI_LOG_DEBUG)
		level = PEPSI_LOG_INFO;
	if (!text)
		text = "";
	if (m && level <= PEPSI_LOG_WARN) /* the reason, should process() ask for a retry or give up */
		snprintf(m->last_log, sizeof m->last_log, "%s", text);
	log_line(map[level], m ? &m->log : NULL, "%s", text);
}

int32_t host_more_waiting(struct pepsi_msg *m)
{
	return m->env->more ? m->env->more(m->env->more_arg) : 0;
}
