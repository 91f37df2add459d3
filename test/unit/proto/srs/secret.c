/* Tags are compared in constant time: by construction, and seen from inside. Every forged octet, whichever it is, makes the same comparisons, each of them the
 * constant-time one over the whole tag and with every key; nothing else that looks at octets of a tag decides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/str.h"

/* What tag.c compares with, counted. */
static size_t compared, octets;

static bool counted(struct str a, struct str b)
{
	compared++;
	octets += a.n;
	assert_int_equal(a.n, b.n);
	return str_eq_secret(a, b);
}

/* Comparisons that end at the first difference are not to be used there at all. */
static int __attribute__((unused)) refused(void)
{
	fail_msg("a tag was compared by a function that stops early");
	return 0;
}

#define str_eq_secret counted
#define str_eq(a, b) (refused() != 0)
#define str_ieq(a, b) (refused() != 0)
#define memcmp(a, b, n) refused()
#define strcmp(a, b) refused()
#define strncmp(a, b, n) refused()
#define strcasecmp(a, b) refused()
#define strncasecmp(a, b, n) refused()
#include "proto/srs/tag.c"
#undef str_eq
#undef str_ieq
#undef memcmp
#undef strcmp
#undef strncmp
#undef strcasecmp
#undef strncasecmp

static void every_forgery_costs_the_same(void **state)
{
	static const struct srs rings[] = {
		{ .keys = { STR_INIT("0123456789abcdef"), STR_INIT("fedcba9876543210") } },
		{ .keys = { STR_INIT("0123456789abcdef") } },
		{ .keys = { STR_INIT("0123456789abcdef"), STR_INIT("fedcba9876543210") }, .weak = true },
	};
	const struct srs_covered c = { .type = '0', .separator = '=', .day = 20788, .host = STR("far.test"), .user = STR("ann") };
	(void)state;
	for (size_t r = 0; r < sizeof rings / sizeof *rings; r++) {
		const struct srs *s = &rings[r];
		size_t n = srs_tag_size(s), keys = 1 + (s->keys[1].n > 0);
		char made[SRS_TAG_MAX], bent[SRS_TAG_MAX];
		for (size_t by = 0; by < keys; by++) {
			assert_int_equal(srs_tag(s, s->keys[by], &c, made), 0);
			for (size_t at = 0; at <= n; at++) /* n: as it was made */
				for (unsigned bit = 0; bit < 8; bit++) {
					memcpy(bent, made, n);
					if (at < n)
						bent[at] = (char)(bent[at] ^ 1 << bit);
					compared = octets = 0;
					int good = srs_tag_check(s, &c, str_n(bent, n));
					bool same_letter = at < n && bit == 5 && ((made[at] | 32) >= 'a' && (made[at] | 32) <= 'z'); /* case is ignored */
					if (good != (at == n || same_letter))
						fail_msg("ring %zu: octet %zu bit %u: %d", r, at, bit, good);
					assert_int_equal(compared, keys); /* no key is left out once another one fits */
					assert_int_equal(octets, keys * n);
				}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_forgery_costs_the_same) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
