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
	} else if (n >= (socklen_t)sizeof sa->sa_family && sa->sa_family == AF_UNIX) {
		ret->family = AF_UNIX;
		snprintf(ret->text, sizeof ret->text, "unix");
	}
	if (net_addr_is_ip(ret))
		inet_ntop(ret->family, ret->ip, ret->text, sizeof ret->text);
}

int net_addr_parse(struct net_addr *ret, struct str text, uint16_t port)
{
	char z[INET6_ADDRSTRLEN];
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	if (!text.n || text.n >= sizeof z || memchr(text.p, 0, text.n))
		return -1;
	memcpy(z, text.p, text.n);
	z[text.n] = 0;
	if (inet_pton(AF_INET, z, &in.sin_addr) == 1)
		net_addr_from(ret, (const struct sockaddr *)&in, sizeof in);
	else if (inet_pton(AF_INET6, z, &in6.sin6_addr) == 1)
		net_addr_from(ret, (const struct sockaddr *)&in6, sizeof in6);
	else
		return -1;
	return 0;
}

void net_addr_user(struct net_addr *a, int fd)
{
	struct ucred who;
	socklen_t n = sizeof who;
	if (a->family != AF_UNIX || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) || n != sizeof who || who.uid == (uid_t)-1)
		return;
	a->uid_known = true;
	a->uid = who.uid;
}

uint64_t net_addr_key(const struct net_addr *a)
{
	uint64_t k = 0;
	if (a->family == AF_UNIX && a->uid_known)
		return UINT64_C(0xfffd) << 32 | (uint32_t)a->uid;
	if (!net_addr_is_ip(a)) /* all of them one client: nothing tells them apart */
		return UINT64_C(0xfffe) << 32 | (unsigned)a->family;
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
