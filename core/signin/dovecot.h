/* Dovecot's authentication protocol, the client's side (version 1.2; Dovecot's doc "auth-protocol.txt"): lines of tab-separated
 * fields. Pure: lines in, structs out; text to send. Answers come from another program on this machine, which is trusted to know who
 * may come in, but not with our memory. */
#ifndef SIGNIN_DOVECOT_H
#define SIGNIN_DOVECOT_H

#include "base/buf.h"

enum {
	DOVECOT_LINE_MAX = 64 * 1024,
	DOVECOT_MECHS_MAX = 32,
	DOVECOT_MECH_MAX = 24, /* octets of a name, NUL included */
};

enum dovecot_kind { DOVECOT_OTHER, DOVECOT_VERSION, DOVECOT_MECH, DOVECOT_DONE, DOVECOT_CONT, DOVECOT_OK, DOVECOT_FAIL };

struct dovecot_line {
	enum dovecot_kind kind;
	uint64_t id;          /* CONT, OK, FAIL */
	uint64_t major, minor; /* VERSION */
	struct str mech;      /* MECH: its name */
	bool anonymous;       /* MECH: lets in anybody */
	struct str blob;      /* CONT, OK (resp=): base64 */
	struct str user;      /* OK, FAIL: still escaped */
	struct str reason;    /* FAIL: still escaped */
	bool temp, disabled, expired; /* FAIL */
	bool nologin;         /* OK: the password is right, but no */
};

/* One line without its end. 0, or -1: malformed. Unknown commands and fields are skipped, as the protocol wants it. */
int dovecot_parse(struct str line, struct dovecot_line *ret);
/* Undoes \001-escapes, appended. 0 or -1. */
int dovecot_unescape(struct str in, struct buf *out);

struct dovecot_request {
	uint64_t id;
	struct str mechanism, service, client, local, tls_version, tls_cipher; /* client, local: addresses; may be empty */
	bool tls, cert_verified;
	bool has_initial;
	struct str initial;   /* not encoded yet */
};
/* "AUTH…" with the response last; fields that hold tabs or line ends are escaped. Appended. 0 or -1. */
int dovecot_request_put(struct buf *out, const struct dovecot_request *r);
int dovecot_cont_put(struct buf *out, uint64_t id, struct str blob);
int dovecot_cancel_put(struct buf *out, uint64_t id);

#endif
