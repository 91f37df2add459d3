/* The log writer. One write(2) per line so that lines of several processes do not mix. May not allocate. */
#include "log.h"

#include "check.h"
#include "clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_OCTETS = 2048, QUOTE_MAX = 256 };

static enum log_level max_level = LOG_LV_INFO;
static char part[64] = "pepsi";

void log_setup(enum log_level max, const char *name)
{
	max_level = max;
	snprintf(part, sizeof part, "%s", name);
}

enum log_level log_max(void)
{
	return max_level;
}

int log_level_parse(struct str s, enum log_level *ret)
{
	static const char *const names[] = { "error", "warn", "info", "debug", "trace" };
	for (unsigned i = 0; i < 5; i++)
		if (str_ieq(s, str_from(names[i]))) {
			*ret = (enum log_level)i;
			return 0;
		}
	return -1;
}

void log_ctx_set(struct log_ctx *ctx, const struct log_ctx *parent, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(ctx->text, sizeof ctx->text, fmt, ap);
	va_end(ap);
	ctx->parent = parent;
}

static size_t put_ctx(char *at, size_t room, const struct log_ctx *ctx, int depth)
{
	size_t n = 0;
	if (!ctx || depth > 8)
		return 0;
	n = put_ctx(at, room, ctx->parent, depth + 1);
	if (!ctx->text[0] || n >= room)
		return n;
	int k = snprintf(at + n, room - n, "%s ", ctx->text);
	return k < 0 ? n : n + (size_t)k < room ? n + (size_t)k : room;
}

static bool under_systemd(void)
{
	static int known = -1;
	if (known < 0)
		known = getenv("JOURNAL_STREAM") != NULL;
	return known > 0;
}

void log_vline(enum log_level lv, const struct log_ctx *ctx, const char *fmt, va_list ap)
{
	static const char prio[] = "34677", word[][6] = { "error", "warn", "info", "debug", "trace" };
	char raw[LINE_MAX_OCTETS], out[LINE_MAX_OCTETS + 64];
	size_t n;
	if (lv > max_level)
		return;
	n = put_ctx(raw, sizeof raw / 2, ctx, 0);
	int k = vsnprintf(raw + n, sizeof raw - n, fmt, ap);
	if (k < 0)
		return;
	n = n + (size_t)k < sizeof raw ? n + (size_t)k : sizeof raw - 1;

	size_t o;
	if (under_systemd()) {
		o = (size_t)snprintf(out, sizeof out, "<%c>%s: ", prio[lv], part);
	} else {
		int64_t us = clock_wall_us();
		time_t t = (time_t)(us / US_PER_S);
		struct tm tm;
		gmtime_r(&t, &tm);
		o = strftime(out, sizeof out, "%FT%T", &tm);
		o += (size_t)snprintf(out + o, sizeof out - o, ".%03dZ %-5s %s: ", (int)(us % US_PER_S / 1000), word[lv], part);
	}
	for (size_t i = 0; i < n && o + 6 < sizeof out; i++) {
		unsigned char c = (unsigned char)raw[i];
		if (c < 0x20 || c == 0x7f)
			o += (size_t)snprintf(out + o, sizeof out - o, "\\x%02x", c);
		else
			out[o++] = (char)c;
	}
	out[o++] = '\n';
	ssize_t w = write(STDERR_FILENO, out, o);
	(void)w; /* a log that cannot be written has nobody to be told */
}

void log_line(enum log_level lv, const struct log_ctx *ctx, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	log_vline(lv, ctx, fmt, ap);
	va_end(ap);
}

/* Octets at s, three at most, of a character that steers a terminal or turns the order of what stands around it: C1 controls, line separators, marks of
 * direction. As in core/cli/text.c. */
static size_t steers(struct str s)
{
	unsigned char c[3] = { 0 };
	memcpy(c, s.p, s.n < 3 ? s.n : 3);
	if (c[0] == 0xc2)
		return c[1] >= 0x80 && c[1] < 0xa0 ? 2 : 0;
	return c[0] == 0xe2 && ((c[1] == 0x80 && c[2] >= 0xa8 && c[2] <= 0xae) || (c[1] == 0x81 && c[2] >= 0xa0 && c[2] <= 0xaf)) ? 3 : 0;
}

const char *log_q(struct str s)
{
	static char ring[8][QUOTE_MAX * 4 + 8];
	static unsigned at;
	char *q = ring[at++ % 8];
	size_t o = 0, n = s.n < QUOTE_MAX ? s.n : QUOTE_MAX;
	q[o++] = '"';
	for (size_t i = 0, escape = 0; i < n; i++, escape -= escape > 0) {
		unsigned char c = (unsigned char)s.p[i];
		if (!escape && c >= 0x80)
			escape = steers(str_skip(s, i));
		if (c == '"' || c == '\\') {
			q[o++] = '\\';
			q[o++] = (char)c;
		} else if (c < 0x20 || c == 0x7f || escape) {
			o += (size_t)snprintf(q + o, 5, "\\x%02x", c);
		} else {
			q[o++] = (char)c;
		}
	}
	if (n < s.n) {
		q[o++] = '.';
		q[o++] = '.';
	}
	q[o++] = '"';
	q[o] = 0;
	return q;
}

const char *log_qz(const char *z)
{
	return log_q(str_from(z));
}

const char *log_address(struct str address)
{
	static char ring[4][QUOTE_MAX + 3];
	static unsigned at;
	char *p = ring[at++ % 4];
	bool plain = address.n <= QUOTE_MAX, ascii = true;
	for (size_t i = 0; i < address.n; i++) {
		ascii = ascii && (unsigned char)address.p[i] < 127;
		plain = plain && (unsigned char)address.p[i] > 32 && !strchr("\"<>\\", address.p[i]);
	}
	const char *quoted = log_q(address);
	if (!plain || (!ascii && strlen(quoted) != address.n + 2)) /* something in it was escaped */
		return quoted;
	snprintf(p, sizeof ring[0], "<%.*s>", STR_ARG(address));
	return p;
}

void check_must_failed(const char *what, const char *file, int line)
{
	log_error(NULL, "bug=fatal check=%s at=%s:%d", log_qz(what), file, line);
	abort();
}

void check_recover_failed(const char *what, const char *file, int line)
{
	log_error(NULL, "bug=recovered check=%s at=%s:%d", log_qz(what), file, line);
}
