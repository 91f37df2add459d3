/* The tools from argument vector to exit status and output, against a real admin over its real socket in a child
 * process; only the database and the modules are not there. */
#include "fixture.h"

#include "base/clock.h"
#include "cli/cli.h"

#include <errno.h>
#include <json-c/json.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ESC "\x1b"

struct output {
	int status;
	char *out, *err;
	size_t n_out;
};

static char *slurp(FILE *f, size_t *ret_n)
{
	struct buf b = BUF_INIT(16 << 20);
	rewind(f);
	for (;;) {
		char *at = buf_room(&b, 65536);
		size_t n = at ? fread(at, 1, 65536, f) : 0;
		if (!n)
			break;
		b.n += n;
	}
	fclose(f);
	b.p[b.n] = 0;
	if (ret_n)
		*ret_n = b.n;
	return b.p;
}

/* Runs cli_main with standard output and error caught. The words end with NULL. */
static struct output run(const char *first, ...)
{
	char *argv[32];
	struct output o;
	int argc = 0, keep_out = dup(1), keep_err = dup(2);
	FILE *out = tmpfile(), *err = tmpfile();
	va_list ap;
	va_start(ap, first);
	for (const char *w = first; w && argc < 31; w = va_arg(ap, const char *))
		argv[argc++] = str_dupz(str_from(w));
	va_end(ap);
	argv[argc] = NULL;
	assert_true(out && err && keep_out >= 0 && keep_err >= 0);
	fflush(stdout);
	fflush(stderr);
	dup2(fileno(out), 1);
	dup2(fileno(err), 2);
	o.status = cli_main(argc, argv);
	fflush(stdout);
	fflush(stderr);
	dup2(keep_out, 1);
	dup2(keep_err, 2);
	close(keep_out);
	close(keep_err);
	o.out = slurp(out, &o.n_out);
	o.err = slurp(err, NULL);
	while (argc)
		free(argv[--argc]);
	return o;
}

static void done(struct output *o)
{
	free(o->out);
	free(o->err);
}

#define EXPECT(o, want_status, want_out, want_err)                                                                     \
	do {                                                                                                           \
		if ((o).status != (want_status) || !strstr((o).out, want_out) || !strstr((o).err, want_err))              \
			fail_msg("status %d, out: %s, err: %s", (o).status, (o).out, (o).err);                            \
		assert_null(strstr((o).out, ESC));                                                                     \
		assert_null(strstr((o).err, ESC));                                                                     \
		done(&(o));                                                                                            \
	} while (0)

static struct fixture f;
static pid_t server;

static const char list_json[] =
    "[{\"id\":1,\"stage\":\"init\",\"status\":\"paused\",\"mail_from\":\"\\u001b[31m@evil.example\",\"rcpt_to\":"
    "[\"a@example.test\",\"b@example.test\"],\"received_at\":\"2026-11-30T11:26:28.5+00:00\",\"next_attempt_at\":"
    "\"2026-11-30T12:00:00+00:00\",\"last_error\":\"450 later\\u009b\\n\"},\n"
    " {\"id\":2,\"stage\":\"init\",\"status\":\"pending\",\"mail_from\":\"\",\"rcpt_to\":[\"c@example.test\"],"
    "\"received_at\":\"2026-11-30T11:26:29+00:00\",\"next_attempt_at\":null,\"last_error\":null}]";

static int start(void **state)
{
	(void)state;
	fixture_open(&f, true);
	f.db.list = list_json;
	f.db.show = "{\"id\":1,\"stage\":\"init\",\"state\":{\"auth\":{\"user\":\"\\u001b]0;x\\u0007\"},\"n\":3},\"rcpt_to\":[\"a\"]}";
	struct buf message = BUF_INIT(8 << 20);
	for (unsigned i = 0; i < 1u << 20; i++)
		buf_addc(&message, (char)(i * 31 + i / 253));
	f.db.message = buf_str(&message);
	server = fork();
	if (server)
		return server < 0;
	event_reinit(f.base);
	alarm(60);
	event_base_dispatch(f.base);
	_exit(0);
}

static int stop(void **state)
{
	(void)state;
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	free((char *)f.db.message.p);
	fixture_close(&f);
	return 0;
}

static void test_status(void **state)
{
	(void)state;
	struct output o = run("pepsi", "--state", f.dir, "status", NULL);
	EXPECT(o, 0, "total 15, pending 5, running 4, paused 3, failed 2, timeout 1\n", "");
	o = run("pepsi-status", "--state", f.dir, "--wait", "1", NULL);
	EXPECT(o, 0, "pepsi-stage-route        2          1    40        0\n", "");
	o = run("pepsi", "--json", "status", "--state", f.dir, NULL);
	struct json_object *json = json_tokener_parse(o.out), *v = NULL;
	assert_true(json_object_object_get_ex(json, "queue", &v) && json_object_object_get_ex(v, "total", &v));
	assert_int_equal(json_object_get_int(v), 15);
	json_object_put(json);
	EXPECT(o, 0, "\"stages\":[", "");
}

static void test_queue(void **state)
{
	(void)state;
	struct output o = run("pepsi", "queue", "list", "--state", f.dir, NULL);
	EXPECT(o, 0, "paused   2026-11-30 11:26:28  \\x1b[31m@evil.example  a@example.test +1  2026-11-30 12:00:00  "
		     "450 later\\u{9b}\\x0a\n", "");
	o = run("pepsi", "queue", "list", "--json", "--state", f.dir, "--status", "paused", NULL);
	struct json_object *json = json_tokener_parse(o.out);
	assert_int_equal(json_object_array_length(json), 2);
	json_object_put(json);
	EXPECT(o, 0, "\"rcpt_to\":[\"a@example.test\",\"b@example.test\"]", "");
	o = run("pepsi", "queue", "list", "--state", f.dir, "--status", "lost", NULL);
	EXPECT(o, 1, "", "unknown status");
	o = run("pepsi", "queue", "show", "1", "--state", f.dir, NULL);
	EXPECT(o, 0, "user \\x1b]0;x\\x07\n", "");
	o = run("pepsi", "queue", "show", "101", "--state", f.dir, NULL);
	EXPECT(o, 1, "", "pepsi: no such message (");
	o = run("pepsi", "queue", "show", "1x", "--state", f.dir, NULL);
	EXPECT(o, 2, "", "ID: \"1x\" is not a whole number");
	o = run("pepsi", "queue", "cat", "1", "--state", f.dir, NULL);
	assert_int_equal(o.status, 0);
	assert_true(str_eq(str_n(o.out, o.n_out), f.db.message));
	done(&o);
	o = run("pepsi", "queue", "cat", "101", "--state", f.dir, NULL);
	EXPECT(o, 1, "", "no such message");
	o = run("pepsi", "queue", "delete", "1", "2", "--state", f.dir, NULL);
	EXPECT(o, 0, "2 messages deleted\n", "");
	o = run("pepsi", "queue", "delete", "1", "102", "--state", f.dir, NULL);
	EXPECT(o, 1, "1 message deleted\n", "1 of 2 messages was not deleted: gone, or a worker has them right now\n");
	o = run("pepsi", "queue", "retry", "--status", "failed", "--json", "--state", f.dir, NULL);
	EXPECT(o, 0, "{\"count\":7,\"matched\":7,\"dry_run\":false}\n", "");
	o = run("pepsi", "queue", "retry", "--destination", "example.org", "--dry-run", "--state", f.dir, NULL);
	EXPECT(o, 0, "7 messages would be made to run again\n", "");
	o = run("pepsi", "queue", "retry", "--destination", "a@b", "--recipient", "c@d", "--state", f.dir, NULL);
	EXPECT(o, 2, "", "are the same");
	o = run("pepsi", "queue", "hold", "5", "--reason", "a look", "--state", f.dir, NULL);
	EXPECT(o, 0, "1 message held\n", "");
	o = run("pepsi", "queue", "release", "--status", "held", "--state", f.dir, NULL);
	EXPECT(o, 0, "7 messages released\n", "");
	o = run("pepsi", "queue", "hold", "add", "--destination", "example.org", "--for", "2 h", "--reason", "down", "--state", f.dir, NULL);
	EXPECT(o, 0, "rule 3 is in force; 0 queued messages held\n", "");
	o = run("pepsi", "queue", "hold", "add", "--dry-run", "--sender", "@example.org", "--state", f.dir, NULL);
	EXPECT(o, 0, "0 queued messages would be held\n", "");
	o = run("pepsi", "queue", "hold", "add", "--state", f.dir, NULL);
	EXPECT(o, 2, "", "which mail?");
	o = run("pepsi", "queue", "hold", "add", "--all", "--state", f.dir, NULL);
	EXPECT(o, 2, "", "no --status, --limit or --all");
	o = run("pepsi", "queue", "hold", "add", "--sender", "@a", "--for", "long", "--state", f.dir, NULL);
	EXPECT(o, 2, "", "is no time");
	o = run("pepsi", "queue", "hold", "remove", "--state", f.dir, NULL);
	EXPECT(o, 2, "", "which rule?");
	o = run("pepsi", "queue", "hold", "remove", "3", "--state", f.dir, NULL);
	EXPECT(o, 0, "removed; 0 messages released\n", "");
	o = run("pepsi", "queue", "hold", "list", "--state", f.dir, NULL);
	EXPECT(o, 0, "no rules\n", "");
	o = run("pepsi", "queue", "reroute", "init", "--destination", "example.org", "--state", f.dir, NULL);
	EXPECT(o, 0, "rule 3 is in force; 0 queued messages on another way\n", "");
	o = run("pepsi", "queue", "reroute", "init", "4", "--state", f.dir, NULL);
	EXPECT(o, 0, "1 message moved\n", "");
	o = run("pepsi", "queue", "reroute", "--destination", "example.org", "--state", f.dir, NULL);
	EXPECT(o, 2, "", "to which stage?");
	o = run("pepsi", "queue", "delete", "--state", f.dir, NULL);
	EXPECT(o, 2, "", "or --all");
	o = run("pepsi", "queue", "delete", "--limit", "5", "--state", f.dir, NULL);
	EXPECT(o, 2, "", "or --all");
	o = run("pepsi", "queue", "delete", "--all", "1", "--state", f.dir, NULL);
	EXPECT(o, 2, "", "either ids or filters");
	o = run("pepsi", "queue", "set-stage", "inti", "1", "--state", f.dir, NULL);
	EXPECT(o, 1, "", "did you mean init?");
	o = run("pepsi", "queue", "set-stage", "init", "--all", "--state", f.dir, NULL);
	EXPECT(o, 0, "7 messages moved\n", "");
}

static void test_daemon(void **state)
{
	(void)state;
	struct output o = run("pepsi", "reload", "--state", f.dir, NULL);
	EXPECT(o, 0, "reloaded\n", "");
	o = run("pepsi", "stop", "--state", f.dir, NULL);
	EXPECT(o, 0, "stopping\n", "");
	o = run("pepsi", "stop", "--wait", "0", "--state", f.dir, NULL); /* this one never goes */
	EXPECT(o, 1, "stopping\n", "pepsid is still there after 0 s");
	o = run("pepsi", "config", "show", "--running", "--state", f.dir, NULL);
	EXPECT(o, 0, "mx.example.test", "");
	o = run("pepsi", "status", "--state", "/nonexistent", NULL);
	EXPECT(o, 1, "", "pepsi: cannot reach pepsid at /nonexistent/run/control.sock: No such file or directory (is it running?)\n");
	o = run("pepsi", "status", "--wait", "0", "--state", "/nonexistent", NULL);
	EXPECT(o, 1, "", "is it running?");
	o = run("pepsi", "status", "-c", "/nonexistent/x.conf", NULL);
	EXPECT(o, 1, "", "cannot read /nonexistent/x.conf");
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void test_config(void **state)
{
	char path[128];
	(void)state;
	snprintf(path, sizeof path, "%s/test.conf", f.dir);
	write_file(path, "[pepsi]\nHOSTNAME = mx.example.test\nLOCAL_DOMAINS = example.test\n[listener-mx]\nBIND = 127.0.0.1:2525\n"
			 "[stage-init]\nPROGRAM = pepsi-stage-discard\n");
	struct output o = run("pepsi", "-c", path, "config", "check", NULL);
	EXPECT(o, 0, "0 errors, 0 warnings\n", "");
	o = run("pepsi", "-c", path, "config", "show", NULL);
	EXPECT(o, 0, "mx.example.test", "");
	o = run("pepsi", "-c", path, "worker", "init", NULL);
	EXPECT(o, 0, "worker init -1\n", "");
	write_file(path, "[pepsi]\nHOSTNAM = mx\n[listener-mx]\nBIND = 127.0.0.1:2525\n[stage-init]\nPROGRAM = pepsi-stage-broken\n"
			 "[stage-picky]\nPROGRAM = pepsi-stage-discard\n");
	o = run("pepsi", "-c", path, "config", "check", NULL);
	assert_non_null(strstr(o.out, "test.conf:2: "));
	assert_non_null(strstr(o.out, "HOSTNAME"));
	assert_non_null(strstr(o.out, "no descriptor"));
	assert_non_null(strstr(o.out, "test.conf:8: [stage-picky] I do not like this\n"));
	EXPECT(o, 1, " errors, ", "");
	o = run("pepsi", "--json", "-c", path, "config", "check", NULL);
	struct json_object *json = json_tokener_parse(o.out);
	assert_true(json_object_array_length(json) >= 3);
	json_object_put(json);
	EXPECT(o, 1, "\"line\":2,\"severity\":\"error\",\"text\":", "");
	/* certificates are looked at as pepsid will, so that a check that finds nothing is not followed by a start that fails */
	write_file(path, "[pepsi]\nHOSTNAME = mx.example.test\nLOCAL_DOMAINS = example.test\n[listener-mx]\nBIND = 127.0.0.1:2525\n"
			 "TLS_CERT = /nonexistent/cert.pem\nTLS_KEY = /nonexistent/key.pem\n[stage-init]\nPROGRAM = pepsi-stage-discard\n");
	o = run("pepsi", "-c", path, "config", "check", NULL);
	EXPECT(o, 1, "test.conf:6: [listener-mx]: /nonexistent/cert.pem: No such file or directory\n1 error, 0 warnings\n", "");
	unlink(path);
	o = run("pepsi", "-c", path, "config", "check", NULL);
	EXPECT(o, 1, "test.conf: ", "");
}

static void test_rest(void **state)
{
	(void)state;
	struct output o = run("pepsi", "version", NULL);
	EXPECT(o, 0, "pepsi " PEPSI_VERSION "\n", "");
	o = run("pepsi", "-V", "--json", NULL);
	EXPECT(o, 0, "{\"version\":\"" PEPSI_VERSION "\"}\n", "");
	o = run("pepsi", "-h", NULL);
	EXPECT(o, 0, "queue set-stage STAGE [ID", "");
	o = run("pepsi", "queue", "-h", NULL);
	EXPECT(o, 0, "--recipient ADDRESS", "");
	o = run("pepsi", "help", "stage", NULL);
	EXPECT(o, 0, "stage describe MODULE", "");
	o = run("pepsi", "sttaus", NULL);
	EXPECT(o, 2, "", "did you mean status?");
	o = run("pepsi", "status" ESC "[2J", NULL);
	EXPECT(o, 2, "", "\\x1b[2J");
	o = run("pepsi", "stage", "describe", "/bin/sh", NULL);
	EXPECT(o, 0, "a \\x1b[31mred\\xff one\n", "");
	o = run("pepsi", "--json", "stage", "describe", "/bin/sh", NULL);
	EXPECT(o, 0, "\"summary\":null", "");
	o = run("pepsi", "stage", "describe", "/nonexistent.so", NULL);
	EXPECT(o, 1, "", "/nonexistent.so: No such file");
	o = run("pepsi", "-L", "loud", "version", NULL);
	EXPECT(o, 2, "", "\"loud\" is not error, warn");
}

int main(void)
{
	unsetenv("PEPSI_CONFIG");
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_queue),
		cmocka_unit_test(test_daemon),
		cmocka_unit_test(test_config),
		cmocka_unit_test(test_rest),
	};
	return cmocka_run_group_tests_name("cli/tools", tests, start, stop);
}
