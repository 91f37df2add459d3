/* What the files of pepsi dmarc share. */
#ifndef CLI_TOOL_DMARC_H
#define CLI_TOOL_DMARC_H

#include "cli_internal.h"

/* Is the option absent, or a date? False after a message. */
bool dmarc_day_ok(const struct cli *c, enum cli_opt opt);
/* Adds a text, unless it is NULL. */
void dmarc_add_text(struct json_object *o, const char *key, const char *text);
/* "2026-11-30", or with the time of day, UTC. */
void dmarc_time(char *out, size_t size, int64_t at, bool clock);

int tool_dmarc_list(struct cli *c);
int tool_dmarc_show(struct cli *c);
int tool_dmarc_send(struct cli *c);
int tool_dmarc_received(struct cli *c);
int tool_dmarc_unmute(struct cli *c);

#endif
