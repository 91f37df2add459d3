/* What auth.c (exchanges), auth_peer.c (the socket to the admin child) and auth_stats.c share. Nobody else includes it. */
#ifndef INGRESS_AUTH_INTERNAL_H
#define INGRESS_AUTH_INTERNAL_H

#include "auth.h"
#include "ingress_internal.h"
#include "proto/wire/signin.h"

#include "base/map.h"

/* How an attempt ended; the label of pepsi_signin_attempts_total. */
enum auth_result {
	AUTH_OK,
	AUTH_CREDENTIALS,
	AUTH_DISABLED,
	AUTH_DENIED,
	AUTH_MALFORMED,
	AUTH_MECHANISM,
	AUTH_BUSY,      /* of the child's, or our queue is full */
	AUTH_AWAY,      /* a backend, or the child, is not there */
	AUTH_TIMEOUT,   /* the child said nothing in time */
	AUTH_THROTTLED, /* too many failures of the account or the network */
	AUTH_CANCELLED, /* by the client: "*", or it went */
	AUTH_RESULTS,
};
extern const char *const auth_result_names[AUTH_RESULTS];

enum exchange_state {
	EXCHANGE_HELD,    /* is asked when its timer runs out: its network guesses */
	EXCHANGE_WAITING, /* for its turn with the child */
	EXCHANGE_ASKED,   /* the child is at work */
	EXCHANGE_CLIENT,  /* the client is to answer a challenge */
	EXCHANGE_REPLY,   /* a failure's reply is held back */
};

struct exchange {
	struct exchange *prev, *next; /* all */
	struct exchange *behind;      /* in the waiting line */
	struct auth *auth;
	struct session *session;
	uint64_t id;
	enum sasl_mech mech;
	enum exchange_state state;
	bool known;            /* the child has seen its START */
	bool lost;             /* … but is another one now */
	int64_t begun_us, since_us; /* the exchange, its present question */
	struct buf message;    /* to be sent: a secret */
	struct event *timer;
	struct smtp_reply reply; /* constants */
};

struct auth {
	struct ingress *in;
	struct auth_settings set;
	struct guesses *guesses;
	struct map by_id;
	uint64_t last_id;
	struct exchange *all;
	struct exchange *line, **line_end; /* waiting for their turn */
	unsigned n, n_line, n_asked, n_held;

	int fd;                /* -1: no child */
	struct event *rd, *wr;
	bool blocked;          /* the socket takes nothing at the moment */
	unsigned offer;        /* mechanisms the child has, 1u << SASL_… */
	struct {               /* … and of each backend; none: not told yet */
		char name[33];
		unsigned mechs;
	} offers[WIRE_SIGNIN_BACKENDS_MAX];
	size_t n_offers;

	int64_t line_second;   /* failures are logged at most so often */
	unsigned lines;

	/* counters since start */
	uint64_t attempts[SASL_MECHS][AUTH_RESULTS], unlogged, peer_lost, late_answers;
	int64_t answer_us;     /* time of the child's answers */
	uint64_t answers;
	/* the child's own counts, the last it told; names copied */
	struct wire_signin_counts child;
	char backend_names[WIRE_SIGNIN_BACKENDS_MAX][32];
};

/* auth_peer.c */
/* Puts m into x->message and x into the line; sends what there is a turn for. 0, or -1: memory, or the message is too long. */
int auth_ask(struct exchange *x, const struct wire_signin *m);
/* Mechanisms that these backends (names; empty: all) have. */
unsigned auth_has(const struct auth *a, struct str backends);
/* Sends for those whose turn it is. */
void auth_send(struct auth *a);
/* Takes x out of the line, and tells the child to forget it. */
void auth_unask(struct exchange *x);

/* auth.c */
void auth_answered(struct auth *a, const struct wire_signin *m);
/* Temporary failure: 454 at once. Frees x; may free its session. */
void auth_give_up(struct exchange *x, enum auth_result why, const char *reason);
/* The child is gone: every exchange it knew. */
void auth_peer_gone(struct auth *a);

#endif
