/* Parsing of command lines. Options may stand anywhere, before and behind the tool's name; "--" ends them. */
#include "args.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const struct cli_opt_info cli_opts[CLI_N_OPTS] = {
	[CLI_CONFIG] = { "config", 'c', "FILE", "configuration (default: $PEPSI_CONFIG, else /etc/pepsi/pepsi.conf)" },
	[CLI_STATE] = { "state", 0, "DIR", "state folder, instead of the configuration's STATE_DIR" },
	[CLI_LOG] = { "log", 'L', "LEVEL", "error, warn, info, debug or trace" },
	[CLI_VERBOSE] = { "verbose", 'v', NULL, "say more (twice: still more)" },
	[CLI_HELP] = { "help", 'h', NULL, "show this help" },
	[CLI_VERSION] = { "version", 'V', NULL, "show the version" },
	[CLI_JSON] = { "json", 0, NULL, "machine-readable output" },
	[CLI_WAIT] = { "wait", 0, "SECS", "wait at most so long" },
	[CLI_STAGE] = { "stage", 0, "STAGE", "only messages at this stage" },
	[CLI_STATUS] = { "status", 0, "STATUS", "only pending, running, paused, held, failed or timeout" },
	[CLI_SENDER] = { "sender", 0, "ADDRESS", "only messages from this address; account: what it may send as, @DOMAIN for a whole domain, may be repeated" },
	[CLI_RECIPIENT] = { "recipient", 0, "ADDRESS", "only messages to this address; @DOMAIN for a whole domain" },
	[CLI_LIMIT] = { "limit", 0, "N", "at most so many messages, oldest first" },
	[CLI_ALL] = { "all", 0, NULL, "every message; needed when nothing else selects" },
	[CLI_RUNNING] = { "running", 0, NULL, "what the running pepsid uses, instead of the file" },
	[CLI_MESSAGE] = { "message", 0, "FILE", "a message; - is standard input; may be repeated" },
	[CLI_FROM] = { "from", 0, "ADDRESS", "its sender; <> is the null sender" },
	[CLI_TO] = { "to", 0, "ADDRESS", "a recipient; may be repeated" },
	[CLI_SET] = { "set", 0, "NAME=VALUE", "an option of the stage, or SECTION.NAME=VALUE; may be repeated" },
	[CLI_ONCE] = { "once", 0, NULL, "one sweep, instead of a service" },
	[CLI_FAILED_ONLY] = { "failed-only", 0, NULL, "only failed messages, not those that timed out" },
	[CLI_TIMEOUT_ONLY] = { "timeout-only", 0, NULL, "only messages that timed out, not failed ones" },
	[CLI_REPEAT] = { "repeat", 0, "N", "all messages so many times, one after the other" },
	[CLI_FUSED] = { "fused", 0, NULL, "as in the worker of the stage before: ask can_fuse(), then process()" },
	[CLI_PASSWORD_STDIN] = { "password-stdin", 0, NULL, "the password is one line of standard input; else it is asked for" },
	[CLI_NO_PASSWORD] = { "no-password", 0, NULL, "no password of its own: PAM, Dovecot, a token or a certificate vouches for it" },
	[CLI_CERTIFICATE] = { "certificate", 0, "SHA256", "fingerprint of a client certificate that signs in; may be repeated" },
	[CLI_MESSAGES_PER_HOUR] = { "messages-per-hour", 0, "N", "limit; default: the configuration's; none: no limit" },
	[CLI_MESSAGES_PER_DAY] = { "messages-per-day", 0, "N", "limit" },
	[CLI_RECIPIENTS_PER_HOUR] = { "recipients-per-hour", 0, "N", "limit" },
	[CLI_RECIPIENTS_PER_DAY] = { "recipients-per-day", 0, "N", "limit" },
	[CLI_DIRECT] = { "direct", 0, NULL, "ask with a resolver of its own, as the configuration says, not through pepsid" },
	[CLI_IP] = { "ip", 0, "ADDRESS", "the client's address; default: that of our Received field on top" },
	[CLI_HELO] = { "helo", 0, "NAME", "what the client called itself; default: likewise" },
	[CLI_LISTENER] = { "listener", 0, "NAME", "the listener whose terms count; default: the one that took it, else the first for SMTP" },
	[CLI_SERVER] = { "server", 0, "ADDRESS[:PORT]", "ask this name server instead of the configured ones; several with commas" },
	[CLI_ID] = { "id", 0, "QUEUEID", "a message of the queue, with its envelope, instead of FILE" },
	[CLI_AS_IS] = { "as-is", 0, NULL, "take nothing off the message: it has not been through this server" },
	[CLI_DOMAIN] = { "domain", 0, "DOMAIN", "only reports about this domain" },
	[CLI_DAY] = { "day", 0, "DATE", "only periods that began on this day (UTC): 2026-11-30" },
	[CLI_SINCE] = { "since", 0, "DATE", "only reports whose period ended on this day or later" },
	[CLI_DRY_RUN] = { "dry-run", 0, NULL, "say what would be done; change and send nothing" },
	[CLI_DESTINATION] = { "destination", 0, "DOMAIN", "only messages to this domain, or address" },
	[CLI_CLIENT] = { "client", 0, "NETWORK", "only messages that came from this address or network" },
	[CLI_FOR] = { "for", 0, "TIME", "the rule ends after so long: 30 min, 4 h, 2 d; default: when it is removed" },
	[CLI_REASON] = { "reason", 0, "TEXT", "why, for those who look at it later" },
	[CLI_XML] = { "xml", 0, NULL, "the report itself, as it would be sent" },
	[CLI_REPORT] = { "report", 0, NULL, "the report itself, as it would be sent" },
	[CLI_FAILURES] = { "failures", 0, NULL, "what failed: of dmarc, reports about single messages (RFC 9991); of tlsrpt, sessions by host and reason" },
	[CLI_SELECTOR] = { "selector", 0, "NAME", "the key's selector; default: one of the day" },
	[CLI_ALGORITHM] = { "algorithm", 0, "ALG", "rsa2048 (default), rsa3072, rsa4096 or ed25519" },
};

static int fail(char *err, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int fail(char *err, size_t size, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(err, size, fmt, ap);
	va_end(ap);
	return -1;
}

static int unknown(const char *what, const char *name, const char *const *known, size_t n, char *err, size_t size)
{
	/* words that other tools, ours among them, have for the same */
	static const char *const same[][2] = { { "remove", "delete" }, { "rm", "delete" }, { "rm", "remove" }, { "delete", "remove" },
		{ "del", "delete" }, { "del", "remove" }, { "ls", "list" }, { "requeue", "retry" }, { "flush", "retry" }, { "create", "add" },
		{ "password", "passwd" }, { "get", "show" }, { "unhold", "release" }, { "resume", "release" }, { "pause", "hold" }, { "move", "set-stage" } };
	const char *near = str_nearest(str_from(name), known, n);
	for (size_t i = 0; i < sizeof same / sizeof *same && !near; i++)
		for (size_t k = 0; k < n && !near && !strcmp(name, same[i][0]); k++)
			near = strcmp(known[k], same[i][1]) ? NULL : known[k];
	return near ? fail(err, size, "unknown %s \"%s\"; did you mean %s?", what, name, near) :
		      fail(err, size, "unknown %s \"%s\"", what, name);
}

static int set(struct cli_args *a, enum cli_opt o, const char *value)
{
	a->set |= CLI_BIT(o);
	if (o == CLI_VERBOSE)
		a->verbose++;
	if (value)
		a->value[o] = value;
	if (CLI_BIT(o) & (CLI_BIT(CLI_MESSAGE) | CLI_BIT(CLI_TO) | CLI_BIT(CLI_SET) | CLI_BIT(CLI_SENDER) | CLI_BIT(CLI_CERTIFICATE))) /* there is room for as many as there are words */
		((struct cli_each *)(uintptr_t)a->each)[a->n_each++] = (struct cli_each){ o, value };
	return 0;
}

/* argv[*i] is "--name" or "--name=value". */
static int take_long(int argc, char **argv, int *i, struct cli_args *a, char *err, size_t size)
{
	struct str name = str_from(argv[*i] + 2);
	const char *value = NULL, *names[CLI_N_OPTS];
	ptrdiff_t eq = str_chr(name, '=');
	if (eq >= 0) {
		value = name.p + eq + 1;
		name.n = (size_t)eq;
	}
	for (unsigned o = 0; o < CLI_N_OPTS; o++) {
		names[o] = cli_opts[o].name;
		if (!str_eq(name, str_from(names[o])))
			continue;
		if (!cli_opts[o].value && value)
			return fail(err, size, "option --%s takes no value", names[o]);
		if (cli_opts[o].value && !value && ++*i >= argc)
			return fail(err, size, "option --%s needs a value: %s", names[o], cli_opts[o].value);
		return set(a, (enum cli_opt)o, cli_opts[o].value && !value ? argv[*i] : value);
	}
	char text[64];
	snprintf(text, sizeof text, "%.*s", STR_ARG(name));
	const char *near = str_nearest(name, names, CLI_N_OPTS);
	return near ? fail(err, size, "unknown option \"--%s\"; did you mean --%s?", text, near) :
		      fail(err, size, "unknown option \"--%s\"", text);
}

/* argv[*i] is "-x", "-xy" or "-xVALUE". */
static int take_short(int argc, char **argv, int *i, struct cli_args *a, char *err, size_t size)
{
	for (const char *p = argv[*i] + 1; *p; p++) {
		unsigned o = 0;
		while (o < CLI_N_OPTS && cli_opts[o].letter != *p)
			o++;
		if (o == CLI_N_OPTS)
			return fail(err, size, "unknown option \"-%c\"", *p);
		if (!cli_opts[o].value) {
			set(a, (enum cli_opt)o, NULL);
			continue;
		}
		if (p[1])
			return set(a, (enum cli_opt)o, p + 1);
		if (++*i >= argc)
			return fail(err, size, "option -%c needs a value: %s", *p, cli_opts[o].value);
		return set(a, (enum cli_opt)o, argv[*i]);
	}
	return 0;
}

/* Takes the tool's name and verb off the operands. */
static int find_tool(struct cli_args *a, const char *linked, char *err, size_t size)
{
	const char *names[CLI_TOOLS_MAX], *name = linked;
	size_t n = 0, used = linked ? 0 : 1;
	bool verbs = false, known = false;
	if (!name) {
		if (!a->n_pos)
			return a->set & (CLI_BIT(CLI_HELP) | CLI_BIT(CLI_VERSION)) ? 0 : fail(err, size, "which tool?");
		name = a->pos[0];
	}
	for (size_t i = 0; i < cli_n_tools; i++)
		if (!strcmp(cli_tools[i].name, name)) {
			known = true;
			verbs |= cli_tools[i].verb != NULL;
			a->group = cli_tools[i].name;
		}
	if (!known) {
		for (size_t i = 0; i < cli_n_tools && n < CLI_TOOLS_MAX; i++)
			if (!i || strcmp(cli_tools[i].name, cli_tools[i - 1].name) != 0) /* its verbs stand together */
				names[n++] = cli_tools[i].name;
		return unknown("tool", name, names, n, err, size);
	}
	const char *verb = verbs && used < a->n_pos ? a->pos[used] : NULL;
	for (size_t i = 0; i < cli_n_tools && n < CLI_TOOLS_MAX; i++) {
		const struct cli_tool *t = &cli_tools[i];
		if (strcmp(t->name, name) != 0)
			continue;
		if (t->verb)
			names[n++] = t->verb;
		if (!t->verb || (verb && !strcmp(verb, t->verb)))
			a->tool = t;
	}
	used += verb != NULL;
	if (!a->tool) {
		if (verb) {
			char what[64];
			snprintf(what, sizeof what, "%s command", name);
			return unknown(what, verb, names, n, err, size);
		}
		return a->set & (CLI_BIT(CLI_HELP) | CLI_BIT(CLI_VERSION)) ? 0 : fail(err, size, "%s: what to do?", name);
	}
	a->n_pos -= used;
	memmove(a->pos, a->pos + used, a->n_pos * sizeof *a->pos);
	return 0;
}

static int check_tool(const struct cli_args *a, char *err, size_t size)
{
	const struct cli_tool *t = a->tool;
	char name[64];
	if (!t || a->set & (CLI_BIT(CLI_HELP) | CLI_BIT(CLI_VERSION)))
		return 0;
	snprintf(name, sizeof name, "%s%s%s", t->name, t->verb ? " " : "", t->verb ? t->verb : "");
	for (unsigned o = 0; o < CLI_N_OPTS; o++)
		if (a->set & CLI_BIT(o) & ~(CLI_GLOBAL | t->opts))
			return fail(err, size, "%s takes no option --%s", name, cli_opts[o].name);
	if (a->n_pos < t->min_pos)
		return fail(err, size, "%s needs %s", name, t->operands);
	if (a->n_pos > t->max_pos)
		return t->max_pos ? fail(err, size, "%s takes only %s: what is \"%s\"?", name, t->operands, a->pos[t->max_pos]) :
				    fail(err, size, "%s takes no operand: what is \"%s\"?", name, a->pos[0]);
	return 0;
}

int cli_args_parse(int argc, char **argv, struct cli_args *args, char *err, size_t err_size)
{
	const char *base = argc > 0 ? strrchr(argv[0], '/') : NULL;
	bool more = true;
	*args = (struct cli_args){ .n_pos = 0 };
	err[0] = 0;
	base = base ? base + 1 : argc > 0 ? argv[0] : "pepsi";
	args->pos = calloc((size_t)(argc > 0 ? argc : 1), sizeof *args->pos + sizeof *args->each);
	if (!args->pos)
		return fail(err, err_size, "out of memory");
	args->each = (const struct cli_each *)(args->pos + (argc > 0 ? argc : 1));
	for (int i = 1; i < argc; i++) {
		int rc = 0;
		if (more && !strcmp(argv[i], "--"))
			more = false;
		else if (more && !strncmp(argv[i], "--", 2))
			rc = take_long(argc, argv, &i, args, err, err_size);
		else if (more && argv[i][0] == '-' && argv[i][1])
			rc = take_short(argc, argv, &i, args, err, err_size);
		else if (args->n_pos == CLI_POSITIONAL_MAX)
			rc = fail(err, err_size, "more than %d operands", CLI_POSITIONAL_MAX);
		else
			args->pos[args->n_pos++] = argv[i];
		if (rc)
			return -1;
	}
	if (find_tool(args, str_starts(str_from(base), STR("pepsi-")) ? base + 6 : NULL, err, err_size))
		return -1;
	return check_tool(args, err, err_size);
}
