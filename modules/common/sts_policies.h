/* The policies of MTA-STS for a stage that delivers to strangers: whatever a worker needs to know of a domain's policy, from one call. It asks
 * for the TXT record, looks into its memory and pepsi.sts_policy, has a policy fetched by the fetching child (core/fetch; sts_fetch.h), keeps
 * what came, and refreshes what grows old while mail goes on with what there is (proto/relay/sts.h has the rules). For modules with
 * PEPSI_CAP_CONCURRENT, PEPSI_CAP_NET and PEPSI_CAP_DB: it lives on the host's loop and never blocks (known.h). A database that says nothing costs those who ask
 * some seconds; then memory counts, and what is in neither is unknown, unless the domain has a record: then its policy is fetched.
 *
 * One delivery, told.
 *
 *     open():     w->sts = sts_policies_new(host, conf, w->known, &why);              // NULL: no memory, or STATE_DIR cannot be
 *     process():  s->ask = sts_policies_ask(w->sts, msg, domain, on_policy, s);  // beside the question for MX; NULL: no memory
 *     on_policy(s, held):                                                   // once, from the loop, never from within sts_policies_ask()
 *             s->ask = NULL;
 *             s->sts = sts_held_ref(held);                                  // to keep it; else it lives until the callback returns
 *     per host:   rules.sts = held->mode; rules.sts_covers = sts_policy_covers(&held->policy, name_of_the_mx_record);
 *                 rules.sts_failed = held->failed; rules.sts_failure = held->failure;   // proto/relay/tls.h
 *     reports:    held->body are the lines of "policy-string", held->id tells one policy from the next
 *     at the end: sts_held_unref(s->sts); and sts_ask_cancel(s->ask) when the message goes before the answer
 *     close():    sts_policies_free(w->sts);
 *
 * There is always an answer: within WAIT_MS at most, if need be that the policy could not be had, which holds nobody's mail up. */
#ifndef COMMON_STS_POLICIES_H
#define COMMON_STS_POLICIES_H

#include "base/buf.h"
#include "proto/relay/sts.h"
#include "proto/report/tlsrpt.h"

#include <pepsi/stage.h>

enum {
	STS_POLICIES_WAIT_MS = 35 * 1000, /* longest time for an answer: TXT, and a fetch with its time in the child's queue */
	STS_POLICIES_KEPT = 512,          /* domains in memory, the longest unused go */
	STS_POLICIES_FRESH_S = 300,       /* so long memory is believed without a look at the table, in which other workers write */
	STS_POLICIES_FETCHES = 32,        /* of one worker at once; more wait */
	STS_WHY_MAX = 160,
};

struct sts_policies;
struct sts_ask;

/* What is known of a domain. Read only; lives until the callback returns, or as long as a reference is held. */
struct sts_held {
	const char *domain;          /* folded */
	enum sts_mode mode;          /* of the policy that holds; STS_NONE: none holds, or it says so */
	bool known;                  /* a policy holds (perhaps with mode none): policy, body, id, expires are its */
	struct sts_policy policy;    /* mx point into body */
	struct str body;             /* as it was fetched */
	char id[STS_ID_MAX + 1];
	int64_t expires;             /* seconds since 1970 */
	bool failed;                 /* the domain has a record, and its (new) policy could not be had; an older one may hold all the same */
	enum tlsrpt_result failure;  /* then: TLSRPT_STS_POLICY_FETCH_ERROR, TLSRPT_STS_POLICY_INVALID or TLSRPT_STS_WEBPKI_INVALID */
	char why[STS_WHY_MAX];       /* then: for people */
	bool unknown;                /* its record could not be looked up, or its policy not be fetched for reasons of our own, or not be looked for in the table; what was known
	                              * before holds all the same. Mail may go; who would rather wait tries again later */
};
struct sts_held *sts_held_ref(const struct sts_held *h);
void sts_held_unref(const struct sts_held *h); /* accepts NULL */

struct known;
struct sts_policies *sts_policies_new(const struct pepsi_host *host, const struct pepsi_conf *conf, struct known *known, struct buf *why);
/* All asks must be over or cancelled. Accepts NULL. */
void sts_policies_free(struct sts_policies *p);

typedef void (*sts_policies_fn)(void *arg, const struct sts_held *held);
/* domain: that of the recipients (RFC 8461 §3.2), U-labels are fine; what is no domain (an address literal) has no policy. msg: who it is for
 * (in_hand(), its budget of questions); the ask must be cancelled before msg is complete. NULL: out of memory, no callback. */
struct sts_ask *sts_policies_ask(struct sts_policies *p, struct pepsi_msg *msg, struct str domain, sts_policies_fn fn, void *arg);
/* No callback then. Not after the callback began. Accepts NULL. A fetch that is under way goes on for those who come later. */
void sts_ask_cancel(struct sts_ask *a);

#endif
