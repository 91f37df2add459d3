/* What `pepsi account` and the admin child say to each other over the child's unix socket (SOCK_SEQPACKET, STATE/run/account.sock),
 * so that passwords never pass the reactor: one datagram asks, one answers. Pure encoding and decoding; strings of a decoded
 * message point into the datagram, which holds a password and is to be wiped (wire_signin_wipe()). */
#ifndef PROTO_WIRE_ACCOUNT_H
#define PROTO_WIRE_ACCOUNT_H

#include "signin.h"

enum {
	WIRE_ACCOUNT_DATAGRAM_MAX = 64 * 1024,
	WIRE_ACCOUNT_ROWS_MAX = 62 * 1024,   /* octets of the rows of an answer */
	WIRE_ACCOUNT_ROWS_ENOUGH = 32 * 1024, /* no further row behind so much: the largest row still fits */
	WIRE_OVERLAY_NAME_MAX = 255, WIRE_OVERLAY_VALUE_MAX = 4096,
	WIRE_ACCOUNT_SENDER_MAX = 320,
	WIRE_ACCOUNT_CERTIFICATES_MAX = 16,
	WIRE_ACCOUNT_CERTIFICATE_MAX = 128, /* as typed: 64 hexadecimal digits, colons between them */
};
/* Caps on the wire: a number, or one of these. */
#define WIRE_ACCOUNT_CAP_KEEP UINT32_MAX         /* CHANGE: as it was */
#define WIRE_ACCOUNT_CAP_DEFAULT (UINT32_MAX - 1) /* what the configuration says */
#define WIRE_ACCOUNT_CAP_MAX INT32_MAX
enum wire_account_caps { WIRE_CAP_MESSAGES_HOUR, WIRE_CAP_MESSAGES_DAY, WIRE_CAP_RECIPIENTS_HOUR, WIRE_CAP_RECIPIENTS_DAY, WIRE_CAPS };

enum wire_account_op { WIRE_ACCOUNT_ADD = 1, WIRE_ACCOUNT_CHANGE, WIRE_ACCOUNT_REMOVE, WIRE_ACCOUNT_LIST, WIRE_ACCOUNT_SHOW,
	/* Not accounts, but the table of recipients, which is kept by the same hand: name is an address or @domain, a row has a name alone. */
	WIRE_RECIPIENT_ADD, WIRE_RECIPIENT_REMOVE, WIRE_RECIPIENT_LIST,
	/* What is laid over the configuration of stages: section, option and value. LIST: those behind (section, option), as overlay rows. */
	WIRE_OVERLAY_SET, WIRE_OVERLAY_UNSET, WIRE_OVERLAY_LIST };

struct wire_account_request {
	enum wire_account_op op;
	struct str name;        /* as typed. LIST: names behind it, or empty */
	bool set_password;
	struct str password;
	bool set_enabled, enabled;
	bool set_senders, set_certificates;
	struct str senders[WIRE_SIGNIN_SENDERS_MAX];
	size_t n_senders;
	struct str certificates[WIRE_ACCOUNT_CERTIFICATES_MAX];
	size_t n_certificates;
	uint32_t caps[WIRE_CAPS];
	struct str section, option, value;
};

struct wire_account_answer {
	bool ok;
	struct str error;       /* a sentence, when not ok */
	bool more;              /* LIST: ask again, behind the last name */
	struct str rows;        /* take them off with wire_account_row_get() */
};

struct wire_account_row {
	struct str name;
	bool has_password, enabled;
	struct str senders[WIRE_SIGNIN_SENDERS_MAX];
	size_t n_senders;
	struct str certificates[WIRE_ACCOUNT_CERTIFICATES_MAX];
	size_t n_certificates;
	uint32_t caps[WIRE_CAPS];
	uint64_t created_at, changed_at, signed_in_at; /* Unix seconds; 0: never */
};

struct wire_overlay_row {
	struct str section, option, value;
};

/* Each put: appends to an empty buffer (row_put: to any); 0, or -1: a limit is exceeded, or memory. Each get: 0, or -1: malformed. */
int wire_account_request_put(struct buf *out, const struct wire_account_request *r);
int wire_account_request_get(struct str datagram, struct wire_account_request *ret);
int wire_account_answer_put(struct buf *out, const struct wire_account_answer *a);
int wire_account_answer_get(struct str datagram, struct wire_account_answer *ret);
int wire_account_row_put(struct buf *out, const struct wire_account_row *r);
/* 1: took one off *rest; 0: there is none; -1: malformed. */
int wire_account_row_get(struct str *rest, struct wire_account_row *ret);
int wire_overlay_row_put(struct buf *out, const struct wire_overlay_row *r);
int wire_overlay_row_get(struct str *rest, struct wire_overlay_row *ret); /* likewise */

#endif
