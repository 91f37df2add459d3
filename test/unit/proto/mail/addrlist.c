/* Address lists: what is read, what is called bad, limits, writing, and the cost of hostile ones. */
#include "proto/mail/addrlist.h"

#include "mail_test.h"

#include "../../cost.h"

#include "proto/mail/encoded.h"
#include "proto/mail/header.h"

#include <stdlib.h>
#include <time.h>

/* One line for a list: "name|comment|address" joined by ", "; "!" before what is not valid, "name:" for groups, ";" behind. */
static void show(const struct mail_addrlist *l, struct buf *out)
{
	size_t group = 0;
	for (size_t i = 0; i < l->n; i++) {
		const struct mail_address *a = &l->item[i];
		if (group && a->group != group)
			buf_addz(out, "; ");
		group = a->group;
		if (a->kind == MAIL_ADDR_GROUP)
			group = i + 1;
		buf_addf(out, "%s%.*s|%.*s", a->kind == MAIL_ADDR_MAILBOX && !a->valid ? "!" : "", STR_ARG(a->name),
		    STR_ARG(a->comment));
		if (a->kind == MAIL_ADDR_GROUP)
			buf_addz(out, ": ");
		else if (a->kind == MAIL_ADDR_MAILBOX)
			buf_addf(out, "|%.*s, ", STR_ARG(a->address));
		else
			buf_addz(out, ", ");
	}
	if (group)
		buf_addz(out, "; ");
	buf_addf(out, "%s%s%s", l->bad ? "BAD" : "", l->obsolete ? "OBS" : "", l->loose ? "LOOSE" : "");
}

static const struct {
	const char *value, *want;
} cases[] = {
	{ "a@b.c", "||a@b.c, " },
	{ " Joe <joe@example.org> (home)", "Joe|home|joe@example.org, " },
	{ "\"Q. \\\"x\\\"\" <\"a\\ b\"@c>", "Q. \"x\"||\"a b\"@c, " },
	{ "\"a\"@b", "||a@b, " },
	{ "\"a@b\"@c", "||\"a@b\"@c, " },
	{ "a . b @ c . d", "||a.b@c.d, OBS" },
	{ "\"a\".b@c", "||a.b@c, OBS" },
	{ "<@x.y,@z:a@b>", "||a@b, OBS" },
	{ "<@x.y a@b>", "!||@x.y a@b, BAD" },
	{ "a@[192.0.2.1]", "||a@[192.0.2.1], " },
	{ "a@[ IPv6:2001:db8::1 ]", "||a@[IPv6:2001:db8::1], " },
	{ "a@[x\\]y]", "!||a@[x\\]y], BAD" },
	{ "Joe Q. Public <a@b>", "Joe Q. Public||a@b, OBS" },
	{ "a@b <c@d>", "a@b||c@d, LOOSE" },
	{ "a@b, , c@d,", "||a@b, ||c@d, OBS" },
	{ "a@b c@d", "!||a@b c@d, BAD" },
	{ "<a@b> <c@d>", "||a@b, ||c@d, BAD" },
	{ "<a@b> x", "||a@b, !||x, BAD" },
	{ "<a@b, c@d", "!||a@b, c@d, BAD" },
	{ "<<a@b>>", "||a@b, BAD" },
	{ "a@b; c@d", "||a@b, ||c@d, BAD" },
	{ "name a@b", "name||a@b, BAD" },
	{ "a@b@c", "!||a@b@c, BAD" },
	{ "<>", "!||, BAD" },
	{ "", "BAD" },
	{ "a", "!||a, BAD" },
	{ "@", "!||@, BAD" },
	{ "a.@b", "!||a.@b, BAD" },
	{ ".a@b", "!||.a@b, BAD" },
	{ "a..b@c", "!||a..b@c, BAD" },
	{ "a@b.", "!||a@b., BAD" },
	{ "\"a\x01\"@b", "!||\"a \"@b, BAD" },
	{ "x:;", "x|: ; " },
	{ "x:a@b,\"y\"<c@d>;, e@f", "x|: ||a@b, y||c@d, ; ||e@f, " },
	{ "x:a@b", "x|: ||a@b, ; BAD" },
	{ "x:a@b; c@d", "x|: ||a@b, ; ||c@d, BAD" },
	{ "x:y:a@b;", "x|: !||y:a@b, ; BAD" },
	{ "x (c):(d);(e)", "x|c: |d, ; |e, " },
	{ "(a (b) \\) c) d@e", "|a (b) ) c|d@e, " },
	{ "a(b@c", "!|b@c|a, BAD" },
	{ "a@b)", "!||a@b), BAD" },
	{ "\"a@b", "!||\"a@b\", BAD" },
	{ "j\xc3\xb6@\xc3\xa4.example", "||j\xc3\xb6@\xc3\xa4.example, " },
	{ "j\xc3@x", "!||j\xef\xbf\xbd@x, BAD" },
	{ "\xff <a@b>", "\xef\xbf\xbd||a@b, " },
	{ "=?utf-8?q?J=C3=B6?= =?utf-8?b?w7Y=?= <a@b>", "J\xc3\xb6\xc3\xb6||a@b, " },
	{ "=?utf-8?q?a,b_<c@d>?= <e@f>", "a,b <c@d>||e@f, " },
	{ "=?x-none?q?a?= <e@f>", "=?x-none?q?a?=||e@f, " },
	{ "=?utf-8?q?a=0D=0AX:_b=00?= <e@f>", "a  X: b ||e@f, " },
	{ "=?iso-8859-15?q?=A4?= =?windows-1252?q?=80=81?= <e@f>", "\xe2\x82\xac\xe2\x82\xac\xef\xbf\xbd||e@f, " },
	{ "a@b\r\n c@d", "!||a@b c@d, BAD" },
	{ "a@b\r\n (c)\r\n", "|c|a@b, " },
	{ "a@b\r\nc@d", "||a@b, BAD" },
	{ "a@b\rc", "!||a@b c, BAD" },
};

static void test_parse(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct mail_addrlist l;
		struct buf b = BUF_INIT(4096);
		assert_int_equal(mail_addrlist_parse(&l, str_from(cases[i].value)), 0);
		show(&l, &b);
		assert_str(buf_str(&b), str_from(cases[i].want));
		mail_addrlist_free(&l);
		buf_free(&b);
	}
}

static void test_parts(void **state)
{
	struct mail_addrlist l;
	(void)state;
	assert_int_equal(mail_addrlist_parse(&l, STR("\"a \\\"b\"@[192.0.2.1], c.d@e, g:;")), 0);
	assert_int_equal(mail_addrlist_mailboxes(&l), 2);
	assert_str(l.item[0].address, STR("\"a \\\"b\"@[192.0.2.1]"));
	assert_str(l.item[0].local, STR("a \"b"));
	assert_str(l.item[0].domain, STR("[192.0.2.1]"));
	assert_true(l.item[0].quoted && l.item[0].literal && !l.item[0].angle && !l.item[0].utf8);
	assert_str(l.item[1].local, STR("c.d"));
	assert_str(l.item[1].domain, STR("e"));
	assert_false(l.item[1].quoted || l.item[1].literal);
	mail_addrlist_free(&l);
	assert_int_equal(mail_addrlist_parse(&l, STR("a\0b@c")), 0);
	assert_true(l.bad);
	mail_addrlist_free(&l);
	mail_addrlist_free(&l);
}

static void repeat(struct buf *b, const char *unit, size_t times)
{
	for (size_t i = 0; i < times; i++)
		buf_addz(b, unit);
}

static void test_limits(void **state)
{
	static const struct {
		const char *unit;
		size_t times;
		int want;
	} limits[] = {
		{ "a,", 5000, 0 }, { "a,", 5001, MAIL_ADDRLIST_LIMIT }, { "(", 50, 0 }, { "(", 51, MAIL_ADDRLIST_LIMIT },
		{ "(x)", 10000, 0 }, { "(x)", 10001, MAIL_ADDRLIST_LIMIT }, { "a ", 10001, MAIL_ADDRLIST_LIMIT },
		{ "<", 10001, MAIL_ADDRLIST_LIMIT }, { ":", 10001, MAIL_ADDRLIST_LIMIT },
	};
	struct mail_addrlist l;
	(void)state;
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		struct buf b = BUF_INIT(1 << 20);
		repeat(&b, limits[i].unit, limits[i].times);
		assert_int_equal(mail_addrlist_parse(&l, buf_str(&b)), limits[i].want);
		mail_addrlist_free(&l);
		buf_free(&b);
	}
	struct buf b = BUF_INIT(1 << 20); /* an address no line can hold */
	repeat(&b, "a", 899);
	buf_addz(&b, "@b");
	assert_int_equal(mail_addrlist_parse(&l, buf_str(&b)), 0);
	assert_false(l.item[0].valid);
	mail_addrlist_free(&l);
	buf_free(&b);
}

static void test_write(void **state)
{
	static const struct {
		const char *value;
		bool utf8;
		const char *want; /* NULL: refused */
	} writes[] = {
		{ "a@b, Joe <c@d> (x(y))", false, "To: a@b, Joe <c@d> (x\\(y\\))\r\n" },
		{ "\"J, Q\" <\"a b\"@d>", false, "To: \"J, Q\" <\"a b\"@d>\r\n" },
		{ "\xc3\xb6 <a@b>", false, "To: =?utf-8?q?=C3=B6?= <a@b>\r\n" },
		{ "\xc3\xb6 <a@b>", true, "To: \xc3\xb6 <a@b>\r\n" },
		{ "=?utf-8?q?=3D=3Futf-8=3Fq=3Fx=3F=3D?= <a@b>", true, "To: =?utf-8?q?=3D=3Futf-8=3Fq=3Fx=3F=3D?= <a@b>\r\n" },
		{ "\xc3\xb6@b", false, NULL },
		{ "x, y", false, NULL },
		{ "g:a@b,c@d;,e@f", false, "To: g: a@b, c@d;, e@f\r\n" },
		{ "g:;", false, "To: g:;\r\n" },
		{ "g:; (nobody), (said (so)),\r\n a@b, h:(x);", false, "To: g:; (nobody), (said \\(so\\)), a@b, h: (x);\r\n" },
		{ "(nobody)", false, NULL },
		{ "=?utf-8?q?a=0D=0ABcc:_x?= <a@b>", false, "To: \"a  Bcc: x\" <a@b>\r\n" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
		struct mail_addrlist l;
		struct buf b = BUF_INIT(4096);
		assert_int_equal(mail_addrlist_parse(&l, str_from(writes[i].value)), 0);
		assert_int_equal(mail_addrlist_write(&b, STR("To"), &l, writes[i].utf8), writes[i].want ? 0 : -1);
		assert_str(buf_str(&b), str_from(writes[i].want ? writes[i].want : ""));
		mail_addrlist_free(&l);
		buf_free(&b);
	}
}

static void test_encoded(void **state)
{
	static const struct {
		const char *value, *want;
	} words[] = {
		{ "plain  text", "plain  text" },
		{ " =?us-ascii?q?a?= b =?us-ascii?q?c?= =?us-ascii?Q?d?= ", "a b cd" },
		{ "=?utf-8?b?aGVsbG8?=", "hello" },
		{ "=?utf-8*de?Q?=48?=", "H" },
		{ "=?utf-8?q?a?= \r\n  =?utf-8?q?b?=  c", "ab  c" },
		{ "=?utf-8?q?a?==?utf-8?q?b?=", "ab" },
		{ "=?utf-8?q?a?=x", "=?utf-8?q?a?=x" },
		{ "=?utf-8?x?a?=", "=?utf-8?x?a?=" },
		{ "=?utf-8?q?a b?=", "=?utf-8?q?a b?=" },
		{ "=?utf-8?q?=ff?=", "\xef\xbf\xbd" },
		{ "a\r\n b", "a b" },
		{ "=??q?a?=", "=??q?a?=" },
		{ "=?koi8-r?q?=D0?=", "\xd0\xbf" },
		{ "=?iso-8859-8?b?7Q==?=", "\xd7\x9d" },
		{ "=?cp1251?q?=C0?=", "\xd0\x90" },
		{ "=?utf-8?q?" "?=", "" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		struct buf b = BUF_INIT(4096);
		assert_int_equal(mail_encoded_decode(str_from(words[i].value), &b), 0);
		assert_str(buf_str(&b), str_from(words[i].want));
		buf_free(&b);
	}
	struct buf b = BUF_INIT(1 << 16), back = BUF_INIT(1 << 16), text = BUF_INIT(1 << 16);
	repeat(&text, "\xe2\x82\xac a_?=.\xf0\x9f\x98\x80", 40);
	struct str rest = buf_str(&text);
	for (size_t before = 0; mail_encoded_next(&rest, &b); before = b.n) {
		assert_true(b.n - before <= 75);
		buf_addc(&b, ' ');
		before++;
	}
	assert_int_equal(mail_encoded_decode(buf_str(&b), &back), 0);
	assert_str(buf_str(&back), buf_str(&text));
	buf_free(&b);
	buf_free(&back);
	buf_free(&text);
}

static void parse_list(struct str value)
{
	struct mail_addrlist l;
	(void)mail_addrlist_parse(&l, value);
	mail_addrlist_free(&l);
}

static void test_cost(void **state)
{
	static const char *const units[] = { "a@b,", "x <a@b>,", "(((((((", "()", "\"\\\"", "=?", "=?a?q?", "=?utf-8?q?a?=", "<", "<a", ">", ":", "x:;",
		"@", "a.", "a@", "[", "\r\n ", "\\", "(=?utf-8?q?a?=", "\"=?utf-8?q?a?= ", "\xff" };
	(void)state;
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		cost_linear(&(struct cost){ .unit = units[i], .most = 524288 }, 1, parse_list);
	/* one long text: no token limit helps */
	struct buf b = BUF_INIT(1 << 22);
	buf_addz(&b, "(");
	repeat(&b, "=?utf-8?q?a?= ", 70000);
	buf_addz(&b, ") a@b");
	struct mail_addrlist l;
	assert_int_equal(mail_addrlist_parse(&l, buf_str(&b)), 0);
	assert_int_equal(l.item[0].comment.n, 70000);
	assert_str(l.item[0].address, STR("a@b"));
	mail_addrlist_free(&l);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_write),
		cmocka_unit_test(test_encoded),
		cmocka_unit_test(test_cost),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
