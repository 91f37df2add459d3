/* Shared by hop.c and hop_io.c: the driver's insides. Nobody else includes this. */
#ifndef COMMON_HOP_INTERNAL_H
#define COMMON_HOP_INTERNAL_H

#include "hop.h"
#include "hop_dane.h"
#include "hop_socket.h"
#include "hop_tls.h"

struct hop {
	const struct hop_conf *conf;
	struct smtp_client_conf engine;
	struct hop_tls_conf *tls_conf;
	char name[320];
	int fd;
	struct smtp_client *c;
	struct hop_tls *tls;
	bool no_more_output; /* a write failed: read what the peer still said, then give up */
	bool fresh;          /* no message was sent over this connection yet */
	bool trusted;        /* the peer is who it should be: its certificate, or TLSA records, say so */
	const struct pepsi_host *host; /* for look-ups on behalf of msg; may be NULL */
	struct pepsi_msg *msg;
	struct hop_dane dane;
	enum smtp_auth_fault auth_fault;
	bool no_secret;
	int64_t used_at;
	char why[256];       /* text given to smtp_client_lost() */
	char fail_text[SMTP_CLIENT_TEXT_MAX + 1];
};

/* Ends it for the engine. */
void hop_give_up(struct hop *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Write what there is; true: everything is out. */
bool hop_write_plain(struct hop *h, bool *moved);
bool hop_write_cipher(struct hop *h, bool *moved);
bool hop_write_tls(struct hop *h, bool *moved);
/* Reads once. 1: got something; 0: nothing there; -1: the connection is over (the engine knows). */
int hop_read_some(struct hop *h);
/* Goes on until the engine has an event for us. */
enum smtp_client_event hop_turn(struct hop *h, int64_t until);
/* 0, or -1: reason appended to why. */
int hop_handshake(struct hop *h, int64_t until, struct buf *why);

#endif
