/* Allocation that fails on demand, for memory.c. */
#ifndef TEST_SMTP_MEMORY_HOOK_H
#define TEST_SMTP_MEMORY_HOOK_H

#include <stdbool.h>
#include <stddef.h>

/* The n-th allocation from now on fails (once); 0: none. */
void memory_fail_at(unsigned n);
/* Did it? */
bool memory_failed(void);
/* Blocks in use. */
long memory_balance(void);

void *hook_malloc(size_t n);
void *hook_calloc(size_t n, size_t size);
void *hook_realloc(void *p, size_t n);
void hook_free(void *p);

#endif
