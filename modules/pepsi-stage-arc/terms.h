/* What the operator said about sealing: whose mail, by which domain, over which fields. Read once by each worker; judged before by terms_check(). */
#ifndef ARC_TERMS_H
#define ARC_TERMS_H

#include "pattern.h"
#include "proto/dkim/arc_seal.h"
#include "proto/dkim/ring.h"

#include <pepsi/stage.h>

enum { TERMS_PATTERNS_MAX = 1000, TERMS_SEALERS_MAX = 1000, TERMS_DOMAIN_MAX = 253, TERMS_OPTIONS = 11 };

struct terms_list {
	struct pattern *p;
	size_t n;
	bool all; /* one of them is "*" */
};

/* By whom a message is sealed. */
struct terms_sealer {
	char domain[TERMS_DOMAIN_MAX + 1];    /* A-labels, lower case */
	char selector[DKIM_SELECTOR_MAX + 1]; /* "": any active key */
	bool above;                           /* where it has no keys, the nearest domain above it seals */
	bool self;                            /* it is the domain that the message was sent to; where it has no keys, terms.usual seals */
};

struct terms_rule {
	struct terms_list sent_to;
	struct terms_sealer by;
};

struct terms {
	struct terms_sealer usual;            /* DOMAIN and SELECTOR */
	struct terms_rule *rule;              /* SEALER_n */
	size_t n_rules;
	bool ed25519;                         /* rather than RSA */
	struct terms_list seal_for, not_for, sent_to, not_sent_to;
	char *text[2];                        /* what the names below point into */
	const char *name[ARC_SEAL_NAMES_MAX + 1], *oversign[ARC_SEAL_NAMES_MAX + 1]; /* NULL-terminated; [0] NULL: the usual ones */
};

extern const struct pepsi_option terms_options[TERMS_OPTIONS];

/* Reports every fault. */
void terms_check(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report);
/* 0, or -1: memory, or no DOMAIN to seal with. Free with terms_free() whatever it says. */
int terms_read(const struct pepsi_host *host, const struct pepsi_conf *conf, struct terms *ret);
void terms_free(struct terms *t);

/* Is mail to this address sealed, that was sent to that address of ours (the same where no alias led on)? */
bool terms_wanted(const struct terms *t, struct str address, struct str sent_to);
/* And by whom. */
void terms_by(const struct terms *t, struct str sent_to, struct terms_sealer *ret);

#endif
