/* Failure reports that go out: what of a header block is told, and that what is written is read back by our own reader. */
#include "proto/report/arf_write.h"

#include "proto/report/arf.h"
#include "proto/report/mail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const char message[] =
    "Return-Path: <joe.secret@sender.test>\r\n"
    "Received: from mx.sender.test (mx.sender.test [192.0.2.7])\r\n\tby mx.here.test for <bob.secret@here.test>;\r\n\tMon, 30 Nov 2026 12:00:00 +0000\r\n"
    "DKIM-Signature: v=1; a=rsa-sha256; d=sender.test; i=joe.secret@sender.test; s=s; b=ab+/cd==\r\n"
    "From: \"Joe Secret\" <joe.secret@sender.test>, \"a \\\" b.secret\"@sender.test\r\n"
    "To: bob.secret@here.test\r\nCc: carol.secret@here.test\r\nSubject: your secret invoice\r\nDelivered-To: bob.secret@here.test\r\n"
    "Received: by a for x.\"b secret\".secret@d.test, \"c\"secret@d.test; y\r\nX-Originating-IP: secret\r\nMessage-ID: <17@sender.test>\r\nDate: Mon, 30 Nov 2026 12:00:00 +0000\r\nX-Mailer: \xff\x01m\r\nnot a field\r\n";

static struct buf redacted(const char *headers, enum arf_local local)
{
	const struct arf_redaction how = { .local = local, .key = { 1, 2, 3 } };
	struct buf out = BUF_INIT(1 << 20);
	assert_int_equal(arf_redact(str_from(headers), &how, &out), 0);
	return out;
}

static void told(void **st)
{
	(void)st;
	for (int mode = ARF_HASH; mode <= ARF_DROP; mode++) {
		struct buf b = redacted(message, (enum arf_local)mode);
		assert_null(strstr(buf_z(&b), "ecret"));
		assert_null(strstr(buf_z(&b), "Joe"));
		assert_null(strstr(buf_z(&b), "To:"));
		assert_null(strstr(buf_z(&b), "Return-Path"));
		assert_non_null(strstr(buf_z(&b), "Received: from mx.sender.test (mx.sender.test [192.0.2.7])\r\n\tby mx.here.test for <r"));
		assert_non_null(strstr(buf_z(&b), "X-Mailer: ??m\r\n"));
		assert_non_null(strstr(buf_z(&b), "@here.test>"));
		assert_non_null(strstr(buf_z(&b), mode == ARF_HASH ? "d=sender.test; i=r" : "d=sender.test; i=redacted@sender.test;"));
		assert_non_null(strstr(buf_z(&b), "b=ab+/cd=="));
		buf_free(&b);
	}
	struct buf all = redacted(message, ARF_KEEP);
	assert_non_null(strstr(buf_z(&all), "Subject: your secret invoice\r\n"));
	assert_non_null(strstr(buf_z(&all), "\"Joe Secret\" <joe.secret@sender.test>"));
	assert_null(strstr(buf_z(&all), "To:"));
	buf_free(&all);
}

/* The same address is seen to be the same, whatever its case; another key, another word. */
static void hashed(void **st)
{
	struct arf_redaction how = { .local = ARF_HASH, .key = { 9 } };
	struct buf a = BUF_INIT(500), b = BUF_INIT(500), c = BUF_INIT(500), d = BUF_INIT(500);
	(void)st;
	arf_redact_address(STR("Joe@Example.test"), &how, &a);
	arf_redact_address(STR("joe@example.TEST"), &how, &b);
	assert_int_equal(a.n, 17 + strlen("@Example.test"));
	assert_memory_equal(a.p, b.p, 17);
	arf_redact_address(STR("joe@other.test"), &how, &c);
	assert_memory_not_equal(a.p, c.p, 17);
	how.key[31] = 1;
	arf_redact_address(STR("joe@example.test"), &how, &d);
	assert_memory_not_equal(a.p, d.p, 17);
	buf_reset(&d);
	assert_int_equal(arf_redact_address(STR("nobody"), &how, &d), 0);
	assert_int_equal(arf_redact_address(STR("@x"), &how, &d), 0);
	assert_int_equal(d.n, 0);
	assert_int_equal(arf_redact_address(STR("a\r\nBcc: x@y>z.test"), &how, &d), 0);
	assert_null(strpbrk(d.p, "\r\n<>"));
	buf_free(&a);
	buf_free(&b);
	buf_free(&c);
	buf_free(&d);
}

/* However many and long the fields are: whole ones, up to a bound, no line too long, nothing that ends the block. */
static void bounded(void **st)
{
	struct buf in = BUF_INIT(4 << 20);
	(void)st;
	for (unsigned i = 0; i < 3000; i++)
		buf_addf(&in, "Received: from a%u.test by b with c for <x%u@y.test>\r\n", i, i);
	buf_addz(&in, "X-Mailer: ");
	for (unsigned i = 0; i < 1500; i++)
		buf_addc(&in, 'x');
	buf_addz(&in, "\r\n");
	struct buf out = redacted(buf_z(&in), ARF_HASH);
	assert_true(out.n <= ARF_TOLD_MAX && out.n > ARF_TOLD_MAX / 2);
	assert_memory_equal(out.p + out.n - 2, "\r\n", 2);
	buf_free(&out);
	buf_reset(&in);
	buf_addz(&in, "Subject: x\r\nX-Mailer: ");
	for (unsigned i = 0; i < 1500; i++)
		buf_addc(&in, 'x');
	buf_addz(&in, "\r\nDate: \r\n \r\n \r\n");
	out = redacted(buf_z(&in), ARF_DROP);
	assert_true(out.n < 1000);
	assert_null(strstr(buf_z(&out), "\r\n\r\n"));
	assert_null(strstr(buf_z(&out), "\r\n \r\n"));
	buf_free(&out);
	buf_free(&in);
}

static struct arf_mail sample(struct str headers)
{
	return (struct arf_mail){ .submitter = STR("mx.here.test"), .id = STR("0123456789abcdef0123456789abcdef"), .nth = 2, .from = STR("dmarc@here.test"),
		.from_name = STR("Here"), .to = STR("ruf@sender.test"), .now_us = 1796000000000000, .arrival_us = 1795999990000000, .user_agent = STR("Pepsi/1"),
		.domain = STR("sender.test"), .auth_failure = STR("dmarc"), .delivery_result = STR("reject"), .alignment = STR("none"), .source_ip = STR("192.0.2.7"),
		.mail_from = STR("rabc@sender.test"), .auth_results = STR("mx.here.test; dmarc=fail header.from=sender.test\r\n\tx"), .dkim_domain = STR("sender.test"),
		.dkim_selector = STR("s"), .spf_domain = STR("sender.test"), .headers = headers };
}

static void written(void **st)
{
	struct buf told_ = redacted(message, ARF_HASH), h = BUF_INIT(1 << 16), b = BUF_INIT(1 << 18);
	struct arf_mail m = sample(buf_str(&told_));
	struct arena *a = arena_new(ARF_MEMORY_MAX);
	struct report_mail_read kind;
	struct arf r;
	const char *why = "";
	(void)st;
	assert_int_equal(arf_write(&m, &h, &b), 0);
	if (arf_read(buf_str(&h), buf_str(&b), a, &r, &why))
		fail_msg("%s", why);
	assert_null(r.flaw);
	assert_int_equal(r.kind, ARF_AUTH_FAILURE);
	assert_true(str_eq(r.auth_failure, STR("dmarc")) && str_eq(r.delivery_result, STR("reject")) && str_eq(r.alignment, STR("none")));
	assert_true(str_eq(r.source_ip, STR("192.0.2.7")) && str_eq(r.domain.item[0], STR("sender.test")) && r.arrival == 1795999990 && r.incidents == 1);
	assert_true(str_eq(r.mail_from, STR("rabc@sender.test")) && str_eq(r.dkim_domain, STR("sender.test")) && str_eq(r.dkim_selector, STR("s")));
	assert_true(r.auth_results.n == 1 && r.original.there && !r.original.whole && str_eq(r.original.from, STR("sender.test")) && r.rcpt_to.n == 0);
	report_mail_read(buf_str(&h), buf_str(&b), 1 << 20, &kind);
	assert_int_equal(kind.kind, REPORT_MAIL_SINGLE);
	report_mail_done(&kind);
	assert_non_null(strstr(buf_z(&h), "Message-ID: <0123456789abcdef0123456789abcdef.2@mx.here.test>\r\nAuto-Submitted: auto-generated\r\n"));
	arena_free(a);
	buf_free(&told_);
	buf_free(&h);
	buf_free(&b);
}

static void unwritable(void **st)
{
	struct buf h = BUF_INIT(1 << 16), b = BUF_INIT(1 << 18);
	struct arf_mail good = sample(STR("Date: x\r\n")), m;
	(void)st;
#define BAD(member, value)                                                                                             \
	m = good;                                                                                                      \
	m.member = value;                                                                                              \
	buf_reset(&h);                                                                                                 \
	buf_reset(&b);                                                                                                 \
	assert_int_equal(arf_write(&m, &h, &b), -1)
	BAD(to, STR("a@b>\r\nBcc: c@d"));
	BAD(from, STR(""));
	BAD(id, STR("../x"));
	BAD(domain, STR("a\r\nb"));
	BAD(headers, STR("Date: x\r\n\r\nbody"));
	BAD(headers, STR("Date: x"));
	buf_free(&h);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(told), cmocka_unit_test(hashed), cmocka_unit_test(bounded), cmocka_unit_test(written), cmocka_unit_test(unwritable) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
