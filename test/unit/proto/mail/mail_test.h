/* Shared by the tests of proto/mail. */
#ifndef MAIL_TEST_H
#define MAIL_TEST_H

#include "base/str.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define assert_str(got, want)                                                                                          \
	do {                                                                                                             \
		struct str got_ = (got), want_ = (want);                                                                 \
		if (!str_eq(got_, want_))                                                                                \
			print_error("got  \"%.*s\"\nwant \"%.*s\"\n", STR_ARG(got_), STR_ARG(want_));                     \
		assert_true(str_eq(got_, want_));                                                                        \
	} while (0)

void test_received(void **state);
void test_received_hostile(void **state);
void test_received_read(void **state);
void test_received_width(void **state);

#endif
