/* What is known of other domains and their hosts, for pepsi-sts: policies of MTA-STS, addresses, protection; and for pepsi-tlsrpt: TLS reports; and for
 * pepsi-suppression. Over a connection of role pepsi. Workers have calls of their own (modules/common/known.h). */
#ifndef PEPSI_STORE_DESTINATIONS_H
#define PEPSI_STORE_DESTINATIONS_H

#include "store/queue.h"

enum store_destinations_question {
	STORE_STS_LIST,        /* {"domain", "limit"} → array; with domain: the policy's text, too */
	STORE_STS_PUT,         /* {"domain", "id", "mode", "body", "fetched", "expires", "due"} → true */
	STORE_STS_FAILED,      /* {"domain", "result", "why", "at", "due", "before"} → true */
	STORE_STS_DUE,         /* {"limit", "used"} → array of domains to be fetched again, taken by this call */
	STORE_STS_FORGET,      /* {"domain"} → was something known? */
	STORE_ADDRESS_LIST,    /* {"host", "limit"} → array */
	STORE_SECURITY_LIST,   /* {"domain", "weaker", "limit"} → array */
	STORE_SECURITY_FORGET, /* {"domain"} → was something known? */
	/* as the functions tlsrpt_… of db/procedures.sql say */
	STORE_TLSRPT_DUE,
	STORE_TLSRPT_ROWS,
	STORE_TLSRPT_BEGIN,
	STORE_TLSRPT_POSTED,
	STORE_TLSRPT_DONE,
	STORE_TLSRPT_LIST,
	STORE_TLSRPT_MUTE,
	STORE_TLSRPT_UNMUTE,
	STORE_TLSRPT_SWEEP,
	STORE_TLSRPT_SUMMARY,
	STORE_SUPPRESSION_LIST,   /* {"recipient", "after", "limit"} → array */
	STORE_SUPPRESSION_ADD,    /* {"recipient", "class", "reason", "for"} → is it new? */
	STORE_SUPPRESSION_REMOVE, /* {"recipient"} → was it there? */
	STORE_DESTINATIONS_QUESTIONS
};
/* args: one JSON object, copied. json: the answer, valid during the callback; NULL on an error. */
void store_destinations_ask(struct store_conn *c, enum store_destinations_question q, const char *args, store_json_fn fn, void *arg);

#endif
