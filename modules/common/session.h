/* One SMTP session with a mail exchanger, for modules that are CONCURRENT: a socket, TLS and the client engine (proto/smtp/client.h) on the
 * host's event loop. It connects, greets, starts TLS where it may, carries messages, waits idle between them, and ends; it never blocks, never
 * goes on without TLS over a connection whose handshake failed, and decides nothing: whether mail may go is its owner's to judge.
 *
 * One session, told.
 *
 *     s = session_new(env, &peer, fn, arg);              // nothing happens before the callback; NULL: out of memory
 *     session_for(s, msg);                               // whom it works for: host->in_hand() before each step
 *     fn(arg, s, SESSION_READY)                          // greeted, TLS or not: session_facts(s); session_send(s, &m), session_quit(s), or keep it
 *     fn(arg, s, SESSION_DONE)                           // every m.rcpts[i].result is filled; texts live until the next session_send()
 *     fn(arg, s, SESSION_READY)                          // room for the next message; or
 *     fn(arg, s, SESSION_STALE)                          // idle for too long: session_quit() it
 *     fn(arg, s, SESSION_OVER)                           // it is over: session_failure(s) tells why; only session_free(s) makes sense now
 *
 * Callbacks come from the loop, never from within a call. In a callback the session may be freed, quit, handed on. */
#ifndef COMMON_SESSION_H
#define COMMON_SESSION_H

#include "hop_socket.h"
#include "hop_tls.h"
#include "proto/dns/answers.h"
#include "proto/smtp/client.h"

#include <pepsi/stage.h>

struct session_times { /* milliseconds; RFC 5321 §4.5.3.2 has the least */
	int64_t connect; /* the connection */
	int64_t greeting; /* the banner, the reply to EHLO, to STARTTLS, the handshake: each */
	int64_t command; /* each reply to MAIL, RCPT, DATA, RSET */
	int64_t block;   /* content that leaves, without progress */
	int64_t dot;     /* the reply to the final dot */
	int64_t idle;    /* without a message */
	int64_t whole;   /* from session_new() to READY, and from session_send() to DONE: who answers an octet a second is not waited for for ever */
};

/* What the sessions of a worker share. */
struct session_env {
	const struct pepsi_host *host;
	const struct pepsi_conf *conf;
	struct hop_tls_conf *tls;  /* NULL: no TLS at all */
	struct session_times times;
	struct session *all;       /* not the caller's; NULL at first */
	size_t n;                  /* how many there are, those that say good-bye included */
};

struct session_peer {
	struct hop_address to;
	struct hop_address from;   /* len 0: any of ours */
	const char *helo;          /* copied */
	const char *name;          /* for SNI and the certificate, copied: of the host, or where its TLSA records are; "" of an address literal */
	bool tls;                  /* STARTTLS where it is offered */
};

/* What is known of it. */
struct session_facts {
	bool no_source;            /* the address to come from could not be bound: nothing was tried */
	bool connected, greeted;   /* the TCP connection stood; the banner was a 220 */
	bool starttls;             /* was offered */
	bool tls;                  /* the handshake went through */
	bool tls_failed;           /* it did not: the connection is over */
	const char *refused;       /* STARTTLS was refused: the reply ("454 4.7.0 not now"); the session goes on without. Else NULL */
	unsigned caps;             /* SMTP_CAP_* of the last EHLO */
	int pkix_error;            /* with tls: X509_V_OK or X509_V_ERR_… of the certificate, for `name` */
	const struct stack_st_X509 *chain; /* with tls: what it showed; until control goes back to the loop */
	const char *tls_text;      /* with tls: version and cipher, else "" */
	unsigned messages;         /* handed over to it so far */
};

enum session_event { SESSION_READY, SESSION_DONE, SESSION_STALE, SESSION_OVER };
struct session;
typedef void (*session_fn)(void *arg, struct session *s, enum session_event ev);

struct session *session_new(struct session_env *env, const struct session_peer *peer, session_fn fn, void *arg);
/* Closes at once. Accepts NULL. */
void session_free(struct session *s);
/* Says QUIT, and is gone by itself when the other side has closed, or soon. No callback any more, not yours any more. */
void session_quit(struct session *s);
/* Frees all there are, those that say good-bye, too. */
void session_env_done(struct session_env *env);

/* Another owner: a session that is READY waits idle until it is STALE, or OVER because the other side ended it. */
void session_own(struct session *s, session_fn fn, void *arg);
/* msg: for whom it works from now on; NULL: for none. */
void session_for(struct session *s, struct pepsi_msg *msg);
/* Does it wait for a message? */
bool session_is_ready(const struct session *s);
/* After SESSION_READY only. m is the caller's, unchanged until SESSION_DONE. -1: it cannot take it; DONE does not come. */
int session_send(struct session *s, struct smtp_client_msg *m);
/* Ends it as if the connection were lost, why being the reason: DONE follows when a message was under way, then OVER. */
void session_give_up(struct session *s, const char *why);
/* Is it in the middle of handing over a message, with nothing left to do but to wait for the last reply? Cutting it here may double the mail. */
bool session_at_dot(const struct session *s);

const struct session_facts *session_facts(struct session *s);
/* The engine's: what the peer takes at most. */
const struct smtp_client *session_engine(const struct session *s);
/* After SESSION_OVER. Lives as long as the session. */
const struct smtp_result *session_failure(const struct session *s);
/* Our address of the connection; false: none. */
bool session_local(const struct session *s, struct hop_address *ret);

#endif
