/* The alias file: its lines, its limits, and the lines that are told of and skipped. */
#include "aliases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char told[4096];

static void tell(void *arg, unsigned line, const char *text)
{
	size_t n = strlen(told);
	(void)arg;
	snprintf(told + n, sizeof told - n, "%u: %s\n", line, text);
}

static const char *look(struct alias_file *f, const char *name)
{
	static char out[1024];
	struct str s = str_from(name);
	struct alias_hit hit;
	alias_file_find(f, NULL, &s, 1, &hit, NULL);
	if (!hit.found)
		return "-";
	out[0] = 0;
	for (size_t i = 0; i < hit.n; i++)
		snprintf(out + strlen(out), sizeof out - strlen(out), "%s%.*s", i ? "|" : "", STR_ARG(hit.targets[i]));
	return out;
}

static void reading(void **st)
{
	(void)st;
	told[0] = 0;
	struct alias_file *f = alias_file_parse(STR("# a comment\n"
						    "Root: ann@example.test,bob\r\n"
						    "  , carl@example.test\n"
						    "\n"
						    "nobody:\n"
						    "@old.test: new@example.test\n"
						    "\"odd:name\"@x.test: ann\n"
						    "last: z@example.test"),
	    tell, NULL);
	assert_non_null(f);
	assert_string_equal(told, "");
	assert_int_equal(alias_file_names(f), 5);
	assert_string_equal(look(f, "root"), "ann@example.test|bob|carl@example.test");
	assert_string_equal(look(f, "nobody"), "");
	assert_string_equal(look(f, "@old.test"), "new@example.test");
	assert_string_equal(look(f, "\"odd:name\"@x.test"), "ann");
	assert_string_equal(look(f, "last"), "z@example.test");
	assert_string_equal(look(f, "absent"), "-");
	alias_file_free(f);
}

static void skipping(void **st)
{
	(void)st;
	told[0] = 0;
	struct alias_file *f = alias_file_parse(STR("  stray\n"
						    "no colon\n"
						    "pipe: |/bin/sh\n"
						    "quoted: \"|/bin/sh\"\n"
						    "file: /etc/passwd\n"
						    "include: :include:/etc/passwd\n"
						    "bad: a@@b\n"
						    "ok: a@b.test\n"
						    "OK: c@d.test\n"),
	    tell, NULL);
	assert_non_null(f);
	assert_string_equal(told, "1: a continuation of nothing\n"
				  "2: expected NAME: TARGET, TARGET\n"
				  "3: programs, files and :include: are no targets here\n"
				  "4: programs, files and :include: are no targets here\n"
				  "5: programs, files and :include: are no targets here\n"
				  "6: programs, files and :include: are no targets here\n"
				  "7: a target that is no address\n"
				  "9: this name stood before; the first one counts\n");
	assert_int_equal(alias_file_names(f), 1);
	assert_string_equal(look(f, "ok"), "a@b.test");
	alias_file_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(reading), cmocka_unit_test(skipping) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
