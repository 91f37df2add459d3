/* The describe child against modules that lie, crash, hang and leave: the caller always gets an answer, and a plain one. */
#include "worker/module.h"
#include "worker/worker.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct module_info look(const char *variant)
{
	char name[100], path[600];
	struct module_info m;
	snprintf(name, sizeof name, "pepsi-stage-bad-%s", variant);
	snprintf(path, sizeof path, "%s/%s.so", STAGES, name);
	worker_describe(name, path, NULL, NULL, &m);
	return m;
}

static void refusals(void **st)
{
	(void)st;
	static const struct {
		const char *variant, *says;
	} cases[] = {
		{ "major", "module speaks stage ABI 2.0, this pepsi speaks 1.3: the module needs a newer pepsi" },
		{ "minor", "module needs stage ABI 1.10, this pepsi has 1.3" },
		{ "short", "descriptor says it is 24 octets long" },
		{ "wrong-name", "module calls itself pepsi-stage-other, its file pepsi-stage-bad-wrong-name" },
		{ "no-process", "module has no process() hook" },
		{ "no-symbol", "exports no pepsi_stage_descriptor" },
		{ "options", "option 3 of the table has no name or an unknown type" },
		{ "ctor-crash", "crashed while it was looked at (signal 11)" },
		{ "ctor-exit", "ended the process that looked at it (status 0)" },
		{ "absent", "cannot be loaded: " },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct module_info m = look(cases[i].variant);
		if (!m.error || !strstr(m.error, cases[i].says))
			fail_msg("%s: %s", cases[i].variant, m.error ? m.error : "no error");
		assert_non_null(m.name);
		module_info_free(&m);
	}
}

static void a_good_one(void **st)
{
	(void)st;
	struct module_info m = look("good");
	if (m.error)
		fail_msg("%s", m.error);
	assert_string_equal(m.name, "pepsi-stage-bad-good");
	assert_string_equal(m.version, "1.2");
	assert_string_equal(m.summary, "misbehaves");
	assert_int_equal(m.abi_major, PEPSI_ABI_MAJOR);
	assert_int_equal(m.load_class, PEPSI_LOAD_HEADERS);
	assert_int_equal(m.caps, PEPSI_CAP_DELIVER);
	assert_int_equal(m.n_options, 3);
	assert_string_equal(m.options[0].choices, "blue green");
	assert_string_equal(m.options[0].def, "blue");
	assert_int_equal(m.options[1].min, -5);
	assert_int_equal(m.options[1].max, 9000000000);
	assert_int_equal(m.options[1].flags, PEPSI_OPTF_REQUIRED);
	assert_null(m.options[1].def);
	assert_int_equal(m.options[2].type, PEPSI_OPT_MULTI);
	module_info_free(&m);
	/* and no child is left behind */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void one_that_cannot_be_stopped(void **st)
{
	(void)st;
	struct module_info m;
	worker_describe("pepsi-stage-many-nostop", STAGES "/pepsi-stage-many-nostop.so", NULL, NULL, &m);
	assert_non_null(m.error);
	assert_non_null(strstr(m.error, "module declares PEPSI_CAP_CONCURRENT and has no stop() hook (it says ABI 1.3"));
	module_info_free(&m);
	worker_describe("pepsi-stage-many", STAGES "/pepsi-stage-many.so", NULL, NULL, &m);
	assert_null(m.error);
	assert_int_equal(m.caps, PEPSI_CAP_CONCURRENT | PEPSI_CAP_DELIVER | PEPSI_CAP_NET);
	module_info_free(&m);
}

static void a_hang_costs_ten_seconds(void **st)
{
	(void)st;
	int64_t t = clock_mono_us();
	struct module_info m = look("ctor-hang");
	t = clock_mono_us() - t;
	assert_non_null(strstr(m.error, "did not answer within 10 s"));
	assert_in_range(t, 9 * US_PER_S, 15 * US_PER_S);
	module_info_free(&m);
}

/* The file is there, but the account that looks may not have it: the message says whom to let in. */
static void not_for_this_account(void **st)
{
	(void)st;
	char dir[] = "/tmp/pepsi-unit-XXXXXX", path[100];
	int status;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/pepsi-stage-shut.so", dir);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fclose(f);
	assert_int_equal(chmod(path, 0), 0);
	pid_t child = fork();
	if (!child) {
		struct module_info m;
		if (!geteuid() && setresuid(65534, 65534, 65534))
			_exit(2);
		worker_describe("pepsi-stage-shut", path, NULL, NULL, &m);
		_exit(!m.error || !strstr(m.error, "may not read it: look at each folder above it"));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	remove(path);
	remove(dir);
	assert_int_equal(status, 0);
}

static void validating(void **st)
{
	(void)st;
	char path[] = "/tmp/pepsi-unit-XXXXXX", so[600];
	int fd = mkstemp(path);
	FILE *f = fdopen(fd, "w");
	fputs("[stage-here]\nPROGRAM = pepsi-stage-bad-validate\n\nCOLOUR = green\nDEPTH = 1\n", f);
	fclose(f);
	struct config_faults *faults = config_faults_new();
	struct config *c = config_load(path, faults);
	snprintf(so, sizeof so, "%s/pepsi-stage-bad-validate.so", STAGES);
	worker_validate(c, "here", so, NULL, NULL, faults);
	assert_int_equal(config_faults_n(faults, true), 2);
	assert_int_equal(config_faults_at(faults, 0)->line, 4);
	assert_string_equal(config_faults_at(faults, 0)->text, "[stage-here] COLOUR: no such colour");
	assert_int_equal(config_faults_at(faults, 1)->line, 2);
	assert_string_equal(config_faults_at(faults, 1)->text, "[stage-here]: and another thing");
	snprintf(so, sizeof so, "%s/pepsi-stage-bad-validate-crash.so", STAGES);
	worker_validate(c, "here", so, NULL, NULL, faults);
	assert_int_equal(config_faults_n(faults, true), 3);
	assert_non_null(strstr(config_faults_at(faults, 2)->text, "crashed while it was looked at (signal 6)"));
	config_free(c);
	config_faults_free(faults);
	remove(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(refusals), cmocka_unit_test(a_good_one), cmocka_unit_test(validating),
		cmocka_unit_test(not_for_this_account),
		cmocka_unit_test(one_that_cannot_be_stopped), cmocka_unit_test(a_hang_costs_ten_seconds) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
