/* What sts_policies.c (questions, the course of a fetch) and sts_held.c (what is kept and told) share. */
#ifndef COMMON_STS_POLICIES_INTERNAL_H
#define COMMON_STS_POLICIES_INTERNAL_H

#include "known.h"
#include "memory.h"
#include "sts_fetch.h"
#include "sts_policies.h"

struct sts_policies;

struct sts_ask {
	TAILQ_ENTRY(sts_ask) link;     /* of known.waiting, where known is set */
	TAILQ_ENTRY(sts_ask) all;
	struct sts_policies *p;
	struct sts_known *known;       /* whose fetch it waits for; NULL: not yet */
	struct pepsi_msg *msg;
	struct pepsi_query *query;     /* for the TXT record; NULL: over */
	struct pepsi_event *timer;     /* its deadline; or, of what is no domain, the answer at once */
	bool unknown;                  /* the record could not be looked up */
	bool loads;                    /* it waits for the table, in known.waiting */
	bool loaded;                   /* which it was told of this time */
	struct sts_lookup found;       /* what the record said */
	bool refresh;                  /* nobody waits: the policy is to be renewed before it ends */
	char domain[DNS_NAME_MAX + 1];
	sts_policies_fn fn;
	void *arg;
};

/* What a worker knows of a domain. */
struct sts_known {
	struct memory_item item;
	struct sts_policies *p;
	struct sts_cached cached;
	struct sts_held *held;         /* what is told; NULL: to be made */
	char *body;                    /* of the policy; NULL: none */
	size_t body_n;
	enum tlsrpt_result failure;    /* of cached.failures */
	char why[STS_WHY_MAX];
	int64_t loaded;                /* from the table; 0: never */
	bool loading;                  /* from the table */
	unsigned writes;               /* to the table, under way; and whoever works with it */
	bool stored;                   /* what is known stands in the table, too: when it is gone there, somebody had it forgotten */
	struct sts_fetch *fetch;       /* under way */
	bool queued;                   /* wants to fetch, when there is room */
	char id[STS_ID_MAX + 1];       /* of the record the fetch is for */
	TAILQ_ENTRY(sts_known) queue;
	TAILQ_HEAD(, sts_ask) waiting;
};

struct sts_policies {
	const struct pepsi_host *host;
	const struct pepsi_conf *conf;
	struct known *known;
	struct memory memory;
	TAILQ_HEAD(, sts_known) queue;
	TAILQ_HEAD(, sts_ask) asks;
	unsigned n_fetches;
	struct pepsi_event *tick;      /* for what is due */
	char *socket;
};

/* sts_held.c */
/* What is to be told: kept at k until something changes. Never NULL. */
const struct sts_held *sts_known_held(struct sts_known *k, bool unknown, int64_t now);
/* Something changed. */
void sts_known_changed(struct sts_known *k);
/* From the table; sts_policies_loaded() follows. 0, or -1: it cannot be read now. */
int sts_known_load(struct sts_known *k, bool used);
/* sts_policies.c: it was, or could not be. */
void sts_policies_loaded(struct sts_known *k, bool good);
/* A policy came, or did not: kept at k and in the table. */
void sts_known_fetched(struct sts_known *k, const struct sts_policy *policy, struct str body, int64_t now);
void sts_known_failed(struct sts_known *k, enum tlsrpt_result result, struct str why, int64_t now);
void sts_known_forget(struct sts_known *k);
/* Of what is no domain; and of a domain that nothing can be said about, for want of memory or time. */
const struct sts_held *sts_held_none(void);
const struct sts_held *sts_held_unknown(void);

#endif
