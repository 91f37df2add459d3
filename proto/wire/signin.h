/* What travels between the reactor and the admin child when a client signs in: SASL blobs down, what came of them up. One message
 * is one datagram of a SOCK_SEQPACKET pair, so a cut message is a broken one.
 *
 * Down: START opens an exchange under an id of the reactor's choice, CONT carries the client's next response, CANCEL ends it (the
 * client's "*", or its connection is gone; no answer comes). Up: for each START and each CONT exactly one of CHALLENGE, OK, FAIL;
 * OK and FAIL end the exchange, and its id may be used anew. Between an answer and the next CONT the child holds the exchange for
 * a minute, then it FAILs the CONT. Unasked, with id 0: OFFER, which mechanisms there are now (first message after the start, and
 * when it changes), and COUNTS, for metrics (about once a second while something changes).
 *
 * Example. Reactor: START 7 PLAIN response "\0alice\0secret". Child: OK 7 account "alice".
 * Or: START 8 SCRAM-SHA-256 "n,,n=alice,r=…" → CHALLENGE 8 "r=…,s=…,i=…" → CONT 8 "c=…" → CHALLENGE 8 "v=…" → CONT 8 "" → OK 8.
 *
 * The reactor must bind what a client claims to what is true of the session: it sends START only where the listener allows the
 * mechanism (AUTH inside TLS only), and the child believes it the facts about TLS. A blob is a secret: wipe the buffer of a
 * message when it is done (wire_signin_wipe()). Pure encoding and decoding; strings of a decoded message point into the datagram. */
#ifndef PROTO_WIRE_SIGNIN_H
#define PROTO_WIRE_SIGNIN_H

#include "base/buf.h"
#include "base/str.h"

enum {
	WIRE_SIGNIN_DATAGRAM_MAX = 64 * 1024, /* octets of one message; below the default socket buffer */
	WIRE_SIGNIN_BLOB_MAX = 12 * 1024,     /* a decoded SASL message; RFC 4954 §4 has 12288 octets of base64, which are 9216 */
	WIRE_SIGNIN_NAME_MAX = 255,           /* an account name, in octets */
	WIRE_SIGNIN_TEXT_MAX = 1024,          /* any other text */
	WIRE_SIGNIN_SENDERS_MAX = 64,
	WIRE_SIGNIN_BINDINGS_MAX = 4,
	WIRE_SIGNIN_BINDING_MAX = 128,        /* octets of channel binding data */
	WIRE_SIGNIN_EMAILS_MAX = 8,
	WIRE_SIGNIN_BACKENDS_MAX = 8,
	WIRE_SIGNIN_PASSWORD_MAX = 1024,      /* octets; longer ones are refused before anything is hashed */
};

enum wire_signin_op {
	/* reactor → child */
	WIRE_SIGNIN_START = 1,
	WIRE_SIGNIN_CONT,
	WIRE_SIGNIN_CANCEL,
	/* child → reactor */
	WIRE_SIGNIN_CHALLENGE,
	WIRE_SIGNIN_OK,
	WIRE_SIGNIN_FAIL,
	WIRE_SIGNIN_OFFER,
	WIRE_SIGNIN_COUNTS,
	/* Not about signing in: is there an account of this name on this machine? The answer has the same id. */
	WIRE_SIGNIN_SYSTEM,    /* reactor → child */
	WIRE_SIGNIN_SYSTEM_IS, /* child → reactor */
};
enum wire_signin_system { WIRE_SYSTEM_YES = 1, WIRE_SYSTEM_NO, WIRE_SYSTEM_AWAY };

/* Why not. The reactor's reply: 535 5.7.8 for CREDENTIALS, DISABLED and DENIED (never tell which), 501 5.5.2 MALFORMED, 504 5.5.4
 * MECHANISM, 454 4.7.0 BUSY and AWAY. */
enum wire_signin_why {
	WIRE_SIGNIN_CREDENTIALS = 1, /* wrong password, unknown account, bad token, bad proof */
	WIRE_SIGNIN_DISABLED,        /* right credentials, but the account is switched off or expired */
	WIRE_SIGNIN_DENIED,          /* right credentials, but not from here, or not as that identity (authzid differs) */
	WIRE_SIGNIN_MALFORMED,       /* not a message of this mechanism */
	WIRE_SIGNIN_MECHANISM,       /* no such mechanism here */
	WIRE_SIGNIN_BUSY,            /* temporary: too many at once, or too many guesses at this account */
	WIRE_SIGNIN_AWAY,            /* temporary: a backend cannot be asked */
};

struct wire_signin_binding {
	struct str type; /* "tls-exporter" (RFC 9266), "tls-unique", "tls-server-end-point" (RFC 5929) */
	struct str data;
};

struct wire_signin_start {
	struct str service;     /* "smtp", "submission", "lmtp" */
	struct str mechanism;   /* upper case */
	struct str client, local; /* addresses without ports; empty: unix socket */
	struct str listener;    /* its name in the configuration */
	struct str backends;    /* names, blank-separated: only these may be asked; empty: all */
	struct str helo;        /* for the log; may be empty */
	struct str tls_version, tls_cipher; /* empty: no TLS */
	struct wire_signin_binding bindings[WIRE_SIGNIN_BINDINGS_MAX]; /* all that this connection has; the client chooses */
	size_t n_bindings;
	bool plus_offered;      /* SCRAM-SHA-256-PLUS was in the EHLO of this session: a client that can bind, and says it was not
	                           there, has been deceived (RFC 5802 §6) */
	/* The client's certificate. cert_verified: its chain ends at the listener's CAs; else EXTERNAL sees the digest only. */
	bool has_cert, cert_verified;
	struct str cert_digest;  /* SHA-256 of the DER form, 32 octets */
	struct str cert_subject; /* RFC 2253 text */
	struct str cert_emails[WIRE_SIGNIN_EMAILS_MAX]; /* rfc822Name and SmtpUTF8Mailbox of subjectAltName */
	size_t n_cert_emails;
	bool has_initial;       /* an initial response was given ("=": an empty one) */
	struct str initial;
};

struct wire_signin_ok {
	struct str account;     /* normalised; goes to state.origin.account */
	struct str backend;     /* "table", "pam", "dovecot", "oauth", "certificate": for log and metrics */
	/* Addresses this account may send as, besides its own name (one without '@': as local part at each of LOCAL_DOMAINS): "a@b",
	 * "@b" (a whole domain, A-labels in lower case), "*" (any). */
	struct str senders[WIRE_SIGNIN_SENDERS_MAX];
	size_t n_senders;
	uint32_t messages_hour, messages_day, recipients_hour, recipients_day; /* caps; 0: none */
};

struct wire_signin_fail {
	enum wire_signin_why why;
	struct str account;     /* as claimed and normalised, for throttling; empty: not known */
	struct str backend;     /* empty: none came to a word */
	struct str reason;      /* for the log, no secrets; never for the client */
};

struct wire_signin_offer {
	struct str mechanisms;  /* blank-separated, best first: what some backend can do now */
	size_t n_backends;
	struct {                /* … and each of them alone, for listeners with BACKENDS of their own */
		struct str name, mechanisms;
	} backends[WIRE_SIGNIN_BACKENDS_MAX];
};

/* Since the child's start. */
struct wire_signin_counts {
	uint32_t hashing, hashing_max; /* password checks running now, and how many may */
	uint32_t queued, queue_max;    /* waiting for one */
	uint32_t exchanges;            /* open */
	uint64_t hashed;               /* password checks done */
	uint64_t hash_us;              /* … and their time in all */
	uint64_t busy;                 /* refused because the queue was full */
	size_t n_backends;
	struct wire_signin_backend_counts {
		struct str name;
		bool up;
		uint64_t ok, refused, away;
	} backends[WIRE_SIGNIN_BACKENDS_MAX];
};

struct wire_signin {
	enum wire_signin_op op;
	uint64_t id;
	union {
		struct wire_signin_start start;
		struct str blob; /* CONT, CHALLENGE */
		struct wire_signin_ok ok;
		struct wire_signin_fail fail;
		struct wire_signin_offer offer;
		struct wire_signin_counts counts;
		struct str system;                 /* SYSTEM: the name */
		enum wire_signin_system system_is; /* SYSTEM_IS */
	};
};

/* Appends one message to an empty buffer. 0, or -1: a limit above is exceeded, or memory (the buffer is empty then). */
int wire_signin_put(struct buf *out, const struct wire_signin *m);
/* Decodes one datagram. 0 or -1 (malformed or beyond a limit: the other side is broken, let go of it). */
int wire_signin_get(struct str datagram, struct wire_signin *ret);
/* Is this failure temporary? */
bool wire_signin_temporary(enum wire_signin_why why);
/* "credentials", "busy", …: for logs and metrics. */
const char *wire_signin_why_name(enum wire_signin_why why);
/* Overwrites n octets in a way the compiler may not drop. NULL is accepted. */
void wire_signin_wipe(void *p, size_t n);

/* How the names of the users of this machine begin, who need no account. The database refuses it, too (mail_account, mail_account_use). */
#define WIRE_SIGNIN_NAME_RESERVED "uid:"
/* The one form of an account name: lower case, normalisation form C (the heart of RFC 8265 §3.3, UsernameCaseMapped). 1 to 255
 * octets of UTF-8, no blanks, control, private-use or unassigned characters, no '"' and no backslash; and none that begins with "uid:".
 * Every name is put into this form where it enters (account tool, SASL, tokens, certificates) and compared octet by octet after.
 * out has room for WIRE_SIGNIN_NAME_MAX + 1 octets and gets a NUL. Returns its length, or -1: not a name. */
int wire_signin_name(struct str name, char *out);

#endif
