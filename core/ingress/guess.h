/* Throttling of password guessing: how many failed sign-ins an account and a network (IPv4 /24, IPv6 /64) have left, and
 * from which networks an account has signed in before. Buckets refill with time. Bounded: what was not touched for longest
 * is forgotten first. Knows no session; the caller gives the time.
 *
 * The rule that its user makes of it: while an account's bucket is empty, right and wrong passwords get the same answer,
 * "later", so that guessing on teaches nothing; but not on a network where the account's owner signed in before. Nobody
 * can lock an owner out, and guesses stay at the rate of the refill, wherever they come from. */
#ifndef INGRESS_GUESS_H
#define INGRESS_GUESS_H

#include "base/str.h"
#include "net/addr.h"

#include <stdbool.h>
#include <stdint.h>

struct guess_limits {
	unsigned account_tries, network_tries; /* failures that a full bucket holds; 0: no limit */
	int64_t account_refill_us, network_refill_us; /* time for one to come back */
	unsigned remembered;  /* buckets, and signed-in places, at most */
};

struct guesses;

struct guesses *guesses_new(const struct guess_limits *l); /* NULL: no memory */
void guesses_free(struct guesses *g); /* accepts NULL */
void guesses_limits(struct guesses *g, const struct guess_limits *l);

/* A sign-in failed. account: as claimed, normalised; empty: not known. */
void guess_failed(struct guesses *g, struct str account, const struct net_addr *from, int64_t now_us);
/* A sign-in succeeded. Gives nothing back to buckets: an account of one's own must not pay for guesses at others. */
void guess_succeeded(struct guesses *g, struct str account, const struct net_addr *from, int64_t now_us);
/* Are the failures of this account, of this network, used up? */
bool guess_account_spent(struct guesses *g, struct str account, int64_t now_us);
bool guess_network_spent(struct guesses *g, const struct net_addr *from, int64_t now_us);
/* Did this account, did anybody, sign in from this network before? */
bool guess_account_known(struct guesses *g, struct str account, const struct net_addr *from);
bool guess_network_known(struct guesses *g, const struct net_addr *from);
/* How much of the fuller of the two buckets is used: 0 little, 1 half or more, 2 all. For the length of delays. */
unsigned guess_level(struct guesses *g, struct str account, const struct net_addr *from, int64_t now_us);
/* Entries now. */
unsigned guess_buckets(const struct guesses *g);
unsigned guess_places(const struct guesses *g);

#endif
