/* The books of what accounts have sent: caps in messages and recipients per hour and day. Mail over a cap is not refused but scheduled: into the
 * first hour and day that still have room for it, as if it had been sent then. So what an account lets out in any window is bounded
 * by its caps however much it hands in, and a backlog beyond QUOTA_HOURS_MAX hours or QUOTA_DAYS_MAX days is refused for now. Windows begin
 * with an account's first message. Memory is bounded; whoever was not seen for longest is forgotten. No clock, no I/O. */
#ifndef INGRESS_QUOTA_H
#define INGRESS_QUOTA_H

#include "base/str.h"

enum { QUOTA_HOURS_MAX = 48, QUOTA_DAYS_MAX = 7, QUOTA_NAME_MAX = 255 };

struct quota_caps {
	uint32_t messages_hour, messages_day, recipients_hour, recipients_day; /* 0: none */
};

/* One account's line; times in seconds since 1970. */
struct quota_use {
	char name[QUOTA_NAME_MAX + 1];
	int64_t hour_at, day_at; /* when the running windows began */
	uint64_t messages_hour, messages_day, recipients_hour, recipients_day; /* since then; above the cap: the backlog */
	int64_t told_at;         /* when the owner was told that mail is held */
};

struct quota_verdict {
	bool refuse;         /* so much is waiting that this is too much */
	int64_t until;       /* 0: go on; else held so long */
	const char *cap;     /* which one: "messages per hour", …; NULL: none */
	uint32_t limit;      /* of that cap */
	bool tell;           /* the first of this window: the owner is to be told */
};

struct quota;
struct quota *quota_new(size_t accounts); /* NULL: no memory */
void quota_free(struct quota *q);         /* accepts NULL */
/* Books one message with so many recipients (not when refused). An account without caps is not booked. False: no memory, nothing is decided. */
bool quota_take(struct quota *q, struct str account, const struct quota_caps *caps, unsigned recipients, int64_t now,
    struct quota_verdict *ret);
/* Takes a booking back: the message was not stored. */
void quota_return(struct quota *q, struct str account, unsigned recipients);
/* Up to max lines that changed since they were last given out here. */
size_t quota_changed(struct quota *q, struct quota_use *ret, size_t max);
/* They were not stored: give them out again. */
void quota_again(struct quota *q, const struct quota_use *lines, size_t n);
/* A line stored by a former life; added to what was booked since. */
void quota_restore(struct quota *q, const struct quota_use *line);
size_t quota_accounts(const struct quota *q);

#endif
