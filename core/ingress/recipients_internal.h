/* What recipients.c (whom to ask) and recipient_cache.c (what was answered, who waits, one statement for many) share. Nobody else
 * includes it, tests excepted. */
#ifndef INGRESS_RECIPIENTS_INTERNAL_H
#define INGRESS_RECIPIENTS_INTERNAL_H

#include "base/map.h"
#include "recipient_file.h"
#include "recipients.h"

enum {
	BATCH_MAX = 200,     /* questions in one statement */
	ASK_PARTS = 2,       /* the database, the accounts */
	PATIENCE_S = 20,     /* for an answer; then it cannot be told */
};

/* A question that was answered, or is asked. */
enum known_kind { KNOWN_TABLE = 1, KNOWN_ALIASES = 2, KNOWN_BOTH = 3, KNOWN_ACCOUNT = 4 };
struct batch;
struct known {
	struct known *newer, *older; /* in `asked` or `answered` */
	struct known *same;          /* another of the same hash */
	uint64_t hash, id;
	enum known_kind kind;
	enum recipient_answer answer; /* WAIT: asked */
	const char *source;
	int64_t at_us;               /* asked, or answered */
	unsigned generation;
	struct part *waiting;
	bool busy;                   /* its waiters are being called */
	struct batch *batch;
	size_t batch_at;
	struct str name, base;       /* base: without what is behind the delimiter, or empty */
	char text[];
};
struct part {
	struct part *prev, *next;
	struct recipient_ask *ask;
	struct known *known;         /* NULL: not waiting */
};
struct recipient_ask {
	struct recipients *r;
	recipient_fn fn;
	void *arg;
	struct part part[ASK_PARTS];
	unsigned pending;
	bool away;
};
struct known_list {
	struct known *newest, *oldest;
	size_t n;
};
struct batch {
	struct batch *next;
	struct recipients *r;        /* NULL: gone */
	size_t n;
	struct known *of[BATCH_MAX]; /* NULL: does not wait any more */
};

/* The sources of one domain, or of all others. */
struct domain_sources {
	struct config_domains *domains; /* NULL: of all */
	struct str pattern;             /* the words of it, for the more specific match */
	bool any, table, aliases, system;
	struct recipient_file **files;  /* borrowed */
	size_t n_files;
	char *delimiters;
	char *stage;                /* NULL: none */
};

struct recipients {
	struct event_base *base;
	struct event *flush;
	struct recipient_backend be;
	struct recipients_settings set;
	struct domain_sources *of;  /* [domain-…], then the general one */
	size_t n;
	struct recipient_file **files;
	size_t n_files;
	struct map by_hash, by_id;
	uint64_t salt, last_id;
	struct known_list asked, answered;
	unsigned generation;
	struct batch *batches;
	uint64_t answers[RECIPIENT_WAIT], hits, questions, statements;
};

/* Is it known, or being asked? Else asks. Returns what is known; WAIT: p waits for it; AWAY: cannot be asked. */
enum recipient_answer recipient_cache_ask(struct recipients *r, enum known_kind kind, struct str name, struct str base, struct part *p,
    const char **ret_source);
void recipient_cache_leave(struct part *p);
/* A part of it is answered; may end it. */
void recipient_ask_part(struct recipient_ask *a, enum recipient_answer answer, const char *source);
void recipient_cache_answer(struct recipients *r, struct known *k, enum recipient_answer answer, const char *source);
/* Sends what was asked in this turn. */
void recipient_cache_flush(struct recipients *r);
void recipient_cache_tick(struct recipients *r, int64_t now_us);
void recipient_cache_forget(struct recipients *r);
void recipient_cache_limit(struct recipients *r);
void recipient_cache_done(struct recipients *r);

#endif
