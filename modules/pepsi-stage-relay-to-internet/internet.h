/* What the files of the stage share: the worker, a delivery (one message on its way), a line (one session and what it is for).
 *
 * One message through it, told.
 *
 *     process()       load.c reads the row. Recipients of several domains: the row is split, one domain each (group.c), and comes again.
 *     delivery.c      asks for the route, the domain's MTA-STS policy, then the exchangers' TLSA records (plan.c): what each host demands
 *     queue.c         the delivery waits until traffic says: start, or use that session (or: come back later)
 *     line.c          goes through the addresses in their order: connects, greets, TLS; judges; hands over; next host for those who may still
 *                     be served there; results come together in the delivery
 *     delivery.c      every recipient has a result: relay_decide() makes the terminal of them, complete()
 *
 * Callbacks of the loop come into lookup, session and timer; each says first whom it works for (host->in_hand()). */
#ifndef INTERNET_H
#define INTERNET_H

#include "address_health.h"
#include "base/arena.h"
#include "known.h"
#include "lookup.h"
#include "pattern.h"
#include "proto/relay/route.h"
#include "proto/relay/source.h"
#include "proto/relay/tls.h"
#include "proto/relay/traffic.h"
#include "proto/relay/warmup.h"
#include "ratchet_memory.h"
#include "relay.h"
#include "session.h"
#include "sts_policies.h"
#include "tls_results.h"

enum {
	HOSTS_MAX = 10,       /* exchangers of a domain that are tried, and whose TLSA records are asked for */
	TRIES_MAX = 20,       /* connections of one attempt */
	HOSTS_SEND_MAX = 4,   /* exchangers that a message is offered to within one attempt, when each refuses for now */
	RCPTS_MAX = 100,      /* recipients of one transaction (RFC 5321 §4.5.3.1.8) unless the peer says how many */
	TEXTS_MAX = 1024 * 1024, /* octets of replies kept for one message */
	OWN_MAX = 64,         /* addresses and names of our own */
	NETWORKS_MAX = 256,   /* of ALLOW_NETWORKS */
	POLICIES_MAX = 10000, /* TLS_POLICY_… lines' patterns */
};

struct tls_site {
	struct pattern p;
	enum tls_operator policy;
	char *names; /* of "verify=": "mail.example.org,.example.net"; owned; NULL: the host's */
};

struct settings {
	unsigned port;
	char helo[256];
	bool ipv4, ipv6, local_ok, dane, sts, health, tlsrpt, loops;
	struct tls_site tls;   /* of all domains that no other fits */
	struct tls_site *site; /* the first that fits */
	size_t n_site;
	char *ca_file;
	struct str own[OWN_MAX]; /* host names; owned */
	size_t n_own;
	struct route_own own_ip[OWN_MAX];
	size_t n_own_ip;
	struct outside_net *allow;
	size_t n_allow;
	struct session_times times;
	struct shapes *shapes;
	struct sources *sources;
	struct relay_downgrade downgrade;
	enum smtp_chunking chunking;
	struct warmups *warmups;
	struct relay_policy policy; /* hop and remote_mta are a recipient's */
	char *stage;
};

struct delivery;
struct line;

struct worker {
	const struct pepsi_host *host;
	const struct pepsi_conf *conf;
	struct settings set;
	struct session_env env;
	struct delivery *all;
	struct line *lines;
	struct queue *queue;
	struct known *known;               /* the database, for those that follow */
	struct sts_policies *sts;
	struct address_health *health;
	struct ratchet_memory *ratchet;
	struct tls_results *results;
	struct safety *safety;
	struct warm *warm;                 /* NULL: no plans */
	struct relay_measure measure;
	struct pepsi_metric *back;         /* messages that went back to the queue untried, by why */
	struct pepsi_metric *loops;        /* sessions with ourselves */
	struct outlook *outlook;
	uint64_t seed;
};

struct plan_host {
	struct dane_lookup dane;
	struct tls_rules rules;
	struct tls_need need;
	bool told;  /* that it is not usable */
	bool done;  /* not to be tried (again) in this attempt */
	bool lacks; /* it does not take the message as it is: left for another exchanger */
};

struct delivery {
	struct worker *w;
	struct pepsi_msg *msg;
	struct delivery *next, *prev;
	struct arena *a;
	struct smtp_client_msg m;          /* all recipients, with their results */
	int64_t loaded_at;                 /* monotonic ms: m.deliver_by counts from there */
	bool *todo, *asked;                /* of each recipient: may still be served in this attempt; was offered to this host */
	const struct relay_where **where;  /* of each result */
	uint32_t *room;                    /* of relay_decide() */
	const char **how;                  /* "host=… ip=… tls=…": for the log */
	char domain[DNS_NAME_MAX + 3];     /* folded; or an address literal */
	bool optional;                     /* TLS-Required: No */
	struct dns_answers *answers;
	struct lookup *look;
	bool fresh;                        /* the route was asked for past the cache */
	bool looking;                      /* the item stands for the look-up of the domain, not for a session yet */
	struct traffic_link look_link;
	struct sts_ask *sts_ask;
	struct sts_held *sts;              /* NULL: MTA-STS is off, or not for such a domain */
	struct route route;
	struct plan_host host[HOSTS_MAX];
	unsigned n_hosts;
	const struct tls_site *site;       /* what the operator demands; the settings' */
	uint64_t tag;                      /* of sessions that will do */
	struct line *line;
	bool no_dsn, no_deliver_by;        /* a host that took it did not offer them: what was asked for is ours to report */
	bool taken;                        /* by one at least */
	const struct relay_where *downgrade_told; /* for which host */
	const char *unsafe;                /* why a host was not used in this attempt, or left again, for want of safety; NULL: none was */
	/* this attempt */
	bool began;                        /* it counts */
	unsigned char order[ROUTE_ADDRESSES_MAX]; /* of route.address: those that may be tried now */
	unsigned at, n_order;              /* next of order */
	int64_t healthy_at;                /* seconds since 1970: with n_order 0, when one may be tried */
	bool settled;                      /* no exchanger takes the message as it is: those that lack something will do */
	unsigned tries, offered;           /* connections; hosts that said no for now */
	struct smtp_result failure;        /* why nothing could be sent: for those without a result */
	const struct relay_where *failed_at;
	struct pepsi_event *grace;         /* it is to end: when this fires at the latest; NULL: it is not */
	uint32_t back_s;                   /* it goes back to the queue for so long; 0: it does not */
	/* queue.c's */
	struct shape_name name;            /* of the destination */
	struct traffic_item item;
};

struct line {
	struct worker *w;
	struct line *next, *prev;
	struct session *s;                 /* NULL: none just now */
	struct delivery *d;                /* NULL: idle */
	struct traffic_link link;
	struct source *source;             /* NULL: the system's choice */
	struct warm_share *share;          /* a message of its warm-up plan, booked; NULL: none */
	char host[DNS_NAME_MAX + 1];       /* as the MX record names it */
	struct route_address ip;
	char ip_text[64];
	unsigned at_host;                  /* d->host[]; while d is there */
	bool plain;                        /* TLS failed there and may be left out */
	bool reused, judged, sent, stale;  /* of the message under way */
	const char *verified;              /* "dane", "mta-sts", "pkix", "no" */
	enum ratchet_level level;          /* what mail over it is worth */
	const struct relay_where *where;   /* in the delivery's memory */
	const char *how;
	struct smtp_client_msg part;       /* recipients of this transaction */
	struct smtp_client_rcpt *rcpts;
	uint32_t *idx;
	size_t room;
};

/* settings.c */
int32_t settings_validate(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report);
/* 0, or -1 with the reason appended to why. */
int settings_read(struct settings *s, const struct pepsi_host *host, const struct pepsi_conf *conf, struct buf *why);
void settings_done(struct settings *s);
/* Is it a name of ours? */
bool settings_own(const struct settings *s, struct str name);
const struct tls_site *settings_tls(const struct settings *s, const char *domain);

/* group.c. The domain of the first recipient into ret (DNS_NAME_MAX + 3 octets); if there are others the row is split: 1, and the pass is over
 * with *ret_rc. 0: one domain. */
int group_by_domain(struct worker *w, struct pepsi_msg *msg, char *ret, bool *ret_literal, int32_t *ret_rc);

/* delivery.c */
int32_t delivery_begin(struct worker *w, struct pepsi_msg *msg);
struct delivery *delivery_find(struct worker *w, const struct pepsi_msg *msg);
/* Its recipients wait for a session (again): nothing of the last attempt is left but results that stand. */
void delivery_reset(struct delivery *d);
/* It was told to start while looking: asks for the exchangers. */
void delivery_look(struct delivery *d);
/* Ends it: recipients without a result get d->failure; terminal, complete(). d is gone. */
void delivery_end(struct delivery *d);
/* Back to the queue for so many seconds; no attempt. why: for the log and the state. */
void delivery_back(struct delivery *d, uint32_t seconds, const char *why, const char *text);
/* As traffic wants it: with what else waits for the domain, where that would fare alike. */
void delivery_give_back(struct delivery *d, const struct traffic_back *b);
/* Nothing could be sent, for this reason; text is copied. Of several the last stays, but one that may pass is kept before one that cannot. */
void delivery_failed(struct delivery *d, const struct smtp_result *r, const struct relay_where *where);
/* The same for a cause of our own or the host's: code 0. */
void delivery_failed_by(struct delivery *d, const struct relay_where *where, enum smtp_phase phase, const char *status, const char *text);
/* The same for a host that is not safe enough. */
void delivery_unsafe(struct delivery *d, const struct relay_where *where, enum smtp_phase phase, const char *status, const char *text);
/* The same result with its text in the delivery's memory: an engine's own lives until its next message, or its end. */
struct smtp_result delivery_keep(struct delivery *d, const struct smtp_result *r);
/* The result of recipient i, kept, if it says more than what is there. */
void delivery_result(struct delivery *d, size_t i, const struct smtp_result *r, const struct relay_where *where, const char *how);
void delivery_free(struct delivery *d);
void delivery_stop(struct delivery *d, uint32_t why);

/* plan.c. A dns_evaluate_fn: TLSA records of the exchangers; arg: struct delivery. Then what each demands. Returns how many may be used. */
int plan_evaluate(void *arg, struct dns_answers *set);
unsigned plan_make(struct delivery *d);
/* Host h may not be used: why is a failure of the delivery, and told in reports; once. */
void plan_refuse(struct delivery *d, unsigned h);
/* Is the session as safe as host h of the delivery demands? */
bool plan_judge(struct delivery *d, unsigned h, const struct session_facts *f, bool plain, struct tls_verdict *ret, const char **ret_verified,
    enum ratchet_level *ret_level);
/* How long the answer that gave an address of host h may be kept, seconds. */
uint32_t plan_ttl(const struct delivery *d, const struct route_address *a);

/* safety.c: domains whose hosts are not as safe as they must be are left alone by themselves, so that others at the same hosts are not. */
struct safety *safety_new(const struct pepsi_host *host);
void safety_free(struct safety *s); /* accepts NULL */
/* Is the domain of d, with what is demanded of its hosts now (d->tag), left alone? For so many seconds; 0: no, and this is the one that tries where it
 * was. *ret_why: until the next call. */
uint32_t safety_rests(struct delivery *d, const char **ret_why);
/* None of its hosts was safe enough (d->unsafe); or one was. */
void safety_refused(struct delivery *d);
void safety_met(struct delivery *d);
/* The domains that are left alone, as destinations of state "unsafe", into v: those that were so in the last day, at most `most`. Returns how many; texts
 * until the next call that is not a view. v NULL: how many there may be. */
size_t safety_view(const struct safety *s, int64_t now, struct traffic_view *v, size_t most);

/* line.c */
/* A new session for d, which is no longer waiting. */
void line_start(struct delivery *d);
/* Over this idle one. */
void line_use(struct line *l, struct delivery *d);
/* The message of this line is to end now. */
void line_abort(struct line *l, const char *why);
/* Closes an idle one politely, or any at once. l is gone. */
void line_quit(struct line *l);
void line_free(struct line *l);
/* choice.c. May host h be tried now? Where d is settled, those alone that were left for others. */
bool choice_open(const struct delivery *d, unsigned h);
/* Is there another host that may be tried? */
bool choice_more(const struct delivery *d);
/* No other has served: are there exchangers that were left for others? They are tried now, from the first. */
bool choice_settle(struct delivery *d);
/* The peer of l cannot take the message as it is, and another exchanger may: conversion breaks signatures, and some mail cannot be converted at all (RFC 6531
 * 3.5). True: go on to the next; it stays for choice_settle(). False: it is to be used. */
bool choice_leave(struct line *l);
/* sources.c. What the choice of a source address depends on; sender: room for a domain. */
struct source_ask line_ask(const struct delivery *d, unsigned family, char sender[DNS_NAME_MAX + 1]);
/* Our address for a connection to *a, into l and *peer. False: there is none now, or none of that family, and the delivery's failure says so. */
bool source_for(struct line *l, const struct route_address *a, struct session_peer *peer);
/* The line's address is not on this machine any more, or is: told, and remembered. */
void source_gone(struct line *l, const struct smtp_result *failure);
void source_there(struct line *l);
/* With warm-up plans: would the same address be chosen again for this destination, and is there one more message in its plan, if it has one? Else the
 * session is not worth keeping: mail would stay with the old addresses as long as it comes, or with the new one when its day is done. */
bool source_stays(struct line *l);

/* queue.c: who may send now. */
enum queue_says { QUEUE_KEPT, QUEUE_YOURS };
struct queue *queue_new(struct worker *w);
void queue_free(struct queue *q);
/* d->name: of the look-up, or, once the route is known, of the destination. */
void queue_name(struct delivery *d);
/* Would it be taken? False: *ret says for how long to go back; that is to be followed. */
bool queue_would(struct delivery *d, struct traffic_back *ret);
/* Waits; or is gone back to the queue already, where there is no room. */
void queue_add(struct delivery *d);
/* The look-up of d begins, and is over (failure: the domain cannot be looked up now; NULL: whatever there is, it is known). QUEUE_KEPT: it waits again. */
void queue_look(struct delivery *d);
enum queue_says queue_looked(struct delivery *d, const struct smtp_result *failure);
/* A new session for d, which was told to start. */
void queue_begin(struct line *l, struct delivery *d);
/* d is no longer of interest: it waits nowhere, and no line has it. */
void queue_drop(struct delivery *d);
/* The session of l begins the transaction of its message. */
void queue_ready(struct line *l);
/* The message of l is over; the worst result. QUEUE_KEPT: it was no more than a kept session that ended: the message waits again, its results are
 * to be forgotten. */
enum queue_says queue_sent(struct line *l, const struct smtp_result *worst);
/* The session of l is over, or could not be had (failure; NULL: it just ended). QUEUE_KEPT: its message waits again. The caller frees l. */
enum queue_says queue_over(struct line *l, const struct smtp_result *failure);

/* warm.c: warm-up plans of source addresses. */
struct warm *warm_new(struct worker *w); /* NULL: no memory */
void warm_free(struct warm *w); /* accepts NULL. After the lines. */
/* A source_allow_fn; arg: struct warm. */
enum source_allowed warm_allows(void *arg, const struct source *source, const char *destination);
/* One message from there to there: *ret is the booking, to be ended; NULL where there is no plan (w and source may be NULL). False: the plan has none left. */
bool warm_book(struct warm *w, const struct source *source, const char *destination, struct warm_share **ret);
/* It goes from there all the same. */
void warm_over(struct warm *w, const struct source *source, const char *destination);
/* The message was sent, or was not. *share may be NULL, and is afterwards. */
void warm_end(struct warm_share **share, bool used);

/* For outlook.c; nothing of it may be changed. */
const struct traffic *queue_traffic(const struct queue *q);

/* outlook.c: what people see of destinations, in metrics and `pepsi queue destinations`. */
struct outlook *outlook_new(struct worker *w); /* NULL: memory */
void outlook_free(struct outlook *o);          /* accepts NULL */
/* Something happened: it is told soon. */
void outlook_soon(struct outlook *o);
/* The session of a message is there, and is as safe as it must be, or not. */
void measure_session(const struct line *l, bool go);

/* results.c. What is told of a session (or of a host that may not be used: s NULL) in TLS reports. */
void results_tell(struct delivery *d, unsigned h, const struct tls_verdict *v, const struct line *l);

/* log.c */
void log_results(struct delivery *d);
/* What the message was converted to for the host of this line; once for each host, however many transactions. */
void log_downgrade(struct line *l);
/* An address that the DNS names is none that mail from outside is sent to. */
void log_refused(struct delivery *d);
/* Where a result came from, in the delivery's memory; l NULL: from nowhere. NULL: memory. */
const struct relay_where *log_where(struct delivery *d, const struct line *l);
/* Our address of the connection, "-" when there is none. */
const char *log_from(const struct line *l, char *ret, size_t size);
/* "host=… ip=… tls=… verified=…" */
const char *log_how(struct delivery *d, const struct line *l);
/* The same behind a transaction: with what is known of it only now. */
const char *log_sent(struct delivery *d, const struct line *l);

#endif
