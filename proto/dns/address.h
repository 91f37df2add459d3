/* Mail addresses, and patterns of them, in the form that is compared with what people write. */
#ifndef PROTO_DNS_ADDRESS_H
#define PROTO_DNS_ADDRESS_H

#include "base/buf.h"

/* local@domain, or @domain, with the domain folded (dns_name_fold()) and the local part as it is, appended to out; what has no domain that can be folded as
 * it is. 0, or -1: no memory, out is unchanged. */
int dns_address_fold(struct str address, struct buf *out);

#endif
