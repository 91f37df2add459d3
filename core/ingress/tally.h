/* Counts for DMARC aggregate reports: every message that was judged by a policy whose domain asks for reports adds one to a line, and lines go to the
 * database in batches every few seconds. Nothing blocks, and memory is bounded: what finds no line of its own is counted as overflow
 * of its domain, and what finds not even that, as lost. A daemon that crashes loses the counts of its last FLUSH_S seconds (one, and what is
 * on its way); one that stops in order, none, unless the database is away. A batch whose answer was lost is sent again and counts once.
 *
 * Who judges, told:
 *
 *     struct tally_message m = { .domain = policy domain, .asks = record->n_rua > 0, … };
 *     tally_write(t, &m, &slip);                             // where it is judged
 *     tally_count(t, buf_str(&slip), clock_wall_us());       // where its sender is told 250 or 5xx: with 4xx it comes again, and counts then
 *
 * Without I/O of its own: the database is struct tally_backend, the clock is the caller's. */
#ifndef INGRESS_TALLY_H
#define INGRESS_TALLY_H

#include "base/buf.h"
#include "proto/auth/dmarc.h"
#include "store/dmarc.h"

enum {
	TALLY_LINES_MAX = 2000,     /* between two flushes, in all */
	TALLY_LINES_DOMAIN = 500,   /* … of one domain: nobody crowds out the others */
	TALLY_DOMAINS_MAX = 500,
	TALLY_DOMAINS_ORG = 50,     /* … of one organisation: a wildcard makes names without end */
	TALLY_DATA_MAX = 8192,      /* octets of one line */
	TALLY_DKIM_MAX = 10,
	TALLY_FLUSH_S = 1,          /* one commit; the rows are the same however often they are sent */
	TALLY_SLIP_MAX = TALLY_DATA_MAX + 2 * 254 + 202,
};

struct tally;

struct tally_settings {
	bool on;                    /* REPORTS */
	int64_t interval_s;         /* INTERVAL: the length of a report's period */
	int32_t max_rows, max_periods; /* MAX_ROWS, MAX_DOMAINS */
	char address[321];          /* REPORT_ADDRESS: what comes there is not counted, or two report senders would never have done; "" */
};

struct tally_dkim {
	struct str domain, selector;
	const char *result;         /* RFC 8601 */
	bool aligned;
};

struct tally_message {
	/* the policy */
	struct str domain;          /* where the record was found */
	struct str org;             /* its organisation; empty: domain */
	bool asks;                  /* it has rua */
	enum dmarc_policy p, sp, np;
	bool adkim_strict, aspf_strict, testing, psl;
	unsigned fo;                /* DMARC_FO_* */
	/* what came of it */
	enum dmarc_result result;
	enum dmarc_policy wanted;   /* p, sp or np, as it would have been applied */
	enum dmarc_policy done;     /* what was done; DMARC_NONE: nothing */
	const char *reason;         /* of RFC 9990, why that is less than wanted; NULL: local_policy, where it is */
	const char *comment;        /* NULL */
	bool dkim_aligned, spf_aligned;
	/* the message */
	unsigned char ip[16];
	size_t ip_n;                /* 4 or 16; 0: not counted: it came by no network */
	struct str header_from, envelope_from; /* domains; envelope_from empty: the null sender */
	const struct str *rcpts;    /* addresses */
	size_t n_rcpts;
	/* results */
	const struct tally_dkim *dkim;
	size_t n_dkim;
	struct str spf_domain;
	const char *spf_result;     /* NULL: not checked */
};

struct tally_backend {
	void *ctx;
	bool (*up)(void *ctx);
	void (*put)(void *ctx, const struct store_dmarc_tally *t, const struct store_dmarc_line *lines, size_t n, store_dmarc_lost_fn fn, void *arg);
};

/* source: a name that no other life of a reactor has; copied. NULL: no memory. */
struct tally *tally_new(const struct tally_backend *be, const char *source);
void tally_free(struct tally *t); /* accepts NULL; a late answer finds nobody */
void tally_configure(struct tally *t, const struct tally_settings *s);
/* What is to be counted, into an empty buffer of TALLY_SLIP_MAX; it stays empty where there is nothing. */
void tally_write(const struct tally *t, const struct tally_message *m, struct buf *slip);
void tally_count(struct tally *t, struct str slip, int64_t now_us);
/* Sends what there is, every TALLY_FLUSH_S seconds, or now. mono_us: the monotonic clock. */
void tally_flush(struct tally *t, int64_t mono_us, bool now);
/* Waits for nothing any more: all was answered, or there is nothing. */
bool tally_idle(const struct tally *t);
/* At the end: sends what there is. True: an answer is still to come, look again soon; false: all is there, or the database is away. */
bool tally_drain(struct tally *t, int64_t mono_us);
void tally_metrics(const struct tally *t, struct buf *out);
void tally_status(const struct tally *t, struct buf *out);

#endif
