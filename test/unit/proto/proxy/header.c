/* The PROXY header: tables of good and bad ones, each fed at every split; TLVs and the checksum. The public suite is
 * vectors/proxy-protocol. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proto/proxy/header.h"

#include <stdio.h>

static int feed_at(struct str in, size_t cut, struct proxy_parser *p, size_t *ret_used)
{
	size_t used = 0;
	*p = PROXY_PARSER_INIT;
	int r = proxy_feed(p, in.p, cut, &used);
	*ret_used = used;
	if (r)
		return r;
	assert_int_equal(used, cut);
	r = proxy_feed(p, in.p + cut, in.n - cut, &used);
	*ret_used += used;
	return r;
}

#define V2 "\r\n\r\n\0\r\nQUIT\n"
#define A4 "\xc0\0\2\1\xc6\x33\x64\2\x12\x67\0\x19" /* 192.0.2.1 198.51.100.2 4711 25 */
#define W(lit) STR_INIT(lit)

static const struct {
	struct str in;
	size_t used;
	bool local;
	enum proxy_family family;
	const char *src, *dst;
	uint16_t sport, dport;
} good[] = {
	{ W("PROXY TCP4 192.0.2.1 198.51.100.2 4711 25\r\nEHLO"), 43, false, PROXY_TCP4, "192.0.2.1", "198.51.100.2", 4711, 25 },
	{ W("PROXY TCP6 2001:db8::1 ::1 0 65535\r\n"), 36, false, PROXY_TCP6, "2001:db8::1", "::1", 0, 65535 },
	{ W("PROXY UNKNOWN\r\n\r\n"), 15, false, PROXY_UNSPEC, "", "", 0, 0 },
	{ W("PROXY UNKNOWN ::1 what ever\r\n"), 29, false, PROXY_UNSPEC, "", "", 0, 0 },
	{ W(V2 "\x21\x11\0\x0c" A4 "EHLO"), 28, false, PROXY_TCP4, "192.0.2.1", "198.51.100.2", 4711, 25 },
	{ W(V2 "\x20\0\0\0"), 16, true, PROXY_UNSPEC, "", "", 0, 0 },
	{ W(V2 "\x20\xff\0\3abc\r\n"), 19, true, PROXY_UNSPEC, "", "", 0, 0 }, /* 2.2: LOCAL ignores the family */
	{ W(V2 "\x21\0\0\0"), 16, false, PROXY_UNSPEC, "", "", 0, 0 },
};

static const struct str bad[] = {
	W("EHLO x\r\n"), W("proxy TCP4 "), W("PROXY\t"), W("PROXY  TCP4 192.0.2.1 192.0.2.2 1 2\r\n"), W("PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n"),
	W("PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n"), W("PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n"), W("PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n"),
	W("PROXY TCP4 192.0.2.1 192.0.2.2 -1 2\r\n"), W("PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n"), W("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n"),
	W("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\r\n"), W("PROXY TCP4 192.0.2.01 192.0.2.2 1 2\r\n"), W("PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n"),
	W("PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n"), W("PROXY UNKNOWNS\r\n"), W("PROXY TCP4\0 192.0.2.1 192.0.2.2 1 2\r\n"),
	W("PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n"),
	W("PROXY UNKNOWN 3456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\r\n"),
	W("\r\n\r\n\0\r\nQUIT\r"), W(V2 "\x31\x11\0\x0c" A4), W(V2 "\x22\x11\0\x0c" A4), W(V2 "\x21\x13\0\x0c" A4), W(V2 "\x21\x01\0\x0c" A4),
	W(V2 "\x21\x11\0\x0b" A4), W(V2 "\x21\x21\0\x0c" A4), W(V2 "\x21\x11\xff\xff" A4), W(V2 "\x21\x31\0\x0c" A4),
};

static void test_good(void **state)
{
	static struct proxy_parser p;
	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		for (size_t cut = 0; cut <= good[i].in.n; cut++) {
			struct proxy_header h;
			size_t used;
			if (feed_at(good[i].in, cut, &p, &used) != 1 || used != good[i].used || proxy_header(&p, &h))
				fail_msg("case %zu cut at %zu, %zu taken", i, cut, used);
			assert_int_equal(h.version, good[i].in.p[0] == 'P' ? 1 : 2);
			assert_int_equal(h.local, good[i].local);
			assert_int_equal(h.family, good[i].family);
			assert_string_equal(h.src, good[i].src);
			assert_string_equal(h.dst, good[i].dst);
			assert_int_equal(h.sport, good[i].sport);
			assert_int_equal(h.dport, good[i].dport);
			/* what comes behind is not taken */
			assert_int_equal(proxy_feed(&p, "x", 1, &used), 1);
			assert_int_equal(used, 0);
		}
}

static void test_short(void **state)
{
	static struct proxy_parser p;
	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		for (size_t n = 0; n < good[i].used; n++) {
			struct proxy_header h;
			size_t used;
			p = PROXY_PARSER_INIT;
			assert_int_equal(proxy_feed(&p, good[i].in.p, n, &used), 0);
			assert_int_equal(used, n);
			assert_int_equal(proxy_header(&p, &h), -1);
		}
}

static void test_bad(void **state)
{
	static struct proxy_parser p;
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		for (size_t cut = 0; cut <= bad[i].n; cut++) {
			struct proxy_header h;
			size_t used;
			if (feed_at(bad[i], cut, &p, &used) != -1)
				fail_msg("case %zu cut at %zu is taken", i, cut);
			assert_int_equal(proxy_feed(&p, "\r\n", 2, &used), -1);
			assert_int_equal(proxy_header(&p, &h), -1);
		}
}

/* A version 2 header over TCP4 with these TLVs. */
static struct str with_tlvs(struct str tlvs)
{
	static char out[PROXY_HEADER_MAX];
	static const char head[] = V2 "\x21\x11";
	size_t n = sizeof head - 1, len = 12 + tlvs.n;
	memcpy(out, head, n);
	out[n++] = (char)(len >> 8);
	out[n++] = (char)len;
	memcpy(out + n, A4, 12);
	memcpy(out + n + 12, tlvs.p, tlvs.n);
	return str_n(out, n + len);
}

static int read_tlvs(struct str tlvs, struct proxy_parser *p, struct proxy_header *h)
{
	struct str in = with_tlvs(tlvs);
	size_t used;
	*p = PROXY_PARSER_INIT;
	assert_int_equal(proxy_feed(p, in.p, in.n, &used), 1);
	return proxy_header(p, h);
}

static void test_tlvs(void **state)
{
	static struct proxy_parser p;
	struct proxy_header h;
	struct proxy_ssl ssl;
	struct str value;
	unsigned type;
	(void)state;
	assert_int_equal(read_tlvs(STR("\1\0\4smtp\x20\0\x1a\5\0\0\0\0\x21\0\7TLSv1.3\x22\0\5alice\x04\0\0"), &p, &h), 0);
	assert_false(h.tlv_error);
	assert_int_equal(proxy_tlv(&h.tlvs, &type, &value), 1);
	assert_int_equal(type, PROXY_TLV_ALPN);
	assert_true(str_eq(value, STR("smtp")));
	assert_int_equal(proxy_tlv(&h.tlvs, &type, &value), 1);
	assert_int_equal(type, PROXY_TLV_SSL);
	assert_int_equal(proxy_ssl(value, &ssl), 0);
	assert_true(ssl.ssl && ssl.verified);
	assert_true(str_eq(ssl.version, STR("TLSv1.3")));
	assert_true(str_eq(ssl.common_name, STR("alice")));
	assert_int_equal(ssl.cipher.n, 0);
	assert_int_equal(proxy_tlv(&h.tlvs, &type, &value), 0);
	assert_int_equal(proxy_ssl(STR("\1\0\0\0"), &ssl), -1);
	assert_int_equal(proxy_ssl(STR("\1\0\0\0\0\x21\0\7x"), &ssl), -1);
	/* verified only when the proxy says that it went well */
	assert_int_equal(proxy_ssl(STR("\5\0\0\0\1"), &ssl), 0);
	assert_false(ssl.verified);
	/* malformed: the addresses count, no TLV does */
	assert_int_equal(read_tlvs(STR("\1\0\4smtp\2\0\377x"), &p, &h), 0);
	assert_true(h.tlv_error);
	assert_int_equal(h.tlvs.n, 0);
	assert_string_equal(h.src, "192.0.2.1");
}

static void test_checksum(void **state)
{
	static struct proxy_parser p;
	struct proxy_header h;
	(void)state;
	/* CRC32c, computed by another program over the header with zeros in its place */
	assert_int_equal(read_tlvs(STR("\3\0\4" "\x41" "\xe8" "\x94" "\x51"), &p, &h), 0);
	assert_int_equal(read_tlvs(STR("\3\0\4\0\0\0\0"), &p, &h), -1);
	assert_int_equal(read_tlvs(STR("\3\0\3\0\0\0"), &p, &h), 0);
	assert_true(h.tlv_error);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_good), cmocka_unit_test(test_short), cmocka_unit_test(test_bad),
		cmocka_unit_test(test_tlvs), cmocka_unit_test(test_checksum) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
