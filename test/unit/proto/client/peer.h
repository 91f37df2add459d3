/* A scripted peer for the client engine: what the client must have sent, then what the peer answers. Each script runs
 * whole, octet by octet, and with every split of every answer, and must come to the same result. */
#ifndef TEST_PEER_H
#define TEST_PEER_H

#include "proto/smtp/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define EOF_ "<eof>"   /* at the end of an answer: the peer closes */
#define LONG_ "<long>" /* an answer: 3000 x 'x' without a line end */

struct step {
	const char *client; /* exactly what the client sends before the answer */
	const char *server;
};

struct script {
	const char *name;
	struct step steps[16]; /* ends at client NULL */
	const char *result;    /* see peer_check() */
	bool lmtp, tls, pair;  /* pair: a second, equal message behind the first */
	const char *from, *to; /* recipients separated by blanks */
	const char *headers, *body;
	const char *notify, *orcpt, *ret, *envid;
	bool body_8bit, smtputf8;
	bool binary, require_tls, urgent; /* urgent: priority 4, back within 60 s */
	bool whole;
	enum smtp_downgrade downgrade;
	enum smtp_chunking chunking;
	bool implicit;       /* TLS from the start */
	const struct smtp_client_auth *auth; /* sign in before the first message */
};

/* Runs it in all ways. The result is one line per event: "ready", "starttls", "tls-refused", "signed-in MECHANISM", "auth-failed FAULT
 * OUTCOME phase code status text", "done", a line "OUTCOME phase code status text" per recipient behind done, "full" where a second
 * message may not go (MAILMAX), and "closed OUTCOME phase code status text". An outcome that may be a delivery all the same has a "?". */
void peer_check(const struct script *s);
void peer_check_all(const struct script *s, size_t n);

/* auth.c, downgrade.c, limits.c */
void test_auth(void **state);
void test_auth_secrets(void **state);
void test_peer_limits(void **state);
void test_downgrade(void **state);
void test_downgraded(void **state);

#endif
