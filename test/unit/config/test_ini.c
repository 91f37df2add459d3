/* The INI reader: lines to values, lines to faults, includes, secrets, limits, and the flat form. */
#include "support.h"

static struct config *load(struct str text, char **ret_faults)
{
	struct config_faults *f = config_faults_new();
	support_write("t.conf", text);
	struct config *c = config_load("t.conf", f);
	assert_non_null(c);
	*ret_faults = support_faults(f);
	config_faults_free(f);
	return c;
}

static void values(void **state)
{
	(void)state;
	static const struct {
		const char *line, *value;
	} t[] = {
		{ "X = a", "a" }, { "X=a", "a" }, { "  X\t=\ta b  ", "a b" }, { "x = a # comment", "a" }, { "X = a#b", "a#b" },
		{ "X = a\t#b", "a" }, { "X =", "" }, { "X = # only a comment", "" }, { "X = \"a # b\"", "a # b" },
		{ "X = \"a # b\" # c", "a # b" }, { "X = \"a # b\"# c", "a # b" }, { "X = \" a \"", " a " }, { "X = \"\"", "" },
		{ "X = \"say \\\"hi\\\" \\\\\"", "say \"hi\" \\" }, { "X = a \"b\" c", "a \"b\" c" }, { "X = a \"b\" # c", "a \"b\"" },
		{ "X = C:\\dir", "C:\\dir" }, { "X = a = b", "a = b" }, { "X = 5\" disk", "5\" disk" }, { "X = münchen", "münchen" }, { "X = a\r", "a" },
	};
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		char *faults, text[256];
		snprintf(text, sizeof text, "# head\n\n[Sec-A] # c\n%s\n", t[i].line);
		struct config *c = load(str_from(text), &faults);
		assert_string_equal(faults, "");
		const struct config_value *v = config_get(c, "sec-a", "X");
		if (!v || strcmp(v->value, t[i].value) != 0)
			fail_msg("%s: \"%s\"", t[i].line, v ? v->value : "(none)");
		assert_string_equal(v->file, "t.conf");
		assert_int_equal(v->line, 4);
		config_free(c);
		free(faults);
	}
}

static void faults(void **state)
{
	(void)state;
	static const struct {
		struct str text;
		const char *faults;
	} t[] = {
		{ STR_INIT(""), "" },
		{ STR_INIT("\xef\xbb\xbf[a]\nX=1"), "" },
		{ STR_INIT("X = 1\n"), "t.conf:1: X stands before the first [section]\n" },
		{ STR_INIT("[a\nX=1\n"), "t.conf:1: ']' is missing at the end of the section's name\n" },
		{ STR_INIT("[]\n"), "t.conf:1: a section needs a name\n" },
		{ STR_INIT("[a b]\n"), "t.conf:1: a section's name is made of letters, digits, '-', '_' and '.'\n" },
		{ STR_INIT("[a] X = 1\n"), "t.conf:1: only a comment may follow a section's name on its line\n" },
		{ STR_INIT("[a]\nfoo\n"),
		    "t.conf:2: expected OPTION = value, [section], @inline@ FILE or a # comment, found \"foo\"\n" },
		{ STR_INIT("[a]\nA B = 1\n"), "t.conf:2: an option's name has no blanks in it\n" },
		{ STR_INIT("[a]\n = 1\n"), "t.conf:2: the option's name is missing before '='\n" },
		{ STR_INIT("[a]\n; old\n"), "t.conf:2: comments begin with '#' here, not with ';'\n" },
		{ STR_INIT("[a]\nX = a\0b\n"), "t.conf:2: a NUL octet (0x00) in column 6\n" },
		{ STR_INIT("[a]\nX = a\x1b[0m\n"), "t.conf:2: a control octet (0x1b) in column 6\n" },
		{ STR_INIT("[a]\nX = a\x7f\n"), "t.conf:2: a control octet (0x7f) in column 6\n" },
		{ STR_INIT("[a]\nX = m\xfcnchen\n"), "t.conf:2: invalid UTF-8 (0xfc) in column 6\n" },
		{ STR_INIT("[a]\nX = \xc3\xbc\xc3\n"), "t.conf:2: invalid UTF-8 (0xc3) in column 7\n" },
		{ STR_INIT("[a]\nX = \"open\n"), "t.conf:2: X: the quote at the beginning of the value is not closed\n" },
		{ STR_INIT("[a]\nX = \"a\\n\"\n"),
		    "t.conf:2: X: in a quoted value a backslash stands only before '\"' or another backslash\n" },
		{ STR_INIT("[a]\nX = \"a\" b\n"), "t.conf:2: X: text follows the closing quote; write the whole value in quotes, with "
						   "\\\" for quotes in it\n" },
		{ STR_INIT("[a]\nX = h \"a # b\"\n"), "t.conf:2: X: a comment begins inside a quoted part; write the whole value in "
						      "quotes, with \\\" for quotes in it\n" },
		{ STR_INIT("@inlin@ x\n"), "t.conf:1: unknown directive @inlin@; did you mean @inline@?\n" },
		{ STR_INIT("@import@ x\n"), "t.conf:1: unknown directive @import@\n" },
		{ STR_INIT("@inline@\n"), "t.conf:1: @inline@: the name of the file is missing\n" },
		{ STR_INIT("@inline@ none.conf # c\n"), "t.conf:1: cannot read none.conf: No such file or directory\n" },
		{ STR_INIT("@inline@ none-*.conf\n"), "" },
		{ STR_INIT("@inline@ no-folder/*.conf\n"), "" },
		{ STR_INIT("@inline@ $PEPSI_T_NONE/x\n"), "t.conf:1: @inline@: no such environment variable: PEPSI_T_NONE\n" },
		{ STR_INIT("@inline@ t.conf\n"),
		    "t.conf:1: cannot read t.conf: it is being read already: the files include each other in a loop\n" },
		{ STR_INIT("@inline@ .\n"),
		    "t.conf:1: cannot read .: it is a folder; write FOLDER/*.conf for the files in it\n" },
		{ STR_INIT("@inline-secret@ a\n"), "t.conf:1: @inline-secret@: the file is missing: @inline-secret@ SECTION FILE\n" },
		{ STR_INIT("@inline-secret@\n"), "t.conf:1: @inline-secret@: the section is missing: @inline-secret@ SECTION FILE\n" },
		{ STR_INIT("x\n[a]\n[b\ny = 1\n[c]\nz\n"), /* a malformed section line silences its own options only */
		    "t.conf:1: expected OPTION = value, [section], @inline@ FILE or a # comment, found \"x\"\n"
		    "t.conf:3: ']' is missing at the end of the section's name\n"
		    "t.conf:6: expected OPTION = value, [section], @inline@ FILE or a # comment, found \"z\"\n" },
	};
	unsetenv("PEPSI_T_NONE");
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		char *got;
		struct config *c = load(t[i].text, &got);
		assert_string_equal(got, t[i].faults);
		config_free(c);
		free(got);
	}
}

static void limits(void **state)
{
	(void)state;
	struct buf b = BUF_INIT(8 << 20);
	char *got;
	/* the longest line and one octet more */
	for (size_t more = 0; more < 2; more++) {
		buf_reset(&b);
		buf_addz(&b, "[a]\nX=");
		for (size_t i = 0; i < 64 * 1024 - 2 + more; i++)
			buf_addc(&b, 'x');
		buf_addz(&b, "\nY=1\n");
		struct config *c = load(buf_str(&b), &got);
		assert_string_equal(got, more ? "t.conf:2: the line is longer than 65536 octets\n" : "");
		assert_true(!config_get(c, "a", "X") == (more == 1));
		assert_non_null(config_get(c, "a", "Y"));
		config_free(c);
		free(got);
	}
	buf_reset(&b);
	for (int i = 0; i < 1001; i++)
		buf_addf(&b, "[s%d]\n", i);
	struct config *c = load(buf_str(&b), &got);
	assert_string_equal(got, "t.conf:1001: no room for another section (at most 1000)\n");
	config_free(c);
	free(got);
	/* a file of nothing but mistakes ends in one line that says so */
	buf_reset(&b);
	for (int i = 0; i < 1500; i++)
		buf_addz(&b, "x\n");
	c = load(buf_str(&b), &got);
	assert_non_null(strstr(got, "t.conf:1000: expected"));
	assert_null(strstr(got, "t.conf:1001:"));
	assert_non_null(strstr(got, "\nthere are more findings than can be shown\n"));
	config_free(c);
	free(got);
	buf_reset(&b);
	for (size_t i = 0; i < (4 << 20) / 16 + 1; i++)
		buf_addz(&b, "# sixteen octet\n");
	c = load(buf_str(&b), &got);
	assert_string_equal(got, "t.conf: cannot be read: it is larger than 4 MiB\n");
	config_free(c);
	free(got);
	buf_free(&b);
	struct config_faults *f = config_faults_new();
	c = config_load("/dev/null", f);
	got = support_faults(f);
	assert_string_equal(got, "/dev/null: cannot be read: it is not a regular file\n");
	free(got);
	config_free(c);
	config_faults_free(f);
}

static void includes(void **state)
{
	(void)state;
	char *got;
	assert_int_equal(mkdir("d[1]", 0700), 0);
	support_write("d[1]/b.conf", STR("[s]\nB = 2\n[other]\nC = 3\n"));
	support_write("d[1]/a.conf", STR("[s]\nA = 1\n@inline@ deeper.inc\n"));
	support_write("d[1]/deeper.inc", STR("[s]\nDEEP = 4\n"));
	support_write("d[1]/top.conf", STR("[s]\nX = 0\n@inline@ [ab].conf\nY = 9\n"));
	struct config *c = load(STR("@inline@ \"d[[]1]/top.conf\"\n"), &got);
	assert_string_equal(got, "");
	/* sorted, relative to the file that asks, and the section goes on behind */
	static const char *const order[] = { "X", "A", "DEEP", "B", "Y" };
	for (size_t i = 0; i < 5; i++)
		assert_string_equal(config_option(c, "s", i, NULL), order[i]);
	assert_null(config_option(c, "s", 5, NULL));
	assert_string_equal(config_get(c, "s", "DEEP")->file, "d[1]/deeper.inc");
	assert_int_equal(config_get(c, "s", "DEEP")->line, 2);
	assert_string_equal(config_section(c, 0), "s");
	assert_string_equal(config_section(c, 1), "other");
	assert_null(config_section(c, 2));
	config_free(c);
	free(got);

	/* a chain one file longer than allowed */
	for (int i = 1; i <= 11; i++) {
		char name[16], text[64];
		snprintf(name, sizeof name, "c%d", i);
		snprintf(text, sizeof text, i < 11 ? "@inline@ c%d\n" : "# end\n", i + 1);
		support_write(name, str_from(text));
	}
	c = load(STR("@inline@ c1\n"), &got);
	assert_string_equal(got, "c10:1: cannot read c11: @inline@ goes too deep (at most 10 files one inside the other)\n");
	config_free(c);
	free(got);
	support_write("l1", STR("@inline@ l2\n"));
	support_write("l2", STR("@inline@ ./l1\n"));
	c = load(STR("@inline@ l1\n"), &got);
	assert_string_equal(got, "l2:1: cannot read ./l1: it is being read already: the files include each other in a loop\n");
	config_free(c);
	free(got);
}

static void secrets(void **state)
{
	(void)state;
	char *got, cwd[4096];
	struct config_faults *f = config_faults_new();
	assert_non_null(getcwd(cwd, sizeof cwd));
	support_write("good", STR("PASSWORD = \"a # b\"\n"));
	support_write("open", STR("[other]\nKEY = k\n"));
	support_write("bad", STR("KEY\n[wrong]\nX = 1\n[third]\n@inline@ good\n"));
	assert_int_equal(chmod("open", 0644), 0);
	struct config *c = load(STR("[stage-a]\nUSER = u\n@inline-secret@ stage-a good\n@inline-secret@ other open\n"
				    "@inline-secret@ third bad\n@inline-secret@ x missing\n"),
	    &got);
	assert_string_equal(got, "");
	free(got);
	assert_null(config_get(c, "stage-a", "PASSWORD"));
	/* the references travel in the flat form */
	struct buf flat = BUF_INIT(1 << 20);
	assert_int_equal(config_freeze(c, &flat), 0);
	config_free(c);
	c = config_thaw(buf_str(&flat));
	assert_non_null(c);
	config_load_secrets(c, f);
	assert_string_equal(config_get(c, "stage-a", "PASSWORD")->value, "a # b");
	assert_true(config_is_secret(c, "stage-a", "PASSWORD"));
	assert_false(config_is_secret(c, "stage-a", "USER"));
	assert_string_equal(config_get(c, "other", "KEY")->value, "k");
	assert_null(config_get(c, "wrong", "X"));
	char want[20000];
	snprintf(want, sizeof want,
	    "%s/open: warning: holds secrets, but everybody may read it: run chmod o-rwx on it\n"
	    "%s/bad:1: expected OPTION = value, [section] or a # comment\n"
	    "%s/bad:2: [wrong] in a file that was included for the secrets of [third] only\n"
	    "%s/bad:5: @inline@ is not allowed in a file of secrets\n"
	    "t.conf:6: cannot read %s/missing: No such file or directory\n",
	    cwd, cwd, cwd, cwd, cwd);
	got = support_faults(f);
	assert_string_equal(got, want);
	free(got);
	/* reading them again adds nothing */
	assert_null(config_option(c, "stage-a", 2, NULL));
	config_load_secrets(c, NULL);
	assert_null(config_option(c, "stage-a", 2, NULL));
	/* never shown */
	struct buf out = BUF_INIT(1 << 20);
	assert_int_equal(config_show(c, NULL, NULL, false, &out), 0);
	assert_null(strstr(buf_z(&out), "a # b"));
	assert_non_null(strstr(buf_z(&out), "PASSWORD = ********"));
	buf_reset(&out);
	assert_int_equal(config_show(c, NULL, NULL, true, &out), 0);
	assert_null(strstr(buf_z(&out), "a # b"));
	buf_free(&out);
	buf_free(&flat);
	config_free(c);
	config_faults_free(f);
}

static void setting(void **state)
{
	(void)state;
	char *got;
	struct config *c = load(STR("[a]\nX = 1\nY = 2\nx = 3\n"), &got);
	free(got);
	assert_int_equal(config_set(c, "A", "x", "new"), 0);
	assert_string_equal(config_get(c, "a", "X")->value, "new");
	assert_string_equal(config_get(c, "a", "X")->file, "");
	assert_string_equal(config_option(c, "a", 1, NULL), "Y");
	assert_null(config_option(c, "a", 2, NULL));
	assert_int_equal(config_set(c, "fresh", "Z", "1"), 0);
	assert_string_equal(config_get(c, "fresh", "z")->value, "1");
	assert_int_equal(config_set(c, "a", "X", "two\nlines"), -1);
	assert_int_equal(config_set(c, "a", "X Y", "1"), -1);
	assert_int_equal(config_set(c, "a b", "X", "1"), -1);
	assert_int_equal(config_set(c, "a", "X", "\xff"), -1);
	assert_string_equal(config_get(c, "a", "X")->value, "new");
	config_free(c);
	config_free(NULL);
}

static void flat(void **state)
{
	(void)state;
	char *got;
	struct buf one = BUF_INIT(1 << 20), two = BUF_INIT(1 << 20);
	support_write("inc", STR("[Stage-B]\nPROGRAM = p # c\nEMPTY =\n"));
	struct config *c = load(STR("[pepsi]\nHOSTNAME = mx.example.test\nX = \"a # b\"\n@inline@ inc\n"
				    "@inline-secret@ stage-b s\n[pepsi]\nY = münchen\nY = 2\n"),
	    &got);
	free(got);
	assert_int_equal(config_set(c, "pepsi", "STATE_DIR", "/s"), 0);
	assert_int_equal(config_freeze(c, &one), 0);
	struct config *d = config_thaw(buf_str(&one));
	assert_non_null(d);
	assert_int_equal(config_freeze(d, &two), 0);
	assert_true(str_eq(buf_str(&one), buf_str(&two)));
	assert_string_equal(config_get(d, "stage-b", "EMPTY")->value, "");
	assert_string_equal(config_get(d, "stage-b", "PROGRAM")->file, "inc");
	assert_int_equal(config_get(d, "pepsi", "Y")->line, 7);
	assert_string_equal(config_get(d, "pepsi", "STATE_DIR")->file, "");
	config_free(d);
	/* every shortened blob, and one with more behind it, is refused */
	for (size_t n = 0; n < one.n; n++) {
		char *cut = malloc(n ? n : 1);
		assert_non_null(cut);
		memcpy(cut, one.p, n);
		if ((d = config_thaw(str_n(cut, n))))
			fail_msg("thawed %zu of %zu octets", n, one.n);
		free(cut);
	}
	buf_addc(&one, 0);
	assert_null(config_thaw(buf_str(&one)));
	struct buf small = BUF_INIT(16);
	assert_int_equal(config_freeze(c, &small), -1);
	buf_free(&small);
	buf_free(&one);
	buf_free(&two);
	config_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values),
		cmocka_unit_test(faults),
		cmocka_unit_test(limits),
		cmocka_unit_test(includes),
		cmocka_unit_test(secrets),
		cmocka_unit_test(setting),
		cmocka_unit_test(flat),
	};
	return cmocka_run_group_tests(tests, support_enter, support_leave);
}
