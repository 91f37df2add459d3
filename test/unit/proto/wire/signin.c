/* proto/wire/signin: each message comes out as it went in, every cut or lengthened one is refused, limits hold; and account
 * names have one form. */
#include "proto/wire/signin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char big[WIRE_SIGNIN_DATAGRAM_MAX + 64];

static struct wire_signin start(void)
{
	struct wire_signin m = { .op = WIRE_SIGNIN_START, .id = UINT64_MAX };
	m.start = (struct wire_signin_start){ .service = STR("submission"), .mechanism = STR("SCRAM-SHA-256-PLUS"),
		.client = STR("2001:db8::1"), .local = STR("192.0.2.1"), .listener = STR("msa"), .backends = STR("pam table"), .helo = STR("[192.0.2.7]"),
		.tls_version = STR("TLSv1.3"), .tls_cipher = STR("TLS_AES_256_GCM_SHA384"), .n_bindings = 2,
		.bindings = { { STR("tls-exporter"), STR("\0\1\2\3") }, { STR("tls-server-end-point"), STR("abc") } },
		.has_cert = true, .cert_verified = true, .cert_digest = STR("0123456789abcdef0123456789abcdef"),
		.cert_subject = STR("CN=x"), .cert_emails = { STR("a@example.test"), STR("b@example.test") }, .n_cert_emails = 2,
		.has_initial = true, .initial = STR("n,,n=\0x") };
	return m;
}

static size_t all(struct wire_signin *to)
{
	size_t n = 0;
	to[n++] = start();
	to[n] = start();
	to[n++].start = (struct wire_signin_start){ .mechanism = STR("PLAIN") };
	to[n++] = (struct wire_signin){ .op = WIRE_SIGNIN_CONT, .id = 1, .blob = STR("\0a\0b") };
	to[n++] = (struct wire_signin){ .op = WIRE_SIGNIN_CANCEL, .id = 1 };
	to[n++] = (struct wire_signin){ .op = WIRE_SIGNIN_CHALLENGE, .id = 2, .blob = STR("") };
	to[n++] = (struct wire_signin){ .op = WIRE_SIGNIN_OK, .id = 3, .ok = { .account = STR("alice"), .backend = STR("table"),
		.senders = { STR("a@example.test"), STR("@example.test") }, .n_senders = 2, .messages_hour = 1, .messages_day = 2,
		.recipients_hour = 3, .recipients_day = UINT32_MAX } };
	to[n++] = (struct wire_signin){ .op = WIRE_SIGNIN_FAIL, .id = 3, .fail = { .why = WIRE_SIGNIN_BUSY, .account = STR("alice"),
		.reason = STR("queue full") } };
	to[n++] = (struct wire_signin){ .op = WIRE_SIGNIN_OFFER, .offer = { STR("PLAIN LOGIN"), 2,
		{ { STR("table"), STR("PLAIN") }, { STR("pam"), STR("PLAIN LOGIN") } } } };
	to[n++] = (struct wire_signin){ .op = WIRE_SIGNIN_COUNTS, .counts = { .hashing = 4, .hashing_max = 4, .queued = 7,
		.queue_max = 200, .exchanges = 11, .hashed = 1000, .hash_us = UINT64_MAX, .busy = 2, .n_backends = 1,
		.backends = { { STR("table"), true, 5, 6, 7 } } } };
	return n;
}

static void round_trip(void **st)
{
	struct wire_signin m[16], back;
	size_t n = all(m);
	(void)st;
	for (size_t i = 0; i < n; i++) {
		struct buf b = BUF_INIT(WIRE_SIGNIN_DATAGRAM_MAX), again = BUF_INIT(WIRE_SIGNIN_DATAGRAM_MAX);
		assert_int_equal(wire_signin_put(&b, &m[i]), 0);
		assert_int_equal(wire_signin_get(buf_str(&b), &back), 0);
		assert_int_equal(back.op, m[i].op);
		assert_int_equal(back.id, m[i].id);
		assert_int_equal(wire_signin_put(&again, &back), 0);
		assert_true(str_eq(buf_str(&b), buf_str(&again)));
		/* each cut form in a block of its own size, so that a sanitizer sees a step too far */
		for (size_t cut = 0; cut < b.n; cut++) {
			char *p = malloc(cut ? cut : 1);
			memcpy(p, b.p, cut);
			assert_int_equal(wire_signin_get(str_n(p, cut), &back), -1);
			free(p);
		}
		assert_int_equal(wire_signin_put(&again, &m[i]), -1); /* not onto another message */
		buf_addc(&b, 0);
		assert_int_equal(wire_signin_get(buf_str(&b), &back), -1);
		buf_free(&b);
		buf_free(&again);
	}
}

static void fields(void **st)
{
	struct wire_signin m = start(), back;
	struct buf b = BUF_INIT(WIRE_SIGNIN_DATAGRAM_MAX);
	(void)st;
	assert_int_equal(wire_signin_put(&b, &m), 0);
	assert_int_equal(wire_signin_get(buf_str(&b), &back), 0);
	assert_true(str_eq(back.start.initial, STR("n,,n=\0x")) && back.start.has_initial);
	assert_true(str_eq(back.start.bindings[0].data, STR("\0\1\2\3")));
	assert_true(str_eq(back.start.bindings[1].type, STR("tls-server-end-point")));
	assert_true(str_eq(back.start.cert_emails[1], STR("b@example.test")) && back.start.cert_verified);
	assert_true(str_eq(back.start.client, STR("2001:db8::1")) && str_eq(back.start.local, STR("192.0.2.1")));
	buf_free(&b);
}

static void limits(void **st)
{
	struct {
		const char *what;
		struct wire_signin m;
	} of[25];
	size_t n = 0;
	(void)st;
	memset(big, 'x', sizeof big);
#define BAD(change) do { of[n].what = #change; of[n].m = start(); struct wire_signin *m = &of[n].m; change; n++; } while (0)
	BAD(m->op = 0);
	BAD(m->op = 99);
	BAD(m->id = 0);
	BAD(m->start.mechanism = STR_NULL);
	BAD(m->start.mechanism = str_n(big, 33));
	BAD(m->start.initial = str_n(big, WIRE_SIGNIN_BLOB_MAX + 1));
	BAD(m->start.has_initial = false);
	BAD(m->start.listener = STR("a\nb"));
	BAD(m->start.backends = STR("a\nb"));
	BAD(m->start.client = str_n(big, 65));
	BAD(m->start.n_bindings = WIRE_SIGNIN_BINDINGS_MAX + 1);
	BAD(m->start.n_bindings = 257);
	BAD(m->start.bindings[0].data = str_n(big, WIRE_SIGNIN_BINDING_MAX + 1));
	BAD(m->start.cert_digest = STR("short"));
	BAD(m->start.has_cert = false);
	BAD(m->start.n_cert_emails = WIRE_SIGNIN_EMAILS_MAX + 1);
	BAD(m->op = WIRE_SIGNIN_CONT; m->blob = str_n(big, WIRE_SIGNIN_BLOB_MAX + 1));
	BAD(m->op = WIRE_SIGNIN_OK; memset(&m->ok, 0, sizeof m->ok));
	BAD(m->op = WIRE_SIGNIN_OK; memset(&m->ok, 0, sizeof m->ok); m->ok.account = str_n(big, WIRE_SIGNIN_NAME_MAX + 1));
	BAD(m->op = WIRE_SIGNIN_FAIL; memset(&m->fail, 0, sizeof m->fail));
	BAD(m->op = WIRE_SIGNIN_FAIL; memset(&m->fail, 0, sizeof m->fail); m->fail.why = WIRE_SIGNIN_AWAY + 1);
	BAD(m->op = WIRE_SIGNIN_FAIL; memset(&m->fail, 0, sizeof m->fail); m->fail.why = WIRE_SIGNIN_AWAY; m->fail.reason = STR("a\rb"));
	BAD(m->op = WIRE_SIGNIN_OFFER; memset(&m->offer, 0, sizeof m->offer)); /* with an id */
#undef BAD
	for (size_t i = 0; i < n; i++) {
		struct buf b = BUF_INIT(WIRE_SIGNIN_DATAGRAM_MAX);
		if (wire_signin_put(&b, &of[i].m) != -1 || b.n)
			fail_msg("%s: was taken", of[i].what);
		buf_free(&b);
	}
	/* as much as everything allows fits into one datagram */
	struct wire_signin m = { .op = WIRE_SIGNIN_OK, .id = 1 };
	m.ok.account = str_n(big, WIRE_SIGNIN_NAME_MAX);
	m.ok.n_senders = WIRE_SIGNIN_SENDERS_MAX;
	for (size_t i = 0; i < WIRE_SIGNIN_SENDERS_MAX; i++)
		m.ok.senders[i] = str_n(big, 320);
	struct buf b = BUF_INIT(WIRE_SIGNIN_DATAGRAM_MAX);
	assert_int_equal(wire_signin_put(&b, &m), 0);
	buf_free(&b);
	b = BUF_INIT(100);
	assert_int_equal(wire_signin_put(&b, &m), -1);
	assert_false(b.failed);
	buf_free(&b);
}

static void names(void **st)
{
	static const struct {
		struct str in;
		const char *out; /* NULL: refused */
	} of[] = {
		{ STR_INIT("alice"), "alice" },
		{ STR_INIT("Alice@Example.TEST"), "alice@example.test" },
		{ STR_INIT("a+b.c_d-e/f'g"), "a+b.c_d-e/f'g" },
		{ STR_INIT("J\xc3\x9cRGEN"), "j\xc3\xbcrgen" },               /* U+00DC → U+00FC */
		{ STR_INIT("ju\xcc\x88rgen"), "j\xc3\xbcrgen" },              /* u + U+0308, composed */
		{ STR_INIT("\xce\xa3\xce\x9f\xce\xa6\xce\x9f\xce\xa3"), "\xcf\x83\xce\xbf\xcf\x86\xce\xbf\xcf\x82" }, /* final sigma */
		{ STR_INIT("\xe5\xb1\xb1\xe7\x94\xb0"), "\xe5\xb1\xb1\xe7\x94\xb0" },
		{ STR_INIT(""), NULL },
		{ STR_INIT("a b"), NULL },
		{ STR_INIT(" a"), NULL },
		{ STR_INIT("a\tb"), NULL },
		{ STR_INIT("a\0b"), NULL },
		{ STR_INIT("a\nb"), NULL },
		{ STR_INIT("a\x7f"), NULL },
		{ STR_INIT("a\"b"), NULL },
		{ STR_INIT("a\\b"), NULL },
		{ STR_INIT("uid:1000"), NULL },                               /* users of this machine are called so */
		{ STR_INIT("UiD:alice"), NULL },
		{ STR_INIT("uid:"), NULL },
		{ STR_INIT("uid:\xc3\x9c"), NULL },
		{ STR_INIT("\xc4\xb0" "d:1"), "i\xcc\x87" "d:1" },
		{ STR_INIT("uid"), "uid" },
		{ STR_INIT("uid.1000"), "uid.1000" },
		{ STR_INIT("a\xff"), NULL },                                  /* no UTF-8 */
		{ STR_INIT("a\xc3"), NULL },
		{ STR_INIT("a\xc0\xaf"), NULL },                              /* overlong */
		{ STR_INIT("a\xc2\xa0z"), NULL },                             /* no-break space */
		{ STR_INIT("a\xe2\x80\xaez"), NULL },                         /* U+202E turns text around */
		{ STR_INIT("a\xe2\x80\x8bz"), NULL },                         /* zero width */
		{ STR_INIT("\xee\x80\x80"), NULL },                           /* private use */
		{ STR_INIT("\xcd\xb8"), NULL },                               /* U+0378, unassigned */
	};
	char out[WIRE_SIGNIN_NAME_MAX + 1], again[WIRE_SIGNIN_NAME_MAX + 1];
	(void)st;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		int n = wire_signin_name(of[i].in, out);
		if ((n < 0) != (of[i].out == NULL) || (n >= 0 && (strcmp(out, of[i].out) != 0 || (size_t)n != strlen(out))))
			fail_msg("name %zu: %d", i, n);
		if (n >= 0) {
			assert_int_equal(wire_signin_name(str_n(out, (size_t)n), again), n);
			assert_string_equal(out, again);
		}
	}
	memset(big, 'A', sizeof big);
	assert_int_equal(wire_signin_name(str_n(big, WIRE_SIGNIN_NAME_MAX), out), WIRE_SIGNIN_NAME_MAX);
	assert_int_equal(wire_signin_name(str_n(big, WIRE_SIGNIN_NAME_MAX + 1), out), -1);
	for (size_t i = 0; i + 1 < sizeof big; i += 2)
		memcpy(big + i, "\xc3\x9c", 2);
	assert_int_equal(wire_signin_name(str_n(big, 254), out), 254);
	assert_int_equal(wire_signin_name(str_n(big, 256), out), -1);
	assert_int_equal(wire_signin_name(str_n(big, sizeof big), out), -1);
	/* each grows to three octets: the result has no room */
	for (size_t i = 0; i + 1 < sizeof big; i += 2)
		memcpy(big + i, "\xc8\xba", 2); /* U+023A → U+2C65 */
	assert_int_equal(wire_signin_name(str_n(big, 200), out), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(round_trip), cmocka_unit_test(fields), cmocka_unit_test(limits),
		cmocka_unit_test(names) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
