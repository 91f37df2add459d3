/* Memory runs out at the n-th allocation, for each n: nothing crashes or leaks (under ASan), and a configuration that was
 * not read or looked at whole is never taken for a good one. Allocations of core/config and base are counted; the linker
 * puts the functions below in their place. */
#include "support.h"

static size_t left = SIZE_MAX; /* allocations until one fails; only that one */
static bool failed;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n) __attribute__((visibility("default")));
void *__wrap_calloc(size_t n, size_t size) __attribute__((visibility("default")));
void *__wrap_realloc(void *p, size_t n) __attribute__((visibility("default")));

static bool fails(void)
{
	if (left == SIZE_MAX || left-- > 1)
		return false;
	left = SIZE_MAX;
	return failed = true;
}

void *__wrap_malloc(size_t n)
{
	return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
	return fails() ? NULL : __real_realloc(p, n);
}

static void each_allocation(void **state)
{
	(void)state;
	struct buf blob = BUF_INIT(1 << 20), out = BUF_INIT(1 << 20);
	support_write("secret", STR("PASSWORD = x\n"));
	support_write("t.conf", STR("[pepsi]\nHOSTNAME = mx.example.test\nLOCAL_DOMAINS = example.test *.example.test\n"
				    "[listener-mx]\nBIND = 127.0.0.1:2525\n[stage-init]\nPROGRAM = pepsi-stage-relay\nHOST = h\n"
				    "BOUNCE_STAGE = bounce\n[stage-bounce]\nPROGRAM = pepsi-stage-bounce\nNEXT_STAGE = init\n"
				    "@inline-secret@ stage-init secret\n"));
	size_t n, good = 0;
	for (n = 1;; n++) {
		left = n;
		failed = false;
		struct config_faults *f = config_faults_new();
		struct config *c = config_load("t.conf", f), *d = NULL;
		if (c) {
			config_load_secrets(c, f);
			schema_check(c, support_module, NULL, f);
		}
		bool before = failed;
		/* no list to report to, no configuration, or a finding: one of them */
		if (f && c && config_faults_n(f, true) == 0) {
			assert_string_equal(config_get(c, "stage-init", "PASSWORD")->value, "x");
			good++;
		} else {
			assert_true(before);
		}
		buf_reset(&blob);
		if (c && config_freeze(c, &blob) == 0)
			d = config_thaw(buf_str(&blob));
		assert_true(d || failed);
		buf_reset(&out);
		int shown = c ? config_show(c, support_module, NULL, true, &out) : -1;
		assert_true(shown == 0 || failed);
		struct config_domains *domains = config_domains_new("example.test *.example.test");
		struct config_networks *networks = config_networks_new("::1");
		assert_true((domains && networks) || failed);
		config_domains_free(domains);
		config_networks_free(networks);
		config_free(d);
		config_free(c);
		config_faults_free(f);
		left = SIZE_MAX;
		if (!failed)
			break;
	}
	if (n < 50 || good < 5)
		fail_msg("%zu allocations, %zu of them behind the check", n, good);
	buf_free(&blob);
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_allocation) };
	return cmocka_run_group_tests(tests, support_enter, support_leave);
}
