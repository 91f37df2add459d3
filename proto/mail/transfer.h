/* Content-Transfer-Encoding (RFC 2045 §6): reading content, as leniently as everybody does, and writing it, strictly. Linear work. */
#ifndef PROTO_MAIL_TRANSFER_H
#define PROTO_MAIL_TRANSFER_H

#include "base/buf.h"
#include "base/str.h"

enum mail_transfer { MAIL_TRANSFER_7BIT, MAIL_TRANSFER_8BIT, MAIL_TRANSFER_BINARY, MAIL_TRANSFER_BASE64, MAIL_TRANSFER_QP, MAIL_TRANSFER_UNKNOWN };

/* The encoding of that name (any case); empty: 7bit. */
enum mail_transfer mail_transfer_of(struct str name);
/* Appends the content. Unknown encodings and those that are none: as it is. 0, or -1: the buffer is full. */
int mail_transfer_decode(enum mail_transfer encoding, struct str body, struct buf *out);
/* Its name: "7bit" …; "" of an unknown one. */
const char *mail_transfer_name(enum mail_transfer encoding);

/* What is written is ASCII without NUL, its lines, ended by CR LF, have 76 octets at most, and none but the first begins with "--" unless the
 * content's did: no delimiter of a multipart comes about by a fold. There is no line end behind the last line unless quoted-printable content has one. */
enum mail_encode {
	MAIL_ENCODE_NONE,        /* as it is */
	MAIL_ENCODE_BASE64,
	MAIL_ENCODE_QP,          /* a CR LF is a line end; every other CR and LF is content */
	MAIL_ENCODE_BASE64_MEND, /* it should be base64 already: what is not, and long lines, go; read leniently it says the same */
	MAIL_ENCODE_QP_MEND,     /* … quoted-printable */
};

/* Content on its way into an encoding, piece by piece: memory is the caller's buffer. */
struct mail_encoder {
	enum mail_encode how;
	struct str rest;    /* not read yet */
	unsigned column;    /* octets on the line under way */
	bool soft;          /* the line began by a fold of ours */
};
void mail_encoder_init(struct mail_encoder *e, enum mail_encode how, struct str content);
/* Appends about `want` octets (a few more, or what is left). Returns whether there is more to come. A full buffer shows in out->failed. */
bool mail_encoder_next(struct mail_encoder *e, struct buf *out, size_t want);
/* How many octets come out in all, to the octet. *ret_open: the last line has no end; untouched when nothing comes out. Writes nothing. */
uint64_t mail_encode_size(enum mail_encode how, struct str content, bool *ret_open);

/* What content is made of, in one pass. */
struct mail_content {
	bool eight;       /* octets above 127 */
	bool bad;         /* NUL, or CR and LF that are no line end together */
	size_t longest;   /* line, without its end */
	size_t escapes;   /* octets that quoted-printable has to write as three */
};
struct mail_content mail_content_look(struct str s);

/* Appends text as quoted-printable (§6.7): lines of at most 76 columns, nothing but printable ASCII; CR LF stays a line end, any other CR or LF
 * becomes =0D or =0A. 0, or -1: the buffer is full. */
int mail_transfer_encode_qp(struct str text, struct buf *out);

#endif
