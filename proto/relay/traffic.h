/* Who may send now: how many connections and messages a destination gets, when it is left alone, and that those that are slow or dead never take
 * the room of those that are not. One object per worker; it holds the messages that wait, and counts the sessions. It opens nothing, knows no
 * clock and no chance: the caller owns sockets and time, tells what happened, and asks what to do.
 *
 * A message, told. `now` is the caller's monotonic clock in milliseconds throughout.
 *
 *     process(msg)            asks for the exchangers; shape_find(shapes, &route, domain, &name)
 *                             if (traffic_add(t, now, &name, tag, &m->item, &back) == TRAFFIC_BACK)
 *                                     pause(msg, …, back.seconds): back to the queue, not an attempt; back.why for the log
 *     pump()                  after every call below, and when the timer fires:
 *                             while (traffic_next(t, now, &todo) != TRAFFIC_NOTHING) switch (todo.what) {
 *                             case TRAFFIC_START:  m = message of todo.item: make a session s, traffic_begin(t, now, &s->link, todo.item);
 *                                                  choose address and source (health.h, source.h), connect …
 *                             case TRAFFIC_REUSE:  the session of todo.link has nothing to do: send the message of todo.item over it
 *                             case TRAFFIC_RETURN: back to the queue, as above: todo.back
 *                             case TRAFFIC_ABANDON: it has been connecting for long and others need the room: close the socket of todo.link, and
 *                                                  give the message of todo.item back: todo.back. Only before traffic_ready()
 *                             case TRAFFIC_CLOSE:  todo.link has nothing to do and is not needed: QUIT. No traffic_end() after it
 *                             }
 *                             arm the timer with traffic_wait(t, now)
 *     greeting, EHLO, TLS     traffic_ready(t, now, &s->link): the transaction of its message begins
 *     the message is over     traffic_sent(t, now, &s->link, &result): whatever became of it. With several recipients: the result that says most of
 *                             the destination: traffic_worse(). TRAFFIC_YOURS (nearly always): the item is the caller's again, who completes
 *                             the message (or pauses it: a refusal for now is an attempt). The session is idle now; if it cannot go on (lost,
 *                             protocol error, 421), traffic_end() at once, before traffic_next()
 *     the session is over     traffic_end(t, now, &s->link, failure or NULL): it failed before its message was sent or refused, or the other
 *                             side closed it while it was idle (NULL: that is no failure). Says what becomes of its message, if it has one:
 *                             TRAFFIC_KEPT: it waits again, at the front, and will come up in traffic_next();
 *                             TRAFFIC_YOURS: this was its attempt: pause() by the retry policy
 *     stop(msg)               traffic_drop(t, now, item): wherever it is; close the session that works for it
 *
 * What counts as a session's failure: that no address of the destination could be used. A session goes from one address to the next by itself;
 * meanwhile it is one session here. A failure of our own (no socket, no route for the family) is TROUBLE_LOCAL and blames nobody: traffic_end()
 * takes the trouble beside the result.
 *
 * Tags. Sessions to one destination may differ in what they can carry: source address, name, what was proved of the certificate. The caller
 * makes a number of all that matters (0 is fine); a message is only given to an idle session whose tag is equal.
 *
 * Look-ups. Names that cannot be looked up cost slots as dead hosts do, so a look-up can be run as a destination: shape_lookup() names it,
 * traffic_add(), START: ask the DNS, instead of connecting; found: traffic_ready(), traffic_sent(result SMTP_OUT_OK), traffic_end(NULL), then
 * traffic_add() with the true name; failed: traffic_end() with TROUBLE_DNS. One at a time per domain to begin with, so a thousand messages ask
 * one question.
 *
 * How it decides.
 *  - Window. Each destination has a number of connections it may use at once. It begins with shape.initial, grows by one with each success until
 *    the first trouble, then by one per windowful, up to shape.concurrency. "Too many connections" sets it to what was open, and that is
 *    exceeded again by one after ten minutes, then twenty, …; a rate limit, a time-out, a lost session or "not now" halves it.
 *  - Rate. A token bucket per destination (shape.rate). A destination that says "too fast" is paused (its back-off, doubling), then gets
 *    four fifths of the rate it had; each minute without complaint gives a tenth more.
 *  - Back-off. When a destination fails, nothing else works there and no other session shows it to be alive, it is left alone: first
 *    shape.backoff_first_ms, doubling, with chance in it. Then exactly one message tries. If that works the window opens from one.
 *    Meanwhile one message stays here for that, if the time is short; the others go back to the queue.
 *  - Room. `slots` messages are here at most. A destination is good (its sessions work, and a transaction takes less than TRAFFIC_SLOW_MS
 *    on average), new (nothing known), or poor (slow, failing, or silent for TRAFFIC_TRIAL_MS; sooner when more than a quarter of the slots is
 *    taken by new ones, or seven eighths by all: eight times what is usual now). Poor ones hold at most a quarter of the slots together, new ones half
 *    and what the poor leave of theirs, each of them few; good ones have all the rest. When a new one has been silent for too long and the quarter is full, it is abandoned, and has a
 *    place among the poor later. Where a worker has more to do than it can, all seem slow: the times are stretched by what is usual, up to
 *    three times. The quarter is at least one slot: with fewer than four slots the poor can hold up the good.
 *  - Who goes back to the queue gets a time by its place in the destination's line: the messages given back come again one after the other at
 *    the pace at which the destination takes them, those of a dead one spread over its back-off. So each is claimed in vain a few times only.
 *  - Ready destinations take turns, a message each.
 *
 * Several workers. Limits are divided by their number; the dispatcher sends one domain to one worker, so a destination of one domain never has more
 * than its part. A concurrency below `workers` gives every worker one (up to `workers` in all: shapes_doubt() warns); rates divide exactly.
 *
 * Memory: TRAFFIC_DESTINATIONS_MAX destinations, the longest unused are forgotten; items and links are the caller's. All calls cost O(log n) or
 * less, but traffic_view(). */
#ifndef PROTO_RELAY_TRAFFIC_H
#define PROTO_RELAY_TRAFFIC_H

#include "base/buf.h"
#include "proto/relay/shape.h"
#include "proto/relay/trouble.h"

enum {
	TRAFFIC_DESTINATIONS_MAX = 20000,
	TRAFFIC_SLOW_MS = 3000,          /* mean time of a transaction from which on a destination is poor */
	TRAFFIC_TRIAL_MS = 2000,         /* a new destination's first session is silent for so long: it is poor */
	TRAFFIC_HORIZON_MS = 20000,      /* no more messages wait here than the destination takes in that time */
	TRAFFIC_BACK_MOST_S = 3600,      /* longest time given back for */
	TRAFFIC_ERROR_MAX = TROUBLE_TEXT_MAX, /* octets kept of the last error's text */
};

struct traffic;
struct traffic_destination; /* private */

/* In the caller's message. Zero it (or leave it as the engine left it) before traffic_add(). */
struct traffic_item {
	void *owner;                         /* the caller's */
	/* private */
	struct traffic_destination *at;
	struct traffic_item *next, *prev;
	struct traffic_link *link;
	uint64_t tag;
	int64_t since;
	unsigned char passed, tries, state;
};
/* In the caller's session. */
struct traffic_link {
	void *owner;                         /* the caller's */
	/* private */
	struct traffic_destination *at;
	struct traffic_item *item;
	struct traffic_link *next, *prev;            /* of its destination */
	struct traffic_link *idle_next, *idle_prev;  /* of all that are idle */
	uint64_t tag;
	int64_t since;
	unsigned messages;
	unsigned char state;
	bool trial;
};

struct traffic_conf {
	unsigned slots;        /* messages this worker holds: QUEUE_LIMIT; at least 1 */
	unsigned workers;      /* PARALLELISM; at least 1 */
	unsigned sessions;     /* connections this worker may have, idle ones included; 0: as many as slots */
	uint64_t seed;         /* random: for jitter and the hash of names */
};
/* NULL: out of memory. */
struct traffic *traffic_new(const struct traffic_conf *conf);
void traffic_free(struct traffic *t); /* accepts NULL; items and links are the caller's */

struct traffic_back {
	unsigned seconds;      /* at least 1 */
	const char *why;       /* a constant word: "backoff", "window", "rate", "poor", "full", "memory" */
	const char *text;      /* the destination's last error, "" when there is none; until the next call */
	/* What else waits for the destination, wherever that is, need not be tried before others_s, and then one in each_ms. each_ms 0: nothing is said of it:
	 * there is no room just now, or the destination gets faster perhaps. */
	unsigned others_s, each_ms;
};

enum { TRAFFIC_KEPT = 0, TRAFFIC_BACK = 1, TRAFFIC_YOURS = 2 };

/* A message for this destination. TRAFFIC_KEPT, or TRAFFIC_BACK: no room for it, *back says for how long. */
int traffic_add(struct traffic *t, int64_t now, const struct shape_name *name, uint64_t tag, struct traffic_item *item,
    struct traffic_back *back);
/* Would a message be taken? As traffic_add(), but nothing is: before a costly step (policy, TLSA records). TRAFFIC_BACK is to be followed: the
 * message has a place in the line by it. A destination that is not known takes it. */
int traffic_would(struct traffic *t, int64_t now, const struct shape_name *name, struct traffic_back *back);

enum traffic_what { TRAFFIC_NOTHING, TRAFFIC_START, TRAFFIC_REUSE, TRAFFIC_RETURN, TRAFFIC_ABANDON, TRAFFIC_CLOSE };
struct traffic_todo {
	enum traffic_what what;
	struct traffic_item *item;     /* not of CLOSE */
	struct traffic_link *link;     /* of REUSE, ABANDON, CLOSE */
	struct traffic_back back;      /* of RETURN, ABANDON */
};
enum traffic_what traffic_next(struct traffic *t, int64_t now, struct traffic_todo *ret);
/* Milliseconds until traffic_next() may have something although nothing happened; -1: never. */
int64_t traffic_wait(struct traffic *t, int64_t now);

/* Behind TRAFFIC_START, before the next traffic_next(). The link is zeroed but for its owner. */
void traffic_begin(struct traffic *t, int64_t now, struct traffic_link *link, struct traffic_item *item);
/* The tag of a session, when it is only known once it is made; else it is its first message's. */
void traffic_retag(struct traffic *t, struct traffic_link *link, uint64_t tag);
void traffic_ready(struct traffic *t, int64_t now, struct traffic_link *link);
/* TRAFFIC_YOURS: the item is the caller's. TRAFFIC_KEPT: nothing was said of the message: a reused session was closed by the other side as we
 * began (lost, or 421, at MAIL); it waits again, at the front; its recipients' results are to be forgotten. The session is over then: as
 * always when it cannot go on, traffic_end() before traffic_next(). */
int traffic_sent(struct traffic *t, int64_t now, struct traffic_link *link, const struct smtp_result *result);
/* failure NULL: the session just ended. trouble: TROUBLE_NONE: trouble_of(failure); else what the caller knows better (TROUBLE_LOCAL, _DNS,
 * _TLS). Returns TRAFFIC_KEPT or TRAFFIC_YOURS (also when it had no message). */
int traffic_end(struct traffic *t, int64_t now, struct traffic_link *link, const struct smtp_result *failure, enum trouble trouble);
/* No more of this message; nothing when it is not here. A session that works for it is forgotten with it: its end need not be told. */
void traffic_drop(struct traffic *t, int64_t now, struct traffic_item *item);
/* Of two results of one transaction (recipients), the one to tell. */
const struct smtp_result *traffic_worse(const struct smtp_result *a, const struct smtp_result *b);

/* -- what an operator sees */

enum traffic_state { TRAFFIC_NEW, TRAFFIC_GOOD, TRAFFIC_POOR, TRAFFIC_WAITING, TRAFFIC_PROBING,
	TRAFFIC_UNSAFE, /* never said here: a domain whose hosts are not as safe as it demands, for who shows both in one list */
	TRAFFIC_STATES };
/* "new", "good", "slow", "backoff", "probe", "unsafe" */
const char *traffic_state_name(enum traffic_state s);

struct traffic_view {
	const char *key;                       /* NUL-terminated; until the next call that is not a view */
	enum traffic_state state;
	unsigned window, concurrency;          /* this worker's part */
	unsigned working, idle, waiting;       /* sessions, sessions, messages */
	unsigned rate;                         /* messages a minute, learnt or set; 0: no limit */
	int64_t backoff_ms;                    /* left; 0: none */
	int64_t mean_ms;                       /* of a transaction; 0: none yet */
	enum trouble trouble;                  /* the last one */
	int64_t trouble_ms;                    /* ago */
	const char *error;                     /* its text: printable, or "" */
	const char *tls;                       /* of its last session, "": none; NULL: not told */
	uint64_t sent, refused, failed, given_back; /* messages accepted; refused; sessions failed; since it is known */
};
/* Walks the destinations, the latest used first: *pos begins as NULL. No other call in between. False at the end. */
bool traffic_view(const struct traffic *t, int64_t now, const void **pos, struct traffic_view *ret);
/* What changed since the last call: a destination was paused (backoff_ms > 0), or is served again. One call each; false: no more. */
bool traffic_news(struct traffic *t, int64_t now, struct traffic_view *ret);
/* As a JSON object. */
void traffic_view_json(const struct traffic_view *v, struct buf *out);

struct traffic_totals {
	unsigned destinations, slots, held, held_new, held_poor, sessions, idle;
	unsigned failing;              /* destinations */
	uint64_t started, reused, sent, refused, failed, given_back, abandoned, forgotten;
	uint64_t trouble[TROUBLE_N];
};
void traffic_totals(const struct traffic *t, struct traffic_totals *ret);

#endif
