/* The inside of traffic.h, shared by its files: traffic.c (what is told and asked), traffic_table.c (destinations, their lists and timers),
 * traffic_room.c (who may hold how many messages, and when others come back), traffic_learn.c (windows, rates, back-off), traffic_view.c. */
#ifndef PROTO_RELAY_TRAFFIC_INTERNAL_H
#define PROTO_RELAY_TRAFFIC_INTERNAL_H

#include "base/check.h"
#include "base/map.h"
#include "proto/relay/traffic.h"

/* By what a destination may hold: traffic.h, "Room". */
enum room { ROOM_NEW, ROOM_GOOD, ROOM_POOR, ROOM_N };

enum { /* traffic_item.state */
	ITEM_OUT,      /* not here */
	ITEM_WAITING,
	ITEM_STARTING, /* announced by START, traffic_begin() to come */
	ITEM_WORKING,  /* a session works for it */
};
enum { /* traffic_link.state */
	LINK_OUT,
	LINK_OPENING,  /* no traffic_ready() yet */
	LINK_WORKING,
	LINK_IDLE,
	LINK_LEAVING,  /* idle, to be announced by CLOSE */
};

enum {
	WINDOW_ONE = 256,               /* windows are counted in 256ths */
	CEILING_FIRST_MS = 10 * 60000,  /* how long "too many connections" is believed: then one more is tried */
	CEILING_MOST_MS = 4 * 3600000,
	REOPEN_MS = 250,                /* the other side may count a connection a moment longer than we do */
	SOUR_MAX = 3,                   /* refusals in a row, about the destination, that make a failure */
	OWN_DELAY = 3,                  /* so many times longer than on a good day things may take, because we are busy ourselves, see slow_ms() */
	LOCAL_MS = 1000,                /* nothing is begun for so long after a failure of our own */
	TRIES_MAX = 2,                  /* sessions that a message may lose, unblamed, before it counts as tried */
	PASSED_MAX = 8,                 /* messages with a fitting session that may overtake one without */
	LOOK_MAX = 32,                  /* messages looked at for one that fits */
	PACE_FAILED_MS = 100,           /* a failed destination is thought to take a message so often, when it is back */
	SUSPECT_MS = 30000,             /* how long the others wait for the outcome of one that has been silent for long */
	PACE_UNKNOWN_MS = 200,          /* a transaction at a destination of which nothing is known: too short costs a claim, too long time */
	LATE_MS = 250,                  /* a first session opening for so long, and twice as long as usual, is late: what else waits need not be tried */
	LATE_EACH_MS = 20,              /* when that is over */
	GOOD_PART = 32,                 /* a destination that is well may hold that part of the slots as long as there is one */
	FORGET_MS = 3600000,            /* a window unused for so long begins anew */
	FAILED_TIME_MS = 30000,         /* how long a failing session takes, before one was seen */
};

struct links {
	struct traffic_link *first, *last;
	unsigned n;
};

struct traffic_destination {
	struct traffic_destination *same_hash;   /* the next with an equal hash */
	struct traffic_destination *ring_next, *ring_prev; /* of t->ready[room] or NULL */
	struct traffic_destination *shed_next, *news_next;
	struct traffic_destination *use_next, *use_prev;   /* by last use */
	uint64_t hash;
	unsigned heap;                  /* index + 1 in t->heap, 0: none */
	int64_t wake;
	enum room room;
	bool ready, shedding, news, abandoning, lookup;

	struct traffic_item *first, *last;   /* waiting */
	unsigned n_waiting, n_starting;
	struct links busy, idle;        /* busy: by beginning of the transaction; idle: latest first */
	unsigned n_opening;

	/* limits: this worker's part */
	unsigned concurrency, initial, per_connection;
	int64_t idle_ms, backoff_first, backoff_most;
	int64_t interval_us;            /* between two messages by the operator's rate; 0: none */
	unsigned burst;
	/* learnt */
	unsigned window;                /* in 256ths */
	unsigned ceiling;               /* connections it is known to allow; 0: not known */
	int64_t ceiling_until, ceiling_ms;
	bool steady;                    /* trouble was seen: grow by one per windowful */
	int64_t learnt_us;              /* interval after "too fast"; 0: none */
	int64_t learnt_at;
	int64_t credit_us, credit_at;   /* the bucket; at is in ms */
	int64_t minute;                 /* accepted in this minute and the one before */
	unsigned in_minute, before_minute;
	int64_t reopen_at;
	/* health */
	bool proven;                    /* a session was ready once */
	bool suspect;                   /* silent for TRAFFIC_TRIAL_MS */
	bool abandon;                   /* … just now: its session goes, if the poor have no room for it */
	bool slow, stalled;
	unsigned failures;              /* in a row; > 0: failing */
	unsigned sour;
	int64_t backoff;                /* length of the last pause; 0: none since it was well */
	int64_t until;                  /* paused until then; 0: not */
	bool probe;                     /* behind the pause one tries alone */
	bool called;                    /* somebody was given back for the moment it ends */
	int64_t mean;                   /* of a transaction, ms */
	int64_t failed_ms;              /* how long the last failing session took */
	int64_t turn;                   /* until when messages given back are due */
	int64_t admit;                  /* when it may have a place among its kind, where there was none */
	int64_t used;
	enum trouble trouble;
	int64_t trouble_at;
	uint64_t sent, refused, failed, given_back;
	char error[TRAFFIC_ERROR_MAX + 1];
	char key[];
};

struct idles { /* linked by idle_next, idle_prev */
	struct traffic_link *first, *last;
};
struct ring {
	struct traffic_destination *first; /* circular */
};
struct traffic {
	struct traffic_conf conf;
	unsigned sessions_max;
	uint64_t chance, salt;
	struct map table;               /* hash -> chain */
	unsigned n;
	struct traffic_destination **heap;
	unsigned n_heap, heap_room;
	struct ring ready[ROOM_N];
	unsigned turn;                  /* whose ring is next */
	struct traffic_destination *shed, **shed_end;
	struct traffic_destination *news, **news_end;
	struct traffic_destination *use_first, *use_last; /* latest first */
	struct idles idle, leaving;     /* latest first; leaving: to be announced by CLOSE */
	struct idles trial;             /* sessions that are opening, of destinations that nothing is known of; latest first */
	int64_t second;                 /* messages that left a session in this second, and in the last whole one */
	unsigned in_second, each_second;
	unsigned held[ROOM_N], busy[ROOM_N]; /* messages; of them those that a session works for */
	unsigned n_links;               /* sessions, and those announced by START */
	int64_t back_turn[ROOM_N];      /* until when messages given back for want of room are due */
	int64_t poor_ms, new_ms;        /* how long a message of a poor destination stays here, and a new one's is on trial, on average */
	int64_t local_until;
	int64_t typical, typical_open;  /* medians of all transactions and of all that led to traffic_ready(), ms */
	struct traffic_totals totals;
	char text[TRAFFIC_ERROR_MAX + 1];
};

static inline unsigned dest_held(const struct traffic_destination *d)
{
	return d->n_waiting + d->n_starting + d->busy.n;
}
static inline unsigned dest_links(const struct traffic_destination *d)
{
	return d->busy.n + d->idle.n + d->n_starting;
}

/* -- traffic_table.c */
/* Seen as used now. NULL: not known (or, if make: no memory, or none may be forgotten). */
struct traffic_destination *table_find(struct traffic *t, int64_t now, const struct shape_name *name, bool make);
void table_free(struct traffic *t);
void dest_wait(struct traffic_destination *d, struct traffic_item *i, bool front);
void dest_unwait(struct traffic_destination *d, struct traffic_item *i);
void links_add(struct links *l, struct traffic_link *k, bool front);
void links_del(struct links *l, struct traffic_link *k);
void idle_add(struct idles *l, struct traffic_link *k);
void idle_del(struct idles *l, struct traffic_link *k);
/* Wake it then; 0: not. */
void dest_wake(struct traffic *t, struct traffic_destination *d, int64_t at);
void dest_ready(struct traffic *t, struct traffic_destination *d, bool ready);
void dest_shed(struct traffic *t, struct traffic_destination *d);
/* It was paused, or is no longer: worth a line in the log. */
void dest_news(struct traffic *t, struct traffic_destination *d);
/* In the books, room by room: messages, and those of them that are worked for, changed by these. */
void dest_count(struct traffic *t, const struct traffic_destination *d, int held, int busy);

/* -- traffic_view.c */
void view_of(const struct traffic_destination *d, int64_t now, struct traffic_view *ret);

/* -- traffic_room.c */
/* How long a transaction, and a session before it, may take. A worker with more to do than it can sees everybody answer late; so these are
 * measured by what is usual now, within bounds. */
int64_t slow_ms(const struct traffic *t);
int64_t trial_ms(const struct traffic *t);
/* Many new ones wait: those that take longer than the others are poor now. */
void room_press(struct traffic *t, int64_t now);
/* Moves a median by one sample. */
void usual(int64_t *median, int64_t sample);
unsigned room_share(unsigned of, enum room r);
/* Most messages it may hold now; the one asked for included. */
unsigned room_of(const struct traffic *t, const struct traffic_destination *d, int64_t now);
/* It goes where it belongs by what is known of it; what is too much there is shed. */
void room_sort(struct traffic *t, struct traffic_destination *d, int64_t now);
void trial_over(struct traffic *t, struct traffic_link *k, int64_t now);
/* It is silent for too long, before anything is known of it. */
void dest_suspect(struct traffic *t, struct traffic_destination *d, int64_t now);
/* When a message that is given back now is to come again. */
void room_back(struct traffic *t, struct traffic_destination *d, int64_t now, struct traffic_back *ret);
/* Messages it takes: one in so many ms. */
int64_t dest_pace(const struct traffic_destination *d);

/* -- traffic_learn.c */
void learn_limits(struct traffic_destination *d, const struct shape *s, unsigned workers);
/* 0: a message may go; else when. */
int64_t learn_rate_wait(struct traffic_destination *d, int64_t now);
void learn_rate_take(struct traffic_destination *d, int64_t now);
unsigned learn_window(struct traffic_destination *d, int64_t now);
void learn_alive(struct traffic *t, struct traffic_destination *d, int64_t now);
void learn_time(struct traffic *t, struct traffic_destination *d, int64_t ms);
void learn_accepted(struct traffic_destination *d, int64_t now);
/* A refusal (of a transaction), or the end of a session. `alive`: other sessions of it that work; early: no transaction was begun. */
void learn_trouble(struct traffic *t, struct traffic_destination *d, int64_t now, enum trouble what, const struct smtp_result *r, bool early,
    unsigned alive);

#endif
