/* A run of pepsi dmarc send or pepsi tlsrpt send: what both do before and behind the reports themselves: configuration, database, resolver,
 * clearing up, who is muted, the log line and what --json prints. */
#ifndef CLI_TOOL_REPORT_RUN_H
#define CLI_TOOL_REPORT_RUN_H

#include "tool_reports.h"

struct tool_run {
	struct cli *c;
	struct tool_db db;
	struct config_domains *exclude; /* EXCLUDE; NULL: none */
	struct net_dns *dns;
	struct json_object *muted;      /* array of objects; NULL: none */
	bool dry;
	uint64_t sent, messages, posts, nowhere, later, failed;
	struct json_object *out;        /* --json: what was done with each; NULL without */
};

enum tool_run_question { TOOL_RUN_SWEEP, TOOL_RUN_LIST, TOOL_RUN_DUE };

/* arg: the caller's own part of the run. */
struct tool_run_kind {
	const char *name, *section;     /* "dmarc", "pepsi-dmarc" */
	bool posts;                     /* reports may go by POST, too */
	bool (*on)(const struct config *conf);
	int (*prepare)(void *arg, const struct config *conf); /* before there is a database. CLI_DONE, or CLI_FAILED after a message */
	struct json_object *(*ask)(struct tool_db *db, enum tool_run_question q, struct json_object *args);
	int (*send)(void *arg, const struct config *conf);    /* 0, or -1: it ends here */
};

/* The whole run; the exit status. r: zeroed by the caller, emptied here. */
int tool_run(struct cli *c, struct tool_run *r, const struct tool_run_kind *k, void *arg);
/* Reports that are due, at most MAX_REPORTS, each handed to one() until it returns other than 0, which is returned. -1 after a message. */
int tool_run_due(struct tool_run *r, const struct tool_run_kind *k, const struct config *conf, int (*one)(void *arg, struct json_object *report), void *arg);
bool tool_run_excluded(const struct tool_run *r, struct str domain);

#endif
