/* Replies, header changes and command lines of the pipe stage by tables. */
#include "command.h"
#include "reply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void replies(void **st)
{
	static const struct {
		const char *text, *wrong; /* NULL: it is a reply */
	} cases[] = {
		{ "{\"action\":\"accept\"}", NULL },
		{ " \r\n{\"action\":\"accept\"}\n\n", NULL },
		{ "{\"action\":\"accept\",\"set_headers\":[{\"name\":\"Subject\",\"value\":\"x\"}],\"add_headers\":[],\"remove_headers\":[\"X-Y\"]}", NULL },
		{ "{\"action\":\"accept\",\"add_headers\":[{\"name\":\"Received\",\"value\":\"x\"}]}", NULL },
		{ "{\"action\":\"reject\"}", NULL },
		{ "{\"action\":\"reject\",\"status\":\"5.123.456\",\"text\":\"n\u00f6\\t\"}", NULL },
		{ "{\"action\":\"defer\"}", NULL },
		{ "{\"action\":\"defer\",\"seconds\":1,\"text\":\"later\"}", NULL },
		{ "{\"action\":\"defer\",\"seconds\":604800}", NULL },
		{ "{\"action\":\"reroute\",\"stage\":\"q\",\"add_headers\":[{\"name\":\"A\",\"value\":\"\"}]}", NULL },

		{ "", "it wrote nothing" },
		{ " \n", "it wrote nothing" },
		{ "OK", "no JSON" },
		{ "{\"action\":\"accept\"", "the end is missing" },
		{ "{\"action\":\"accept\"}{}", "" },
		{ "{\"action\":\"accept\"} yes", "" },
		{ "[]", "no object" },
		{ "null", "" },
		{ "{}", "\"action\" is missing" },
		{ "{'action':'accept'}", "no JSON" },
		{ "{\"action\":\"accept\",}", "no JSON" },
		{ "{\"action\":1}", "\"action\" is missing" },
		{ "{\"action\":\"ACCEPT\"}", "\"action\" is none of" },
		{ "{\"action\":\"accept\\u0000\"}", "" },
		{ "{\"action\":\"accept\",\"text\":\"x\"}", "\"text\" does not go with this action" },
		{ "{\"action\":\"accept\",\"colour\":\"x\"}", "\"colour\" is no member" },
		{ "{\"action\":\"reject\",\"add_headers\":[]}", "does not go with this action" },
		{ "{\"action\":\"reject\",\"text\":\"a\\nb\"}", "holds a control character" },
		{ "{\"action\":\"reject\",\"text\":\"a\\u0000b\"}", "holds a control character" },
		{ "{\"action\":\"reject\",\"text\":\"\xff\"}", "no JSON" },
		{ "{\"action\":\"reject\",\"text\":\"\xf7\x99\x86\x87\"}", "is no valid UTF-8" },
		{ "{\"action\":\"reject\",\"text\":7}", "is no text" },
		{ "{\"action\":\"reject\",\"status\":\"4.7.1\"}", "no enhanced status" },
		{ "{\"action\":\"reject\",\"status\":\"5.7\"}", "no enhanced status" },
		{ "{\"action\":\"reject\",\"status\":\"5..1\"}", "no enhanced status" },
		{ "{\"action\":\"reject\",\"status\":\"5.7.1234\"}", "no enhanced status" },
		{ "{\"action\":\"reject\",\"status\":\"5.7.1.1\"}", "no enhanced status" },
		{ "{\"action\":\"defer\",\"seconds\":0}", "no whole number" },
		{ "{\"action\":\"defer\",\"seconds\":604801}", "no whole number" },
		{ "{\"action\":\"defer\",\"seconds\":99999999999999999999}", "no whole number" },
		{ "{\"action\":\"defer\",\"seconds\":\"1\"}", "no whole number" },
		{ "{\"action\":\"defer\",\"seconds\":1.5}", "no whole number" },
		{ "{\"action\":\"reroute\"}", "\"stage\" is missing" },
		{ "{\"action\":\"reroute\",\"stage\":null}", "is no text" },
		{ "{\"action\":\"accept\",\"add_headers\":{}}", "is no list" },
		{ "{\"action\":\"accept\",\"add_headers\":[\"X\"]}", "{\"name\":…,\"value\":…}" },
		{ "{\"action\":\"accept\",\"add_headers\":[{\"name\":\"X\"}]}", "{\"name\":…,\"value\":…}" },
		{ "{\"action\":\"accept\",\"add_headers\":[{\"name\":\"X\",\"value\":\"1\",\"at\":0}]}", "{\"name\":…,\"value\":…}" },
		{ "{\"action\":\"accept\",\"add_headers\":[{\"name\":\"X\",\"value\":\"a\\r\\nBcc: x@y\"}]}", "control character" },
		{ "{\"action\":\"accept\",\"add_headers\":[{\"name\":\"X\",\"value\":\"\u00fc\"}]}", "is not ASCII" },
		{ "{\"action\":\"accept\",\"add_headers\":[{\"name\":\"X: y\",\"value\":\"1\"}]}", "no header field can have" },
		{ "{\"action\":\"accept\",\"add_headers\":[{\"name\":\"\",\"value\":\"1\"}]}", "names no header field" },
		{ "{\"action\":\"accept\",\"remove_headers\":[{\"name\":\"X\",\"value\":\"1\"}]}", "no name" },
		{ "{\"action\":\"accept\",\"remove_headers\":[\"received\"]}", "which are not the command's" },
		{ "{\"action\":\"accept\",\"set_headers\":[{\"name\":\"RETURN-PATH\",\"value\":\"x\"}]}", "which are not the command's" },
		{ "{\"action\":\"accept\",\"remove_headers\":[\"a\"],\"set_headers\":[{\"name\":\"A\",\"value\":\"x\"}]}", "named before" },
		{ "{\"action\":\"accept\",\"add_headers\":[[[[[[]]]]]]}", "no JSON" },
	};
	(void)st;
	struct arena *a = arena_new(1 << 20);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf why = BUF_INIT(1024);
		struct reply r;
		int rc = reply_parse(a, str_from(cases[i].text), &r, &why);
		if (rc != (cases[i].wrong ? -1 : 0) || (cases[i].wrong && (!why.n || !strstr(buf_z(&why), cases[i].wrong))))
			fail_msg("%s: %d %s", cases[i].text, rc, buf_z(&why));
		buf_free(&why);
	}
	/* NUL in the middle of the text */
	struct buf why = BUF_INIT(1024);
	struct reply r;
	assert_int_equal(reply_parse(a, STR("{\"action\":\"accept\"}\0{}"), &r, &why), -1);
	buf_free(&why);
	arena_free(a);
}

static void too_many_and_too_long(void **st)
{
	(void)st;
	struct arena *a = arena_new(1 << 20);
	struct reply r;
	for (int pass = 0; pass < 4; pass++) {
		struct buf b = BUF_INIT(1 << 20), why = BUF_INIT(1024);
		buf_addz(&b, "{\"action\":\"accept\",\"add_headers\":[");
		int n = pass == 0 ? REPLY_HEADERS_MAX : pass == 1 ? REPLY_HEADERS_MAX + 1 : 1;
		for (int i = 0; i < n; i++)
			buf_addf(&b, "%s{\"name\":\"X\",\"value\":\"%0*d\"}", i ? "," : "", pass == 2 ? 900 : pass == 3 ? 901 : 1, 0);
		buf_addz(&b, "]}");
		assert_int_equal(reply_parse(a, buf_str(&b), &r, &why), pass % 2 ? -1 : 0);
		if (pass % 2)
			assert_non_null(strstr(buf_z(&why), pass == 1 ? "too many entries" : "cannot be folded"));
		buf_free(&b);
		buf_free(&why);
	}
	arena_free(a);
}

static void editing(void **st)
{
	static const struct {
		const char *before, *changes, *after;
	} cases[] = {
		{ "A: 1\r\nB: 2\r\n", "", "A: 1\r\nB: 2\r\n" },
		{ "A: 1\r\nB: 2\r\n", "\"remove_headers\":[\"a\"]", "B: 2\r\n" },
		{ "A: 1\r\n folded\r\nB: 2\r\n", "\"remove_headers\":[\"A\",\"C\"]", "B: 2\r\n" },
		{ "A: 1\r\nB: 2\r\na: 3\r\n", "\"set_headers\":[{\"name\":\"A\",\"value\":\"x\"}]", "A: x\r\nB: 2\r\n" },
		{ "B: 2\r\n", "\"set_headers\":[{\"name\":\"A\",\"value\":\"x\"}]", "B: 2\r\nA: x\r\n" },
		{ "A: 1\r\n", "\"add_headers\":[{\"name\":\"A\",\"value\":\"2\"},{\"name\":\"A\",\"value\":\"3\"}]", "A: 1\r\nA: 2\r\nA: 3\r\n" },
		{ "A: 1\r\n", "\"remove_headers\":[\"A\"],\"add_headers\":[{\"name\":\"A\",\"value\":\"2\"}]", "A: 2\r\n" },
		{ "", "\"add_headers\":[{\"name\":\"A\",\"value\":\"2\"}]", "A: 2\r\n" },
		{ "A: 1\r\nno field here\r\nB:\t 2\r\n", "\"remove_headers\":[\"A\"]", "no field here\r\nB:\t 2\r\n" },
	};
	(void)st;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct arena *a = arena_new(1 << 20);
		struct buf text = BUF_INIT(4096), out = BUF_INIT(4096), why = BUF_INIT(1024);
		struct reply r;
		buf_addf(&text, "{\"action\":\"accept\"%s%s}", cases[i].changes[0] ? "," : "", cases[i].changes);
		if (reply_parse(a, buf_str(&text), &r, &why))
			fail_msg("%s", buf_z(&why));
		assert_int_equal(reply_edit(&r, str_from(cases[i].before), &out), 0);
		assert_string_equal(buf_z(&out), cases[i].after);
		buf_free(&text);
		buf_free(&out);
		buf_free(&why);
		arena_free(a);
	}
}

static void commands(void **st)
{
	static const struct {
		const char *text, *words; /* joined by '|'; NULL: wrong */
	} cases[] = {
		{ "/bin/x", "/bin/x" },
		{ " /bin/x  -a\tb ", "/bin/x|-a|b" },
		{ "/bin/x \"a b\" \"\" $HOME 'c d'", "/bin/x|a b||$HOME|'c|d'" },
		{ "\"/opt/my filter\" -", "/opt/my filter|-" },
		{ "", NULL },
		{ "  ", NULL },
		{ "x", NULL },
		{ "./x", NULL },
		{ "/bin/x \"a", NULL },
		{ "/bin/x a\"b\"", NULL },
		{ "/bin/x \"a\"b", NULL },
	};
	(void)st;
	struct arena *a = arena_new(1 << 20);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *why = NULL;
		char **v = command_parse(a, cases[i].text, &why), joined[200] = "";
		if (!v != !cases[i].words || !v != !!why)
			fail_msg("%s: %s", cases[i].text, why ? why : "taken");
		for (size_t k = 0; v && v[k]; k++) {
			strcat(joined, k ? "|" : "");
			strcat(joined, v[k]);
		}
		assert_string_equal(joined, cases[i].words ? cases[i].words : "");
	}
	char many[COMMAND_WORDS_MAX * 2 + 8] = "/";
	for (int i = 0; i < COMMAND_WORDS_MAX; i++)
		strcat(many, " a");
	const char *why = NULL;
	assert_null(command_parse(a, many, &why));
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(replies), cmocka_unit_test(too_many_and_too_long), cmocka_unit_test(editing),
		cmocka_unit_test(commands) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
