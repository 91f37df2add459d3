/* A run of pepsi dmarc send: what aggregate reports (tool_dmarc_send.c) and failure reports (dmarc_failures.c) share. */
#ifndef CLI_DMARC_SEND_H
#define CLI_DMARC_SEND_H

#include "dmarc_build.h"
#include "proto/report/rua.h"
#include "tool_dmarc.h"
#include "tool_report_run.h"

enum { DMARC_TARGETS_MAX = DMARC_URIS_MAX * 2 };

struct dmarc_sending {
	struct tool_run run;
	struct dmarc_sender sender;
};

/* What is to be sent: a period, or a message that failed, as the database has it. */
struct dmarc_outgoing {
	struct json_object *o;
	bool failure;
	char domain[DNS_NAME_MAX + 1];
	char why[1200];
	const struct rua_target *to[DMARC_TARGETS_MAX];
	size_t n;
	struct rua_check check;
};
/* Looks up where it may go. 1: to n of to[]; 0: it was said why not, and noted; -1: the run ends. */
int dmarc_send_targets(struct dmarc_sending *s, struct dmarc_outgoing *g);
/* Does this target take so many octets? */
bool dmarc_send_fits(const struct dmarc_sending *s, const struct rua_target *t, size_t size);
/* It goes nowhere (outcome NULL: not now). 0, or -1. */
int dmarc_send_end(struct dmarc_sending *s, const struct dmarc_outgoing *g, const char *outcome, const char *why);
/* Into the queue: headers[i] for to[i]; more: for the log, "rows=3". 0, or -1. */
int dmarc_send_enqueue(struct dmarc_sending *s, const struct dmarc_outgoing *g, const char *report_id, const struct buf *headers, struct str body, const char *more);

/* dmarc_failures.c. Failure reports that wait. 0, or -1: the run ends. */
int dmarc_send_failures(struct dmarc_sending *s, const struct config *conf);

#endif
