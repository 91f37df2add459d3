/* What a relay signs in with: a name and a password out of the configuration, or an access token out of a file that somebody else keeps
 * fresh (pepsi-helper-token-refresh). Reads that file; sends nothing, logs nothing. What is secret lies in buffers that are wiped. */
#ifndef COMMON_HOP_AUTH_H
#define COMMON_HOP_AUTH_H

#include "base/buf.h"
#include "proto/smtp/client.h"

struct hop_auth { /* strings must outlive the hop */
	const char *user;       /* NULL with EXTERNAL alone */
	const char *password;   /* or NULL */
	const char *token_file; /* or NULL */
	unsigned mechs;         /* those allowed, 1u << SASL_…; 0: all */
	bool external;          /* a client certificate is configured: EXTERNAL may be used */
	bool insecure;          /* also without TLS, or to a peer whose certificate was not checked */
};

enum { HOP_TOKEN_FILE_MAX = 16 * 1024 };

/* One use of it. */
struct hop_secret {
	struct buf token, nonce;
	char binding[32];
};

/* Fills *ret for smtp_client_auth(); its strings live until hop_secret_done(). now: seconds since 1970. 0; or -1, why being appended: there is
 * no token that is valid now. hop_secret_done() in either case. */
int hop_secret_get(const struct hop_auth *a, int64_t now, struct hop_secret *s, struct smtp_client_auth *ret, struct buf *why);
void hop_secret_done(struct hop_secret *s);

/* Reads a token file: "access_token TOKEN" and "expires_at SECONDS", a line each, as pepsi-helper-token-refresh writes them; or one line that is
 * the token, from elsewhere. Appends to token; *ret_expires 0: not said. 0, or -1: reason appended to why. */
int hop_token_read(const char *path, struct buf *token, int64_t *ret_expires, struct buf *why);
/* The same of text that is there. */
int hop_token_parse(struct str text, struct buf *token, int64_t *ret_expires, const char **ret_why);

/* Which version of the file this is: it changes when a token is exchanged. 0: there is none. */
uint64_t hop_token_version(const char *path);

#endif
