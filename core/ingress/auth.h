/* Sign-in, the reactor's half: which mechanisms a session is offered, the way of SASL messages to the admin child and back
 * (proto/wire/signin.h), throttling, and what a success means for the session. No verifier, token or key is here: what a
 * client sends goes through, wiped behind.
 *
 * Told: the engine says SMTP_EV_AUTH. The client's network is looked up among those that guess; then START goes to the child
 * (or waits for its turn: IN_FLIGHT_LIMIT). CHALLENGE becomes 334, the client's response becomes CONT. OK becomes 235, the
 * account is written to the session; FAIL becomes 535, held back for FAIL_DELAY by a timer. Child gone, slow or full:
 * 454. Client gone: CANCEL. Each exchange has an id of its own, so a late answer finds nobody. */
#ifndef INGRESS_AUTH_H
#define INGRESS_AUTH_H

#include "guess.h"
#include "proto/smtp/server.h"

#include <event2/event.h>

struct ingress;
struct session;
struct auth;

struct auth_settings {
	unsigned concurrency, queue;  /* exchanges with the child; waiting for that; more get 454 at once */
	int64_t timeout_us;           /* for one answer of the child */
	int64_t delay_us;             /* of a failure's reply, at level 0 */
	unsigned tries;               /* failures in one session, the last gets 421 */
	struct guess_limits guess;
};

/* What a sign-in gave: who, and what the account may do. Owned by the session. */
struct signed_in {
	char account[256];
	char backend[32];
	enum sasl_mech mech;
	uint32_t messages_hour, messages_day, recipients_hour, recipients_day; /* caps; 0: none */
	size_t n_senders;
	struct buf senders;           /* NUL after each: "a@b", "@b", "*" */
};

struct auth *auth_new(struct ingress *in, const struct auth_settings *set); /* NULL: no memory */
void auth_free(struct auth *a); /* accepts NULL; all sessions are gone before */
void auth_settings(struct auth *a, const struct auth_settings *set);
/* The admin child's end of the socket pair is at fd (taken, non-blocking), or there is none (-1): exchanges under way get 454. */
void auth_peer(struct auth *a, int fd);
/* Tells the engine what the session is offered as it is now: TLS, channel bindings, certificate. */
void auth_offer(struct session *s);
/* SMTP_EV_AUTH, _RESPONSE, _CANCEL. The answer may come at any later time. */
void auth_event(struct session *s, const struct smtp_event *ev);
/* The client is gone, or begins anew: an exchange under way is cancelled. */
void auth_forget(struct session *s);
/* Forgets who signed in. */
void auth_drop_who(struct session *s);
/* Ends exchanges the child does not answer. */
void auth_sweep(struct auth *a, int64_t now_us);
/* May the account signed in send as this address (empty: the null sender, which everybody may)? True without a sign-in. */
bool auth_may_send_as(const struct session *s, struct str address);
/* As any address at all? True where nobody said what it may. */
bool auth_may_send_as_any(const struct session *s);
/* Asks the admin child whether this machine has an account of that name; recipients_account() is told. 0, or -1: there is no child, or
 * it is busy. */
int auth_account(struct auth *a, uint64_t id, struct str name);
void auth_metrics(const struct auth *a, struct buf *out);
/* A JSON object. */
void auth_status(const struct auth *a, struct buf *out);

#endif
