/* Listening sockets: binding (while the process may still bind port 25) and, later, a bounded accept loop on
 * the event loop. Knows no protocol. */
#ifndef NET_LISTENER_H
#define NET_LISTENER_H

#include "net/addr.h"

#include <event2/event.h>
#include <stdbool.h>

enum { NET_BACKLOG = 4096 }; /* hundreds of clients may connect at once; the kernel caps it at somaxconn */

/* A bound TCP socket that listens: non-blocking, close-on-exec, SO_REUSEADDR, TCP_NODELAY (inherited by what is
 * accepted), IPv6 only when host is an IPv6 address. host is numeric. Returns the descriptor, or -1 with a
 * sentence in err. port 0: any free one. */
int net_listen(const char *host, uint16_t port, char *err, size_t err_size);
/* A unix socket that listens at path, with these permission bits and (gid other than -1) this group. The folder it lies in
 * must be root's or ours and nobody else's to write to (sticky folders such as /tmp are taken); a socket at path that
 * nobody listens on any more is removed, anything else there is a fault. -1 with a sentence in err. */
int net_listen_unix(const char *path, mode_t mode, gid_t gid, char *err, size_t err_size);
/* A descriptor that another process opened for us: does it listen, as a stream socket? Makes it non-blocking and
 * close-on-exec. 0, or -1 with a sentence in err. */
int net_listen_adopt(int fd, char *err, size_t err_size);
/* The address an accepting or accepted socket has on our side. */
void net_local_addr(int fd, struct net_addr *ret);
/* The port the socket is bound to, 0 on error. */
uint16_t net_listen_port(int fd);

struct net_listener;
/* A new connection: non-blocking, close-on-exec; fd is the callee's. */
typedef void (*net_accept_fn)(void *arg, int fd, const struct net_addr *peer);
/* Begins to accept on fd, which stays the caller's (close it after net_listener_free). NULL when memory is out.
 * When descriptors or memory are out, it rests for a moment instead of spinning. */
struct net_listener *net_listener_new(struct event_base *base, int fd, net_accept_fn fn, void *arg);
void net_listener_free(struct net_listener *l);

#endif
