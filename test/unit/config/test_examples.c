/* The example files of conf/ must pass the check without a fault or a warning, held against the option tables of the
 * modules as built (a module that was not built is not guessed at). */
#include "support.h"

#include <dlfcn.h>

static const struct module_info *built_module(void *arg, const char *program)
{
	static struct module_info found[32];
	static size_t n;
	char path[4096];
	(void)arg;
	for (size_t i = 0; i < n; i++)
		if (strcmp(found[i].name, program) == 0)
			return &found[i];
	snprintf(path, sizeof path, "%s/%s.so", PEPSI_BUILT_MODULES, program);
	if (access(path, F_OK))
		return NULL;
	void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!so)
		fail_msg("%s", dlerror());
	const struct pepsi_stage *d = dlsym(so, PEPSI_STAGE_SYMBOL);
	assert_non_null(d);
	assert_int_equal(d->option_size, sizeof(struct pepsi_option));
	assert_true(n < sizeof found / sizeof *found);
	found[n] = (struct module_info){ .name = (char *)(uintptr_t)d->name, .caps = d->caps, .n_options = d->n_options,
		.options = (struct pepsi_option *)(uintptr_t)d->options };
	return &found[n++];
}

static void examples(void **state)
{
	(void)state;
	static const char *const files[] = { "pepsi.conf", "relay.conf", "local-maildir.conf", "lmtp.conf", "dmarc-reports.conf", "tls-reports.conf", "signing.conf", "forwarding.conf", "submission.conf", "provider.conf", "suppression.conf",
		"lmtp-listener.conf" };
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		char path[4096];
		struct config_faults *f = config_faults_new();
		snprintf(path, sizeof path, "%s/conf/%s", PEPSI_SOURCE_DIR, files[i]);
		struct config *c = config_load(path, f);
		assert_non_null(c);
		schema_check(c, built_module, NULL, f);
		char *got = support_faults(f);
		assert_string_equal(got, "");
		assert_non_null(config_get(c, "stage-init", "PROGRAM"));
		free(got);
		config_free(c);
		config_faults_free(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(examples) };
	return cmocka_run_group_tests(tests, support_enter, support_leave);
}
