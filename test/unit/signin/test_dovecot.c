/* Dovecot's protocol: what lines mean, what is refused, and that nothing we send can be taken for a second line or field. */
#include "signin/dovecot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void lines(void **st)
{
	static const struct {
		struct str in;
		int rc;
		enum dovecot_kind kind;
		uint64_t id;
		const char *text; /* mech, user or blob */
	} of[] = {
		{ STR_INIT("VERSION\t1\t2"), 0, DOVECOT_VERSION, 0, NULL },
		{ STR_INIT("VERSION\t1"), -1, 0, 0, NULL },
		{ STR_INIT("VERSION\tx\t2"), -1, 0, 0, NULL },
		{ STR_INIT("MECH\tPLAIN\tplaintext"), 0, DOVECOT_MECH, 0, "PLAIN" },
		{ STR_INIT("MECH\tSCRAM-SHA-256\tactive\tmutual-auth"), 0, DOVECOT_MECH, 0, "SCRAM-SHA-256" },
		{ STR_INIT("MECH\t"), -1, 0, 0, NULL },
		{ STR_INIT("MECH"), -1, 0, 0, NULL },
		{ STR_INIT("MECH\tPL AIN"), -1, 0, 0, NULL },
		{ STR_INIT("MECH\tABCDEFGHIJKLMNOPQRSTUVWXYZ"), -1, 0, 0, NULL },
		{ STR_INIT("SPID\t31337"), 0, DOVECOT_OTHER, 0, NULL },
		{ STR_INIT("COOKIE\tabc"), 0, DOVECOT_OTHER, 0, NULL },
		{ STR_INIT("DONE"), 0, DOVECOT_DONE, 0, NULL },
		{ STR_INIT("CONT\t7\tcj0x"), 0, DOVECOT_CONT, 7, "cj0x" },
		{ STR_INIT("CONT\t7"), 0, DOVECOT_CONT, 7, "" },
		{ STR_INIT("CONT"), -1, 0, 0, NULL },
		{ STR_INIT("CONT\t-7\tx"), -1, 0, 0, NULL },
		{ STR_INIT("OK\t7\tuser=alice\tresp=dj0x"), 0, DOVECOT_OK, 7, "alice" },
		{ STR_INIT("OK\t7\tuser=alice\tfuture=1\tthing"), 0, DOVECOT_OK, 7, "alice" },
		{ STR_INIT("OK\t7\tuser="), -1, 0, 0, NULL },
		{ STR_INIT("OK\t7"), -1, 0, 0, NULL },
		{ STR_INIT("OK\t99999999999999999999999\tuser=a"), -1, 0, 0, NULL },
		{ STR_INIT("FAIL\t7\tuser=alice\ttemp"), 0, DOVECOT_FAIL, 7, "alice" },
		{ STR_INIT("FAIL\t7"), 0, DOVECOT_FAIL, 7, "" },
		{ STR_INIT("FAIL"), -1, 0, 0, NULL },
		{ STR_INIT(""), 0, DOVECOT_OTHER, 0, NULL },
		{ STR_INIT("OK\t7\tuser=a\0b"), -1, 0, 0, NULL },
	};
	struct dovecot_line l;
	(void)st;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		int rc = dovecot_parse(of[i].in, &l);
		struct str text = l.kind == DOVECOT_MECH ? l.mech : l.kind == DOVECOT_CONT ? l.blob : l.user;
		if (rc != of[i].rc || (!rc && (l.kind != of[i].kind || l.id != of[i].id)) ||
		    (!rc && of[i].text && !str_eq(text, str_from(of[i].text))))
			fail_msg("line %zu: %d, kind %d", i, rc, (int)l.kind);
	}
	assert_int_equal(dovecot_parse(STR("FAIL\t1\tcode=temp_fail"), &l), 0);
	assert_true(l.temp);
	assert_int_equal(dovecot_parse(STR("FAIL\t1\tuser_disabled\treason=off\001nduty"), &l), 0);
	assert_true(l.disabled && !l.temp && str_eq(l.reason, STR("off\001nduty")));
	assert_int_equal(dovecot_parse(STR("OK\t1\tuser=a\tnologin"), &l), 0);
	assert_true(l.nologin);
	assert_int_equal(dovecot_parse(STR("MECH\tANONYMOUS\tanonymous"), &l), 0);
	assert_true(l.anonymous);
}

static void escapes(void **st)
{
	struct buf b = BUF_INIT(64);
	(void)st;
	assert_int_equal(dovecot_unescape(STR("a\0010\0011\001t\001r\001nb"), &b), 0);
	assert_true(str_eq(buf_str(&b), STR("a\0\001\t\r\nb")));
	buf_reset(&b);
	assert_int_equal(dovecot_unescape(STR("a\001x"), &b), -1);
	buf_reset(&b);
	assert_int_equal(dovecot_unescape(STR("a\001"), &b), -1);
	buf_free(&b);
}

static void requests(void **st)
{
	struct buf b = BUF_INIT(64 * 1024);
	struct dovecot_request r = { .id = 9, .mechanism = STR("PLAIN"), .service = STR("submission"), .client = STR("192.0.2.1"),
		.local = STR("192.0.2.2"), .tls = true, .tls_version = STR("TLSv1.3"), .has_initial = true, .initial = STR("\0a\0b") };
	(void)st;
	assert_int_equal(dovecot_request_put(&b, &r), 0);
	assert_string_equal(buf_z(&b), "AUTH\t9\tPLAIN\tservice=submission\tsecured=tls\ttls_protocol=TLSv1.3\tno-penalty\tlip=192.0.2.2\trip=192.0.2.1\t"
				       "resp=AGEAYg==\n");
	/* whatever is in a field, it stays one field on one line */
	buf_reset(&b);
	r.client = STR("1\tresp=x\n2\r\0013\0004");
	r.has_initial = r.tls = false;
	assert_int_equal(dovecot_request_put(&b, &r), 0);
	assert_string_equal(buf_z(&b), "AUTH\t9\tPLAIN\tservice=submission\tno-penalty\tlip=192.0.2.2\trip=1\001tresp=x\001n2\001r\00113\00104\n");
	buf_reset(&b);
	assert_int_equal(dovecot_cont_put(&b, 9, STR("")), 0);
	assert_int_equal(dovecot_cancel_put(&b, 9), 0);
	assert_string_equal(buf_z(&b), "CONT\t9\t\nCANCEL\t9\n");
	buf_free(&b);
	b = BUF_INIT(100);
	r.has_initial = true;
	assert_int_equal(dovecot_request_put(&b, &r), -1);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(lines), cmocka_unit_test(escapes), cmocka_unit_test(requests) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
