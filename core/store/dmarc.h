/* DMARC reports in the database: the reactor's counts go in over a connection of role pepsi-ingress; pepsi-dmarc asks and sends over one of
 * role pepsi. What is decided is decided by the functions (db/procedures.sql), whose JSON these calls carry. */
#ifndef PEPSI_STORE_DMARC_H
#define PEPSI_STORE_DMARC_H

#include "store/queue.h"

enum { STORE_DMARC_TALLY_MAX = 2500 }; /* lines of one call */

struct store_dmarc_line {
	int64_t begin, end;        /* microseconds */
	struct str domain, org, policy, data; /* org: of the domain; data: JSON; empty: messages without a row of their own */
	int64_t messages;
};
struct store_dmarc_tally {
	const char *source;        /* this life of the reactor */
	int64_t seq;               /* of the batch: the same one may be sent again after STORE_AWAY, and counts once */
	int32_t max_rows, max_periods;
};
/* lost: messages that found no place. Everything is copied. */
typedef void (*store_dmarc_lost_fn)(void *arg, enum store_rc rc, int64_t lost, const char *err);
void store_dmarc_tally_put(struct store_conn *c, const struct store_dmarc_tally *t, const struct store_dmarc_line *lines, size_t n,
    store_dmarc_lost_fn fn, void *arg);

struct store_dmarc_failure {
	int64_t at;                /* microseconds */
	struct str domain, org, data, headers; /* data: JSON */
};
struct store_dmarc_failures {
	const char *source;        /* and seq: as of a tally, but another name */
	int64_t seq;
	int32_t most_org, most;    /* of an organisation, of all within a day */
};
void store_dmarc_failure_put(struct store_conn *c, const struct store_dmarc_failures *t, const struct store_dmarc_failure *one, size_t n,
    store_dmarc_lost_fn fn, void *arg);

enum store_dmarc_question { STORE_DMARC_DUE, STORE_DMARC_ROWS, STORE_DMARC_DONE, STORE_DMARC_LIST, STORE_DMARC_UNMUTE, STORE_DMARC_SWEEP,
	STORE_DMARC_SUMMARY, STORE_DMARC_FAILURES, STORE_DMARC_FAILURE_SUMMARY, STORE_DMARC_QUESTIONS };
/* args: one JSON object, copied. json: the answer, valid during the callback. */
typedef void (*store_dmarc_json_fn)(void *arg, enum store_rc rc, struct str json, const char *err);
void store_dmarc_ask(struct store_conn *c, enum store_dmarc_question q, const char *args, store_dmarc_json_fn fn, void *arg);

struct store_dmarc_report {
	int64_t id;                /* of the period, or of the message that failed */
	bool failure;
	bool tls;                  /* it is a TLS report, of pepsi.tlsrpt_report */
	const char *report_id, *stage, *mail_from, *state; /* state: JSON */
	const struct str *rcpts, *headers; /* n of each */
	size_t n;
	struct str body;
};
/* Everything is copied. first: the first message's queue id; 0: another run was faster, nothing was done. */
typedef void (*store_dmarc_sent_fn)(void *arg, enum store_rc rc, int64_t first, const char *err);
void store_dmarc_enqueue(struct store_conn *c, const struct store_dmarc_report *r, store_dmarc_sent_fn fn, void *arg);

#endif
