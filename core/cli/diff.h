/* Two texts compared line by line, as `diff -u` shows it. Pure. */
#ifndef CLI_DIFF_H
#define CLI_DIFF_H

#include "base/str.h"

enum { DIFF_CONTEXT = 3 };

/* Called for each line of the result, without line end; kind is '@' (text: "@@ -1,3 +1,4 @@"), ' ', '-' or '+'. */
typedef void (*diff_line_fn)(void *arg, char kind, struct str text);

/* Calls fn for the lines of a unified diff from a to b, whose lines end in LF or CRLF (the CR is not shown); nothing when they
 * are equal. The number of lines that must be compared with each other is bounded: texts that differ in very many lines come out as all
 * taken away and all added. Returns 0, or -1: memory is out. */
int diff_unified(struct str a, struct str b, diff_line_fn fn, void *arg);

#endif
