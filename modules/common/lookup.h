/* Runs an evaluator (proto/dns/answers.h) over host->ask(): what it misses is asked, all at once, and it is run again, until it is done. For
 * modules that are CONCURRENT; the blocking ones have host->resolve(). It decides nothing and keeps no answer: the set is the caller's.
 *
 *     s->look = lookup_begin(host, conf, msg, s->set, route_evaluate, &s->route, routed, s);      // NULL: out of memory
 *     routed(s, rc):  s->look = NULL;     // from the loop, never from within lookup_begin(); rc DNS_DONE, or below 0: memory
 *
 * The number of questions is the evaluator's to bound: they do not count against MAX_QUERIES of the message, which is made for one SPF record, not
 * for twenty mail exchangers. */
#ifndef COMMON_LOOKUP_H
#define COMMON_LOOKUP_H

#include "proto/dns/answers.h"

#include <pepsi/stage.h>

struct lookup;
typedef void (*lookup_fn)(void *arg, int rc);

/* msg: whom it is for (host->in_hand() before everything), or NULL. The set and what eval is given must live until the callback or the
 * cancellation. */
struct lookup *lookup_begin(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_msg *msg, struct dns_answers *set,
    dns_evaluate_fn eval, void *eval_arg, lookup_fn fn, void *arg);
/* Before its first run: nothing is taken from the host's cache (where the host can, ABI 1.3). */
void lookup_fresh(struct lookup *l);
/* No callback then. Not after the callback began. Accepts NULL. */
void lookup_cancel(struct lookup *l);

/* What the host answered, for a set; the blocking ones use it, too. NULL: no memory. */
struct dns_answer *lookup_answer(struct str name, enum dns_type type, const struct pepsi_dns *a);

#endif
