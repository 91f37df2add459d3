/* The tokens of a configuration for pepsi status and /metrics: times and the last error out of the state files, a few hundred octets each. */
#include "token.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <time.h>

struct json_object *token_report(const struct config *c, int64_t now)
{
	struct json_object *list = json_object_new_array();
	char *dir = config_path(c, "pepsi", "STATE_DIR");
	const char *name;
	for (size_t i = 0; dir && i < TOKEN_REPORT_MAX && (name = token_name(c, i)); i++) {
		struct token_state s;
		struct json_object *o = json_object_new_object();
		int r = token_state_read(dir, name, &s);
		const char *alarm = r > 0 ? "nobody has signed in for it yet: pepsi token sign-in" : r < 0 ? "its state cannot be read" : token_alarm(&s, now);
		json_object_object_add(o, "name", json_object_new_string(name));
		json_object_object_add(o, "valid", json_object_new_boolean(r == 0 && s.access_expires > now));
		if (r == 0) {
			json_object_object_add(o, "access_expires", json_object_new_int64(s.access_expires));
			json_object_object_add(o, "refreshed_at", json_object_new_int64(s.refreshed_at));
			json_object_object_add(o, "refresh_obtained", json_object_new_int64(s.refresh_obtained));
			if (s.refresh_expires)
				json_object_object_add(o, "refresh_expires", json_object_new_int64(s.refresh_expires));
			json_object_object_add(o, "failures", json_object_new_int64(s.failures));
			json_object_object_add(o, "refused", json_object_new_boolean(s.refused));
			if (s.error_at) {
				json_object_object_add(o, "error", json_object_new_string(s.error));
				json_object_object_add(o, "error_at", json_object_new_int64(s.error_at));
			}
		}
		if (alarm)
			json_object_object_add(o, "alarm", json_object_new_string(alarm));
		json_object_array_add(list, o);
	}
	free(dir);
	return list;
}

void token_status(const struct config *c, struct buf *json)
{
	struct json_object *list = token_report(c, (int64_t)time(NULL));
	buf_addz(json, json_object_to_json_string_ext(list, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(list);
}

static int64_t number(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;
	return json_object_object_get_ex(o, key, &v) ? json_object_get_int64(v) : 0;
}

void token_metrics(const struct config *c, struct buf *text)
{
	static const struct {
		const char *name, *help, *key;
	} gauges[] = {
		{ "pepsi_token_valid", "Is there an access token that is valid now?", "valid" },
		{ "pepsi_token_access_expires_timestamp_seconds", "When the access token expires; 0: there is none.", "access_expires" },
		{ "pepsi_token_refresh_expires_timestamp_seconds", "When the refresh token expires; 0: not known, or never.", "refresh_expires" },
		{ "pepsi_token_failures", "Refreshes that failed since the last one that did not.", "failures" },
		{ "pepsi_token_alarm", "Must somebody look after it: refused, expiring within 14 days, or not to be refreshed?", "alarm" },
	};
	struct json_object *list = token_report(c, (int64_t)time(NULL)), *v = NULL;
	size_t n = json_object_array_length(list);
	for (size_t k = 0; n && k < sizeof gauges / sizeof *gauges; k++) {
		buf_addf(text, "# HELP %s %s\n# TYPE %s gauge\n", gauges[k].name, gauges[k].help, gauges[k].name);
		for (size_t i = 0; i < n; i++) {
			struct json_object *o = json_object_array_get_idx(list, i);
			bool words = json_object_object_get_ex(o, gauges[k].key, &v) && json_object_is_type(v, json_type_string);
			json_object_object_get_ex(o, "name", &v);
			buf_addf(text, "%s{token=\"%s\"} %lld\n", gauges[k].name, json_object_get_string(v), words ? 1LL : (long long)number(o, gauges[k].key));
		}
	}
	json_object_put(list);
}
