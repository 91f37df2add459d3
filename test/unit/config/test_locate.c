/* Notes that lead from a configuration file to a state folder. */
#include "config/locate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void clean(const char *dir)
{
	char command[64];
	snprintf(command, sizeof command, "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
}

static void test_note(void **state)
{
	char dir[] = "/tmp/pepsi-locate-XXXXXX", file[64], other[64], out[256];
	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(setenv("XDG_RUNTIME_DIR", dir, 1), 0);
	snprintf(file, sizeof file, "%s/a.conf", dir);
	snprintf(other, sizeof other, "%s/b.conf", dir);
	fclose(fopen(file, "w"));
	assert_int_equal(config_locate_find(file, out, sizeof out), -1);
	if (config_locate_note(file, "/srv/one")) {
		clean(dir);
		assert_int_equal(geteuid(), 0); /* as root the notes are in /run, which may be read-only here */
		skip();
	}
	assert_int_equal(config_locate_find(file, out, sizeof out), 0);
	assert_string_equal(out, "/srv/one");
	assert_int_equal(config_locate_note(file, "/srv/two"), 0); /* the last one counts */
	assert_int_equal(config_locate_find(file, out, sizeof out), 0);
	assert_string_equal(out, "/srv/two");
	assert_int_equal(config_locate_find(file, out, 4), -1);
	assert_int_equal(config_locate_find(other, out, sizeof out), -1);
	config_locate_forget(file, "/srv/one"); /* not ours any more */
	assert_int_equal(config_locate_find(file, out, sizeof out), 0);
	config_locate_forget(file, "/srv/two");
	assert_int_equal(config_locate_find(file, out, sizeof out), -1);
	clean(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_note) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
