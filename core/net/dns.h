/* The asynchronous stub resolver of an event loop: questions in, answers (proto/dns/answers.h) by callback. Nothing here
 * blocks, and no callback is ever called from inside the call that asked, not even for what stands in the cache.
 *
 * It asks the recursive resolvers it is told of (resolv.conf, or [pepsi-dns] SERVERS): by UDP, a socket and thus a port of
 * its own per query (to loopback, where none can be guessed at, sockets may be used again), a random id, connected, so that the
 * kernel drops what comes from elsewhere; by TCP where a reply is truncated, or where forged replies arrive. Time-outs lead to the
 * next server; a server that stays silent is taken for down and probed beside real questions until it answers. Equal questions at
 * the same time are one query. Answers are cached for their TTL, negative ones as RFC 2308 says, failures for some seconds.
 *
 * Everything is asked in a group: the budget of one message, or of one connection, in queries and in time. What is asked
 * beyond it is answered with DNS_TEMPFAIL, never left without an answer.
 *
 * One connection, told:
 *
 *     s->dns = net_dns_group_new(dns, 10 * US_PER_S, 20);              // at its start
 *     net_dns_query(s->dns, STR("example.org"), DNS_MX, on_mx, s);
 *     …
 *     static void on_mx(void *arg, const struct dns_answer *a)        // later, from the loop
 *     {
 *             struct session *s = arg;
 *             if (a->status == DNS_TEMPFAIL)
 *                     return later(s, a->why);                         // not "no mail exchanger"
 *             …                                                         // dns_answer_ref(a) to keep it
 *     }
 *     …
 *     net_dns_group_free(s->dns);                                      // at its end, at any time: no callback comes any more
 *
 * A DNS block list (RFC 5782), told: one query per list, all at once, judged in one place. An evaluator over all lists does it,
 * and net_dns_evaluate() resolves what it misses:
 *
 *     static int listed(void *arg, struct dns_answers *set)
 *     {
 *             struct check *c = arg;
 *             bool more = false;
 *             for (size_t i = 0; i < c->n_lists; i++) {
 *                     char name[DNS_NAME_MAX + 1];
 *                     int n = dns_name_reverse(c->ip, c->ip_n, c->list[i].zone, name);  // "1.2.0.192.zen.example"
 *                     const struct dns_answer *a = n < 0 ? NULL : dns_answers_get(set, str_n(name, (size_t)n), DNS_A);
 *                     if (!a && n >= 0)
 *                             more = true;
 *                     else if (a && a->n_rr && a->rr[0].data.p[0] == 127)               // RFC 5782 §2.1; else the list is broken
 *                             c->score += c->list[i].weight;                            // DNS_TEMPFAIL counts for nothing
 *             }
 *             return more ? (c->score = 0, DNS_MORE) : DNS_DONE;
 *     }
 *     net_dns_evaluate(s->dns, listed, c, on_listed, s); */
#ifndef NET_DNS_H
#define NET_DNS_H

#include "base/buf.h"
#include "proto/dns/answers.h"

#include <event2/event.h>
#include <sys/socket.h>

struct net_dns;
struct net_dns_group;
struct net_dns_ask;
struct net_dns_evaluation;

/* ---- settings */

enum { NET_DNS_SERVERS_MAX = 8, NET_DNS_SERVER_TEXT = 56 };

struct net_dns_server {
	struct sockaddr_storage ss;
	socklen_t n;
	bool loopback;
	bool local;                     /* a socket of ours (AF_UNIX): the resolving child, see recursor/recursor.h */
	char text[NET_DNS_SERVER_TEXT]; /* "127.0.0.1:53", "[::1]:53", "libunbound" */
};

struct net_dns_settings {
	struct net_dns_server server[NET_DNS_SERVERS_MAX];
	unsigned n_servers;
	char resolv_conf[256];       /* servers come from this file and are read again when it changes; "": they are fixed */
	bool trust_ad;               /* of all servers; else of those on loopback only */
	bool random_case;            /* 0x20 */
	bool reuse;                  /* keep sockets to servers on loopback for the next question: for a loop that never ends, for it has something to wait for then */
	int64_t timeout_us;          /* of one attempt; 0: what resolv.conf says, else 2 s */
	unsigned attempts;           /* rounds over the servers; 0: likewise, else 2 */
	int64_t lookup_us;           /* of one question, all attempts together */
	int64_t message_us;          /* of a group, unless it is told otherwise */
	unsigned max_queries;        /* of a group, unless it is told otherwise */
	unsigned max_in_flight;      /* questions at once; each holds a descriptor */
	size_t cache_octets, cache_entries;
	uint32_t max_ttl, max_negative_ttl;
};
/* Where settings are read from: [pepsi-dns] of a configuration, which this folder cannot see. text: the value or NULL, and as "SOCKET" the
 * path of the resolving child's socket, which BACKEND = libunbound asks instead of servers; number: as config_int(), durations in the unit of the option's table (DNS options are in microseconds). */
struct net_dns_source {
	const char *(*text)(const void *arg, const char *option);
	int64_t (*number)(const void *arg, const char *option);
	const void *arg;
};
/* 0, or -1 with the reason in err: a word of SERVERS that is no address. Reads resolv.conf where it is needed; one that is not
 * there or names nobody means 127.0.0.1 (resolver(5)). */
int net_dns_settings_read(struct net_dns_settings *ret, const struct net_dns_source *src, char *err, size_t err_size);
/* One "127.0.0.1", "127.0.0.1:5353", "::1", "[::1]:53". 0, or -1. */
int net_dns_server_parse(struct str word, struct net_dns_server *ret);
/* The text of a resolv.conf: servers, and timeout and attempts where they are 0. For net_dns_settings_read and tests. */
void net_dns_resolv_parse(struct str text, struct net_dns_settings *s);

/* ---- the resolver */

/* NULL: memory. Lives as long as anything that was made of it; one per event loop. */
struct net_dns *net_dns_new(struct event_base *base, const struct net_dns_settings *s);
/* All groups must be gone. Accepts NULL. */
void net_dns_free(struct net_dns *d);
/* New settings; other servers mean that the cache is emptied and questions under way are asked again. */
void net_dns_reload(struct net_dns *d, const struct net_dns_settings *s);

/* Appends metrics in the text format of Prometheus. */
void net_dns_metrics(const struct net_dns *d, struct buf *out);
/* Appends {"servers":[{"server","up","queries","timeouts","failures","rtt_ms","trusted"}],"in_flight",…}, JSON. */
void net_dns_status(const struct net_dns *d, struct buf *out);

/* The answer in the cache, if there is one, turned out to be of no use: the next question is asked anew. */
void net_dns_forget(struct net_dns *d, struct str name, enum dns_type type);

/* ---- groups */

/* deadline_us: from now on, 0: [pepsi-dns] MESSAGE_DEADLINE. max_queries: 0: MAX_QUERIES; what the cache knows does
 * not count. NULL: memory. */
struct net_dns_group *net_dns_group_new(struct net_dns *d, int64_t deadline_us, unsigned max_queries);
/* Cancels what is still open: no callback comes. Allowed in a callback. Accepts NULL. */
void net_dns_group_free(struct net_dns_group *g);
/* Queries it caused. */
unsigned net_dns_group_queries(const struct net_dns_group *g);
struct net_dns *net_dns_of(const struct net_dns_group *g);

typedef void (*net_dns_fn)(void *arg, const struct dns_answer *a);
/* Asks. The callback comes exactly once, later, unless the group is freed or the ask cancelled. a->status DNS_TEMPFAIL: a->why
 * says it: "time-out", "SERVFAIL", "query budget used up", "deadline passed", "too many questions at once". What is no
 * domain name is NXDOMAIN with why. Returns the handle for cancelling, valid until the callback; NULL: memory, no callback. */
struct net_dns_ask *net_dns_query(struct net_dns_group *g, struct str name, enum dns_type type, net_dns_fn fn, void *arg);
void net_dns_cancel(struct net_dns_ask *ask);

/* How the answer that is just being delivered came about; only inside a net_dns_fn. */
struct net_dns_delivery {
	bool cached;
	uint32_t ttl_left;  /* seconds */
	const char *server; /* who told; "" when nobody did */
	int64_t took_us;    /* of the query; 0 when cached */
};
struct net_dns_delivery net_dns_delivery(const struct net_dns *d);

/* Runs an evaluator (answers.h) until it is done: run, resolve what is missing, run again. `done` gets what fn returned last
 * (DNS_DONE or negative) and the set, which dies behind it; it comes once, from the loop. An evaluator that says
 * DNS_MORE without asking for anything new ends with -1. All within the group's budget and deadline: behind them every
 * further name is a DNS_TEMPFAIL, so it ends. NULL: memory, no callback. Freeing the group cancels it. */
typedef void (*net_dns_done_fn)(void *arg, int rc, const struct dns_answers *set);
struct net_dns_evaluation *net_dns_evaluate(struct net_dns_group *g, dns_evaluate_fn fn, void *fn_arg, net_dns_done_fn done, void *arg);
void net_dns_evaluation_cancel(struct net_dns_evaluation *e);

/* Appends an answer as a JSON object: {"name","type","status","ttl","authenticated","chain":[…],"records":["10 mx.test"],"why"?,
 * "cached","server"?,"took_ms"?}. how: NULL: without the last three. */
void net_dns_answer_json(const struct dns_answer *a, const struct net_dns_delivery *how, struct buf *out);

/* ---- for processes without an event loop of their own (workers, tools): ask and wait. d was made on a base that nobody else
 * runs. One reference is yours. NULL: memory. Never in the reactor. */
struct dns_answer *net_dns_wait(struct net_dns_group *g, struct str name, enum dns_type type);

#endif
