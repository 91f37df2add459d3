/* One SMTP session: a connection, an engine, at most one message under way. Freed when its client is gone, but not
 * before the database has answered for a message whose final dot was seen: that one is committed anyway. */
#ifndef INGRESS_SESSION_H
#define INGRESS_SESSION_H

#include "base/log.h"
#include "message.h"
#include "net/conn.h"
#include "settings.h"

struct ingress;
struct listening;
struct proxy_info;
struct reverse;
struct exchange;
struct signed_in;
struct check;
struct dnsbl;
struct vet;

/* The banner waits … */
#define HELD_REVERSE 1u /* for the client's name */
#define HELD_BANNER 2u  /* for BANNER_DELAY */

struct session {
	struct session *prev, *next, *resume_next;
	struct ingress *in;
	struct listening *at;
	struct terms *terms;
	struct net_conn *conn;       /* NULL: the client is gone */
	struct smtp_server *engine;
	uint64_t id;
	struct exchange *exchange;   /* a sign-in under way, or NULL */
	struct signed_in *who;       /* what a sign-in gave, or NULL */
	unsigned mechs;              /* mechanisms on offer, 1u << SASL_… */
	unsigned failed_signins;
	struct net_addr peer;
	struct buf helo;
	struct buf login;            /* who signed in (or for whom an XCLIENT speaks); empty: nobody */
	struct buf rdns;             /* name of the address, as far as somebody we trust told it; empty: not known */
	struct proxy_info *via;      /* the proxy it came by, or NULL */
	struct net_tls_identity *identity; /* of the client's certificate, or NULL */
	size_t envelope;             /* what sender and recipients take of the memory of all messages */
	const char *tls_protocol, *tls_cipher;
	int tls_bits;
	int64_t started_us, deadline_us, data_us;
	bool esmtp;
	struct reverse *reverse;     /* looking up the name of peer, or what came of it; NULL: not looked up */
	struct dnsbl *dnsbl;         /* looking it up in lists of the DNS, or what came of it; NULL: not looked up */
	struct vet *vet;             /* the authentication of the message under way, or NULL */
	struct check *check;         /* an answer the engine waits for, or NULL */
	struct event *greet;         /* the end of BANNER_DELAY, or NULL */
	unsigned held;               /* HELD_* */
	unsigned unknown;            /* recipients that do not exist */
	int64_t postponed_us;        /* the answer under way is held back so long by us */
	bool relay;                  /* client in RELAY_NETWORKS */
	bool user_known;             /* a user of this machine: uid, as the kernel tells it */
	uid_t uid;
	int sender_ok;               /* local.c: may name any sender: 1, only own ones: -1, not looked at: 0 */
	bool exempt;                 /* … in LIMIT_EXEMPT */
	bool helo_told;              /* by XCLIENT: what the proxy itself says in EHLO is not the client's name */
	struct before_job *before;   /* a stage before acceptance has the message, or NULL */
	size_t before_envelope;      /* what the envelope took then */
	bool has_spool;              /* message.spool is in use */
	bool awaiting;               /* the database, or a stage before it, has the message */
	bool starttls;               /* 220 is on its way */
	bool eof;                    /* the peer closed its side */
	bool eof_told;
	bool closing;                /* 221 or 421 is on its way, then the end */
	bool abrupt;                 /* … of a peer that may still be sending */
	bool blocked;                /* output waits for the socket */
	bool queued;                 /* in the resume list */
	struct message message;
	struct log_ctx log;
};

/* Takes fd. Sends the banner, or begins the TLS handshake where that comes first. via: copied, or NULL. False: it could not
 * begin (fd is closed). */
bool session_begin(struct listening *at, int fd, const struct net_addr *peer, bool relay, const struct proxy_info *via);
/* Lets the engine go on and writes what it has to say. May free s. */
void session_pump(struct session *s);
/* Writes replies without letting the engine go on (group commit: first all the 250s). Never frees an awaiting
 * session. */
void session_flush(struct session *s);
/* 421 with this status and text, then the end. May free s. */
void session_shutdown(struct session *s, const char *status, const char *text);
/* The client is gone or must go: closes, and frees s unless it is awaiting. */
void session_drop(struct session *s);
/* The message is settled: gives its memory back, lets pipelined input go on. May free s. */
void session_settled(struct session *s);
void session_free(struct session *s);
/* The envelope takes so many octets of the budget now (0: it is over). */
void session_charge(struct session *s, size_t octets);

/* Tells the engine what this client may do (SMTP_TRUST_*): after each change of address, TLS or login. */
void session_trust(struct session *s);
/* Session, listener and client, as they are now, in front of each line of the log. */
void session_log_context(struct session *s);

/* xclient.c: answers SMTP_EV_XCLIENT. */
void xclient_take(struct session *s, const struct smtp_xclient *x);

/* The answer to the event under way comes us later by our own wish: the client's time does not run meanwhile. */
void session_postpone(struct session *s, int64_t us);
/* The engine has the answer it waited for, not from inside policy_event(): goes on. May free s. */
void session_answered(struct session *s);

/* policy.c: the message has passed what vet.h looks at, not from inside policy_event(): to the stages before acceptance, or to admission. 0, or
 * -1: no memory, nothing was done. */
int policy_vetted(struct session *s);
/* policy.c: from inside policy_event(): the message has not passed. What it says is logged already. */
void policy_refuse_vetted(struct session *s, const struct smtp_reply *r);
/* policy.c: accepts SMTP_EV_DATA. */
void policy_data_begin(struct session *s);
/* answers one event of the engine. */
void policy_event(struct session *s, const struct smtp_event *ev);

#endif
