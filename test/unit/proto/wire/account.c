/* proto/wire/account: requests, answers and rows come out as they went in; cut ones and limits. */
#include "proto/wire/account.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static char big[4096];

static struct wire_account_request request(void)
{
	return (struct wire_account_request){ .op = WIRE_ACCOUNT_ADD, .name = STR("Alice"), .set_password = true, .password = STR("se\0cret"),
		.set_enabled = true, .enabled = true, .set_senders = true, .senders = { STR("@b.test"), STR("*") }, .n_senders = 2,
		.set_certificates = true, .certificates = { STR("ab:cd") }, .n_certificates = 1,
		.caps = { 0, 5, WIRE_ACCOUNT_CAP_KEEP, WIRE_ACCOUNT_CAP_DEFAULT } };
}

static void overlay_rows(void **st)
{
	struct wire_overlay_row r = { STR("stage-x"), STR("KEY"), STR("va lue") }, back;
	struct buf b = BUF_INIT(WIRE_ACCOUNT_ROWS_MAX);
	(void)st;
	assert_int_equal(wire_overlay_row_put(&b, &r), 0);
	r.value = STR("");
	assert_int_equal(wire_overlay_row_put(&b, &r), 0);
	struct str rest = buf_str(&b);
	assert_int_equal(wire_overlay_row_get(&rest, &back), 1);
	assert_true(str_eq(back.section, STR("stage-x")) && str_eq(back.option, STR("KEY")) && str_eq(back.value, STR("va lue")));
	assert_int_equal(wire_overlay_row_get(&rest, &back), 1);
	assert_int_equal(back.value.n, 0);
	assert_int_equal(wire_overlay_row_get(&rest, &back), 0);
	for (size_t cut = 1; cut < b.n / 2; cut++) {
		rest = str_n(b.p, cut);
		assert_int_equal(wire_overlay_row_get(&rest, &back), -1);
	}
	memset(big, 'x', sizeof big);
	r.section = str_n(big, WIRE_OVERLAY_NAME_MAX + 1);
	assert_int_equal(wire_overlay_row_put(&b, &r), -1);
	r.section = STR("a\nb");
	assert_int_equal(wire_overlay_row_put(&b, &r), -1);
	buf_free(&b);
}

static void requests(void **st)
{
	struct wire_account_request r = request(), back;
	struct buf b = BUF_INIT(WIRE_ACCOUNT_DATAGRAM_MAX);
	(void)st;
	assert_int_equal(wire_account_request_put(&b, &r), 0);
	assert_int_equal(wire_account_request_get(buf_str(&b), &back), 0);
	assert_true(back.op == r.op && back.set_password && back.enabled && back.set_senders && back.set_certificates);
	assert_true(str_eq(back.password, STR("se\0cret")) && str_eq(back.senders[1], STR("*")) && str_eq(back.certificates[0], STR("ab:cd")));
	assert_memory_equal(back.caps, r.caps, sizeof r.caps);
	for (size_t cut = 0; cut < b.n; cut++) {
		char *p = malloc(cut ? cut : 1);
		memcpy(p, b.p, cut);
		assert_int_equal(wire_account_request_get(str_n(p, cut), &back), -1);
		free(p);
	}
	assert_int_equal(wire_account_request_put(&b, &r), -1); /* not behind another */
	buf_reset(&b);
	memset(big, 'x', sizeof big);
	r.password = str_n(big, 2 * WIRE_SIGNIN_PASSWORD_MAX + 1);
	assert_int_equal(wire_account_request_put(&b, &r), -1);
	r = request();
	r.n_senders = WIRE_SIGNIN_SENDERS_MAX + 1;
	assert_int_equal(wire_account_request_put(&b, &r), -1);
	r = request();
	r.caps[0] = (uint32_t)WIRE_ACCOUNT_CAP_MAX + 1;
	assert_int_equal(wire_account_request_put(&b, &r), -1);
	r = request();
	r.op = WIRE_OVERLAY_LIST + 1;
	assert_int_equal(wire_account_request_put(&b, &r), -1);
	buf_free(&b);
}

static void rows(void **st)
{
	struct wire_account_row row = { .name = STR("a"), .has_password = true, .enabled = true, .senders = { STR("@b.test") }, .n_senders = 1,
		.created_at = 1, .changed_at = 2, .signed_in_at = 3 }, back;
	struct buf b = BUF_INIT(WIRE_ACCOUNT_ROWS_MAX), d = BUF_INIT(WIRE_ACCOUNT_DATAGRAM_MAX);
	struct wire_account_answer an = { .ok = true, .more = true }, an_back;
	(void)st;
	for (int i = 0; i < 3; i++)
		assert_int_equal(wire_account_row_put(&b, &row), 0);
	an.rows = buf_str(&b);
	assert_int_equal(wire_account_answer_put(&d, &an), 0);
	assert_int_equal(wire_account_answer_get(buf_str(&d), &an_back), 0);
	assert_true(an_back.ok && an_back.more);
	struct str rest = an_back.rows;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(wire_account_row_get(&rest, &back), 1);
		assert_true(str_eq(back.name, STR("a")) && back.signed_in_at == 3 && str_eq(back.senders[0], STR("@b.test")));
	}
	assert_int_equal(wire_account_row_get(&rest, &back), 0);
	rest = str_n(b.p, b.n - 1);
	assert_int_equal(wire_account_row_get(&rest, &back), 1);
	assert_int_equal(wire_account_row_get(&rest, &back), 1);
	assert_int_equal(wire_account_row_get(&rest, &back), -1);
	/* as large as a row can be: one still fits behind enough others */
	memset(big, 'y', sizeof big);
	row.n_senders = WIRE_SIGNIN_SENDERS_MAX;
	for (size_t i = 0; i < WIRE_SIGNIN_SENDERS_MAX; i++)
		row.senders[i] = str_n(big, WIRE_ACCOUNT_SENDER_MAX);
	row.n_certificates = WIRE_ACCOUNT_CERTIFICATES_MAX;
	for (size_t i = 0; i < WIRE_ACCOUNT_CERTIFICATES_MAX; i++)
		row.certificates[i] = str_n(big, WIRE_ACCOUNT_CERTIFICATE_MAX);
	buf_reset(&b);
	buf_room(&b, WIRE_ACCOUNT_ROWS_ENOUGH);
	b.n = WIRE_ACCOUNT_ROWS_ENOUGH;
	assert_int_equal(wire_account_row_put(&b, &row), 0);
	buf_free(&b);
	buf_free(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(overlay_rows), cmocka_unit_test(requests), cmocka_unit_test(rows) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
