/* Tokens of structured header fields (RFC 5322 §3.2): atoms, quoted strings, comments, literals, specials. Shared inside proto. */
#ifndef PROTO_MAIL_ADDRTOKEN_H
#define PROTO_MAIL_ADDRTOKEN_H

#include "base/str.h"

enum mail_token_kind {
	MAIL_TOKEN_END,
	MAIL_TOKEN_ATOM,    /* text: its octets; an encoded word counts as one, whatever is in it */
	MAIL_TOKEN_QUOTED,  /* text: between the quotes, escapes and folds inside */
	MAIL_TOKEN_LITERAL, /* text: between the brackets */
	MAIL_TOKEN_COMMENT, /* text: between the outer parentheses */
	MAIL_TOKEN_SPECIAL, /* text: the one octet; controls and stray closers, too */
};

struct mail_token {
	enum mail_token_kind kind;
	bool blank; /* blanks or a comment stood before it */
	bool bad;   /* not closed */
	struct str text;
};

struct mail_scanner {
	struct str rest;
	bool bad;  /* something was not closed, or a bare CR or a NUL was seen */
	bool deep; /* comments nested too deeply: give up */
};

/* Starts at the value of a field. It ends at the first line end without a blank behind it; text behind that is bad. */
void mail_scanner_init(struct mail_scanner *s, struct str value);
void mail_scanner_next(struct mail_scanner *s, struct mail_token *ret);

/* atext (RFC 5322 §3.2.3) or an octet above 127 (RFC 6532 §3.2)? */
bool mail_is_atext(char c);

#endif
