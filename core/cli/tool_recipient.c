/* pepsi recipient: the table of recipients (RECIPIENTS = table), kept by the admin child; and what a RCPT would be told, asked of the
 * reactor, which alone knows all sources. */
#include "account_client.h"

#include <stdlib.h>

static int change(struct cli *c, enum wire_account_op op)
{
	struct account_client *a = cli_account_client(c);
	struct wire_account_answer an;
	if (!a)
		return CLI_FAILED;
	int rc = cli_account_connect(a);
	for (size_t i = 0; !rc && i < c->args.n_pos; i++) {
		struct wire_account_request r = { .op = op, .name = str_from(c->args.pos[i]) };
		rc = cli_account_ask(a, &r, &an);
	}
	if (!rc && c->json)
		puts("{\"ok\":true}");
	return cli_account_done(a, rc);
}

int tool_recipient_add(struct cli *c)
{
	return change(c, WIRE_RECIPIENT_ADD);
}

int tool_recipient_remove(struct cli *c)
{
	return change(c, WIRE_RECIPIENT_REMOVE);
}

static struct json_object *row_json(const struct wire_account_row *r)
{
	return json_object_new_string_len(r->name.p, (int)r->name.n);
}

static void print_row(const struct wire_account_row *r)
{
	cli_text_print(stdout, r->name);
	putchar('\n');
}

int tool_recipient_list(struct cli *c)
{
	return cli_account_list(c, WIRE_RECIPIENT_LIST, row_json, print_row);
}

static void print_verdict(struct json_object *o, struct str answer)
{
	cli_text_print(stdout, cli_json_text(o, "recipient"));
	if (str_eq(answer, STR("yes"))) {
		fputs(": accepted, known to ", stdout);
		cli_text_print(stdout, cli_json_text(o, "source"));
	} else if (cli_json_text(o, "why").n) { /* a stage's own words */
		fputs(str_eq(answer, STR("no")) ? ": refused by " : ": not now, by ", stdout);
		cli_text_print(stdout, cli_json_text(o, "source"));
		fputs(str_eq(answer, STR("no")) ? ", 550 " : ", ", stdout);
		cli_text_print(stdout, cli_json_text(o, "why"));
	} else if (str_eq(answer, STR("no"))) {
		fputs(": refused, 550 5.1.1: no source of RECIPIENTS knows it", stdout);
	} else if (str_eq(answer, STR("away"))) {
		fputs(": 451 4.3.0 for now: a source of RECIPIENTS cannot be asked", stdout);
	} else if (str_eq(answer, STR("relay"))) {
		fputs(": not in LOCAL_DOMAINS; taken from RELAY_NETWORKS and from who signed in", stdout);
	} else {
		fputs(": refused: not an address", stdout);
	}
	putchar('\n');
}

/* The exit status says what a stranger would be told. */
int tool_recipient_test(struct cli *c)
{
	struct json_object *args = json_object_new_object();
	if (!args)
		return cli_fail("out of memory");
	json_object_object_add(args, "recipient", json_object_new_string(c->args.pos[0]));
	struct json_object *o = cli_ask(c, "recipient.test", args, CLI_ANSWER_MS, false);
	if (!o)
		return CLI_FAILED;
	struct str answer = cli_json_text(o, "answer");
	int rc = str_eq(answer, STR("yes")) ? CLI_DONE : CLI_FAILED;
	if (c->json)
		cli_json_print(o);
	else
		print_verdict(o, answer);
	json_object_put(o);
	return rc;
}
