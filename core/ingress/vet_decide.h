/* What a listener does about SPF, DKIM, ARC and DMARC of mail from outside: its terms out of the configuration, and what they make of a
 * verdict (proto/auth/verify.h). Pure, so that `pepsi auth-check` says what the listener would have done. */
#ifndef INGRESS_VET_DECIDE_H
#define INGRESS_VET_DECIDE_H

#include "base/str.h"
#include "config/config.h"
#include "proto/auth/verify.h"

enum vet_mode { VET_OFF, VET_RECORD, VET_ENFORCE };

/* Of a listener. */
struct vet_terms {
	enum vet_mode spf, dkim, arc, dmarc;
	struct config_networks *exempt; /* AUTHENTICATION_EXEMPT; NULL: RELAY_NETWORKS */
	bool tempfail;                  /* what cannot be looked up now, where it is to be enforced: 451; else as if nothing was found */
	int64_t timeout_us;
	char *sealer_text;              /* what sealers point to */
	struct str *sealers;
	size_t n_sealers;
	char *quarantine;               /* the stage; NULL: none, state.auth alone tells it */
	struct dmarc_psl *psl;          /* PUBLIC_SUFFIX_LIST; NULL: the tree walk alone */
	bool received_spf;
	bool explain;                   /* SPF_EXPLANATION */
};
/* smtp: PROTOCOL is smtp: methods that are not set are recorded, else off. 0, or -1 and why (a constant clause): memory, or a list that cannot
 * be read. Opens that file. */
int vet_terms_read(struct vet_terms *t, const struct config *c, const char *section, bool smtp, const char **ret_why);
void vet_terms_done(struct vet_terms *t);

enum vet_action { VET_ACCEPTS, VET_QUARANTINES, VET_REFUSES, VET_PUTS_OFF };
struct vet_decision {
	enum vet_action action;
	enum verify_method method; /* whose result decided, unless VET_ACCEPTS */
	/* REFUSES, PUTS_OFF: the reply */
	unsigned code;
	const char *status;        /* enhanced, a constant */
	char text[SPF_EXPLANATION_MAX + 400]; /* printable ASCII; the reply cuts it to a line */
};
/* client: the address as text, for replies. */
void vet_decide(const struct vet_terms *t, const struct verify_verdict *r, const char *client, struct vet_decision *ret);
/* What that is of a DMARC policy: nothing, where another method refuses. For verify_applied(). */
enum dmarc_policy vet_applied(const struct vet_decision *d);

#endif
