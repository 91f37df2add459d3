/* Things by key: the longest unused goes, what is in use stays, two keys of one hash are two. */
#include "memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct thing {
	struct memory_item item;
	bool used;
};
static unsigned n_gone;

static bool may_go(void *item)
{
	return !((struct thing *)item)->used;
}

static void gone(void *item)
{
	n_gone++;
	free(item);
}

static struct thing *put(struct memory *m, const char *key)
{
	struct thing *t = calloc(1, sizeof *t);
	assert_non_null(t);
	if (memory_put(m, str_from(key), &t->item) == 0)
		return t;
	free(t);
	return NULL;
}

static void test_memory(void **state)
{
	struct memory m;
	char key[MEMORY_KEY_MAX + 2];
	(void)state;
	memory_init(&m, 3, 7, may_go, gone);
	assert_null(memory_get(&m, STR("a")));
	assert_non_null(put(&m, "a"));
	assert_non_null(put(&m, "b"));
	assert_non_null(put(&m, "c"));
	assert_non_null(memory_get(&m, STR("a"))); /* now b is the longest unused */
	assert_non_null(put(&m, "d"));
	assert_true(n_gone == 1 && m.n == 3 && !memory_get(&m, STR("b")) && memory_get(&m, STR("a")));
	/* c, d, a: c is in use */
	((struct thing *)memory_get(&m, STR("c")))->used = true;
	assert_non_null(memory_get(&m, STR("d")));
	assert_non_null(put(&m, "e")); /* a goes: c was touched, d after it */
	assert_true(memory_get(&m, STR("c")) && memory_get(&m, STR("d")) && !memory_get(&m, STR("a")));
	((struct thing *)memory_get(&m, STR("d")))->used = ((struct thing *)memory_get(&m, STR("e")))->used = true;
	assert_null(put(&m, "f")); /* all are in use */
	assert_true(m.n == 3 && n_gone == 2);
	memory_drop(&m, memory_get(&m, STR("e")));
	assert_true(m.n == 2 && n_gone == 3 && !memory_get(&m, STR("e")));
	memset(key, 'x', sizeof key - 1);
	key[sizeof key - 1] = 0;
	assert_null(put(&m, key));
	assert_non_null(put(&m, ""));
	memory_done(&m);
	assert_int_equal(n_gone, 6);
}

/* Two keys of one hash cannot be had by hand: one stands in for the other's. */
static void test_clash(void **state)
{
	struct memory m;
	(void)state;
	memory_init(&m, 10, 1, may_go, gone);
	struct thing *a = put(&m, "a");
	assert_non_null(a);
	a->item.key[0] = 'z'; /* what hashes like "a" */
	assert_null(memory_get(&m, STR("a")));
	a->used = true;
	assert_null(put(&m, "a"));
	a->used = false;
	assert_non_null(put(&m, "a"));
	assert_true(m.n == 1 && memory_get(&m, STR("a")));
	memory_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_memory), cmocka_unit_test(test_clash) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
