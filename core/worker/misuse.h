/* A module broke a rule of its interface where there is no message to say so of: its author is told in the log. */
#ifndef WORKER_MISUSE_H
#define WORKER_MISUSE_H

#include <stdarg.h>

enum { MISUSES_MAX = 200 }; /* lines of one process: a module that does it wrong does so often */

/* event=misuse KEY=WHO error="…". key: "program" or "stage". */
void misuse_say(const char *key, const char *who, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void misuse_vsay(const char *key, const char *who, const char *fmt, va_list ap) __attribute__((format(printf, 3, 0)));

#endif
