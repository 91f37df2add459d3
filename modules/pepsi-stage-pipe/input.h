/* What a command is given: the message as a file on standard input, and the envelope in its environment. */
#ifndef PIPE_INPUT_H
#define PIPE_INPUT_H

#include "base/arena.h"

#include <pepsi/stage.h>

/* A memfd with the raw message, positioned at its beginning; with json, a line of JSON stands before it. -1: errno. */
int input_open(const struct pepsi_host *h, struct pepsi_msg *m, const char *stage, bool json);
/* The environment: a fixed list of names. Values that are not printable ASCII without blanks, or too long, are left out, and
 * PEPSI_ENVELOPE says "incomplete" then. NULL-terminated, from the arena; NULL: memory is out. */
char **input_environment(struct arena *a, const struct pepsi_host *h, struct pepsi_msg *m, const char *stage, const char *hostname);

#endif
