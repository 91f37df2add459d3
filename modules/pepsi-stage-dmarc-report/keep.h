/* What pepsi-stage-dmarc-report keeps of a report and of a failure report: constant statements that call stored functions. */
#ifndef DMARC_REPORT_KEEP_H
#define DMARC_REPORT_KEEP_H

#include "base/buf.h"
#include "proto/report/arf.h"
#include "proto/report/dmarc.h"
#include "reports.h"

struct keep_terms {
	const char *mail_domain;
	bool verified;
	int64_t keep_s, most;
};
/* word: "stored", "duplicate", "full". why: one line, unless OK. */
enum keep keep_report(PGconn *db, const struct report *r, const struct keep_terms *t, char *word, size_t word_size, struct buf *why);
/* A report about one message (RFC 9991, RFC 6591) in the name of domain, folded. Nothing of that message is kept but identifiers: of addresses the domain
 * alone. word and why as above; most: of failure reports. */
enum keep keep_failure(PGconn *db, const struct arf *r, struct str domain, const struct keep_terms *t, char *word, size_t word_size, struct buf *why);

#endif
