/* What every test program of this folder needs of cmocka. */
#ifndef TEST_SMTP_CHECK_H
#define TEST_SMTP_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Says which case it is before the assertion that fails. */
#define CHECK(cond, ...)                                                                                               \
	do {                                                                                                           \
		if (!(cond)) {                                                                                         \
			print_error("case: " __VA_ARGS__);                                                             \
			print_error("\n");                                                                             \
			assert_true(cond);                                                                             \
		}                                                                                                      \
	} while (0)

#endif
