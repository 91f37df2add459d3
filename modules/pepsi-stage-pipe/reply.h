/* What a command answers: one JSON object on standard output (pepsi-stage-pipe(7)). Everything in it is hostile until it
 * was looked at: it is held against the description member by member, and a wrong one makes the whole reply wrong. */
#ifndef PIPE_REPLY_H
#define PIPE_REPLY_H

#include "base/arena.h"
#include "base/buf.h"

enum { REPLY_HEADERS_MAX = 100, REPLY_TEXT_MAX = 500, REPLY_DEFER_MAX_S = 7 * 86400 };

enum reply_action { REPLY_ACCEPT, REPLY_REJECT, REPLY_DEFER, REPLY_REROUTE };

struct reply_header {
	struct str name, value; /* value.p NULL: all fields of that name are removed */
	bool add;               /* one more field; else it takes the place of those that are there */
};

struct reply {
	enum reply_action action;
	const char *text;    /* reject, defer: one line for people, or NULL */
	const char *status;  /* reject: enhanced status (RFC 3463) of class 5 */
	const char *stage;   /* reroute */
	uint32_t seconds;    /* defer; 0: the host decides */
	struct reply_header headers[REPLY_HEADERS_MAX]; /* accept, reroute; in the order remove, set, add */
	size_t n_headers;
};

/* 0; or -1 with the reason in why. Memory from the arena. */
int reply_parse(struct arena *a, struct str text, struct reply *ret, struct buf *why);

/* edit.c: the header block after the changes, appended to out. 0, or -1: it does not fit. */
int reply_edit(const struct reply *r, struct str headers, struct buf *out);

#endif
