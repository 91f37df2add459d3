/* A desk: a unix socket (SOCK_SEQPACKET) at which processes of pepsid ask a child of pepsid something: a datagram asks, a datagram answers, one
 * question at a time on a connection. Only listed accounts may ask; connections and idle time are bounded; who asks again before the answer, or
 * too much at once, is dropped. For core/recursor and core/fetch.
 *
 *     fd = desk_bind(state_dir, "run/dns.sock", &why);   // before root is given up: clients look at who listens (SO_PEERCRED)
 *     …                                                   // become the account
 *     d = desk_new(base, fd, &conf);
 *     conf.ask(arg, asker, datagram, n)                   // from the loop; then, at once or later, once:
 *             desk_answer(asker, datagram, n);            // or desk_drop(asker)
 *     conf.gone(arg, asker)                               // it went before its answer: whoever keeps the asker forgets it */
#ifndef NET_DESK_H
#define NET_DESK_H

#include "base/str.h"

#include <event2/event.h>
#include <sys/types.h>

enum { DESK_ACCOUNTS_MAX = 300, DESK_DATAGRAM_MAX = 64 * 1024 };

struct desk;
struct desk_asker;

struct desk_conf {
	const uid_t *accounts;    /* that may ask, besides root and our own; must outlive the desk */
	size_t n_accounts;
	unsigned connections;     /* at once; more wait in the socket's queue */
	unsigned idle_s;          /* a connection that asks nothing, or whose question is not answered */
	size_t question_max;      /* octets, at most DESK_DATAGRAM_MAX */
	void (*ask)(void *arg, struct desk_asker *a, const unsigned char *p, size_t n);
	void (*gone)(void *arg, struct desk_asker *a);
	void *arg;
};

/* The listening descriptor, or -1 with *ret_why for people. What stood there is removed: there is one pepsid a state folder. */
int desk_bind(const char *state_dir, const char *name, const char **ret_why);
/* NULL: no memory. Takes fd. */
struct desk *desk_new(struct event_base *base, int fd, const struct desk_conf *conf);
/* Opens a desk on that loop and serves it until SIGTERM; counts() is called now and then, and at the end: for a line in the log. *ret: the desk, from
 * the beginning on. 0, or -1: no memory. */
int desk_serve(struct event_base *base, int fd, const struct desk_conf *conf, struct desk **ret, void (*counts)(void));
/* Connections that were refused, and questions that broke the rules. */
uint64_t desk_refused(const struct desk *d);

/* The asker may be gone when this returns. */
void desk_answer(struct desk_asker *a, const void *p, size_t n);
void desk_drop(struct desk_asker *a);
/* Whatever the owner wants to find again at an asker. */
void desk_set(struct desk_asker *a, void *what);
void *desk_get(const struct desk_asker *a);

#endif
