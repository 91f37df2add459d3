/* Mail addresses as SMTP knows them (RFC 5321 §4.1.2, RFC 6531 §3.3): one strict parser for the envelope, the stages and
 * the tools. It says yes or no and never repairs; nothing is allocated, results point into the input.
 *
 * Limits (RFC 5321 §4.5.3.1, in octets): local part 64, domain 255, label 63, path 256 with its <>, so 254 for a mailbox. */
#ifndef PROTO_SMTP_ADDRESS_H
#define PROTO_SMTP_ADDRESS_H

#include "base/buf.h"
#include "base/str.h"

#define SMTP_LOCAL_MAX 64u
#define SMTP_DOMAIN_MAX 255u
#define SMTP_LABEL_MAX 63u
#define SMTP_MAILBOX_MAX 254u
#define SMTP_PATH_MAX 256u

struct smtp_address {
	struct str address; /* the mailbox, local@domain, as given; empty: the null path <> */
	struct str local;   /* as given, with its quotes if it has them */
	struct str domain;  /* as given; an address literal with its brackets; empty for <> and bare postmaster */
	bool quoted;        /* local is a quoted string */
	bool literal;       /* domain is an address literal */
	bool utf8;          /* some octet is above 127: needs SMTPUTF8 */
};

/* Why an address is refused. Functions return these negated. */
enum smtp_address_fault {
	SMTP_ADDRESS_OK,
	SMTP_ADDRESS_EMPTY,       /* nothing there */
	SMTP_ADDRESS_BRACKET,     /* a path must be <…> */
	SMTP_ADDRESS_ROUTE,       /* bad source route */
	SMTP_ADDRESS_LOCAL,       /* octet not allowed in a local part, or a dot out of place */
	SMTP_ADDRESS_LOCAL_LONG,
	SMTP_ADDRESS_QUOTE,       /* bad or unended quoted string */
	SMTP_ADDRESS_NO_AT,       /* no @domain */
	SMTP_ADDRESS_DOMAIN,      /* not a domain */
	SMTP_ADDRESS_LABEL_LONG,
	SMTP_ADDRESS_DOMAIN_LONG,
	SMTP_ADDRESS_LITERAL,     /* not an address literal */
	SMTP_ADDRESS_LONG,        /* whole mailbox or path too long */
	SMTP_ADDRESS_UTF8,        /* not UTF-8, or a control character */
	SMTP_ADDRESS_NOT_ASCII,   /* octets above 127 where utf8 was false */
	SMTP_ADDRESS_IDNA,        /* the domain is not valid under IDNA2008 */
};

/* A bare mailbox, local@domain, the whole of s. utf8: octets above 127 are allowed (valid UTF-8, domain valid under IDNA).
 * Returns 0, or -SMTP_ADDRESS_*; *ret is untouched then. */
int smtp_address_parse(struct str s, bool utf8, struct smtp_address *ret);

#define SMTP_PATH_NULL (1u << 0)       /* <> is allowed (MAIL) */
#define SMTP_PATH_POSTMASTER (1u << 1) /* <postmaster>, any case, is allowed (RCPT; RFC 5321 §4.5.1) */
#define SMTP_PATH_UTF8 (1u << 2)
/* A path, <mailbox>, at the start of s; *ret_used is its length with the brackets. A source route (<@a,@b:c@d>) must be
 * well-formed, and is then ignored: *ret is the mailbox behind it (RFC 5321 §4.1.2 A-d-l, §C: "SHOULD be ignored"). */
int smtp_path_parse(struct str s, unsigned flags, struct smtp_address *ret, size_t *ret_used);

/* One clause for people: "local part longer than 64 octets". Accepts the negated value. */
const char *smtp_address_fault_text(int fault);

/* A domain name: letters, digits and hyphens in labels of 1 to 63, at most 255; utf8 as above. Same return values. */
int smtp_domain_check(struct str s, bool utf8);
/* An address literal with its brackets: [192.0.2.1], [IPv6:2001:db8::1]. Other tags are unknown and refused. */
int smtp_literal_check(struct str s);

/* Do two domains name the same? ASCII case folded; U-labels equal their A-labels. */
bool smtp_domain_equal(struct str a, struct str b);
/* Is `domain` equal to `parent`, or below it ("a.b.example" below "b.example")? ASCII case folded, A-labels only. */
bool smtp_domain_within(struct str domain, struct str parent);
/* The A-label form in lower case appended to out. Returns 0, or -1 (no domain name by smtp_domain_check(), ASCII or not, or no memory: out is
 * unchanged). */
int smtp_domain_to_ascii(struct str domain, struct buf *out);

/* The local part without quotes and backslashes, as a mailbox name is looked up: "\"a\\ b\"" is `a b`. Appended to out. */
int smtp_local_unquote(struct str local, struct buf *out);
/* The form to store and send: quotes only if needed, no needless backslash (RFC 5321 §4.1.2: the minimum of quoting),
 * appended to out. Bare postmaster and the null sender stay as they are. */
int smtp_address_canonical(const struct smtp_address *a, struct buf *out);

#endif
