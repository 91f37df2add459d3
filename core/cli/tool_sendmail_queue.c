/* mailq in the form that people and their scripts know, and -q: both through the control socket, which says who may. */
#include "cli_internal.h"
#include "tool_queue.h"
#include "tool_sendmail.h"

#include <inttypes.h>
#include <stdio.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 500, SIZES_MAX = 1000 };

struct mailq {
	struct cli cli;
	int64_t n, octets, last_id;
};

static struct cli connect_to(const struct sendmail_site *site)
{
	struct cli c = { .fd = -1 };
	char *dir = config_path(site->config, "pepsi", "STATE_DIR");
	snprintf(c.socket, sizeof c.socket, "%s/run/control.sock", dir ? dir : "");
	free(dir);
	return c;
}

/* "2026-11-30T11:26:28.1+00:00" as "Mon Nov 30 11:26:28", in the zone of whoever asks. */
static void show_time(char *out, size_t size, struct str stamp)
{
	char text[40];
	struct tm tm = { 0 };
	snprintf(text, sizeof text, "%.*s", (int)(stamp.n < 39 ? stamp.n : 39), stamp.p ? stamp.p : "");
	out[0] = 0;
	if (!strptime(text, "%Y-%m-%dT%H:%M:%S", &tm))
		return;
	time_t t = timegm(&tm);
	if (localtime_r(&t, &tm))
		strftime(out, size, "%a %b %e %H:%M:%S", &tm);
}

/* Octets of a message; the list does not say. */
static int64_t size_of(struct mailq *q, int64_t id)
{
	struct json_object *args = json_object_new_object(), *ids = json_object_new_array();
	json_object_array_add(ids, json_object_new_int64(id));
	json_object_object_add(args, "ids", ids);
	struct json_object *o = cli_ask(&q->cli, "queue.show", args, CLI_ANSWER_MS, true);
	int64_t n = o ? cli_json_int(o, "headers_size") + 2 + cli_json_int(o, "body_size") : 0;
	json_object_put(o);
	return n;
}

static void show_row(struct mailq *q, struct json_object *row)
{
	struct json_object *rcpts = NULL;
	int64_t id = cli_json_int(row, "id"), octets = q->n < SIZES_MAX ? size_of(q, id) : 0;
	struct str status = cli_json_text(row, "status"), from = cli_json_text(row, "mail_from");
	struct buf why = BUF_INIT(QUEUE_WHY_MAX);
	char name[32], when[64];
	/* * at work, ! held or given up */
	snprintf(name, sizeof name, "%" PRId64 "%s", id, str_eq(status, STR("running")) ? "*" :
	    str_eq(status, STR("failed")) || str_eq(status, STR("timeout")) || cli_json_text(row, "hold").n ? "!" : "");
	show_time(when, sizeof when, cli_json_text(row, "received_at"));
	if (!q->n)
		puts("-Queue ID-  --Size-- ----Arrival Time---- -Sender/Recipient-------");
	printf("%-11s %8" PRId64 " %-20s ", name, octets, when);
	cli_text_print(stdout, from.n ? from : STR("MAILER-DAEMON"));
	putchar('\n');
	queue_row_why(row, &why);
	if (why.n) {
		putchar('(');
		cli_text_print(stdout, buf_str(&why));
		puts(")");
	}
	buf_free(&why);
	size_t n = json_object_object_get_ex(row, "rcpt_to", &rcpts) && json_object_is_type(rcpts, json_type_array) ? json_object_array_length(rcpts) : 0;
	for (size_t i = 0; i < n; i++) {
		const char *text = json_object_get_string(json_object_array_get_idx(rcpts, i));
		printf("%42s", "");
		cli_text_print(stdout, str_from(text));
		putchar('\n');
	}
	if (cli_json_int(row, "rcpt_count") > (int64_t)n)
		printf("%42s… and %" PRId64 " more\n", "", cli_json_int(row, "rcpt_count") - (int64_t)n);
	putchar('\n');
	q->n++;
	q->octets += octets;
	q->last_id = id;
}

/* Rows of one page, or -1. */
static int64_t show_page(struct mailq *q)
{
	struct json_object *args = json_object_new_object();
	int64_t before = q->last_id;
	json_object_object_add(args, "limit", json_object_new_int64(PAGE));
	if (before > 0)
		json_object_object_add(args, "after_id", json_object_new_int64(before));
	struct json_object *rows = cli_ask(&q->cli, "queue.list", args, CLI_ANSWER_MS, false);
	if (!rows)
		return -1;
	size_t n = json_object_is_type(rows, json_type_array) ? json_object_array_length(rows) : 0;
	for (size_t i = 0; i < n; i++)
		show_row(q, json_object_array_get_idx(rows, i));
	json_object_put(rows);
	return n && q->last_id <= before ? 0 : (int64_t)n;
}

/* The message is on standard error already; this is the code for it. */
static int why_not(const struct cli *c)
{
	return access(c->socket, F_OK) == 0 && access(c->socket, W_OK) != 0 ? EX_NOPERM : EX_UNAVAILABLE;
}

int sendmail_queue(const struct sendmail_site *site)
{
	struct mailq q = { .cli = connect_to(site) };
	int64_t n;
	while ((n = show_page(&q)) == PAGE)
		;
	if (n >= 0 && !q.n)
		puts("Mail queue is empty");
	else if (n >= 0)
		printf("-- %" PRId64 " Kbytes in %" PRId64 " Request%s.\n", (q.octets + 1023) / 1024, q.n, q.n == 1 ? "" : "s");
	int r = n < 0 ? why_not(&q.cli) : EX_OK;
	cli_client_close(&q.cli);
	return r;
}

int sendmail_flush(const struct sendmail_site *site, bool verbose)
{
	struct cli c = connect_to(site);
	struct json_object *args = json_object_new_object();
	json_object_object_add(args, "status", json_object_new_string("paused"));
	struct json_object *o = cli_ask(&c, "queue.retry", args, CLI_ANSWER_MS, false);
	if (o && verbose)
		printf("%s: %" PRId64 " message%s tried now\n", site->program, cli_json_int(o, "count"), cli_json_int(o, "count") == 1 ? " is" : "s are");
	int r = o ? EX_OK : why_not(&c);
	json_object_put(o);
	cli_client_close(&c);
	return r;
}
