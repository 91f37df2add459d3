/* Return addresses bound to a recipient: there and back, for whom they speak, what is forged, keys that change, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "proto/srs/verp.h"

enum { NOW = 1796000000, DAY = 86400, FORGERIES = 10000 };

static const struct srs ours = { .domain = STR_INIT("b.home.test"), .keys = { STR_INIT("0123456789abcdef0123456789abcdef") } };

static void there_and_back(void **state)
{
	struct buf a = BUF_INIT(1024), other = BUF_INIT(1024), home = BUF_INIT(1024);
	struct verp v;
	(void)state;
	assert_int_equal(verp_make(&ours, STR("ann@home.test"), STR("Bob@Far.test"), NOW, &a), SRS_OK);
	assert_true(str_istarts(buf_str(&a), STR("SRS0=")) && str_iends(buf_str(&a), STR("-ann@b.home.test")));
	assert_int_equal(verp_read(&ours, buf_str(&a), NOW + 20 * DAY, &home, &v), SRS_OK);
	assert_string_equal(buf_z(&home), "ann@home.test");
	assert_true(verp_fits(&ours, &v, STR("bob@far.test")));
	assert_false(verp_fits(&ours, &v, STR("eve@far.test")));
	/* each recipient's is another; the same on the same day */
	assert_int_equal(verp_make(&ours, STR("ann@home.test"), STR("eve@far.test"), NOW, &other), SRS_OK);
	assert_false(str_eq(buf_str(&a), buf_str(&other)));
	buf_reset(&other);
	assert_int_equal(verp_make(&ours, STR("ann@home.test"), STR("bob@far.test"), NOW, &other), SRS_OK);
	assert_string_equal(buf_z(&a), buf_z(&other));
	/* it is too old; it is no address of SRS, and none of SRS is one of these */
	buf_reset(&home);
	assert_int_equal(verp_read(&ours, buf_str(&a), NOW + 30 * DAY, &home, &v), SRS_EXPIRED);
	assert_int_equal(srs_reverse(&ours, buf_str(&a), NOW, &home), SRS_FORGED);
	buf_reset(&other);
	assert_int_equal(srs_forward(&ours, STR("abcdefgh-ann@home.test"), NOW, &other), SRS_OK);
	assert_int_equal(verp_read(&ours, buf_str(&other), NOW, &home, &v), SRS_FORGED);
	assert_int_equal(home.n, 0);
	/* an author with a domain of other letters */
	buf_reset(&other);
	buf_reset(&home);
	assert_int_equal(verp_make(&ours, STR("ann@b\xc3\xbc" "cher.test"), STR("bob@far.test"), NOW, &other), SRS_OK);
	assert_int_equal(verp_read(&ours, buf_str(&other), NOW, &home, &v), SRS_OK);
	assert_string_equal(buf_z(&home), "ann@xn--bcher-kva.test");
	assert_true(verp_fits(&ours, &v, STR("bob@far.test")));
	buf_reset(&home);
	/* a relay that folds the local part */
	buf_reset(&other);
	for (size_t i = 0; i < a.n; i++)
		buf_addc(&other, a.p[i] >= 'A' && a.p[i] <= 'Z' ? (char)(a.p[i] + 32) : a.p[i]);
	assert_int_equal(verp_read(&ours, buf_str(&other), NOW, &home, &v), SRS_OK);
	assert_true(verp_fits(&ours, &v, STR("bob@far.test")));
	buf_free(&a);
	buf_free(&other);
	buf_free(&home);
}

static void keys(void **state)
{
	struct srs next = { .domain = ours.domain, .keys = { STR("ffffffffffffffffffffffffffffffff"), ours.keys[0] } }, later = { .domain = ours.domain, .keys = { next.keys[0] } };
	struct buf a = BUF_INIT(1024), home = BUF_INIT(1024);
	struct verp v;
	(void)state;
	assert_int_equal(verp_make(&ours, STR("ann@home.test"), STR("bob@far.test"), NOW, &a), SRS_OK);
	assert_int_equal(verp_read(&next, buf_str(&a), NOW, &home, &v), SRS_OK);
	assert_true(verp_fits(&next, &v, STR("bob@far.test")));
	assert_false(verp_fits(&later, &v, STR("bob@far.test")));
	buf_reset(&home);
	assert_int_equal(verp_read(&later, buf_str(&a), NOW, &home, &v), SRS_FORGED);
	struct srs none = { .domain = ours.domain };
	buf_reset(&a);
	assert_int_equal(verp_make(&none, STR("ann@home.test"), STR("bob@far.test"), NOW, &a), SRS_KEY);
	buf_free(&a);
	buf_free(&home);
}

/* One bit changed, or one character of the part that says for whom: never taken. */
static void forgeries(void **state)
{
	struct buf a = BUF_INIT(1024), home = BUF_INIT(1024);
	struct verp v;
	unsigned seed = 7;
	(void)state;
	assert_int_equal(verp_make(&ours, STR("ann@home.test"), STR("bob@far.test"), NOW, &a), SRS_OK);
	struct str good = buf_str(&a);
	size_t local = (size_t)str_chr(good, '@');
	for (int i = 0; i < FORGERIES; i++) {
		char copy[256];
		memcpy(copy, good.p, good.n);
		seed = seed * 1103515245u + 12345u;
		size_t at = (seed >> 16) % local;
		seed = seed * 1103515245u + 12345u;
		copy[at] = (char)(copy[at] ^ 1 << (seed >> 16) % 8);
		bool folded = (copy[at] | 0x20) == (good.p[at] | 0x20) && ((copy[at] | 0x20) >= 'a' && (copy[at] | 0x20) <= 'z');
		buf_reset(&home);
		int r = verp_read(&ours, str_n(copy, good.n), NOW, &home, &v);
		if (r == SRS_OK && !(folded && str_ieq(buf_str(&home), STR("ann@home.test"))))
			fail_msg("taken: %.*s", (int)good.n, copy);
	}
	buf_free(&a);
	buf_free(&home);
}

static void odd(void **state)
{
	static const struct {
		const char *sender;
		int want;
	} cases[] = {
		{ "a-very-long-name-of-a-newsletter@a-very-long-domain.example.org", SRS_TOO_LONG }, { "newsletter@example.org", SRS_OK }, { "\"a b\"@home.test", SRS_BAD_ADDRESS },
		{ "ann", SRS_BAD_ADDRESS }, { "@home.test", SRS_BAD_ADDRESS }, { "", SRS_BAD_ADDRESS }, { ".ann@home.test", SRS_BAD_ADDRESS }, { "ann@b.home.test", SRS_BAD_ADDRESS },
	};
	static const char *const read[] = { "", "@", "ann@home.test", "SRS0@b.home.test", "SRS0=x=y=z=w@b.home.test", "SRS1=a=b==c@b.home.test" };
	struct buf a = BUF_INIT(1024);
	struct verp v;
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		buf_reset(&a);
		assert_int_equal(verp_make(&ours, str_from(cases[i].sender), STR("bob@far.test"), NOW, &a), cases[i].want);
		assert_true((cases[i].want == SRS_OK) == (a.n > 0));
	}
	buf_reset(&a);
	for (size_t i = 0; i < sizeof read / sizeof *read; i++)
		assert_true(verp_read(&ours, str_from(read[i]), NOW, &a, &v) < 0 && !a.n);
	buf_free(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(there_and_back), cmocka_unit_test(keys), cmocka_unit_test(forgeries), cmocka_unit_test(odd) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
