/* The recording host. Does what <pepsi/stage.h> says as far as the modules under test use it. */
#include "fake_host.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

int64_t fake_now_us = INT64_C(1796038764) * 1000000;

static const struct pepsi_option *option(const struct pepsi_conf *c, const char *name)
{
	for (size_t i = 0; i < c->n_options; i++)
		if (!strcmp(c->options[i].name, name))
			return &c->options[i];
	fail_msg("module asked for the unknown option %s", name);
	return NULL;
}

static const char *conf_str(const struct pepsi_conf *cc, const char *name)
{
	struct pepsi_conf *c = (struct pepsi_conf *)(uintptr_t)cc;
	const struct pepsi_option *o = option(c, name);
	size_t n = strlen(name);
	for (const char *p = c->text; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
		if (!strncmp(p, name, n) && p[n] == '=') {
			char *v = c->values[c->next++ % (sizeof c->values / sizeof *c->values)];
			snprintf(v, sizeof c->values[0], "%.*s", (int)strcspn(p + n + 1, "\n"), p + n + 1);
			return v;
		}
	return o->def;
}

/* An option of the table by its full name: "TLS_POLICY_1=…" for "TLS_POLICY_*". */
static int32_t conf_multi(const struct pepsi_conf *cc, const char *name, size_t i, const char **ret_name, const char **ret_value)
{
	struct pepsi_conf *c = (struct pepsi_conf *)(uintptr_t)cc;
	size_t n = strlen(name) - 1;
	option(c, name);
	for (const char *p = c->text; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
		size_t key = strcspn(p, "=");
		if (strncmp(p, name, n) != 0 || i--)
			continue;
		char *k = c->values[c->next++ % (sizeof c->values / sizeof *c->values)], *v = c->values[c->next++ % (sizeof c->values / sizeof *c->values)];
		snprintf(k, sizeof c->values[0], "%.*s", (int)key, p);
		snprintf(v, sizeof c->values[0], "%.*s", (int)strcspn(p + key + 1, "\n"), p + key + 1);
		*ret_name = k;
		*ret_value = v;
		return PEPSI_OK;
	}
	return PEPSI_NONE;
}

/* "5 min" and the like, as the host parses them */
static int64_t conf_int(const struct pepsi_conf *c, const char *name)
{
	static const struct {
		const char *unit;
		int64_t n;
	} units[] = { { "s", 1 }, { "min", 60 }, { "h", 3600 }, { "d", 86400 }, { "KiB", 1024 }, { "MiB", 1048576 } };
	const char *s = conf_str(c, name);
	char *end;
	if (!s)
		return 0;
	if (!strcmp(s, "YES") || !strcmp(s, "NO"))
		return s[0] == 'Y';
	int64_t n = strtoll(s, &end, 10);
	while (*end == ' ')
		end++;
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (!strcmp(end, units[i].unit))
			return n * units[i].n;
	assert_int_equal(*end, 0);
	return n;
}

static const char *conf_stage_name(const struct pepsi_conf *c)
{
	return c->stage;
}

static const char *conf_global(const struct pepsi_conf *c, const char *section, const char *name)
{
	if (!strcmp(section, "pepsi") && !strcmp(name, "STATE_DIR"))
		return "/state";
	if (!strcmp(section, "token-office") && !strcmp(name, "CLIENT_ID"))
		return "us";
	if (!strcmp(section, "pepsi") && !strcmp(name, "LOCAL_DOMAINS"))
		return c->local_domains;
	return !strcmp(section, "pepsi") && !strcmp(name, "HOSTNAME") ? c->hostname : NULL;
}

static void report(struct pepsi_report *r, const char *name, const char *text)
{
	buf_addf(&r->text, "%s: %s\n", name ? name : "-", text);
}

static int64_t id(struct pepsi_msg *m)
{
	return m->id;
}

static int64_t received_at(struct pepsi_msg *m)
{
	return m->received_at;
}

static struct pepsi_str from_z(const char *z)
{
	return (struct pepsi_str){ z, z ? strlen(z) : 0 };
}

static struct pepsi_str mail_from(struct pepsi_msg *m)
{
	return from_z(m->mail_from);
}

static size_t n_rcpt(struct pepsi_msg *m)
{
	struct str rest = str_from(m->rcpts), w;
	size_t n = 0;
	while (str_word(&rest, " ", &w))
		n++;
	return n;
}

static struct pepsi_str rcpt(struct pepsi_msg *m, size_t i)
{
	struct str rest = str_from(m->rcpts), w;
	while (str_word(&rest, " ", &w))
		if (!i--)
			return (struct pepsi_str){ w.p, w.n };
	return (struct pepsi_str){ NULL, 0 };
}

static struct pepsi_str state(struct pepsi_msg *m)
{
	return from_z(m->state ? m->state : "{}");
}

static int32_t state_get(struct pepsi_msg *m, const char *path, struct pepsi_str *ret)
{
	struct str rest = str_from(path), w;
	if (!m->parsed)
		m->parsed = json_tokener_parse(m->state ? m->state : "{}");
	if (!m->parsed) /* a state that is none has nothing */
		return PEPSI_NONE;
	struct json_object *o = m->parsed;
	while (str_word(&rest, ".", &w)) {
		char key[64];
		uint64_t i;
		snprintf(key, sizeof key, "%.*s", STR_ARG(w));
		if (json_object_is_type(o, json_type_array))
			o = str_u64(w, 100000, &i) ? NULL : json_object_array_get_idx(o, i);
		else if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, key, &o))
			o = NULL;
		if (!o)
			return PEPSI_NONE;
	}
	if (json_object_is_type(o, json_type_string))
		*ret = (struct pepsi_str){ json_object_get_string(o), (size_t)json_object_get_string_len(o) };
	else
		*ret = from_z(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
	return PEPSI_OK;
}

static const char *next_stage(struct pepsi_msg *m)
{
	return m->next_stage;
}

static const char *bounce_stage(struct pepsi_msg *m)
{
	return m->bounce_stage;
}

static int64_t lifetime_left(struct pepsi_msg *m)
{
	return m->lifetime_left;
}

static int64_t runtime_left_ms(struct pepsi_msg *m)
{
	return m->runtime_left_ms;
}

static int32_t headers(struct pepsi_msg *m, struct pepsi_str *ret)
{
	*ret = m->headers;
	return PEPSI_OK;
}

static int32_t body(struct pepsi_msg *m, struct pepsi_str *ret)
{
	*ret = m->body;
	return PEPSI_OK;
}

static int32_t set_headers(struct pepsi_msg *m, struct pepsi_str s)
{
	buf_reset(&m->new_headers);
	buf_add(&m->new_headers, s.p, s.n);
	return buf_addz(&m->calls, "set_headers\n");
}

static int32_t set_body(struct pepsi_msg *m, struct pepsi_str s)
{
	buf_reset(&m->new_body);
	buf_add(&m->new_body, s.p, s.n);
	return buf_addz(&m->calls, "set_body\n");
}

static int32_t set_mail_from(struct pepsi_msg *m, struct pepsi_str s)
{
	return buf_addf(&m->calls, "set_mail_from <%.*s>\n", (int)s.n, s.n ? s.p : "");
}

static int32_t set_rcpt_to(struct pepsi_msg *m, const struct pepsi_str *s, size_t n)
{
	buf_addz(&m->calls, "set_rcpt_to");
	for (size_t i = 0; i < n; i++)
		buf_addf(&m->calls, " <%.*s>", (int)s[i].n, s[i].p);
	return buf_addz(&m->calls, "\n");
}

static int32_t merge_state(struct pepsi_msg *m, const char *json)
{
	return buf_addf(&m->calls, "merge_state %s\n", json);
}

static int32_t clear_state(struct pepsi_msg *m)
{
	return buf_addz(&m->calls, "clear_state\n");
}

static int32_t advance(struct pepsi_msg *m)
{
	if (!m->next_stage)
		return PEPSI_MISUSE;
	return buf_addz(&m->calls, "advance\n");
}

static int32_t advance_to(struct pepsi_msg *m, const char *stage)
{
	return buf_addf(&m->calls, "advance_to %s\n", stage);
}

static int32_t reroute(struct pepsi_msg *m, const char *stage, const char *json)
{
	return buf_addf(&m->calls, "reroute %s %s\n", stage, json ? json : "-");
}

static int32_t pause_(struct pepsi_msg *m, const char *json, uint32_t secs)
{
	return buf_addf(&m->calls, "pause %u %s\n", secs, json ? json : "-");
}

static void indices(struct pepsi_msg *m, const uint32_t *i, size_t n)
{
	buf_addz(&m->calls, i ? " [" : " [all");
	for (size_t k = 0; i && k < n; k++)
		buf_addf(&m->calls, k ? " %u" : "%u", i[k]);
	buf_addz(&m->calls, "]");
}

static void clones(struct pepsi_msg *m, const struct pepsi_clone *c, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(c[i].abi.size, sizeof *c);
		buf_addf(&m->calls, "  clone %s status %u retry %u", c[i].stage, c[i].status, c[i].retry_s);
		indices(m, c[i].indices, c[i].n);
		buf_addf(&m->calls, " %s\n", c[i].state ? c[i].state : "-");
	}
}

static int32_t pause_with(struct pepsi_msg *m, const char *json, uint32_t secs, const uint32_t *keep, size_t n_keep,
    const struct pepsi_clone *c, size_t n)
{
	buf_addf(&m->calls, "pause_with %u", secs);
	indices(m, keep, n_keep);
	buf_addf(&m->calls, " %s\n", json ? json : "-");
	clones(m, c, n);
	return PEPSI_OK;
}

static int32_t fail_(struct pepsi_msg *m, const char *json)
{
	return buf_addf(&m->calls, "fail %s\n", json ? json : "-");
}

static int32_t finish(struct pepsi_msg *m)
{
	return buf_addz(&m->calls, "finish\n");
}

static int32_t advance_or_finish(struct pepsi_msg *m)
{
	return buf_addz(&m->calls, "advance_or_finish\n");
}

static int32_t complete_success(struct pepsi_msg *m, const uint32_t *i, size_t n, uint32_t here)
{
	buf_addf(&m->calls, "complete_success");
	indices(m, i, n);
	return buf_addf(&m->calls, " dsn_here %u\n", here);
}

static int32_t fan_out(struct pepsi_msg *m, const struct pepsi_clone *c, size_t n, const uint32_t *keep, size_t n_keep)
{
	buf_addz(&m->calls, "fan_out keep");
	indices(m, keep, n_keep);
	buf_addz(&m->calls, "\n");
	clones(m, c, n);
	return PEPSI_OK;
}

static void log_(struct pepsi_msg *m, int32_t level, const char *text)
{
	if (m)
		buf_addf(&m->log, "%d %s\n", level, text);
	else
		print_error("module says: %s\n", text);
}

static int64_t now_us(void)
{
	return fake_now_us;
}

static int32_t more_waiting(struct pepsi_msg *m)
{
	(void)m;
	return 0;
}

const struct pepsi_host fake_host = { .abi = PEPSI_ABI_OF(struct pepsi_host), .conf_str = conf_str, .conf_int = conf_int, .conf_multi = conf_multi,
	.conf_stage_name = conf_stage_name, .conf_global = conf_global, .report = report, .id = id, .received_at = received_at,
	.mail_from = mail_from, .n_rcpt = n_rcpt, .rcpt = rcpt, .state = state, .state_get = state_get,
	.next_stage = next_stage, .bounce_stage = bounce_stage, .lifetime_left = lifetime_left,
	.runtime_left_ms = runtime_left_ms, .headers = headers, .body = body, .set_headers = set_headers, .set_body = set_body,
	.set_mail_from = set_mail_from, .set_rcpt_to = set_rcpt_to, .merge_state = merge_state, .clear_state = clear_state,
	.advance = advance, .advance_to = advance_to, .reroute = reroute, .pause = pause_, .pause_with = pause_with, .fail = fail_, .finish = finish,
	.advance_or_finish = advance_or_finish, .complete_success = complete_success, .fan_out = fan_out, .log = log_,
	.now_us = now_us, .more_waiting = more_waiting };

void fake_done(struct pepsi_msg *m)
{
	json_object_put(m->parsed);
	m->parsed = NULL;
	buf_free(&m->calls);
	buf_free(&m->log);
	buf_free(&m->new_headers);
	buf_free(&m->new_body);
}
