/* pepsi-sendmail, also as sendmail, mailq and newaliases: finds out where it is, and calls what the flags ask for. Needs no
 * privilege and has none: pepsid learns from the kernel who calls. */
#include "tool_sendmail.h"

#include "base/log.h"
#include "cli_internal.h"
#include "config/locate.h"
#include "submit/submit.h"

#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

int sendmail_fail(const struct sendmail_site *site, int code, const char *fmt, ...)
{
	struct buf text = BUF_INIT(64 * 1024);
	va_list ap;
	va_start(ap, fmt);
	buf_vaddf(&text, fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s: ", site->program);
	cli_text_print(stderr, buf_str(&text));
	putc('\n', stderr);
	buf_free(&text);
	return code;
}

/* The first word of the gecos field; & stands for the login name with a capital. */
static void full_name(char *out, size_t size, const char *gecos, const char *user)
{
	size_t n = 0;
	for (; *gecos && *gecos != ',' && n + 1 < size; gecos++) {
		if (*gecos != '&') {
			out[n++] = *gecos;
			continue;
		}
		for (const char *u = user; *u && n + 1 < size; u++)
			out[n++] = u == user && *u >= 'a' && *u <= 'z' ? (char)(*u - 32) : *u;
	}
	out[n] = 0;
}

static void who_calls(struct sendmail_site *s)
{
	const struct passwd *pw = getpwuid(getuid());
	const char *name = getenv("NAME");
	if (pw && pw->pw_name[0])
		snprintf(s->user, sizeof s->user, "%s", pw->pw_name);
	else
		snprintf(s->user, sizeof s->user, "uid%u", (unsigned)getuid());
	if (name && *name)
		snprintf(s->full_name, sizeof s->full_name, "%s", name);
	else if (pw && pw->pw_gecos)
		full_name(s->full_name, sizeof s->full_name, pw->pw_gecos, s->user);
}

static int find_site(struct sendmail_site *s)
{
	const char *file = getenv("PEPSI_CONFIG"), *host;
	char noted[4096];
	struct config_faults *faults = config_faults_new();
	if (!file || !*file)
		file = CLI_CONFIG_DEFAULT;
	s->config = faults ? config_load(file, faults) : NULL; /* what is wrong in it is pepsid's business */
	config_faults_free(faults);
	if (!s->config)
		return sendmail_fail(s, EX_OSERR, "out of memory");
	if (config_locate_find(file, noted, sizeof noted) == 0)
		config_set(s->config, "pepsi", "STATE_DIR", noted);
	char *dir = config_path(s->config, "pepsi", "STATE_DIR");
	if (!dir)
		return sendmail_fail(s, EX_CONFIG, "%s: no usable STATE_DIR", file);
	int n = snprintf(s->socket, sizeof s->socket, "%s/" SUBMIT_SOCKET, dir), m = snprintf(s->drop, sizeof s->drop, "%s/" SUBMIT_DROP, dir);
	free(dir);
	if (n < 0 || m < 0 || (size_t)n >= sizeof s->socket || (size_t)m >= sizeof s->drop)
		return sendmail_fail(s, EX_CONFIG, "%s: the name of STATE_DIR is too long", file);
	host = config_str(s->config, "pepsi", "HOSTNAME");
	if (host)
		snprintf(s->host, sizeof s->host, "%s", host);
	else if (gethostname(s->host, sizeof s->host - 1))
		snprintf(s->host, sizeof s->host, "localhost");
	s->size_limit = (uint64_t)config_int(s->config, "listener-sendmail", "MESSAGE_SIZE_LIMIT");
	s->min_free = (uint64_t)config_int(s->config, "pepsi-ingress", "MIN_FREE_SPACE");
	who_calls(s);
	return 0;
}

static int help(const struct sendmail_site *s)
{
	printf("usage: %s [FLAGS] [ADDRESS ...]        a message on standard input, sent to the addresses\n"
	       "  -t            also to the addresses in To, Cc and Bcc\n"
	       "  -i, -oi       a line of a dot alone does not end the message\n"
	       "  -f ADDRESS    envelope sender (-r is the same); -F NAME: name for a From field\n"
	       "  -N, -R, -V    reports of delivery: never|success,failure,delay; full|hdrs; envelope id\n"
	       "  -oem -oep -oeq  refusals: by mail, on standard error, by the exit code alone\n"
	       "  -bs           SMTP on standard input and output    -bv   are these addresses taken?\n"
	       "  -bp           show the queue (mailq)               -q    try what waits in it now\n"
	       "  -v            say what is done\n"
	       "Other flags of sendmail are taken and have no effect; see pepsi-sendmail(1).\n", s->program);
	return EX_OK;
}

static int run(struct sendmail_site *s, const struct sendmail_args *a)
{
	int r;
	if (a->mode == SENDMAIL_HELP)
		return help(s);
	if (a->mode == SENDMAIL_VERSION) {
		puts("pepsi-sendmail " PEPSI_VERSION);
		return EX_OK;
	}
	if ((r = find_site(s)))
		return r;
	if (a->verbose && a->ignored.n)
		printf("%s: without effect here: %s\n", s->program, buf_z(&a->ignored));
	switch (a->mode) {
	case SENDMAIL_SMTP:
		return sendmail_smtp(s);
	case SENDMAIL_QUEUE:
		return sendmail_queue(s);
	case SENDMAIL_VERIFY:
		return sendmail_verify(s, a);
	case SENDMAIL_FLUSH:
		return sendmail_flush(s, a->verbose);
	case SENDMAIL_ALIAS:
		if (a->verbose)
			printf("%s: alias files need no rebuilding; workers read a changed one by themselves\n", s->program);
		return EX_OK;
	case SENDMAIL_SUBMIT:
	case SENDMAIL_HELP:
	case SENDMAIL_VERSION:
		break;
	}
	return sendmail_submit(s, a);
}

int tool_sendmail_main(int argc, char **argv)
{
	static struct sendmail_site site;
	struct sendmail_args a;
	char err[256];
	const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
	site = (struct sendmail_site){ .program = slash ? slash + 1 : argc > 0 ? argv[0] : "sendmail" };
	log_setup(LOG_LV_ERROR, "sendmail");
	int r = sendmail_args_parse(argc, argv, &a, err, sizeof err);
	if (r)
		sendmail_fail(&site, r, "%s", err);
	else
		r = run(&site, &a);
	sendmail_args_done(&a);
	config_free(site.config);
	if (fflush(stdout) || ferror(stdout))
		return sendmail_fail(&site, EX_IOERR, "cannot write to standard output");
	return r;
}

/* For the table of tools, which lists it; the command line never gets there. */
int tool_sendmail(struct cli *c)
{
	return cli_usage(c, "sendmail takes its own flags: put no others before it");
}
