/* The pipe stage against commands, good and hostile ones; and once more inside the confinement of a worker, where nobody may
 * signal anybody. */
#include "base/clock.h"
#include "stage.h"
#include "worker/confine.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The command by a name without blanks: words are all that COMMAND knows, and the build tree may lie anywhere. */
static const char *command(void)
{
	static char name[64];
	if (!name[0]) {
		snprintf(name, sizeof name, "/tmp/pepsi-unit-command.%d", (int)getpid());
		unlink(name);
		assert_int_equal(symlink(COMMAND, name), 0);
	}
	return name;
}

static void open_with(struct stage *s, const char *args, const char *more)
{
	char text[2000];
	snprintf(text, sizeof text, "NEXT_STAGE = next\nBOUNCE_STAGE = bounce\nSTAGES = local out\nCOMMAND = %s %s\n%s", command(), args, more);
	assert_int_equal(stage_open(s, "pepsi-stage-pipe", text), PEPSI_OK);
	assert_string_equal(s->found, "");
}

/* What came of one message, with the text of a rejection or the last warning. */
static const char *outcome(struct stage *s, const char *args, const char *more)
{
	static char text[9000];
	open_with(s, args, more);
	stage_pass_full(s, "a@b.test", "c@d.test e@f.test", "{\"origin\":{\"ip\":\"192.0.2.7\",\"helo\":\"x y\"}}",
	    STR("Subject: x\r\n"), STR("hello\r\n"));
	snprintf(text, sizeof text, "%s", stage_outcome(s));
	return text;
}

static void says(const char *args, const char *more, const char *want)
{
	struct stage s = { .dir = "" };
	const char *got = outcome(&s, args, more);
	if (!strstr(got, want))
		fail_msg("%s: %s", args, got);
	stage_close(&s);
}

/* A retry with this reason. */
static void again(const char *args, const char *more, const char *want)
{
	struct stage s = { .dir = "" };
	const char *got = outcome(&s, args, more);
	if (strcmp(got, "pause") != 0 || !s.msg.reason || !strstr(s.msg.reason, want))
		fail_msg("%s: %s, %s", args, got, s.msg.reason ? s.msg.reason : "-");
	stage_close(&s);
}

/* The configuration's own quoting stands in the way of JSON on a command line, so replies come from a file through cat. */
static void reply_file(struct stage *s, const char *reply, const char *more)
{
	char text[2000];
	snprintf(s->dir, sizeof s->dir, "/tmp/pepsi-unit-XXXXXX");
	assert_non_null(mkdtemp(s->dir));
	stage_file(s, "reply", reply);
	snprintf(text, sizeof text, "NEXT_STAGE = next\nSTAGES = local out\nCOMMAND = /bin/cat %s/reply\n%s", s->dir, more);
	assert_int_equal(stage_open(s, "pepsi-stage-pipe", text), PEPSI_OK);
}

static void replies(void **st)
{
	static const struct {
		const char *reply, *more, *want, *headers;
	} cases[] = {
		{ "{\"action\":\"accept\"}", "", "move next", NULL },
		{ "{\"action\":\"accept\",\"add_headers\":[{\"name\":\"X-Seen\",\"value\":\"yes\"}]}", "", "move next",
		    "Subject: x\r\nX-Seen: yes\r\n" },
		{ "{\"action\":\"accept\",\"set_headers\":[{\"name\":\"Subject\",\"value\":\"x\"}]}", "", "move next", NULL },
		{ "{\"action\":\"reroute\",\"stage\":\"local\",\"remove_headers\":[\"subject\"]}", "", "move local", "" },
		{ "{\"action\":\"reroute\",\"stage\":\"bounce\"}", "", "pause", NULL }, /* not among STAGES */
		{ "{\"action\":\"reject\",\"status\":\"5.6.0\",\"text\":\"say \\\"no\\\" \\\\ \\t\"}", "BOUNCE_STAGE = bounce\n",
		    "move bounce {\"bounce\":{\"kind\":\"permanent\",\"phase\":\"data\",\"enhanced_status\":\"5.6.0\",\"diagnostic\":\"say "
		    "\\\"no\\\" \\\\ \\t\"}}", NULL },
		{ "{\"action\":\"reject\"}", "", "fail here", NULL },
		{ "{\"action\":\"defer\",\"seconds\":77,\"text\":\"busy\"}", "", "pause", NULL },
		{ "{\"action\":\"defer\"}", "", "pause", NULL },
	};
	(void)st;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct stage s = { .dir = "" };
		reply_file(&s, cases[i].reply, cases[i].more);
		stage_pass(&s, "a@b.test", "c@d.test", "{}");
		if (strcmp(stage_outcome(&s), cases[i].want) != 0)
			fail_msg("%s: %s (%s)", cases[i].reply, stage_outcome(&s), s.msg.reason ? s.msg.reason : "-");
		const struct store_op *op = &s.msg.pass.ops[s.msg.pass.n_ops - 1];
		assert_int_equal(!!(op->touched & STORE_SET_HEADERS), cases[i].headers != NULL);
		if (cases[i].headers)
			assert_true(str_eq(op->headers, str_from(cases[i].headers)));
		if (strstr(cases[i].reply, "77"))
			assert_int_equal(op->pause_s, 77);
		stage_close(&s);
	}
}

static void what_it_is_given(void **st)
{
	(void)st;
	says("fds", "", "\"diagnostic\":\"0 1 2 \"");
	says("args \"a  b\" $HOME;`id`", "", "\"diagnostic\":\"as given\"");
	says("input", "", "\"diagnostic\":\"21 octets \"");
	says("input-json", "INPUT = json\n", "\"diagnostic\":\"21 octets {'id':7,'stage':'here','received_at':0,'mail_from':'a@b.test',"
	    "'rcpt_to':['c@d.test','e@f.test'],'state':{'origin':{'ip':'192.0.2.7','helo':'x y'}}}\"");
	/* helo holds a blank: left out, and said so; nothing of our own environment gets through */
	setenv("LD_PRELOAD_NOT", "1", 1);
	says("env", "", "\"diagnostic\":\"PATH=/usr/local/bin:/usr/bin:/bin;LC_ALL=C;PEPSI_STAGE=here;PEPSI_HOSTNAME=mx.example.test;PEPSI_ID=7;"
	    "PEPSI_SENDER=a@b.test;PEPSI_RECIPIENT_COUNT=2;PEPSI_RECIPIENTS=c@d.test e@f.test;PEPSI_CLIENT_IP=192.0.2.7;"
	    "PEPSI_ENVELOPE=incomplete;\"");
	says("limits", "MEMORY_LIMIT = 100 MiB\nTIMEOUT = 9 s\n", "\"diagnostic\":\"as 104857600 core 0 cpu 10 files 256 privs 1 cwd /\"");
}

static void envelope_octets(void **st)
{
	(void)st;
	struct stage s = { .dir = "" };
	open_with(&s, "env", "");
	struct str blank = STR("a b@c.test"); /* would read as two recipients */
	struct wire_item it = { .id = 8, .has_content = true, .rcpts = &blank, .n_rcpts = 1, .state = STR("{}") };
	assert_int_equal(pass_begin(&s.msg, &s.env, &it), 0);
	pass_run(&s.msg);
	assert_non_null(strstr(stage_outcome(&s), "PEPSI_SENDER=;PEPSI_RECIPIENT_COUNT=1;PEPSI_ENVELOPE=incomplete;"));
	stage_pass(&s, "\xc3\xbc@b.test", "-x@c.test;id", "{}");
	assert_non_null(strstr(stage_outcome(&s), "PEPSI_RECIPIENT_COUNT=1;PEPSI_RECIPIENTS=-x@c.test;id;PEPSI_ENVELOPE=incomplete;"));
	stage_pass(&s, "a@b.test", "c@d.test", "{\"origin\":{\"ip\":\"2001:db8::1\",\"helo\":\"mx\",\"account\":\"joe\"}}");
	assert_non_null(strstr(stage_outcome(&s),
	    "PEPSI_CLIENT_IP=2001:db8::1;PEPSI_HELO=mx;PEPSI_ACCOUNT=joe;PEPSI_ENVELOPE=complete;"));
	stage_close(&s);
}

static void trouble(void **st)
{
	(void)st;
	again("nothing", "", "gave no valid reply: it wrote nothing");
	again("say yes", "", "it wrote no JSON");
	again("status", "", "exit status 3: the disk is on fire");
	again("crash", "", "ended by signal 11");
	again("flood", "", "wrote more than 1048576 octets and was killed");
	says("memory", "MEMORY_LIMIT = 64 MiB\n", "no more memory");
}

/* One second each, which is the shortest TIMEOUT there is. */
static void time_is_up(void **st)
{
	static const char *const kinds[] = { "hang", "closed", "flood-errors", "clings" };
	(void)st;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		int64_t t = clock_mono_us();
		again(kinds[i], "TIMEOUT = 1 s\n", "did not answer in time");
		t = clock_mono_us() - t;
		assert_in_range(t, US_PER_S, 5 * US_PER_S);
	}
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left behind */
}

static void somebody_holds_the_pipe(void **st)
{
	(void)st;
	int64_t t = clock_mono_us();
	says("child", "TIMEOUT = 20 s\n", "move next");
	assert_true(clock_mono_us() - t < 5 * US_PER_S);
}

/* In a worker kill() is refused; the command goes all the same. */
static void confined(void **st)
{
	(void)st;
	int wstatus;
	struct stage s = { .dir = "" };
	open_with(&s, "hang", "TIMEOUT = 1 s\n");
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		if (confine(true))
			_exit(3);
		stage_pass(&s, "a@b.test", "c@d.test", "{}");
		if (!s.msg.reason || !strstr(s.msg.reason, "did not answer in time"))
			_exit(4);
		if (waitpid(-1, NULL, WNOHANG) != -1)
			_exit(5); /* still there */
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &wstatus, 0), pid);
	assert_true(WIFEXITED(wstatus));
	assert_int_equal(WEXITSTATUS(wstatus), 0);
	stage_close(&s);
}

static void wrong_configuration(void **st)
{
	static const struct {
		const char *text, *found;
		int32_t rc;
	} cases[] = {
		{ "NEXT_STAGE = next\nCOMMAND = cat\n", "COMMAND: it must begin with an absolute path\n", PEPSI_PERMANENT },
		{ "NEXT_STAGE = next\nCOMMAND = /nonexistent/filter\n", "", PEPSI_RETRY },
		{ "NEXT_STAGE = next\nCOMMAND = /etc/passwd\n", "", PEPSI_RETRY },
		{ "COMMAND = /bin/cat\n", "-: NEXT_STAGE is not set: where is accepted mail to go?\n", PEPSI_OK },
		{ "NEXT_STAGE = next\nCOMMAND = /bin/cat\nSTAGES = local nowhere\n", "STAGES: there is no section [stage-nowhere]\n", PEPSI_OK },
	};
	(void)st;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct stage s = { .dir = "" };
		assert_int_equal(stage_open(&s, "pepsi-stage-pipe", cases[i].text), cases[i].rc);
		assert_string_equal(s.found, cases[i].found);
		stage_close(&s);
	}
	/* what cannot be run although it is executable */
	struct stage s = { .dir = "" };
	snprintf(s.dir, sizeof s.dir, "/tmp/pepsi-unit-XXXXXX");
	assert_non_null(mkdtemp(s.dir));
	char path[100], text[300];
	stage_file(&s, "f", "this is no program\n");
	snprintf(path, sizeof path, "%s/f", s.dir);
	assert_int_equal(chmod(path, 0700), 0);
	snprintf(text, sizeof text, "NEXT_STAGE = next\nCOMMAND = %s\n", path);
	assert_int_equal(stage_open(&s, "pepsi-stage-pipe", text), PEPSI_OK);
	stage_pass(&s, "a@b.test", "c@d.test", "{}");
	assert_non_null(strstr(s.msg.reason, "could not be started: Exec format error"));
	stage_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(replies), cmocka_unit_test(what_it_is_given), cmocka_unit_test(envelope_octets),
		cmocka_unit_test(trouble), cmocka_unit_test(time_is_up), cmocka_unit_test(somebody_holds_the_pipe),
		cmocka_unit_test(confined), cmocka_unit_test(wrong_configuration) };
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(command());
	return failed;
}
