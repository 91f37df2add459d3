/* Messages that failed DMARC, kept for failure reports (RFC 9991) to owners of domains who ask for them (ruf): off unless FAILURE_REPORTS = YES. What is
 * kept is redacted before anything else is done with it (proto/report/arf_write.h), goes to the database within a second, and is sent by pepsi-dmarc.
 * Bounded: MAX_FAILURES_DOMAIN of an organisation and MAX_FAILURES of all within a day, and what waits here. Never about a report or another machine's
 * message (null sender, Auto-Submitted, multipart/report), nor about what came to REPORT_ADDRESS: nothing answers an answer.
 *
 *     if (failures_wanted(f, org, clock_mono_us()))
 *             failures_write(f, &m, clock_wall_us(), &slip);   // where it is judged
 *     failures_keep(f, buf_str(&slip), clock_mono_us());       // where its sender is told 250 or 5xx
 *
 * Without I/O of its own: the database is struct failures_backend, the clocks are the caller's. */
#ifndef INGRESS_FAILURES_H
#define INGRESS_FAILURES_H

#include "base/buf.h"
#include "proto/report/arf_write.h"
#include "store/dmarc.h"

enum {
	FAILURES_WAITING = 200,        /* here, until the database has them */
	FAILURES_ORGS = 256,           /* whose counts of a day are known here; the database has the last word */
	FAILURES_SLIP_MAX = ARF_TOLD_MAX + 16 * 1024,
	FAILURES_FLUSH_S = 1,
};

struct failures;

struct failures_settings {
	bool on;                       /* FAILURE_REPORTS */
	enum arf_local local;          /* FAILURE_ADDRESSES */
	int32_t most_org, most;        /* MAX_FAILURES_DOMAIN, MAX_FAILURES */
	char address[321];             /* REPORT_ADDRESS */
};

struct failure_message {
	struct str domain, org;        /* where the policy record is; its organisation */
	struct str ip, mail_from;      /* mail_from: without <>, empty: the null sender */
	const struct str *rcpts;
	size_t n_rcpts;
	const char *failure, *result, *alignment; /* as of struct arf_mail */
	struct str auth_results;       /* the value, not yet redacted */
	struct str dkim_domain, dkim_selector, spf_domain;
	struct str headers;            /* the block as it came */
};

struct failures_backend {
	void *ctx;
	bool (*up)(void *ctx);
	void (*put)(void *ctx, const struct store_dmarc_failures *t, const struct store_dmarc_failure *one, size_t n, store_dmarc_lost_fn fn, void *arg);
};

/* source: a name that no other life of a reactor has; copied. Addresses are hashed with a key of this life. NULL: no memory, no random octets. */
struct failures *failures_new(const struct failures_backend *be, const char *source);
void failures_free(struct failures *f); /* accepts NULL; a late answer finds nobody */
void failures_configure(struct failures *f, const struct failures_settings *s);
/* May this organisation have another one today? */
bool failures_wanted(const struct failures *f, struct str org, int64_t mono_us);
/* Into an empty buffer of FAILURES_SLIP_MAX; it stays empty where there is to be no report. */
void failures_write(const struct failures *f, const struct failure_message *m, int64_t now_us, struct buf *slip);
void failures_keep(struct failures *f, struct str slip, int64_t mono_us);
/* As of tally.h. */
void failures_flush(struct failures *f, int64_t mono_us, bool now);
bool failures_drain(struct failures *f, int64_t mono_us);
void failures_metrics(const struct failures *f, struct buf *out);
void failures_status(const struct failures *f, struct buf *out);

#endif
