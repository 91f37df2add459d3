/* What the tools write for people: hostile text made harmless, aligned tables, readable numbers. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include "base/buf.h"
#include "base/str.h"

#include <stdio.h>

/* Appends s so that a terminal shows it and does nothing else: controls (C0, DEL, C1), direction marks, line separators
 * and octets that are not UTF-8 become \xNN or \u{…}; a backslash becomes two. Cut behind max characters, with "…"
 * (0: not cut). Returns the number of columns, counting one per character. */
size_t cli_text_safe(struct buf *out, struct str s, size_t max);
/* The same, written to f. */
void cli_text_print(FILE *f, struct str s);
/* JSON text with DEL and the C1 range escaped, and a line end. */
void cli_text_print_json(FILE *f, const char *json);

enum { CLI_COLUMNS_MAX = 12 };
struct cli_table {
	const char *heads[CLI_COLUMNS_MAX];
	size_t max[CLI_COLUMNS_MAX];   /* widest a column may be; 0: no limit */
	bool right[CLI_COLUMNS_MAX];   /* numbers */
	size_t n;                      /* columns */
	/* private */
	struct buf cells;              /* each cell followed by NUL */
	size_t width[CLI_COLUMNS_MAX], at;
};
/* Columns filled in by the caller, then cells row by row (escaped here), then printed and freed at once. */
void cli_table_cell(struct cli_table *t, struct str s);
void cli_table_cellf(struct cli_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cli_table_print(struct cli_table *t, FILE *f);

/* "3 d 4 h", "5 min 2 s". */
void cli_text_duration(char *out, size_t size, int64_t seconds);
/* "12.3 KiB". */
void cli_text_octets(char *out, size_t size, int64_t octets);
/* "2026-11-30T11:26:28.123456+00:00" becomes "2026-11-30 11:26:28"; other text stays. */
void cli_text_time(char *out, size_t size, struct str stamp);

#endif
