/* Is an address one of the public Internet? For what fetches from servers that strangers name (MTA-STS): it must not be turned against this host
 * or the networks behind it. Stricter than route_address_ok(), which says where mail may go. Pure. */
#ifndef PROTO_RELAY_OUTSIDE_H
#define PROTO_RELAY_OUTSIDE_H

#include <stddef.h>

/* NULL: it is. Else a constant word for people: "loopback", "private", "link-local", "shared (CGNAT)", "multicast", "IPv4-mapped", … n: 4 or 16;
 * anything else is "no address". The special-purpose registries of RFC 6890 (as of 2025), and IPv6 outside 2000::/3. */
const char *outside_refused(const unsigned char *ip, size_t n);

#endif
