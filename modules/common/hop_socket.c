/* Resolving and connecting for the relay stages. */
#include "hop_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

int64_t hop_now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

bool hop_is_loopback(const struct hop_address *a)
{
	if (a->sa.ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)&a->sa)->sin_addr.s_addr) >> 24 == 127;
	const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)&a->sa)->sin6_addr;
	return a->sa.ss_family == AF_INET6 && (IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127));
}

bool hop_is_numeric(const char *host)
{
	struct in6_addr six;
	struct in_addr four;
	return inet_pton(AF_INET, host, &four) == 1 || inet_pton(AF_INET6, host, &six) == 1;
}

int hop_resolve(const char *host, int port, struct hop_address ret[HOP_ADDRESSES_MAX], struct buf *why)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV }, *list = NULL;
	char service[8];
	int n = 0;
	snprintf(service, sizeof service, "%d", port);
	if (hop_is_numeric(host))
		hints.ai_flags |= AI_NUMERICHOST;
	int r = getaddrinfo(host, service, &hints, &list);
	if (r) {
		buf_addf(why, "host %s not found: %s", host, r == EAI_SYSTEM ? strerror(errno) : gai_strerror(r));
		return -1;
	}
	for (struct addrinfo *a = list; a && n < HOP_ADDRESSES_MAX; a = a->ai_next)
		if (a->ai_addrlen <= sizeof ret[n].sa) {
			memcpy(&ret[n].sa, a->ai_addr, a->ai_addrlen);
			ret[n++].len = a->ai_addrlen;
		}
	freeaddrinfo(list);
	if (!n)
		buf_addf(why, "host %s has no address", host);
	return n ? n : -1;
}

int hop_unix_address(const char *path, struct hop_address *ret)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	size_t n = strlen(path);
	if (!n || n >= sizeof un.sun_path)
		return -1;
	memcpy(un.sun_path, path, n);
	memcpy(&ret->sa, &un, sizeof un);
	ret->len = sizeof un;
	return 0;
}

void hop_address_set(struct hop_address *ret, const unsigned char *ip, size_t n, unsigned port)
{
	*ret = (struct hop_address){ 0 };
	if (n == 4) {
		struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
		memcpy(&in.sin_addr, ip, 4);
		memcpy(&ret->sa, &in, sizeof in);
		ret->len = sizeof in;
	} else {
		struct sockaddr_in6 in = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
		memcpy(&in.sin6_addr, ip, 16);
		memcpy(&ret->sa, &in, sizeof in);
		ret->len = sizeof in;
	}
}

void hop_address_text(struct buf *out, const struct hop_address *a)
{
	char text[INET6_ADDRSTRLEN];
	if (a->sa.ss_family == AF_UNIX) {
		struct sockaddr_un un;
		memcpy(&un, &a->sa, sizeof un);
		buf_addf(out, "%s", un.sun_path);
	} else if (a->sa.ss_family == AF_INET) {
		struct sockaddr_in in;
		memcpy(&in, &a->sa, sizeof in);
		buf_addf(out, "%s:%d", inet_ntop(AF_INET, &in.sin_addr, text, sizeof text), ntohs(in.sin_port));
	} else {
		struct sockaddr_in6 in;
		memcpy(&in, &a->sa, sizeof in);
		buf_addf(out, "[%s]:%d", inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof text), ntohs(in.sin6_port));
	}
}

static int failed(struct buf *why, const struct hop_address *a, int err)
{
	buf_addz(why, "connect to ");
	hop_address_text(why, a);
	buf_addf(why, ": %s", strerror(err));
	errno = err;
	return -1;
}

int hop_connect_begin(const struct hop_address *a, const struct hop_address *from, bool *ret_now, struct buf *why)
{
	int one = 1;
	int fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		int err = errno;
		buf_addf(why, "socket: %s", strerror(err));
		errno = err;
		return -1;
	}
	if (a->sa.ss_family != AF_UNIX) /* a reply in one segment must not wait for the peer's delayed acknowledgement */
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	const struct sockaddr *sa = (const void *)&a->sa;
	if (from) {
#ifdef IP_BIND_ADDRESS_NO_PORT /* the port is chosen when the other end is known: as many connections as without an address */
		setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
#endif
		if (bind(fd, (const void *)&from->sa, from->len)) {
			int err = errno;
			close(fd);
			buf_addz(why, "bind to ");
			hop_address_text(why, from);
			buf_addf(why, ": %s", strerror(err));
			errno = err;
			return -1;
		}
	}
	*ret_now = connect(fd, sa, a->len) == 0;
	/* EAGAIN: the backlog of a Unix socket is full; there is nothing to wait for */
	if (!*ret_now && errno != EINPROGRESS && errno != EINTR) {
		int err = errno;
		close(fd);
		return failed(why, a, err);
	}
	return fd;
}

int hop_connect_end(int fd, const struct hop_address *a, struct buf *why)
{
	int err = 0;
	socklen_t len = sizeof err;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len))
		err = errno;
	return err ? failed(why, a, err) : 0;
}

int hop_connect(const struct hop_address *a, int64_t until, struct buf *why)
{
	bool now;
	int fd = hop_connect_begin(a, NULL, &now, why), r = 1;
	if (fd < 0 || now)
		return fd;
	for (;;) {
		int64_t left = until - hop_now_ms();
		struct pollfd p = { .fd = fd, .events = POLLOUT };
		r = left > 0 ? poll(&p, 1, left > INT32_MAX ? INT32_MAX : (int)left) : 0;
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			failed(why, a, r ? errno : ETIMEDOUT);
		if (r > 0 && hop_connect_end(fd, a, why) == 0)
			return fd;
		close(fd);
		return -1;
	}
}
