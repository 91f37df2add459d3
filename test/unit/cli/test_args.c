/* Command lines by tables. */
#include "args.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { WORDS_MAX = 16 };

static const struct {
	const char *argv[WORDS_MAX];
	const char *tool, *verb; /* tool NULL: an error */
	const char *err;         /* part of it */
	unsigned set;
	size_t n_pos;
} cases[] = {
	{ { "pepsi", "status" }, "status", NULL, NULL, 0, 0 },
	{ { "/usr/bin/pepsi", "status", "--json" }, "status", NULL, NULL, CLI_BIT(CLI_JSON), 0 },
	{ { "pepsi", "--json", "-c", "x", "status" }, "status", NULL, NULL, CLI_BIT(CLI_JSON) | CLI_BIT(CLI_CONFIG), 0 },
	{ { "pepsi", "-cx", "status", "--wait=30" }, "status", NULL, NULL, CLI_BIT(CLI_WAIT) | CLI_BIT(CLI_CONFIG), 0 },
	{ { "pepsi", "status", "-vvL", "debug" }, "status", NULL, NULL, CLI_BIT(CLI_VERBOSE) | CLI_BIT(CLI_LOG), 0 },
	{ { "build/bin/pepsi-status", "--wait", "3" }, "status", NULL, NULL, CLI_BIT(CLI_WAIT), 0 },
	{ { "pepsi-failure-bouncer", "--once", "-L", "debug", "--timeout-only" }, "failure-bouncer", NULL, NULL,
	    CLI_BIT(CLI_ONCE) | CLI_BIT(CLI_LOG) | CLI_BIT(CLI_TIMEOUT_ONLY), 0 },
	{ { "pepsi", "--failed-only", "failure-bouncer" }, "failure-bouncer", NULL, NULL, CLI_BIT(CLI_FAILED_ONLY), 0 },
	{ { "pepsi-queue", "list", "--stage", "init" }, "queue", "list", NULL, CLI_BIT(CLI_STAGE), 0 },
	{ { "pepsi", "queue", "--stage", "init", "list" }, "queue", "list", NULL, CLI_BIT(CLI_STAGE), 0 },
	{ { "pepsi", "queue", "delete", "1", "2", "3" }, "queue", "delete", NULL, 0, 3 },
	{ { "pepsi", "queue", "delete", "--", "-1" }, "queue", "delete", NULL, 0, 1 },
	{ { "pepsi", "queue", "set-stage", "init", "7" }, "queue", "set-stage", NULL, 0, 2 },
	{ { "pepsi", "worker", "init" }, "worker", NULL, NULL, 0, 1 },
	{ { "pepsi-worker", "init" }, "worker", NULL, NULL, 0, 1 },
	{ { "pepsi", "config", "check", "--state=d" }, "config", "check", NULL, CLI_BIT(CLI_STATE), 0 },
	{ { "pepsi", "queue", "show", "-h" }, "queue", "show", NULL, CLI_BIT(CLI_HELP), 0 },
	{ { "pepsi", "stage", "run", "m.so", "--message=-", "--to", "a", "--set", "B=1", "--to=c" }, "stage", "run", NULL,
	    CLI_BIT(CLI_MESSAGE) | CLI_BIT(CLI_TO) | CLI_BIT(CLI_SET), 1 },

	{ { "pepsi", "stage", "run", "m.so", "--message", "a", "--message", "b", "--repeat=3", "--fused" }, "stage", "run", NULL,
	    CLI_BIT(CLI_MESSAGE) | CLI_BIT(CLI_REPEAT) | CLI_BIT(CLI_FUSED), 1 },

	{ { "pepsi" }, NULL, NULL, "which tool?", 0, 0 },
	{ { "pepsi", "stage", "list", "--set", "A=1" }, NULL, NULL, "stage list takes no option --set", 0, 0 },
	{ { "pepsi", "stage", "run", "--to" }, NULL, NULL, "--to needs a value", 0, 0 },
	{ { "pepsi", "stage", "run" }, NULL, NULL, "needs MODULE", 0, 0 },
	{ { "pepsi", "" }, NULL, NULL, "unknown tool \"\"", 0, 0 },
	{ { "pepsi", "statos" }, NULL, NULL, "did you mean status?", 0, 0 },
	{ { "pepsi-qeue", "list" }, NULL, NULL, "did you mean queue?", 0, 0 },
	{ { "pepsi", "xyzzy" }, NULL, NULL, "unknown tool \"xyzzy\"", 0, 0 },
	{ { "pepsi", "queue" }, NULL, NULL, "queue: what to do?", 0, 0 },
	{ { "pepsi", "queue", "lits" }, NULL, NULL, "did you mean list?", 0, 0 },
	{ { "pepsi", "queue", "remove", "7" }, NULL, NULL, "unknown queue command \"remove\"; did you mean delete?", 0, 0 },
	{ { "pepsi", "status", "--jsno" }, NULL, NULL, "did you mean --json?", 0, 0 },
	{ { "pepsi", "status", "--frobnicate=1" }, NULL, NULL, "unknown option \"--frobnicate\"", 0, 0 },
	{ { "pepsi", "status", "-x" }, NULL, NULL, "unknown option \"-x\"", 0, 0 },
	{ { "pepsi", "status", "--stage", "a" }, NULL, NULL, "status takes no option --stage", 0, 0 },
	{ { "pepsi", "queue", "show", "--all", "1" }, NULL, NULL, "queue show takes no option --all", 0, 0 },
	{ { "pepsi", "status", "--json=yes" }, NULL, NULL, "--json takes no value", 0, 0 },
	{ { "pepsi", "status", "--wait" }, NULL, NULL, "--wait needs a value", 0, 0 },
	{ { "pepsi", "status", "-c" }, NULL, NULL, "-c needs a value", 0, 0 },
	{ { "pepsi", "status", "now" }, NULL, NULL, "what is \"now\"?", 0, 0 },
	{ { "pepsi", "queue", "show" }, NULL, NULL, "queue show needs ID", 0, 0 },
	{ { "pepsi", "queue", "show", "1", "2" }, NULL, NULL, "what is \"2\"?", 0, 0 },
	{ { "pepsi", "worker" }, NULL, NULL, "worker needs STAGE", 0, 0 },
	{ { "pepsi", "queue", "set-stage" }, NULL, NULL, "needs STAGE", 0, 0 },
};

static void test_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *argv[WORDS_MAX + 1] = { NULL }, err[256];
		struct cli_args a;
		int argc = 0;
		for (; argc < WORDS_MAX && cases[i].argv[argc]; argc++)
			argv[argc] = str_dupz(str_from(cases[i].argv[argc]));
		int rc = cli_args_parse(argc, argv, &a, err, sizeof err);
		if (!cases[i].tool) {
			if (!rc || !strstr(err, cases[i].err))
				fail_msg("case %zu: wanted \"%s\", got %d \"%s\"", i, cases[i].err, rc, err);
		} else {
			if (rc)
				fail_msg("case %zu: %s", i, err);
			assert_non_null(a.tool);
			assert_string_equal(a.tool->name, cases[i].tool);
			assert_string_equal(a.tool->verb ? a.tool->verb : "", cases[i].verb ? cases[i].verb : "");
			assert_int_equal(a.set, cases[i].set);
			assert_int_equal(a.n_pos, cases[i].n_pos);
		}
		free(a.pos);
		while (argc)
			free(argv[--argc]);
	}
}

static void test_values(void **state)
{
	char *argv[] = { (char[]){ "pepsi" }, (char[]){ "-vcone" }, (char[]){ "queue" }, (char[]){ "--config=two" },
		(char[]){ "delete" }, (char[]){ "-v" }, (char[]){ "--limit" }, (char[]){ "--all" }, (char[]){ "9" } };
	struct cli_args a;
	char err[256];
	(void)state;
	assert_int_equal(cli_args_parse(9, argv, &a, err, sizeof err), 0);
	assert_string_equal(a.value[CLI_CONFIG], "two"); /* the last one counts */
	assert_string_equal(a.value[CLI_LIMIT], "--all"); /* what stands behind an option is its value */
	assert_int_equal(a.verbose, 2);
	assert_int_equal(a.n_pos, 1);
	assert_string_equal(a.pos[0], "9");
	free(a.pos);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_cases), cmocka_unit_test(test_values) };
	return cmocka_run_group_tests_name("cli/args", tests, NULL, NULL);
}
