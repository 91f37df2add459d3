/* Command lines that programs really use, and those that nobody should. */
#include "tool_sendmail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

static int split(char *line, char **argv, int max)
{
	int n = 0;
	while (*line && n < max) {
		argv[n++] = line;
		line += strcspn(line, " ");
		if (*line)
			*line++ = 0;
	}
	return n;
}

/* "submit t i v from=x name=x notify=x ret=x envid=x errors=p | a b | ignored" */
static void show(struct buf *out, const struct sendmail_args *a)
{
	static const char *const modes[] = { "submit", "smtp", "queue", "alias", "verify", "flush", "help", "version" };
	buf_addz(out, modes[a->mode]);
	if (a->extract)
		buf_addz(out, " t");
	if (a->ignore_dots)
		buf_addz(out, " i");
	if (a->verbose)
		buf_addz(out, " v");
	if (a->body_8bit)
		buf_addz(out, " 8");
	const char *const values[][2] = { { "from", a->from }, { "name", a->full_name }, { "notify", a->notify }, { "ret", a->ret }, { "envid", a->envid } };
	for (size_t i = 0; i < 5; i++)
		if (values[i][1])
			buf_addf(out, " %s=%s", values[i][0], values[i][1]);
	if (a->errors != SENDMAIL_PRINT)
		buf_addf(out, " errors=%c", a->errors);
	for (size_t i = 0; i < a->n_rcpts; i++)
		buf_addf(out, " %s", a->rcpts[i]);
	if (a->ignored.n)
		buf_addf(out, " | %s", buf_z(&a->ignored));
}

static void lines(void **state)
{
	static const struct {
		const char *line, *want; /* want "! …": refused, with this in the sentence */
	} cases[] = {
		{ "sendmail -t -i", "submit t i" },
		{ "/usr/sbin/sendmail -ti", "submit t i" },
		{ "sendmail -FCronDaemon -i -odi -oem -oi -t -f root", "submit t i from=root name=CronDaemon errors=m | -odi" },
		{ "sendmail -oi -f a@b c@d", "submit i from=a@b c@d" },
		{ "sendmail -oi -fa@b -- -c@d -t", "submit i from=a@b -c@d -t" },
		{ "sendmail a@b -f c@d e@f -i", "submit i from=c@d a@b e@f" },
		{ "sendmail -r x a@b", "submit from=x a@b" },
		{ "sendmail -bm -v -N success,failure -R hdrs -V id -B 8BITMIME a@b", "submit v 8 notify=success,failure ret=hdrs envid=id a@b" },
		{ "sendmail -Nnever -B7BIT a@b", "submit notify=never a@b" },
		{ "sendmail -O IgnoreDots=True -OErrorMode=q -O DeliveryMode=b -odq -om -o7 a@b",
		    "submit i errors=q a@b | -ODeliveryMode=b -odq -om -o7" },
		{ "sendmail -oee -G -U -n -m -h 17 -L tag -X /tmp/log -C /etc/shadow -Am -d0.1 a@b",
		    "submit errors=e a@b | -G -U -n -m -h17 -Ltag -X/tmp/log -C/etc/shadow -Am -d0.1" },
		{ "sendmail -ow -oew -em a@b", "submit errors=m a@b | -ow" },
		{ "sendmail -bs", "smtp" }, { "sendmail -b s", "smtp" }, { "sendmail -bp", "queue" }, { "sendmail -bi", "alias" }, { "sendmail -I", "alias" },
		{ "sendmail -bv a@b", "verify a@b" }, { "sendmail -q", "flush" }, { "sendmail -q30m -v", "flush v" }, { "sendmail -qRx", "flush" },
		{ "mailq", "queue" }, { "pepsi-mailq -v", "queue v" }, { "newaliases", "alias" }, { "pepsi-newaliases", "alias" },
		{ "sendmail --help", "help" }, { "sendmail --version", "version" }, { "sendmail", "submit" }, { "sendmail - a@b", "submit a@b" },
		{ "sendmail -bH", "submit | -bH" },
		{ "sendmail -Z", "! -Z" }, { "sendmail --nothing", "! --nothing" }, { "sendmail -f", "! -f needs a value" }, { "sendmail -bd", "! pepsid" },
		{ "sendmail -bt", "! -bt" }, { "sendmail -bmx", "! -bmx" }, { "sendmail -N never,delay", "! never stands alone" }, { "sendmail -N ,", "! never" },
		{ "sendmail -N sometimes", "! sometimes" }, { "sendmail -R some", "! -R" }, { "sendmail -B 9BIT", "! -B" }, { "sendmail -oex", "! -oex" },
		{ "sendmail -V \x01", "! printable" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct sendmail_args a;
		struct buf got = BUF_INIT(4096);
		char line[512], err[256], *argv[64];
		snprintf(line, sizeof line, "%s", cases[i].line);
		int argc = split(line, argv, 64), r = sendmail_args_parse(argc, argv, &a, err, sizeof err);
		if (cases[i].want[0] == '!') {
			if (r != EX_USAGE || !strstr(err, cases[i].want + 2))
				fail_msg("%s: %d %s", cases[i].line, r, err);
		} else {
			show(&got, &a);
			if (r || strcmp(buf_z(&got), cases[i].want))
				fail_msg("%s: %d %s: %s", cases[i].line, r, err, buf_z(&got));
		}
		buf_free(&got);
		sendmail_args_done(&a);
	}
}

static void names(void **state)
{
	static const struct {
		const char *line;
		int skip; /* -1: another tool */
	} cases[] = { { "sendmail -t", 0 }, { "/usr/lib/sendmail x", 0 }, { "./pepsi-sendmail", 0 }, { "mailq", 0 }, { "pepsi sendmail -t", 1 }, { "/x/pepsi mailq", 1 },
		{ "pepsi status", -1 }, { "pepsi", -1 }, { "pepsi-queue sendmail", -1 }, { "sendmailx", -1 } };
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char line[256], *argv[16];
		int skip;
		snprintf(line, sizeof line, "%s", cases[i].line);
		int argc = split(line, argv, 16);
		bool is = sendmail_is_called(argc, argv, &skip);
		assert_int_equal(is ? skip : -1, cases[i].skip);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(lines), cmocka_unit_test(names) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
