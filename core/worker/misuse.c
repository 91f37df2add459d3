/* See misuse.h. */
#include "misuse.h"

#include "base/log.h"

#include <stdio.h>

void misuse_vsay(const char *key, const char *who, const char *fmt, va_list ap)
{
	static unsigned said;
	char text[300];
	if (said >= MISUSES_MAX)
		return;
	said++;
	vsnprintf(text, sizeof text, fmt, ap);
	log_error(NULL, "event=misuse %s=%s error=%s%s", key, who, log_qz(text), said == MISUSES_MAX ? " hint=\"no more of this is said\"" : "");
}

void misuse_say(const char *key, const char *who, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	misuse_vsay(key, who, fmt, ap);
	va_end(ap);
}
