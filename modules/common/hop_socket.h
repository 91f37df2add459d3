/* Names to addresses and a connected, non-blocking socket, within a deadline. Blocking calls are confined to here
 * (getaddrinfo cannot be bounded); it runs in workers only. */
#ifndef COMMON_HOP_SOCKET_H
#define COMMON_HOP_SOCKET_H

#include "base/buf.h"

#include <stdint.h>
#include <sys/socket.h>

enum { HOP_ADDRESSES_MAX = 8 }; /* addresses of a name that are tried */

struct hop_address {
	struct sockaddr_storage sa;
	socklen_t len;
};

/* Monotonic milliseconds. */
int64_t hop_now_ms(void);
/* Addresses of a name or a numeric address. Returns how many, or -1 with the reason appended to why. */
int hop_resolve(const char *host, int port, struct hop_address ret[HOP_ADDRESSES_MAX], struct buf *why);
/* The address of a Unix socket. Returns 0, or -1: the path is too long. */
int hop_unix_address(const char *path, struct hop_address *ret);
/* A connected descriptor (CLOEXEC, non-blocking), or -1 with the reason appended to why. until: monotonic ms. */
int hop_connect(const struct hop_address *a, int64_t until, struct buf *why);
/* Begins to connect, from `from` (NULL: any address of ours): a descriptor (CLOEXEC, non-blocking) that can be written when it is over
 * (*ret_now: it is), or -1 with the reason appended to why. hop_connect_end() then tells how it went: 0, or -1 with the reason. */
int hop_connect_begin(const struct hop_address *a, const struct hop_address *from, bool *ret_now, struct buf *why);
int hop_connect_end(int fd, const struct hop_address *a, struct buf *why);
/* Out of 4 or 16 octets of an IP address. */
void hop_address_set(struct hop_address *ret, const unsigned char *ip, size_t n, unsigned port);
/* An address on this host's loopback interface; false for Unix sockets. */
bool hop_is_loopback(const struct hop_address *a);
/* "192.0.2.1:25", "[2001:db8::1]:25", "/run/lmtp", appended. */
void hop_address_text(struct buf *out, const struct hop_address *a);
/* Is host an address in figures (IPv4 or IPv6) rather than a name? */
bool hop_is_numeric(const char *host);

#endif
