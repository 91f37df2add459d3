/* The address of a peer, in the forms the rest needs: text for logs and trace fields, a key for books that count per
 * client, and the fairness key of its mail. Pure; opens nothing. */
#ifndef NET_ADDR_H
#define NET_ADDR_H

#include "base/str.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct net_addr {
	int family;              /* AF_INET or AF_INET6; AF_UNIX (text is "unix"); AF_UNSPEC: not known (text is "unknown") */
	uint16_t port;           /* host order */
	bool uid_known;          /* AF_UNIX: the kernel has told whose the other end is */
	uid_t uid;
	unsigned char ip[16];    /* network order; IPv4 in the first four */
	char text[INET6_ADDRSTRLEN];
};

enum { NET_SENDER_KEY_SIZE = INET6_ADDRSTRLEN + 4 };

/* IPv4 addresses mapped into IPv6 become IPv4 again. */
void net_addr_from(struct net_addr *ret, const struct sockaddr *sa, socklen_t n);
/* From text: "192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1" (taken as IPv4). 0, or -1: no address; *ret untouched then. */
int net_addr_parse(struct net_addr *ret, struct str text, uint16_t port);
/* An internet address (not a unix socket)? */
static inline bool net_addr_is_ip(const struct net_addr *a)
{
	return a->family == AF_INET || a->family == AF_INET6;
}
/* An AF_UNIX address is given the user at the other end of fd (SO_PEERCRED), when the kernel knows it. */
void net_addr_user(struct net_addr *a, int fd);
/* One number per client: the IPv4 address, the /64 of an IPv6 address (a host has as many addresses in its
 * /64 as it likes), or the user behind a unix socket. Different clients have different keys; unix sockets whose user is not
 * known are one. */
uint64_t net_addr_key(const struct net_addr *a);
/* The text under which mail of this client is booked (column workqueue.sender_key): "192.0.2.1", or the /64 of
 * an IPv6 address, "2001:db8::/64". out holds NET_SENDER_KEY_SIZE octets. */
void net_addr_sender_key(const struct net_addr *a, char *out);

#endif
