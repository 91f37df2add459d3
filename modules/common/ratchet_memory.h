/* The ratchet of a worker (proto/relay/ratchet.h): what protection mail to each domain had, in memory, read from pepsi.destination_security when a
 * domain is met for the first time, written back in batches. When a domain gets weaker it is said in the log with the message's id
 * (event=destination-weaker) and counted for `pepsi status` and /metrics. Never an error, never a delay of mail. For modules with PEPSI_CAP_CONCURRENT
 * and PEPSI_CAP_DB.
 *
 *     open():    w->ratchet = ratchet_memory_new(host, conf, w->known);   // known.h
 *     MAIL went: ratchet_memory_note(w->ratchet, msg, domain, ratchet_level(&rules, &seen, &verdict));
 *     close():   ratchet_memory_free(w->ratchet); */
#ifndef COMMON_RATCHET_MEMORY_H
#define COMMON_RATCHET_MEMORY_H

#include "proto/relay/ratchet.h"

#include <pepsi/stage.h>

struct ratchet_memory;
struct known;
struct ratchet_memory *ratchet_memory_new(const struct pepsi_host *host, const struct pepsi_conf *conf, struct known *known); /* NULL: no memory */
void ratchet_memory_free(struct ratchet_memory *r); /* accepts NULL; writes what is left */
/* domain: that of the recipients. msg: for the log line; may be NULL. Of a domain that is not known yet it is judged when the database has answered; of one
 * that the database says nothing about now, with the next note. */
void ratchet_memory_note(struct ratchet_memory *r, struct pepsi_msg *msg, struct str domain, enum ratchet_level level);

#endif
