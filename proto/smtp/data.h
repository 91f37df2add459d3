/* The octets behind DATA (RFC 5321 §4.5.2), both ways: the reader finds the end of the message and undoes the stuffed dots,
 * the writer stuffs them. Only CR LF ends a line and only CR LF . CR LF ends a message; a bare CR, a bare LF or a NUL never
 * does, but marks the message as faulty. */
#ifndef PROTO_SMTP_DATA_H
#define PROTO_SMTP_DATA_H

#include "base/buf.h"

enum smtp_data_fault { SMTP_DATA_OK, SMTP_DATA_BARE_CR, SMTP_DATA_BARE_LF, SMTP_DATA_NUL };

/* The reader: a state per octet, so it can be cut anywhere. Zero it to begin. */
struct smtp_data {
	enum { SMTP_DATA_BOL, SMTP_DATA_TEXT, SMTP_DATA_CR, SMTP_DATA_DOT, SMTP_DATA_DOT_CR, SMTP_DATA_END } state;
	enum smtp_data_fault fault; /* the first one; the end is looked for all the same */
	uint64_t size;              /* octets of the message so far, dots undone */
	/* of smtp_data_look() */
	bool binary;                /* set by the caller: the body may hold anything (RFC 3030 §3), header lines may not */
	bool in_body;               /* the empty line was seen */
	uint64_t line;              /* octets of the begun line */
};

/* Works on p[0..n) up to the next thing to tell and returns the octets used (at least 1 when n > 0 and the state is not
 * SMTP_DATA_END). *ret_chunk: message octets within p, may be empty; after a fault they are of no use. When the state has
 * become SMTP_DATA_END the message is complete, *ret_chunk is empty and what follows are commands. */
size_t smtp_data_feed(struct smtp_data *d, const char *p, size_t n, struct str *ret_chunk);

/* The other reader, for content whose length is known (BDAT, RFC 3030): counts, and looks for the same faults; a dot means
 * nothing. After the last octet smtp_data_look_end(): a CR there is a bare one. */
void smtp_data_look(struct smtp_data *d, const char *p, size_t n);
void smtp_data_look_end(struct smtp_data *d);
/* What to say of a fault; NULL: there is none. */
const char *smtp_data_fault_text(enum smtp_data_fault f);

/* The writer: a state per message; zero it to begin. */
struct smtp_data_out {
	enum { SMTP_DATA_OUT_BOL, SMTP_DATA_OUT_TEXT, SMTP_DATA_OUT_CR } state;
};

/* Appends p[0..n) with dots stuffed. Returns 0, or -1: a bare CR, a bare LF or a NUL (nothing that has one may leave), or
 * out is full; give the connection up then, the message is cut. */
int smtp_data_write(struct smtp_data_out *d, const char *p, size_t n, struct buf *out);
/* Completes a last line without CRLF and appends the final dot. Returns 0 or -1 as above. */
int smtp_data_finish(struct smtp_data_out *d, struct buf *out);

#endif
