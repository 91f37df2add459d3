/* The aliases stage over a file: expansion, loops, limits, DSN wishes, and a file that changes. */
#include "stage.h"

#include <stdio.h>

static const char map[] = "one: ann@example.test\n"
			  "two: ann@example.test, bob@elsewhere.test\n"
			  "self: self, bob@elsewhere.test\n"
			  "a: b\n"
			  "b: a\n"
			  "chain1: chain2\n"
			  "chain2: chain3\n"
			  "chain3: end@elsewhere.test\n"
			  "nobody:\n"
			  "full@example.test: bob@elsewhere.test\n"
			  "@catch.test: all@example.test\n"
			  "kept@catch.test: kept@catch.test\n";

/* The outcome is that one, whatever the state says of wishes beside what is wanted of it. */
static bool goes(struct stage *s, const char *want)
{
	const char *got = stage_outcome(s), *state = strstr(want, " {\"forwarded\"");
	size_t n = state ? (size_t)(state - want) : strlen(want);
	if (strncmp(got, want, n) || (got[n] && strncmp(got + n, " {\"dsn\":", 8)))
		return false;
	return state ? strstr(got, state + 2) != NULL : !strstr(got, "\"forwarded\"");
}

static void expansion(void **st)
{
	(void)st;
	static const struct {
		const char *to, *want;
	} cases[] = {
		{ "plain@example.test", "move next" },
		{ "one@example.test", "move next ann@example.test" },
		{ "ONE@Example.Test", "move next ann@example.test" },
		{ "one@other.test", "move next" }, /* bare names count at our domains only */
		{ "two@example.test", "move next ann@example.test bob@elsewhere.test {\"forwarded\":[\"bob@elsewhere.test\"]}" },
		{ "one@example.test two@example.test", "move next ann@example.test bob@elsewhere.test {\"forwarded\":[\"bob@elsewhere.test\"]}" },
		{ "two@example.test x@y.test one@example.test", "move next ann@example.test bob@elsewhere.test x@y.test {\"forwarded\":[\"bob@elsewhere.test\"]}" },
		{ "self@example.test", "move next self@example.test bob@elsewhere.test {\"forwarded\":[\"bob@elsewhere.test\"]}" },
		{ "a@example.test", "move next" },
		{ "a@example.test one@example.test", "move next a@example.test ann@example.test" },
		{ "chain1@local.test", "move next end@elsewhere.test {\"forwarded\":[\"end@elsewhere.test\"]}" },
		{ "full@example.test", "move next bob@elsewhere.test {\"forwarded\":[\"bob@elsewhere.test\"]}" },
		{ "full@local.test", "move next" },
		{ "any@catch.test", "move next all@example.test" },
		{ "kept@catch.test", "move next" },
		{ "nobody@example.test", "finish discarded" },
		{ "nobody@example.test one@example.test", "move next ann@example.test" },
		{ "x@y.test X@Y.test", "move next x@y.test" },
	};
	struct stage s = { .dir = "/tmp/pepsi-unit-XXXXXX" };
	assert_non_null(mkdtemp(s.dir));
	stage_file(&s, "aliases", map);
	assert_int_equal(stage_open(&s, "pepsi-stage-aliases", "NEXT_STAGE = next\nFILE = %s/aliases\n"), PEPSI_OK);
	assert_string_equal(s.found, "");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		stage_pass(&s, "a@b.test", cases[i].to, "{}");
		if (!goes(&s, cases[i].want))
			fail_msg("%s gives %s", cases[i].to, stage_outcome(&s));
	}
	/* every new recipient has the wishes of the one it came from, and says which address that was */
	static const struct {
		const char *to, *state, *want;
	} wishes[] = {
		{ "x@y.test two@example.test", "{\"dsn\":{\"envid\":\"E\",\"rcpt\":[{\"notify\":\"NEVER\"},{\"orcpt\":\"rfc822;2@example.test\"}]}}",
		    "move next x@y.test ann@example.test bob@elsewhere.test {\"dsn\":{\"envid\":\"E\",\"rcpt\":[{\"notify\":\"NEVER\"},"
		    "{\"orcpt\":\"rfc822;2@example.test\",\"alias\":\"two@example.test\"},{\"orcpt\":\"rfc822;2@example.test\",\"alias\":\"two@example.test\"}]},\"forwarded\":[\"bob@elsewhere.test\"]}" },
		{ "one@example.test x@y.test", "{}", "move next ann@example.test x@y.test {\"dsn\":{\"rcpt\":[{\"orcpt\":\"rfc822;one@example.test\",\"alias\":\"one@example.test\"},{}]}}" },
		{ "one@example.test", "{\"dsn\":{\"rcpt\":[{\"notify\":\"SUCCESS\"}]}}", /* one for one: nothing is expanded (RFC 3461 §5.2.7.2) */
		    "move next ann@example.test {\"dsn\":{\"rcpt\":[{\"notify\":\"SUCCESS\",\"orcpt\":\"rfc822;one@example.test\",\"alias\":\"one@example.test\"}]}}" },
		{ "two@example.test", "{\"dsn\":{\"rcpt\":[{\"notify\":\"FAILURE\"}]}}",
		    "move next ann@example.test bob@elsewhere.test {\"dsn\":{\"rcpt\":[{\"notify\":\"FAILURE\",\"orcpt\":\"rfc822;two@example.test\",\"alias\":\"two@example.test\"},"
		    "{\"notify\":\"FAILURE\",\"orcpt\":\"rfc822;two@example.test\",\"alias\":\"two@example.test\"}]},\"forwarded\":[\"bob@elsewhere.test\"]}" },
		/* what an earlier such stage found stays known, as long as it is there; our own are no news to anybody */
		{ "old@far.test x@y.test one@example.test", "{\"forwarded\":[\"OLD@far.test\",\"gone@far.test\",1]}",
		    "move next old@far.test x@y.test ann@example.test {\"dsn\":{\"rcpt\":[{},{},{\"orcpt\":\"rfc822;one@example.test\",\"alias\":\"one@example.test\"}]},\"forwarded\":[\"old@far.test\"]}" },
		{ "chain1@local.test one@example.test", "{\"forwarded\":\"none\"}",
		    "move next end@elsewhere.test ann@example.test {\"dsn\":{\"rcpt\":[{\"orcpt\":\"rfc822;chain1@local.test\",\"alias\":\"chain1@local.test\"},{\"orcpt\":\"rfc822;one@example.test\",\"alias\":\"one@example.test\"}]},"
		    "\"forwarded\":[\"end@elsewhere.test\"]}" },
	};
	for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
		stage_pass(&s, "a@b.test", wishes[i].to, wishes[i].state);
		assert_string_equal(stage_outcome(&s), wishes[i].want);
	}
	stage_close(&s);
	/* of several: told of as expanded, and of that alone */
	s = (struct stage){ .dir = "/tmp/pepsi-unit-XXXXXX" };
	assert_non_null(mkdtemp(s.dir));
	stage_file(&s, "aliases", map);
	assert_int_equal(stage_open(&s, "pepsi-stage-aliases", "NEXT_STAGE = next\nBOUNCE_STAGE = bounce\nFILE = %s/aliases\n"), PEPSI_OK);
	stage_pass(&s, "a@b.test", "x@y.test two@example.test", "{\"dsn\":{\"rcpt\":[{\"notify\":\"SUCCESS\"},{\"notify\":\"SUCCESS,DELAY\"}]}}");
	const char *got = stage_outcome(&s);
	if (!strstr(got, "+bounce:1") || !strstr(got, "[{\"notify\":\"SUCCESS\"},{\"notify\":\"DELAY\",\"orcpt\":\"rfc822;two@example.test\",\"alias\":\"two@example.test\"},"))
		fail_msg("%s", got);
	stage_pass(&s, "", "two@example.test", "{\"dsn\":{\"rcpt\":[{\"notify\":\"SUCCESS\"}]}}");
	assert_null(strstr(stage_outcome(&s), "+bounce"));
	stage_close(&s);
}

/* A detail is looked up with its address first, then without it; the whole domain comes last. Without a delimiter it is part of the name. */
static void details(void **st)
{
	(void)st;
	static const struct {
		const char *to, *with, *without;
	} cases[] = {
		{ "one+x@example.test", "move next ann@example.test", "move next" },
		{ "ONE+X@example.test", "move next ann@example.test", "move next" },
		{ "one+special@example.test", "move next bob@elsewhere.test {\"forwarded\":[\"bob@elsewhere.test\"]}", "move next bob@elsewhere.test {\"forwarded\":[\"bob@elsewhere.test\"]}" },
		{ "full+x@example.test", "move next bob@elsewhere.test {\"forwarded\":[\"bob@elsewhere.test\"]}", "move next" },
		{ "kept+x@catch.test", "move next kept@catch.test {\"forwarded\":[\"kept@catch.test\"]}", "move next all@example.test" },
		{ "any+x@catch.test", "move next all@example.test", "move next all@example.test" },
		{ "self+x@example.test", "move next self@example.test bob@elsewhere.test {\"forwarded\":[\"bob@elsewhere.test\"]}", "move next" },
		{ "+one@example.test", "move next", "move next" },
		{ "\"one+x\"@example.test", "move next", "move next" },
		{ "one+x@other.test", "move next", "move next" },
	};
	for (int with = 0; with < 2; with++) {
		struct stage s = { .dir = "/tmp/pepsi-unit-XXXXXX" };
		assert_non_null(mkdtemp(s.dir));
		struct buf b = BUF_INIT(8192);
		buf_addf(&b, "%sone+special: bob@elsewhere.test\n", map);
		stage_file(&s, "aliases", buf_z(&b));
		buf_free(&b);
		assert_int_equal(stage_open(&s, "pepsi-stage-aliases", with ? "NEXT_STAGE = next\nRECIPIENT_DELIMITER = +\nFILE = %s/aliases\n" :
									      "NEXT_STAGE = next\nFILE = %s/aliases\n"), PEPSI_OK);
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
			stage_pass(&s, "a@b.test", cases[i].to, "{}");
			if (!goes(&s, with ? cases[i].with : cases[i].without))
				fail_msg("%s gives %s", cases[i].to, stage_outcome(&s));
		}
		stage_close(&s);
	}
}

static void limits(void **st)
{
	(void)st;
	struct buf b = BUF_INIT(1 << 20);
	struct stage s = { .dir = "/tmp/pepsi-unit-XXXXXX" };
	assert_non_null(mkdtemp(s.dir));
	/* 1000 addresses are allowed, one more is not; 10 steps are followed, the 11th name stays */
	for (int k = 0; k < 2; k++) {
		buf_addf(&b, "all%d: first%d@x.test", k, k);
		for (int i = 1; i < 500 + k; i++)
			buf_addf(&b, ", m%d-%d@x.test", k, i);
		buf_addc(&b, '\n');
	}
	buf_addz(&b, "half: all0, more\nmore: all0\n");
	buf_addz(&b, "toomany: all0, all1\n");
	for (int i = 0; i < 12; i++)
		buf_addf(&b, "step%d: step%d\n", i, i + 1);
	stage_file(&s, "aliases", buf_z(&b));
	buf_free(&b);
	assert_int_equal(stage_open(&s, "pepsi-stage-aliases", "NEXT_STAGE = next\nFILE = %s/aliases\n"), PEPSI_OK);
	stage_pass(&s, "a@b.test", "half@example.test", "{}");
	assert_int_equal(s.msg.pass.ops[0].n_rcpts, 500);
	stage_pass(&s, "a@b.test", "toomany@example.test", "{}");
	assert_string_equal(stage_outcome(&s), "fail here");
	assert_non_null(strstr(s.msg.pass.ops[0].state, "more than 1000 addresses"));
	stage_pass(&s, "a@b.test", "step0@example.test", "{}");
	assert_true(goes(&s, "move next step10@example.test"));
	stage_close(&s);
}

static void configuration(void **st)
{
	(void)st;
	struct stage s = { .dir = "" };
	assert_int_equal(stage_open(&s, "pepsi-stage-aliases", "FILE = relative\n"), PEPSI_RETRY);
	assert_non_null(strstr(s.found, "FILE: must be an absolute path"));
	assert_non_null(strstr(s.found, "NEXT_STAGE must be set"));
	s.env.state = NULL;
	stage_close(&s);
	/* no database here: later, not lost */
	assert_int_equal(stage_open(&s, "pepsi-stage-aliases", "NEXT_STAGE = next\nMAP = database\n"), PEPSI_OK);
	stage_pass(&s, "a@b.test", "x@y.test", "{}");
	assert_string_equal(stage_outcome(&s), "pause");
	assert_non_null(strstr(s.msg.pass.ops[0].state, "the database is away"));
	stage_close(&s);
}

int main(void)
{
	log_setup(LOG_LV_ERROR, "test");
	const struct CMUnitTest tests[] = { cmocka_unit_test(expansion), cmocka_unit_test(details), cmocka_unit_test(limits), cmocka_unit_test(configuration) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
