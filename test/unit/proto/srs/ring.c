/* The key ring of SRS: what is a ring and what is none, rotation, removal; what is taken out is wiped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proto/srs/ring.h"

#include <string.h>

#define K1 "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define K2 "F00102030405060708090A0B0C0D0E0F101112131415161718191a1b1c1d1e1f"

static void texts(void **state)
{
	static const struct {
		const char *text, *why;
		unsigned line;
		size_t n;
	} cases[] = {
		{ "", NULL, 0, 0 },
		{ "# nothing\n\n", NULL, 0, 0 },
		{ "a active 17 " K1, NULL, 0, 1 },
		{ "a retired 17 " K1 "\r\nb active 18 " K2 "\r\n", NULL, 0, 2 },
		{ "\n\na active 17 " K1 " x\n", "a key is 64 hexadecimal digits, with nothing behind it", 3, 0 },
		{ "a active 17 " K1 "0\n", "a key is 64 hexadecimal digits, with nothing behind it", 1, 0 },
		{ "a active 17\n", "a key is 64 hexadecimal digits, with nothing behind it", 1, 0 },
		{ "a active -1 " K1 "\n", "no time in seconds since 1970", 1, 0 },
		{ "a new 17 " K1 "\n", "a key is active or retired", 1, 0 },
		{ "A active 17 " K1 "\n", "the name of a key takes lower case letters, digits and hyphens, at most 31", 1, 0 },
		{ "a active 17 " K1 "\nb active 17 " K2 "\n", "two active keys", 2, 0 },
		{ "a retired 17 " K1 "\nb retired 17 " K2 "\n", "two retired keys", 2, 0 },
		{ "a retired 17 " K1 "\na active 17 " K2 "\n", "a key of that name is there already", 2, 0 },
		{ "a retired 17 " K1 "\nb active 17 " K2 "\nc active 1 " K1 "\n", "more than two keys", 3, 0 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct srs_ring r = { .n = 7 };
		const char *why;
		unsigned line;
		int rc = srs_ring_parse(str_from(cases[i].text), &r, &why, &line);
		if (cases[i].why) {
			assert_int_equal(rc, -1);
			assert_string_equal(why, cases[i].why);
			assert_int_equal(line, cases[i].line);
			assert_int_equal(r.n, 7);
		} else {
			assert_int_equal(rc, 0);
			assert_int_equal(r.n, cases[i].n);
			assert_true(!r.n || srs_ring_active(&r) == r.key);
		}
	}
}

static void life(void **state)
{
	struct srs_ring r = { .n = 0 }, again;
	unsigned char key[3][SRS_RING_KEY], none[SRS_RING_KEY] = { 0 };
	const char *why;
	unsigned line;
	struct buf b = BUF_INIT(SRS_RING_TEXT_MAX);
	(void)state;
	for (unsigned i = 0; i < 3; i++)
		memset(key[i], (int)(0x11 * (i + 1)), sizeof key[i]);
	assert_true(!srs_ring_active(&r) && !srs_ring_retired(&r));
	assert_int_equal(srs_ring_rotate(&r, STR("Bad"), key[0], 1), -1);
	assert_int_equal(srs_ring_rotate(&r, STR("a"), key[0], 1), 0);
	assert_int_equal(srs_ring_rotate(&r, STR("a"), key[0], 1), -1);
	assert_int_equal(srs_ring_rotate(&r, STR("b"), key[1], 2), 0);
	assert_memory_equal(srs_ring_active(&r)->key, key[1], SRS_RING_KEY);
	assert_true(srs_ring_retired(&r)->since == 2 && !memcmp(srs_ring_retired(&r)->key, key[0], SRS_RING_KEY));
	assert_int_equal(srs_ring_rotate(&r, STR("c"), key[2], 3), 0); /* a is gone */
	assert_true(r.n == 2 && !srs_ring_find(&r, STR("a")) && srs_ring_find(&r, STR("b"))->retired);
	assert_int_equal(srs_ring_write(&r, &b), 0);
	assert_int_equal(srs_ring_parse(buf_str(&b), &again, &why, &line), 0);
	assert_memory_equal(&again, &r, sizeof r);
	assert_false(srs_ring_remove(&r, STR("a")));
	assert_true(srs_ring_remove(&r, STR("c")));
	assert_true(r.n == 1 && !srs_ring_active(&r) && srs_ring_retired(&r));
	assert_memory_equal(r.key[1].key, none, SRS_RING_KEY);
	/* a new one beside a retired one */
	assert_int_equal(srs_ring_rotate(&r, STR("d"), key[0], 4), 0);
	assert_true(srs_ring_retired(&r)->since == 3);
	srs_ring_wipe(&r);
	assert_true(!r.n && !memcmp(r.key[0].key, none, SRS_RING_KEY));
	buf_free_secret(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(texts), cmocka_unit_test(life) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
