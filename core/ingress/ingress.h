/* The ingress: SMTP listeners and sessions on the reactor's event loop, relay control, trace headers, spooling, and
 * admission into the queue by group commit. It knows the dispatcher only through struct ingress_sink, so that the two
 * stay apart. Blocks never.
 *
 * One message through it: a session's engine says SMTP_EV_DATA; the ingress takes buffer budget; chunks are spooled
 * (memory, above SPOOL_THRESHOLD an unlinked temporary file); at SMTP_EV_MESSAGE the Received header is made, the
 * message split at its first empty line and queued for admission; while one commit is in flight others gather; with
 * the commit each session answers "250 2.0.0 Ok: queued as ID", and the message goes to a worker at once where
 * sink->reserve() had promised a place, else the dispatcher is woken (coalesced, DISPATCH_WAKE_INTERVAL). */
#ifndef PEPSI_INGRESS_INGRESS_H
#define PEPSI_INGRESS_INGRESS_H

#include "config/config.h"
#include "net/dns.h"
#include "proto/wire/wire.h"
#include "store/queue.h"
#include "supply.h"

#include <event2/event.h>
#include <sys/types.h>

/* What the ingress needs from the dispatcher. */
struct ingress_sink {
	void *arg;
	/* Asks for a place at `stage` for one message of this size: true promises that hand_off() will be taken. */
	bool (*reserve)(void *arg, const char *stage, const char *sender_key, size_t octets);
	/* Gives a reserved place back (the commit failed). */
	void (*unreserve)(void *arg, const char *stage, const char *sender_key, size_t octets);
	/* The committed row, status running, with its content (without, has_content false, when no descriptor
	 * could be had for a large body: the worker reads it); strings live during the call. body_fd: memfd or
	 * temporary file holding the body (item->body_in_fd), owned by the callee from now on; else -1. */
	void (*hand_off)(
	    void *arg, const char *stage, const char *sender_key, const struct wire_item *item, int body_fd);
	/* Rows were committed as pending at `stage`. */
	void (*wake)(void *arg, const char *stage);
	/* Rows were committed as paused: their time may be the next one. */
	void (*due)(void *arg);
	/* A worker of this stage, before acceptance, tells what its module counts: the text of a line (proto/metrics), not looked at. May be NULL. */
	void (*measure)(void *arg, const char *stage, struct str text);
};

/* How worker processes for stages before acceptance (BEFORE_ACCEPT) come and go; filled in by the daemon. */
struct ingress_spawner {
	void *arg;
	/* Asks for one; the answer comes as ingress_worker_started() or _failed() with the same token. */
	void (*start)(void *arg, uint32_t token, const char *stage);
	void (*kill)(void *arg, pid_t pid, int sig);
};
#define INGRESS_TOKEN 0x80000000u /* in all tokens of the ingress, and in none of the dispatcher's */

struct ingress;

/* Binds the listeners of all [listener-*] sections and reads their certificates (before privileges are dropped; port 25).
 * Messages about every socket that cannot be bound go into faults. NULL when there is any. supply: NULL: opens everything
 * itself. */
struct ingress *ingress_new(const struct config *c, const struct ingress_supply *supply, struct config_faults *faults);
/* Would its certificates and options of TLS be taken? Reads the files, binds nothing; what is wrong goes into faults. */
void ingress_check(const struct config *c, struct config_faults *faults);
/* Octets of the messages accepted so far. */
uint64_t ingress_octets(const struct ingress *in);
/* The resolver for sessions; before ingress_start, and it lives longer than the ingress. Without one nothing is looked up. */
void ingress_dns(struct ingress *in, struct net_dns *dns);
/* A connection of role pepsi-ingress for what is asked before a RCPT is answered (recipients, greylist): not behind commits, which
 * wait for the disk. Before ingress_start; owned by the caller. Without one: 451 where it would be needed. */
void ingress_lookups(struct ingress *in, struct store_conn *c);
/* The database notified of recipient_changed, or that connection came back. */
void ingress_recipients_changed(struct ingress *in);
/* What is laid over the configuration of stages has changed (c itself has not): workers that judge before acceptance are replaced. */
void ingress_workers_changed(struct ingress *in, const struct config *c);
/* What would a RCPT with this address be told? Answers once, from inside the call or later: "yes", "no", "away", "relay" (not one of
 * LOCAL_DOMAINS), "invalid", and the source that said so, or ""; why: of a stage that does not know it, what the client would be told (printable, one line), else "". */
typedef void (*ingress_test_fn)(void *arg, const char *answer, const char *source, const char *why);
void ingress_test_recipient(struct ingress *in, struct str address, ingress_test_fn fn, void *arg);
/* Begins to accept. admission: connection of role pepsi-ingress, owned by the caller; may be down: 451 then.
 * large: n_large more for large messages, so that small ones do not wait for them; two are put to use. */
int ingress_start(struct ingress *in, struct event_base *base, struct store_conn *admission, struct store_conn *const *large,
    unsigned n_large, const struct ingress_sink *sink);
/* Before ingress_start(); without it stages before acceptance have no workers. sp is copied. */
void ingress_spawner(struct ingress *in, const struct ingress_spawner *sp);
/* What became of a worker that was asked for, and of one that was there. False: none of ours, nothing was taken. */
bool ingress_worker_started(struct ingress *in, uint32_t token, pid_t pid, int fd);
bool ingress_worker_failed(struct ingress *in, uint32_t token);
bool ingress_worker_exited(struct ingress *in, pid_t pid, int status);
/* The admin child, which knows who may sign in, listens at the other end of fd (SOCK_SEQPACKET, proto/wire/signin.h; taken,
 * non-blocking), or it is gone: -1. Sign-ins get 454 while there is none. */
void ingress_signin(struct ingress *in, int fd);
/* The admission connection came or went (the state callback of store_conn is the reactor's). */
void ingress_database(struct ingress *in, bool up);
/* New configuration: limits, networks and certificates for new sessions; sockets that came are opened, those that went
 * closed. supply: as above. What cannot be done goes into faults (a warning: what there was goes on in its place); the rest
 * is done. Sessions keep what they began under. */
void ingress_reload(struct ingress *in, const struct config *c, const struct ingress_supply *supply, struct config_faults *faults);
/* Stops accepting; ends idle sessions with 421; calls done when the last is gone or after grace_s. */
void ingress_drain(struct ingress *in, unsigned grace_s, void (*done)(void *arg), void *arg);
void ingress_free(struct ingress *in);
/* Prometheus lines ("pepsi_smtp_…"); counts for `pepsi status`: accepted messages, sessions now, and so on as a
 * JSON object text. */
void ingress_metrics(struct ingress *in, struct buf *out);
void ingress_status(struct ingress *in, struct buf *out_json);

#endif
