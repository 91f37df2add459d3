/* The client side of a SASL exchange, for relaying to a next hop that wants to know us, and for tests. The engine of the
 * server is in server.h; this one needs nobody: name, password or token are given to it at the beginning.
 *
 *     c = sasl_client_make(&conf)
 *     sasl_client_first(c, &out)           1: out is the initial response; 0: the server begins
 *     sasl_client_answer(c, challenge, &out) as often as the server challenges
 *     the server says success: sasl_client_over(c) must be true, else it has not proved that it knows us (SCRAM) and
 *     is not to be trusted with the mail */
#ifndef PROTO_SASL_CLIENT_H
#define PROTO_SASL_CLIENT_H

#include "base/buf.h"
#include "mech.h"

struct sasl_client_conf { /* read by sasl_client_make() only */
	enum sasl_mech mech;
	struct str name;       /* EXTERNAL, OAUTHBEARER: may be empty */
	struct str authzid;    /* empty: as name */
	struct str password, token;
	struct str nonce;      /* SCRAM: random, sasl_nonce_ok() */
	struct sasl_binding binding; /* the one to use with -PLUS; type empty: none */
	bool could_bind;       /* SCRAM: we could, but -PLUS was not on offer: says so (flag 'y') */
	struct str host;       /* OAUTHBEARER: the server's name and port; empty and 0: left out */
	unsigned port;
};

struct sasl_client;

/* NULL: no memory, or something is not of its form (no password, bad nonce, name not preparable). */
struct sasl_client *sasl_client_make(const struct sasl_client_conf *conf);
void sasl_client_free(struct sasl_client *c); /* wipes; accepts NULL */
/* The initial response, appended to out. 1; 0: this mechanism has none; -1: failed. */
int sasl_client_first(struct sasl_client *c, struct buf *out);
/* The response to a challenge, appended to out (it may be empty, and is sent all the same). 0; or -1: the challenge is not
 * what a server of this mechanism says, or it is not the one that knows us: cancel. */
int sasl_client_answer(struct sasl_client *c, struct str challenge, struct buf *out);
/* May a success be believed? */
bool sasl_client_over(const struct sasl_client *c);
/* The JSON with which a server refused a token (RFC 7628 §3.2.2), or what else was wrong; empty: nothing. For the log. */
struct str sasl_client_error(const struct sasl_client *c);

/* The best mechanism of a blank-separated offer (AUTH in EHLO) for which there is what it needs. binding: one is available.
 * external: there is a client certificate. 0, or -1: none. *ret_could_bind: see sasl_client_conf. */
int sasl_client_choose(struct str offer, bool password, bool token, bool binding, bool external, enum sasl_mech *ret,
    bool *ret_could_bind);

#endif
