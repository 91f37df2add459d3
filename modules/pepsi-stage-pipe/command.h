/* COMMAND of pepsi-stage-pipe: an absolute path and fixed arguments. No shell, no variables, and nothing of a message ever. */
#ifndef PIPE_COMMAND_H
#define PIPE_COMMAND_H

#include "base/arena.h"

enum { COMMAND_WORDS_MAX = 100 };

/* Cuts the text into words at blanks; a word in double quotes may hold blanks, and nothing else is special. Returns a
 * NULL-terminated vector from the arena, or NULL with the reason. */
char **command_parse(struct arena *a, const char *text, const char **why);

#endif
