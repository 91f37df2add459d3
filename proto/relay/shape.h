/* What the operator says about destinations: options SHAPE_1, SHAPE_2, … of a stage, one line each:
 *
 *     SHAPE_1 = *.google.com provider=google concurrency=20 rate=600/min per_connection=100
 *     SHAPE_2 = mx1.example.net,mx2.example.net concurrency=2
 *     SHAPE_3 = @example.org,@*.example.org rate=1/s burst=1 backoff=5min..1h
 *     SHAPE_9 = * concurrency=10
 *
 * A pattern is a host name of the mail exchanger ("*." before it: every name below; without "*." that name only), or with @ in front the
 * recipient's domain; "*" is everything. Patterns of one line are joined by commas. The first line that fits counts, by its number; what a
 * line does not say is the default. A host pattern fits a destination when it fits one of the exchangers of the best preference that can
 * be used: a backup at a provider does not make a domain the provider's.
 *
 *     provider=NAME        all destinations that fit are one, with one set of limits; else each set of exchangers is one for itself
 *     concurrency=N        connections at once, at most (20)
 *     initial=N            … to begin with, and after trouble (3)
 *     rate=N/s|min|h|d     messages, at most, 0: no limit (0)
 *     burst=N              … of them at once (a tenth of those of a minute, at least 1)
 *     per_connection=N     messages, then QUIT (100)
 *     idle=TIME            a connection without work is closed after that (10 s)
 *     backoff=TIME..TIME   nobody is bothered for so long after a failure: first, and at most (30 s..30 min)
 *     sources=NAME         a pool of source addresses (source.h)
 *
 * N is a decimal number, TIME one such with s, min or h. */
#ifndef PROTO_RELAY_SHAPE_H
#define PROTO_RELAY_SHAPE_H

#include "base/buf.h"
#include "proto/relay/route.h"

enum {
	SHAPE_RULES_MAX = 256,
	SHAPE_PATTERNS_MAX = 32,        /* of one line */
	SHAPE_NAME_MAX = 32,            /* of a provider or pool: letters, digits, - and _ */
	SHAPE_KEY_MAX = 255,            /* of a destination's key */
	SHAPE_CONCURRENCY_MAX = 10000,
	SHAPE_RATE_MAX = 1000000,       /* messages per unit */
	SHAPE_TIME_MAX_S = 24 * 3600,
};

/* Limits of one destination. Of the whole stage, as the operator says them: traffic.h divides by the number of workers. */
struct shape {
	unsigned concurrency, initial;
	unsigned rate;                  /* messages in rate_ms; 0: no limit */
	int64_t rate_ms;                /* 1000, 60000, … */
	unsigned burst;                 /* 0: derived */
	unsigned per_connection;
	int64_t idle_ms;
	int64_t backoff_first_ms, backoff_most_ms;
	char provider[SHAPE_NAME_MAX + 1];      /* "": none */
	char sources[SHAPE_NAME_MAX + 1];       /* "": none */
};
extern const struct shape shape_default;

struct shapes; /* the lines of a stage */

/* NULL: out of memory. */
struct shapes *shapes_new(void);
void shapes_free(struct shapes *s); /* accepts NULL */
/* One more line; option: its name, "SHAPE_3" (the number orders them, whatever the order of the calls). Returns 0; 1: it is wrong, *why says
 * what in words for the operator; -1: memory. Nothing was added then. */
int shapes_add(struct shapes *s, const char *option, struct str value, struct buf *why);
/* Faults that no line has alone, when all are there: two lines of one provider with different limits, a line that none can reach, limits below
 * `workers` (each worker then allows one: up to `workers` in all). The i-th, from 0, into *why; false behind the last. */
bool shapes_doubt(const struct shapes *s, unsigned workers, size_t i, const char **ret_option, struct buf *why);

/* The i-th line with sources=: for who knows the pools. */
bool shapes_pool(const struct shapes *s, size_t i, const char **ret_option, const char **ret_pool);

/* What a message's destination is called, and which limits it has. */
struct shape_name {
	char key[SHAPE_KEY_MAX + 1];    /* "google" (a provider), "mx1.example.org,mx2.example.org": the exchangers in alphabetical order (their
	                                 * canonical names), cut with a checksum when long, or "[192.0.2.1]" */
	const struct shape *shape;      /* never NULL; lives as long as the shapes */
	bool provider;
};
/* s may be NULL: no lines. r is found (ROUTE_FOUND); domain: the recipient's, folded. */
void shape_find(const struct shapes *s, const struct route *r, const char *domain, struct shape_name *ret);
/* The domain itself as a destination, before its exchangers are known: "?example.org". See traffic.h, "Look-ups". */
void shape_lookup(const char *domain, struct shape_name *ret);

#endif
