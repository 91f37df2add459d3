/* Two kinds of assertion. must(): a broken invariant, going on would lose or damage mail: the process ends, whatever
 * the build type. recover(): a bug that can be stepped around: logged once per place, and the caller takes its error
 * path: `if (!recover(n < max)) return -1;`. Neither is for input from outside. */
#ifndef PEPSI_BASE_CHECK_H
#define PEPSI_BASE_CHECK_H

#include <stdbool.h>

void check_must_failed(const char *what, const char *file, int line) __attribute__((noreturn));
void check_recover_failed(const char *what, const char *file, int line);

#define must(cond) ((cond) ? (void)0 : check_must_failed(#cond, __FILE__, __LINE__))
#define recover(cond) ((cond) ? true : (check_recover_failed(#cond, __FILE__, __LINE__), false))

#endif
