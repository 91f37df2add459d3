/* The grammar that the TXT records of MTA-STS (RFC 8461 §3.1) and TLSRPT (RFC 8460 §3) share: a version, then "; name=value", perhaps a
 * last semicolon. Inside proto only. */
#ifndef PROTO_DNS_FIELDS_H
#define PROTO_DNS_FIELDS_H

#include "base/str.h"

/* Takes the version off the front of *txt. False: it is not there, or no semicolon follows; *txt is untouched then. */
bool fields_begin(struct str *txt, struct str version);
/* Takes the next field off *txt, which stands before a semicolon: 1; 0: at the end; -1: not in the grammar. The name is 1 to 32 letters,
 * digits, "_", "-", "."; the value runs to the next semicolon, without the blanks before that. */
int fields_next(struct str *txt, struct str *ret_name, struct str *ret_value);
/* Is it the value of an extension: printable ASCII but no blank, "=" or ";", and not empty? */
bool fields_value_ok(struct str value);
bool fields_name_ok(struct str name);
bool fields_alnum(struct str s);

#endif
