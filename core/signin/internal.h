/* Shared inside core/signin.
 *   main.c      start, channel to the reactor, counts, end
 *   exchange.c  one client signing in: from START to OK or FAIL
 *   backend.c   which backends there are and can do what; passwords along their chain; what an account may
 *   dovecot_client.c  the connection to Dovecot's auth service
 *   oauth.c     tokens
 *   system.c    accounts of the machine, for the recipients of mail
 *   accounts.c  the socket of `pepsi account` (accounts_internal.h: and accounts_*.c, its requests)
 *   keeper.c, job*.c  work in processes of its own */
#ifndef SIGNIN_INTERNAL_H
#define SIGNIN_INTERNAL_H

#include "base/map.h"
#include "config/config.h"
#include "dovecot.h"
#include "keeper.h"
#include "password.h"
#include "proto/sasl/server.h"
#include "proto/wire/account.h"
#include "proto/wire/signin.h"
#include "signin.h"
#include "store/account.h"

#include <event2/event.h>

enum {
	EXCHANGES_MAX = 4096,         /* each costs about 2 KiB, and a client that holds a session */
	PATIENCE_S = 60,              /* for the client's next message */
	BACKEND_S = 45,               /* for a backend; jobs end by themselves before */
	SEND_QUEUE_MAX = 8 << 20,     /* octets that the reactor has not taken: it is stuck */
};

enum backend_kind { BACKEND_TABLE, BACKEND_PAM, BACKEND_DOVECOT, BACKEND_OAUTH, BACKEND_CERTIFICATE, BACKEND_KINDS };

struct backend {
	enum backend_kind kind;
	uint64_t ok, refused, away;
};

struct dovecot;
struct oauth;
struct accounts;

struct signin {
	struct event_base *base;
	struct config *config;
	int channel;
	struct event *ev_read, *ev_write, *tick;
	struct out_queue {
		struct out *head, **tail;
		size_t octets;
	} out;
	struct store_conn *db;
	bool db_up, db_said;
	struct keeper *hash, *pam, *names; /* names: NULL: nobody asks for accounts of the machine */
	struct backend backends[BACKEND_KINDS];
	size_t n_backends;
	struct dovecot *dovecot;      /* NULL: not configured */
	struct oauth *oauth;
	struct accounts *accounts;
	struct map by_id, by_serial;  /* exchanges: by the reactor's id, by ours */
	uint64_t next_serial;
	char dummy[PASSWORD_PHC_MAX]; /* see password_dummy() */
	char dummy_key[32];           /* for SCRAM's */
	uint32_t caps[STORE_CAPS];    /* of the configuration; 0: none */
	char offered[BACKEND_KINDS + 1][WIRE_SIGNIN_TEXT_MAX]; /* of each, and (the last) of all */
	bool offer_told;              /* at all: that there is nothing must be said, too */
	bool counts_changed;
	int status;
};

/* ---- lasting.c */
/* n secret octets, the same at each start; before root is given up. Where they cannot be kept, others each time (logged). 0 or -1. */
int lasting_key(const char *state_dir, char *out, size_t n);

/* ---- exchange.c */
struct exchange {
	struct signin *s;
	uint64_t id, serial;
	struct buf kept;              /* what the strings of `start` point to */
	struct wire_signin_start start; /* without the initial response */
	struct sasl_server *sasl;     /* NULL: relayed to Dovecot */
	unsigned allowed;             /* backend_mask() of the listener */
	size_t backend;               /* whose word is asked for or was given */
	bool waiting;                 /* for a backend; else for the client */
	int64_t deadline;             /* monotonic */
	struct keeper *keeper;        /* of ticket */
	uint64_t ticket, dovecot_id;
	char account[WIRE_SIGNIN_NAME_MAX + 1]; /* claimed, or known; "": none yet */
	bool row_known, row_there;    /* pepsi.mail_account was asked for `account`, and has it */
	bool row_enabled, row_stale;  /* stale: signed_in_at is worth a write */
	char phc[PASSWORD_PHC_MAX];   /* wiped as soon as it was used */
	struct buf senders_text;
	struct str senders[STORE_ACCOUNT_SENDERS_MAX];
	size_t n_senders;
	uint32_t caps[STORE_CAPS];
	enum wire_signin_why why;     /* 0: what the mechanism says */
	char reason[256];
	struct buf last;              /* relayed: what Dovecot's OK told for the client; sent as a challenge before ours */
	bool last_sent;
};

void exchange_message(struct signin *s, const struct wire_signin *m);
struct exchange *exchange_find(struct signin *s, uint64_t serial);
/* Once a second: who waited too long. */
void exchange_tick(struct signin *s, int64_t now);
/* The reactor is gone. */
void exchange_end_all(struct signin *s);

/* A backend's word about x. YES: account is who it is. NO: not this password (or whatever), and nobody else is asked when
 * `final`. The exchange may be gone afterwards. */
enum verdict { VERDICT_YES, VERDICT_NO, VERDICT_DISABLED, VERDICT_DENIED, VERDICT_AWAY, VERDICT_BUSY };
void exchange_verdict(struct exchange *x, enum verdict v, bool final, struct str account, const char *reason);
/* SCRAM: the verifier of x->account, "" when there is none. */
void exchange_verifier(struct exchange *x, struct str text);
/* Relayed mechanisms: a challenge for the client. */
void exchange_relay_challenge(struct exchange *x, struct str blob);
/* The account is in order: x->senders and caps are set. */
void exchange_accepted(struct exchange *x);
/* Ends it as a failure. */
void exchange_fail(struct exchange *x, enum wire_signin_why why, const char *reason);

/* ---- backend.c */
const char *backend_name(enum backend_kind k);
/* Reads [pepsi-signin] BACKENDS and caps. */
void backend_settings(struct signin *s);
bool backend_has(const struct signin *s, enum backend_kind k);
/* Which of them this list of names means: a bit for each index. No name at all: all of them. */
unsigned backend_mask(const struct signin *s, struct str list);
/* The first backend of `allowed` that can do the mechanism: its index, or n_backends. relay: its blobs go to Dovecot as they are. */
size_t backend_choose(const struct signin *s, unsigned allowed, struct str mechanism, bool *ret_relay);
/* What these of them can do together, best first, blank-separated. */
void backend_offer(const struct signin *s, unsigned allowed, char *out, size_t size);
bool backend_up(const struct signin *s, const struct backend *b);
/* Each leads to exchange_verdict() or _verifier(), later or at once. */
void backend_password(struct exchange *x);
void backend_verifier(struct exchange *x);
void backend_certificate(struct exchange *x);
/* The next of x->allowed behind x->backend that takes passwords: true and x->backend is it. */
bool backend_next(struct exchange *x);
/* What may x->account? Leads to exchange_accepted(), or to a verdict that is none. */
void backend_policy(struct exchange *x);

/* ---- dovecot_client.c */
struct dovecot *dovecot_new(struct signin *s, const char *path);
void dovecot_free(struct dovecot *d);
bool dovecot_up(const struct dovecot *d);
/* The i-th mechanism it has; NULL behind the last, or while it is away. */
const char *dovecot_mech(const struct dovecot *d, size_t i);
/* Begins: a relayed mechanism, or (password given) PLAIN. Sets x->dovecot_id. -1: away. */
int dovecot_begin(struct dovecot *d, struct exchange *x, struct str mechanism, bool has_initial, struct str initial);
int dovecot_continue(struct dovecot *d, struct exchange *x, struct str blob);
void dovecot_forget(struct dovecot *d, struct exchange *x);

/* ---- oauth.c */
struct oauth *oauth_new(struct signin *s);
void oauth_free(struct oauth *o);
void oauth_start(struct oauth *o);
void oauth_tick(struct oauth *o, int64_t now);
bool oauth_up(const struct oauth *o);
void oauth_check(struct oauth *o, struct exchange *x);

/* ---- accounts.c */
/* Binds; before root is given up. -1 (logged). */
struct accounts *accounts_bind(const char *state_dir);
int accounts_start(struct accounts *a, struct signin *s);
/* The database has come up, or a second has gone by: requests that waited for it. */
void accounts_database(struct accounts *a, int64_t now);
void accounts_free(struct accounts *a);

/* ---- system.c */
/* Does the configuration make the reactor ask for accounts of this machine (RECIPIENTS = system)? */
bool system_wanted(const struct config *c);
void system_ask(struct signin *s, const struct wire_signin *m);

/* ---- main.c */
void signin_send(struct signin *s, const struct wire_signin *m);
/* Mechanisms may have come or gone. */
void signin_offer(struct signin *s);
/* Ends the child. */
void signin_stop(struct signin *s, int status);

#endif
