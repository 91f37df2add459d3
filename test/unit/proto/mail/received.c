/* The Received writer: exact fields, hostile names, line widths. */
#include "proto/mail/received.h"

#include "mail_test.h"
#include "proto/mail/header.h"

static const int64_t t0 = INT64_C(1796038764) * 1000000;

void test_received(void **state)
{
	struct mail_received r = { .helo = STR("mail.example.org"), .ip = STR("192.0.2.1"), .rdns = STR("out.example.org"),
		.protocol = STR("ESMTPS"), .tls = STR("TLSv1.3 TLS_AES_256_GCM_SHA384"), .hostname = STR("mx.example.test"),
		.id = STR("4711"), .rcpt = STR("bob@example.test"), .time_us = t0 };
	struct buf b = BUF_INIT(4096);
	(void)state;
	assert_int_equal(mail_received_write(&b, &r), 0);
	assert_str(buf_str(&b), STR("Received: from mail.example.org (out.example.org [192.0.2.1]) (using TLSv1.3\r\n"
				    "\tTLS_AES_256_GCM_SHA384)\r\n"
				    "\tby mx.example.test with ESMTPS id 4711 for <bob@example.test>;\r\n"
				    "\tMon, 30 Nov 2026 11:39:24 +0000\r\n"));
	buf_reset(&b);
	r = (struct mail_received){ .helo = STR("[IPv6:2001:db8::1]"), .ip = STR("2001:db8::1"), .protocol = STR("SMTP"),
		.hostname = STR("mx"), .time_us = t0, .offset_min = 60 };
	assert_int_equal(mail_received_write(&b, &r), 0);
	assert_str(buf_str(&b), STR("Received: from [IPv6:2001:db8::1] ([IPv6:2001:db8::1])\r\n"
				    "\tby mx with SMTP; Mon, 30 Nov 2026 12:39:24 +0100\r\n"));
	buf_reset(&b);
	r = (struct mail_received){ .hostname = STR("mx"), .time_us = t0 };
	assert_int_equal(mail_received_write(&b, &r), 0);
	assert_str(buf_str(&b), STR("Received:\r\n\tby mx; Mon, 30 Nov 2026 11:39:24 +0000\r\n"));
	assert_int_equal(mail_received_count(buf_str(&b), 0), 1);
	buf_free(&b);
}

void test_received_hostile(void **state)
{
	static const struct {
		struct str helo, rcpt;
		bool utf8;
		const char *has, *lacks;
	} cases[] = {
		{ STR_INIT("a\r\nX: y"), STR_INIT("b@c"), false, "from a??X:?y", "\nX:" },
		{ STR_INIT("a(b)c;d<e>\\\""), STR_INIT("b@c"), false, "from a?b?c?d?e???", "a(b" },
		{ STR_INIT("a\0b"), STR_INIT("b@c"), false, "from a?b", NULL },
		{ STR_INIT("h"), STR_INIT("b\r\n@c"), false, "by mx", "for" },
		{ STR_INIT("h"), STR_INIT("b>@c"), false, "by mx", "for" },
		{ STR_INIT("h"), STR_INIT("\"b c\"@d"), false, "for <\"b c\"@d>;", NULL },
		{ STR_INIT("h"), STR_INIT("\xc3\xa9@d"), false, "by mx", "for" },
		{ STR_INIT("h\xc3\xa9"), STR_INIT("\xc3\xa9@d"), true, "for <\xc3\xa9@d>;", "?" },
		{ STR_INIT("h\xc3\xa9"), STR_INIT("b@d"), false, "from h??", NULL },
		{ STR_INIT("h\xc3"), STR_INIT("b\xc3@d"), true, "from h?", "for" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct mail_received r = { .helo = cases[i].helo, .ip = STR("192.0.2.1"), .hostname = STR("mx"),
			.rcpt = cases[i].rcpt, .utf8 = cases[i].utf8, .time_us = t0 };
		struct buf b = BUF_INIT(4096);
		assert_int_equal(mail_received_write(&b, &r), 0);
		assert_true(mail_headers_sendable(buf_str(&b)));
		assert_int_equal(mail_field_count(buf_str(&b), STR("Received"), 0), 1);
		assert_non_null(memmem(b.p, b.n, cases[i].has, strlen(cases[i].has)));
		if (cases[i].lacks)
			assert_null(memmem(b.p, b.n, cases[i].lacks, strlen(cases[i].lacks)));
		buf_free(&b);
	}
	struct buf small = BUF_INIT(20);
	struct mail_received r = { .hostname = STR("mx") };
	assert_int_equal(mail_received_write(&small, &r), -1);
	buf_free(&small);
}

/* Whatever the lengths, no line passes 78 unless a single word does, and none passes 998. */
void test_received_width(void **state)
{
	char name[600];
	(void)state;
	memset(name, 'a', sizeof name);
	for (size_t n = 1; n < sizeof name; n += 7) {
		struct mail_received r = { .helo = str_n(name, n), .ip = STR("192.0.2.1"), .rdns = str_n(name, n / 2),
			.protocol = STR("ESMTP"), .hostname = str_n(name, n / 3 + 1), .id = STR("99"),
			.rcpt = str_n(name, n), .time_us = t0 };
		struct buf b = BUF_INIT(8192);
		assert_int_equal(mail_received_write(&b, &r), 0);
		assert_true(mail_headers_sendable(buf_str(&b)));
		for (const char *p = b.p, *e; (e = strstr(p, "\r\n")); p = e + 2) {
			assert_true((size_t)(e - p) <= MAIL_LINE_MAX);
			size_t blanks = 0;
			for (const char *q = p; q < e; q++)
				blanks += *q == ' ';
			if (e - p > MAIL_LINE_WANT) /* one piece: "for <…>" and "(… […])" hold a blank of their own */
				assert_true(p[0] == '\t' && blanks <= 1);
		}
		buf_free(&b);
	}
}

void test_received_read(void **state)
{
	static const struct {
		const char *value, *helo, *rdns, *ip, *by, *with, *id;
	} cases[] = {
		{ "from mail.example.org (out.example.org [192.0.2.1]) (using TLSv1.3 X) by mx.example.test with ESMTPS id 4711 for <b@c>; Mon, 30 Nov 2026 11:39:24 +0000",
		    "mail.example.org", "out.example.org", "192.0.2.1", "mx.example.test", "ESMTPS", "4711" },
		{ "from [IPv6:2001:db8::1] ([IPv6:2001:db8::1]) by mx with SMTP; x", "[IPv6:2001:db8::1]", "", "2001:db8::1", "mx", "SMTP", "" },
		{ "by mx; Mon", "", "", "", "mx", "", "" },
		{ "(by nobody) by mx(really)with\tLMTP;", "", "", "", "mx", "LMTP", "" },
		{ "from a (b (c) \\) [192.0.2.2]) (d [192.0.2.3]) by mx by other from x", "a", "b (c) \\)", "192.0.2.2", "mx", "", "" },
		{ "from a by mx ([192.0.2.9])", "a", "", "", "mx", "", "" },
		{ "from a (]x[192.0.2.9) by mx", "a", "", "", "mx", "", "" },
		{ "FROM a (unterminated [192.0.2.9] by mx", NULL, NULL, NULL, NULL, NULL, NULL },
		{ "from a; by mx", NULL, NULL, NULL, NULL, NULL, NULL },
		{ "from", NULL, NULL, NULL, NULL, NULL, NULL },
		{ "by", NULL, NULL, NULL, NULL, NULL, NULL },
		{ "", NULL, NULL, NULL, NULL, NULL, NULL },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct mail_received r = { .hostname = STR("untouched") };
		int rc = mail_received_read(str_from(cases[i].value), &r);
		if (!cases[i].by) {
			assert_int_equal(rc, -1);
			assert_str(r.hostname, STR("untouched"));
			continue;
		}
		assert_int_equal(rc, 0);
		assert_str(r.helo, str_from(cases[i].helo));
		assert_str(r.rdns, str_from(cases[i].rdns));
		assert_str(r.ip, str_from(cases[i].ip));
		assert_str(r.hostname, str_from(cases[i].by));
		assert_str(r.protocol, str_from(cases[i].with));
		assert_str(r.id, str_from(cases[i].id));
	}
}
