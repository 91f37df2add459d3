/* What pepsi-stage-dmarc-report keeps of a report, and of a notice that one of ours came back: two constant statements that call stored functions. */
#ifndef DMARC_REPORT_KEEP_H
#define DMARC_REPORT_KEEP_H

#include "base/buf.h"
#include "proto/report/dmarc.h"

#include <libpq-fe.h>

enum keep { KEEP_OK, KEEP_AWAY, KEEP_REFUSED }; /* away: try again later; refused: the database will never take it */

struct keep_terms {
	const char *mail_domain;
	bool verified;
	int64_t keep_s, most;
};
/* word: "stored", "duplicate", "full". why: one line, unless OK. */
enum keep keep_report(PGconn *db, const struct report *r, const struct keep_terms *t, char *word, size_t word_size, struct buf *why);
/* address: who is muted now; "": nobody, there is no such report. */
enum keep keep_muted(PGconn *db, const char *id, unsigned nth, int64_t days, char *address, size_t size, struct buf *why);

#endif
