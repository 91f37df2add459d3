/* Local submission: what pepsi-sendmail and the pick-up of the drop folder share. A message is made ready (addresses, header
 * fields, line ends), sent to pepsid over its local socket, or laid into the drop folder. Blocking; for tools and short-lived
 * children, never for the reactor. Makes no decision about who may send what: that is the listener's, which knows the user
 * from the kernel. */
#ifndef SUBMIT_SUBMIT_H
#define SUBMIT_SUBMIT_H

#include "base/buf.h"
#include "proto/smtp/client.h"

#include <sys/types.h>

enum {
	SUBMIT_RCPTS_MAX = 10000,
	SUBMIT_HEADER_MAX = 1 << 20,
	SUBMIT_KEY = 33,          /* 32 hexadecimal digits and NUL */
	SUBMIT_NAME = 40,         /* of a file in the drop folder, with NUL */
};

/* Below the state folder. */
#define SUBMIT_FOLDER "submit"
#define SUBMIT_SOCKET "submit/socket"
#define SUBMIT_DROP "submit/drop"
#define SUBMIT_BAD "submit/bad"

/* --- addresses.c: pure */

/* Addresses gathered from arguments and header fields: canonical, each once. */
struct submit_addresses {
	struct buf text;           /* each followed by NUL */
	size_t n;
	uint32_t *slots;           /* hash of what is there: offset + 1 */
	size_t n_slots;
	bool utf8;                 /* some has octets above 127 */
	/* what was no address: the first few, as text for people, each with a line end */
	struct buf bad;
	size_t n_bad;
};
void submit_addresses_init(struct submit_addresses *a);
void submit_addresses_done(struct submit_addresses *a);
/* Takes an RFC 5322 address list apart ("A <a@b>, c (d), group: e@f;": names, comments and groups left out) and adds its addresses;
 * those without a domain get `host`. Work is linear, nothing recurses. Returns 0 (what is no address went into a->bad), or -1:
 * more than SUBMIT_RCPTS_MAX, or no memory. */
int submit_addresses_add(struct submit_addresses *a, struct str list, const char *host);
/* One address as -f takes it; "" and "<>" are the null sender. Appended to out. 0 or -1. */
int submit_address_one(struct buf *out, struct str text, const char *host);

/* --- prepare.c: pure */

struct submit_options {
	const char *host;          /* domain of addresses that have none */
	struct str from;           /* envelope sender; empty: null */
	struct str full_name;      /* for a From field that has to be made; may be empty */
	struct str from_header;    /* address for it when the sender is null */
	bool extract;              /* -t */
	int64_t now_us;
	int offset_min;            /* of the time zone */
	const char *unique;        /* for a Message-ID */
};
struct submit_message {
	struct buf headers, body;  /* what is sent: headers, CRLF, body */
	bool eight;                /* some octet is above 127 */
};
enum submit_fault { SUBMIT_OK, SUBMIT_TOO_LARGE, SUBMIT_MEMORY, SUBMIT_HEADER_CR, SUBMIT_HEADER_NUL, SUBMIT_HEADER_LARGE, SUBMIT_TOO_MANY };
/* From what a program wrote to what SMTP carries:
 * - lines end in CRLF; any CRs before an LF belong to the line end; in the body a CR elsewhere ends a line, a NUL becomes '?';
 *   in the header both are refused: they only stand there to make one field two.
 * - a first line "From …" of a mailbox file is dropped; what is no field ends the header.
 * - with extract, To, Cc and Bcc are added to rcpts, of a resent message (any Resent-… field) Resent-To, -Cc and -Bcc instead.
 * - Bcc, Resent-Bcc and Return-Path are taken out.
 * - From, Date and Message-ID (Resent-…, too, in a resent message) are added where missing.
 * m->headers and m->body must be initialised with their limits. */
enum submit_fault submit_prepare(struct submit_message *m, struct submit_addresses *rcpts, struct str raw, const struct submit_options *o);
const char *submit_fault_text(enum submit_fault f);

/* --- send.c */

/* A connection to the local socket of pepsid; -1 (errno). */
int submit_connect(const char *path);
/* One message over fd, then QUIT; closes fd. Every msg->rcpts[i].result is filled. reply (SUBMIT_REPLY octets) gets the last good
 * reply ("Ok: queued as 17"). */
enum { SUBMIT_REPLY = 256 };
void submit_send(int fd, const char *helo, struct smtp_client_msg *msg, char *reply);
/* A fresh key. 0, or -1: the kernel gives no random octets. */
int submit_key(char key[SUBMIT_KEY]);

/* --- drop.c */

/* A message as it lies in the drop folder: keys and values, a line each, then header and body by their lengths. */
int submit_drop_compose(struct buf *out, const struct smtp_client_msg *msg);
/* The reverse, pointing into text; rcpts from malloc, the caller's. 0, or -1 with a sentence: it is none, or not whole. */
int submit_drop_parse(struct str text, struct smtp_client_msg *msg, char *err, size_t err_size);
/* Writes text into the folder as the caller's own file: under a name that the pick-up passes over, then, when all is on disk,
 * under its own. 0, or -1 (errno). */
int submit_drop_write(const char *folder, struct str text, const char *key);
/* Is it the name of a finished file? Of one that is being written? */
bool submit_drop_name_done(const char *name);
bool submit_drop_name_begun(const char *name);

/* --- report.c: pure */

/* The message that tells `to` what could not be sent: which recipients, why, and the header of it. */
int submit_report(struct submit_message *m, const struct smtp_client_msg *msg, struct str problems, const char *host, struct str to,
    int64_t now_us, int offset_min, const char *unique);
/* "<a@b>: 550 5.1.1 who?" for each recipient that was refused for good, and for which `count` gets how many. */
void submit_problems(struct buf *out, const struct smtp_client_msg *msg, size_t *count);

#endif
