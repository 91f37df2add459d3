/* The special-purpose addresses; see outside.h. */
#include "proto/relay/outside.h"

#include <arpa/inet.h>
#include <string.h>

struct net {
	unsigned char ip[8]; /* the first octets */
	unsigned char bits;
	const char *word;
};

static const struct net v4[] = {
	{ { 0 }, 8, "this network" },
	{ { 10 }, 8, "private" },
	{ { 100, 64 }, 10, "shared (CGNAT)" },
	{ { 127 }, 8, "loopback" },
	{ { 169, 254 }, 16, "link-local" },
	{ { 172, 16 }, 12, "private" },
	{ { 192, 0, 0 }, 24, "special-purpose" },
	{ { 192, 0, 2 }, 24, "documentation" },
	{ { 192, 88, 99 }, 24, "6to4 relay" },
	{ { 192, 168 }, 16, "private" },
	{ { 198, 18 }, 15, "benchmarking" },
	{ { 198, 51, 100 }, 24, "documentation" },
	{ { 203, 0, 113 }, 24, "documentation" },
	{ { 224 }, 4, "multicast" },
	{ { 240 }, 4, "reserved" },
};

static const struct net v6[] = {
	{ { 0x00, 0x64, 0xff, 0x9b }, 32, "translated (NAT64)" },
	{ { 0xfc }, 7, "unique local" },
	{ { 0xfe, 0x80 }, 10, "link-local" },
	{ { 0xfe, 0xc0 }, 10, "site-local" },
	{ { 0xff }, 8, "multicast" },
	{ { 0x20, 0x01, 0x00 }, 23, "special-purpose" }, /* Teredo, ORCHID, benchmarking */
	{ { 0x20, 0x01, 0x0d, 0xb8 }, 32, "documentation" },
	{ { 0x20, 0x02 }, 16, "6to4" },
	{ { 0x3f, 0xff, 0x00 }, 20, "documentation" },
};

static bool inside(const unsigned char *net, unsigned bits, const unsigned char *ip)
{
	unsigned octets = bits / 8, rest = bits % 8;
	return memcmp(net, ip, octets) == 0 && (!rest || !((net[octets] ^ ip[octets]) & (0xff00u >> rest) & 0xff));
}

static const char *find(const struct net *list, size_t n, const unsigned char *ip)
{
	for (size_t i = 0; i < n; i++)
		if (inside(list[i].ip, list[i].bits, ip))
			return list[i].word;
	return NULL;
}

const char *outside_refused(const unsigned char *ip, size_t n)
{
	static const unsigned char zero[16];
	if (n == 4)
		return find(v4, sizeof v4 / sizeof *v4, ip);
	if (n != 16)
		return "no address";
	if (memcmp(ip, zero, 10) == 0) {
		if (ip[10] == 0xff && ip[11] == 0xff)
			return "IPv4-mapped";
		if (ip[10] == 0 && ip[11] == 0)
			return memcmp(ip + 12, zero, 3) != 0 ? "IPv4-compatible" : ip[15] == 1 ? "loopback" : "unspecified";
	}
	const char *word = find(v6, sizeof v6 / sizeof *v6, ip);
	return word ? word : (ip[0] & 0xe0) != 0x20 ? "reserved" : NULL;
}

/* The IPv4 address within an IPv6 one; NULL: it holds none. */
static const unsigned char *held(const unsigned char *ip)
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff }, translated[12] = { 0, 0x64, 0xff, 0x9b };
	if (memcmp(ip, mapped, 12) == 0 || memcmp(ip, translated, 12) == 0)
		return ip + 12;
	return ip[0] == 0x20 && ip[1] == 0x02 ? ip + 2 : NULL;
}

const char *outside_mail_refused(const unsigned char *ip, size_t n)
{
	const unsigned char *four = n == 16 ? held(ip) : NULL;
	return four ? find(v4, sizeof v4 / sizeof *v4, four) : outside_refused(ip, n);
}

int outside_net_parse(struct str word, struct outside_net *ret)
{
	struct outside_net net = { .n = 4 };
	char text[INET6_ADDRSTRLEN];
	ptrdiff_t slash = str_chr(word, '/');
	struct str ip = slash < 0 ? word : str_n(word.p, (size_t)slash);
	uint64_t bits;
	if (ip.n >= sizeof text || memchr(ip.p, 0, ip.n))
		return -1;
	memcpy(text, ip.p, ip.n);
	text[ip.n] = 0;
	if (inet_pton(AF_INET, text, net.ip) != 1) {
		net.n = 16;
		if (inet_pton(AF_INET6, text, net.ip) != 1)
			return -1;
	}
	bits = net.n * 8u;
	if (slash >= 0 && str_u64(str_skip(word, (size_t)slash + 1), bits, &bits))
		return -1;
	net.bits = (unsigned char)bits;
	*ret = net;
	return 0;
}

bool outside_net_has(const struct outside_net *net, size_t n_net, const unsigned char *ip, size_t n)
{
	const unsigned char *four = n == 4 ? ip : held(ip);
	for (size_t i = 0; i < n_net; i++)
		if (net[i].n == n ? inside(net[i].ip, net[i].bits, ip) : net[i].n == 4 && four && inside(net[i].ip, net[i].bits, four))
			return true;
	return false;
}
