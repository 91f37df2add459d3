/* pepsi sts: what is known of other domains' security. Policies of MTA-STS as workers keep them, one fetched now through the fetching child, and
 * domains that are protected less than before, and addresses that fail. Works on the database itself; pepsid must run for a fetch. */
#include "tool_db.h"
#include "net/dns.h"
#include "proto/relay/sts_wire.h"
#include "tool_reports.h"
#include "tool_sts.h"
#include "worker/resolve.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { LIST_MAX = 100000, LIST_DEFAULT = 1000, FETCH_S = 60 };

/* -- the database */

static struct json_object *with_limit(const struct cli *c)
{
	const char *limit = c->args.value[CLI_LIMIT];
	int64_t n = limit ? cli_number(c, "--limit", limit, 1, LIST_MAX) : LIST_DEFAULT;
	if (n < 0)
		return NULL;
	struct json_object *o = json_object_new_object();
	json_object_object_add(o, "limit", json_object_new_int64(n));
	return o;
}

/* The operand as it is kept. 0, or CLI_USAGE after a message. */
static int domain_of(const struct cli *c, char out[DNS_NAME_MAX + 1])
{
	char url[DNS_NAME_MAX + 64];
	struct str s = str_from(c->args.pos[0]);
	if (sts_url(s, url, sizeof url) || dns_name_fold(s, out) < 0)
		return cli_usage(c, "\"%s\" is no name of a domain", c->args.pos[0]);
	return CLI_DONE;
}

/* -- list, show */

static struct str mode(struct json_object *p)
{
	return cli_json_text(p, "mode").n ? cli_json_text(p, "mode") : STR("-");
}

static struct str until(struct json_object *p)
{
	static char text[32];
	if (!cli_json_int(p, "expires"))
		return STR("-");
	cli_time(text, sizeof text, cli_json_int(p, "expires"), true);
	return cli_json_yes(p, "holds") ? str_from(text) : STR("over");
}

static void print_list(struct json_object *list)
{
	static const struct cli_column policies[] = {
		{ "DOMAIN", COLUMN_TEXT, .key = "domain", .max = 50 },
		{ "MODE", COLUMN_OWN, .own = mode },
		{ "HOLDS UNTIL (UTC)", COLUMN_OWN, .own = until },
		{ "FETCHED", COLUMN_TIME, .key = "fetched" },
		{ "USED", COLUMN_TIME, .key = "used" },
		{ "FAILURES", COLUMN_NUMBER, .key = "failures" },
		{ "WHY", COLUMN_TEXT, .key = "why" },
		{ 0 },
	};
	cli_columns_print(policies, list);
}

int tool_sts_list(struct cli *c)
{
	struct json_object *args = with_limit(c);
	return args ? tool_db_print(c, tool_db_once(c, STORE_STS_LIST, args), print_list) : CLI_USAGE;
}

static void print_time(const char *what, struct json_object *o, const char *key)
{
	char text[32];
	if (!cli_json_int(o, key))
		return;
	cli_time(text, sizeof text, cli_json_int(o, key), true);
	printf("%-12s%s\n", what, text);
}

static void print_policy(struct str body)
{
	struct str line;
	while (str_word(&body, "\r\n", &line)) {
		fputs("    ", stdout);
		cli_text_print(stdout, line);
		putchar('\n');
	}
}

static void print_one(struct json_object *p)
{
	printf("%-12s", "domain");
	cli_text_print(stdout, cli_json_text(p, "domain"));
	printf("\n%-12s%.*s%s\n", "mode", STR_ARG(cli_json_text(p, "mode").n ? cli_json_text(p, "mode") : STR("no policy is known")),
	    cli_json_text(p, "mode").n && !cli_json_yes(p, "holds") ? " (over)" : "");
	if (cli_json_text(p, "id").n)
		printf("%-12s%.*s\n", "id", STR_ARG(cli_json_text(p, "id")));
	print_time("fetched", p, "fetched");
	print_time("holds until", p, "expires");
	print_time("renewed", p, "due");
	print_time("used", p, "used");
	if (cli_json_int(p, "failures")) {
		print_time("failed", p, "failed");
		printf("%-12s%lld in a row, %.*s: ", "failures", (long long)cli_json_int(p, "failures"), STR_ARG(cli_json_text(p, "result")));
		cli_text_print(stdout, cli_json_text(p, "why"));
		putchar('\n');
	}
	if (cli_json_text(p, "best").n)
		printf("%-12s%.*s at best, %.*s last%s\n", "mail", STR_ARG(cli_json_text(p, "best")), STR_ARG(cli_json_text(p, "last")),
		    cli_json_yes(p, "weaker") ? ": less than before" : "");
	if (cli_json_text(p, "policy").n) {
		puts("policy");
		print_policy(cli_json_text(p, "policy"));
	}
}

int tool_sts_show(struct cli *c)
{
	char domain[DNS_NAME_MAX + 1];
	if (domain_of(c, domain))
		return CLI_USAGE;
	struct json_object *args = json_object_new_object();
	tool_add_text(args, "domain", domain);
	json_object_object_add(args, "limit", json_object_new_int(1));
	struct json_object *list = tool_db_once(c, STORE_STS_LIST, args), *one = cli_json_length(list) ? json_object_get(json_object_array_get_idx(list, 0)) : NULL;
	bool answered = list != NULL;
	json_object_put(list);
	if (answered && !one)
		return cli_fail("nothing is known of %s; pepsi sts fetch %s asks", domain, domain);
	return tool_db_print(c, one, print_one);
}

/* -- weaker, addresses */

static void print_weaker(struct json_object *list)
{
	static const struct cli_column domains[] = {
		{ "DOMAIN", COLUMN_TEXT, .key = "domain", .max = 50 },
		{ "BEST", COLUMN_TEXT, .key = "best" },
		{ "SEEN (UTC)", COLUMN_TIME, .key = "best_at" },
		{ "NOW", COLUMN_TEXT, .key = "last" },
		{ "SEEN", COLUMN_TIME, .key = "last_at" },
		{ "WARNED", COLUMN_TIME, .key = "told_at" },
		{ 0 },
	};
	cli_columns_print(domains, list);
}

int tool_sts_weaker(struct cli *c)
{
	struct json_object *args = with_limit(c);
	if (!args)
		return CLI_USAGE;
	json_object_object_add(args, "weaker", json_object_new_boolean(!(c->args.set & CLI_BIT(CLI_ALL))));
	return tool_db_print(c, tool_db_once(c, STORE_SECURITY_LIST, args), print_weaker);
}

static void print_addresses(struct json_object *list)
{
	static const struct cli_column addresses[] = {
		{ "ADDRESS", COLUMN_TEXT, .key = "address" },
		{ "HOST", COLUMN_TEXT, .key = "host", .max = 50 },
		{ "LAST SUCCESS (UTC)", COLUMN_TIME, .key = "ok" },
		{ "LAST FAILURE", COLUMN_TIME, .key = "failed" },
		{ "FAILURES", COLUMN_NUMBER, .key = "failures" },
		{ "LEFT ALONE UNTIL", COLUMN_TIME, .key = "until" },
		{ "WHY", COLUMN_TEXT, .key = "why" },
		{ 0 },
	};
	cli_columns_print(addresses, list);
}

int tool_sts_addresses(struct cli *c)
{
	struct json_object *args = with_limit(c);
	if (!args)
		return CLI_USAGE;
	if (c->args.n_pos)
		tool_add_text(args, "host", c->args.pos[0]);
	return tool_db_print(c, tool_db_once(c, STORE_ADDRESS_LIST, args), print_addresses);
}

/* -- forget */

int tool_sts_forget(struct cli *c)
{
	static const enum store_destinations_question questions[] = { STORE_STS_FORGET, STORE_SECURITY_FORGET };
	char domain[DNS_NAME_MAX + 1];
	bool known = false;
	if (domain_of(c, domain))
		return CLI_USAGE;
	for (size_t i = 0; i < 2; i++) {
		struct json_object *args = json_object_new_object();
		tool_add_text(args, "domain", domain);
		struct json_object *o = tool_db_once(c, questions[i], args);
		if (!o)
			return CLI_FAILED;
		known |= json_object_get_boolean(o);
		json_object_put(o);
	}
	if (!known)
		return cli_fail("nothing was known of %s", domain);
	if (c->json)
		puts("{\"ok\":true}");
	return CLI_DONE;
}

/* -- fetch */

static int look_up(const struct config *conf, struct sts_lookup *l)
{
	struct net_dns_settings s;
	char name[DNS_NAME_MAX + 16], err[256];
	struct str txt[STS_TXT_MAX];
	size_t n = 0;
	if (resolve_settings(conf, &s, err, sizeof err))
		return cli_fail("%s", err);
	struct event_base *base = event_base_new();
	struct net_dns *dns = base ? net_dns_new(base, &s) : NULL;
	struct net_dns_group *g = dns ? net_dns_group_new(dns, 0, 0) : NULL;
	struct dns_answer *a = g && sts_lookup_name(l->domain, name, sizeof name) == 0 ? net_dns_wait(g, str_from(name), DNS_TXT) : NULL;
	l->state = STS_TXT_UNKNOWN;
	l->reason = "its record cannot be looked up";
	for (size_t i = 0; a && i < a->n_rr && n < STS_TXT_MAX; i++)
		if (sts_record_is(a->rr[i].data))
			txt[n++] = a->rr[i].data;
	if (a && a->status != DNS_TEMPFAIL)
		sts_lookup_records(l, txt, n);
	dns_answer_unref(a);
	net_dns_group_free(g);
	net_dns_free(dns);
	if (base)
		event_base_free(base);
	return CLI_DONE;
}

/* One question to the child, waited for. CLI_DONE with the answer in answer (pointing into in), or CLI_FAILED after a message. */
static int ask_child(const struct config *conf, struct str domain, struct buf *in, struct sts_wire_answer *answer)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = FETCH_S };
	struct buf question = BUF_INIT(STS_WIRE_REQUEST_MAX);
	struct ucred who = { .uid = 0 };
	socklen_t size = sizeof who;
	char *state = config_path(conf, "pepsi", "STATE_DIR");
	int n = snprintf(sun.sun_path, sizeof sun.sun_path, "%s/" STS_WIRE_SOCKET, state ? state : ""), rc = CLI_FAILED;
	int fd = n > 0 && (size_t)n < sizeof sun.sun_path ? socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) : -1;
	free(state);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&sun, sizeof sun)) {
		cli_fail("the fetching child cannot be asked at %s: %s; does pepsid run, with [pepsi-mta-sts] FETCH = yes, or a stage that relays to the Internet?", sun.sun_path,
		    strerror(errno));
		goto out;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) || (who.uid != 0 && who.uid != geteuid())) {
		cli_fail("who listens at %s is not pepsid", sun.sun_path);
		goto out;
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	char *room = buf_room(in, STS_WIRE_ANSWER_MAX + 1);
	if (!room || sts_wire_request_put(&question, domain, true) || send(fd, question.p, question.n, MSG_NOSIGNAL) != (ssize_t)question.n) {
		cli_fail("the fetching child cannot be asked");
		goto out;
	}
	ssize_t got = recv(fd, room, STS_WIRE_ANSWER_MAX + 1, 0);
	in->n = got > 0 ? (size_t)got : 0;
	rc = got > 0 && sts_wire_answer_get(buf_str(in), answer) == 0 ? CLI_DONE : cli_fail("the fetching child did not answer");
out:
	buf_free(&question);
	if (fd >= 0)
		close(fd);
	return rc;
}

struct fetched {
	const char *domain;
	struct sts_lookup lookup;
	struct sts_wire_answer answer;
	struct sts_policy policy;
	const char *result;      /* RFC 8460's word; NULL: there is a policy */
	char why[STS_WIRE_WHY_MAX + 1];
	bool kept;
};

/* What workers do with it. */
static int keep(const struct config *conf, struct fetched *f)
{
	struct tool_db db = { 0 };
	struct sts_cached now = { .known = false };
	struct json_object *args = json_object_new_object(), *o = NULL;
	if (f->result)
		sts_failed(&now, time(NULL));
	else
		sts_fetched(&now, f->lookup.id, &f->policy, time(NULL));
	tool_add_text(args, "domain", f->domain);
	if (f->result) {
		tool_add_text(args, "result", f->result);
		tool_add_text(args, "why", f->why);
		json_object_object_add(args, "at", json_object_new_int64(now.failed));
		json_object_object_add(args, "before", json_object_new_int(0));
	} else {
		tool_add_text(args, "id", now.id);
		tool_add_text(args, "mode", sts_mode_name(f->policy.mode));
		json_object_object_add(args, "body", json_object_new_string_len(f->answer.text.p, (int)f->answer.text.n));
		json_object_object_add(args, "fetched", json_object_new_int64(now.fetched));
		json_object_object_add(args, "expires", json_object_new_int64(sts_expires(&now)));
	}
	json_object_object_add(args, "due", json_object_new_int64(sts_due(&now)));
	if (tool_db_open(&db, conf))
		json_object_put(args);
	else
		o = tool_db_destinations(&db, f->result ? STORE_STS_FAILED : STORE_STS_PUT, args);
	f->kept = o != NULL;
	json_object_put(o);
	tool_db_close(&db);
	return f->kept ? CLI_DONE : CLI_FAILED;
}

static void print_fetched(const struct fetched *f)
{
	if (f->lookup.state == STS_TXT_FOUND)
		printf("%-12sid=%s\n", "record", f->lookup.id);
	else
		printf("%-12s%s: senders ask for no policy\n", "record", f->lookup.reason);
	if (f->result) {
		printf("%-12s%s: ", "policy", f->result);
		cli_text_print(stdout, str_from(f->why));
		putchar('\n');
		return;
	}
	printf("%-12smode %s, for %u s, %zu mx%s\n", "policy", sts_mode_name(f->policy.mode), f->policy.max_age, f->policy.n_mx, f->kept ? ", kept" : ", not kept");
	print_policy(f->answer.text);
}

static void print_fetched_json(const struct fetched *f)
{
	struct json_object *o = json_object_new_object();
	tool_add_text(o, "domain", f->domain);
	json_object_object_add(o, "record", json_object_new_boolean(f->lookup.state == STS_TXT_FOUND));
	tool_add_text(o, f->lookup.state == STS_TXT_FOUND ? "id" : "record_why", f->lookup.state == STS_TXT_FOUND ? f->lookup.id : f->lookup.reason);
	tool_add_text(o, "result", f->result ? f->result : "ok");
	if (f->result) {
		tool_add_text(o, "why", f->why);
	} else {
		tool_add_text(o, "mode", sts_mode_name(f->policy.mode));
		json_object_object_add(o, "max_age", json_object_new_int64(f->policy.max_age));
		json_object_object_add(o, "policy", json_object_new_string_len(f->answer.text.p, (int)f->answer.text.n));
	}
	json_object_object_add(o, "kept", json_object_new_boolean(f->kept));
	cli_json_print(o);
	json_object_put(o);
}

/* The record and the policy of f->domain, kept where there is a record and the child was not busy. CLI_FAILED: not even that. in: what f points into. */
static int fetch(const struct config *conf, struct fetched *f, struct buf *in)
{
	const char *why = NULL;
	f->lookup = (struct sts_lookup){ .domain = str_from(f->domain) };
	if (look_up(conf, &f->lookup) || ask_child(conf, str_from(f->domain), in, &f->answer))
		return CLI_FAILED;
	bool busy = f->answer.class == STS_WIRE_BUSY;
	if (f->answer.class != STS_WIRE_OK)
		f->result = busy ? "busy" : tlsrpt_result_name(sts_wire_result(f->answer.class));
	else if (sts_policy_parse(f->answer.text, &f->policy, &why))
		f->result = tlsrpt_result_name(TLSRPT_STS_POLICY_INVALID);
	if (f->result)
		snprintf(f->why, sizeof f->why, "%.*s", STR_ARG(why ? str_from(why) : f->answer.text));
	return f->lookup.state == STS_TXT_FOUND && !busy ? keep(conf, f) : CLI_DONE;
}

int tool_sts_fetch(struct cli *c)
{
	char domain[DNS_NAME_MAX + 1];
	static struct fetched f;
	struct buf in = BUF_INIT(STS_WIRE_ANSWER_MAX + 64);
	if (domain_of(c, domain))
		return CLI_USAGE;
	struct config *conf = service_config(c);
	f = (struct fetched){ .domain = domain };
	int rc = !conf || service_leave_root(config_str(conf, "pepsi", "USER")) ? CLI_FAILED : fetch(conf, &f, &in);
	if (rc == CLI_DONE || f.kept || f.result) {
		if (c->json)
			print_fetched_json(&f);
		else
			print_fetched(&f);
		if (f.result)
			rc = CLI_FAILED;
	}
	buf_free(&in);
	config_free(conf);
	return rc;
}

/* -- renew */

enum { DUE_AT_ONCE = 100, USED_S = 30 * 86400 }; /* as workers (modules/common/sts_policies.c) */

/* What workers do with what grows old (RFC 8461 §10.2), when there is none: no mail for a while is no reason to lose a policy. */
int tool_sts_renew(struct cli *c)
{
	static struct fetched f;
	struct config *conf = service_config(c);
	size_t renewed = 0, failed = 0, n = DUE_AT_ONCE;
	int rc = !conf || service_leave_root(config_str(conf, "pepsi", "USER")) ? CLI_FAILED : CLI_DONE;
	while (rc == CLI_DONE && n == DUE_AT_ONCE) {
		struct tool_db db = { 0 };
		struct json_object *args = json_object_new_object(), *due = NULL;
		json_object_object_add(args, "limit", json_object_new_int(DUE_AT_ONCE));
		json_object_object_add(args, "used", json_object_new_int(USED_S));
		if (tool_db_open(&db, conf))
			json_object_put(args);
		else
			due = tool_db_destinations(&db, STORE_STS_DUE, args);
		tool_db_close(&db);
		rc = due ? CLI_DONE : CLI_FAILED;
		n = cli_json_length(due);
		for (size_t i = 0; i < n && rc == CLI_DONE; i++) {
			struct buf in = BUF_INIT(STS_WIRE_ANSWER_MAX + 64);
			f = (struct fetched){ .domain = json_object_get_string(json_object_array_get_idx(due, i)) };
			rc = fetch(conf, &f, &in);
			renewed += f.kept && !f.result;
			failed += f.result != NULL;
			if (f.result && !c->json)
				printf("%s: %s: %s\n", f.domain, f.result, f.why);
			buf_free(&in);
		}
		json_object_put(due);
	}
	if (c->json)
		printf("{\"renewed\":%zu,\"failed\":%zu}\n", renewed, failed);
	else
		printf("%zu polic%s renewed, %zu could not be fetched\n", renewed, renewed == 1 ? "y" : "ies", failed);
	config_free(conf);
	return rc;
}
