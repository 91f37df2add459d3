/* The dispatcher: the one coordinator that claims rows, hands them to the workers of their stage, and repairs what a
 * dead worker leaves behind. It never looks at a message. It lives on the reactor's loop; processes are made for it by
 * the daemon (struct dispatch_spawner), rows come from the database or straight from the ingress.
 *
 * One message through it, told: the ingress asks dispatch_reserve("init"), commits the row as `running`, and calls
 * dispatch_hand_off(). The message becomes a flight in the stage's backlog; at the end of the loop turn the backlog is
 * dealt out to workers (as deep as the stage's speed makes sensible, so that a slow module keeps its peers busy), each
 * worker getting one datagram. The worker answers with a status line, in order; the flight is over. If the line says the
 * row went to "bounce", that stage is claimed at once.
 *
 * Rows claimed by this process are exactly its flights; when a worker dies its unanswered flights are looked up in the
 * database: gone or elsewhere means done, still running means again. The one in hand, which the worker's page names, is blamed;
 * when it names none, all become suspects and travel alone from then on, so that the one is found and the others are not blamed. */
#ifndef PEPSI_DISPATCH_DISPATCH_H
#define PEPSI_DISPATCH_DISPATCH_H

#include "config/config.h"
#include "proto/wire/wire.h"
#include "store/queue.h"

#include <event2/event.h>
#include <sys/types.h>

struct dispatch;

/* How worker processes come and go; filled in by the daemon. */
struct dispatch_spawner {
	void *arg;
	/* Asks for a worker of `stage`; the answer comes as dispatch_worker_started() or _failed() with the same token. */
	void (*start)(void *arg, uint32_t token, const char *stage);
	void (*kill)(void *arg, pid_t pid, int sig);
};

struct dispatch *dispatch_new(struct event_base *base, const struct config *c, const struct dispatch_spawner *sp);
void dispatch_free(struct dispatch *d);
/* db: connection of role pepsi for claims and repairs, used by nobody else. */
int dispatch_start(struct dispatch *d, struct store_conn *db);
/* The connection came or went. On the first time up, rows left `running` by a former life become pending. */
void dispatch_database(struct dispatch *d, bool up);
/* Is it at work: connected, the only dispatcher of this database, recovered? */
bool dispatch_ready(const struct dispatch *d);
/* Somebody says there may be pending rows; stage NULL: anywhere. */
void dispatch_wake(struct dispatch *d, const char *stage);
/* New configuration: workers are retired after what they hold, their successors read it. */
void dispatch_reload(struct dispatch *d, const struct config *c);

void dispatch_worker_started(struct dispatch *d, uint32_t token, pid_t pid, int fd); /* fd is the dispatcher's from now on */
void dispatch_worker_failed(struct dispatch *d, uint32_t token);
/* The process is gone; status as of waitpid(). */
void dispatch_worker_exited(struct dispatch *d, pid_t pid, int status);

/* struct ingress_sink, arg is the struct dispatch. */
bool dispatch_reserve(void *d, const char *stage, const char *sender_key, size_t octets);
void dispatch_unreserve(void *d, const char *stage, const char *sender_key, size_t octets);
void dispatch_hand_off(void *d, const char *stage, const char *sender_key, const struct wire_item *item, int body_fd);
void dispatch_wake_sink(void *d, const char *stage);
void dispatch_due_sink(void *d);
void dispatch_measure_sink(void *d, const char *stage, struct str text);

/* Orderly stop: no more claims, unsent flights go back to pending, workers finish what they hold (at most grace_s, then
 * they are killed), statistics are flushed; then done(arg). */
void dispatch_stop(struct dispatch *d, unsigned grace_s, void (*done)(void *arg), void *arg);

/* The serialization failures that the connections of this process have met so far, in all: they become part of the statistics. */
void dispatch_retries(struct dispatch *d, uint64_t total);

/* `"stages":[{…}],"dispatch":{…}` for `pepsi status`; Prometheus lines. */
void dispatch_status(struct dispatch *d, struct buf *json);
void dispatch_metrics(struct dispatch *d, struct buf *text);
/* What workers report (host->status_report()), one JSON array: [{"stage":"relay","pid":4711,"age_s":2,"report":{…}},…]; of this stage only, unless NULL. */
void dispatch_reports(struct dispatch *d, const char *stage, struct buf *json);

#endif
