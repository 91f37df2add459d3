/* The resolver inside: what dns*.c share. A question that somebody waits for is an ask; asks for the same name and type share one
 * flight, which does the asking: one attempt at a time, by UDP or TCP, until an answer or the end of its time. */
#ifndef NET_DNS_INTERNAL_H
#define NET_DNS_INTERNAL_H

#include "net/dns.h"

#include "base/check.h"
#include "base/clock.h"
#include "dns_cache.h"
#include "proto/dns/message.h"

#include <sys/queue.h>
#include <time.h>

enum {
	DNS_FAIL_TTL = 5,               /* a failure is not asked again for so many seconds (RFC 2308 §7: at most 300) */
	DNS_DOWN_AFTER = 3,             /* attempts without a reply in a row, then a server counts as down */
	DNS_RETRY_FIRST_S = 2,          /* the first probe of a server that is down; doubled up to … */
	DNS_RETRY_MAX_S = 60,
	DNS_NO_EDNS_S = 600,            /* for so long a server that refused EDNS is asked without */
	DNS_FORGED_MAX = 20,            /* replies that are none to one attempt: go on by TCP, where guessing ids does not help */
	DNS_DATAGRAMS_PER_TURN = 32,
	DNS_RESOLV_CHECK_S = 5,         /* resolv.conf is looked at no more often */
	DNS_SPARE_MAX = 32,             /* sockets to servers on loopback kept for the next question */
	DNS_BUCKETS = 256,              /* of the table of flights */
	DNS_GROUP_OPEN = 10,            /* questions of one group under way at once: keys of ten signatures, hosts of an mx term */
	DNS_GROUP_OPEN_BUSY = 2,        /* when half of MAX_IN_FLIGHT is taken: many slow zones may not take it all from the others; of the last quarter, one */
	DNS_TURN_US = 3000,             /* evaluators of one turn of the loop; the next ones have the next turn, sockets come between */
	DNS_LATENCY_BUCKETS = 14,       /* 0.5 ms, doubled */
};

struct server {
	struct net_dns_server at;
	bool down;
	unsigned silent;        /* attempts without a reply in a row */
	unsigned backoff_s;
	int64_t retry_us;       /* when down: next probe */
	int64_t no_edns_us;     /* until then without EDNS */
	int64_t rtt_us;         /* smoothed */
	uint64_t queries, timeouts, failures, forged;
};

struct flight {
	TAILQ_ENTRY(flight) link;      /* all flights */
	TAILQ_ENTRY(flight) in_bucket;
	struct net_dns *d;
	TAILQ_HEAD(, net_dns_ask) asks;
	char name[DNS_NAME_MAX + 1];
	size_t name_n;
	enum dns_type type;
	uint32_t hash;
	int64_t began_us, deadline_us, sent_us;
	uint8_t tried[NET_DNS_SERVERS_MAX]; /* attempts */
	bool answered[NET_DNS_SERVERS_MAX]; /* it told us that it cannot tell: not asked again */
	bool probe;                         /* nobody waits: is this server back? */
	bool plain;                         /* this attempt goes without EDNS */
	const char *why;                    /* the latest failure */
	/* the attempt */
	unsigned server;
	struct dns_query q;
	int fd;
	struct wire *wire;                  /* instead of fd and io, to a server on loopback */
	bool tcp;
	bool heard;                         /* the reply came: nothing more is to come on its socket */
	unsigned forged;
	struct event *io, *timer;
	size_t out;                         /* octets of the query written (TCP, with the two of the length) */
	unsigned char *in;                  /* TCP: length and message; in_n octets are there */
	size_t in_n, in_size;
};

struct net_dns_ask {
	TAILQ_ENTRY(net_dns_ask) link;     /* of the flight, of the group's waiting list, or of the resolver's ready list */
	TAILQ_ENTRY(net_dns_ask) in_group;
	struct net_dns_group *g;
	struct flight *f;                  /* NULL: ready, or waiting */
	char *waits;                       /* the folded name: for its turn, the group having many questions under way. Else NULL */
	struct dns_answer *answer;
	struct net_dns_delivery how;
	enum dns_type type;
	net_dns_fn fn;
	void *arg;
};

TAILQ_HEAD(dns_asks, net_dns_ask);

struct net_dns_evaluation {
	TAILQ_ENTRY(net_dns_evaluation) in_group;
	TAILQ_ENTRY(net_dns_evaluation) ready;
	struct net_dns_group *g;
	struct dns_answers *set;
	dns_evaluate_fn fn;
	net_dns_done_fn done;
	void *fn_arg, *arg;
	unsigned open; /* asks out */
	bool is_ready, failed; /* failed: no memory for an answer */
};

struct net_dns_group {
	struct net_dns *d;
	struct dns_asks asks;
	struct dns_asks waiting;
	TAILQ_ENTRY(net_dns_group) hungry; /* while somebody waits */
	unsigned open;                     /* asks that hang on flights */
	TAILQ_HEAD(, net_dns_evaluation) evaluations;
	int64_t deadline_us;
	bool late;
	unsigned queries, max_queries;
	struct event *timer; /* made when something is under way */
};

struct dns_stats {
	uint64_t answers[16][4]; /* by type (dns_stats_type) and status */
	uint64_t hits, misses, coalesced, waited, authenticated, tcp, forged, budget, deadline, full, edns_off;
	uint64_t latency[DNS_LATENCY_BUCKETS + 1];
	uint64_t latency_us, flights;
};

struct net_dns {
	struct event_base *base;
	struct net_dns_settings s;
	struct server server[NET_DNS_SERVERS_MAX];
	unsigned n_servers;
	struct timespec resolv_time; /* of the resolv.conf that was read */
	uint64_t resolv_inode;
	int64_t resolv_checked_us;
	struct dns_cache *cache;
	TAILQ_HEAD(dns_flights, flight) flights;
	struct dns_flights bucket[DNS_BUCKETS];
	LIST_HEAD(, wire) spares;    /* no question is under way on them */
	unsigned n_spares;
	unsigned in_flight, groups;
	TAILQ_HEAD(, net_dns_group) hungry;
	struct dns_asks ready;
	TAILQ_HEAD(, net_dns_evaluation) evaluations_ready;
	size_t n_ready, n_evaluations_ready;
	struct event *turn;          /* delivers what is ready */
	struct net_dns_delivery now; /* of the delivery going on */
	struct dns_answer *no_memory;
	unsigned char random[512];
	size_t random_left;
	struct dns_stats stats;
};

/* dns.c */
void dns_random(struct net_dns *d, void *p, size_t n);
void dns_wake(struct net_dns *d);
/* The ask has its answer (the reference is taken over) and waits for delivery. */
void dns_ask_ready(struct net_dns_ask *ask, struct dns_answer *a, const struct net_dns_delivery *how);
/* A TEMPFAIL for (name, type); never NULL. */
struct dns_answer *dns_failed(struct net_dns *d, struct str name, enum dns_type type, const char *why);
unsigned dns_stats_type(enum dns_type t);
/* Puts the ask on a flight; it is ready with a failure where there can be none. */
void dns_ask_launch(struct net_dns_ask *ask, struct str name);

/* dns_group.c */
/* Within budget and time? Counts the query then; else *ret_why. */
bool dns_group_may_ask(struct net_dns_group *g, const char **ret_why);
/* May it have one more question under way? */
bool dns_group_has_room(const struct net_dns_group *g);
/* The ask waits for its turn. 0, or -1: memory. */
int dns_group_wait(struct net_dns_ask *ask, struct str name);
void dns_group_unwait(struct net_dns_ask *ask);
/* Launches what waits and has room now: one ask of each group in turn. */
void dns_groups_turn(struct net_dns *d);
/* Runs the evaluators that have all they missed. */
void dns_evaluations_turn(struct net_dns *d);

/* dns_flight.c */
/* The flight for this question, there already or new: then dns_flight_begin() follows once the ask hangs on it. NULL: memory
 * or too many (*ret_why). */
struct flight *dns_flight_join(struct net_dns *d, struct str name, enum dns_type type, bool *ret_new, const char **ret_why);
/* The flight may be over when this returns. */
void dns_flight_begin(struct flight *f);
void dns_flight_free(struct flight *f);
/* Nobody waits any more: goes on for the cache, or ends when there are many. */
void dns_flight_left(struct flight *f);
/* The servers are others now: from the beginning. */
void dns_flight_restart(struct flight *f);
/* What the socket of the attempt brought. True: it was not the reply, the attempt goes on; false: the attempt, and perhaps the
 * flight, is over, do not touch it. */
bool dns_flight_reply(struct flight *f, const unsigned char *p, size_t n);
/* The attempt failed without a reply: refused, unreachable. */
void dns_flight_broken(struct flight *f, const char *why);

/* dns_socket.c */
/* Opens the socket of the attempt and sends the query. 0, or -1: broken at once. */
int dns_socket_open(struct flight *f, bool tcp);
void dns_socket_close(struct flight *f);
/* The servers are others now, or it is all over. */
void dns_sockets_flush(struct net_dns *d);

/* dns_server.c */
/* The servers of d->s; those that stay keep what is known of them. Returns whether they changed. */
bool dns_servers_set(struct net_dns *d);
/* Reads resolv.conf again if it changed; true: the servers did. */
bool dns_servers_watch(struct net_dns *d, int64_t now_us);
/* Which to ask next: 0 and *ret, or -1: no more attempts. */
int dns_server_next(const struct net_dns *d, const struct flight *f, unsigned *ret);
void dns_server_replied(struct net_dns *d, unsigned i, int64_t rtt_us);
void dns_server_silent(struct net_dns *d, unsigned i, const char *why);
/* One that is down and due for a probe: 0 and *ret, or -1. */
int dns_server_probe(struct net_dns *d, int64_t now_us, unsigned *ret);

/* dns_settings.c */
/* The file's servers, time-out and attempts into s. Notes what it read. Returns 0, or -1: not readable (127.0.0.1 then). */
int dns_resolv_load(struct net_dns_settings *s, struct timespec *ret_time, uint64_t *ret_inode);

#endif
