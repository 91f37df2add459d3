/* The version rules of the stage ABI: what is refused, in which words, and what is loaded although it is not what this host was
 * built with. And the other side: what PEPSI_HAS says about hosts of other lengths. */
#include "worker/trial.h"
#include "worker/worker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void path_of(const char *variant, char *path, size_t size)
{
	snprintf(path, size, "%s/pepsi-stage-odd-%s.so", ODD, variant);
}

static void refused(void **st)
{
	static const struct {
		const char *variant, *says;
	} cases[] = {
		{ "old-major", "module speaks stage ABI 0.9, this pepsi speaks 1.3: rebuild the module against the installed <pepsi/stage.h>" },
		{ "new-major", "module speaks stage ABI 2.0, this pepsi speaks 1.3: the module needs a newer pepsi" },
		{ "new-minor", "module needs stage ABI 1.4, this pepsi has 1.3: update pepsi or use an older module" },
		{ "short", "descriptor says it is 112 octets long, version 1.0 has 120: build it with PEPSI_STAGE()" },
		{ "huge", "descriptor says it is 2147483648 octets long" },
		{ "short-option", "malformed option table (2 options of 48 octets)" },
		{ "no-stride", "malformed option table (2 options of 0 octets)" },
	};
	(void)st;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char path[600], name[100];
		struct module_info m;
		path_of(cases[i].variant, path, sizeof path);
		snprintf(name, sizeof name, "pepsi-stage-odd-%s", cases[i].variant);
		worker_describe(name, path, NULL, NULL, &m);
		if (!m.error || !strstr(m.error, cases[i].says))
			fail_msg("%s: %s", cases[i].variant, m.error ? m.error : "loaded");
		module_info_free(&m);
	}
}

static void report(void *arg, const struct trial_pass *p, struct buf *out)
{
	(void)arg;
	buf_addz(out, p->terminal ? p->terminal : "-");
}

/* Longer structs: what we do not know of them is not looked at, and the arrays are walked with their own stride. */
static void accepted(void **st)
{
	static const char *const variants[] = { "long", "plain" };
	(void)st;
	for (size_t i = 0; i < 2; i++) {
		char path[600];
		struct module_info m;
		struct str rcpt = STR("a@b.test");
		struct config_faults *faults = config_faults_new();
		struct config *c = config_load("/dev/null", faults);
		struct trial_result r;
		path_of(variants[i], path, sizeof path);
		worker_describe("x", path, NULL, NULL, &m);
		if (m.error)
			fail_msg("%s: %s", variants[i], m.error);
		assert_int_equal(m.n_options, 2);
		assert_string_equal(m.options[1].name, "SECOND");
		assert_string_equal(m.options[1].def, "2");
		module_info_free(&m);
		assert_int_equal(config_set(c, "stage-here", "NEXT_STAGE", "next"), 0);
		struct wire_item item = { .id = 1, .has_content = true, .rcpts = &rcpt, .n_rcpts = 1, .state = STR("{}") };
		struct trial t = { .path = path, .c = c, .stage = "here", .runtime_ms = 60000, .any_stage = true, .report = report,
			.items = &item, .n_items = 1 };
		trial_run(&t, &r);
		assert_int_equal(r.end, TRIAL_DONE); /* a hook called from beyond our struct would have crashed it */
		assert_string_equal(buf_z(&r.report), "advance\n");
		trial_result_free(&r);
		config_free(c);
		config_faults_free(faults);
	}
}

static void hosts(void **st)
{
	(void)st;
	struct pepsi_host h = worker_host;
	assert_int_equal(h.abi.size, sizeof h);
	assert_true(PEPSI_HAS(&h, resolve));
	h.abi.size = (uint32_t)offsetof(struct pepsi_host, resolve); /* an older host */
	assert_false(PEPSI_HAS(&h, resolve));
	assert_true(PEPSI_HAS(&h, now_us));
	h.abi.size++; /* and a lie */
	assert_false(PEPSI_HAS(&h, resolve));
	h.abi.size = sizeof h;
	h.resolve = NULL;
	assert_false(PEPSI_HAS(&h, resolve));
	/* this host has everything its header describes */
	void *const *p = (void *const *)(const void *)&worker_host;
	for (size_t i = 1; i < sizeof h / sizeof *p; i++)
		assert_non_null(p[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(refused), cmocka_unit_test(accepted), cmocka_unit_test(hosts) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
