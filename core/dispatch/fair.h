/* Fair share of a stage among senders, after the CFS and EEVDF schedulers: each sender's account of worker time runs up as
 * its messages are worked on; whoever has had least is next. A newcomer starts level with the least served (a quiet
 * time earns nothing), leads decay by half in FAIR_HALF_LIFE, and FAIR_FIFO_PERCENT of the places go by age alone, so
 * that no row starves. The books live in memory and are forgotten with the process.
 *
 * Told: sender A pours in ten thousand messages, its account runs to 40 s ahead. B sends one: B's account is made level with
 * the floor, so B is picked next, whatever of A waits; once served, B is 10 ms ahead of the floor, and A's turn is
 * when the floor (the least of those who wait) has reached A again: at once, if nobody else is there. */
#ifndef PEPSI_DISPATCH_FAIR_H
#define PEPSI_DISPATCH_FAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

enum {
	FAIR_KEY_MAX = 320,       /* octets of a sender key kept; longer ones share an account with their beginning */
	FAIR_SENDERS_MAX = 20000, /* accounts in a book; beyond it idle ones go first, then newcomers have none of their own */
	FAIR_BUCKETS = 1024,
};

struct flight;
TAILQ_HEAD(fair_flights, flight);

struct sender {
	SLIST_ENTRY(sender) chain;
	TAILQ_ENTRY(sender) waiting_link;
	double time_us;           /* account of worker time; compare with the book's floor */
	unsigned held;            /* flights of any kind */
	unsigned reserved;        /* places promised to the ingress */
	uint64_t deferred;        /* the book's epoch when a row of it was left to the database; 0: none */
	bool waits;               /* on the book's waiting list */
	struct fair_flights flights; /* those in the backlog, oldest first */
	char key[];
};

struct fair_book {
	SLIST_HEAD(fair_chain, sender) buckets[FAIR_BUCKETS];
	TAILQ_HEAD(fair_waiting, sender) waiting; /* senders with flights in the backlog */
	size_t n;
	double floor_us;          /* never falls */
	uint64_t epoch;           /* raised when the database was found empty for the stage */
	unsigned fifo_percent, fifo_credit;
	struct sender *shared;    /* the account of those for whom there was no room */
};

void fair_init(struct fair_book *b);
void fair_done(struct fair_book *b);
/* The account of a key, made if need be. Never NULL after the first success; NULL only when memory is out at once. */
struct sender *fair_sender(struct fair_book *b, const char *key);
/* It gets its first flight or place after having had none: level with the floor at least. */
void fair_hold(struct fair_book *b, struct sender *s);
void fair_release(struct fair_book *b, struct sender *s);
/* A flight enters or leaves the backlog. */
void fair_put(struct fair_book *b, struct sender *s, struct flight *f, bool front);
void fair_take(struct fair_book *b, struct sender *s, struct flight *f);
/* Whose oldest flight is next; NULL: nobody waits. by_age: the oldest of all is due instead (the FIFO share). */
struct sender *fair_next(struct fair_book *b, bool *by_age);
/* Charges (or gives back) worker time. */
void fair_charge(struct sender *s, double us);
/* dt_us went by: leads shrink, accounts that say nothing any more are dropped. */
void fair_decay(struct fair_book *b, double dt_us, double half_life_us);
/* May this sender go past rows that wait in the database: none of its own does, and it has had no more than the least served? */
bool fair_light(const struct fair_book *b, const struct sender *s, double message_us);

#endif
