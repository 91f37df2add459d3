/* The event loop of a process: libevent, without locks, since every process of pepsid has one thread. */
#ifndef PEPSI_NET_LOOP_H
#define PEPSI_NET_LOOP_H

#include <event2/event.h>

/* NULL: memory is out, or descriptors are. The caller frees it with event_base_free(). */
struct event_base *net_loop_new(void);

#endif
