/* Is an address one of the public Internet? For what connects to servers that strangers name (policies of MTA-STS, mail exchangers): it must not be
 * turned against this host or the networks behind it. Pure. */
#ifndef PROTO_RELAY_OUTSIDE_H
#define PROTO_RELAY_OUTSIDE_H

#include "base/str.h"

/* NULL: it is. Else a constant word for people: "loopback", "private", "link-local", "shared (CGNAT)", "multicast", "IPv4-mapped", … n: 4 or 16;
 * anything else is "no address". The special-purpose registries of RFC 6890 (as of 2025), and IPv6 outside 2000::/3. */
const char *outside_refused(const unsigned char *ip, size_t n);

/* The same for mail, where what holds an IPv4 address counts as that: mapped, translated (64:ff9b::/96: hosts behind NAT64 have no other way to IPv4)
 * and 6to4 forms. */
const char *outside_mail_refused(const unsigned char *ip, size_t n);

/* A network that an operator allows all the same. */
struct outside_net {
	unsigned char ip[16];
	unsigned char n;    /* 4 or 16 */
	unsigned char bits;
};
/* "10.0.0.0/8", "fd00::/8", "192.0.2.1", "2001:db8::1". 0, or -1: it is none. */
int outside_net_parse(struct str word, struct outside_net *ret);
/* Is the address in one of them, or the IPv4 address that it holds? */
bool outside_net_has(const struct outside_net *net, size_t n_net, const unsigned char *ip, size_t n);

#endif
