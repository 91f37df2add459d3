/* Names, answers and the answer set, with the evaluator that the header tells about. */
#include "proto/dns/answers.h"
#include "proto/dns/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define L63 "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk"

static void fold(void **st)
{
	static const struct {
		const char *in, *out; /* out NULL: no name */
	} cases[] = {
		{ "example.org", "example.org" },
		{ "Example.ORG.", "example.org" },
		{ "org", "org" },
		{ "_DMARC.Example", "_dmarc.example" },
		{ "a b=c&d+\\e.x", "a b=c&d+\\e.x" },
		{ "b\xc3\xbc" "cher.example", "xn--bcher-kva.example" },
		{ "B\xc3\x9c" "CHER.example", "xn--bcher-kva.example" },
		{ "_dmarc.b\xc3\xbc" "cher.example", "_dmarc.xn--bcher-kva.example" },
		{ L63 ".x", L63 ".x" },
		{ L63 "." L63 "." L63 ".abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghi",
		    L63 "." L63 "." L63 ".abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghi" }, /* 253 */
		{ L63 "." L63 "." L63 ".abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghij", NULL },
		{ L63 "l.x", NULL },
		{ "", NULL },
		{ ".", NULL },
		{ "a..b", NULL },
		{ ".a", NULL },
		{ "a..", NULL },
		{ "a\tb.x", NULL },
		{ "a\x7f.x", NULL },
		{ "a\xff.x", NULL },
		{ "a\xef\xbc\x8e" "b.x", NULL }, /* full-width dot inside a label */
	};
	(void)st;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char out[DNS_NAME_MAX + 1];
		int n = dns_name_fold(str_from(cases[i].in), out);
		if (!cases[i].out ? n != -1 : n < 0 || strcmp(out, cases[i].out) != 0 || strlen(out) != (size_t)n)
			fail_msg("%s: %d %s", cases[i].in, n, n < 0 ? "" : out);
	}
	char out[DNS_NAME_MAX + 1];
	assert_int_equal(dns_name_fold(str_n("a\0b.x", 5), out), -1);
	assert_int_equal(dns_name_fold(STR_NULL, out), -1);
}

static void reverse(void **st)
{
	static const unsigned char v4[] = { 192, 0, 2, 1 }, v6[16] = { 0x20, 1, 0xd, 0xb8, [15] = 0x1f };
	char out[DNS_NAME_MAX + 1], far[251];
	(void)st;
	assert_int_equal(dns_name_reverse(v4, 4, NULL, out), 22);
	assert_string_equal(out, "1.2.0.192.in-addr.arpa");
	assert_int_equal(dns_name_reverse(v6, 16, NULL, out), 72);
	assert_string_equal(out, "f.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa");
	dns_name_reverse(v4, 4, "Zen.Example.", out);
	assert_string_equal(out, "1.2.0.192.zen.example");
	assert_int_equal(dns_name_reverse(v4, 5, NULL, out), -1);
	assert_int_equal(dns_name_reverse(v4, 4, "", out), -1);
	memset(far, 'a', 250);
	for (size_t i = 50; i < 250; i += 50)
		far[i] = '.';
	far[250] = 0;
	assert_int_equal(dns_name_reverse(v6, 16, far, out), -1);
}

static void types(void **st)
{
	enum dns_type t;
	(void)st;
	assert_int_equal(dns_type_parse(STR("aaaa"), &t), 0);
	assert_int_equal(t, DNS_AAAA);
	assert_int_equal(dns_type_parse(STR("ANY"), &t), -1);
	assert_string_equal(dns_type_name(DNS_TLSA), "TLSA");
	assert_null(dns_type_name((enum dns_type)255));
	assert_string_equal(dns_status_name(DNS_NXDOMAIN), "nxdomain");
}

static struct dns_answer *mx_of(const char *name, const char *a, const char *b)
{
	struct dns_rr rr[2] = { { .data = str_from(a), .preference = 20 }, { .data = str_from(b), .preference = 10 } };
	return dns_answer_new(str_from(name), DNS_MX, DNS_OK, rr, 2, 300, true);
}

static void answer(void **st)
{
	(void)st;
	struct dns_answer *a = mx_of("Example.org", "Mx2.Example.org.", ".");
	assert_non_null(a);
	assert_int_equal(a->n_rr, 2);
	assert_int_equal(a->rr[0].preference, 10); /* sorted */
	assert_int_equal(a->rr[0].data.n, 0);      /* the root */
	assert_string_equal(a->rr[1].data.p, "mx2.example.org");
	assert_string_equal(a->name.p, "example.org");
	assert_true(a->authenticated);
	assert_ptr_equal(dns_answer_ref(a), a);
	dns_answer_unref(a);
	assert_string_equal(a->name.p, "example.org"); /* one reference left */
	dns_answer_unref(a);
	struct dns_rr bad = { .data = STR("abc") }, ok = { .data = STR("abcd") };
	assert_null(dns_answer_new(STR("x"), DNS_A, DNS_OK, &bad, 1, 0, false));
	assert_null(dns_answer_new(STR("x..y"), DNS_A, DNS_OK, &ok, 1, 0, false));
	assert_null(dns_answer_new(STR("x"), DNS_A, DNS_OK, NULL, 0, 0, false));
	assert_null(dns_answer_new(STR("x"), (enum dns_type)99, DNS_OK, &ok, 1, 0, false));
	assert_null(mx_of("x", "a..b", "c"));
	struct dns_answer *no = dns_answer_new(STR("x"), DNS_A, DNS_NODATA, &ok, 1, 5, false);
	assert_int_equal(no->n_rr, 0);
	dns_answer_unref(no);
	dns_answer_unref(NULL);
}

static void text(void **st)
{
	static const struct {
		enum dns_type type;
		struct dns_rr rr;
		const char *text;
	} cases[] = {
		{ DNS_A, { .data = STR_INIT("\xc0\0\2\1") }, "192.0.2.1" },
		{ DNS_AAAA, { .data = STR_INIT("\x20\1\xd\xb8\0\0\0\0\0\0\0\0\0\0\0\1") }, "2001:db8::1" },
		{ DNS_MX, { .data = STR_INIT("mx.test"), .preference = 10 }, "10 mx.test" },
		{ DNS_MX, { .data = STR_INIT("") }, "0 ." },
		{ DNS_TXT, { .data = STR_INIT("a\"b\\c\n\xff\0") }, "\"a\\\"b\\\\c\\010\\255\\000\"" },
		{ DNS_TLSA, { .data = STR_INIT("\0\xff"), .usage = 3, .selector = 1, .matching = 1 }, "3 1 1 00ff" },
		{ DNS_PTR, { .data = STR_INIT("a b.test") }, "a\\032b.test" },
	};
	(void)st;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf b = BUF_INIT(200), small = BUF_INIT(1);
		assert_int_equal(dns_rr_text(cases[i].type, &cases[i].rr, &b), 0);
		assert_string_equal(buf_z(&b), cases[i].text);
		assert_int_equal(dns_rr_text(cases[i].type, &cases[i].rr, &small), -1);
		buf_free(&b);
		buf_free(&small);
	}
}

/* ---- the evaluator of the header */

enum verdict { NO, YES, TEMPERROR };
struct check {
	struct str domain;
	enum verdict result;
	unsigned runs;
};

static int has_exchanger(void *arg, struct dns_answers *set)
{
	struct check *c = arg;
	c->runs++;
	const struct dns_answer *mx = dns_answers_get(set, c->domain, DNS_MX);
	if (!mx)
		return DNS_MORE;
	if (mx->status == DNS_TEMPFAIL)
		return c->result = TEMPERROR, DNS_DONE;
	c->result = NO;
	bool more = false;
	for (size_t i = 0; i < mx->n_rr && i < 10; i++) {
		const struct dns_answer *a = dns_answers_get(set, mx->rr[i].data, DNS_A);
		if (!a)
			more = true;
		else if (a->n_rr)
			return c->result = YES, DNS_DONE;
	}
	return more ? DNS_MORE : DNS_DONE;
}

static struct dns_answer *zone(struct str name, enum dns_type type)
{
	struct dns_rr ip = { .data = STR("\x7f\0\0\1") };
	if (str_eq(name, STR("good.test")) && type == DNS_MX)
		return mx_of("good.test", "a.good.test", "b.good.test");
	if (str_eq(name, STR("a.good.test")) && type == DNS_A)
		return dns_answer_new(name, type, DNS_OK, &ip, 1, 60, false);
	if (str_eq(name, STR("slow.test")))
		return dns_answer_fail(name, type, "time-out");
	return dns_answer_new(name, type, DNS_NXDOMAIN, NULL, 0, 60, false);
}

static void evaluator(void **st)
{
	static const struct {
		const char *domain;
		enum verdict result;
		unsigned runs, questions;
	} cases[] = { { "good.test", YES, 3, 3 }, { "slow.test", TEMPERROR, 2, 1 }, { "none.test", NO, 2, 1 }, { "not..a.name", NO, 1, 0 } };
	(void)st;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct dns_answers *set = dns_answers_new();
		struct check c = { .domain = str_from(cases[i].domain) };
		struct str name;
		enum dns_type type;
		while (has_exchanger(&c, set) == DNS_MORE) {
			assert_true(dns_answers_n_missing(set) > 0);
			while (dns_answers_missing(set, 0, &name, &type))
				assert_int_equal(dns_answers_put(set, zone(name, type)), 0);
		}
		assert_int_equal(c.result, cases[i].result);
		assert_int_equal(c.runs, cases[i].runs);
		assert_int_equal(dns_answers_n(set), cases[i].questions);
		dns_answers_free(set);
	}
}

static void set_rules(void **st)
{
	struct dns_answers *set = dns_answers_new();
	struct str name;
	enum dns_type type;
	(void)st;
	assert_null(dns_answers_peek(set, STR("a.test"), DNS_A));
	assert_int_equal(dns_answers_n_missing(set), 0);
	assert_null(dns_answers_get(set, STR("A.test."), DNS_A));
	assert_null(dns_answers_get(set, STR("a.test"), DNS_A)); /* the same question */
	assert_null(dns_answers_get(set, STR("a.test"), DNS_TXT));
	assert_int_equal(dns_answers_n_missing(set), 2);
	assert_true(dns_answers_missing(set, 1, &name, &type));
	assert_int_equal(type, DNS_TXT);
	assert_false(dns_answers_missing(set, 2, &name, &type));
	const struct dns_answer *none = dns_answers_get(set, STR("a..b"), DNS_A);
	assert_int_equal(none->status, DNS_NXDOMAIN);
	assert_string_equal(none->why, "not a domain name");
	/* what was seen stays */
	assert_int_equal(dns_answers_put(set, dns_answer_new(STR("a.test"), DNS_A, DNS_NODATA, NULL, 0, 1, false)), 0);
	assert_int_equal(dns_answers_put(set, dns_answer_fail(STR("a.test"), DNS_A, "late")), 0);
	assert_int_equal(dns_answers_get(set, STR("a.test"), DNS_A)->status, DNS_NODATA);
	assert_int_equal(dns_answers_n_missing(set), 1);
	assert_int_equal(dns_answers_put(set, NULL), -1);
	/* unasked answers are kept, too */
	assert_int_equal(dns_answers_put(set, dns_answer_fail(STR("z.test"), DNS_MX, "x")), 0);
	assert_int_equal(dns_answers_get(set, STR("z.test"), DNS_MX)->status, DNS_TEMPFAIL);
	/* full */
	for (unsigned i = 0; dns_answers_n(set) < DNS_ANSWERS_MAX; i++) {
		char text[32];
		snprintf(text, sizeof text, "n%u.test", i);
		assert_null(dns_answers_get(set, str_from(text), DNS_A));
	}
	assert_int_equal(dns_answers_get(set, STR("one.more"), DNS_A)->status, DNS_TEMPFAIL);
	assert_int_equal(dns_answers_put(set, dns_answer_fail(STR("one.more"), DNS_A, "x")), -1);
	dns_answers_free(set);
	dns_answers_free(NULL);
}

/* A set takes so many octets and no more; the question counts as failed then. */
static void set_octets(void **st)
{
	static char big[65000];
	struct dns_answers *set = dns_answers_new();
	size_t full = 0;
	(void)st;
	for (unsigned i = 0; i < 100; i++) {
		char text[32];
		struct dns_rr rr = { .data = str_n(big, sizeof big) };
		snprintf(text, sizeof text, "n%u.test", i);
		dns_answers_get(set, str_from(text), DNS_TXT);
		if (dns_answers_put(set, dns_answer_new(str_from(text), DNS_TXT, DNS_OK, &rr, 1, 1, false)))
			full++;
		else
			assert_int_equal(full, 0);
		assert_int_equal(dns_answers_get(set, str_from(text), DNS_TXT)->status, full ? DNS_TEMPFAIL : DNS_OK);
	}
	assert_int_equal(full, 100 - DNS_ANSWERS_OCTETS_MAX / 65200);
	assert_int_equal(dns_answers_n_missing(set), 0);
	dns_answers_free(set);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(fold), cmocka_unit_test(reverse), cmocka_unit_test(types), cmocka_unit_test(answer), cmocka_unit_test(text),
		cmocka_unit_test(evaluator), cmocka_unit_test(set_rules), cmocka_unit_test(set_octets) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
