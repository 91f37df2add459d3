/* Address lists of header fields: From, Sender, Reply-To, To, Cc, Bcc, Return-Path (RFC 5322 §3.4, §4.4; RFC 6532; display names of
 * RFC 2047). For the envelope there is proto/address/address.h, which is far stricter.
 *
 * Reading never gives up on syntax: what is wrong is passed over, and `bad` says that the field cannot be trusted to mean one
 * thing: whoever decides by it (who wrote this? may this account use that address?) refuses a bad one. Work is linear; nothing
 * recurses; what passes the limits is refused as a whole.
 *
 *     struct mail_addrlist l;
 *     if (mail_addrlist_parse(&l, field.value) == 0 && !l.bad)
 *             for (size_t i = 0; i < l.n; i++)
 *                     if (l.item[i].kind == MAIL_ADDR_MAILBOX && l.item[i].valid)
 *                             use(l.item[i].local, l.item[i].domain);
 *     mail_addrlist_free(&l); */
#ifndef PROTO_MAIL_ADDRLIST_H
#define PROTO_MAIL_ADDRLIST_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

enum {
	MAIL_ADDRLIST_TOKENS_MAX = 10000, /* tokens of one field, comments too */
	MAIL_ADDRLIST_DEPTH_MAX = 50,     /* comments within comments */
	MAIL_ADDRLIST_PIECE_MAX = 900,    /* a longer address could not stand on a line (RFC 5322 §2.1.1): not valid */
};

enum mail_addr_kind {
	MAIL_ADDR_MAILBOX,
	MAIL_ADDR_GROUP,   /* its members are the items behind it that have its number */
	MAIL_ADDR_COMMENT, /* a place in the list that holds nothing but comments (RFC 5322 §4.4) */
};

struct mail_address {
	enum mail_addr_kind kind;
	size_t group;       /* 0: in no group; else the index of its group's item, plus 1 */
	struct str name;    /* display name, decoded, clean UTF-8; .p is NULL: there is none */
	struct str comment; /* its comments likewise, joined by blanks; .p is NULL: there is none */
	struct str address; /* valid: local@domain, quoted only where needed, no comments, blanks or route. Else: what stood there */
	struct str local;   /* valid: the local part without its quoting */
	struct str domain;  /* valid: the domain, in address; a literal with its brackets. Not checked against DNS or IDNA rules */
	bool valid;         /* it is an addr-spec */
	bool quoted;        /* the local part needs quotes */
	bool literal;       /* the domain is a literal */
	bool utf8;          /* octets above 127 in the address */
	bool angle;         /* it stood in <> */
};

struct mail_addrlist {
	struct mail_address *item; /* n of them */
	size_t n;
	bool bad;      /* no grammar allows it, not even the obsolete one; other readers may see other addresses */
	bool obsolete; /* forms of RFC 5322 §4.4 occur */
	bool loose;    /* a display name that should have been quoted ("a@b <c@d>"): common, and its address is certain */
	struct arena *mem; /* not yours */
};

enum { MAIL_ADDRLIST_MEMORY = -1, MAIL_ADDRLIST_LIMIT = -2 };
/* Reads a field's value, folds and all; a line end without a blank behind it ends it. Everything is copied. Returns 0, or
 * MAIL_ADDRLIST_*: *ret is empty then. mail_addrlist_free() in any case is right. */
int mail_addrlist_parse(struct mail_addrlist *ret, struct str value);
/* Leaves an empty list. */
void mail_addrlist_free(struct mail_addrlist *l);

/* How many mailboxes it holds, valid or not; groups and comments do not count. */
size_t mail_addrlist_mailboxes(const struct mail_addrlist *l);

/* Writes "Name: list" and CRLF through the one encoder (header.h): valid mailboxes, groups and comments; what is not valid is left out. utf8: text
 * above 127 may stand as it is (RFC 6532), else names and comments become encoded words, and an address that needs it is an error.
 * Reading it gives the same names, comments and addresses again. Returns 0, or -1: full, an address of UTF-8, or nothing to write;
 * the buffer is as before then. */
int mail_addrlist_write(struct buf *out, struct str field, const struct mail_addrlist *l, bool utf8);

/* The same with one mailbox, whose name may be anything. Returns 0, or -1: full, or no address that can be written. */
int mail_addrlist_write_one(struct buf *out, struct str field, struct str name, struct str address, bool utf8);

#endif
