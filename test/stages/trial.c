/* `pepsi stage run` under the tool: a trial of modules that misbehave always gives an answer, and says which hook it was. */
#include "worker/trial.h"

#include "base/clock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>

#include <cmocka.h>

static void report(void *arg, const struct trial_pass *p, struct buf *out)
{
	(void)arg;
	static const char *const fuse[] = { "", " fuses", " declined", " broken" };
	buf_addf(out, "%s %d %zu ops%s%s%s", p->terminal ? p->terminal : "-", p->rc, p->msg->pass.n_ops, fuse[p->fuse],
	    p->msg->misuse[0] ? " " : "", p->msg->misuse);
}

static void endless(void *arg, const struct trial_pass *p, struct buf *out)
{
	(void)p;
	(void)arg;
	out->failed = true;
}

static struct trial_result try_it(const char *variant, int64_t runtime_ms, const char *depth,
    void (*fn)(void *, const struct trial_pass *, struct buf *))
{
	char path[600];
	struct str rcpt = STR("a@b.test");
	struct config_faults *faults = config_faults_new();
	struct config *c = config_load("/dev/null", faults);
	struct trial_result r;
	snprintf(path, sizeof path, "%s/pepsi-stage-bad-%s.so", STAGES, variant);
	assert_int_equal(config_set(c, "stage-here", "DEPTH", depth), 0);
	assert_int_equal(config_set(c, "stage-here", "NEXT_STAGE", "next"), 0);
	struct wire_item item = { .id = 1, .has_content = true, .rcpts = &rcpt, .n_rcpts = 1, .state = STR("{}"), .headers = STR("A: b\r\n") };
	struct trial t = { .path = path, .c = c, .stage = "here", .runtime_ms = runtime_ms, .any_stage = true, .report = fn,
		.items = &item, .n_items = 1 };
	trial_run(&t, &r);
	config_free(c);
	config_faults_free(faults);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
	return r;
}

static void how_it_ends(void **st)
{
	static const struct {
		const char *variant, *depth;
		enum trial_end end;
		int code; /* 0: any */
		const char *during, *report, *note;
	} cases[] = {
		{ "good", "1", TRIAL_DONE, 0, "end", "advance_or_finish 0 1 ops", NULL },
		{ "stdout", "1", TRIAL_DONE, 0, "end", "advance_or_finish 0 1 ops", NULL },
		{ "none", "1", TRIAL_DONE, 0, "end", "- 0 1 ops process() returned PEPSI_OK without a terminal", NULL },
		{ "two-terminals", "1", TRIAL_DONE, 0, "end", "finish 0 1 ops finish() was called after a terminal", NULL },
		{ "exit", "1", TRIAL_EXITED, 0, "process", "", NULL },
		{ "validate", "1", TRIAL_REFUSED, 0, "validate", "", "COLOUR: no such colour" },
		{ "validate-crash", "1", TRIAL_CRASHED, SIGABRT, "validate", "", NULL },
		{ "good", "deep", TRIAL_REFUSED, 0, "configure", "", "DEPTH: expected a number" },
		{ "major", "1", TRIAL_REFUSED, 0, "load", "", "module speaks stage ABI 2.0" },
		{ "ctor-exit", "1", TRIAL_EXITED, 0, "load", "", NULL },
		{ "hang", "1", TRIAL_LATE, 0, "process", "", NULL },
		{ "ctor-hang", "1", TRIAL_LATE, 0, "load", "", NULL },
	};
	(void)st;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int64_t t = clock_mono_us();
		struct trial_result r = try_it(cases[i].variant, cases[i].end == TRIAL_LATE ? 300 : 60000, cases[i].depth, report);
		if (r.end != cases[i].end || (cases[i].code && r.code != cases[i].code) || strcmp(r.during, cases[i].during) != 0)
			fail_msg("%s: %d code %d in %s", cases[i].variant, r.end, r.code, r.during);
		if (cases[i].report[0] ? !strstr(buf_z(&r.report), cases[i].report) : r.report.n != 0)
			fail_msg("%s: %s", cases[i].variant, buf_z(&r.report));
		if (cases[i].note && (!r.n_notes || !strstr(r.notes[0].text, cases[i].note)))
			fail_msg("%s: %s", cases[i].variant, r.n_notes ? r.notes[0].text : "no note");
		assert_int_equal(r.process_us >= 0, cases[i].end == TRIAL_DONE);
		assert_true(clock_mono_us() - t < 20 * US_PER_S);
		trial_result_free(&r);
	}
}

static void it_crashes(void **st)
{
	(void)st;
	struct trial_result r = try_it("crash", 60000, "1", report);
	assert_string_equal(r.during, "process");
	/* a sanitizer catches the signal and exits */
	assert_true((r.end == TRIAL_CRASHED && r.code == SIGSEGV) || (r.end == TRIAL_EXITED && r.code));
	trial_result_free(&r);
}

/* 120 messages through a hook module; every third has two recipients. */
static struct trial_result many(const char *variant, bool fused, int64_t runtime_ms)
{
	char path[600];
	struct str rcpt[] = { STR_INIT("a@b.test"), STR_INIT("c@b.test") };
	struct wire_item items[120];
	struct config_faults *faults = config_faults_new();
	struct config *c = config_load("/dev/null", faults);
	struct trial_result r;
	snprintf(path, sizeof path, "%s/pepsi-stage-%s.so", STAGES, variant);
	assert_int_equal(config_set(c, "stage-here", "NEXT_STAGE", "next"), 0);
	for (int i = 0; i < 120; i++)
		items[i] = (struct wire_item){ .id = i + 1, .has_content = true, .rcpts = rcpt, .n_rcpts = i % 3 ? 1 : 2, .state = STR("{}"),
			.headers = STR("A: b\r\n") };
	struct trial t = { .path = path, .c = c, .stage = "here", .runtime_ms = runtime_ms, .any_stage = true, .report = report, .fused = fused,
		.items = items, .n_items = 120 };
	trial_run(&t, &r);
	config_free(c);
	config_faults_free(faults);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	return r;
}

static unsigned lines_with(const struct trial_result *r, const char *text)
{
	struct str rest = buf_str(&r->report), line;
	unsigned n = 0;
	while (str_word(&rest, "\n", &line))
		n += memmem(line.p, line.n, text, strlen(text)) != NULL;
	return n;
}

static void in_batches(void **st)
{
	char retried[32];
	(void)st;
	/* by its place in a batch of 50: 120 messages are 24 of each kind */
	struct trial_result r = many("step-batch", false, 60000);
	assert_int_equal(r.end, TRIAL_DONE);
	assert_int_equal(lines_with(&r, "advance 0 1 ops"), 48);
	assert_int_equal(lines_with(&r, "advance_to 0 1 ops"), 24);
	assert_int_equal(lines_with(&r, "pause 0 1 ops"), 24);
	assert_int_equal(lines_with(&r, "finish 0 1 ops"), 24);
	trial_result_free(&r);
	r = many("hook-silent", false, 60000);
	assert_int_equal(r.end, TRIAL_DONE);
	assert_int_equal(lines_with(&r, "process_batch() gave no status"), 60);
	assert_int_equal(lines_with(&r, "advance_or_finish 0 1 ops"), 60);
	trial_result_free(&r);
	r = many("hook-refuses", false, 60000);
	assert_int_equal(lines_with(&r, "advance_or_finish 0 1 ops"), 6);
	snprintf(retried, sizeof retried, "- %d 1 ops", PEPSI_RETRY);
	assert_int_equal(lines_with(&r, retried), 114); /* the others of each batch */
	assert_int_equal(r.n_notes, 6);
	assert_string_equal(r.notes[2].text, "message 51: one by one");
	trial_result_free(&r);
	/* the first batch is whole before the second one begins */
	r = many("hook-crash", false, 60000);
	assert_int_equal(r.end, TRIAL_CRASHED);
	assert_string_equal(r.during, "process_batch");
	assert_int_equal(r.at, 50);
	assert_int_equal(lines_with(&r, "ops"), 50);
	assert_true(r.process_us >= 0);
	trial_result_free(&r);
}

static void in_fused_passes(void **st)
{
	(void)st;
	struct trial_result r = many("hook-silent", true, 60000); /* one recipient: yes; and never process_batch() */
	assert_int_equal(r.end, TRIAL_DONE);
	assert_int_equal(lines_with(&r, "advance_or_finish 0 1 ops fuses"), 80);
	assert_int_equal(lines_with(&r, "- 0 0 ops declined"), 40);
	trial_result_free(&r);
	r = many("hook-fuse-writes", true, 60000);
	assert_int_equal(r.end, TRIAL_DONE);
	assert_int_equal(lines_with(&r, "- 0 0 ops broken merge_state() was called after a terminal"), 120);
	trial_result_free(&r);
	r = many("hook-crash", true, 60000);
	assert_int_equal(r.end, TRIAL_CRASHED);
	assert_string_equal(r.during, "can_fuse");
	assert_int_equal(r.at, 0);
	assert_int_equal(r.process_us, -1);
	trial_result_free(&r);
}

/* A module that drives many messages at once; wishes: one word for each message. */
static struct trial_result at_once(const char *const *wishes, size_t n, bool fused, int64_t runtime_ms)
{
	char path[600], address[120][64];
	struct str rcpt[120];
	struct wire_item items[120];
	struct config_faults *faults = config_faults_new();
	struct config *c = config_load("/dev/null", faults);
	struct trial_result r;
	snprintf(path, sizeof path, "%s/pepsi-stage-many.so", STAGES);
	assert_int_equal(config_set(c, "stage-here", "NEXT_STAGE", "next"), 0);
	assert_int_equal(config_set(c, "pepsi-dns", "SERVERS", "127.0.0.1:9"), 0);
	assert_int_equal(config_set(c, "pepsi-dns", "MESSAGE_DEADLINE", "1 s"), 0);
	for (size_t i = 0; i < 120; i++) {
		snprintf(address[i], sizeof address[i], "%s@b.test", wishes[i % n]);
		rcpt[i] = str_from(address[i]);
		items[i] = (struct wire_item){ .id = (int64_t)i + 1, .has_content = true, .rcpts = &rcpt[i], .n_rcpts = 1, .state = STR("{}") };
	}
	struct trial t = { .path = path, .c = c, .stage = "here", .runtime_ms = runtime_ms, .any_stage = true, .report = report, .fused = fused,
		.items = items, .n_items = n > 1 && n < 120 ? n : 120 };
	trial_run(&t, &r);
	config_free(c);
	config_faults_free(faults);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	return r;
}

static void many_at_once(void **st)
{
	static const char *const wait[] = { "wait-300" };
	static const char *const ends[] = { "wait-300", "now", "retry-1", "twice-1", "noend-1", "pending-1", "late-1", "block-1", "early", "again", "dns-a_test", "wait-1" };
	static const char *const crash[] = { "wait-10", "wait-2000", "crash-200", "wait-2000" }, *const hang[] = { "wait-10", "wait-30000", "hang-200" };
	static const char *const never[] = { "wait-10", "stay", "forever" };
	char retry[40];
	(void)st;
	int64_t began = clock_mono_us();
	struct trial_result r = at_once(wait, 1, false, 60000);
	assert_int_equal(r.end, TRIAL_DONE);
	assert_int_equal(lines_with(&r, "advance_or_finish 0 1 ops"), 120);
	assert_true(clock_mono_us() - began < 120 * 300 * 1000 / 2); /* three crowds: a second */
	trial_result_free(&r);

	r = at_once(ends, 12, false, 60000);
	assert_int_equal(r.end, TRIAL_DONE);
	snprintf(retry, sizeof retry, "- %d 1 ops", PEPSI_RETRY);
	assert_int_equal(lines_with(&r, "ops"), 12);
	assert_int_equal(lines_with(&r, retry), 1);
	assert_int_equal(lines_with(&r, "advance_or_finish -3 1 ops advance() was called after a terminal"), 1);
	assert_int_equal(lines_with(&r, "- 0 1 ops process() returned PEPSI_OK without a terminal"), 1);
	assert_int_equal(lines_with(&r, "- 2 1 ops the pass ended with 2, which is none of"), 1);
	assert_int_equal(lines_with(&r, "resolve() waits, and all messages of this worker with it"), 1);
	assert_int_equal(lines_with(&r, "complete() within process()"), 1);
	assert_int_equal(lines_with(&r, "advance_or_finish 0 1 ops"), 7);
	assert_int_equal(lines_with(&r, "pause 0 1 ops"), 1);
	trial_result_free(&r);

	r = at_once(crash, 4, false, 60000);
	assert_int_equal(r.end, TRIAL_CRASHED);
	assert_string_equal(r.during, "process");
	assert_int_equal(r.at, 2);
	trial_result_free(&r);
	r = at_once(hang, 3, false, 1500);
	assert_int_equal(r.end, TRIAL_LATE);
	assert_int_equal(r.at, 2);
	trial_result_free(&r);
	r = at_once(never, 3, false, 2000); /* stop() is called; one hears it */
	assert_int_equal(r.end, TRIAL_LATE);
	assert_int_equal(r.at, 2);
	assert_int_equal(r.n_notes, 1);
	assert_string_equal(r.notes[0].text, "message 2: stopped: runtime");
	trial_result_free(&r);
	r = at_once(wait, 1, true, 60000);
	assert_int_equal(r.end, TRIAL_DONE);
	assert_int_equal(lines_with(&r, "declined"), 120);
	trial_result_free(&r);
}

static void a_report_that_does_not_fit(void **st)
{
	(void)st;
	struct trial_result r = try_it("good", 60000, "1", endless);
	assert_int_equal(r.end, TRIAL_REFUSED);
	assert_string_equal(r.during, "report");
	assert_int_equal(r.n_notes, 1);
	assert_non_null(strstr(r.notes[0].text, "larger than a report may be"));
	trial_result_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(how_it_ends), cmocka_unit_test(it_crashes), cmocka_unit_test(in_batches), cmocka_unit_test(in_fused_passes), cmocka_unit_test(many_at_once),
		cmocka_unit_test(a_report_that_does_not_fit) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
