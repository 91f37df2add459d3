/* pepsi status, reload, stop. */
#include "base/clock.h"
#include "cli_internal.h"
#include "dkim_dir.h"

#include <inttypes.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { RETRY_MS = 100, TRY_MS = 5000, WAIT_MAX_S = 86400 };

static void pause_ms(long ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
	nanosleep(&ts, NULL);
}

static bool is_true(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;
	return json_object_object_get_ex(o, key, &v) && json_object_get_boolean(v);
}

static void print_count(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;
	if (json_object_object_get_ex(o, key, &v) && v)
		printf("%s %" PRId64, key, json_object_get_int64(v));
	else
		printf("%s ?", key);
}

static void print_counts(const char *head, struct json_object *o, const char *const *keys, size_t n)
{
	printf("%-10s", head);
	for (size_t i = 0; i < n; i++) {
		if (i)
			fputs(", ", stdout);
		print_count(o, keys[i]);
	}
	putchar('\n');
}

/* "pending   out: 312 at 4711, 5 at 4712": of a stage whose workers drive many messages at once. */
static void print_pending(struct json_object *s)
{
	struct json_object *many = NULL, *held = NULL, *pids = NULL;
	if (!json_object_object_get_ex(s, "concurrent", &many) || !json_object_get_boolean(many) || !json_object_object_get_ex(s, "held", &held) ||
	    !json_object_object_get_ex(s, "pids", &pids) || !json_object_is_type(held, json_type_array) || !json_object_is_type(pids, json_type_array))
		return;
	for (size_t i = 0; i < json_object_array_length(held) && i < json_object_array_length(pids); i++) {
		fputs(i ? ", " : "pending   ", stdout);
		if (!i) {
			cli_text_print(stdout, cli_json_text(s, "name"));
			fputs(": ", stdout);
		}
		printf("%" PRId64 " at %" PRId64, json_object_get_int64(json_object_array_get_idx(held, i)), json_object_get_int64(json_object_array_get_idx(pids, i)));
	}
	if (json_object_array_length(held))
		putchar('\n');
}

static void print_value(struct json_object *v)
{
	if (json_object_is_type(v, json_type_object)) { /* a timing */
		struct json_object *s = NULL;
		json_object_object_get_ex(v, "seconds", &s);
		printf("%" PRId64 " in %.3f s", cli_json_int(v, "count"), json_object_get_double(s));
	} else {
		printf("%" PRId64, json_object_get_int64(v));
	}
}

static bool is_nothing(struct json_object *v)
{
	return json_object_is_type(v, json_type_object) ? !cli_json_int(v, "count") : !json_object_get_int64(v);
}

static size_t n_values(struct json_object *values)
{
	size_t n = 0;
	json_object_object_foreach(values, key, v)
		n += key && !is_nothing(v);
	return n;
}

/* "counted   relay: deliveries delivered 312, deferred 4; sessions opened 20": what a stage's module counts, as far as it is not nothing. */
static void print_metrics(struct json_object *s)
{
	enum { VALUES_MAX = 12 };
	struct json_object *all = NULL, *values = NULL, *one = NULL;
	bool any = false;
	if (!json_object_object_get_ex(s, "metrics", &all) || !json_object_is_type(all, json_type_array))
		return;
	for (size_t i = 0; i < json_object_array_length(all); i++) {
		struct json_object *m = json_object_array_get_idx(all, i);
		size_t n = 0, more = 0;
		one = values = NULL;
		if (json_object_object_get_ex(m, "value", &one))
			n = !is_nothing(one);
		else if (json_object_object_get_ex(m, "values", &values) && json_object_is_type(values, json_type_object))
			n = n_values(values);
		if (!n)
			continue;
		if (!any) {
			fputs("counted   ", stdout);
			cli_text_print(stdout, cli_json_text(s, "name"));
		}
		fputs(any ? "; " : ": ", stdout);
		any = true;
		cli_text_print(stdout, cli_json_text(m, "name"));
		putchar(' ');
		if (one) {
			print_value(one);
			continue;
		}
		n = 0;
		json_object_object_foreach(values, key, v) {
			if (is_nothing(v) || (n >= VALUES_MAX && ++more))
				continue;
			fputs(n++ ? ", " : "", stdout);
			cli_text_print(stdout, str_from(key));
			putchar(' ');
			print_value(v);
		}
		if (more)
			printf(", and %zu more", more);
	}
	if (any)
		putchar('\n');
}

static void print_stages(struct json_object *stages)
{
	struct cli_table t = {
		.heads = { "STAGE", "PROGRAM", "WORKERS", "IN FLIGHT", "DONE", "CRASHES" },
		.max = { 40, 50 },
		.right = { false, false, true, true, true, true },
		.n = 6,
	};
	if (!json_object_is_type(stages, json_type_array) || !json_object_array_length(stages))
		return;
	for (size_t i = 0; i < json_object_array_length(stages); i++) {
		struct json_object *s = json_object_array_get_idx(stages, i);
		cli_table_cell(&t, cli_json_text(s, "name"));
		cli_table_cell(&t, cli_json_text(s, "program"));
		cli_table_cellf(&t, "%" PRId64, cli_json_int(s, "workers"));
		cli_table_cellf(&t, "%" PRId64, cli_json_int(s, "in_flight"));
		cli_table_cellf(&t, "%" PRId64, cli_json_int(s, "done"));
		cli_table_cellf(&t, "%" PRId64, cli_json_int(s, "crashes"));
	}
	putchar('\n');
	cli_table_print(&t, stdout);
	for (size_t i = 0; i < json_object_array_length(stages); i++)
		print_pending(json_object_array_get_idx(stages, i));
	for (size_t i = 0; i < json_object_array_length(stages); i++)
		print_metrics(json_object_array_get_idx(stages, i));
}

/* Who was refused, where anybody was. */
static void print_abuse(struct json_object *ingress)
{
	static const char *const keys[] = { "connections", "rate", "early_talk", "unknown_recipient", "harvest", "dnsbl", "greylist", "tarpitted", "timeouts", "trickling" };
	struct json_object *o = NULL;
	int64_t sum = 0;
	if (!json_object_object_get_ex(ingress, "abuse", &o) || !json_object_is_type(o, json_type_object))
		return;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		sum += cli_json_int(o, keys[i]);
	if (sum)
		print_counts("refused", o, keys, sizeof keys / sizeof *keys);
}

/* Only those that want attention. */
static void print_certificates(struct json_object *ingress)
{
	struct json_object *all = NULL;
	if (!json_object_object_get_ex(ingress, "certificates", &all) || !json_object_is_type(all, json_type_array))
		return;
	for (size_t i = 0; i < json_object_array_length(all); i++) {
		struct json_object *c = json_object_array_get_idx(all, i);
		int64_t left = cli_json_int(c, "not_after") - clock_wall_us() / US_PER_S;
		char span[64];
		if (!is_true(c, "expires_soon") && is_true(c, "names_host"))
			continue;
		fputs("tls       listener ", stdout);
		cli_text_print(stdout, cli_json_text(c, "listener"));
		fputs(": certificate ", stdout);
		cli_text_print(stdout, cli_json_text(c, "file"));
		if (is_true(c, "expires_soon")) {
			cli_text_duration(span, sizeof span, left < 0 ? -left : left);
			printf(left < 0 ? " expired %s ago" : " expires in %s", span);
		}
		if (!is_true(c, "names_host"))
			printf("%s is not valid for HOSTNAME, nor is another of this listener", is_true(c, "expires_soon") ? " and" : "");
		putchar('\n');
	}
}

/* Where nobody ever could and nobody tried there is nothing to tell. */
static void print_signin(struct json_object *ingress)
{
	static const char *const keys[] = { "ok", "failed", "throttled", "temporary", "in_flight", "waiting" };
	struct json_object *s = NULL;
	bool any = false;
	if (!json_object_object_get_ex(ingress, "signin", &s) || !json_object_is_type(s, json_type_object))
		return;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		any = any || cli_json_int(s, keys[i]);
	if (!any && !is_true(s, "up"))
		return;
	print_counts("sign-ins", s, keys, sizeof keys / sizeof *keys);
	if (!is_true(s, "up"))
		puts("          not possible at the moment: the admin child is away");
}

/* Where an account has caps, or a message was held: what is held, and why. */
static void print_held(struct json_object *ingress)
{
	static const char *const keys[] = { "held", "refused", "told", "not_told", "operator_told", "operator_not_told" };
	struct json_object *caps = NULL;
	if (cli_json_int(ingress, "held"))
		printf("%-10s%" PRId64 " for a time their sender asked for\n", "held", cli_json_int(ingress, "held"));
	if (json_object_object_get_ex(ingress, "caps", &caps) && json_object_is_type(caps, json_type_object) && cli_json_int(caps, "accounts"))
		print_counts("over cap", caps, keys, sizeof keys / sizeof *keys);
}

/* RECIPIENTS = stage:NAME: what it said at RCPT. */
static void print_asked(struct json_object *pool)
{
	static const char *const told[] = { "known", "refused", "later", "silent" };
	struct json_object *o = NULL;
	int64_t sum = 0;
	if (!json_object_object_get_ex(pool, "recipients", &o) || !json_object_is_type(o, json_type_object))
		return;
	for (size_t k = 0; k < sizeof told / sizeof *told; k++)
		sum += cli_json_int(o, told[k]);
	for (size_t k = 0; sum && k < sizeof told / sizeof *told; k++)
		printf("%s%s %" PRId64, k ? ", " : "; recipients ", told[k], cli_json_int(o, told[k]));
}

/* A line for each stage before acceptance, or asked at RCPT. */
static void print_before(struct json_object *ingress)
{
	static const char *const keys[] = { "passed", "rejected", "deferred", "discarded", "failed", "waiting", "busy" };
	struct json_object *all = NULL;
	if (!json_object_object_get_ex(ingress, "before", &all) || !json_object_is_type(all, json_type_array))
		return;
	for (size_t i = 0; i < json_object_array_length(all); i++) {
		struct json_object *p = json_object_array_get_idx(all, i);
		fputs("before    stage ", stdout);
		cli_text_print(stdout, cli_json_text(p, "stage"));
		fputs(": ", stdout);
		for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
			printf("%s%s %" PRId64, k ? ", " : "", keys[k], cli_json_int(p, keys[k]));
		print_asked(p);
		putchar('\n');
	}
}

/* Who mail from outside was from, where any was looked at. */
static void print_authentication(struct json_object *ingress)
{
	static const char *const keys[] = { "messages", "passed", "refused", "deferred", "quarantined", "overridden", "temporary", "forged" };
	struct json_object *o = NULL;
	if (json_object_object_get_ex(ingress, "authentication", &o) && json_object_is_type(o, json_type_object) &&
	    (cli_json_int(o, "messages") || cli_json_int(o, "forged")))
		print_counts("authors", o, keys, sizeof keys / sizeof *keys);
}

/* What is counted for DMARC reports to others. */
static void print_dmarc(struct json_object *ingress)
{
	static const char *const keys[] = { "counted", "overflow", "lost", "lines", "failures" };
	struct json_object *o = NULL, *on = NULL;
	if (json_object_object_get_ex(ingress, "dmarc_counts", &o) && json_object_is_type(o, json_type_object) && json_object_object_get_ex(o, "on", &on) &&
	    json_object_get_boolean(on))
		print_counts("reports", o, keys, sizeof keys / sizeof *keys);
	static const char *const single[] = { "kept", "refused", "lost", "waiting" };
	if (json_object_object_get_ex(ingress, "dmarc_failures", &o) && json_object_is_type(o, json_type_object) && json_object_object_get_ex(o, "on", &on) &&
	    json_object_get_boolean(on))
		print_counts("failures", o, single, sizeof single / sizeof *single);
}

/* Where an operator holds mail or sends it another way. */
static void print_steering(struct json_object *o)
{
	static const char *const keys[] = { "held", "hold_rules", "reroute_rules" };
	struct json_object *s = NULL;
	if (json_object_object_get_ex(o, "steering", &s) && json_object_is_type(s, json_type_object) &&
	    (cli_json_int(s, "held") || cli_json_int(s, "hold_rules") || cli_json_int(s, "reroute_rules")))
		print_counts("steering", s, keys, sizeof keys / sizeof *keys);
}

static void print_dns(struct json_object *dns)
{
	struct json_object *servers = NULL;
	if (!json_object_object_get_ex(dns, "servers", &servers) || !json_object_is_type(servers, json_type_array))
		return;
	printf("%-10s", "dns");
	for (size_t i = 0; i < json_object_array_length(servers); i++) {
		struct json_object *s = json_object_array_get_idx(servers, i);
		fputs(i ? ", " : "", stdout);
		cli_text_print(stdout, cli_json_text(s, "server"));
		printf(" %s%s", is_true(s, "up") ? "up" : "down", is_true(s, "trusted") ? " (trusted)" : "");
	}
	printf(", in flight %" PRId64 ", cached %" PRId64 "\n", cli_json_int(dns, "in_flight"), cli_json_int(dns, "cache_entries"));
}

/* What is known of other domains, where anything is. */
static void print_destinations(struct json_object *o)
{
	static const char *const keys[] = { "sts_policies", "sts_enforced", "sts_failing", "weaker", "addresses_failing" };
	struct json_object *d = NULL;
	int64_t any = 0;
	if (!json_object_object_get_ex(o, "destinations", &d) || !json_object_is_type(d, json_type_object))
		return;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		any |= cli_json_int(d, keys[i]);
	if (any)
		printf("%-10sMTA-STS policies %" PRId64 " (enforced %" PRId64 ", failing %" PRId64 "), less protected than before %" PRId64 ", addresses failing %" PRId64
		       "\n", "elsewhere", cli_json_int(d, keys[0]), cli_json_int(d, keys[1]), cli_json_int(d, keys[2]), cli_json_int(d, keys[3]), cli_json_int(d, keys[4]));
	if (cli_json_int(d, "tlsrpt_waiting") || cli_json_int(d, "tlsrpt_received"))
		printf("%-10swaiting %" PRId64 ", received within two days %" PRId64 " (failed sessions %" PRId64 ")\n", "tlsrpt", cli_json_int(d, "tlsrpt_waiting"),
		    cli_json_int(d, "tlsrpt_received"), cli_json_int(d, "tlsrpt_failures"));
}

static void print_tokens(struct json_object *o)
{
	struct json_object *list = NULL;
	size_t n = json_object_object_get_ex(o, "tokens", &list) && json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0, valid = 0;
	for (size_t i = 0; i < n; i++)
		valid += is_true(json_object_array_get_idx(list, i), "valid");
	if (n)
		printf("%-10s%zu valid of %zu\n", "tokens", valid, n);
	for (size_t i = 0; i < n; i++) {
		struct json_object *t = json_object_array_get_idx(list, i);
		if (!cli_json_text(t, "alarm").n)
			continue;
		fputs("          ALARM ", stdout);
		cli_text_print(stdout, cli_json_text(t, "name"));
		fputs(": ", stdout);
		cli_text_print(stdout, cli_json_text(t, "alarm"));
		if (cli_json_text(t, "error").n) {
			fputs(" (", stdout);
			cli_text_print(stdout, cli_json_text(t, "error"));
			putchar(')');
		}
		putchar('\n');
	}
}

static void print_status(struct json_object *o)
{
	static const char *const queue_keys[] = { "total", "pending", "running", "paused", "failed", "timeout" };
	static const char *const ended_keys[] = { "accepted", "delivered", "bounced", "discarded" };
	static const char *const smtp_keys[] = { "sessions", "connections", "accepted", "rejected" };
	static const char *const local_keys[] = { "accepted", "repeats" };
	struct json_object *queue = NULL, *db = NULL, *stages = NULL, *ingress = NULL, *dns = NULL, *local = NULL, *memory = NULL;
	char up[64];
	cli_text_duration(up, sizeof up, cli_json_int(o, "uptime_s"));
	fputs("pepsi ", stdout);
	cli_text_print(stdout, cli_json_text(o, "version"));
	printf(", up %s, %s", up, is_true(o, "healthy") ? "accepting mail" : "not accepting mail");
	if (cli_json_text(o, "reason").n) {
		fputs(": ", stdout);
		cli_text_print(stdout, cli_json_text(o, "reason"));
	}
	putchar('\n');
	if (json_object_object_get_ex(o, "database", &db))
		printf("%-10s%s%s\n", "database", is_true(db, "up") ? "up" : "away", is_true(db, "embedded") ? ", embedded" : "");
	if (json_object_object_get_ex(o, "queue", &queue))
		print_counts("queue", queue, queue_keys, sizeof queue_keys / sizeof *queue_keys);
	print_steering(o);
	print_counts("messages", o, ended_keys, sizeof ended_keys / sizeof *ended_keys);
	print_destinations(o);
	if (json_object_object_get_ex(o, "ingress", &ingress) && json_object_is_type(ingress, json_type_object)) {
		print_counts("smtp", ingress, smtp_keys, sizeof smtp_keys / sizeof *smtp_keys);
		if (json_object_object_get_ex(ingress, "local", &local) && json_object_is_type(local, json_type_object) &&
		    (cli_json_int(local, "accepted") || cli_json_int(local, "repeats")))
			print_counts("local", local, local_keys, 2);
		print_signin(ingress);
		print_held(ingress);
		print_before(ingress);
		print_abuse(ingress);
		print_authentication(ingress);
		print_dmarc(ingress);
		print_certificates(ingress);
	}
	print_tokens(o);
	if (json_object_object_get_ex(o, "dns", &dns) && json_object_is_type(dns, json_type_object))
		print_dns(dns);
	if (json_object_object_get_ex(o, "memory", &memory) && json_object_is_type(memory, json_type_object))
		printf("%-10sresident %" PRId64 " MiB, in use %" PRId64 " MiB, returned %" PRId64 " MiB\n", "memory", cli_json_int(memory, "resident") >> 20,
		    cli_json_int(memory, "in_use") >> 20, cli_json_int(memory, "returned") >> 20);
	if (json_object_object_get_ex(o, "stages", &stages))
		print_stages(stages);
}

/* What pepsi-keys dkim check found, where a stage signs and this account may read it. */
static void add_signing(const struct cli *c, struct json_object *o)
{
	struct config_faults *faults = config_faults_new();
	struct config *conf = faults ? cli_config_load(c, faults) : NULL;
	struct buf text = BUF_INIT(256 * 1024);
	int64_t when = 0;
	if (conf)
		dkim_alarms_read(conf, &text, &when);
	if (when) {
		struct json_object *s = json_object_new_object(), *list = json_object_new_array();
		struct str rest = buf_str(&text), line;
		while (str_word(&rest, "\n", &line))
			json_object_array_add(list, json_object_new_string_len(line.p, (int)line.n));
		json_object_object_add(s, "checked_at", json_object_new_int64(when));
		json_object_object_add(s, "alarms", list);
		json_object_object_add(o, "signing", s);
	}
	buf_free(&text);
	config_free(conf);
	config_faults_free(faults);
}

static void print_signing(struct json_object *o)
{
	struct json_object *s = NULL, *list = NULL;
	if (!json_object_object_get_ex(o, "signing", &s) || !json_object_object_get_ex(s, "alarms", &list))
		return;
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		fputs("signing   ALARM ", stdout);
		cli_text_print(stdout, str_from(json_object_get_string(json_object_array_get_idx(list, i))));
		putchar('\n');
	}
}

static int show_status(const struct cli *c, struct json_object *o)
{
	if (!o)
		return CLI_FAILED;
	add_signing(c, o);
	if (c->json) {
		cli_json_print(o);
	} else {
		print_status(o);
		print_signing(o);
	}
	json_object_put(o);
	return CLI_DONE;
}

int tool_status(struct cli *c)
{
	const char *text = c->args.value[CLI_WAIT];
	int64_t wait = text ? cli_number(c, "--wait", text, 0, WAIT_MAX_S) : 0;
	if (wait < 0)
		return CLI_USAGE;
	if (!text)
		return show_status(c, cli_ask(c, "status", NULL, CLI_ANSWER_MS, false));
	if (cli_client_find(c))
		return CLI_FAILED;
	int64_t deadline = clock_mono_us() + wait * US_PER_S;
	for (;;) {
		int64_t left = (deadline - clock_mono_us()) / 1000;
		int patience = left < RETRY_MS ? RETRY_MS : left < TRY_MS ? (int)left : TRY_MS;
		struct json_object *o = cli_ask(c, "status", NULL, patience, true);
		if (o && is_true(o, "healthy"))
			return show_status(c, o);
		if (left <= 0) {
			if (!o) {
				/* once more, aloud: it says why */
				o = cli_ask(c, "status", NULL, RETRY_MS, false);
				json_object_put(o);
				return CLI_FAILED;
			}
			struct str why = cli_json_text(o, "reason");
			cli_fail("pepsid does not accept mail after %" PRId64 " s: %.*s", wait, STR_ARG(why));
			json_object_put(o);
			return CLI_FAILED;
		}
		json_object_put(o);
		pause_ms(RETRY_MS);
	}
}

static int done(const struct cli *c, struct json_object *o, const char *text)
{
	if (!o)
		return CLI_FAILED;
	if (c->json)
		cli_json_print(o);
	else
		puts(text);
	json_object_put(o);
	return CLI_DONE;
}

int tool_reload(struct cli *c)
{
	return done(c, cli_ask(c, "reload", NULL, CLI_ANSWER_MS, false), "reloaded");
}

/* A handle on the daemon's first process, which is the last to go; -1: unknown. */
static int daemon_handle(struct cli *c)
{
	struct json_object *o = cli_ask(c, "status", NULL, TRY_MS, true), *processes = NULL;
	int64_t pid = o && json_object_object_get_ex(o, "processes", &processes) ? cli_json_int(processes, "spawner") : 0;
	json_object_put(o);
	return pid > 1 && pid <= INT32_MAX ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;
}

/* Does anybody still answer at the socket? */
static bool answers(struct cli *c)
{
	cli_client_close(c);
	struct json_object *o = cli_ask(c, "ping", NULL, 1000, true);
	json_object_put(o);
	return o != NULL;
}

int tool_stop(struct cli *c)
{
	const char *text = c->args.value[CLI_WAIT];
	int64_t wait = text ? cli_number(c, "--wait", text, 0, WAIT_MAX_S) : 0;
	if (wait < 0)
		return CLI_USAGE;
	/* a handle, not a number: the number may belong to somebody else by the time the daemon is gone */
	int handle = text ? daemon_handle(c) : -1;
	int rc = done(c, cli_ask(c, "stop", NULL, CLI_ANSWER_MS, false), "stopping");
	int64_t deadline = clock_mono_us() + wait * US_PER_S;
	while (!rc && text) {
		struct pollfd p = { .fd = handle, .events = POLLIN };
		if (handle >= 0 ? poll(&p, 1, 0) != 0 : !answers(c))
			break;
		if (clock_mono_us() >= deadline)
			rc = cli_fail("pepsid is still there after %" PRId64 " s", wait);
		else
			pause_ms(RETRY_MS);
	}
	if (handle >= 0)
		close(handle);
	return rc;
}
