/* The server side of a SASL exchange (RFC 4422), one object each: the client's messages in, challenges out, and in between
 * questions to whoever holds the secrets. It knows no base64, no socket, no clock, no account, and no randomness.
 *
 * Told, for SCRAM:
 *
 *     s = sasl_server_make(&conf)                                  conf.mech, conf.nonce, conf.bindings
 *     sasl_server_feed(s, true, "n,,n=alice,r=…")   → SASL_NEED_VERIFIER    sasl_server_name(s) is "alice"
 *     sasl_server_verifier(s, &verifier)            → SASL_CHALLENGE        sasl_server_challenge(s) is "r=…,s=…,i=…"
 *     sasl_server_feed(s, true, "c=biws,r=…,p=…")   → SASL_NEED_ACCOUNT     the proof was right; is the account in order?
 *     sasl_server_answer(s, SASL_YES, "alice")      → SASL_CHALLENGE        "v=…"
 *     sasl_server_feed(s, true, "")                 → SASL_OK               sasl_server_account(s) is "alice"
 *
 * For PLAIN: feed() → SASL_NEED_PASSWORD; answer(SASL_YES, …) → SASL_OK. Answers may come at any later time; between a
 * question and its answer feed() may not be called. After SASL_OK and SASL_FAIL only the getters and _free may.
 *
 * Names are prepared (SASLprep) and free of controls; what form they have as account names is the backend's matter, which
 * says it with its answer. An authorization identity other than the name is refused: nobody signs in for another. */
#ifndef PROTO_SASL_SERVER_H
#define PROTO_SASL_SERVER_H

#include "mech.h"
#include "scram.h"

enum { SASL_BINDINGS_MAX = 4 };

struct sasl_server_conf { /* read by sasl_server_make() only; nothing of it is kept */
	enum sasl_mech mech;
	struct str nonce;       /* SCRAM: the server's part, random, sasl_nonce_ok() */
	struct str dummy_key;   /* SCRAM: secret of this server, for names without account; 16 octets or more */
	unsigned dummy_iterations; /* … and the iterations new accounts get here; 0: SCRAM_ITERATIONS */
	/* The bindings of the connection; none: without TLS. */
	struct sasl_binding bindings[SASL_BINDINGS_MAX];
	size_t n_bindings;
	bool plus_offered;      /* SCRAM: the -PLUS form was on offer, so a client that says it was not has been deceived */
	struct str scope, openid_configuration; /* OAUTHBEARER: told to a client whose token is refused; may be empty */
};

enum sasl_server_state {
	SASL_CHALLENGE,      /* send sasl_server_challenge(), feed the response */
	SASL_NEED_PASSWORD,  /* is sasl_server_password() the password of _name()? → sasl_server_answer() */
	SASL_NEED_VERIFIER,  /* the verifier of _name() → sasl_server_verifier() */
	SASL_NEED_TOKEN,     /* is sasl_server_token() valid, and whose is it? _name() is who the client says it is, perhaps
	                        empty → sasl_server_answer(), with the account the token belongs to */
	SASL_NEED_CERTIFICATE, /* who is the owner of the client's certificate? _name(): who it wants to be, perhaps empty
	                        → sasl_server_answer() */
	SASL_NEED_ACCOUNT,   /* SCRAM only: _name() has proved it; may it come in? → sasl_server_answer() */
	SASL_OK,
	SASL_FAIL,           /* sasl_server_failure(), _reason() */
};

enum sasl_answer { SASL_YES, SASL_NO, SASL_LATER /* it cannot be known now */, };

enum sasl_failure {
	SASL_F_CREDENTIALS = 1, /* unknown name, wrong password, proof or token: never say which */
	SASL_F_IDENTITY,     /* wants to be somebody else */
	SASL_F_BINDING,      /* channel binding: not ours, or its offer was taken away on the way (RFC 5802 §6) */
	SASL_F_MALFORMED,    /* no message of this mechanism */
	SASL_F_LATER,        /* temporary */
};

struct sasl_server;

/* NULL: no memory, or the nonce or a binding is not of its form. */
struct sasl_server *sasl_server_make(const struct sasl_server_conf *conf);
void sasl_server_free(struct sasl_server *s); /* wipes; accepts NULL */
/* The client's next message. First: has false when it sent no initial response (then a mechanism in which the client begins
 * asks for it by an empty challenge). */
enum sasl_server_state sasl_server_feed(struct sasl_server *s, bool has, struct str blob);
/* The answer to a SASL_NEED_ other than VERIFIER. account: the name to be known by from now on (copied), for SASL_YES; empty:
 * sasl_server_name(). */
enum sasl_server_state sasl_server_answer(struct sasl_server *s, enum sasl_answer a, struct str account);
/* The answer to SASL_NEED_VERIFIER: NULL when there is no such account; the exchange then goes on and fails at its end. (A
 * backend that is away: sasl_server_answer(s, SASL_LATER, …).) */
enum sasl_server_state sasl_server_verifier(struct sasl_server *s, const struct scram_verifier *v);
/* Before that: the one form that all ways of writing this name have for the backend (case, composition). Without it a name that
 * nobody has would show another salt for each way it is written, and an account's would not. Copied. 0 or -1 (memory). */
int sasl_server_one_form(struct sasl_server *s, struct str name);

enum sasl_server_state sasl_server_state(const struct sasl_server *s);
/* These live until the next feed, answer or free. */
struct str sasl_server_challenge(const struct sasl_server *s);
struct str sasl_server_name(const struct sasl_server *s);
struct str sasl_server_password(const struct sasl_server *s);     /* prepared */
struct str sasl_server_password_raw(const struct sasl_server *s); /* as sent, for backends that hold passwords as they were
                                                                     typed (PAM) */
struct str sasl_server_token(const struct sasl_server *s);
struct str sasl_server_account(const struct sasl_server *s);
enum sasl_failure sasl_server_failure(const struct sasl_server *s);
/* What was wrong, for the log and never for the client: a constant. */
const char *sasl_server_reason(const struct sasl_server *s);

#endif
