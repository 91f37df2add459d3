/* The common parts of tool_reports.h. */
#include "tool_reports.h"

#include <event2/event.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { LIST_MAX = 100000, LIST_DEFAULT = 100, SHOWN_ROWS = 100000 };

int tool_sender_read(const struct tool_sender *s, const struct config *conf, const char *section, bool to_send)
{
	const char *host = config_str(conf, "pepsi", "HOSTNAME"), *org = config_str(conf, section, "ORG_NAME"), *contact = config_str(conf, section, "CONTACT");
	const char *from = config_str(conf, section, "FROM"), *stage = config_str(conf, section, "STAGE");
	if (to_send && (!from || !*from)) {
		cli_fail("[%s] FROM is not set: reports need a sender", section);
		return -1;
	}
	if (host && *host)
		snprintf(s->host, s->host_size, "%s", host);
	else if (gethostname(s->host, s->host_size - 1))
		snprintf(s->host, s->host_size, "localhost");
	snprintf(s->org, s->org_size, "%s", org && *org ? org : s->host);
	snprintf(s->from, s->from_size, "%s", from ? from : "");
	snprintf(s->stage, s->stage_size, "%s", stage && *stage ? stage : "init");
	const char *at = strrchr(s->from, '@');
	if (contact && *contact)
		snprintf(s->contact, s->contact_size, "%s", contact);
	else
		snprintf(s->contact, s->contact_size, "postmaster@%s", at ? at + 1 : s->host);
	return 0;
}

bool tool_day_ok(const struct cli *c, enum cli_opt opt)
{
	const char *text = c->args.value[opt];
	struct tm tm = { 0 };
	const char *end = text ? strptime(text, "%Y-%m-%d", &tm) : NULL;
	if (!text || (strlen(text) == 10 && end && !*end))
		return true;
	cli_usage(c, "--%s: \"%s\" is not a date such as 2026-11-30", cli_opts[opt].name, text);
	return false;
}

void tool_add_text(struct json_object *o, const char *key, const char *text)
{
	if (text)
		json_object_object_add(o, key, json_object_new_string(text));
}

struct json_object *tool_list_arguments(const struct cli *c)
{
	const char *limit = c->args.value[CLI_LIMIT];
	int64_t n = limit ? cli_number(c, "--limit", limit, 1, LIST_MAX) : LIST_DEFAULT;
	if (n < 0 || !tool_day_ok(c, CLI_DAY) || !tool_day_ok(c, CLI_SINCE))
		return NULL;
	struct json_object *o = json_object_new_object();
	json_object_object_add(o, "limit", json_object_new_int64(n));
	tool_add_text(o, "domain", c->args.value[CLI_DOMAIN]);
	tool_add_text(o, "day", c->args.value[CLI_DAY]);
	tool_add_text(o, "since", c->args.value[CLI_SINCE]);
	return o;
}

void tool_print_muted(struct json_object *o, const char *head, bool why)
{
	struct json_object *muted = cli_json_list(o, "muted");
	for (size_t i = 0; i < cli_json_length(muted); i++) {
		struct json_object *a = json_object_array_get_idx(muted, i);
		char until[32];
		cli_time(until, sizeof until, cli_json_int(a, "until"), false);
		if (!i)
			printf("\n%s\n", head);
		fputs("  ", stdout);
		cli_text_print(stdout, cli_json_text(a, "address"));
		printf(" until %s", until);
		if (why) {
			fputs(": ", stdout);
			cli_text_print(stdout, cli_json_text(a, "why"));
		}
		putchar('\n');
	}
}

void tool_print_summary(struct json_object *o, const struct tool_summary *parts)
{
	for (size_t i = 0; parts[i].member; i++) {
		struct json_object *list = cli_json_list(o, parts[i].member);
		if (parts[i].head)
			printf("\n%s\n\n", parts[i].head);
		cli_columns_print(parts[i].columns, list);
		if (!i && !cli_json_length(list))
			return;
	}
}

int tool_changed(struct cli *c, struct json_object *o, const char *no)
{
	bool answered = o != NULL, done = o && json_object_get_boolean(o);
	json_object_put(o);
	if (answered && !done)
		return cli_fail("%s %s", c->args.pos[0], no);
	if (done && c->json)
		puts("{\"ok\":true}");
	return done ? CLI_DONE : CLI_FAILED;
}

static int print_shown(struct cli *c, const struct tool_shown *k, const struct config *conf, struct json_object *list, struct json_object *rows)
{
	struct json_object *one = json_object_array_get_idx(list, 0);
	if (c->args.set & CLI_BIT(k->raw))
		return k->print_raw(conf, one, rows);
	if (c->json) {
		json_object_object_add(one, "items", json_object_get(rows));
		cli_json_print(one);
	} else {
		k->print(list, one);
		putchar('\n');
		cli_columns_print(k->rows, rows);
	}
	return CLI_DONE;
}

int tool_show(struct cli *c, const struct tool_shown *k)
{
	int64_t id = cli_number(c, "ID", c->args.pos[0], 1, INT64_MAX);
	if (id <= 0)
		return CLI_USAGE;
	struct tool_db db = { 0 };
	struct config *conf = service_config(c);
	struct json_object *args = json_object_new_object(), *o = NULL, *rows = NULL;
	int rc = CLI_FAILED;
	json_object_object_add(args, "limit", json_object_new_int(SHOWN_ROWS));
	json_object_object_add(args, "id", json_object_new_int64(id));
	if (!conf || tool_db_open(&db, conf) || !(o = k->ask(&db, false, json_object_get(args))))
		goto out;
	struct json_object *list = cli_json_list(o, "reports");
	if (!cli_json_length(list))
		cli_fail("there is no report %lld; %s list shows what there is", (long long)id, k->command);
	else if ((rows = k->ask(&db, true, json_object_get(args))))
		rc = print_shown(c, k, conf, list, rows);
out:
	json_object_put(rows);
	json_object_put(o);
	json_object_put(args);
	tool_db_close(&db);
	config_free(conf);
	return rc;
}

int tool_new_id(char out[33])
{
	unsigned char r[16];
	if (getrandom(r, sizeof r, 0) != sizeof r)
		return -1;
	for (size_t i = 0; i < sizeof r; i++)
		snprintf(out + 2 * i, 3, "%02x", r[i]);
	return 0;
}

bool tool_is_muted(struct json_object *list, const char *address)
{
	for (size_t i = 0; list && i < json_object_array_length(list); i++)
		if (str_ieq(cli_json_text(json_object_array_get_idx(list, i), "address"), str_from(address)))
			return true;
	return false;
}

struct looking {
	struct event_base *base;
	bool done;
	int rc;
};

static void looked(void *arg, int rc, const struct dns_answers *set)
{
	struct looking *k = arg;
	(void)set;
	k->done = true;
	k->rc = rc;
	event_base_loopbreak(k->base);
}

int tool_db_resolve(struct tool_db *db, struct net_dns *dns, unsigned seconds, unsigned queries, dns_evaluate_fn eval, void *arg)
{
	struct looking k = { .base = db->base };
	struct net_dns_group *g = net_dns_group_new(dns, seconds * INT64_C(1000000), queries);
	if (!g || !net_dns_evaluate(g, eval, arg, looked, &k)) {
		net_dns_group_free(g);
		return -1;
	}
	while (!k.done)
		if (event_base_dispatch(db->base))
			break;
	net_dns_group_free(g);
	return k.done && k.rc == DNS_DONE ? 0 : -1;
}
