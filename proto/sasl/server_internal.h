/* What server.c and the mechanisms in server_<mechanism>.c share. Nobody else includes this. */
#ifndef PROTO_SASL_SERVER_INTERNAL_H
#define PROTO_SASL_SERVER_INTERNAL_H

#include "base/buf.h"
#include "server.h"

struct sasl_server {
	enum sasl_mech mech;
	enum sasl_server_state state;
	enum sasl_failure failure;
	const char *reason;
	unsigned step;         /* the mechanism's own count of client messages */
	bool failing;          /* a refusal is being told: what the client says now does not matter */
	bool unknown;          /* SCRAM: there is no such account */
	bool plus_offered;
	struct sasl_binding bindings[SASL_BINDINGS_MAX]; /* in `kept` */
	size_t n_bindings;
	struct buf kept;       /* nonce, key and bindings of the configuration */
	struct str nonce, dummy_key, scope, openid_configuration;
	unsigned dummy_iterations;

	struct buf challenge, name, password, password_raw, token, account;

	/* SCRAM: parts of the auth message, and the verifier */
	struct buf gs2, bare, server_first, full_nonce, one_form;
	const struct sasl_binding *binding; /* NULL: none chosen */
	struct scram_verifier verifier;
	unsigned char signature[SCRAM_KEY];
};

enum sasl_server_state sasl_server_fail(struct sasl_server *s, enum sasl_failure f, const char *reason);
enum sasl_server_state sasl_server_no_memory(struct sasl_server *s);
/* Challenges with what s->challenge holds. */
enum sasl_server_state sasl_server_ask(struct sasl_server *s);
enum sasl_server_state sasl_server_need(struct sasl_server *s, enum sasl_server_state what);
/* Checks and prepares a name into s->name: 0, or -1 (s has failed). */
int sasl_server_take_name(struct sasl_server *s, struct str name);
/* The same for a password. */
int sasl_server_take_password(struct sasl_server *s, struct str password);
/* Must be empty, or the same name as s->name. 0, or -1 (s has failed). */
int sasl_server_take_authzid(struct sasl_server *s, struct str authzid);

/* Each mechanism: the client's next message (it has one), and what follows a SASL_YES or SASL_NO. */
enum sasl_server_state sasl_plain_feed(struct sasl_server *s, struct str blob);
enum sasl_server_state sasl_login_feed(struct sasl_server *s, struct str blob);
enum sasl_server_state sasl_external_feed(struct sasl_server *s, struct str blob);
enum sasl_server_state sasl_scram_feed(struct sasl_server *s, struct str blob);
enum sasl_server_state sasl_scram_accepted(struct sasl_server *s);
enum sasl_server_state sasl_scram_ask(struct sasl_server *s, const struct scram_verifier *v);
enum sasl_server_state sasl_bearer_feed(struct sasl_server *s, struct str blob);
/* The token is refused: tells the client so, in JSON, before it fails (RFC 7628 §3.2.2). */
enum sasl_server_state sasl_bearer_refused(struct sasl_server *s);

/* gs2.c: takes "n,a=authzid," and its kin off the front of *rest (RFC 5801 §4). */
struct sasl_gs2 {
	char flag;          /* 'n', 'y' or 'p' */
	struct str binding; /* type, with 'p' */
	struct str authzid; /* still escaped */
	struct str whole;   /* the header, commas and all */
};
int sasl_gs2_take(struct str *rest, struct sasl_gs2 *ret); /* 0, or -1: malformed */
/* Undoes =2C and =3D (RFC 5802 §5.1). Appends. 0, or -1: malformed or memory. */
int sasl_name_unescape(struct str in, struct buf *out);
int sasl_name_escape(struct str in, struct buf *out);
/* "k=value" up to the next comma or the end, k a given letter. 0, or -1: something else stands there. */
int sasl_attribute_take(struct str *rest, char k, struct str *ret);

#endif
