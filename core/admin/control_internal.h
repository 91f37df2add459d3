/* Shared by control.c (socket, who may ask, lines in and out), control_cmd.c and control_queue.c (the commands). */
#ifndef ADMIN_CONTROL_INTERNAL_H
#define ADMIN_CONTROL_INTERNAL_H

#include "admin_internal.h"
#include "control_request.h"

struct control_peer {
	struct admin_peer p; /* first */
	uid_t uid;
	pid_t pid;
	bool trusted;          /* may do everything; others may only look at the status */
	bool busy;             /* a command is being worked on */
	bool looping;          /* control_go() is on the stack */
	bool in_line;          /* a request has begun and its deadline runs */
	struct control_request req;
	int64_t rule;          /* rule.add: its id; 0: not there yet, or only asked */
	int64_t after;         /* rows up to this id are done */
	int64_t matched, count; /* rows so far: found, and changed */
	int64_t cat_at, cat_total; /* queue.cat: octets sent, octets in all; total -1: length not known yet */
};

/* Runs c->req: answers at once, or later from a callback. */
void control_cmd_run(struct control_peer *c);
/* queue.cat: what was sent is out, go on. */
void control_cmd_drained(struct control_peer *c);
/* The time is up: answers or closes. */
void control_cmd_expired(struct control_peer *c);

/* control_queue.c: commands that change the queue, batch by batch, and its rules. */
void control_queue_run(struct control_peer *c);

/* control_cmd.c, for control_queue.c: a line for the log; an answer about the database; a ticket for one call to it, with its deadline
 * (answers itself when there is none); what became of its peer; what the request selects. */
void control_audit(const struct control_peer *c, const char *result, int64_t count);
void control_answer_store(struct control_peer *c, enum store_rc rc, const char *err);
struct admin_ticket *control_ask(struct control_peer *c);
struct control_peer *control_redeem(void *ticket);
struct store_filter control_filter(const struct control_request *r);

/* The answers; each ends the command. json is one JSON value. */
void control_answer(struct control_peer *c, const char *json);
void control_answer_error(struct control_peer *c, const char *error, const char *hint);
/* Ends a command whose answer is in the output already. */
void control_answered(struct control_peer *c);
/* Looks at the next request, if there is one; what a callback calls after it has answered. */
void control_go(struct control_peer *c);

/* control_dns.c */
void control_dns_run(struct control_peer *c);
/* The admin ends: what is still asked is forgotten. */
void control_dns_forget(struct admin *a);

enum { CONTROL_ANSWER_MAX = 16 * 1024 * 1024 };

#endif
