/* Peer addresses as text and keys. */
#include "addr.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

void net_addr_from(struct net_addr *ret, const struct sockaddr *sa, socklen_t n)
{
	static const unsigned char mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
	memset(ret, 0, sizeof *ret);
	snprintf(ret->text, sizeof ret->text, "unknown");
	if (n >= (socklen_t)sizeof(struct sockaddr_in) && sa->sa_family == AF_INET) {
		struct sockaddr_in in;
		memcpy(&in, sa, sizeof in);
		ret->family = AF_INET;
		ret->port = ntohs(in.sin_port);
		memcpy(ret->ip, &in.sin_addr, 4);
	} else if (n >= (socklen_t)sizeof(struct sockaddr_in6) && sa->sa_family == AF_INET6) {
		struct sockaddr_in6 in;
		memcpy(&in, sa, sizeof in);
		ret->port = ntohs(in.sin6_port);
		if (memcmp(&in.sin6_addr, mapped, sizeof mapped) == 0) {
			ret->family = AF_INET;
			memcpy(ret->ip, (const char *)&in.sin6_addr + 12, 4);
		} else {
			ret->family = AF_INET6;
			memcpy(ret->ip, &in.sin6_addr, 16);
		}
	}
	if (ret->family != AF_UNSPEC)
		inet_ntop(ret->family, ret->ip, ret->text, sizeof ret->text);
}

uint64_t net_addr_key(const struct net_addr *a)
{
	uint64_t k = 0;
	/* IPv4 gets a prefix that no IPv6 network has (::/16 is not routed) */
	if (a->family == AF_INET)
		return (uint64_t)a->ip[0] << 24 | (uint64_t)a->ip[1] << 16 | (uint64_t)a->ip[2] << 8 | a->ip[3] |
		    UINT64_C(0xffff) << 32;
	for (unsigned i = 0; i < 8; i++)
		k = k << 8 | a->ip[i];
	return k;
}

void net_addr_sender_key(const struct net_addr *a, char *out)
{
	unsigned char net[16] = { 0 };
	if (a->family != AF_INET6) {
		snprintf(out, NET_SENDER_KEY_SIZE, "%s", a->text);
		return;
	}
	memcpy(net, a->ip, 8);
	inet_ntop(AF_INET6, net, out, INET6_ADDRSTRLEN);
	snprintf(out + strlen(out), 4, "/64"); /* NET_SENDER_KEY_SIZE has room for it */
}
