/* One line per fact, to standard error: a priority prefix under systemd, else a time; then the program part, the
 * inherited context (queue id first), the event word and key=value pairs. Text of peers goes through log_q(); the line
 * as a whole is escaped again, so nothing that is logged can start a second line. Only outermost callers log;
 * base and proto return codes instead. */
#ifndef PEPSI_BASE_LOG_H
#define PEPSI_BASE_LOG_H

#include "str.h"

#include <stdarg.h>

enum log_level { LOG_LV_ERROR, LOG_LV_WARN, LOG_LV_INFO, LOG_LV_DEBUG, LOG_LV_TRACE };

/* Context of a line: printed outermost first ("listener=mx client=192.0.2.1 id=12"). Lives where its owner lives. */
struct log_ctx {
	const struct log_ctx *parent; /* or NULL */
	char text[160];               /* "key=value …", already safe */
};

/* Lines above this level are dropped. Default LOG_LV_INFO. Part: "reactor", "worker init", … (copied). */
void log_setup(enum log_level max, const char *part);
enum log_level log_max(void);
/* error, warn, info, debug, trace. Returns 0 or -1. */
int log_level_parse(struct str s, enum log_level *ret);
/* Formats ctx->text. */
void log_ctx_set(struct log_ctx *ctx, const struct log_ctx *parent, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

void log_line(enum log_level lv, const struct log_ctx *ctx, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void log_vline(enum log_level lv, const struct log_ctx *ctx, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));

#define log_error(ctx, ...) log_line(LOG_LV_ERROR, ctx, __VA_ARGS__)
#define log_warn(ctx, ...) log_line(LOG_LV_WARN, ctx, __VA_ARGS__)
#define log_info(ctx, ...) log_line(LOG_LV_INFO, ctx, __VA_ARGS__)
#define log_debug(ctx, ...) log_line(LOG_LV_DEBUG, ctx, __VA_ARGS__)

/* s quoted and escaped for a value ("…", \xNN), cut at 256 octets; one of eight rotating static buffers, so up to eight
 * may be used in one log call. */
const char *log_q(struct str s);
const char *log_qz(const char *z);
/* A mail address: <a@b>, or as log_q() where it is long or holds what could pass for other words of the line. Four of these in one log call. */
const char *log_address(struct str address);

#endif
