/* What the files of core/ingress share: the ingress itself, its counters, and the calls between session, policy and
 * admission. Nobody outside includes it, tests excepted. */
#ifndef INGRESS_INTERNAL_H
#define INGRESS_INTERNAL_H

#include "admit.h"
#include "auth.h"
#include "before.h"
#include "caps.h"
#include "checks.h"
#include "clients.h"
#include "dnsbl.h"
#include "greylist.h"
#include "ingress.h"
#include "listening.h"
#include "proxied.h"
#include "reverse.h"
#include "session.h"
#include "settings.h"
#include "failures.h"
#include "tally.h"
#include "vet.h"

/* Why something was refused; the label of pepsi_smtp_rejected_total. */
enum refusal {
	REFUSED_RELAY,       /* 550 5.7.1 */
	REFUSED_DATABASE,    /* 451 4.3.0 */
	REFUSED_MEMORY,      /* 452 4.3.1 */
	REFUSED_DISK,        /* 452 4.3.1 */
	REFUSED_HEADERS,     /* 554 5.6.0 */
	REFUSED_LOOP,        /* 554 5.4.6 */
	REFUSED_CONTENT,     /* by the engine: line ends, NUL, size; or the client left in the middle */
	REFUSED_CONNECTIONS, /* 421 4.7.0 */
	REFUSED_ADDRESS,     /* 553: not storable */
	REFUSED_ROW,         /* 451: the database did not take it */
	REFUSED_DRAIN,       /* 421 4.3.2 */
	REFUSED_EARLY,       /* 554 5.5.1: the client talked before the banner */
	REFUSED_PROXY,       /* closed: no valid PROXY header where one was due */
	REFUSED_AUTH,        /* 530 5.7.0: not signed in where that is a must */
	REFUSED_SENDER,      /* 553 5.7.1: an address of somebody else's */
	REFUSED_FROM,        /* 550 5.7.1: an address of somebody else's in From or Sender */
	REFUSED_FORM,        /* 554 5.6.0: a header that a user's message may not have */
	REFUSED_CAP,         /* 450 4.7.1: too much of the account is held already */
	REFUSED_WISH,        /* 501 5.5.4: extensions that contradict each other */
	REFUSED_BEFORE,      /* by a stage before acceptance, or because it failed */
	REFUSED_RECIPIENT,   /* 550 5.1.1: nobody of that name here */
	REFUSED_LOOKUP,      /* 451 4.3.0: cannot be told who lives here */
	REFUSED_HARVEST,     /* 421 4.7.0: too many unknown recipients */
	REFUSED_RATE,        /* 421 4.7.0, 450 4.7.1: too much of one address or network lately */
	REFUSED_DNSBL,       /* 550 5.7.1, 450 4.7.1: listed */
	REFUSED_GREYLIST,    /* 450, 451 4.7.1: first time */
	REFUSED_QUEUE,       /* 452 4.3.1: QUEUE_MAX_ROWS */
	REFUSED_SPF,         /* 550 5.7.23 */
	REFUSED_DKIM,        /* 550 5.7.20, 5.7.21 */
	REFUSED_DMARC,       /* 550 5.7.26, 5.7.1 */
	REFUSED_ARC,         /* 550 5.7.29 */
	REFUSED_UNKNOWN_AUTHOR, /* 451 4.7.24, 4.7.0: cannot be looked up now (AUTHENTICATION_TEMPERROR) */
	REFUSED_N
};
extern const char *const refusal_names[REFUSED_N];

/* Extensions a message (or a session: XCLIENT) made use of; the label of pepsi_smtp_extension_total. */
enum used {
	USED_CHUNKING,
	USED_BINARYMIME,
	USED_SMTPUTF8,
	USED_PRDR,
	USED_REQUIRETLS,
	USED_DELIVERBY,
	USED_FUTURERELEASE,
	USED_MT_PRIORITY,
	USED_XCLIENT,
	USED_N
};

/* Which deadline ended a session; the label of pepsi_smtp_deadline_total. */
enum deadline {
	DEADLINE_COMMAND, /* COMMAND_TIMEOUT */
	DEADLINE_MESSAGE, /* COMMAND_TIMEOUT and MIN_DATA_RATE: a message that comes too slowly */
	DEADLINE_SESSION, /* SESSION_TIMEOUT */
	DEADLINE_TLS,     /* COMMAND_TIMEOUT, for a handshake */
	DEADLINE_PROXY,   /* no PROXY header in time */
	DEADLINE_ANSWER,  /* ours: the database has not answered */
	DEADLINE_N
};

extern const char *const deadline_names[DEADLINE_N];

struct ingress {
	struct event_base *base;
	const struct config *config; /* until the start only */
	struct shared_settings set;
	struct listening *listening; /* all, in the order of the configuration */
	struct net_tickets *tickets;
	struct proxied *proxied;     /* connections that still owe their PROXY header */
	struct ingress_sink sink;
	struct net_dns *dns;         /* NULL: nothing is looked up (tests) */
	struct admit *admit;
	struct vet_counts *vet;
	struct auth *auth;           /* from the start on */
	struct caps *caps;           /* from the start on */
	struct tally *tally;         /* from the start on; counts for DMARC reports */
	struct failures *failures;   /* likewise; single messages */
	int64_t counts_until_us;     /* so long a drain waits for the last of them */
	struct notice *notices;      /* messages of our own on their way to the database */
	uint64_t n_notices;
	/* the database for the caps' books; NULL: none (tests) */
	void (*use_put)(struct store_conn *c, const struct store_account_use *lines, size_t n, store_done_fn fn, void *arg);
	void (*use_get)(struct store_conn *c, store_account_use_fn fn, void *arg);
	struct before *before;       /* from the start on */
	struct ingress_spawner spawner;
	int signin_fd;               /* of an admin child that was there before it; -1 */
	struct store_conn *admission, *large[ADMIT_LARGE_MAX];
	bool database_up, started;
	bool disk_low;

	struct session *sessions;    /* all, newest first */
	unsigned n_sessions;
	uint64_t next_session;
	struct clients clients, networks;
	struct limits *limits;
	struct recipients *recipients;
	struct greylist *greylist;
	struct store_conn *lookups;  /* what recipients and the greylist ask; NULL: nothing can be asked */
	struct dnsbl_counts dnsbl[2 * DNSBL_LISTS_MAX];
	unsigned n_dnsbl;
	unsigned tarpitted;          /* replies held back now */
	uint64_t tarpitted_total, tarpit_full, banners_delayed;
	int64_t queue_rows;          /* as last counted, and what was accepted since */
	uint64_t queue_accepted;     /* `accepted` at that time */
	int64_t queue_us;            /* when it was asked last */
	bool queue_asked;
	struct spool_house house;

	struct event *tick;          /* once a second: deadlines, free space */
	struct event *sweep;         /* goes on with looking at deadlines, from sweep_at */
	struct session *sweep_at;
	struct session *looked_at;   /* whose octets are being fetched by the sweep; NULL when that was its end */
	unsigned trickling, trickling_seen; /* sessions whose client trickles: at the last sweep; so far in this one */
	struct event *resume;        /* sessions that have more to do, next turn */
	struct session *resume_head, **resume_tail;

	struct event *wake;
	bool wake_armed;
	int64_t woke_us;

	int64_t certificates_us;     /* when their ends were looked at last */
	bool draining;
	struct event *drain_end;
	struct event *drain_turn;    /* goes on with ending idle sessions, from drain_at */
	struct session *drain_at;
	void (*drained)(void *);
	void *drained_arg;

	/* refusals are logged at most this often */
	int64_t refusal_second;
	unsigned refusal_lines;
	uint64_t refusals_unlogged;

	/* counters since start */
	uint64_t iprev[IPREV_PERMERROR + 1];
	uint64_t connections, accepted, octets, rejected[REFUSED_N], timeouts, deadlines[DEADLINE_N], tls, tls_failed, tls_resumed, orphans,
	    proxied_total, used[USED_N], held_for_sender, local_accepted, local_repeats;
};

/* ingress_start() with any database behind it. */
int ingress_start_with(struct ingress *in, struct event_base *base, const struct admission_backend *be,
    const struct ingress_sink *sink);
/* Ends sessions beyond their deadlines, a number of them at once and the others in the turns of the loop to come; the clock is
 * the caller's. */
void ingress_sweep(struct ingress *in, int64_t now_us);
/* Is the queue as full as it may be? */
bool ingress_queue_full(const struct ingress *in);
/* backend_store.c: who is asked for recipients and the greylist; the queue is counted, where that is wanted. */
struct recipient_backend backend_recipients(struct ingress *in);
struct greylist_backend backend_greylist(struct ingress *in);
struct tally_backend backend_tally(struct ingress *in);
struct failures_backend backend_failures(struct ingress *in);
void backend_count_queue(struct ingress *in, int64_t now_us);
/* Counts and, within the rate, logs one refusal. */
void ingress_refused(struct ingress *in, const struct session *s, enum refusal why, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Runs session_pump() for s in the next turn of the loop. */
void ingress_resume_later(struct ingress *in, struct session *s);
/* A session was removed: a drain may be over. */
void ingress_session_gone(struct ingress *in);
/* admit_done_fn: answers clients, hands messages to workers. arg: the ingress. */
void ingress_admitted(void *arg, struct message *const *msgs, const enum store_rc *rcs, size_t n);
/* Wakes the dispatcher for rows that no worker was reserved for, at most once per DISPATCH_WAKE_INTERVAL. */
void ingress_wake(struct ingress *in);
/* A timer callback: now. */
void ingress_on_wake(evutil_socket_t fd, short what, void *arg);

#endif
