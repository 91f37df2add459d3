/* What the files of core/fetch share: the transfer, by libcurl, loaded at run time; and which addresses it may go to. */
#ifndef FETCH_INTERNAL_H
#define FETCH_INTERNAL_H

#include "config/config.h"
#include "fetch.h"
#include "proto/relay/sts_wire.h"
#include "reach.h"

struct event_base;

/* -- transfer.c */
struct transfer;
struct transfer_conf {
	unsigned port;             /* 443 */
	unsigned timeout_s;        /* for all of it */
	char *ca_file;             /* NULL: the system's */
};
/* The libraries and the loop. 0, or -1 (logged). */
int transfer_start(struct event_base *base, struct reach *reach, const struct transfer_conf *conf);
/* Once per transfer, from the loop: text lives until it returns. The transfer is over and gone. */
typedef void (*transfer_fn)(void *arg, enum sts_wire_class c, struct str text);
/* GETs https://mta-sts.DOMAIN/.well-known/mta-sts.txt from one of the addresses. NULL: no memory, and no callback. */
struct transfer *transfer_new(const char *domain, const struct reach_address *to, size_t n, transfer_fn fn, void *arg);

#endif
