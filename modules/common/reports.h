/* What the stages of report addresses share (pepsi-stage-dmarc-report, pepsi-stage-tlsrpt-report): their options, whose reports are kept, what becomes of
 * the message, and how stored functions are asked. */
#ifndef COMMON_REPORTS_H
#define COMMON_REPORTS_H

#include "base/buf.h"

#include <libpq-fe.h>
#include <pepsi/stage.h>

/* The stage's worker, or what it begins with. */
struct reports {
	const struct pepsi_conf *conf;
	char *domains;         /* DOMAINS, else LOCAL_DOMAINS of [pepsi] */
	int64_t keep_s, most, mute_days;
	const struct pepsi_host *host;
	struct pepsi_metric *seen;
};
#define REPORTS_OPTIONS                                                                                                                       \
	{ "DOMAINS", PEPSI_OPT_LIST, 0, NULL, 0, 0, NULL, "domains whose reports are kept, with all below them; *: any; default: LOCAL_DOMAINS of [pepsi]" }, \
	{ "KEEP", PEPSI_OPT_DURATION, 0, "180 d", 86400, INT64_C(3660) * 86400, NULL, "how long reports are kept" },                           \
	{ "MAX_REPORTS", PEPSI_OPT_INT, 0, "5000", 1, 1000000, NULL, "reports kept of one day: anybody may send some" },                       \
	{ "MUTE", PEPSI_OPT_DURATION, 0, "30 d", 0, INT64_C(366) * 86400, NULL, "how long no reports go to an address that one came back from" }

/* 0, or -1: no memory. */
int reports_open(struct reports *r, const struct pepsi_host *host, const struct pepsi_conf *conf);
void reports_close(struct reports *r);
/* One message: a word for what became of it. */
void reports_count(const struct reports *r, const char *what);
/* The stage's validate(). */
int32_t reports_check(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report);
/* Is it one of DOMAINS? */
bool reports_ours(const struct reports *r, struct str domain);
/* Not for us: on to NEXT_STAGE, or the end. */
int32_t reports_leave(const struct pepsi_host *host, struct pepsi_msg *msg);
/* Did the message pass DMARC? */
bool reports_verified(const struct pepsi_host *host, struct pepsi_msg *msg);

enum keep { KEEP_OK, KEEP_AWAY, KEEP_REFUSED }; /* away: try again later; refused: the database will never take it */
/* A statement that gives one row with one text, into out; why: one line, unless OK. db NULL: away. */
enum keep reports_ask(PGconn *db, const char *sql, int n, const char *const *values, char *out, size_t size, struct buf *why);
/* A report was to be kept: it is counted (word: "stored" and its like, of KEEP_OK), and the message ends, goes on or is tried later. what: "dmarc report", for
 * the log, which says why where it was not kept. As process() returns it. */
int32_t reports_kept(const struct reports *r, const struct pepsi_host *host, struct pepsi_msg *msg, enum keep k, const char *word, const char *what,
    struct buf *why);

struct report_mail_read;
/* The message is a notice that something could not be delivered (proto/report/mail.h): if it was a report of ours its address is muted by sql, and the
 * message ends here; else it is left. sql is asked with id, nth and days, and tells the address that is muted now, or "": there is no such report. */
int32_t reports_notice(const struct reports *r, const struct pepsi_host *host, struct pepsi_msg *msg, const struct report_mail_read *m, const char *sql,
    const char *what);

#endif
