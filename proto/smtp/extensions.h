/* The service extensions of the server (RFC 5321 §2.2), one table: keyword, bit, where each may be offered, what it needs,
 * what follows the keyword in the reply to EHLO, and the parameters of MAIL and RCPT it brings. What is announced, which
 * parameters are taken and which names a listener's EXTENSIONS may hold all come from it. */
#ifndef PROTO_SMTP_EXTENSIONS_H
#define PROTO_SMTP_EXTENSIONS_H

#include "base/buf.h"
#include "base/str.h"

#define SMTP_EXT_PIPELINING (1u << 0)           /* RFC 2920 */
#define SMTP_EXT_SIZE (1u << 1)                 /* RFC 1870 */
#define SMTP_EXT_8BITMIME (1u << 2)             /* RFC 6152 */
#define SMTP_EXT_SMTPUTF8 (1u << 3)             /* RFC 6531 */
#define SMTP_EXT_ENHANCEDSTATUSCODES (1u << 4)  /* RFC 2034 */
#define SMTP_EXT_DSN (1u << 5)                  /* RFC 3461 */
#define SMTP_EXT_STARTTLS (1u << 6)             /* RFC 3207; outside TLS only */
#define SMTP_EXT_CHUNKING (1u << 7)             /* RFC 3030 */
#define SMTP_EXT_BINARYMIME (1u << 8)           /* RFC 3030 */
#define SMTP_EXT_REQUIRETLS (1u << 9)           /* RFC 8689; inside TLS only */
#define SMTP_EXT_LIMITS (1u << 10)              /* RFC 9422 */
#define SMTP_EXT_DELIVERBY (1u << 11)           /* RFC 2852; when the time is known */
#define SMTP_EXT_FUTURERELEASE (1u << 12)       /* RFC 4865; when the time is known, hold_max is set, and to whom it may be */
#define SMTP_EXT_MT_PRIORITY (1u << 13)         /* RFC 6710 */
#define SMTP_EXT_PRDR (1u << 14)                /* draft-hall-prdr; not in LMTP, which has it by nature */
#define SMTP_EXT_HELP (1u << 15)                /* RFC 5321 §4.1.1.8 */
#define SMTP_EXT_EXPN (1u << 16)                /* RFC 5321 §4.1.1.7 */
#define SMTP_EXT_XCLIENT (1u << 17)             /* Postfix's; to clients of SMTP_TRUST_XCLIENT only */
#define SMTP_EXT_AUTH (1u << 18)                /* RFC 4954 */
#define SMTP_EXT_XONCE (1u << 19)               /* ours; to clients of SMTP_TRUST_ONCE only: MAIL XONCE=KEY, taken once for each key */

/* Those that need neither TLS, trust nor anything of the conf. */
#define SMTP_EXT_ALL_PLAIN                                                                                             \
	(SMTP_EXT_PIPELINING | SMTP_EXT_SIZE | SMTP_EXT_8BITMIME | SMTP_EXT_SMTPUTF8 | SMTP_EXT_ENHANCEDSTATUSCODES |     \
	    SMTP_EXT_DSN)

/* The choices of EXTENSIONS, as the table has them, and the default: what is carried out downstream, too. A test holds
 * both against the table. */
#define SMTP_EXT_NAMES                                                                                                 \
	"pipelining size 8bitmime smtputf8 enhancedstatuscodes dsn starttls chunking binarymime requiretls limits "        \
	"deliverby futurerelease mt-priority prdr help expn xclient auth xonce"
#define SMTP_EXT_DEFAULT_NAMES                                                                                         \
	"pipelining size 8bitmime smtputf8 enhancedstatuscodes dsn starttls chunking binarymime requiretls limits "        \
	"deliverby futurerelease mt-priority prdr help xclient auth xonce"

/* Where an extension may be offered; all that are named must hold. */
#define SMTP_WHEN_PLAIN (1u << 0)   /* outside TLS */
#define SMTP_WHEN_TLS (1u << 1)     /* inside TLS */
#define SMTP_WHEN_SMTP (1u << 2)    /* not in LMTP */
#define SMTP_WHEN_TRUSTED (1u << 3) /* to a client the caller has called trusted for it */

struct smtp_server;
struct smtp_param_def; /* params.h */

struct smtp_extension {
	struct str keyword;
	unsigned bit;
	unsigned when;                       /* SMTP_WHEN_* */
	unsigned needs;                      /* extensions of rows above without which it is not offered */
	const struct smtp_param_def *params; /* what it brings to MAIL and RCPT, ended by one without a name; or NULL */
	/* May it be offered as the session is? NULL: nothing more to ask. */
	bool (*ready)(const struct smtp_server *s);
	/* Appends what follows the keyword, with its leading blank. NULL: nothing. */
	void (*write)(const struct smtp_server *s, struct buf *out);
};

/* The rows, in the order in which they are announced. */
extern const struct smtp_extension smtp_extensions[];
extern const size_t smtp_extensions_n;

/* The row of a keyword in any case, or NULL. */
const struct smtp_extension *smtp_extension_find(struct str keyword);
/* Bits of a list of keywords separated by blanks or commas. Returns 0, or -1 with the first unknown word in *ret_unknown
 * (may be NULL). */
int smtp_extensions_parse(struct str list, unsigned *ret, struct str *ret_unknown);

#endif
