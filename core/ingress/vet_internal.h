/* Shared by vet*.c. */
#ifndef INGRESS_VET_INTERNAL_H
#define INGRESS_VET_INTERNAL_H

#include "ingress_internal.h"
#include "proto/auth/verify.h"
#include "vet.h"

/* Questions belong to the part of the message that led to them: each part has time of its own from its beginning, so that a slow client
 * takes none from the look-ups behind its last octet; queries are counted over all of them. What is asked for an ARC chain has a
 * part of its own, with little time, and so has the explanation of a refusal. */
enum vet_part { VET_ENVELOPE, VET_HEADERS, VET_END, VET_CHAIN, VET_EXPLANATION, VET_PARTS };

struct vet {
	struct session *s;
	struct verify *v;
	struct dns_answers *set;
	struct net_dns_group *group[VET_PARTS];
	enum vet_part part;
	size_t looked;              /* questions of the set that were seen to */
	unsigned open;              /* answers on their way */
	unsigned queries;
	struct event *kick;         /* answers that come together are one turn */
	bool headers;               /* have been given */
	bool waiting;               /* the message waits for the verdict */
	bool abandoned;
	bool unasked;               /* AUTHENTICATION_QUERIES_PER_MINUTE of its client are used up */
	size_t charged;             /* of the memory of all messages */
	int64_t spent_us, ended_us; /* of our time; when the message was whole */
};

struct vet_refusal {
	enum refusal why;
	struct smtp_reply reply;
	struct vet_decision decision; /* what reply points into */
};

struct vet_counts {
	struct dkim_keys *keys; /* of all messages; NULL: no memory for them */
	uint64_t messages, passed, deferred, quarantined, overridden, temporary, abandoned, unasked, forged, queries, wait_us, spent_us;
	uint64_t refused[VERIFY_METHODS];
	uint64_t spf[SPF_PERMERROR + 1], helo[SPF_PERMERROR + 1], dkim[DKIM_PERMERROR + 1], arc[DKIM_PERMERROR + 1],
	    dmarc[DMARC_RESULT_PERMERROR + 1];
};

/* vet_judge.c. What the listener makes of the verdict. True: refused, *ret says how; m->stage and *ret_quarantine are set else. */
bool vet_judge(const struct session *s, const struct verify_verdict *r, struct vet_refusal *ret, bool *ret_quarantine);
/* Fields of others that pass for ours are taken out, and ours put in front (v NULL: none). 0, or a fault. */
enum spool_fault vet_fields(struct session *s, const struct verify *v, size_t *ret_forged);
/* vet_tally.c. One count for a DMARC report, with the message until vet_settled(); refused, quarantine: what was done, whoever wanted it. */
void vet_tally(struct session *s, const struct verify_verdict *r, bool refused, bool quarantine);
/* vet_failure.c. Likewise one message for a failure report, where its domain asks for some (ruf, fo). Before fields of ours are put in front. */
void vet_failure(struct session *s, const struct verify *v, bool refused, bool quarantine);
/* vet_stats.c */
void vet_count(struct vet_counts *n, const struct vet *v);

#endif
