/* Reports as messages: the one that carries a report (RFC 9990 §3.5.2), and what a message that came to the report address holds: a
 * report, or the notice that one of ours could not be delivered. */
#ifndef PROTO_REPORT_MAIL_H
#define PROTO_REPORT_MAIL_H

#include "base/buf.h"
#include "base/str.h"

enum {
	REPORT_ID_SIZE = 32,      /* octets of an id of ours: hexadecimal, so that it is a dot-atom and a unique-id at once */
	REPORT_NAME_MAX = 700,    /* of a file name: two domains, two times, an id */
};

struct report_mail {
	struct str submitter;     /* our host name */
	struct str domain;        /* whom it is about */
	struct str id;            /* letters and digits: the same in report, Subject, file name */
	unsigned nth;             /* which of its copies: one for each address, told apart by Message-ID */
	int64_t begin, end;       /* seconds */
	int64_t now_us;
	struct str from;          /* From: an address */
	struct str from_name;     /* its display name; may be empty */
	struct str to;            /* an address, ASCII */
	struct str packed;        /* the gzipped XML, or JSON */
	struct str text;          /* the human-readable part: lines with CRLF, ASCII */
	bool tls;                 /* a TLS report (RFC 8460 §5.3; tlsrpt.h): multipart/report, TLS-Report-Domain and -Submitter, and TLS-Required: No (RFC
	                           * 8689 §5), for what is told is that TLS fails there. id is "ID@submitter" then, in the JSON, too: report_mail_id() */
};
/* Appends the report's id as a report and its Subject have it. 0, or -1. */
int report_mail_id(const struct report_mail *m, struct buf *out);
/* "mx.example!example.org!1013662812!1013749130!ID.xml.gz", ".json.gz" of a TLS report. 0, or -1. */
int report_file_name(const struct report_mail *m, struct buf *out);
/* Appends header block and body. 0, or -1: full, or something cannot be written in a header. */
int report_mail_write(const struct report_mail *m, struct buf *headers, struct buf *body);

/* -- what came */

enum report_mail_kind {
	REPORT_MAIL_OTHER,   /* neither */
	REPORT_MAIL_REPORT,  /* an aggregate report: ret->data is what was attached, as it was packed */
	REPORT_MAIL_FAILED,  /* a DSN (RFC 3464): a message of ours was not delivered; ret->id and nth say which, if it was a report */
	REPORT_MAIL_SINGLE,  /* a failure report about one message (RFC 6591, RFC 9991) */
};
struct report_mail_read {
	enum report_mail_kind kind;
	struct buf data;                 /* REPORT_MAIL_REPORT */
	char id[REPORT_ID_SIZE + 1];     /* REPORT_MAIL_FAILED: "" when what is returned is no report of ours */
	unsigned nth;
	char from[254];                  /* domain of the From field, folded; "" */
	const char *why;                 /* REPORT_MAIL_OTHER: a constant clause */
};
/* Looks into a message. ret->data may grow to max octets. Never fails; report_mail_done() afterwards. */
void report_mail_read(struct str headers, struct str body, size_t max, struct report_mail_read *ret);
void report_mail_done(struct report_mail_read *r);

#endif
