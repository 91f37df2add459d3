/* The verbs of pepsi sts. */
#ifndef CLI_TOOL_STS_H
#define CLI_TOOL_STS_H

#include "cli_internal.h"

int tool_sts_list(struct cli *c);
int tool_sts_show(struct cli *c);
int tool_sts_fetch(struct cli *c);
int tool_sts_renew(struct cli *c);
int tool_sts_forget(struct cli *c);
int tool_sts_weaker(struct cli *c);
int tool_sts_addresses(struct cli *c);

#endif
