/* ESMTP parameters of MAIL and RCPT (RFC 5321 §4.1.2): a list per extension, which its row in extensions.c names. Checks
 * everything about a parameter that needs no knowledge of the session beyond its extensions. Nothing is allocated. */
#ifndef PROTO_SMTP_PARAMS_H
#define PROTO_SMTP_PARAMS_H

#include "extensions.h"
#include "server.h"

struct smtp_param {
	struct str name, value;
	bool has_value;
};

enum smtp_param_fault {
	SMTP_PARAM_OK,
	SMTP_PARAM_SYNTAX,    /* 501 */
	SMTP_PARAM_UNKNOWN,   /* 555: unknown, or its extension was not offered */
	SMTP_PARAM_DUPLICATE, /* 501 */
	SMTP_PARAM_VALUE,     /* 501 */
};

/* Takes the next "name[=value]" off *rest. Returns 1, 0 at the end, or -1: not of the form of esmtp-param. */
int smtp_param_next(struct str *rest, struct smtp_param *ret);

struct smtp_mail_params {
	uint64_t size; /* UINT64_MAX when it does not fit: more than any limit */
	enum smtp_body body;
	bool smtputf8;
	char ret;
	struct str envid;
	/* the rest as in struct smtp_transaction */
	unsigned hold_for;
	int64_t hold_until;
	char deliver_mode; /* 0: no BY= */
	int deliver_by;
	bool deliver_trace;
	bool has_priority;
	int priority; /* as asked for */
	bool require_tls, prdr;
	struct str auth, once;
};
struct smtp_rcpt_params {
	unsigned notify;
	struct str orcpt;
};

/* One parameter of an extension. */
struct smtp_param_case;
struct smtp_param_def {
	struct str name;
	enum { SMTP_PARAM_MAIL, SMTP_PARAM_RCPT } command;
	bool wants_value;
	unsigned once; /* a bit per name: given twice is a fault */
	bool (*set)(struct smtp_param_case *c); /* false: bad value */
};
/* The lists of the extensions' rows, each ended by one without a name. */
extern const struct smtp_param_def smtp_params_size[], smtp_params_body[], smtp_params_smtputf8[], smtp_params_dsn[],
    smtp_params_requiretls[], smtp_params_deliverby[], smtp_params_futurerelease[], smtp_params_priority[],
    smtp_params_prdr[], smtp_params_auth[], smtp_params_xonce[];

/* text: all behind the path. extensions: those of the session, 0 after HELO. Returns SMTP_PARAM_OK or the first fault with
 * the parameter it is about in *ret_at; *ret is filled only in the first case. */
enum smtp_param_fault smtp_mail_params_parse(struct str text, unsigned extensions, struct smtp_mail_params *ret,
    struct smtp_param *ret_at);
/* utf8: the transaction has SMTPUTF8. */
enum smtp_param_fault smtp_rcpt_params_parse(struct str text, unsigned extensions, bool utf8, struct smtp_rcpt_params *ret,
    struct smtp_param *ret_at);

#endif
