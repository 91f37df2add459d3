/* For the tests of core/config: files in a folder of the test's own, findings as one text, and modules that exist only
 * here. Included by each test program once. */
#ifndef TEST_CONFIG_SUPPORT_H
#define TEST_CONFIG_SUPPORT_H

#include "config/config.h"
#include "config/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char support_dir[64];

/* A fresh folder that becomes the working directory; removed again by support_leave(). */
static inline int support_enter(void **state)
{
	(void)state;
	snprintf(support_dir, sizeof support_dir, "/tmp/pepsi-config-XXXXXX");
	umask(077);
	return !mkdtemp(support_dir) || chdir(support_dir);
}

static inline int support_leave(void **state)
{
	char command[128];
	(void)state;
	if (chdir("/"))
		return -1;
	snprintf(command, sizeof command, "rm -rf '%s'", support_dir);
	return system(command);
}

static inline void support_write(const char *name, struct str text)
{
	FILE *f = fopen(name, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(text.p ? text.p : "", 1, text.n, f), text.n);
	assert_int_equal(fclose(f), 0);
}

/* All findings, one a line; the caller frees it. */
static inline char *support_faults(const struct config_faults *f)
{
	struct buf b = BUF_INIT(1 << 22);
	for (size_t i = 0; i < config_faults_n(f, true); i++)
		config_fault_print(config_faults_at(f, i), &b);
	char *ret = str_dupz(buf_str(&b));
	assert_non_null(ret);
	buf_free(&b);
	return ret;
}

static inline const struct module_info *support_module(void *arg, const char *program)
{
	static struct pepsi_option route[] = {
		{ "ROUTE*", PEPSI_OPT_MULTI, 0, NULL, 0, 0, NULL, "domain and stage" },
		{ "DEFAULT", PEPSI_OPT_STAGE, 0, NULL, 0, 0, NULL, "stage of the rest" },
	};
	static struct pepsi_option relay[] = {
		{ "HOST", PEPSI_OPT_STRING, PEPSI_OPTF_REQUIRED, NULL, 0, 0, NULL, "next hop" },
		{ "PORT", PEPSI_OPT_INT, SCHEMA_F_NETWORKS | SCHEMA_F_US, "25", 1, 65535, NULL, "its port" },
		{ "TLS", PEPSI_OPT_CHOICE, 0, "may", 0, 0, "none may require dane", "TLS" },
		{ "RETRY_INTERVAL", PEPSI_OPT_DURATION, SCHEMA_F_US, "5 min", 1, 3600, NULL, "first pause" },
		{ "PASSWORD", PEPSI_OPT_SECRET, 0, NULL, 0, 0, NULL, "for AUTH" },
		{ "HELPER", PEPSI_OPT_PATH, 0, NULL, 0, 0, NULL, "a file" },
	};
	static struct pepsi_option srs[] = { { "DOMAIN", PEPSI_OPT_STRING, 0, NULL, 0, 0, NULL, "a domain" } };
	static const struct module_info all[] = {
		{ .name = (char *)"pepsi-stage-route", .options = route, .n_options = 2 },
		{ .name = (char *)"pepsi-stage-relay", .options = relay, .n_options = 6, .caps = PEPSI_CAP_DELIVER },
		{ .name = (char *)"pepsi-stage-bounce", .caps = PEPSI_CAP_BOUNCE },
		{ .name = (char *)"pepsi-stage-discard" },
		{ .name = (char *)"pepsi-stage-aliases" },
		{ .name = (char *)"pepsi-stage-srs", .options = srs, .n_options = 1 },
		{ .name = (char *)"pepsi-stage-sign", .caps = PEPSI_CAP_SIGNS },
		{ .name = (char *)"pepsi-stage-change", .caps = PEPSI_CAP_REWRITES },
		{ .name = (char *)"pepsi-stage-broken", .error = (char *)"no such module in /usr/lib/pepsi/modules" },
		{ .name = (char *)"pepsi-stage-rout", .error = (char *)"not found" },
	};
	(void)arg;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (strcmp(all[i].name, program) == 0)
			return &all[i];
	return NULL;
}

#endif
