/* Shared inside core/dispatch: the structures, and which file owns what.
 *   claim.c   which rows to take
 *   loop.c    wake-ups, start, stop, reload
 *   due.c     paused rows whose time has come
 *   crowd.c   … of which each domain gets one at first, where many are due
 *   sweep.c   rows that are running and not under way: released after a pause, orphans
 *   pool.c    worker processes: growth, idling, recycling, overruns, death
 *   flight.c  dealing flights out, datagrams down, status lines up
 *   fair.c    whose message is next
 *   many.c    workers that drive many messages at once: time, places, dealing
 *   measure.c what modules count and report
 *   repair.c  what a dead worker left: look up, blame, release
 *   stats.c   counters, their flush, status and metrics */
#ifndef PEPSI_DISPATCH_INTERNAL_H
#define PEPSI_DISPATCH_INTERNAL_H

#include "dispatch/dispatch.h"

#include "base/log.h"
#include "base/map.h"
#include "fair.h"
#include "proto/metrics/metrics.h"

#include <sys/queue.h>

enum {
	/* A worker is given at most as much work ahead as it does in this time: what is sent cannot be taken back. Much for
	 * fast stages, whose workers commit many outcomes at once; one at a time for slow ones, where a message would wait for
	 * what is ahead of it although another worker is free. */
	DEPTH_TARGET_US = 40 * 1000,
	DEPTH_SLOW_US = 5 * 1000,       /* a stage that takes this long for a message is slow */
	/* Below this much work ahead of it a worker is given more before another one is woken: larger commits, fewer
	 * processes in play, and a surplus cools down. It is also what packing may cost a message in waiting. */
	PACK_TARGET_US = 3 * 1000,
	DEPTH_UNKNOWN = 2,              /* until the first answers tell how fast the stage is */
	WORKER_BYTES_MAX = 16 << 20,    /* content sent ahead to one worker */
	MANY_BYTES_MAX = 256 << 20,     /* the same for one that drives many messages at once: content it has not answered for */
	/* One that drives many at once returns from the module's code within microseconds; when it does not for so long (or MAX_RUNTIME, where that
	 * is shorter), everything in it stands still. */
	MANY_CALL_US = 60 * 1000 * 1000,
	/* It ends its messages itself when their MAX_RUNTIME is over (worker/serve.c); when it has answered nothing for that long and this, it
	 * does not do so. */
	MANY_SILENT_US = 90 * 1000 * 1000,
	MANY_BESIDE = 2,                /* processes beside twice PARALLELISM: one for suspects, and its successor (daemon/table.c counts them) */
	MANY_GROUPS = 8,                /* into so many parts a crowd is cut of which one took the worker along and none is named */
	MANY_SCAN_MAX = 1000,           /* of a sender's flights, behind those whose worker has no room */
	STAGE_BYTES_MAX = 64 << 20,     /* content kept in the backlog of one stage; more is read from the database */
	/* Messages straight from the ingress may wait here beyond QUEUE_LIMIT x PARALLELISM (which bounds what is claimed): a
	 * burst that is worked off in a second or two need not go through the database and back. */
	HAND_OFF_EXTRA = 2000,
	SOUR_DELAY_US = 2 * 1000 * 1000, /* a row whose worker could not write it waits this long */
	TICK_MS = 250,                  /* overruns, idle workers, cool-downs */
	STATS_FLUSH_US = 60 * 1000 * 1000,
	ORPHAN_SWEEP_US = 120 * 1000 * 1000,
	/* A row that is nobody's for longer than any answer is waited for (30 s, store/conn.h) is an orphan. */
	ORPHAN_AGE_US = 40 * 1000 * 1000,
	SWEEP_DRAIN_US = 2 * 1000 * 1000, /* so long a sweep waits until nothing is promised to the ingress */
	CLOCK_STEP_US = 30 * 1000 * 1000, /* a server's clock that went back further than this was set */
	STOP_FLUSHES_MAX = 3,
	RETRIES_MAX = 1000000,          /* more since the last look are a page's fancy */
	FUSED_US_MAX = 3600 * 1000 * 1000LL,
	EARLY_KILLS_MAX = 5,
	MARKED_MAX = 10000,
	UNFUSED_US = 600 * 1000 * 1000, /* a stage whose module did harm runs alone in its own workers for so long */
	MEASURE_GAUGES_MAX = 64,        /* series of gauges of one worker at one stage */
	MEASURE_SHOW_MAX = 1 << 20,     /* octets of modules' metrics at /metrics */
	MEASURE_REPORTS_MAX = 4 << 20,  /* octets of reports in one answer */
	MEASURE_REPORTS_KEPT = 4 * WIRE_REPORT_MAX, /* octets of reports of one worker, of all stages in it */
	PAGE_HOPS_MAX = 32,             /* stages a worker may fuse into one pass: worker/pass.h */
	STARTING_MAX = 64,              /* requests for workers under way, in all: what the spawner's channel surely holds */
	LEAVE_US = 15 * 1000 * 1000,    /* a worker without work that is to go has so long for its close() */
	/* … and so long where a message waits and twice PARALLELISM processes are there already. */
	LEAVE_PRESSED_US = 2 * 1000 * 1000,
};

/* A row this process holds. In exactly one list: its stage's backlog, its worker's flights, or its stage's repairs. */
struct flight {
	TAILQ_ENTRY(flight) link;
	TAILQ_ENTRY(flight) mine; /* in its sender's list, while in the backlog and no suspect */
	int64_t id;
	struct stage *stage;
	struct sender *from;
	double charged_us;      /* to the sender's account when it was given to a worker, an estimate */
	struct worker *worker;  /* NULL in the backlog */
	bool suspect;           /* cost a worker its life, or may have: travels alone */
	bool waits_as_suspect;  /* which of the stage's two waiting lists it is in */
	bool sent;
	bool asked;             /* among the repairs: a look-up or a blame is under way */
	struct buf record;      /* wire record with content, until sent; empty: the id alone goes */
	int body_fd;            /* goes with the record; -1 */
	size_t octets;          /* counted in stage->backlog_bytes or worker->bytes */
	int64_t since;          /* in the backlog or at the worker since (monotonic) */
	struct stage *then;     /* claimed anew for this stage before the answer for this one was read; or NULL */
	/* many.c */
	uint32_t place, then_place; /* hash of the domain of the first recipient; 0: not known */
	uint32_t group;         /* suspects of one group share a worker; 0: alone */
	double clock0;          /* its worker's clock when it was sent */
};
TAILQ_HEAD(flight_list, flight);

enum worker_state { WORKER_STARTING, WORKER_READY, WORKER_RETIRING };

struct worker {
	TAILQ_ENTRY(worker) link;
	struct stage *stage;
	enum worker_state state;
	uint32_t token;
	pid_t pid;              /* 0 while starting */
	int fd;
	bool ready;             /* its module is loaded and opened: what goes wrong now is a message's doing */
	bool exited, killed_for_overrun, killed_leaving;
	int exit_status;
	int64_t overrun_id, overrun_since; /* what its page said was in hand when it was killed for an overrun; 0: nothing */
	int64_t asked_at, start_us; /* when it was asked for; how long that took until it was ready */
	struct event *ev_read, *ev_write;
	struct flight_list flights; /* sent or to be sent, in order; the first is what it works on */
	unsigned n_flights, n_sent;
	size_t bytes;
	uint64_t served;
	int64_t busy_since;     /* when the first flight became first; 0: idle */
	int64_t idle_since;
	struct buf in;          /* status lines, partial */
	bool worn;              /* it says so itself: replaced when it holds nothing */
	void *page;             /* struct wire_page, mapped; NULL: it gave none */
	uint64_t retries_seen;  /* of the page's */
	bool by_id;             /* answers with the id, in any order: it drives many messages at once */
	bool left, unasked;     /* it is to leave and knows it; by its own will */
	bool overran;           /* it ended because the message that its page names had had its time */
	int slot;               /* its place among PARALLELISM, for those that drive many at once; MANY_SPARE: beside them, for suspects */
	double clock;           /* time it has had, divided by what ran beside each other */
	int64_t clock_at;
	struct measured *measured; /* measure.c; NULL: it told nothing yet */
};
TAILQ_HEAD(worker_list, worker);

struct stage {
	TAILQ_ENTRY(stage) link;
	struct dispatch *d;
	char *name, *program;
	bool removed;           /* no longer configured: finish what is there */
	unsigned parallelism, queue_limit;
	uint64_t max_messages;
	int64_t max_runtime_us;
	struct { unsigned queue; int64_t runtime_us; } limits[2]; /* these two, by `many` */
	int64_t life_s;         /* MAX_LIFETIME */
	char *bounce;           /* BOUNCE_STAGE; NULL: none */
	int64_t down_since;     /* no worker could be started since then; 0: one was ready */

	struct worker_list workers;
	unsigned n_workers, n_starting;
	int64_t cooldown_until;
	unsigned early_kills;   /* workers in a row that somebody killed before they were ready */
	char trouble[160];      /* why the last launch failed; empty: fine */

	struct flight_list backlog, suspects, repairs; /* backlog: by age; the senders' own lists run through it */
	unsigned n_backlog, n_repairs, n_suspects;   /* n_backlog: with the waiting suspects; n_suspects: wherever they are */
	struct fair_book book;
	unsigned in_flight;     /* all flights: backlog, workers, repairs, sour */
	unsigned reserved;      /* places promised to the ingress */
	size_t backlog_bytes;

	bool maybe_pending;     /* the database may hold pending rows for it */
	unsigned fifo_credit;   /* hundredths of a place by age, below 100 */
	uint64_t wakes;         /* counts wake-ups, to notice one during a claim */
	int64_t avg_us;         /* moving mean of worker time per message; 0: unknown */

	bool many;              /* its workers drive many messages at once */
	bool known;             /* … or not: that is known when the first is ready */
	unsigned number;        /* its place in the list of all: none is taken away */
	unsigned unheard, unbegun; /* crowd.c: domains whose first row is on its way; that wait for it */
	int firsts;             /* … that may get it in the statement that is made just now */
	unsigned left_unasked;  /* workers in a row that left by their own will and had answered nothing */
	uint32_t last_group;
	uint64_t done, crashes, kills, errors, hand_offs, claims;
	uint64_t named, separated; /* culprits found in a crowd by the page; rows that travel alone since it named none */
	struct metrics_set metrics; /* of its module, all workers' */
	int64_t unfused_until;  /* 0: it may share a process with others */
	uint64_t fused;         /* of done: in the pass of a stage before, by another stage's worker */
	int64_t d_messages, d_time_us, d_kills, d_crashes; /* not yet flushed */
};
TAILQ_HEAD(stage_list, stage);

struct sour { /* rows to release later */
	int64_t due;
	int64_t id;
	struct stage *stage;
};

/* What workers had done by the database, as their pages tell. */
struct page_costs {
	uint64_t selects, writes, trips;
	uint64_t put_off; /* rows that were put off with another one of their destination, unclaimed */
};

struct dispatch {
	struct event_base *base;
	struct dispatch_spawner sp;
	struct store_conn *db;
	bool connected;         /* the connection is there; db_up: and it is the database's one dispatcher */
	bool locking, other_said;
	bool db_up, recovered, recovering, stopping;
	const struct config *config;
	struct stage_list stages;
	unsigned n_stages;
	struct map flights;     /* id → struct flight */
	struct map pids;        /* pid → struct worker */
	struct map marked;      /* id → struct stage: this row cost a worker its life there, and has not got past it since */
	uint32_t next_token;
	unsigned n_starting;    /* of all stages */

	struct event *turn;     /* end of the loop turn: deal out, send, claim */
	struct event *tick;
	struct event *due;      /* the next paused row's time */
	struct event *lock;     /* asks again to be the dispatcher */
	int64_t due_at;         /* when that is, as long as it is waited for */
	bool claiming, due_running, due_wanted, sweeping, draining;
	/* due.c: the next look, the next domain of a crowd; a look goes on behind this row, is under way; one from the
	 * beginning is, and began then; the next of that kind */
	struct due_call *due_call;
	int64_t look_at, open_at;
	bool behind, mid, anew;
	int64_t after_us, after_id, began_at, again_at;
	struct map crowds;      /* crowd.c */
	size_t crowd_pos;
	uint64_t crowds_total;
	struct claim_call *claim;
	int64_t last_poll, last_sweep, last_flush, lock_since;
	int64_t last_expire;
	bool expiring;
	int64_t db_clock_us, db_clock_at; /* what the server's clock said when ours (monotonic) said so; 0: unknown */
	int64_t *lost;          /* rows that were running at the last sweep, and nobody's */
	size_t n_lost;
	int64_t poll_interval_us, idle_timeout_us, cooldown_us, half_life_us, last_decay;
	unsigned fifo_percent;
	unsigned max_crashes;

	struct sour *sour;
	size_t n_sour, cap_sour;

	bool flushing;
	int64_t d_failed, d_retries; /* not yet flushed */
	uint64_t retries_total, retries_reactor; /* serialization failures: all; of the reactor's own connections */
	unsigned stop_flushes;
	uint64_t expired_total; /* messages whose lifetime ended where no worker had them */
	uint64_t failed_total, claims_total, claimed_total, requeued_total;
	struct page_costs gone; /* of workers that are */
	uint64_t metrics_refused;

	int64_t stop_deadline;
	void (*stop_done)(void *arg);
	void *stop_arg;
};

/* loop.c */
struct stage *dispatch_stage_find(struct dispatch *d, const char *name);
void dispatch_turn_soon(struct dispatch *d);

/* sweep.c */
/* The row goes back to pending after delay_us; until then it counts as held. */
void dispatch_sour_add(struct dispatch *d, struct stage *st, int64_t id, int64_t delay_us);
/* running → pending for these (n > 0), and a look at what is pending when that is done. The ids are copied. */
void dispatch_release(struct dispatch *d, const int64_t *ids, size_t n);
void sour_run(struct dispatch *d, int64_t now);
/* Looks for orphans now, or as soon as nothing is promised to the ingress (it sets d->draining meanwhile). */
void sweep_run(struct dispatch *d, int64_t now);

/* claim.c */
int dispatch_claim_init(struct dispatch *d);
void dispatch_claim(struct dispatch *d);

/* One message at a time, or many at once: its limits follow. */
void dispatch_stage_kind(struct stage *st, bool many);

/* due.c */
int due_init(struct dispatch *d); /* -1: out of memory */
void due_done(struct dispatch *d);
void due_begin(struct dispatch *d);       /* this process dispatches from now on: what is due is looked for, from the beginning */
/* A row was paused: its time may be the next one. */
void dispatch_due_soon(struct dispatch *d);
/* A flight of this place came back from a worker: paused for so long, or 0, and otherwise. */
void due_answered(struct dispatch *d, struct stage *st, uint32_t place, int64_t paused_us);

/* crowd.c */
/* So many domains that nothing is known of may get a first row at this stage; -1: all they have due. */
int crowd_firsts(const struct dispatch *d, const struct stage *st);
/* Is there a domain whose rows are all wanted now? */
bool crowd_answered(struct dispatch *d, struct stage *st, uint32_t place, int64_t paused_us);
/* The domains of which more is wanted now, with how much; all: the others, too, with 0. Stages by number, below n_stages. Those that get their first row
 * take from stage.firsts. */
size_t crowd_ask(struct dispatch *d, int64_t now, bool all, unsigned n_stages, struct store_due_domain *out, size_t max);
/* What the database said of one: see struct store_due. */
void crowd_got(struct dispatch *d, struct stage *st, const char *name, int n, int64_t now);
/* When the next one is due; 0: at once; INT64_MAX: there is none. */
int64_t crowd_next(const struct dispatch *d);
void crowd_done(struct dispatch *d);

/* expire.c: looks for messages whose time is over where no worker sees it, when it is time to look. */
void expire_tick(struct dispatch *d, int64_t now);

/* pool.c */
void pool_grow(struct dispatch *d, struct stage *st);
/* Workers that have answered all they were sent and were told to go: their successors do not wait for the module's close(). With them
 * a stage has at most twice PARALLELISM processes, for which the database keeps connections. */
unsigned pool_leaving(const struct stage *st);
void pool_tick(struct dispatch *d, int64_t now);
void pool_retire(struct dispatch *d, struct worker *w);
void pool_worker_gone(struct dispatch *d, struct worker *w);
void pool_forget(struct dispatch *d, struct worker *w);

/* flight.c */
struct flight *flight_new(struct dispatch *d, struct stage *st, int64_t id, const char *sender_key);
void flight_wait(struct flight *f, bool front);           /* into the backlog, with its counts */
void flight_leave_backlog(struct flight *f);
struct flight *flight_waiting(struct stage *st);          /* any flight of the backlog, or NULL */
void flight_free(struct dispatch *d, struct flight *f);   /* out of all lists, counts corrected */
void flight_over(struct dispatch *d, struct flight *f);   /* answered: freed, and begun anew where it was claimed meanwhile */
void flight_to_backlog(struct dispatch *d, struct flight *f, bool front);
void flight_deal(struct dispatch *d, struct stage *st);
void flight_send(struct dispatch *d, struct worker *w);
void flight_read(struct dispatch *d, struct worker *w);
unsigned flight_depth(const struct stage *st);
bool flight_room(const struct stage *st, const struct worker *w);
void flight_give(struct flight *f, struct worker *w);

/* many.c */
enum { MANY_SPARE = -1 };
/* To be called before n_sent changes. */
void many_clock(struct worker *w, int64_t now);
/* The hash of the domain of an address; never 0. */
uint32_t many_place(struct str rcpt);
/* The flight that a line is about: sent to this worker, and not answered. NULL: there is none. */
struct flight *many_find(const struct dispatch *d, const struct worker *w, int64_t id);
/* The worker time of a flight that is being answered, microseconds. */
int64_t many_cost(struct worker *w, const struct flight *f, int64_t now);
/* Deals the backlog and the suspects out. */
void many_deal(struct dispatch *d, struct stage *st);
/* A slot for the next worker that work waits for. false: none is needed, or there is no place. */
bool many_wants(const struct stage *st, int *ret_slot);
/* These take the worker's flights apart, since one of them, nobody knows which, took it along. */
void many_part(struct worker *w);
/* It left in order, or was killed by somebody while no code of its module was running, with ids unanswered: no message is to blame. */
bool many_left(struct worker *w);

/* repair.c */
void repair_leave(struct dispatch *d, struct worker *w); /* what was left goes again */
void repair_add(struct dispatch *d, struct flight *f);
void repair_run(struct dispatch *d, struct stage *st);
void repair_crash(struct dispatch *d, struct worker *w, int status);
/* This row cost a worker its life at stage `at`: it travels alone, at whichever stage, until it got past that one. */
void repair_mark(struct dispatch *d, int64_t id, struct stage *at);
bool repair_marked(const struct dispatch *d, int64_t id);
void repair_passed(struct dispatch *d, int64_t id, const struct stage *st);

/* page.c */
/* recv() on a worker's channel; with the first line comes its page. */
ssize_t page_recv(struct worker *w, void *room, size_t size);
void page_drop(struct dispatch *d, struct worker *w); /* its counts are kept */
/* Statements that load, that change, and round trips of all workers so far. */
struct page_costs page_sums(const struct dispatch *d);
/* Serialization failures that workers met since the last time. */
void page_retries(struct dispatch *d);
/* What a worker says it has in hand. */
struct page_hand {
	int64_t id, since;
	struct flight *flight;  /* it was sent to this worker and not answered */
	struct stage *stage;    /* whose module it is in */
};
/* false: it says nothing, or what cannot be. */
bool page_in_hand(struct dispatch *d, const struct worker *w, int64_t now, struct page_hand *ret);
/* Is the worker, busy since w->busy_since, over the MAX_RUNTIME of the stage it is at? In *ret what is over: its stage, and the row
 * where the page tells (id 0 and flight NULL: it does not). */
bool page_overrun(struct dispatch *d, const struct worker *w, int64_t now, struct page_hand *ret);
/* The stage whose module a dead worker was in, as far as can be told: else its own. */
struct stage *page_stage(struct dispatch *d, const struct worker *w);
/* The report on a dead worker for state.dispatch_error (pepsi.state(7)); signal 0: none. The caller puts it. */
struct json_object *page_report(const struct worker *w, const char *what, int signal);
void page_log(const struct worker *w);
/* The worker died or was killed with a message in hand: the stage that was running does not share a process for a while, neither
 * in another stage's worker nor with others in its own. */
void page_blame(struct dispatch *d, const struct worker *w);
/* Stages whose time is up may be fused again. */
void page_tick(struct dispatch *d, int64_t now);

/* measure.c */
/* A line that tells a metric or a report. What cannot be is refused and counted. 0; -1: more than a worker of ours could say. */
int measure_line(struct dispatch *d, struct worker *w, const struct wire_status *line, int64_t now);
void measure_drop(struct worker *w);
/* `"metrics":[…]` of a stage; Prometheus lines of all. */
void measure_status(struct stage *st, struct buf *json);
void measure_metrics(struct dispatch *d, struct buf *text);

/* stats.c */
void stats_flush(struct dispatch *d);
bool stats_dirty(const struct dispatch *d);

#endif
