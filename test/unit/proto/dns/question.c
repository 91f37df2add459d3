/* The question a recursor is asked, and the frame of its reply: against our own writer of queries and reader of replies. */
#include "proto/dns/question.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static unsigned char out[DNS_MESSAGE_MAX];

static void names(void **st)
{
	static const struct {
		const char *name, *text;
	} cases[] = {
		{ "example.org", "example.org." }, { "Example.ORG.", "example.org." }, { "_25._tcp.mx-1.test", "_25._tcp.mx-1.test." },
		{ "a b=c.x", "a\\032b\\061c.x." }, { "a\\b.x", "a\\092b.x." }, { "x", "x." },
	};
	(void)st;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct dns_query made;
		struct dns_question q;
		assert_int_equal(dns_query_make(&made, str_from(cases[i].name), DNS_TXT, 0x1234, DNS_QUERY_EDNS, NULL), 0);
		assert_int_equal(dns_question_read(made.wire, made.n, &q), 0);
		assert_string_equal(q.text, cases[i].text);
		assert_int_equal(q.type, DNS_TXT);
		for (size_t n = 0; n < 12 + q.n; n++) /* cut anywhere */
			assert_int_equal(dns_question_read(made.wire, n, &q), -1);
	}
	char longest[DNS_NAME_MAX + 1];
	memset(longest, 'a', sizeof longest);
	longest[63] = longest[127] = longest[191] = '.';
	struct dns_query made;
	struct dns_question q;
	assert_int_equal(dns_query_make(&made, str_n(longest, DNS_NAME_MAX), DNS_A, 1, 0, NULL), 0);
	assert_int_equal(dns_question_read(made.wire, made.n, &q), 0);
	assert_int_equal(strlen(q.text), DNS_NAME_MAX + 1);
}

static void refused(void **st)
{
	static const unsigned char good[] = { 1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 0, 0, 1, 0, 1 };
	static const struct {
		unsigned at, octet;
	} cases[] = { { 2, 0x81 }, { 2, 0x28 }, { 5, 0 }, { 5, 2 }, { 4, 1 }, { 12, 0xc0 }, { 12, 64 }, { 12, 5 }, { 18, 3 }, { 17, 1 } };
	struct dns_question q;
	(void)st;
	assert_int_equal(dns_question_read(good, sizeof good, &q), 0);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		unsigned char bad[sizeof good];
		memcpy(bad, good, sizeof good);
		bad[cases[i].at] = (unsigned char)cases[i].octet;
		assert_int_equal(dns_question_read(bad, sizeof bad, &q), -1);
	}
}

/* What libunbound would give for the question in made: its id is another, its name lower case. */
static size_t reply_to(const struct dns_query *made, size_t question, unsigned char *reply)
{
	static const unsigned char record[] = { 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1 };
	memcpy(reply, made->wire, 12 + question);
	reply[0] = reply[1] = 0;
	reply[2] = 0x81;
	reply[3] = 0x80;
	reply[7] = 1;
	reply[11] = 0;
	for (size_t i = 12; i < 12 + question; i++)
		reply[i] |= reply[i] >= 'A' && reply[i] <= 'Z' ? 0x20 : 0;
	memcpy(reply + 12 + question, record, sizeof record);
	return 12 + question + sizeof record;
}

static void replies(void **st)
{
	unsigned char reply[600], bits[DNS_RANDOM_CASE];
	struct dns_query made;
	struct dns_question q;
	struct dns_answer *a = NULL;
	const char *why = NULL;
	(void)st;
	memset(bits, 0x5a, sizeof bits);
	assert_int_equal(dns_query_make(&made, STR("mixed.case.test"), DNS_A, 0x4321, DNS_QUERY_EDNS, bits), 0);
	assert_int_equal(dns_question_read(made.wire, made.n, &q), 0);
	size_t n = reply_to(&made, q.n, reply);
	for (int secure = 0; secure < 2; secure++) {
		size_t m = dns_question_answer(made.wire, &q, 0, reply, n, secure, out);
		assert_int_equal(dns_reply_read(&made, out, m, true, true, &a, &why), DNS_REPLY_OK);
		assert_int_equal(a->n_rr, 1);
		assert_int_equal(a->authenticated, secure);
		dns_answer_unref(a);
	}
	reply[3] = 0x80 | 3; /* NXDOMAIN stays one; whatever AD it came with is not ours */
	reply[3] |= 0x20;
	reply[7] = 0;
	size_t m = dns_question_answer(made.wire, &q, 0, reply, 12 + q.n, false, out);
	assert_int_equal(out[3], 0x83);
	/* failures, and replies to something else, are SERVFAIL */
	static const struct {
		unsigned rcode, at, octet;
	} cases[] = { { 2, 0, 0 }, { 0, 5, 2 }, { 0, 2, 0x83 }, { 0, 13, 'x' }, { 0, 12, 4 } };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		n = reply_to(&made, q.n, reply);
		if (cases[i].at)
			reply[cases[i].at] = (unsigned char)cases[i].octet;
		m = dns_question_answer(made.wire, &q, cases[i].rcode, reply, n, true, out);
		assert_int_equal(m, 12 + q.n);
		assert_int_equal(dns_reply_read(&made, out, m, true, true, &a, &why), DNS_REPLY_FAILED);
		assert_string_equal(why, "SERVFAIL");
	}
	assert_int_equal(dns_question_answer(made.wire, &q, 0, NULL, 0, true, out), 12 + q.n);
	assert_int_equal(out[3], 0x82);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(names), cmocka_unit_test(refused), cmocka_unit_test(replies) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
