/* The operator's tools: `pepsi TOOL …`, or `pepsi-TOOL …` through links. */
#ifndef PEPSI_CLI_CLI_H
#define PEPSI_CLI_CLI_H

/* Runs one tool; argv as of main(). Returns the exit status: 0 done, 1 failed, 2 wrong usage. */
int cli_main(int argc, char **argv);

#endif
