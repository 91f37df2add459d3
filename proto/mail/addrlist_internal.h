/* Shared inside: the reader's state, and what runs of tokens mean (addrspec.c). */
#ifndef PROTO_MAIL_ADDRLIST_INTERNAL_H
#define PROTO_MAIL_ADDRLIST_INTERNAL_H

#include "proto/mail/addrlist.h"
#include "proto/mail/addrtoken.h"
#include "proto/mail/encoded.h"

enum addr_angle { ADDR_NO_ANGLE, ADDR_OPEN, ADDR_CLOSED };

struct addr_reader {
	struct mail_addrlist *list;
	size_t items_cap;
	/* the element being read */
	struct mail_token *token; /* tokens of them, without comments; those before names are the display name's */
	size_t tokens, tokens_cap, names;
	enum addr_angle angle;
	struct buf comment;
	struct mail_decoder comment_decoder;
	bool commented;   /* the last token was a comment */
	bool after_group; /* behind the ";" of a group nothing but comments may come */
	bool group_empty; /* nothing but comments since the ":" */
	bool ended;       /* the last token was a comma */
	size_t group;     /* as in struct mail_address */
	struct buf scratch;
	int error;
};

/* What an addr-spec is made of; indices are of the tokens it was given. */
struct addr_spec {
	bool valid, quoted, literal;
	size_t domain_n;          /* octets of the domain at the end of what was written */
	size_t local_at, local_n; /* the tokens of the local part */
};

/* Writes the display name of n tokens to r->scratch. 0, or -1: full. */
int addr_name(struct addr_reader *r, const struct mail_token *t, size_t n);
/* Writes to r->scratch the address the n tokens are; or, when they are none, what they say. */
void addr_spec(struct addr_reader *r, const struct mail_token *t, size_t n, bool route, struct addr_spec *ret);
/* Writes to r->scratch the local part's meaning: no quotes, no escapes. */
void addr_local(struct addr_reader *r, const struct mail_token *t, size_t n);
/* Where the address at the end of the n tokens begins: 0 unless words stand before an addr-spec. */
size_t addr_tail(const struct mail_token *t, size_t n);

#endif
