/* Failure reports that go out (RFC 9991, in the format of RFC 6591): what of a message's header block may be told to strangers, and the message that
 * carries it. No body, ever; no address of a recipient; local parts as the site wants it. No I/O, no clock.
 *
 *     arf_redact(headers, &how, &told);                   // where the message is judged: nothing else is stored
 *     …
 *     arf_write(&m, &headers, &body);                     // where it is sent */
#ifndef PROTO_REPORT_ARF_WRITE_H
#define PROTO_REPORT_ARF_WRITE_H

#include "base/buf.h"
#include "base/str.h"

enum {
	ARF_TOLD_MAX = 16 << 10, /* octets of a redacted header block: whole fields, the first ones */
	ARF_HASH_TEXT = 17,      /* "r" and sixteen digits */
};

enum arf_local {
	ARF_HASH, /* in place of a local part, a keyed hash of the address (RFC 6590): the same one again is seen to be the same, nobody's name is told */
	ARF_DROP, /* "redacted" */
	ARF_KEEP, /* as they are, display names and Subject, too */
};
struct arf_redaction {
	enum arf_local local;
	unsigned char key[32]; /* of ARF_HASH: a secret of the site */
};

/* Appends what is told of a header block: trace and signature fields, From, Sender, Reply-To, Date, Message-ID, MIME and list fields; of ARF_KEEP Subject,
 * too. Recipients' fields, and all that is not named here, are left out. Control characters and what is not US-ASCII become "?". 0, or -1: memory. */
int arf_redact(struct str headers, const struct arf_redaction *how, struct buf *out);
/* Running text likewise: its addresses. 0, or -1. */
int arf_redact_text(struct str text, const struct arf_redaction *how, struct buf *out);
/* One address likewise: "r0123456789abcdef@example.org"; without @: nothing is told. 0, or -1. */
int arf_redact_address(struct str address, const struct arf_redaction *how, struct buf *out);

struct arf_mail {
	struct str submitter;        /* our host name */
	struct str id;               /* letters and digits; with nth the Message-ID, as of aggregate reports, so that a notice of failure finds it */
	unsigned nth;
	struct str from, from_name;  /* an address; a display name, or empty */
	struct str to;               /* an address, ASCII */
	int64_t now_us, arrival_us;
	struct str user_agent;
	struct str domain;           /* Reported-Domain: where the policy is */
	struct str auth_failure;     /* dmarc, spf, signature, bodyhash */
	struct str delivery_result;  /* delivered, spam, reject */
	struct str alignment;        /* "none", "dkim", "spf", "dkim, spf": what was aligned (RFC 9991) */
	struct str source_ip;
	struct str mail_from;        /* redacted; empty: not told */
	struct str auth_results;     /* value of Authentication-Results, ASCII */
	struct str dkim_domain, dkim_selector; /* may be empty */
	struct str spf_domain;       /* may be empty */
	struct str headers;          /* of the message, from arf_redact() */
};
/* Appends header block and body. 0, or -1: full, or something that cannot be written. */
int arf_write(const struct arf_mail *m, struct buf *headers, struct buf *body);

#endif
