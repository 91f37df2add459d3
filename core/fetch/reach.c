/* Which addresses may be connected to: those of the public Internet that are not our own, and what an operator of a laboratory allows. Asked twice,
 * of what the DNS said and of what is really connected to. */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "proto/relay/outside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { OWN_MAX = 256, OWN_AGE_US = 60 * 1000 * 1000 };

struct reach {
	struct config_networks *allowed;
	struct reach_address own[OWN_MAX];
	size_t n_own;
	int64_t looked_us;
	bool unlisted; /* our addresses cannot be listed (no AF_NETLINK here): each is tried instead */
};

/* May a socket be bound to it? Only to an address of this machine, unless net.ipv4.ip_nonlocal_bind allows any. */
static bool can_bind(const unsigned char *ip, size_t n)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	int fd = socket(n == 4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	memcpy(n == 4 ? (void *)&v4.sin_addr : (void *)&v6.sin6_addr, ip, n);
	int rc = n == 4 ? bind(fd, (const struct sockaddr *)&v4, sizeof v4) : bind(fd, (const struct sockaddr *)&v6, sizeof v6);
	close(fd);
	return rc == 0;
}

static void look(struct reach *r)
{
	struct ifaddrs *all, *i;
	r->looked_us = clock_mono_us();
	if (getifaddrs(&all)) {
		static const unsigned char nobodys[4] = { 192, 0, 2, 1 }, nobodys6[16] = { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 };
		if (!r->unlisted)
			log_warn(NULL, "event=fetch-own-addresses reason=%s hint=\"they are told apart one by one; allow AF_NETLINK to the service\"", log_qz(strerror(errno)));
		r->unlisted = !can_bind(nobodys, 4) && !can_bind(nobodys6, 16); /* else trying says nothing */
		return; /* what was known stays */
	}
	r->unlisted = false;
	r->n_own = 0;
	for (i = all; i && r->n_own < OWN_MAX; i = i->ifa_next) {
		struct reach_address *a = &r->own[r->n_own];
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET) {
			a->n = 4;
			memcpy(a->ip, &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr, 4);
			r->n_own++;
		} else if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET6) {
			a->n = 16;
			memcpy(a->ip, &((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr, 16);
			r->n_own++;
		}
	}
	freeifaddrs(all);
}

struct reach *reach_new(const char *allowed)
{
	struct reach *r = calloc(1, sizeof *r);
	if (!r)
		return NULL;
	r->allowed = config_networks_new(allowed ? allowed : "");
	look(r);
	return r;
}

const char *reach_refused(struct reach *r, const unsigned char *ip, size_t n)
{
	static const unsigned char nat64[12] = { 0x00, 0x64, 0xff, 0x9b };
	char text[INET6_ADDRSTRLEN];
	const char *why = outside_refused(ip, n);
	if (clock_mono_us() - r->looked_us > OWN_AGE_US)
		look(r);
	for (size_t i = 0; !why && i < r->n_own; i++)
		if (r->own[i].n == n && memcmp(r->own[i].ip, ip, n) == 0)
			why = "our own";
	if (!why && r->unlisted && (n == 4 || n == 16) && can_bind(ip, n))
		why = "our own";
	if (!why || (n != 4 && n != 16) || !inet_ntop(n == 4 ? AF_INET : AF_INET6, ip, text, sizeof text) || !config_networks_has(r->allowed, text))
		return why;
	/* 64:ff9b::/96 may be allowed, where IPv4 is reached that way; what is behind it is judged like IPv4 */
	return n == 16 && memcmp(ip, nat64, 12) == 0 ? reach_refused(r, ip + 12, 4) : NULL;
}

void reach_free(struct reach *r)
{
	if (!r)
		return;
	config_networks_free(r->allowed);
	free(r);
}

const char *reach_refused_socket(struct reach *r, const struct sockaddr *to)
{
	if (to->sa_family == AF_INET)
		return reach_refused(r, (const unsigned char *)&((const struct sockaddr_in *)(const void *)to)->sin_addr, 4);
	if (to->sa_family == AF_INET6)
		return reach_refused(r, (const unsigned char *)&((const struct sockaddr_in6 *)(const void *)to)->sin6_addr, 16);
	return "not of the Internet";
}

void reach_resolved(struct buf *out, const char *host, unsigned port, const struct reach_address *to, size_t n)
{
	buf_addf(out, "+%s:%u:", host, port);
	for (size_t i = 0; i < n; i++) {
		char text[INET6_ADDRSTRLEN];
		if (inet_ntop(to[i].n == 4 ? AF_INET : AF_INET6, to[i].ip, text, sizeof text))
			buf_addf(out, to[i].n == 4 ? "%s%s" : "%s[%s]", i ? "," : "", text);
	}
}
