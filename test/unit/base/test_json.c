/* JSON text of hostile strings: always valid, never NUL, never broken UTF-8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/json.h"

#include <json-c/json.h>

static const struct {
	struct str in;
	const char *out;
} strings[] = {
	{ STR_INIT(""), "\"\"" },
	{ STR_INIT("plain text"), "\"plain text\"" },
	{ STR_INIT("a\"b\\c"), "\"a\\\"b\\\\c\"" },
	{ STR_INIT("tab\there\r\n"), "\"tab\\u0009here\\u000d\\u000a\"" },
	{ STR_INIT("nul\0in"), "\"nul\\ufffdin\"" },
	{ STR_INIT("del\x7f"), "\"del\\u007f\"" },
	{ STR_INIT("gr\xc3\xbc\xc3\x9f"), "\"gr\xc3\xbc\xc3\x9f\"" },
	{ STR_INIT("\xe2\x82\xac\xf0\x9f\x98\x80"), "\"\xe2\x82\xac\xf0\x9f\x98\x80\"" },
	{ STR_INIT("\xff\xfe"), "\"\\u00ff\\u00fe\"" },
	{ STR_INIT("cut \xe2\x82"), "\"cut \\u00e2\\u0082\"" },
	{ STR_INIT("\xc0\x80 overlong"), "\"\\u00c0\\u0080 overlong\"" },
	{ STR_INIT("\xed\xa0\x80 surrogate"), "\"\\u00ed\\u00a0\\u0080 surrogate\"" },
	{ STR_INIT("\xf4\x90\x80\x80"), "\"\\u00f4\\u0090\\u0080\\u0080\"" },
};

static void test_strings(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
		struct buf b = BUF_INIT(4096);
		json_put_str(&b, strings[i].in);
		assert_string_equal(buf_z(&b), strings[i].out);
		buf_free(&b);
	}
}

/* Every pair of octets gives a text that a strict parser takes. */
static void test_all_pairs(void **state)
{
	(void)state;
	struct json_tokener *t = json_tokener_new();
	json_tokener_set_flags(t, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	for (unsigned i = 0; i < 65536; i++) {
		const char in[2] = { (char)(i >> 8), (char)i };
		struct buf b = BUF_INIT(64);
		json_put_str(&b, str_n(in, 2));
		assert_true(str_is_utf8(buf_str(&b)));
		json_tokener_reset(t);
		struct json_object *o = json_tokener_parse_ex(t, b.p, (int)b.n + 1);
		if (!o)
			fail_msg("%04x: %s", i, b.p);
		assert_int_equal(strlen(json_object_get_string(o)), json_object_get_string_len(o)); /* no NUL */
		json_object_put(o);
		buf_free(&b);
	}
	json_tokener_free(t);
}

static void test_members(void **state)
{
	(void)state;
	struct buf b = BUF_INIT(4096);
	buf_addc(&b, '{');
	json_put_member(&b, "a", STR("1"));
	json_put_bool(&b, "b", true);
	json_put_key(&b, "c");
	buf_addc(&b, '{');
	json_put_bool(&b, "d", false);
	buf_addz(&b, "}}");
	assert_string_equal(buf_z(&b), "{\"a\":\"1\",\"b\":true,\"c\":{\"d\":false}}");
	buf_free(&b);
}

/* {"a":[[…1…]]} with so many levels in all. */
static void nest(struct buf *b, unsigned levels)
{
	buf_reset(b);
	buf_addz(b, "{\"a\":");
	for (unsigned i = 1; i < levels; i++)
		buf_addc(b, '[');
	buf_addc(b, '1');
	for (unsigned i = 1; i < levels; i++)
		buf_addc(b, ']');
	buf_addc(b, '}');
}

static void test_fault(void **state)
{
	static const struct {
		struct str in;
		const char *why; /* NULL: good */
	} of[] = {
		{ STR_INIT("{}"), NULL },
		{ STR_INIT(" {\n\t} \r"), NULL },
		{ STR_INIT("{\"\":{}, \"b\" : [ ] ,\"c\":[1,[2,{\"d\":[]}],\"x\"]}"), NULL },
		{ STR_INIT("{\"a\":[true,false,null,-0,0.5,-1.25e+3,1E-7,123456789012345678901234567890]}"), NULL },
		{ STR_INIT("{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\ud83d\\uDE00\\uffff\"}"), NULL },
		{ STR_INIT("{\"a\":\"\x7f gr\xc3\xbc\xc3\x9f\"}"), NULL },
		{ STR_INIT("{\"a\":1e306}"), NULL },
		{ STR_INIT(""), "not an object" },
		{ STR_INIT("[]"), "not an object" },
		{ STR_INIT("\"{}\""), "not an object" },
		{ STR_INIT("{"), "key" },
		{ STR_INIT("{}}"), "follows" },
		{ STR_INIT("{}{}"), "follows" },
		{ STR_INIT("{\"a\"}"), "without a value" },
		{ STR_INIT("{\"a\" 1}"), "without a value" },
		{ STR_INIT("{\"a\":}"), "none" },
		{ STR_INIT("{\"a\":1,}"), "key" },
		{ STR_INIT("{\"a\":[1,]}"), "none" },
		{ STR_INIT("{\"a\":[1 2]}"), "comma" },
		{ STR_INIT("{\"a\":[1}"), "comma" },
		{ STR_INIT("{\"a\":{\"b\":1]}"), "comma" },
		{ STR_INIT("{\"a\":1"), "early" },
		{ STR_INIT("{\"a\":\"x"), "early" },
		{ STR_INIT("{\"a\":\"x\\"), "escape" },
		{ STR_INIT("{a:1}"), "key" },
		{ STR_INIT("{'a':1}"), "key" },
		{ STR_INIT("{1:1}"), "key" },
		{ STR_INIT("{\"a\":tru}"), "value" },
		{ STR_INIT("{\"a\":truee}"), "comma" },
		{ STR_INIT("{\"a\":NaN}"), "number" },
		{ STR_INIT("{\"a\":Infinity}"), "number" },
		{ STR_INIT("{\"a\":01}"), "number" },
		{ STR_INIT("{\"a\":+1}"), "number" },
		{ STR_INIT("{\"a\":.5}"), "number" },
		{ STR_INIT("{\"a\":1.}"), "number" },
		{ STR_INIT("{\"a\":1e}"), "number" },
		{ STR_INIT("{\"a\":-}"), "number" },
		{ STR_INIT("{\"a\":0x10}"), "comma" },
		{ STR_INIT("{\"a\":1e400}"), "too large" },
		{ STR_INIT("{\"a\":1e99999999999999999999}"), "too large" },
		{ STR_INIT("{\"a\":\"x\ny\"}"), "control" },
		{ STR_INIT("{\"a\":\"\\x41\"}"), "escape" },
		{ STR_INIT("{\"a\":\"\\u00g0\"}"), "escape" },
		{ STR_INIT("{\"a\":\"\\u0000\"}"), "NUL" },
		{ STR_INIT("{\"a\\u0000\":1}"), "NUL" },
		{ STR_INIT("{\"a\":\"\0\"}"), "NUL" },
		{ STR_INIT("{}\0"), "NUL" },
		{ STR_INIT("{\"a\":\"\\ud83d\"}"), "surrogate" },
		{ STR_INIT("{\"a\":\"\\ud83dx\"}"), "surrogate" },
		{ STR_INIT("{\"a\":\"\\ud83d\\u0041\"}"), "surrogate" },
		{ STR_INIT("{\"a\":\"\\ude00\"}"), "surrogate" },
		{ STR_INIT("{\"a\":\"\xff\"}"), "UTF-8" },
		{ STR_INIT("{\"a\":\"\xc0\x80\"}"), "UTF-8" },
		{ STR_INIT("{\"a\":1/**/}"), "comma" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		const char *why = json_object_fault(of[i].in);
		if (!why != !of[i].why || (why && !strstr(why, of[i].why)))
			fail_msg("%zu %.*s: %s", i, STR_ARG(of[i].in), why ? why : "good");
		/* every beginning of an object is none */
		for (size_t n = 0; !of[i].why && of[i].in.p[of[i].in.n - 1] == '}' && n < of[i].in.n; n++)
			assert_non_null(json_object_fault(str_n(of[i].in.p, n)));
	}
	struct buf b = BUF_INIT(1 << 20);
	nest(&b, JSON_DEPTH_MAX);
	assert_null(json_object_fault(buf_str(&b)));
	nest(&b, JSON_DEPTH_MAX + 1);
	assert_string_equal(json_object_fault(buf_str(&b)), "nested too deeply");
	nest(&b, 400000);
	assert_string_equal(json_object_fault(buf_str(&b)), "nested too deeply");
	buf_reset(&b);
	buf_addz(&b, "{\"a\":");
	for (unsigned i = 0; i < 500; i++)
		buf_addc(&b, '1');
	buf_addc(&b, '}');
	assert_non_null(json_object_fault(buf_str(&b)));
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_strings), cmocka_unit_test(test_all_pairs),
		cmocka_unit_test(test_members), cmocka_unit_test(test_fault) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
