/* The overlay: which rows may be laid over a configuration, that those which may not leave the file's values, and that it shows. */
#include "support.h"

#include "config/overlay.h"

static struct pepsi_option options[] = {
	{ .name = "COUNT", .type = PEPSI_OPT_INT, .def = "3", .min = 1, .max = 9 },
	{ .name = "WHERE", .type = PEPSI_OPT_PATH },
	{ .name = "WORD", .type = PEPSI_OPT_SECRET },
	{ .name = "RUN", .type = PEPSI_OPT_STRING, .flags = PEPSI_OPTF_FILE_ONLY },
	{ .name = "RULE_*", .type = PEPSI_OPT_MULTI },
};
static struct module_info module = { .options = options, .n_options = sizeof options / sizeof *options };

static struct config *load(void)
{
	struct config_faults *f = config_faults_new();
	support_write("c", STR("[listener-mx]\nBIND = 127.0.0.1:25\n[stage-x]\nPROGRAM = p\nCOUNT = 5\nNEXT_STAGE = y\n[stage-y]\nPROGRAM = p\n"));
	struct config *c = config_load("c", f);
	assert_non_null(c);
	assert_int_equal(config_faults_n(f, true), 0);
	config_faults_free(f);
	return c;
}

static void test_rules(void **state)
{
	static const struct {
		const char *section, *option, *value, *why; /* why: part of it, NULL: taken */
	} cases[] = {
		{ "stage-x", "COUNT", "7", NULL },
		{ "Stage-X", "count", "7", NULL },
		{ "stage-x", "COUNT", "10", "9" },
		{ "stage-x", "COUNT", "many", "number" },
		{ "stage-x", "RULE_1", "anything", NULL },
		{ "stage-x", "NEXT_STAGE", "x", NULL },
		{ "stage-x", "NEXT_STAGE", "nowhere", "[stage-nowhere]" },
		{ "stage-x", "MAX_LIFETIME", "2 d", NULL },
		{ "stage-x", "MAX_LIFETIME", "2 fortnights", "duration" },
		{ "stage-x", "PROGRAM", "q", "only be set in the file" },
		{ "stage-x", "USER", "root", "only be set in the file" },
		{ "stage-x", "GROUPS", "root", "only be set in the file" },
		{ "stage-x", "MEMORY_LIMIT", "100 GiB", "only be set in the file" },
		{ "stage-x", "PARALLELISM", "9", "only be set in the file" },
		{ "stage-x", "WHERE", "/etc", "only be set in the file" },
		{ "stage-x", "WORD", "abc", "only be set in the file" },
		{ "stage-x", "RUN", "/bin/sh", "only be set in the file" },
		{ "stage-x", "COUNTS", "7", "did you mean COUNT?" },
		{ "stage-x", "COUNT", "7\n[pepsi]", "no line" },
		{ "stage-x", "A\nB", "7", "no line" },
		{ "stage-z", "COUNT", "7", "no such section" },
		{ "listener-mx", "BIND", "0.0.0.0:25", "only options of stages" },
		{ "pepsi", "HOSTNAME", "a.test", "only options of stages" },
		{ "", "", "", "only options of stages" },
	};
	struct config *c = load();
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf why = BUF_INIT(1024);
		int r = config_overlay_check(c, &module, cases[i].section, cases[i].option, cases[i].value, NULL, &why);
		if (cases[i].why ? r != -1 || !strstr(buf_z(&why), cases[i].why) : r != 0)
			fail_msg("%s %s = %s: %d %s", cases[i].section, cases[i].option, cases[i].value, r, buf_z(&why));
		buf_free(&why);
	}
	/* whoever does not know the module cannot say */
	struct buf why = BUF_INIT(1024);
	assert_int_equal(config_overlay_check(c, NULL, "stage-x", "ANY", "7", NULL, &why), 0);
	assert_int_equal(config_overlay_check(c, NULL, "stage-x", "USER", "root", NULL, &why), -1);
	buf_free(&why);
	config_free(c);
}

static unsigned refused;

static void on_fault(void *arg, const struct config_overlay_row *row, const char *why)
{
	(void)arg;
	assert_string_equal(row->option, "USER");
	assert_true(*why);
	refused++;
}

static const struct module_info *known(void *arg, const char *program)
{
	(void)arg;
	(void)program;
	return &module;
}

static void test_lay(void **state)
{
	struct config *c = load();
	struct config_overlay o = { .n = 0 };
	struct buf out = BUF_INIT(1 << 20);
	(void)state;
	assert_int_equal(config_overlay_add(&o, STR("stage-x"), STR("COUNT"), STR("7")), 0);
	assert_int_equal(config_overlay_add(&o, STR("stage-x"), STR("USER"), STR("root")), 0);
	assert_int_equal(config_overlay_add(&o, STR("stage-y"), STR("COUNT"), STR("8")), 0);
	assert_int_equal(config_overlay_add(&o, STR("stage-x"), STR("NEXT_STAGE"), STR("X")), 0);
	assert_int_equal(config_overlay_lay(c, &o, &module, "stage-x", on_fault, NULL), 2);
	assert_int_equal(refused, 1);
	assert_string_equal(config_get(c, "stage-x", "COUNT")->value, "7");
	assert_string_equal(config_str(c, "stage-x", "NEXT_STAGE"), "x");
	assert_null(config_get(c, "stage-x", "USER"));
	assert_null(config_get(c, "stage-y", "COUNT"));
	assert_int_equal(config_show(c, known, NULL, false, &out), 0);
	assert_non_null(strstr(buf_z(&out), "COUNT = 7"));
	assert_non_null(strstr(strstr(buf_z(&out), "COUNT = 7"), "# overlay\n"));
	buf_reset(&out);
	assert_int_equal(config_show(c, known, NULL, true, &out), 0);
	assert_non_null(strstr(buf_z(&out), "\"overlay\""));
	buf_free(&out);
	config_overlay_free(&o);
	config_free(c);
}

static void test_bounds(void **state)
{
	struct config_overlay o = { .n = 0 };
	(void)state;
	for (unsigned i = 0; i < CONFIG_OVERLAY_ROWS_MAX; i++)
		assert_int_equal(config_overlay_add(&o, STR("stage-x"), STR("COUNT"), STR("7")), 0);
	assert_int_equal(config_overlay_add(&o, STR("stage-x"), STR("COUNT"), STR("7")), -1);
	config_overlay_free(&o);
	assert_int_equal(o.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(test_rules, support_enter, support_leave),
		cmocka_unit_test_setup_teardown(test_lay, support_enter, support_leave), cmocka_unit_test(test_bounds) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
