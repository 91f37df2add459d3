/* One next hop over a blocking conversation: connects when needed, keeps the connection between messages, drives the
 * SMTP/LMTP client engine with poll() and deadlines. For workers, which have nothing else to do meanwhile. */
#ifndef COMMON_HOP_H
#define COMMON_HOP_H

#include "base/buf.h"
#include "hop_auth.h"
#include "proto/smtp/client.h"

#include <pepsi/stage.h>

enum hop_tls_mode {
	HOP_TLS_NONE,
	HOP_TLS_MAY,      /* STARTTLS where it is offered and works, whatever the certificate */
	HOP_TLS_REQUIRE,  /* STARTTLS, or nothing */
	HOP_TLS_IMPLICIT, /* TLS from the first octet (RFC 8314 §3.3) */
	HOP_TLS_DANE,     /* STARTTLS (at port 465 TLS from the first octet), and what the host shows matches its TLSA records (RFC 7672) */
};

/* Who answers EHLO by our own name (HELO, or `name`) is ourselves, and mail would come back to us. */
enum hop_loops {
	HOP_LOOPS_FAR,    /* … unless he is on loopback: a filter behind the queue may pass on what our own listener answers */
	HOP_LOOPS_ALWAYS,
	HOP_LOOPS_NEVER,
};

struct hop_conf { /* strings must outlive the hop */
	const char *host;   /* name or numeric; or */
	const char *socket; /* path of a Unix socket */
	int port;
	bool lmtp;
	const char *helo;
	const char *name;         /* our other name, or NULL */
	enum hop_loops loops;     /* never with lmtp, or on a Unix socket: who is there may have the name of this host, and mail ends there */
	enum hop_tls_mode tls;
	bool tls_verify;          /* with HOP_TLS_REQUIRE and _IMPLICIT: check the certificate */
	const char *tls_ca_file;  /* or NULL: the system's */
	const char *tls_cert, *tls_key; /* what we show, PEM; NULL: nothing */
	const char *cert_name;    /* what the certificate must name instead of host; NULL: host */
	const struct hop_auth *auth; /* how to sign in; NULL: not */
	int64_t connect_ms;       /* each address; also banner and EHLO, each */
	int64_t command_ms;       /* each reply */
	int64_t data_ms;          /* content without progress, and the reply to it */
	int64_t idle_ms;          /* a connection unused for longer is not used again */
};

struct hop;

/* NULL: reason appended to why. Opens nothing but the certificates. */
struct hop *hop_new(const struct hop_conf *conf, struct buf *why);
/* Says QUIT if a connection is open, without waiting for the answer. */
void hop_free(struct hop *h);

/* What happened besides the results. */
struct hop_report {
	bool dsn;           /* the peer offered DSN: it takes over the duty to report (RFC 3461 §5.2) */
	bool deliver_by;    /* … DELIVERBY: the same for the sender's deadline (RFC 2852) */
	bool connected;     /* false: no session could be had: every result is that failure, phases connect to auth */
	bool kept;          /* the connection was there before */
	enum smtp_auth_fault auth_fault; /* connected false: signing in failed, and why */
	bool no_secret;     /* … because there is nothing to sign in with (no valid token): not the hop's fault */
	const char *auth;   /* the mechanism it was signed in with, NULL: not */
	bool tls;
	const char *tls_text; /* when tls: version and cipher; lives until the next hop_send() */
};

/* Whom the next hop_send() works for: what is looked up in the DNS (HOP_TLS_DANE) is asked for this message. */
void hop_for(struct hop *h, const struct pepsi_host *host, struct pepsi_msg *msg);
/* Is a connection open that was good when it was last used? */
bool hop_is_open(const struct hop *h);
/* Sends the message and fills every recipient's result, whatever happens; texts live until the next hop_send(). Gives up at
 * `until` (monotonic ms, hop_now_ms()). A kept connection that turns out dead before anything of this message was acknowledged is
 * replaced once, unseen by the caller. */
void hop_send(struct hop *h, struct smtp_client_msg *m, int64_t until, struct hop_report *ret);

/* "mx.example.net:25", "[2001:db8::1]:24", "/run/lmtp" */
const char *hop_name(const struct hop *h);

#endif
