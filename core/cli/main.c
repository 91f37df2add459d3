/* Finds the tool, sets the log up, runs it, and makes sure that what it printed was really written. */
#include "base/log.h"
#include "cli/cli.h"
#include "cli_internal.h"
#include "tool_dmarc.h"
#include "tool_keys.h"
#include "tool_sendmail.h"
#include "tool_suppression.h"
#include "tool_sts.h"
#include "tool_tlsrpt.h"
#include "tool_token.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

const struct cli_tool cli_tools[] = {
	{ "status", NULL, CLI_BIT(CLI_WAIT), 0, 0, tool_status, "", "what pepsid is doing; --wait: until it accepts mail" },
	{ "queue", "list", CLI_FILTER | CLI_BIT(CLI_LIMIT), 0, 0, tool_queue_list, "", "list messages, oldest first" },
	{ "queue", "show", 0, 1, 1, tool_queue_show, "ID", "everything known about one message" },
	{ "queue", "cat", 0, 1, 1, tool_queue_cat, "ID", "write the raw message to standard output" },
	{ "queue", "delete", CLI_CHANGE, 0, CLI_POSITIONAL_MAX, tool_queue_delete,
	    "[ID ...]", "delete messages, without a bounce" },
	{ "queue", "retry", CLI_CHANGE, 0, CLI_POSITIONAL_MAX, tool_queue_retry,
	    "[ID ...]", "make paused and failed messages run now" },
	{ "queue", "set-stage", CLI_CHANGE, 1, CLI_POSITIONAL_MAX,
	    tool_queue_set_stage, "STAGE [ID ...]", "move messages to another stage" },
	{ "queue", "hold", CLI_CHANGE | CLI_RULE, 0, CLI_POSITIONAL_MAX, tool_queue_hold, "add|list|remove RULE|ID ...",
	    "hold mail that is queued and mail that comes, by a rule; or single messages" },
	{ "queue", "release", CLI_CHANGE, 0, CLI_POSITIONAL_MAX, tool_queue_release, "[ID ...]", "let held messages go, past the rules there are" },
	{ "queue", "reroute", CLI_CHANGE | CLI_RULE, 0, CLI_POSITIONAL_MAX, tool_queue_reroute, "STAGE [ID ...]|list|remove RULE",
	    "send mail by another stage, what is queued and what comes" },
	{ "queue", "destinations", CLI_BIT(CLI_STAGE) | CLI_BIT(CLI_LIMIT), 0, 1, tool_queue_destinations, "[PATTERN]", "where mail goes, what waits for it, what is wrong there; worst first" },
	{ "sendmail", NULL, 0, 0, CLI_POSITIONAL_MAX, tool_sendmail, "[FLAGS] [ADDRESS ...]", "send a message, with the flags of sendmail(8); also mailq, newaliases" },
	{ "config", "check", 0, 0, 0, tool_config_check, "", "check the configuration and report every fault" },
	{ "config", "set", 0, 3, 3, tool_config_set, "STAGE OPTION VALUE", "lay a value over the file's, in the running pepsid's database" },
	{ "config", "unset", 0, 2, 2, tool_config_unset, "STAGE OPTION", "take it away again: the file's value counts" },
	{ "config", "show", CLI_BIT(CLI_RUNNING), 0, 0, tool_config_show, "", "show what is configured; secrets masked" },
	{ "worker", NULL, 0, 1, 1, tool_worker, "STAGE", "run one worker by hand: ids on standard input" },
	{ "failure-bouncer", NULL, CLI_BIT(CLI_ONCE) | CLI_BIT(CLI_FAILED_ONLY) | CLI_BIT(CLI_TIMEOUT_ONLY), 0, 0,
	    tool_failure_bouncer, "", "move failed messages to the bounce stage; a service, unless --once" },
	{ "dmarc", "list", CLI_BIT(CLI_DOMAIN) | CLI_BIT(CLI_DAY) | CLI_BIT(CLI_LIMIT) | CLI_BIT(CLI_FAILURES), 0, 0, tool_dmarc_list, "", "DMARC reports to others: counting, waiting, sent; muted addresses" },
	{ "dmarc", "show", CLI_BIT(CLI_XML), 1, 1, tool_dmarc_show, "ID", "what is in one of them" },
	{ "dmarc", "send", CLI_BIT(CLI_DAY) | CLI_BIT(CLI_DRY_RUN) | CLI_BIT(CLI_FAILURES), 0, 0, tool_dmarc_send, "", "send those whose period is over" },
	{ "dmarc", "received", CLI_BIT(CLI_DOMAIN) | CLI_BIT(CLI_SINCE) | CLI_BIT(CLI_LIMIT) | CLI_BIT(CLI_FAILURES), 0, 0, tool_dmarc_received, "",
	    "what others report about our domains" },
	{ "dmarc", "unmute", 0, 1, 1, tool_dmarc_unmute, "ADDRESS", "send reports to an address again that one came back from" },
	{ "suppression", "list", CLI_BIT(CLI_RECIPIENT) | CLI_BIT(CLI_LIMIT), 0, 0, tool_suppression_list, "", "recipients that mail is not sent to; --json: to export them" },
	{ "suppression", "show", 0, 1, 1, tool_suppression_show, "ADDRESS", "one of them: why, since when, how often" },
	{ "suppression", "add", CLI_BIT(CLI_FOR) | CLI_BIT(CLI_REASON), 1, CLI_POSITIONAL_MAX, tool_suppression_add, "ADDRESS ...", "send them nothing" },
	{ "suppression", "complaint", CLI_BIT(CLI_FOR) | CLI_BIT(CLI_REASON), 1, CLI_POSITIONAL_MAX, tool_suppression_complaint, "ADDRESS ...", "the same, for they complained" },
	{ "suppression", "allow", CLI_BIT(CLI_FOR) | CLI_BIT(CLI_REASON), 1, CLI_POSITIONAL_MAX, tool_suppression_allow, "ADDRESS ...", "never suppress them, whatever servers say" },
	{ "suppression", "remove", 0, 1, CLI_POSITIONAL_MAX, tool_suppression_remove, "ADDRESS ...", "take them off the list" },
	{ "tlsrpt", "list", CLI_BIT(CLI_DOMAIN) | CLI_BIT(CLI_DAY) | CLI_BIT(CLI_LIMIT), 0, 0, tool_tlsrpt_list, "", "TLS reports to others: counting, waiting, sent; who is muted" },
	{ "tlsrpt", "show", CLI_BIT(CLI_REPORT), 1, 1, tool_tlsrpt_show, "ID", "what is in one of them" },
	{ "tlsrpt", "send", CLI_BIT(CLI_DAY) | CLI_BIT(CLI_DRY_RUN), 0, 0, tool_tlsrpt_send, "", "send those whose day is over" },
	{ "tlsrpt", "received", CLI_BIT(CLI_DOMAIN) | CLI_BIT(CLI_SINCE) | CLI_BIT(CLI_LIMIT) | CLI_BIT(CLI_FAILURES), 0, 0, tool_tlsrpt_received, "",
	    "what others report about TLS with our mail exchangers" },
	{ "tlsrpt", "mute", 0, 1, 1, tool_tlsrpt_mute, "ADDRESS", "send no reports to an address, or https URI, for a year" },
	{ "tlsrpt", "unmute", 0, 1, 1, tool_tlsrpt_unmute, "ADDRESS", "send them again" },
	{ "sts", "list", CLI_BIT(CLI_LIMIT), 0, 0, tool_sts_list, "", "policies of MTA-STS of other domains" },
	{ "sts", "show", 0, 1, 1, tool_sts_show, "DOMAIN", "one of them, and how mail to the domain was protected" },
	{ "sts", "fetch", 0, 1, 1, tool_sts_fetch, "DOMAIN", "fetch a domain's policy now, through the running pepsid, and keep it" },
	{ "sts", "renew", 0, 0, 0, tool_sts_renew, "", "fetch again what grows old, as workers do; for a timer where mail is rare" },
	{ "sts", "forget", 0, 1, 1, tool_sts_forget, "DOMAIN", "forget a domain's policy, and how mail to it was protected" },
	{ "sts", "weaker", CLI_BIT(CLI_LIMIT) | CLI_BIT(CLI_ALL), 0, 0, tool_sts_weaker, "", "domains that mail goes to less protected than before" },
	{ "sts", "addresses", CLI_BIT(CLI_LIMIT), 0, 1, tool_sts_addresses, "[HOST]", "addresses of mail exchangers, those that fail first" },
	{ "token", "list", 0, 0, 0, tool_token_list, "", "OAuth2 tokens for signing in elsewhere: when they expire, what went wrong" },
	{ "token", "show", 0, 1, 1, tool_token_show, "NAME", "one of them" },
	{ "token", "sign-in", 0, 1, 1, tool_token_sign_in, "NAME", "get the first one: sign in with a browser" },
	{ "token", "add", 0, 1, 1, tool_token_add, "NAME", "get the first one: a refresh token from elsewhere, on standard input" },
	{ "token", "refresh", 0, 1, 1, tool_token_refresh, "NAME", "refresh it now" },
	{ "token", "remove", 0, 1, 1, tool_token_remove, "NAME", "forget it" },
	{ "account", "add", CLI_ACCOUNT | CLI_BIT(CLI_PASSWORD_STDIN) | CLI_BIT(CLI_NO_PASSWORD), 1, 1, tool_account_add, "NAME",
	    "a new account that may sign in to send mail" },
	{ "account", "list", 0, 0, 0, tool_account_list, "", "list the accounts" },
	{ "account", "show", 0, 1, 1, tool_account_show, "NAME", "everything about one, but its password" },
	{ "account", "passwd", CLI_BIT(CLI_PASSWORD_STDIN), 1, 1, tool_account_passwd, "NAME", "give it another password" },
	{ "account", "set", CLI_ACCOUNT, 1, 1, tool_account_set, "NAME", "change what it may; none empties a list" },
	{ "account", "enable", 0, 1, 1, tool_account_enable, "NAME", "let it sign in again" },
	{ "account", "disable", 0, 1, 1, tool_account_disable, "NAME", "keep it from signing in" },
	{ "account", "remove", 0, 1, 1, tool_account_remove, "NAME", "remove it" },
	{ "recipient", "add", 0, 1, CLI_POSITIONAL_MAX, tool_recipient_add, "ADDRESS ...", "these live here (RECIPIENTS = table); @DOMAIN: everybody there" },
	{ "recipient", "remove", 0, 1, CLI_POSITIONAL_MAX, tool_recipient_remove, "ADDRESS ...", "these do not any more" },
	{ "recipient", "list", 0, 0, 0, tool_recipient_list, "", "list the table" },
	{ "recipient", "test", 0, 1, 1, tool_recipient_test, "ADDRESS", "what a RCPT with it is told, and by which source" },
	{ "reload", NULL, 0, 0, 0, tool_reload, "", "make pepsid read its configuration again" },
	{ "stop", NULL, CLI_BIT(CLI_WAIT), 0, 0, tool_stop, "", "drain and stop pepsid; --wait: until it is gone" },
	{ "keys", "dkim", CLI_BIT(CLI_STAGE) | CLI_BIT(CLI_SELECTOR) | CLI_BIT(CLI_ALGORITHM) | CLI_BIT(CLI_SERVER) | CLI_BIT(CLI_WAIT), 1, 2, tool_keys_dkim,
	    "VERB [DOMAIN]", "keys that mail is signed with: add, list, dns, remove, rotate, check" },
	{ "keys", "srs", CLI_BIT(CLI_STAGE), 1, 2, tool_keys_srs, "VERB [KEY]", "keys of the return addresses of forwarded mail: add, list, rotate, remove" },
	{ "dns", NULL, CLI_BIT(CLI_DIRECT), 1, 2, tool_dns, "NAME [TYPE]", "ask the DNS as pepsid does: answer, DNSSEC, TTL, server" },
	{ "auth-check", NULL, CLI_BIT(CLI_IP) | CLI_BIT(CLI_HELO) | CLI_BIT(CLI_FROM) | CLI_BIT(CLI_LISTENER) | CLI_BIT(CLI_SERVER) | CLI_BIT(CLI_ID) |
	    CLI_BIT(CLI_AS_IS), 0, 1, tool_auth_check, "[FILE]", "explain SPF, DKIM, ARC and DMARC of a stored message, and what a listener does about it" },
	{ "stage", "list", 0, 0, 0, tool_stage_list, "", "list the stage modules along MODULE_PATH" },
	{ "stage", "describe", 0, 1, 1, tool_stage_describe, "MODULE", "what a stage module is and which options it takes" },
	{ "stage", "run", CLI_BIT(CLI_MESSAGE) | CLI_BIT(CLI_FROM) | CLI_BIT(CLI_TO) | CLI_BIT(CLI_SET) | CLI_BIT(CLI_STAGE) |
	    CLI_BIT(CLI_REPEAT) | CLI_BIT(CLI_FUSED), 1, 1,
	    tool_stage_run, "MODULE", "messages through a module, without daemon or database" },
	{ "version", NULL, 0, 0, 0, tool_version, "", "show the version" },
	{ "help", NULL, 0, 0, 2, tool_help, "[TOOL]", "show this help, or a tool's" },
};
const size_t cli_n_tools = sizeof cli_tools / sizeof *cli_tools;
_Static_assert(sizeof cli_tools / sizeof *cli_tools <= CLI_TOOLS_MAX, "a misspelt tool is looked for among so many");

static void complain(const char *fmt, va_list ap) __attribute__((format(printf, 1, 0)));
static void complain(const char *fmt, va_list ap)
{
	struct buf text = BUF_INIT(256 * 1024);
	buf_vaddf(&text, fmt, ap);
	fputs("pepsi: ", stderr);
	/* line by line, so that a list of faults stays a list */
	struct str rest = buf_str(&text), line;
	for (bool first = true; str_word(&rest, "\n", &line); first = false) {
		if (!first)
			fputs("\n  ", stderr);
		cli_text_print(stderr, line);
	}
	putc('\n', stderr);
	buf_free(&text);
}

int cli_fail(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	complain(fmt, ap);
	va_end(ap);
	return CLI_FAILED;
}

int cli_usage(const struct cli *c, const char *fmt, ...)
{
	const char *tool = c->args.tool ? c->args.tool->name : c->args.group;
	va_list ap;
	va_start(ap, fmt);
	complain(fmt, ap);
	va_end(ap);
	fprintf(stderr, "Try: pepsi %s%s--help\n", tool ? tool : "", tool ? " " : "");
	return CLI_USAGE;
}

int64_t cli_number(const struct cli *c, const char *what, const char *text, int64_t min, int64_t max)
{
	uint64_t v;
	if (!str_u64(str_from(text), (uint64_t)max, &v) && (int64_t)v >= min)
		return (int64_t)v;
	cli_usage(c, "%s: \"%s\" is not a whole number from %lld to %lld", what, text, (long long)min, (long long)max);
	return -1;
}

static void print_options(uint64_t set)
{
	for (unsigned o = 0; o < CLI_N_OPTS; o++) {
		char text[64];
		if (!(set & CLI_BIT(o)))
			continue;
		snprintf(text, sizeof text, "%s%c%s--%s%s%s", cli_opts[o].letter ? "-" : "  ",
		    cli_opts[o].letter ? cli_opts[o].letter : ' ', cli_opts[o].letter ? ", " : " ", cli_opts[o].name,
		    cli_opts[o].value ? " " : "", cli_opts[o].value ? cli_opts[o].value : "");
		printf("  %-24s %s\n", text, cli_opts[o].help);
	}
}

/* group NULL: all tools. */
static int print_help(const char *group, const struct cli_tool *only)
{
	uint64_t set = 0;
	printf("Usage: pepsi %s [OPTIONS]\n\n", group ? group : "TOOL");
	for (size_t i = 0; i < cli_n_tools; i++) {
		const struct cli_tool *t = &cli_tools[i];
		char text[64];
		if (only ? t != only : group && strcmp(t->name, group) != 0)
			continue;
		set |= t->opts;
		snprintf(text, sizeof text, "%s%s%s%s%s", t->name, t->verb ? " " : "", t->verb ? t->verb : "",
		    t->operands[0] ? " " : "", t->operands);
		printf("  %-30s %s\n", text, t->help);
	}
	if (group && set) {
		printf("\nOptions:\n");
		print_options(set);
	}
	printf("\nOptions of every tool:\n");
	print_options(CLI_GLOBAL);
	printf("\nExit status: 0 done, 1 failed, 2 wrong usage.\n");
	return CLI_DONE;
}

int tool_help(struct cli *c)
{
	const char *names[sizeof cli_tools / sizeof *cli_tools];
	size_t n = 0;
	if (!c->args.n_pos)
		return print_help(NULL, NULL);
	for (size_t i = 0; i < cli_n_tools; i++) {
		if (!strcmp(cli_tools[i].name, c->args.pos[0]))
			return print_help(cli_tools[i].name, NULL);
		names[n++] = cli_tools[i].name;
	}
	const char *near = str_nearest(str_from(c->args.pos[0]), names, n);
	return near ? cli_usage(c, "unknown tool \"%s\"; did you mean %s?", c->args.pos[0], near) :
		      cli_usage(c, "unknown tool \"%s\"", c->args.pos[0]);
}

int tool_version(struct cli *c)
{
	if (c->json)
		printf("{\"version\":\"%s\"}\n", PEPSI_VERSION);
	else
		printf("pepsi %s\n", PEPSI_VERSION);
	return CLI_DONE;
}

static int setup_log(const struct cli *c)
{
	/* a tool speaks through its output; a worker by hand is watched, and the bouncer is a service */
	int (*run)(struct cli *) = c->args.tool ? c->args.tool->run : NULL;
	enum log_level level = run == tool_worker || run == tool_failure_bouncer || run == tool_dmarc_send || run == tool_tlsrpt_send ? LOG_LV_INFO : LOG_LV_WARN;
	const char *text = c->args.value[CLI_LOG];
	if (text && log_level_parse(str_from(text), &level))
		return cli_usage(c, "--log: \"%s\" is not error, warn, info, debug or trace", text);
	for (unsigned i = 0; !text && i < c->args.verbose && level < LOG_LV_TRACE; i++)
		level++;
	log_setup(level, c->args.tool ? c->args.tool->name : "pepsi");
	return CLI_DONE;
}

static int run(struct cli *c, int argc, char **argv)
{
	char err[256];
	if (cli_args_parse(argc, argv, &c->args, err, sizeof err))
		return cli_usage(c, "%s", err);
	c->json = c->args.set & CLI_BIT(CLI_JSON);
	if (c->args.set & CLI_BIT(CLI_HELP))
		return print_help(c->args.group, c->args.tool);
	if (c->args.set & CLI_BIT(CLI_VERSION))
		return tool_version(c);
	int rc = setup_log(c);
	return rc ? rc : c->args.tool->run(c);
}

int cli_main(int argc, char **argv)
{
	struct cli c = { .fd = -1 };
	int skip;
	if (sendmail_is_called(argc, argv, &skip)) /* flags and exit codes of its own */
		return tool_sendmail_main(argc - skip, argv + skip);
	int rc = run(&c, argc, argv);
	cli_client_close(&c);
	free(c.args.pos);
	if (fflush(stdout) || ferror(stdout))
		return cli_fail("cannot write to standard output: %s", strerror(errno));
	return rc;
}
