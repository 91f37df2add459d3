/* A scripted caller for the SMTP server engine: answers events by what is in them, and writes down all events and replies.
 * For tests, the fuzz targets and the vectors program; no network, no clock. */
#ifndef TEST_SMTP_DRIVER_H
#define TEST_SMTP_DRIVER_H

#include "proto/smtp/server.h"

struct driver {
	struct smtp_server *s;
	struct buf log;     /* one line per event ("EV MAIL from=<a@b> …") and per reply line ("250 …"), in order */
	struct buf message; /* chunks since the last DATA */
	bool hold;          /* leave the next event that wants an answer pending (held says which) */
	enum smtp_event_kind held;
	bool closed;        /* QUIT or CLOSE came */
	unsigned messages;  /* accepted ones */
};

/* What the engine is told to be the time: 2026-07-09T12:30:00Z. */
#define DRIVER_TIME INT64_C(1783600200)

/* A usual configuration: mx.example.test, all extensions but STARTTLS, 1000 octets, 3 recipients, 10 errors. */
extern const struct smtp_server_conf driver_conf;

/* Aborts when memory is out. The banner is not logged. */
void driver_start(struct driver *d, const struct smtp_server_conf *conf);
/* Feeds and pumps. */
void driver_send(struct driver *d, struct str octets);
/* Works off events until there are none. Refuses (default reply) what has in it: HELO "refuse.…", a sender or recipient
 * whose address begins with "refuse" (550 of the caller's), "later" (451), "end" (421); DATA of a sender "nodata…";
 * messages that contain "refuse"; XCLIENT with a LOGIN of "refuse…". At the end of a message recipients that begin with
 * "full" are answered 452 of their own. */
void driver_pump(struct driver *d);
/* The log so far, NUL-terminated. */
const char *driver_log(struct driver *d);
void driver_stop(struct driver *d);

#endif
