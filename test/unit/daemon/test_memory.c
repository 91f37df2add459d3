/* When free memory is handed back: the rule on figures, and the real thing on a heap with holes. */
#include "daemon/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MIB = 1 << 20 };

/* At which of n looks with these figures is it time; 0: never. */
static unsigned due(struct memory *m, unsigned n, size_t resident, size_t in_use)
{
	for (unsigned i = 1; i <= n; i++)
		if (memory_rule(m, resident * MIB, in_use * MIB))
			return i;
	return 0;
}

static void test_rule(void **state)
{
	struct memory m = { .statm = -1 };
	(void)state;
	/* what is there at the start stays; normal mail; a height that is in use */
	assert_int_equal(due(&m, 100, 8, 4), 0);
	assert_int_equal(due(&m, 100, 212, 205), 0);
	assert_int_equal(due(&m, 100, 300, 270), 0); /* an eighth of 270 */
	/* free at one look only, or at two: it is needed again */
	assert_int_equal(due(&m, 1, 212, 205), 0);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(due(&m, 2, 212, 10), 0);
		assert_int_equal(due(&m, 1, 212, 205), 0);
	}
	/* a flood that came and went between two looks, and one whose height was seen */
	assert_int_equal(due(&m, 1, 9, 4), 0);
	assert_int_equal(due(&m, 10, 73, 4), 3);
	memory_rule_done(&m, 9 * MIB, 4 * MIB);
	assert_int_equal(m.returns, 1);
	assert_int_equal(m.returned, 64 * MIB);
	assert_int_equal(due(&m, 100, 9, 4), 0);
	assert_int_equal(due(&m, 5, 212, 200), 0);
	assert_int_equal(due(&m, 10, 212, 4), 3);
	memory_rule_done(&m, 9 * MIB, 4 * MIB);
}

/* What lies in pages that are in use cannot be had: tried again in growing pauses, so that it is had once it can be. */
static void test_rule_pauses(void **state)
{
	struct memory m = { .statm = -1 };
	unsigned wait = 0, tries = 0;
	(void)state;
	for (unsigned i = 0; i < 1000; i++, wait++) {
		if (!memory_rule(&m, 60 * MIB, 10 * MIB))
			continue;
		memory_rule_done(&m, 60 * MIB, 10 * MIB);
		assert_in_range(wait, 0, MEMORY_PAUSE_MAX + MEMORY_LOOKS);
		wait = 0;
		tries++;
	}
	assert_in_range(tries, 10, 25);
	/* a new flood does not wait for that */
	assert_in_range(due(&m, 10, 100, 10), 1, 3);
	memory_rule_done(&m, 60 * MIB, 10 * MIB);
	/* and that it can be had now is found out within a pause */
	assert_in_range(due(&m, MEMORY_PAUSE_MAX + 1, 60, 10), 1, MEMORY_PAUSE_MAX + 1);
	memory_rule_done(&m, 14 * MIB, 10 * MIB);
	assert_int_equal(due(&m, 200, 14, 10), 0);
}

#if !defined(__SANITIZE_ADDRESS__)
/* 64 MiB in pieces, each followed by one that stays: nothing at the end of the heap can be cut off. */
static void test_heap_with_holes(void **state)
{
	enum { PIECES = 1024, PIECE = 64 * 1024 };
	static void *pieces[PIECES], *stay[PIECES];
	struct memory m;
	(void)state;
	memory_open(&m);
	assert_true(m.statm >= 0);
	for (unsigned i = 0; i < MEMORY_LOOKS; i++)
		memory_look(&m);
	size_t before = m.resident;
	for (unsigned i = 0; i < PIECES; i++) {
		pieces[i] = malloc(PIECE);
		stay[i] = malloc(100);
		assert_non_null(pieces[i]);
		assert_non_null(stay[i]);
		memset(pieces[i], 'x', PIECE);
	}
	memory_look(&m);
	size_t top = m.resident;
	assert_true(top > before + 60 * MIB);
	assert_true(m.in_use > 60 * MIB);
	for (unsigned i = 0; i < PIECES; i++)
		free(pieces[i]);
	for (unsigned i = 0; i < MEMORY_LOOKS + 1; i++)
		memory_look(&m);
	assert_int_equal(m.returns, 1);
	assert_true(m.returned > 50 * MIB);
	assert_true(m.resident < before + MEMORY_KEEP + 2 * PIECES * 4096); /* a page or two for each that stays */
	for (unsigned i = 0; i < PIECES; i++)
		free(stay[i]);
	memory_close(&m);
	memory_close(&m);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rule),
		cmocka_unit_test(test_rule_pauses),
#if !defined(__SANITIZE_ADDRESS__)
		cmocka_unit_test(test_heap_with_holes),
#endif
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
