/* Recipients named more than once: each is one, in the order of the first time, with the wishes of all times. */
#include "ingress/addressees.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { NEVER = SMTP_NOTIFY_NEVER, SUCCESS = SMTP_NOTIFY_SUCCESS, FAILURE = SMTP_NOTIFY_FAILURE, DELAY = SMTP_NOTIFY_DELAY, MANY = 50000 };

static struct smtp_rcpt rcpt(const char *address, unsigned notify, const char *orcpt)
{
	struct str a = str_from(address);
	ptrdiff_t at = str_chr(a, '@');
	struct str domain = at < 0 ? STR_NULL : str_skip(a, (size_t)at + 1);
	return (struct smtp_rcpt){ .address = a, .local = str_n(a.p, at < 0 ? a.n : (size_t)at), .domain = domain, .notify = notify, .orcpt = str_from(orcpt) };
}

static void each_once(void **state)
{
	struct smtp_rcpt r[] = { rcpt("zoe@b.test", 0, "rfc822;one"), rcpt("bob@a.test", SUCCESS, ""), rcpt("bobb@a.test", 0, ""), rcpt("zoe@B.TEST", 0, "rfc822;two"),
		rcpt("bob@a.tes", 0, ""), rcpt("postmaster", 0, ""), rcpt("BoB@a.test", FAILURE, ""), rcpt("bo@a.test", 0, ""), rcpt("postmaster", NEVER, "") };
	static const char *const want[] = { "zoe@b.test", "bob@a.test", "bobb@a.test", "bob@a.tes", "postmaster", "bo@a.test" };
	struct addressee out[9];
	struct smtp_transaction tx = { .rcpts = r, .n_rcpts = 9 };
	(void)state;
	assert_int_equal(addressees_once(&tx, out), 6);
	for (size_t i = 0; i < 6; i++)
		assert_true(str_eq(out[i].rcpt->address, str_from(want[i])));
	assert_true(str_eq(out[0].rcpt->orcpt, STR("rfc822;one")));
	assert_int_equal(out[0].notify, 0);
	assert_int_equal(out[1].notify, SUCCESS | FAILURE);
	assert_int_equal(out[4].notify, FAILURE | DELAY); /* one who was to hear nothing, and one who said nothing of it */
	tx.n_rcpts = 1;
	assert_int_equal(addressees_once(&tx, out), 1);
	tx.n_rcpts = 0;
	assert_int_equal(addressees_once(&tx, out), 0);
}

static void wishes(void **state)
{
	static const unsigned t[][3] = { { 0, 0, 0 }, { NEVER, NEVER, NEVER }, { NEVER, SUCCESS, SUCCESS }, { 0, SUCCESS, SUCCESS | FAILURE | DELAY }, { DELAY, FAILURE, DELAY | FAILURE },
		{ NEVER, 0, FAILURE | DELAY } };
	(void)state;
	for (size_t i = 0; i < sizeof t / sizeof *t; i++)
		for (unsigned turn = 0; turn < 2; turn++) {
			struct smtp_rcpt r[] = { rcpt("a@b.test", t[i][turn], ""), rcpt("a@b.test", t[i][!turn], "") };
			struct smtp_transaction tx = { .rcpts = r, .n_rcpts = 2 };
			struct addressee out[2];
			assert_int_equal(addressees_once(&tx, out), 1);
			assert_ptr_equal(out[0].rcpt, &r[0]);
			assert_int_equal(out[0].notify, t[i][2]);
		}
}

/* As many as a listener can be told to take, all one, and all different but for their last octets. */
static void many(void **state)
{
	struct smtp_rcpt *r = calloc(MANY, sizeof *r);
	struct addressee *out = calloc(MANY, sizeof *out);
	char(*text)[64] = calloc(MANY, sizeof *text);
	struct smtp_transaction tx = { .rcpts = r, .n_rcpts = MANY };
	(void)state;
	for (int i = 0; i < MANY; i++) {
		snprintf(text[i], sizeof text[i], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa%d@a.test", i % 25000);
		r[i] = rcpt("a@a.test", 0, "");
	}
	assert_int_equal(addressees_once(&tx, out), 1);
	for (int i = 0; i < MANY; i++)
		r[i] = rcpt(text[i], 0, "");
	assert_int_equal(addressees_once(&tx, out), 25000);
	for (int i = 0; i < 25000; i++)
		assert_ptr_equal(out[i].rcpt, &r[i]);
	free(text);
	free(out);
	free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_once), cmocka_unit_test(wishes), cmocka_unit_test(many) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
