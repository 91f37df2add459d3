/* The verbs of pepsi token. */
#ifndef CLI_TOOL_TOKEN_H
#define CLI_TOOL_TOKEN_H

#include "cli_internal.h"

int tool_token_list(struct cli *c);
int tool_token_show(struct cli *c);
int tool_token_add(struct cli *c);
int tool_token_sign_in(struct cli *c);
int tool_token_refresh(struct cli *c);
int tool_token_remove(struct cli *c);

#endif
