/* What the operator said about sealing: whose mail, by which domain, over which fields. Read once by each worker; judged before by terms_check(). */
#ifndef ARC_TERMS_H
#define ARC_TERMS_H

#include "pattern.h"
#include "proto/dkim/arc_seal.h"

#include <pepsi/stage.h>

enum { TERMS_PATTERNS_MAX = 1000, TERMS_DOMAIN_MAX = 253, TERMS_OPTIONS = 7 };

struct terms {
	char domain[TERMS_DOMAIN_MAX + 1]; /* A-labels, lower case */
	bool above;                        /* where it has no keys, the nearest domain above it seals */
	bool ed25519;                      /* rather than RSA */
	struct pattern *seal_for, *not_for;
	size_t n_for, n_not;
	bool for_all;
	char *text[2];                     /* what the names below point into */
	const char *name[ARC_SEAL_NAMES_MAX + 1], *oversign[ARC_SEAL_NAMES_MAX + 1]; /* NULL-terminated; [0] NULL: the usual ones */
};

extern const struct pepsi_option terms_options[TERMS_OPTIONS];

/* Reports every fault. */
void terms_check(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report);
/* 0, or -1: memory, or no DOMAIN to seal with. Free with terms_free() whatever it says. */
int terms_read(const struct pepsi_host *host, const struct pepsi_conf *conf, struct terms *ret);
void terms_free(struct terms *t);

/* Is mail to this address sealed? */
bool terms_wanted(const struct terms *t, struct str address);

#endif
