/* The command line of all tools as tables: options with their ids, tools with the options each takes. Pure: parses, prints
 * nothing, so that it is tested by tables. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include "base/str.h"

enum cli_opt {
	/* for every tool */
	CLI_CONFIG, CLI_STATE, CLI_LOG, CLI_VERBOSE, CLI_HELP, CLI_VERSION, CLI_JSON,
	/* for some */
	CLI_WAIT, CLI_STAGE, CLI_STATUS, CLI_SENDER, CLI_RECIPIENT, CLI_LIMIT, CLI_ALL, CLI_RUNNING,
	CLI_MESSAGE, CLI_FROM, CLI_TO, CLI_SET, CLI_ONCE, CLI_FAILED_ONLY, CLI_TIMEOUT_ONLY,
	CLI_REPEAT, CLI_FUSED,
	CLI_PASSWORD_STDIN, CLI_NO_PASSWORD, CLI_CERTIFICATE,
	CLI_MESSAGES_PER_HOUR, CLI_MESSAGES_PER_DAY, CLI_RECIPIENTS_PER_HOUR, CLI_RECIPIENTS_PER_DAY,
	CLI_DIRECT,
	CLI_IP, CLI_HELO, CLI_LISTENER, CLI_SERVER, CLI_ID, CLI_AS_IS,
	CLI_DOMAIN, CLI_DAY, CLI_SINCE, CLI_DRY_RUN, CLI_XML, CLI_REPORT, CLI_FAILURES,
	CLI_DESTINATION, CLI_CLIENT, CLI_FOR, CLI_REASON,
	CLI_SELECTOR, CLI_ALGORITHM,
	CLI_N_OPTS
};
#define CLI_BIT(o) (UINT64_C(1) << (o))
#define CLI_GLOBAL (CLI_BIT(CLI_WAIT) - 1u)
/* What `account set` changes, and `account add` takes, too. */
#define CLI_ACCOUNT (CLI_BIT(CLI_SENDER) | CLI_BIT(CLI_CERTIFICATE) | CLI_BIT(CLI_MESSAGES_PER_HOUR) | CLI_BIT(CLI_MESSAGES_PER_DAY) | \
	CLI_BIT(CLI_RECIPIENTS_PER_HOUR) | CLI_BIT(CLI_RECIPIENTS_PER_DAY))
#define CLI_FILTER (CLI_BIT(CLI_STAGE) | CLI_BIT(CLI_STATUS) | CLI_BIT(CLI_SENDER) | CLI_BIT(CLI_RECIPIENT) | \
	CLI_BIT(CLI_DESTINATION))
/* What a command that changes the queue takes besides ids. */
#define CLI_CHANGE (CLI_FILTER | CLI_BIT(CLI_LIMIT) | CLI_BIT(CLI_ALL) | CLI_BIT(CLI_DRY_RUN))
/* What rules are made of. */
#define CLI_RULE (CLI_BIT(CLI_CLIENT) | CLI_BIT(CLI_FOR) | CLI_BIT(CLI_REASON))

enum { CLI_POSITIONAL_MAX = 4096 };

/* One occurrence of an option that may stand several times. */
struct cli_each {
	enum cli_opt opt;
	const char *value;
};

struct cli_args {
	const struct cli_tool *tool;         /* NULL: none named, or only help or version asked */
	const char *group;                   /* "queue": named without its verb; for help */
	uint64_t set;                        /* CLI_BIT of what was given */
	unsigned verbose;                    /* how many -v */
	const char *value[CLI_N_OPTS];       /* of options that take one */
	const char **pos;                    /* operands, from malloc; free() it */
	size_t n_pos;
	const struct cli_each *each;         /* of CLI_MESSAGE, CLI_TO, CLI_SET, CLI_SENDER and CLI_CERTIFICATE, in order; in the same allocation as pos */
	size_t n_each;
};

struct cli;
struct cli_tool {
	const char *name, *verb; /* verb NULL: the tool has none */
	uint64_t opts;           /* besides the global ones */
	size_t min_pos, max_pos;
	int (*run)(struct cli *c);
	const char *operands;    /* for the usage: "ID" */
	const char *help;        /* one line */
};
enum { CLI_TOOLS_MAX = 256 };
extern const struct cli_tool cli_tools[];
extern const size_t cli_n_tools;

struct cli_opt_info {
	const char *name;  /* without dashes */
	char letter;       /* 0: none */
	const char *value; /* what it takes, for the usage; NULL: nothing */
	const char *help;
};
extern const struct cli_opt_info cli_opts[CLI_N_OPTS];

/* argv[0] "pepsi-queue" names the tool, else the first operand does. Returns 0, or -1 with a sentence in err. args->pos
 * is to be freed in both cases. */
int cli_args_parse(int argc, char **argv, struct cli_args *args, char *err, size_t err_size);

#endif
