/* What the files of pepsi tlsrpt share. */
#ifndef CLI_TOOL_TLSRPT_H
#define CLI_TOOL_TLSRPT_H

#include "cli_internal.h"

int tool_tlsrpt_list(struct cli *c);
int tool_tlsrpt_show(struct cli *c);
int tool_tlsrpt_send(struct cli *c);
int tool_tlsrpt_received(struct cli *c);
int tool_tlsrpt_mute(struct cli *c);
int tool_tlsrpt_unmute(struct cli *c);

#endif
