/* A discrete-event simulation of one worker that relays: a queue with times, hosts that behave in a given way, and proto/relay/traffic.h between
 * them. Its own clock, its own chance: the same seed gives the same run. */
#ifndef TEST_RELAY_TRAFFIC_SIM_H
#define TEST_RELAY_TRAFFIC_SIM_H

#include "proto/relay/traffic.h"

struct sim_host {
	char name[64];
	const struct shape *shape;     /* NULL: the default */
	int64_t connect_ms, reply_ms;
	int64_t dead_from, dead_until; /* between these, in ms, connecting takes connect_dead_ms and fails */
	int64_t connect_dead_ms;
	unsigned max_open;             /* further ones get 421; 0: no limit */
	unsigned per_minute;           /* further messages get 450 4.7.1 rate limited; 0: no limit */
	const char *banner;            /* text of a 421 greeting instead of 220; NULL: a 220 */
	/* counted */
	unsigned open, open_most, openings, refused, limited, taken, minute_taken, probes_at_once_most, connecting;
	int64_t minute, last_ms;       /* when its last message was taken */
	unsigned connects_dead;
	uint64_t claims;               /* messages of its that were claimed from the queue */
};

struct sim_conf {
	unsigned slots, workers, sessions;
	struct sim_host *hosts;
	unsigned n_hosts;
	const unsigned *to;            /* the host of each message, in the order of the queue */
	unsigned n;
	int64_t gap_us;                /* between two arrivals; 0: all are there */
	int64_t claim_us, give_back_us, send_us; /* what the worker's process spends on each: a claim, a pause, a message sent */
	int64_t end_ms;                /* stop then */
	unsigned until_host;           /* stop when all messages to hosts below this index are sent */
	uint64_t seed;
};
struct sim_result {
	int64_t end_ms, done_ms;       /* done: when the last of those waited for was sent */
	uint64_t claims, backs, sent, attempts;
	unsigned backs_most;           /* of one message */
	unsigned held_poor_most, sessions_most;
	struct traffic_totals totals;
};
void sim_run(const struct sim_conf *conf, struct sim_result *ret);

#endif
