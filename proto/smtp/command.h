/* The form of a command line (RFC 5321 §4.1.1): verb and argument, and the path of MAIL and RCPT. Knows no session. */
#ifndef PROTO_SMTP_COMMAND_H
#define PROTO_SMTP_COMMAND_H

#include "proto/address/address.h"

/* verb: up to the first space; args: behind it, without blanks at either end (trailing ones are tolerated, §4.1.1). */
void smtp_command_split(struct str line, struct str *ret_verb, struct str *ret_args);

/* "FROM:<path>[ parameters]", keyword "FROM:" or "TO:" in any case; flags SMTP_PATH_*. One blank between the colon and the
 * path is let pass, against the grammar (§3.3): mail programs send it. *ret_params is the text behind the path. Returns 0;
 * -SMTP_ADDRESS_* (the path is bad); or -SMTP_COMMAND_SYNTAX: not of this form at all, or something is glued to the path. */
#define SMTP_COMMAND_SYNTAX 1000
int smtp_command_path(struct str args, struct str keyword, unsigned flags, struct smtp_address *ret,
    struct str *ret_params);

/* The name in HELO and EHLO: a domain or an address literal (§4.1.4). Underscores are let through, as Windows hosts have
 * them in their names and nothing here depends on it. */
bool smtp_helo_check(struct str name);

#endif
