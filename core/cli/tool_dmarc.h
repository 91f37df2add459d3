/* What the files of pepsi dmarc share. */
#ifndef CLI_TOOL_DMARC_H
#define CLI_TOOL_DMARC_H

#include "cli_internal.h"

/* dmarc_failures.c: what list and received print with --failures; o: as the database said it. */
void dmarc_print_failures(struct json_object *list);
void dmarc_print_failures_received(struct json_object *o);

int tool_dmarc_list(struct cli *c);
int tool_dmarc_show(struct cli *c);
int tool_dmarc_send(struct cli *c);
int tool_dmarc_received(struct cli *c);
int tool_dmarc_unmute(struct cli *c);

#endif
