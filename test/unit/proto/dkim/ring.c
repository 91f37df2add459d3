/* Key rings and records of private keys: what is written reads back, what nobody of ours wrote is refused, a rotation's steps. */
#include "proto/dkim/private.h"
#include "proto/dkim/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void refused(void **state)
{
	(void)state;
	static const char *const texts[] = { "a", "a rsa2048 active", "a rsa2048 active x", "a rsa2048 active -1", "a rsa2048 asleep 1", "a rsa2048 active 1 2",
		"a rsa2048 active 1 instead b", "a rsa2048 waiting 1 replaces b c", "a rsa2048 waiting 1 replaces a", "../a rsa2048 active 1", "A rsa2048 active 1", ".a rsa2048 active 1", "a. rsa2048 active 1", "-a rsa2048 active 1",
		"a rsa2048 active 1\na rsa2048 active 1", "a rsa2048rsa2048rsa2048 active 1", "a/b rsa2048 active 1", "a rsa-2048 active 1", "a RSA active 1", "a rsa2048 active 99999999999999999999" };
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct dkim_ring r = { .n = 99 };
		const char *why = NULL;
		unsigned line = 0;
		if (!dkim_ring_parse(str_from(texts[i]), &r, &why, &line))
			fail_msg("taken: %s", texts[i]);
		assert_non_null(why);
		assert_true(line >= 1);
		assert_int_equal(r.n, 99);
	}
}

static void full(void **state)
{
	(void)state;
	struct dkim_ring r = { .n = 0 }, back;
	struct buf b = BUF_INIT(DKIM_RING_TEXT_MAX);
	const char *why;
	unsigned line;
	for (unsigned i = 0; i < DKIM_RING_MAX; i++) {
		char name[16];
		snprintf(name, sizeof name, "s%u.x", i);
		assert_int_equal(dkim_ring_add(&r, str_from(name), "ed25519", (enum dkim_key_state)(i % 4), 1000 + i, i ? STR("s0.x") : STR_NULL), 0);
	}
	assert_int_equal(dkim_ring_add(&r, STR("more"), "ed25519", DKIM_KEY_ACTIVE, 1, STR_NULL), -1);
	assert_int_equal(dkim_ring_write(&r, &b), 0);
	assert_int_equal(dkim_ring_parse(buf_str(&b), &back, &why, &line), 0);
	assert_int_equal(back.n, r.n);
	for (size_t i = 0; i < r.n; i++) {
		assert_string_equal(back.key[i].selector, r.key[i].selector);
		assert_string_equal(back.key[i].replaces, r.key[i].replaces);
		assert_int_equal(back.key[i].state, r.key[i].state);
		assert_int_equal(back.key[i].since, r.key[i].since);
	}
	buf_free(&b);
}

static void steps(void **state)
{
	(void)state;
	struct dkim_ring r = { .n = 0 };
	assert_int_equal(dkim_ring_add(&r, STR("old"), "rsa2048", DKIM_KEY_ACTIVE, 1, STR_NULL), 0);
	assert_int_equal(dkim_ring_add(&r, STR("other"), "ed25519", DKIM_KEY_ACTIVE, 1, STR_NULL), 0);
	assert_int_equal(dkim_ring_add(&r, STR("new"), "rsa2048", DKIM_KEY_WAITING, 2, STR("old")), 0);
	assert_false(dkim_ring_switch(&r, STR("old"), 3));
	assert_true(dkim_ring_switch(&r, STR("new"), 3));
	assert_int_equal(dkim_ring_find(&r, STR("old"))->state, DKIM_KEY_RETIRED);
	assert_int_equal(dkim_ring_find(&r, STR("new"))->state, DKIM_KEY_ACTIVE);
	assert_int_equal(dkim_ring_find(&r, STR("other"))->state, DKIM_KEY_ACTIVE);
	assert_int_equal(dkim_ring_expire(&r, 12, 10), 0);
	assert_int_equal(dkim_ring_expire(&r, 13, 10), 1);
	assert_int_equal(dkim_ring_find(&r, STR("old"))->state, DKIM_KEY_REVOKED);
	dkim_ring_remove(&r, STR("old"));
	dkim_ring_remove(&r, STR("old"));
	assert_int_equal(r.n, 2);
	assert_string_equal(r.key[0].selector, "other");
}

static void records(void **state)
{
	(void)state;
	static const char *const kinds[] = { "rsa2048", "ed25519" };
	for (size_t i = 0; i < 2; i++) {
		struct dkim_private *k, *again;
		struct buf pem = BUF_INIT(DKIM_PEM_MAX), a = BUF_INIT(2048), b = BUF_INIT(2048), s = BUF_INIT(4096);
		const char *why;
		char kind[16];
		assert_int_equal(dkim_private_make(kinds[i], &k, &why), 0);
		assert_int_equal(dkim_private_pem(k, &pem), 0);
		assert_int_equal(dkim_private_read(buf_str(&pem), &again, &why), 0);
		dkim_private_kind(again, kind);
		assert_string_equal(kind, kinds[i]);
		assert_int_equal(dkim_private_record(k, &a), 0);
		assert_int_equal(dkim_private_record(again, &b), 0);
		assert_true(str_eq(buf_str(&a), buf_str(&b)));
		assert_true(dkim_record_same_key(buf_str(&a), buf_str(&b)));
		assert_false(dkim_record_same_key(buf_str(&a), STR("v=DKIM1; p=")));
		assert_int_equal(dkim_record_strings(buf_str(&a), &s), 0);
		dkim_private_free(k);
		dkim_private_free(again);
		buf_free_secret(&pem);
		buf_free(&a);
		buf_free(&b);
		buf_free(&s);
	}
	struct buf s = BUF_INIT(100);
	assert_int_equal(dkim_record_strings(STR("a\"b\\"), &s), 0);
	assert_string_equal(buf_z(&s), "\"a\\\"b\\\\\"");
	assert_int_equal(dkim_record_strings(STR("a\nb"), &s), -1);
	buf_free(&s);
	assert_true(dkim_record_same_key(STR("p=QUJD"), STR("v=DKIM1; k=rsa; t=s; p=QU JD")));
	assert_false(dkim_record_same_key(STR("p=QUJD"), STR("v=DKIM1; k=ed25519; p=QUJD")));
	assert_false(dkim_record_same_key(STR("nonsense"), STR("nonsense")));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(refused), cmocka_unit_test(full), cmocka_unit_test(steps), cmocka_unit_test(records) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
