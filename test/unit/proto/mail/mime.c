/* The structure of messages: trees of well-formed and broken ones, limits, replacing and parameters. The public suite is vectors/mime, what
 * hostile messages cost: cost.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "mime_pieces.h"
#include "proto/mail/param.h"

/* "multipart/mixed(text/plain,message/rfc822(text/plain))" */
static void tree(const struct mail_mime *m, size_t i, struct buf *out)
{
	const struct mail_mime_part *p = &m->part[i];
	buf_adds(out, p->type);
	if (p->kind == MAIL_MIME_LEAF)
		return;
	buf_addc(out, '(');
	for (size_t k = p->child; k != MAIL_MIME_NONE; k = m->part[k].next) {
		if (k != p->child)
			buf_addc(out, ',');
		tree(m, k, out);
	}
	buf_addc(out, ')');
}

static struct buf crlf(const char *text)
{
	struct buf b = BUF_INIT(1 << 20);
	for (; *text; text++)
		buf_addz(&b, *text == '\n' ? "\r\n" : (char[]){ *text, 0 });
	return b;
}

#define M(b) "Content-Type: multipart/mixed; boundary=" b "\n\n"
static const struct {
	const char *text, *tree;
	unsigned odd;
} table[] = {
	{ "", "text/plain", MAIL_MIME_BAD_HEAD },
	{ "\n", "text/plain", 0 },
	{ "A: b\n\nbody\n", "text/plain", 0 },
	{ "A: b\n", "text/plain", MAIL_MIME_BAD_HEAD },
	{ M("a") "pre\n--a\n\none\n--a\nContent-Type: TEXT/Html\n\ntwo\n--a--\nepi\n", "multipart/mixed(text/plain,text/html)", 0 },
	{ M("a") "--a\n--a\n--a--", "multipart/mixed(text/plain,text/plain)", MAIL_MIME_BAD_HEAD },
	{ M("a") "--a\n\n--a--\n--a\n\nnot a part\n", "multipart/mixed(text/plain)", 0 }, /* in the epilogue */
	{ M("a") "--a  \t\n\nx\n--a-- \n", "multipart/mixed(text/plain)", 0 },
	{ M("a") "x --a\n", "multipart/mixed()", MAIL_MIME_UNCLOSED | MAIL_MIME_NO_PARTS },
	{ M("ab") "--ab\n" M("a") "--a\n\nx\n--ab\n\ny\n--ab--\n", "multipart/mixed(multipart/mixed(text/plain),text/plain)", MAIL_MIME_UNCLOSED | MAIL_MIME_AMBIGUOUS },
	{ M("a") "--a\n" M("b") "--b\n\nx\n--a--\n", "multipart/mixed(multipart/mixed(text/plain))", MAIL_MIME_UNCLOSED },
	{ M("a") "--a\n" M("a") "--a\n\nx\n--a--\n--a--\n", "multipart/mixed(multipart/mixed(text/plain))", MAIL_MIME_AMBIGUOUS },
	{ M("a") "--abc\n\nx\n--a--\n", "multipart/mixed(text/plain)", MAIL_MIME_AMBIGUOUS }, /* RFC 2046 5.1.1: the boundary in its entirety */
	{ "Content-Type: multipart/mixed\n\n--a\n\nx\n", "multipart/mixed", MAIL_MIME_NO_BOUNDARY },
	{ "Content-Type: multipart/mixed; boundary=\"\"\n\n--\n\nx\n", "multipart/mixed", MAIL_MIME_NO_BOUNDARY },
	{ "Content-Type: multipart/x; boundary*0=\"a\"; boundary*1=b\n\n--ab\n\nx\n--ab--\n", "multipart/x(text/plain)", 0 },
	{ "Content-Type: multipart/mixed;\n\tboundary=\"a b\" (c)\n\n--a b\n\nx\n--a b--\n", "multipart/mixed(text/plain)", 0 },
	{ "Content-Type: multipart/mixed; boundary=a\nContent-Transfer-Encoding: base64\n\n--a\n\nx\n--a--\n", "multipart/mixed(text/plain)", MAIL_MIME_ENCODED },
	{ "Content-Type: message/rfc822\n\nContent-Type: message/rfc822\n\nA: b\n\nx", "message/rfc822(message/rfc822(text/plain))", 0 },
	{ "Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nQTogYg==\n", "message/rfc822", 0 },
	{ "Content-Type: multipart/digest; boundary=d\n\n--d\n\nS: t\n\nu\n--d\nContent-Type: text/plain\n\nv\n--d--\n", "multipart/digest(message/rfc822(text/plain),text/plain)", 0 },
	{ "no field\nContent-Type: text/html\n\nx", "text/html", MAIL_MIME_BAD_HEAD },
	{ "Content-Type: text/html\nContent-type : text/plain\n\nx", "text/html", MAIL_MIME_TWICE },
	{ "Content-Type: nonsense\n\nx", "text/plain", 0 },
	{ "Content-Type: text/html; charset\n\nx", "text/html", MAIL_MIME_BAD_TYPE },
	{ "Content-Type: multipart/mixed\n\tboundary=a\n\n--a\n\nx\n--a--\n", "multipart/mixed(text/plain)", MAIL_MIME_BAD_TYPE },
	{ "Content-Types: text/html\n\nx", "text/plain", 0 },
};

static void trees(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		for (int lf = 0; lf < 2; lf++) {
			struct mail_mime m;
			struct buf raw = crlf(table[i].text), got = BUF_INIT(4096);
			struct str in = lf ? str_from(table[i].text) : buf_str(&raw);
			assert_int_equal(mail_mime_parse(&m, in, lf), 0);
			tree(&m, 0, &got);
			assert_string_equal(buf_z(&got), table[i].tree);
			if (m.odd != table[i].odd)
				fail_msg("case %zu: odd is %x", i, m.odd);
			assert_true(mime_whole(&m));
			mail_mime_free(&m);
			buf_free(&got);
			buf_free(&raw);
		}
}

static void pieces(void **state)
{
	(void)state;
	struct mail_mime m;
	struct buf raw = crlf(M("a") "pre\n\n--a\nX: y\nContent-Transfer-Encoding: Base64 (yes)\nContent-Type: text/plain; charset=\"UTF-8\"\n\none\n\n--a\n\n--a--\nepi\n");
	assert_int_equal(mail_mime_parse(&m, buf_str(&raw), false), 0);
	assert_int_equal(m.n, 3);
	assert_true(str_eq(m.part[0].preamble, STR("pre\r\n")) && str_eq(m.part[0].close, STR("--a--\r\n")) && str_eq(m.part[0].epilogue, STR("epi\r\n")));
	assert_true(str_eq(m.part[1].body, STR("one\r\n")) && str_eq(m.part[1].charset, STR("UTF-8")) && m.part[1].encoding == MAIL_TRANSFER_BASE64);
	assert_true(str_eq(m.part[1].delimiter, STR("\r\n--a\r\n")) && str_eq(m.part[2].gap, STR("\r\n")) && !m.part[2].body.n);
	/* a bare LF is no line end where only CR LF is */
	mail_mime_free(&m);
	buf_reset(&raw);
	buf_addz(&raw, "Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\n\r\nx\n--a--\ny\r\n--a--\r\n");
	assert_int_equal(mail_mime_parse(&m, buf_str(&raw), false), 0);
	assert_true(str_eq(m.part[1].body, STR("x\n--a--\ny")));
	mail_mime_free(&m);
	buf_free(&raw);
}

static int replace_html(void *arg, const struct mail_mime *m, size_t part, struct buf *out)
{
	if (!str_eq(m->part[part].type, STR("text/html")))
		return arg != NULL && str_eq(m->part[part].type, STR("message/rfc822")) ? -1 : 0;
	buf_addz(out, "\r\ngone");
	return 1;
}

static void replacing(void **state)
{
	(void)state;
	struct mail_mime m;
	struct buf raw = crlf(M("a") "--a\nContent-Type: text/html\n\nold\n--a\nContent-Type: message/rfc822\n\nA: b\n\nx\n--a--\n"), out = BUF_INIT(4096);
	struct buf want = crlf(M("a") "--a\n\ngone\n--a\nContent-Type: message/rfc822\n\nA: b\n\nx\n--a--\n");
	assert_int_equal(mail_mime_parse(&m, buf_str(&raw), false), 0);
	assert_int_equal(mail_mime_write(&m, replace_html, NULL, &out), 0);
	assert_string_equal(buf_z(&out), buf_z(&want));
	assert_int_equal(mail_mime_write(&m, replace_html, &m, &out), -1);
	out.max = 10;
	buf_free(&out);
	out = BUF_INIT(10);
	assert_int_equal(mail_mime_write(&m, NULL, NULL, &out), -1);
	mail_mime_free(&m);
	buf_free(&raw);
	buf_free(&want);
	buf_free(&out);
}

/* Hostile messages of about n octets. */
static void limits(void **state)
{
	(void)state;
	struct mail_mime m;
	struct buf b = BUF_INIT(8 << 20);
	for (int i = 0; i < 51; i++)
		buf_addz(&b, "Content-Type: message/rfc822\r\n\r\n");
	assert_int_equal(mail_mime_parse(&m, buf_str(&b), false), MAIL_MIME_LIMIT);
	assert_string_equal(m.limit, "parts nested too deeply");
	b.n -= 32;
	assert_int_equal(mail_mime_parse(&m, buf_str(&b), false), 0);
	assert_int_equal(m.part[m.n - 1].depth, MAIL_MIME_DEPTH_MAX);
	mail_mime_free(&m);
	buf_reset(&b);
	buf_addz(&b, "Content-Type: multipart/mixed; boundary=a\r\n\r\n");
	for (int i = 0; i < MAIL_MIME_PARTS_MAX - 1; i++)
		buf_addz(&b, "--a\r\n\r\n");
	assert_int_equal(mail_mime_parse(&m, buf_str(&b), false), 0);
	assert_int_equal(m.n, MAIL_MIME_PARTS_MAX);
	mail_mime_free(&m);
	buf_addz(&b, "--a\r\n\r\n");
	assert_int_equal(mail_mime_parse(&m, buf_str(&b), false), MAIL_MIME_LIMIT);
	buf_reset(&b);
	for (int i = 0; i <= MAIL_MIME_HEAD_LINES_MAX; i++)
		buf_addz(&b, "A:\r\n");
	assert_int_equal(mail_mime_parse(&m, buf_str(&b), false), MAIL_MIME_LIMIT);
	buf_reset(&b);
	buf_addz(&b, "A: ");
	memset(buf_room(&b, 1 << 20), 'x', 1 << 20);
	b.n += 1 << 20;
	assert_int_equal(mail_mime_parse(&m, buf_str(&b), false), MAIL_MIME_LIMIT);
	buf_reset(&b);
	buf_addz(&b, "Content-Type: a/b");
	for (int i = 0; i <= MAIL_PARAMS_MAX; i++)
		buf_addf(&b, "; a%d=b", i);
	buf_addz(&b, "\r\n\r\n");
	assert_int_equal(mail_mime_parse(&m, buf_str(&b), false), MAIL_MIME_LIMIT);
	assert_non_null(m.limit);
	mail_mime_free(&m);
	buf_free(&b);
}

static void parameters(void **state)
{
	static const struct { const char *in, *name, *value; bool bad; } cases[] = {
		{ "text/plain; charset=us-ascii", "charset", "us-ascii", false }, { "a/b; x=\"q\\\"\\\\;\"; y=z", "x", "q\"\\;", false },
		{ "a/b;(c)x(d)=(e)y(f)", "x", "y", false }, { "a/b; x=y z", "x", "y", true }, { "a/b; x=1; x=2", "x", "1", true },
		{ "a/b; x*=utf-8''%e2%82%ac%20; x=plain", "x", "\xe2\x82\xac ", false }, { "a/b; x=plain; x*=iso-8859-1'de'%E4", "x", "\xc3\xa4", false },
		{ "a/b; x*1=b; x*0=a; x*2*=%63", "x", "abc", false }, { "a/b; x*0*=utf-8'en'%c3; x*1*=%a4", "x", "\xc3\xa4", false },
		{ "a/b; x*0=a; x*2=c", "x", "a", true }, { "a/b; x*1=b", "x", NULL, true }, { "a/b; x*00=a", "x", NULL, false },
		{ "a/b; x=\"open", "x", "open", true }, { "a/b; =c", "", NULL, true }, { "a/b; x=%41", "x", "%41", false },
		{ "a/b; x*=klingon''%41%ff", "x", "A\xff", false }, { "a/b; x*=nothing", "x", "nothing", true }, { "a/b; x*999999999999999999999=a", "x", NULL, false },
		{ "a/b;\r\n\tx=\r\n y", "x", "y", false },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct mail_params p;
		assert_int_equal(mail_params_parse(&p, str_from(cases[i].in)), 0);
		struct str got = mail_params_get(&p, str_from(cases[i].name));
		if (!str_eq(got, str_from(cases[i].value)) || !got.p != !cases[i].value || p.bad != cases[i].bad)
			fail_msg("%s: \"%.*s\" %d", cases[i].in, STR_ARG(got), p.bad);
		mail_params_free(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trees), cmocka_unit_test(pieces), cmocka_unit_test(replacing), cmocka_unit_test(limits),
		cmocka_unit_test(parameters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
