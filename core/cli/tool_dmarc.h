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

/* --limit, --domain, --day, --since as members. NULL after a message. */
struct json_object *dmarc_arguments(const struct cli *c);
/* Opens the database and asks; args are taken over. NULL after a message; tool_db_close() in both cases. */
struct tool_db;
struct json_object *dmarc_ask(struct cli *c, struct tool_db *db, int question, struct json_object *args);
/* A member that is a list; its length. */
size_t dmarc_list_of(struct json_object *o, const char *key, struct json_object **ret);

/* dmarc_failures.c: what list and received print with --failures; o: as the database said it. */
void dmarc_print_failures(struct json_object *o);
void dmarc_print_failures_received(struct json_object *o);

int tool_dmarc_list(struct cli *c);
int tool_dmarc_show(struct cli *c);
int tool_dmarc_send(struct cli *c);
int tool_dmarc_received(struct cli *c);
int tool_dmarc_unmute(struct cli *c);

#endif
