/* Greylisting: who comes for the first time is asked to come again, which senders of mail do and senders of spam mostly do not.
 * What is remembered lies in the database (pepsi.greylist), as hashes; questions of one turn of the event loop go out in one
 * statement. Without the database everybody passes. */
#ifndef INGRESS_GREYLIST_H
#define INGRESS_GREYLIST_H

#include "base/buf.h"
#include "net/addr.h"
#include "store/recipient.h"

struct greylist;
struct greylist_ask;

struct greylist_backend {
	void *ctx;
	bool (*up)(void *ctx);
	void (*ask)(void *ctx, const struct store_greylist_key *keys, size_t n, const struct store_greylist_terms *t, store_greylist_fn fn,
	    void *arg);
	void (*sweep)(void *ctx, store_number_fn fn, void *arg);
};

struct greylist *greylist_new(struct event_base *base, const struct greylist_backend *be); /* NULL: no memory */
void greylist_free(struct greylist *g); /* accepts NULL; late answers find nobody */
void greylist_terms(struct greylist *g, const struct store_greylist_terms *t);
/* The hash of a triplet and of its network. Senders that count on (VERP: bounces-4711@, name+x@) are one sender. */
void greylist_hash(const struct net_addr *from, struct str sender, struct str rcpt, struct store_greylist_key *ret);
/* wait_s: 0: may pass. Called once, later. NULL: the database cannot be asked, so it passes. */
typedef void (*greylist_fn)(void *arg, int32_t wait_s);
struct greylist_ask *greylist_ask(struct greylist *g, const struct net_addr *from, struct str sender, struct str rcpt, greylist_fn fn, void *arg);
void greylist_cancel(struct greylist_ask *a); /* accepts NULL */
/* Once a second: rows that have expired, every ten minutes. */
void greylist_tick(struct greylist *g, int64_t now_us);
void greylist_metrics(const struct greylist *g, struct buf *out);

#endif
