/* Command lines out of a stream of octets: only CR LF ends one. A bare CR, a bare LF or a NUL is a fault of the peer's
 * that cannot be stepped over safely (SMTP smuggling, other protocols): the session must end. Resumes at any octet. */
#ifndef PROTO_SMTP_LINE_H
#define PROTO_SMTP_LINE_H

#include "base/str.h"

/* Octets of a command line without CRLF. RFC 5321 wants 512; the extensions of MAIL and RCPT add up to about 1300
 * (SIZE 26, BODY 17, DSN 8 + 107 + 28 + 507, SMTPUTF8 10, UTF-8 addresses); AUTH and its exchange have a limit of their
 * own, below. A page leaves room and stays cheap for 10 000 sessions. */
#define SMTP_LINE_MAX 4096u
/* Of an AUTH command, and of the lines of its exchange (RFC 4954 §4), CRLF included. */
#define SMTP_AUTH_LINE_MAX 12288u
/* A longer line is skipped up to its end and answered with 500; one that does not end within this is a flood. */
#define SMTP_LINE_SKIP_MAX (64u * 1024)

struct smtp_line {       /* zero it to begin */
	size_t scanned;  /* octets of the begun line known to hold no line end */
	size_t skipped;  /* octets already dropped of a line too long */
	size_t max;      /* octets without CRLF; 0: SMTP_LINE_MAX. Stays from line to line */
};

enum smtp_line_result {
	SMTP_LINE_MORE,     /* no whole line yet */
	SMTP_LINE_OK,
	SMTP_LINE_TOO_LONG, /* a line was skipped to its end */
	SMTP_LINE_FLOOD,    /* the session must end, with this and what follows */
	SMTP_LINE_BARE_CR,
	SMTP_LINE_BARE_LF,
	SMTP_LINE_NUL,
};

/* Looks at p[0..n), the input not used so far. *ret_used octets are done with (also after MORE); *ret_line is the line
 * without CRLF, in p. */
enum smtp_line_result smtp_line_next(struct smtp_line *l, const char *p, size_t n, size_t *ret_used, struct str *ret_line);

#endif
