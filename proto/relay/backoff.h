/* How long to wait before the next attempt at a message. Pure: chance comes in as a number. */
#ifndef PEPSI_PROTO_RELAY_BACKOFF_H
#define PEPSI_PROTO_RELAY_BACKOFF_H

#include <stdint.h>

/* Seconds to the next attempt after `attempts` that failed before this one: doubles from min with each, up to max, a quarter more or less by
 * chance (seed: anything that differs from message to message), so that many messages that failed together do not come back together.
 * Not past the end of the lifetime, where left (seconds) is above 0: there is one attempt at its end. At least 1. */
uint32_t relay_backoff_s(int64_t min, int64_t max, uint64_t attempts, int64_t left, uint64_t seed);

#endif
