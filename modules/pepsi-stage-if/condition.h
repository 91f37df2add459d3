/* Conditions of the if stage: words, not a language.
 *
 *     [not] null-sender
 *     [not] sender PATTERN …             the envelope sender matches one of the patterns (support/pattern.h)
 *     [not] sender-domain DOMAIN …       the same for people who think in domains
 *     [not] recipient PATTERN …          at least one recipient matches
 *     [not] recipient-domain DOMAIN …
 *     [not] every-recipient PATTERN …    all of them do
 *     [not] state PATH [VALUE …]         the state has a value at the dotted path; and it is one of these texts */
#ifndef STAGE_IF_CONDITION_H
#define STAGE_IF_CONDITION_H

#include "base/buf.h"
#include "pattern.h"

#include <pepsi/stage.h>

enum condition_kind { COND_NULL_SENDER, COND_SENDER, COND_RECIPIENT, COND_EVERY_RECIPIENT, COND_STATE };

struct condition {
	enum condition_kind kind;
	bool negated;
	struct pattern *patterns;
	size_t n_patterns;
	char *path;    /* state */
	char **values; /* state */
	size_t n_values;
};

/* 0, or -1 with the reason in why. */
int condition_parse(const char *text, struct condition *ret, struct buf *why);
void condition_done(struct condition *c);
bool condition_holds(const struct condition *c, const struct pepsi_host *h, struct pepsi_msg *m);

#endif
