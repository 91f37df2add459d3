/* What the tools that send reports share, pepsi dmarc and pepsi tlsrpt: who sends them, ids, look-ups, who is muted. */
#ifndef CLI_TOOL_REPORTS_H
#define CLI_TOOL_REPORTS_H

#include "columns.h"
#include "net/dns.h"
#include "tool_db.h"

/* Where the parts of a sender go; sizes in octets. */
struct tool_sender {
	char *host;
	size_t host_size;
	char *org;
	size_t org_size;
	char *contact;
	size_t contact_size;
	char *from;
	size_t from_size;
	char *stage;
	size_t stage_size;
};
/* HOSTNAME, and ORG_NAME, CONTACT, FROM, STAGE of the section, with their defaults. 0, or -1 after a message. to_send: FROM must be there. */
int tool_sender_read(const struct tool_sender *s, const struct config *conf, const char *section, bool to_send);

/* Is the option absent, or a date? False after a message. */
bool tool_day_ok(const struct cli *c, enum cli_opt opt);
/* Adds a text, unless it is NULL. */
void tool_add_text(struct json_object *o, const char *key, const char *text);
/* --limit, --domain, --day, --since as members. NULL after a message. */
struct json_object *tool_list_arguments(const struct cli *c);
/* The addresses of an answer's "muted", below the lists. why: a reason is held with each. */
void tool_print_muted(struct json_object *o, const char *head, bool why);
/* "domains", "sources" and "reports" (or what they are called here) of a summary of what others report, each with its heading; only the first when it
 * is empty. Ended by one without a member. */
struct tool_summary {
	const char *member, *head; /* head: NULL for the first */
	const struct cli_column *columns;
};
void tool_print_summary(struct json_object *o, const struct tool_summary *parts);
/* Whether a change was made, as the database said it (o, taken over; NULL: a message was given): the exit status; no: what it is if it was not made. */
int tool_changed(struct cli *c, struct json_object *o, const char *no);

/* pepsi dmarc|tlsrpt show ID: one report of ours. */
struct tool_shown {
	const char *command;                                                /* for messages */
	struct json_object *(*ask)(struct tool_db *db, bool rows, struct json_object *args); /* the report, or its rows; args is taken over */
	enum cli_opt raw;                                                   /* asks for the report itself */
	int (*print_raw)(const struct config *conf, struct json_object *one, struct json_object *rows);
	void (*print)(struct json_object *list, struct json_object *one);   /* its head */
	const struct cli_column *rows;
};
int tool_show(struct cli *c, const struct tool_shown *k);

/* 32 hexadecimal digits by chance. 0, or -1. */
int tool_new_id(char out[33]);
/* Is the address, or URI, in the list of objects with "address"? list may be NULL. */
bool tool_is_muted(struct json_object *list, const char *address);
/* Looks up what an evaluator wants, within so many seconds and queries; waits. 0, or -1: it cannot be asked. */
int tool_db_resolve(struct tool_db *db, struct net_dns *dns, unsigned seconds, unsigned queries, dns_evaluate_fn eval, void *arg);

#endif
