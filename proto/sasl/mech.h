/* The mechanisms there are, by name, and what each needs. */
#ifndef PROTO_SASL_MECH_H
#define PROTO_SASL_MECH_H

#include "base/str.h"

enum sasl_mech { /* best first: a client that can several takes the first on offer */
	SASL_EXTERNAL,           /* RFC 4422 appendix A: the TLS certificate says who it is */
	SASL_SCRAM_SHA_256_PLUS, /* RFC 5802, RFC 7677, with channel binding */
	SASL_SCRAM_SHA_256,
	SASL_OAUTHBEARER,        /* RFC 7628 */
	SASL_XOAUTH2,            /* the same before it was a standard */
	SASL_PLAIN,              /* RFC 4616 */
	SASL_LOGIN,              /* draft-murchison-sasl-login, which old mail programs speak */
	SASL_MECHS,
};

/* "SCRAM-SHA-256-PLUS" in any case. 0, or -1: unknown. */
int sasl_mech_parse(struct str name, enum sasl_mech *ret);
const char *sasl_mech_name(enum sasl_mech m);

/* A way the TLS connection below can be named (RFC 5056): "tls-exporter" (RFC 9266), "tls-server-end-point" (RFC 5929). */
struct sasl_binding {
	struct str type;
	struct str data;
};

enum {
	SASL_BLOB_MAX = 12 * 1024,   /* octets of one message, decoded */
	SASL_NAME_MAX = 255,         /* of a name: an address fits (RFC 5321 §4.5.3.1) */
	SASL_PASSWORD_MAX = 1024,    /* of a password: more makes hashing a weapon */
	SASL_NONCE_MIN = 18,         /* characters of a nonce; from 13 random octets on */
	SASL_NONCE_MAX = 128,
};

/* Printable ASCII without comma, SASL_NONCE_MIN to _MAX (RFC 5802 §5.1). */
bool sasl_nonce_ok(struct str nonce);

#endif
