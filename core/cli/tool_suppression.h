/* pepsi suppression: its commands. */
#ifndef CLI_TOOL_SUPPRESSION_H
#define CLI_TOOL_SUPPRESSION_H

struct cli;
int tool_suppression_list(struct cli *c);
int tool_suppression_show(struct cli *c);
int tool_suppression_add(struct cli *c);
int tool_suppression_complaint(struct cli *c);
int tool_suppression_allow(struct cli *c);
int tool_suppression_remove(struct cli *c);

#endif
