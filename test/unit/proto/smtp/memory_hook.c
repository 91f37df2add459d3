/* The allocator that memory.c's engine is compiled against: counts, and fails where it is told to. */
#include "memory_hook.h"

#include <stdlib.h>

static unsigned countdown;
static bool failed;
static long balance;

void memory_fail_at(unsigned n)
{
	countdown = n;
	failed = false;
}

bool memory_failed(void)
{
	return failed;
}

long memory_balance(void)
{
	return balance;
}

static bool fails(void)
{
	if (countdown && !--countdown)
		failed = true;
	else
		return false;
	return true;
}

void *hook_malloc(size_t n)
{
	void *p = fails() ? NULL : malloc(n);
	balance += p != NULL;
	return p;
}

void *hook_calloc(size_t n, size_t size)
{
	void *p = fails() ? NULL : calloc(n, size);
	balance += p != NULL;
	return p;
}

void *hook_realloc(void *p, size_t n)
{
	void *q = fails() ? NULL : realloc(p, n);
	balance += q && !p;
	return q;
}

void hook_free(void *p)
{
	balance -= p != NULL;
	free(p);
}
