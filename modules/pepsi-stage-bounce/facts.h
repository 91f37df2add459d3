/* What a bounce is about: read out of the row's state and recipients. */
#ifndef BOUNCE_FACTS_H
#define BOUNCE_FACTS_H

#include "proto/dsn/dsn.h"

#include <pepsi/stage.h>

struct facts {
	enum dsn_kind kind;
	struct dsn_rcpt *rcpts; /* those the sender wants to hear about */
	size_t n;
	size_t muted;           /* left out: their NOTIFY says so */
	bool hides;             /* where aliases lead is not told */
	size_t hidden;          /* recipients that are told as the alias they came by; several of one are one */
	struct str envid;
	char ret;
	bool smtputf8;
	bool require_tls;       /* the message asked for TLS all the way: so does its report, with headers only (RFC 8689 §5) */
	bool maybe;             /* an attempt may have been a delivery … */
	int64_t maybe_us;
	struct str maybe_hop;
	int64_t retry_until_us; /* of a delay: when we give up; 0: not known */
	struct str stage;       /* where it failed in this system */
	enum dsn_cause cause;   /* of all recipients, when state has no bounce object */
	struct json_object *root; /* what the strings point into, besides host memory */
};

/* here: the name of this stage. hides: recipients that came by an alias (dsn.rcpt[].alias) are told as that alias. Returns PEPSI_OK, or PEPSI_RETRY: out of
 * memory. What is wrong in the state is taken as not said: a bounce must come about all the same. facts_done() in either case. */
int32_t facts_read(struct facts *f, const struct pepsi_host *host, struct pepsi_msg *msg, const char *here, bool hides);
void facts_done(struct facts *f);

#endif
