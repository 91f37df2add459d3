/* Formatting for modules: the host takes plain text. */
#ifndef SUPPORT_SAY_H
#define SUPPORT_SAY_H

#include "base/str.h"

#include <pepsi/stage.h>

/* One log line of this message (msg may be NULL). */
void say(const struct pepsi_host *h, struct pepsi_msg *msg, int32_t level, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* One finding of validate(). */
void fault(const struct pepsi_host *h, struct pepsi_report *r, const char *option, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Is there a [stage-NAME]? */
bool stage_exists(const struct pepsi_host *h, const struct pepsi_conf *c, const char *stage);

static inline struct str from_host(struct pepsi_str s)
{
	return str_n(s.p, s.n);
}

#endif
