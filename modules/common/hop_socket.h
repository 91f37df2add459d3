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
/* Is host an address in figures (IPv4 or IPv6) rather than a name? */
bool hop_is_numeric(const char *host);

#endif
