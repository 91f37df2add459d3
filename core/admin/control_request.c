/* Parsing of control requests with json-c. Its tokener is lax (single quotes, NaN, saturated integers, \u0000), so every
 * value is held against type, range and content here before anybody uses it. */
#include "control_request.h"

#include "base/log.h"
#include "proto/dns/address.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEPTH_MAX = 4 }; /* request, args, ids, and one to spare */

#define ARG_STAGE 1u
#define ARG_STATUS 2u
#define ARG_SENDER 4u
#define ARG_RECIPIENT 8u
#define ARG_IDS 16u
#define ARG_AFTER 32u
#define ARG_LIMIT 64u
#define ARG_ALL 128u
#define ARG_TO 256u
#define ARG_NAME 512u
#define ARG_TYPE 1024u
#define ARG_DRY_RUN 2048u
#define ARG_ACTION 4096u
#define ARG_CLIENT 8192u
#define ARG_REASON 16384u
#define ARG_FOR 32768u
#define ARG_FILTER (ARG_STAGE | ARG_STATUS | ARG_SENDER | ARG_RECIPIENT | ARG_LIMIT)
#define ARG_SELECT (ARG_FILTER | ARG_IDS | ARG_ALL | ARG_DRY_RUN)
#define ARG_RULE (ARG_ACTION | ARG_SENDER | ARG_RECIPIENT | ARG_CLIENT | ARG_STAGE | ARG_TO | ARG_REASON | ARG_FOR | ARG_DRY_RUN)

static const struct command {
	const char *name;
	enum control_cmd cmd;
	unsigned flags, args;
} commands[] = {
	{ "ping", CONTROL_PING, CONTROL_OPEN, 0 },
	{ "status", CONTROL_STATUS, CONTROL_OPEN, 0 },
	{ "queue.list", CONTROL_QUEUE_LIST, CONTROL_DATABASE, ARG_FILTER | ARG_AFTER },
	{ "queue.show", CONTROL_QUEUE_SHOW, CONTROL_DATABASE, ARG_IDS },
	{ "queue.cat", CONTROL_QUEUE_CAT, CONTROL_DATABASE, ARG_IDS },
	{ "queue.delete", CONTROL_QUEUE_DELETE, CONTROL_DATABASE | CONTROL_CHANGES | CONTROL_SELECTS, ARG_SELECT },
	{ "queue.retry", CONTROL_QUEUE_RETRY, CONTROL_DATABASE | CONTROL_CHANGES | CONTROL_SELECTS, ARG_SELECT },
	{ "queue.set-stage", CONTROL_QUEUE_SET_STAGE, CONTROL_DATABASE | CONTROL_CHANGES | CONTROL_SELECTS,
	    ARG_SELECT | ARG_TO },
	{ "queue.hold", CONTROL_QUEUE_HOLD, CONTROL_DATABASE | CONTROL_CHANGES | CONTROL_SELECTS, ARG_SELECT | ARG_REASON },
	{ "queue.release", CONTROL_QUEUE_RELEASE, CONTROL_DATABASE | CONTROL_CHANGES | CONTROL_SELECTS, ARG_SELECT },
	{ "rule.add", CONTROL_RULE_ADD, CONTROL_DATABASE | CONTROL_CHANGES, ARG_RULE },
	{ "rule.list", CONTROL_RULE_LIST, CONTROL_DATABASE, ARG_ACTION },
	{ "rule.remove", CONTROL_RULE_REMOVE, CONTROL_DATABASE | CONTROL_CHANGES, ARG_IDS },
	{ "config.show", CONTROL_CONFIG_SHOW, 0, 0 },
	{ "dns", CONTROL_DNS, 0, ARG_NAME | ARG_TYPE },
	{ "reload", CONTROL_RELOAD, CONTROL_CHANGES, 0 },
	{ "stop", CONTROL_STOP, CONTROL_CHANGES, 0 },
	{ "recipient.test", CONTROL_RECIPIENT_TEST, 0, ARG_RECIPIENT },
	{ "reports", CONTROL_REPORTS, 0, ARG_STAGE },
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

struct fault {
	char *text;
	size_t size;
};

static int fail(struct fault *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int fail(struct fault *f, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(f->text, f->size, fmt, ap);
	va_end(ap);
	return -1;
}

static int take_text(const char *key, struct json_object *v, char **ret, struct fault *f)
{
	if (!json_object_is_type(v, json_type_string))
		return fail(f, "argument %s must be text", key);
	struct str s = str_n(json_object_get_string(v), (size_t)json_object_get_string_len(v));
	if (!s.n || s.n > CONTROL_TEXT_MAX)
		return fail(f, "argument %s must have 1 to %d octets", key, CONTROL_TEXT_MAX);
	/* json-c lets \u0000 and lone surrogates through */
	if (memchr(s.p, 0, s.n) || !str_is_utf8(s))
		return fail(f, "argument %s is not plain text", key);
	if (!(*ret = str_dupz(s)))
		return fail(f, "out of memory");
	return 0;
}

static int take_int(const char *key, struct json_object *v, int64_t max, int64_t *ret, struct fault *f)
{
	/* saturated values are INT64_MAX, which max never is */
	if (!json_object_is_type(v, json_type_int) || json_object_get_int64(v) < 1 || json_object_get_int64(v) > max)
		return fail(f, "argument %s must be a whole number from 1 to %" PRId64, key, max);
	*ret = json_object_get_int64(v);
	return 0;
}

static int take_ids(struct json_object *v, struct control_request *r, struct fault *f)
{
	if (!json_object_is_type(v, json_type_array))
		return fail(f, "argument ids must be an array");
	size_t n = json_object_array_length(v);
	if (!n || n > CONTROL_IDS_MAX)
		return fail(f, "argument ids must hold 1 to %d ids", CONTROL_IDS_MAX);
	if (!(r->ids = calloc(n, sizeof *r->ids)))
		return fail(f, "out of memory");
	for (size_t i = 0; i < n; i++)
		if (take_int("ids", json_object_array_get_idx(v, i), INT64_MAX - 1, &r->ids[i], f))
			return -1;
	r->n_ids = n;
	return 0;
}

static int take_status(struct control_request *r, struct fault *f)
{
	static const char *const known[] = { "pending", "running", "paused", "failed", "timeout", "held" };
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!strcmp(known[i], r->status))
			return 0;
	return fail(f, "unknown status %s: pending, running, paused, failed, timeout or held", log_qz(r->status));
}

static int take_arg(struct control_request *r, unsigned allowed, const char *key, struct json_object *v, struct fault *f)
{
	static const struct {
		const char *key;
		unsigned bit;
	} args[] = {
		{ "stage", ARG_STAGE }, { "status", ARG_STATUS }, { "sender", ARG_SENDER }, { "recipient", ARG_RECIPIENT },
		{ "ids", ARG_IDS }, { "after_id", ARG_AFTER }, { "limit", ARG_LIMIT }, { "all", ARG_ALL }, { "to", ARG_TO },
		{ "name", ARG_NAME }, { "type", ARG_TYPE }, { "dry_run", ARG_DRY_RUN }, { "action", ARG_ACTION }, { "client", ARG_CLIENT },
		{ "reason", ARG_REASON }, { "for", ARG_FOR },
	};
	unsigned bit = 0;
	int64_t n;
	for (size_t i = 0; i < sizeof args / sizeof *args; i++)
		if (!strcmp(args[i].key, key))
			bit = args[i].bit;
	if (!(bit & allowed))
		return fail(f, "%s takes no argument %s", r->name, log_qz(key));
	switch (bit) {
	case ARG_STAGE:
		return take_text(key, v, &r->stage, f);
	case ARG_STATUS:
		return take_text(key, v, &r->status, f) || take_status(r, f) ? -1 : 0;
	case ARG_SENDER:
		return take_text(key, v, &r->sender, f);
	case ARG_RECIPIENT:
		return take_text(key, v, &r->recipient, f);
	case ARG_TO:
		return take_text(key, v, &r->to, f);
	case ARG_NAME:
		return take_text(key, v, &r->name_asked, f);
	case ARG_TYPE:
		return take_text(key, v, &r->type, f);
	case ARG_ACTION:
		if (take_text(key, v, &r->action, f))
			return -1;
		return !strcmp(r->action, "hold") || !strcmp(r->action, "reroute") ? 0 : fail(f, "argument action must be hold or reroute");
	case ARG_CLIENT:
		return take_text(key, v, &r->client, f);
	case ARG_REASON:
		return take_text(key, v, &r->reason, f);
	case ARG_FOR:
		if (take_int(key, v, CONTROL_FOR_MAX, &n, f))
			return -1;
		r->for_s = (unsigned)n;
		return 0;
	case ARG_IDS:
		return take_ids(v, r, f);
	case ARG_AFTER:
		return take_int(key, v, INT64_MAX - 1, &r->after_id, f);
	case ARG_LIMIT:
		if (take_int(key, v, CONTROL_LIMIT_MAX, &n, f))
			return -1;
		r->limit = (unsigned)n;
		return 0;
	default:
		if (!json_object_is_type(v, json_type_boolean))
			return fail(f, "argument %s must be true or false", key);
		*(bit == ARG_ALL ? &r->all : &r->dry_run) = json_object_get_boolean(v);
		return 0;
	}
}

/* What could never match is a slip: it would look as if it were in force. */
static int check_rule(const struct control_request *r, struct fault *f)
{
	if (!r->action)
		return fail(f, "%s needs an action", r->name);
	if (!r->sender && !r->recipient && !r->client && !r->stage)
		return fail(f, "%s needs a sender, a recipient, a client or a stage", r->name);
	if ((r->action[0] == 'r') != !!r->to)
		return fail(f, r->to ? "a rule that holds has no stage to go to" : "a rule that reroutes needs the stage to go to");
	if ((r->sender && !strchr(r->sender, '@') && strcmp(r->sender, "<>") != 0) || (r->recipient && !strchr(r->recipient, '@')))
		return fail(f, "an address is local@domain, or @domain for everybody there");
	return 0;
}

/* Patterns are compared in this form: bücher.example and xn--bcher-kva.example are one domain, whoever wrote which. */
static int fold_pattern(char **pattern, struct fault *f)
{
	struct buf b = BUF_INIT(CONTROL_TEXT_MAX * 4);
	char *folded = *pattern && dns_address_fold(str_from(*pattern), &b) == 0 ? str_dupz(buf_str(&b)) : NULL;
	bool failed = *pattern && !folded;
	buf_free(&b);
	if (failed)
		return fail(f, "out of memory");
	free(*pattern);
	*pattern = folded;
	return 0;
}

static int check_whole(const struct control_request *r, struct fault *f)
{
	bool filter = r->stage || r->status || r->sender || r->recipient;
	if ((r->cmd == CONTROL_QUEUE_SHOW || r->cmd == CONTROL_QUEUE_CAT) && r->n_ids != 1)
		return fail(f, "%s needs exactly one id", r->name);
	if (r->cmd == CONTROL_RECIPIENT_TEST && !r->recipient)
		return fail(f, "%s needs the recipient", r->name);
	if (r->cmd == CONTROL_QUEUE_SET_STAGE && !r->to)
		return fail(f, "%s needs the stage to go to", r->name);
	if (r->cmd == CONTROL_RULE_ADD && check_rule(r, f))
		return -1;
	if (r->cmd == CONTROL_RULE_REMOVE && r->n_ids != 1)
		return fail(f, "%s needs exactly one id", r->name);
	if (r->cmd == CONTROL_DNS && (!r->name_asked || !r->type))
		return fail(f, "%s needs a name and a type of record", r->name);
	if (!(r->flags & CONTROL_SELECTS))
		return 0;
	if (!r->n_ids && !filter && !r->all)
		return fail(f, "%s needs ids or a filter, or \"all\" to take every message", r->name);
	if (r->n_ids && (filter || r->limit || r->all))
		return fail(f, "%s takes either ids or filters", r->name);
	return 0;
}

static int take_command(struct json_object *root, struct control_request *r, unsigned *ret_args, struct fault *f,
    char *hint, size_t hint_size)
{
	struct json_object *cmd = NULL;
	const char *names[N_COMMANDS];
	if (!json_object_object_get_ex(root, "cmd", &cmd) || !json_object_is_type(cmd, json_type_string))
		return fail(f, "the request has no command");
	struct str name = str_n(json_object_get_string(cmd), (size_t)json_object_get_string_len(cmd));
	for (size_t i = 0; i < N_COMMANDS; i++) {
		names[i] = commands[i].name;
		if (!str_eq(name, str_from(names[i])))
			continue;
		r->cmd = commands[i].cmd;
		r->name = commands[i].name;
		r->flags = commands[i].flags;
		*ret_args = commands[i].args;
		return 0;
	}
	const char *near = str_nearest(name, names, N_COMMANDS);
	if (near)
		snprintf(hint, hint_size, "did you mean %s?", near);
	return fail(f, "unknown command %s", log_q(name));
}

static int take_root(struct json_object *root, struct control_request *r, struct fault *f, char *hint, size_t hint_size)
{
	unsigned allowed = 0;
	struct json_object *args = NULL;
	if (!json_object_is_type(root, json_type_object))
		return fail(f, "the request is not a JSON object");
	if (take_command(root, r, &allowed, f, hint, hint_size))
		return -1;
	json_object_object_foreach(root, key, v)
	{
		if (!strcmp(key, "args"))
			args = v;
		else if (strcmp(key, "cmd") != 0)
			return fail(f, "unknown member %s", log_qz(key));
	}
	if (args) {
		if (!json_object_is_type(args, json_type_object))
			return fail(f, "args is not a JSON object");
		json_object_object_foreach(args, name, value)
			if (take_arg(r, allowed, name, value, f))
				return -1;
	}
	if (check_whole(r, f))
		return -1;
	bool patterns = r->cmd == CONTROL_RULE_ADD || r->cmd == CONTROL_QUEUE_LIST || r->flags & CONTROL_SELECTS;
	return patterns && (fold_pattern(&r->sender, f) || fold_pattern(&r->recipient, f)) ? -1 : 0;
}

int control_request_parse(struct str line, struct control_request *ret, char *err, size_t err_size, char *hint,
    size_t hint_size)
{
	struct fault f = { err, err_size };
	*ret = (struct control_request){ .name = "" };
	err[0] = 0;
	hint[0] = 0;
	if (line.n >= CONTROL_LINE_MAX)
		return fail(&f, "the request is longer than %d octets", CONTROL_LINE_MAX);
	struct json_tokener *tok = json_tokener_new_ex(DEPTH_MAX);
	if (!tok)
		return fail(&f, "out of memory");
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	struct json_object *root = json_tokener_parse_ex(tok, line.p ? line.p : "", (int)line.n);
	enum json_tokener_error e = json_tokener_get_error(tok);
	int rc;
	if (e == json_tokener_continue)
		rc = fail(&f, "the request is not whole JSON");
	else if (e != json_tokener_success)
		rc = fail(&f, "the request is not JSON: %s", json_tokener_error_desc(e));
	else if (str_trim(str_skip(line, json_tokener_get_parse_end(tok))).n)
		rc = fail(&f, "text behind the request");
	else
		rc = take_root(root, ret, &f, hint, hint_size);
	json_object_put(root);
	json_tokener_free(tok);
	return rc;
}

void control_request_done(struct control_request *r)
{
	free(r->stage);
	free(r->status);
	free(r->sender);
	free(r->recipient);
	free(r->to);
	free(r->name_asked);
	free(r->type);
	free(r->action);
	free(r->client);
	free(r->reason);
	free(r->ids);
	*r = (struct control_request){ .name = "" };
}

static void put(char *out, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void put(char *out, size_t size, const char *fmt, ...)
{
	size_t n = strlen(out);
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(out + n, size - n, fmt, ap);
	va_end(ap);
}

void control_request_describe(const struct control_request *r, char *out, size_t size)
{
	const struct {
		const char *key, *value;
	} texts[] = {
		{ "stage", r->stage }, { "status", r->status }, { "sender", r->sender }, { "recipient", r->recipient },
		{ "to", r->to }, { "action", r->action }, { "client", r->client }, { "reason", r->reason },
	};
	out[0] = 0;
	for (size_t i = 0; i < r->n_ids && i < 20; i++)
		put(out, size, "%s%" PRId64, i ? "," : "ids=", r->ids[i]);
	if (r->n_ids > 20)
		put(out, size, ",… n_ids=%zu", r->n_ids);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (texts[i].value)
			put(out, size, "%s%s=%s", out[0] ? " " : "", texts[i].key, log_qz(texts[i].value));
	if (r->limit)
		put(out, size, "%slimit=%u", out[0] ? " " : "", r->limit);
	if (r->all)
		put(out, size, "%sall=yes", out[0] ? " " : "");
	if (r->for_s)
		put(out, size, "%sfor_s=%u", out[0] ? " " : "", r->for_s);
	if (r->dry_run)
		put(out, size, "%sdry_run=yes", out[0] ? " " : "");
}
