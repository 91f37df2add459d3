/* One question to the fetching child (core/fetch) on the host's loop: a policy, or why not. For sts_policies.h; a module wants that. */
#ifndef COMMON_STS_FETCH_H
#define COMMON_STS_FETCH_H

#include "proto/relay/sts_wire.h"

#include <pepsi/stage.h>

enum {
	STS_FETCH_WAIT_MS = 32 * 1000,  /* for the answer: the child's own limits are shorter */
	STS_FETCH_AWAY_MS = 5 * 1000,   /* so long a child that is not there is waited for: it is being started again */
};

struct sts_fetch;
/* Once, from the loop; the fetch is over and gone. Texts live until it returns. No child, or none in time, is STS_WIRE_BUSY. */
typedef void (*sts_fetch_fn)(void *arg, const struct sts_wire_answer *answer);
/* socket: STATE/run/sts.sock. NULL: no memory, or no domain; no callback. */
struct sts_fetch *sts_fetch_new(const struct pepsi_host *host, const struct pepsi_conf *conf, const char *socket, struct str domain, sts_fetch_fn fn, void *arg);
void sts_fetch_cancel(struct sts_fetch *f); /* no callback; accepts NULL */

#endif
