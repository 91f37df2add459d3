/* Reports: what is written is read back the same, whatever octets went in; what others write is read; what should not be is refused, at
 * little cost; and messages around them. */
#include "proto/mail/header.h"
#include "proto/mail/split.h"
#include "proto/report/dmarc.h"
#include "proto/report/mail.h"
#include "proto/report/pack.h"
#include "proto/report/parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include <cmocka.h>

static const struct report_dkim two[] = {
	{ STR_INIT("example.org"), STR_INIT("s1"), STR_INIT("pass"), { NULL, 0 } },
	{ STR_INIT("list.test"), STR_INIT("s<2>"), STR_INIT("fail"), STR_INIT("body hash & \"co\"") },
};

static struct report sample(struct report_row *row)
{
	*row = (struct report_row){ .source_ip = STR("192.0.2.1"), .count = 7, .disposition = STR("none"), .dkim_pass = true,
		.reason = { { STR("policy_test_mode"), STR("t=y") } }, .n_reasons = 1, .header_from = STR("www.example.org"),
		.envelope_from = STR("bounce.example.org"), .envelope_to = STR("here.test"), .dkim = two, .n_dkim = 2, .has_spf = true,
		.spf_domain = STR("bounce.example.org"), .spf_result = STR("softfail") };
	return (struct report){ .org = STR("Reporter & Sons"), .email = STR("postmaster@here.test"), .id = STR("0123456789abcdef0123456789abcdef"),
		.generator = STR("pepsi"), .begin = 1796000000, .end = 1796086399, .policy = { .domain = STR("example.org"), .p = STR("reject"),
		.sp = STR("none"), .adkim = STR("r"), .aspf = STR("s"), .fo = STR("1:d"), .testing = STR("y"), .discovery = STR("treewalk") },
		.row = row, .n_rows = 1 };
}

static void same(struct str a, struct str b)
{
	assert_int_equal(a.n, b.n);
	assert_true(str_eq(a, b));
}

static void there_and_back(void **state)
{
	struct report_row row;
	struct report r = sample(&row), back;
	struct buf xml = BUF_INIT(1 << 20), gz = BUF_INIT(1 << 20), again = BUF_INIT(1 << 20);
	struct arena *a = arena_new(REPORT_MEMORY_MAX);
	const char *why;
	(void)state;
	assert_int_equal(report_write(&r, &xml), 0);
	assert_int_equal(report_gzip(buf_str(&xml), &gz), 0);
	assert_int_equal(report_unpack(buf_str(&gz), &again, &why), 0);
	same(buf_str(&xml), buf_str(&again));
	assert_int_equal(report_read(buf_str(&again), a, &back, &why), 0);
	assert_true(back.rfc9990);
	same(back.org, r.org);
	same(back.id, r.id);
	same(back.policy.domain, r.policy.domain);
	same(back.policy.fo, r.policy.fo);
	same(back.policy.sp, r.policy.sp);
	assert_int_equal(back.policy.np.n, 0);
	same(back.policy.discovery, r.policy.discovery);
	assert_int_equal(back.n_rows, 1);
	const struct report_row *w = back.row;
	same(w->source_ip, row.source_ip);
	assert_int_equal(w->count, 7);
	assert_true(w->dkim_pass && !w->spf_pass && w->has_spf);
	assert_int_equal(w->n_dkim, 2);
	same(w->dkim[1].selector, two[1].selector);
	same(w->dkim[1].human, two[1].human);
	same(w->spf_result, row.spf_result);
	assert_int_equal(w->n_reasons, 1);
	same(w->reason[0].type, row.reason[0].type);
	same(w->reason[0].comment, row.reason[0].comment);
	same(w->envelope_to, row.envelope_to);
	arena_free(a);
	buf_free(&xml);
	buf_free(&gz);
	buf_free(&again);
}

/* Any octets in any text: still XML that is read, with the same numbers. */
static void any_octets(void **state)
{
	(void)state;
	srand(4711);
	for (int round = 0; round < 2000; round++) {
		char octets[12][40];
		struct str s[12];
		for (int i = 0; i < 12; i++) {
			size_t n = (size_t)(rand() % 40);
			for (size_t k = 0; k < n; k++)
				octets[i][k] = (char)(rand() & 1 ? rand() : "<>&]\"'\r\n\t\xef\xbf\xbe\xc2\x85\xed\xa0\x80"[rand() % 18]);
			s[i] = str_n(octets[i], n);
		}
		struct report_dkim d = { s[0], s[1], STR("pass"), s[2] };
		struct report_row row;
		struct report r = sample(&row), back;
		r.email = s[3];
		r.contact = s[4];
		r.error = s[5];
		row.dkim = &d;
		row.n_dkim = 1;
		row.envelope_from = s[6];
		row.envelope_to = s[7];
		row.spf_domain = s[8];
		row.spf_human = s[9];
		row.reason[0].comment = s[10];
		r.policy.fo = s[11];
		struct buf xml = BUF_INIT(1 << 20);
		struct arena *a = arena_new(REPORT_MEMORY_MAX);
		const char *why = "";
		assert_int_equal(report_write(&r, &xml), 0);
		assert_true(str_is_utf8(buf_str(&xml)));
		if (report_read(buf_str(&xml), a, &back, &why)) {
			print_error("%s:\n%s\n", why, buf_z(&xml));
			fail();
		}
		assert_int_equal(back.n_rows, 1);
		assert_int_equal(back.row[0].count, 7);
		assert_int_equal(back.row[0].n_dkim, 1);
		arena_free(a);
		buf_free(&xml);
	}
}

static void not_written(void **state)
{
	struct report_row row;
	struct report r = sample(&row);
	struct buf xml = BUF_INIT(1 << 20);
	(void)state;
	row.disposition = STR("delete");
	assert_int_equal(report_write(&r, &xml), -1);
	buf_free(&xml);
	r = sample(&row);
	r.n_rows = 0;
	assert_int_equal(report_write(&r, &xml), -1);
	r = sample(&row);
	r.policy.p = STR_NULL;
	xml = BUF_INIT(1 << 20);
	assert_int_equal(report_write(&r, &xml), -1);
	buf_free(&xml);
}

static int read_text(const char *xml, struct arena **ret_a, struct report *ret, const char **why)
{
	*ret_a = arena_new(REPORT_MEMORY_MAX);
	return report_read(str_from(xml), *ret_a, ret, why);
}

#define META "<report_metadata><org_name>o</org_name><email>e</email><report_id>i</report_id><date_range><begin>1</begin><end>2</end></date_range></report_metadata>"
#define POLICY "<policy_published><domain>Example.ORG.</domain><p>none</p></policy_published>"
#define ROW(ip, n) "<record><row><source_ip>" ip "</source_ip><count>" n "</count><policy_evaluated><disposition>none</disposition><dkim>pass</dkim><spf>fail</spf></policy_evaluated></row><identifiers><header_from>a.test</header_from></identifiers><auth_results/></record>"

/* A text longer than what is kept ends with a whole character, wherever the limit falls, and has nothing of what follows; expat hands
 * the same text over in one piece or in several. */
static void cut_texts(void **state)
{
	static const char *const characters[] = { "a", "\xc3\xbf", "\xe2\x82\xac", "\xf0\x9f\x98\x80" };
	(void)state;
	for (size_t c = 0; c < 4; c++)
		for (size_t lead = 0; lead < 4; lead++)
			for (int split = 0; split < 2; split++) {
				struct buf xml = BUF_INIT(1 << 16), want = BUF_INIT(1 << 16);
				struct arena *a, *b;
				struct report r, back;
				struct report_row row;
				const char *why = "";
				buf_addz(&xml, "<feedback>" META POLICY "<record><row><source_ip>192.0.2.1</source_ip><count>1</count><policy_evaluated>"
					       "<disposition>none</disposition></policy_evaluated></row><identifiers><header_from>a.test</header_from></identifiers>"
					       "<auth_results><dkim><result>pass</result><domain>");
				for (size_t i = 0; i < lead; i++)
					buf_addc(&want, 'x');
				for (size_t i = 0; i < 500; i++)
					buf_addz(&want, characters[c]);
				buf_adds(&xml, buf_str(&want));
				buf_addz(&xml, split ? "<!-- -->" : "");
				for (size_t i = 0; i < 500; i++) {
					buf_addz(&xml, characters[c]);
					buf_addz(&want, characters[c]);
				}
				buf_addz(&xml, "yz</domain></dkim></auth_results></record></feedback>");
				buf_addz(&want, "yz");
				assert_int_equal(read_text(buf_z(&xml), &a, &r, &why), 0);
				assert_int_equal(r.n_rows, 1);
				assert_int_equal(r.row[0].n_dkim, 1);
				struct str d = r.row[0].dkim[0].domain;
				assert_true(str_is_utf8(d) && d.n <= REPORT_TEXT_MAX && d.n + 4 > (c ? REPORT_TEXT_MAX : want.n));
				assert_true(str_starts(buf_str(&want), d));
				/* the writer cuts at the same place */
				buf_reset(&xml);
				r = sample(&row);
				row.spf_human = buf_str(&want);
				assert_int_equal(report_write(&r, &xml), 0);
				assert_int_equal(read_text(buf_z(&xml), &b, &back, &why), 0);
				same(back.row[0].spf_human, d);
				assert_null(strstr(buf_z(&xml), "\xef\xbf\xbd"));
				arena_free(a);
				arena_free(b);
				buf_free(&xml);
				buf_free(&want);
			}
}

static void others(void **state)
{
	struct arena *a;
	struct report r;
	const char *why = "";
	(void)state;
	/* RFC 7489, as it is written in the wild: no namespace, order of its own, unknown elements, old words, blanks */
	assert_int_equal(read_text("<?xml version=\"1.0\"?>\r\n<feedback><version>0.1</version>" META "<policy_published><domain> example.org </domain>"
				   "<adkim>r</adkim><p>QUARANTINE</p><pct>100</pct><secret><domain>evil.test</domain></secret></policy_published>"
				   "<record><row><source_ip>2001:DB8:0::1</source_ip><count> 12 </count><policy_evaluated><disposition>quarantine</disposition>"
				   "<dkim>fail</dkim><spf>fail</spf><reason><type>sampled_out</type></reason><reason><type>forwarded</type><comment>x</comment></reason>"
				   "</policy_evaluated></row><identifiers><envelope_from/><header_from>Sub.example.org</header_from></identifiers><auth_results>"
				   "<spf><domain>a.test</domain><scope>mfrom</scope><result>hardfail</result></spf><spf><domain>b.test</domain><result>pass</result></spf>"
				   "<dkim><domain>d.test</domain><result>unheard</result></dkim></auth_results></record></feedback>",
			     &a, &r, &why), 0);
	assert_false(r.rfc9990);
	same(r.policy.domain, STR("example.org"));
	same(r.policy.p, STR("quarantine"));
	assert_int_equal(r.n_rows, 1);
	same(r.row[0].source_ip, STR("2001:db8::1"));
	assert_int_equal(r.row[0].count, 12);
	same(r.row[0].header_from, STR("sub.example.org"));
	assert_int_equal(r.row[0].n_reasons, 2);
	same(r.row[0].reason[1].type, STR("other"));
	same(r.row[0].spf_domain, STR("a.test"));
	same(r.row[0].spf_result, STR("fail"));
	assert_int_equal(r.row[0].n_dkim, 0);
	arena_free(a);
	/* a prefix of its own; extensions are stepped over */
	assert_int_equal(read_text("<d:feedback xmlns:d=\"" REPORT_NAMESPACE "\" xmlns:x=\"urn:x\"><d:report_metadata><d:org_name>o</d:org_name><x:org_name>no</x:org_name>"
				   "<d:report_id>i</d:report_id><d:date_range><d:begin>5</d:begin><d:end>5</d:end></d:date_range></d:report_metadata>"
				   "<d:policy_published><d:domain>a.test</d:domain></d:policy_published></d:feedback>", &a, &r, &why), 0);
	assert_true(r.rfc9990);
	same(r.org, STR("o"));
	arena_free(a);
	/* only the root has a prefix, as the schema of RFC 7489 has it */
	assert_int_equal(read_text("<n:feedback xmlns:n=\"http://dmarc.org/dmarc-xml/0.1\">" META POLICY "<x:record/>" ROW("192.0.2.3", "4") "</n:feedback>", &a, &r, &why), 0);
	assert_int_equal(r.n_rows, 1);
	assert_int_equal(r.rows_bad, 0);
	assert_int_equal(r.row[0].count, 4);
	arena_free(a);
	/* rows that cannot be are counted, and cost the others nothing */
	assert_int_equal(read_text("<feedback>" META POLICY ROW("192.0.2.300", "1") ROW("192.0.2.3", "-1") ROW("192.0.2.3", "99999999999999999999") ROW("192.0.2.3", "4")
				   "</feedback>", &a, &r, &why), 0);
	assert_int_equal(r.n_rows, 1);
	assert_int_equal(r.rows_bad, 3);
	arena_free(a);
}

static void refused(void **state)
{
	static const char *const cases[] = { "", "hello", "<feedback>", "<html></html>", "<feedback>" META "</feedback>", "<feedback>" POLICY "</feedback>",
		"<!DOCTYPE feedback [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;\">]><feedback>" META POLICY "&b;</feedback>",
		"<!DOCTYPE feedback SYSTEM \"file:///etc/passwd\"><feedback>" META POLICY "</feedback>", "<feedback>" META POLICY "&x;</feedback>",
		"<feedback>" META POLICY "</feedback><feedback/>" };
	struct arena *a;
	struct report r;
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *why = NULL;
		assert_int_equal(read_text(cases[i], &a, &r, &why), -1);
		assert_non_null(why);
		arena_free(a);
	}
	/* depth */
	struct buf deep = BUF_INIT(1 << 22);
	const char *why = NULL;
	buf_addz(&deep, "<feedback>" META POLICY);
	for (int i = 0; i < 100000; i++)
		buf_addz(&deep, "<a>");
	assert_int_equal(read_text(buf_z(&deep), &a, &r, &why), -1);
	assert_non_null(strstr(why, "elements"));
	arena_free(a);
	buf_free(&deep);
}

static void too_many_rows(void **state)
{
	struct buf xml = BUF_INIT(REPORT_XML_MAX);
	struct arena *a;
	struct report r;
	const char *why = "";
	(void)state;
	buf_addz(&xml, "<feedback>" META POLICY);
	for (int i = 0; i < REPORT_ROWS_MAX + 3; i++)
		buf_addz(&xml, ROW("192.0.2.3", "1"));
	buf_addz(&xml, "</feedback>");
	assert_false(xml.failed);
	assert_int_equal(read_text(buf_z(&xml), &a, &r, &why), 0);
	assert_int_equal(r.n_rows, REPORT_ROWS_MAX);
	assert_int_equal(r.rows_cut, 3);
	arena_free(a);
	buf_free(&xml);
}

static void bombs(void **state)
{
	struct buf zeros = BUF_INIT(REPORT_XML_MAX + 100), gz = BUF_INIT(1 << 20), out = BUF_INIT(REPORT_XML_MAX);
	const char *why = NULL;
	(void)state;
	assert_non_null(buf_room(&zeros, 20 << 20));
	memset(zeros.p, 'a', 20 << 20);
	memcpy(zeros.p, "<feedback>", 10);
	zeros.n = 20 << 20;
	assert_int_equal(report_gzip(buf_str(&zeros), &gz), 0);
	assert_int_equal(report_unpack(buf_str(&gz), &out, &why), -1);
	assert_non_null(strstr(why, "bomb"));
	assert_true(out.n <= REPORT_RATIO_MAX * gz.n + (64 << 10)); /* it was stopped on the way */
	buf_free(&out);
	/* cut off, and damaged */
	for (size_t i = 0; i < 30 && i < gz.n; i++) {
		out = BUF_INIT(1 << 20);
		assert_int_equal(report_unpack(str_n(gz.p, i), &out, &why), -1);
		buf_free(&out);
	}
	buf_free(&gz);
	buf_free(&zeros);
}

static void le(struct buf *b, uint32_t v, int n)
{
	while (n--) {
		buf_addc(b, (char)(v & 0xff));
		v >>= 8;
	}
}

/* One file, deflated or stored; lie: its size is told wrong. */
static void zip(struct buf *z, const char *name, const char *text, int method, int lie)
{
	unsigned char packed[4096];
	uLong n = strlen(text), m = sizeof packed;
	uint32_t crc = (uint32_t)crc32(0, (const Bytef *)text, (uInt)n);
	if (method == 8) {
		z_stream s = { .next_in = (Bytef *)(uintptr_t)text, .avail_in = (uInt)n, .next_out = packed, .avail_out = sizeof packed };
		assert_int_equal(deflateInit2(&s, 9, Z_DEFLATED, -15, 9, 0), Z_OK);
		assert_int_equal(deflate(&s, Z_FINISH), Z_STREAM_END);
		m = s.total_out;
		deflateEnd(&s);
	} else {
		memcpy(packed, text, n);
		m = n;
	}
	/* local header with a data descriptor: sizes stand in the directory only */
	le(z, 0x04034b50, 4); le(z, 20, 2); le(z, 8, 2); le(z, (uint32_t)method, 2); le(z, 0, 4); le(z, 0, 4); le(z, 0, 4); le(z, 0, 4);
	le(z, (uint32_t)strlen(name), 2); le(z, 0, 2); buf_addz(z, name);
	buf_add(z, packed, m);
	uint32_t directory = (uint32_t)z->n;
	le(z, 0x02014b50, 4); le(z, 20, 2); le(z, 20, 2); le(z, 8, 2); le(z, (uint32_t)method, 2); le(z, 0, 4); le(z, crc, 4); le(z, (uint32_t)m, 4);
	le(z, (uint32_t)n + (uint32_t)lie, 4); le(z, (uint32_t)strlen(name), 2); le(z, 0, 2); le(z, 0, 2); le(z, 0, 2); le(z, 0, 2); le(z, 0, 4); le(z, 0, 4);
	buf_addz(z, name);
	uint32_t size = (uint32_t)z->n - directory;
	le(z, 0x06054b50, 4); le(z, 0, 4); le(z, 1, 2); le(z, 1, 2); le(z, size, 4); le(z, directory, 4); le(z, 3, 2); buf_addz(z, "zip");
}

static void archives(void **state)
{
	const char *why = NULL, *text = "<feedback>" META POLICY "</feedback>";
	(void)state;
	for (int method = 0; method <= 8; method += 8) {
		struct buf z = BUF_INIT(1 << 20), out = BUF_INIT(1 << 20);
		zip(&z, "a!b!1!2.xml", text, method, 0);
		assert_int_equal(report_unpack(buf_str(&z), &out, &why), 0);
		same(buf_str(&out), str_from(text));
		buf_free(&out);
		for (size_t i = 0; i < z.n; i++) { /* cut anywhere */
			out = BUF_INIT(1 << 20);
			assert_int_equal(report_unpack(str_n(z.p, i), &out, &why), -1);
			buf_free(&out);
		}
		for (size_t i = 4; i < z.n; i++) { /* any octet wrong: an error, or another name, never other content */
			char was = z.p[i];
			z.p[i] = (char)(was ^ 0x41);
			out = BUF_INIT(1 << 20);
			if (report_unpack(buf_str(&z), &out, &why) == 0)
				same(buf_str(&out), str_from(text));
			buf_free(&out);
			z.p[i] = was;
		}
		buf_free(&z);
	}
	struct buf z = BUF_INIT(1 << 20), out = BUF_INIT(1 << 20);
	zip(&z, "a.xml", text, 8, 1);
	assert_int_equal(report_unpack(buf_str(&z), &out, &why), -1);
	buf_free(&z);
	buf_free(&out);
}

static void message(void **state)
{
	struct report_mail m = { .submitter = STR("mx.here.test"), .domain = STR("example.org"), .id = STR("0123456789abcdef0123456789abcdef"), .nth = 2,
		.begin = 1, .end = 2, .now_us = INT64_C(1796038764) * 1000000, .from = STR("dmarc@here.test"), .from_name = STR("Here \"&\" Co"),
		.to = STR("r@example.org"), .packed = STR("\x1f\x8b\x08 anything, three lines of base64 long, so that it is seen to be cut where it should be"),
		.text = STR("A report.\r\n") };
	struct buf h = BUF_INIT(8192), b = BUF_INIT(65536), subject = BUF_INIT(1000);
	struct mail_field f;
	struct report_mail_read r;
	(void)state;
	assert_int_equal(report_mail_write(&m, &h, &b), 0);
	assert_true(mail_headers_sendable(buf_str(&h)));
	assert_int_equal(mail_field_find(buf_str(&h), STR("Subject"), 0, &f), 0);
	mail_field_unfold(&subject, f.value);
	assert_string_equal(buf_z(&subject), "Report Domain: example.org Submitter: mx.here.test Report-ID: <0123456789abcdef0123456789abcdef>");
	assert_non_null(strstr(buf_z(&h), "From: \"Here \\\"&\\\" Co\" <dmarc@here.test>\r\n"));
	assert_non_null(strstr(buf_z(&h), "Message-ID: <0123456789abcdef0123456789abcdef.2@mx.here.test>\r\n"));
	assert_non_null(strstr(buf_z(&b), "filename=\"mx.here.test!example.org!1!2!0123456789abcdef0123456789abcdef.xml.gz\""));
	for (struct str rest = buf_str(&b), line; str_word(&rest, "\n", &line);)
		assert_true(line.n <= 999);
	report_mail_read(buf_str(&h), buf_str(&b), 1 << 20, &r);
	assert_int_equal(r.kind, REPORT_MAIL_REPORT);
	same(buf_str(&r.data), m.packed);
	assert_string_equal(r.from, "here.test");
	report_mail_done(&r);
	/* what cannot be written is not */
	struct report_mail bad = m;
	bad.to = STR("r@example.org>\r\nBcc: <x");
	assert_int_equal(report_mail_write(&bad, &h, &b), -1);
	bad = m;
	bad.domain = STR("a\"b");
	assert_int_equal(report_mail_write(&bad, &h, &b), -1);
	buf_free(&h);
	buf_free(&b);
	buf_free(&subject);
}

static void read_message(const char *raw, struct report_mail_read *r)
{
	struct mail_split s;
	mail_split(str_from(raw), &s);
	report_mail_read(s.headers, s.body, 1 << 20, r);
}

static void messages_of_others(void **state)
{
	struct report_mail_read r;
	(void)state;
	/* the report is the whole message */
	read_message("From: <a@google.test>\r\nContent-Type: application/xml;\r\n name=x\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=3Cfeed=\r\nback>\r\n", &r);
	assert_int_equal(r.kind, REPORT_MAIL_REPORT);
	assert_string_equal(buf_z(&r.data), "<feedback>\r\n");
	report_mail_done(&r);
	/* nested, with a preamble, a type that lies, base64 with garbage in it */
	read_message("Content-Type: multipart/mixed; (c) boundary = \"a b\"\r\n\r\npreamble\r\n--a b\r\nContent-Type: multipart/alternative; boundary=x\r\n\r\n--x\r\n\r\nhello\r\n"
		     "--x--\r\n\r\n--a b  \r\nContent-Type: image/png\r\nContent-Transfer-Encoding: BASE64\r\n\r\nPGZl ZWRi*YWNr\r\nPg==\r\n--a b--\r\nepilogue", &r);
	assert_int_equal(r.kind, REPORT_MAIL_REPORT);
	assert_string_equal(buf_z(&r.data), "<feedback>");
	report_mail_done(&r);
	/* a notice of failure for the second copy of a report of ours */
#define DSN(action, id) "From: <mailer-daemon@far.test>\r\nContent-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\r\n--b\r\n\r\nSorry.\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\n" \
	"Reporting-MTA: dns; far.test\r\n\r\nFinal-Recipient: rfc822; r@far.test\r\nAction: " action "\r\nStatus: 5.1.1\r\n\r\n--b\r\nContent-Type: message/rfc822\r\n\r\nSubject: Report Domain: x\r\nMessage-ID: <" id "@mx.here.test>\r\n\r\n--b--\r\n"
	read_message(DSN("failed", "0123456789abcdef0123456789abcdef.1"), &r);
	assert_int_equal(r.kind, REPORT_MAIL_FAILED);
	assert_string_equal(r.id, "0123456789abcdef0123456789abcdef");
	assert_int_equal(r.nth, 1);
	report_mail_done(&r);
	read_message(DSN("failed", "whatever"), &r);
	assert_int_equal(r.kind, REPORT_MAIL_FAILED);
	assert_string_equal(r.id, "");
	report_mail_done(&r);
	read_message(DSN("delayed", "0123456789abcdef0123456789abcdef.1"), &r);
	assert_int_equal(r.kind, REPORT_MAIL_OTHER);
	report_mail_done(&r);
	read_message("Subject: hello\r\n\r\nhello\r\n", &r);
	assert_int_equal(r.kind, REPORT_MAIL_OTHER);
	report_mail_done(&r);
	/* parts within each other without end */
	struct buf deep = BUF_INIT(1 << 20);
	buf_addz(&deep, "Content-Type: multipart/mixed; boundary=b\r\n\r\n");
	for (int i = 0; i < 1000; i++)
		buf_addf(&deep, "--b%.*s\r\nContent-Type: multipart/mixed; boundary=b%.*s\r\n\r\n", i % 100, "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
		    (i + 1) % 100, "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb");
	read_message(buf_z(&deep), &r);
	assert_int_equal(r.kind, REPORT_MAIL_OTHER);
	report_mail_done(&r);
	buf_free(&deep);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(there_and_back), cmocka_unit_test(any_octets), cmocka_unit_test(not_written), cmocka_unit_test(others), cmocka_unit_test(cut_texts),
		cmocka_unit_test(refused), cmocka_unit_test(too_many_rows), cmocka_unit_test(bombs), cmocka_unit_test(archives), cmocka_unit_test(message),
		cmocka_unit_test(messages_of_others) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
