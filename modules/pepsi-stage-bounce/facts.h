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
	struct str envid;
	char ret;
	bool smtputf8;
	bool require_tls;       /* the message asked for TLS all the way: so does its report, with headers only (RFC 8689 §5) */
	char *note;             /* an attempt that may have been a delivery; NULL: there was none */
	struct str stage;       /* failed_stage, when `words` do not name it */
	struct json_object *root; /* what the strings point into, besides host memory */
	char *words;              /* the reason made up here when state has no bounce object */
};

/* Returns PEPSI_OK, or PEPSI_RETRY: out of memory. What is wrong in the state is taken as not said: a bounce must come about all the same.
 * facts_done() in either case. */
int32_t facts_read(struct facts *f, const struct pepsi_host *host, struct pepsi_msg *msg);
void facts_done(struct facts *f);

#endif
