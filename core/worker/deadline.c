/* What a sender wished about time (pepsi.state(7): hold, deliver_by), kept for every stage alike: when a message's lifetime begins, that a
 * pause ends with the sender's deadline, and what happens then (RFC 2852). Decides by the row and the clock alone; sends nothing. */
#include "pass.h"

#include "base/clock.h"
#include "state.h"

#include <json-c/json.h>
#include <stdio.h>
#include <time.h>

#define YEAR_9999 INT64_C(253402300799)

/* The value of a number in the state; rows without the key are not parsed for it. */
static bool number(struct pepsi_msg *m, const char *key, const char *path, int64_t *ret)
{
	if (!m->state && !memmem(m->state0.p, m->state0.n, key, strlen(key)))
		return false;
	struct json_object *o = state_at(pass_state(m), path);
	if (!json_object_is_type(o, json_type_int))
		return false;
	*ret = json_object_get_int64(o);
	return *ret > 0 && *ret <= YEAR_9999;
}

static bool deadline(struct pepsi_msg *m, int64_t *at, char *mode)
{
	if (!number(m, "\"deliver_by\"", "deliver_by.at", at))
		return false;
	struct json_object *o = state_at(m->state, "deliver_by.mode");
	const char *s = json_object_is_type(o, json_type_string) ? json_object_get_string(o) : "";
	*mode = *s;
	return !strcmp(s, "R") || !strcmp(s, "N");
}

static bool told(struct pepsi_msg *m)
{
	return json_object_get_boolean(state_at(m->state, "deliver_by.told"));
}

int64_t pass_life_began(struct pepsi_msg *m)
{
	int64_t until, held, began = m->received_at;
	if (number(m, "\"hold\"", "hold.until", &until) && until * US_PER_S > began)
		began = until * US_PER_S;
	if (number(m, "\"held\"", "held.s", &held)) /* while an operator held it, its time stood still */
		began += held * US_PER_S;
	return began;
}

uint32_t pass_pause_cap(struct pepsi_msg *m, uint32_t secs)
{
	int64_t at, left = host_lifetime_left(m);
	char mode;
	if (left >= 0 && left + 1 < secs) /* for one attempt more, at its end */
		secs = (uint32_t)left + 1;
	if (!deadline(m, &at, &mode) || (mode == 'N' && told(m)))
		return secs;
	left = at - clock_wall_us() / US_PER_S;
	return left > 0 && left < secs ? (uint32_t)left : secs;
}

/* {"bounce":{…}} about this deadline. */
static struct json_object *report(struct pepsi_msg *m, int64_t at, bool returned, const char *why)
{
	char when[32] = "?", text[400];
	time_t t = (time_t)at;
	struct tm tm;
	const char *ignored;
	if (gmtime_r(&t, &tm))
		strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
	snprintf(text, sizeof text, "delivery time expired: not delivered by %s, the time that the sender set%s%.300s", when, why ? "; " : "",
	    why ? why : "");
	const char *safe = state_escape(m->a, str_from(text), sizeof text);
	const char *json = safe ? arena_printf(m->a,
	    "{\"bounce\":{\"kind\":\"%s\",\"diagnostic\":\"%s\",\"enhanced_status\":\"%s\",\"phase\":\"queue\"},\"last_error\":\"%s\"}",
	    returned ? "permanent" : "delay", safe, returned ? "5.4.7" : "4.4.7", safe) : NULL;
	return json ? state_parse(str_from(json), &ignored) : NULL;
}

bool pass_expired(struct pepsi_msg *m)
{
	int64_t at;
	char mode;
	const char *bounce = m->env->bounce;
	struct json_object *o;
	if (!(m->env->mod->stage.caps & PEPSI_CAP_DELIVER) || !deadline(m, &at, &mode) || mode != 'R' || clock_wall_us() / US_PER_S < at ||
	    !(o = report(m, at, true, NULL)))
		return false;
	bool ok = pass_merge_object(m, o) == PEPSI_OK;
	json_object_put(o);
	if (!ok)
		return false;
	log_info(&m->log, "event=deadline mode=R at=%lld", (long long)at);
	m->end = bounce && strcmp(bounce, m->env->stage) != 0 ? END_MOVE : END_FAIL;
	m->end_stage = bounce;
	return true;
}

int pass_tell_late(struct pepsi_msg *m)
{
	int64_t at;
	char mode;
	size_t n = m->end_n_keep;
	const uint32_t *idx = m->end_keep;
	if (!(m->env->mod->stage.caps & PEPSI_CAP_DELIVER) || !m->env->bounce || !m->mail_from0.n || !deadline(m, &at, &mode) || mode != 'N' ||
	    told(m) || clock_wall_us() / US_PER_S < at)
		return 0;
	if (!idx && !(idx = pass_left(m, &n)))
		return -1;
	struct json_object *o = report(m, at, false, pass_reason(m)), *by = NULL;
	int ret = -1;
	if (o && pass_clone_add(m, m->env->bounce, idx, n, o) == PEPSI_OK &&
	    json_object_deep_copy(state_at(m->state, "deliver_by"), &by, NULL) == 0 &&
	    json_object_object_add(by, "told", json_object_new_boolean(1)) == 0) {
		ret = pass_merge_key(m, "deliver_by", by);
		by = NULL;
		log_info(&m->log, "event=deadline mode=N at=%lld", (long long)at);
	}
	json_object_put(by);
	json_object_put(o);
	return ret;
}
