/* Formatting for modules. */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>

void say(const struct pepsi_host *h, struct pepsi_msg *msg, int32_t level, const char *fmt, ...)
{
	char text[2048]; /* with what a remote host said */
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	h->log(msg, level, text);
}

void fault(const struct pepsi_host *h, struct pepsi_report *r, const char *option, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	h->report(r, option, text);
}

bool stage_exists(const struct pepsi_host *h, const struct pepsi_conf *c, const char *stage)
{
	char section[160];
	if (snprintf(section, sizeof section, "stage-%s", stage) >= (int)sizeof section)
		return false;
	return h->conf_global(c, section, "PROGRAM") != NULL;
}
