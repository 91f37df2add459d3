/* What session.c (states, time) and session_io.c (octets between socket, TLS and engine) share. */
#ifndef COMMON_SESSION_INTERNAL_H
#define COMMON_SESSION_INTERNAL_H

#include "session.h"

enum session_state { SESSION_CONNECTING, SESSION_TALKING, SESSION_SHAKING, SESSION_ENDED };

struct session {
	struct session_env *env;
	struct session *next, *prev;
	struct hop_address to, from;
	char helo[256], name[DNS_NAME_MAX + 1];
	bool may_tls;
	session_fn fn; /* NULL: nobody listens: it says good-bye */
	void *arg;
	struct pepsi_msg *msg;

	enum session_state state;
	int fd;
	struct pepsi_event *ev;
	struct smtp_client_conf engine;
	struct smtp_client *c;
	struct hop_tls *tls;
	bool no_more_output; /* a write failed: read what the peer still said, then give up */
	bool ready;          /* READY was told: it waits for its owner */
	bool busy, dead;     /* within a callback of the loop; freed meanwhile */
	int64_t since, began; /* monotonic ms: the last progress; the beginning of what it does now */
	uint64_t replies;
	struct session_facts facts;
	struct smtp_result failure; /* before there is an engine's */
	char why[256];              /* given to smtp_client_lost() */
	char text[SMTP_CLIENT_TEXT_MAX + 1];
	char refused[SMTP_CLIENT_TEXT_MAX + 32]; /* facts.refused */
};

enum { SESSION_PIECE = 16 * 1024, SESSION_TURN_OCTETS = 512 * 1024 }; /* written in one callback, at most: others wait */

/* session_io.c. Writes what there is: true: all is out, or nothing more can be written. */
bool session_write(struct session *s, bool *moved);
bool session_write_cipher(struct session *s, bool *moved);
/* Reads once. 1: got something; 0: nothing there; -1: the connection is over (the engine knows). */
int session_read(struct session *s);
/* What TLS has decrypted already, to the engine. 0, or -1: the session is over (the engine knows). */
int session_read_tls(struct session *s);
/* Ciphertext of the handshake. 1, 0, -1 as above, without an engine that knows. */
int session_read_handshake(struct session *s);
void session_lost(struct session *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
