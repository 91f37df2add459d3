/* What the files of core/recursor share: libunbound, loaded at run time. */
#ifndef RECURSOR_INTERNAL_H
#define RECURSOR_INTERNAL_H

#include "config/config.h"
#include "recursor.h"

struct event_base;

/* rcode: of the failure, 0: packet is a DNS message (with its own code). secure: DNSSEC says so; why_bogus: NULL unless it is. */
typedef void (*library_answer_fn)(void *arg, int rcode, const unsigned char *packet, size_t n, bool secure, const char *why_bogus);

/* Loads it and makes the context on that loop out of [pepsi-dns]. 0, or -1 (logged). */
int library_start(struct event_base *base, const struct config *c);
/* Asks. 0: answer comes once, perhaps at once; -1: not asked. There is no taking it back. */
int library_ask(const char *name, unsigned type, library_answer_fn answer, void *arg);
void library_end(void);

#endif
