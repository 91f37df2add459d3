/* What is seen of TLS with the exchangers of other domains, counted for reports (RFC 8460): one record for each session and policy, as tls_judge()
 * (proto/relay/tls.h) tells it. Equal ones of a day are one row with a count, in memory, and go to pepsi.tlsrpt_put() together every FLUSH_MS: a
 * message costs no statement. Reports are made of the table by pepsi-tlsrpt. For modules with PEPSI_CAP_CONCURRENT and PEPSI_CAP_DB.
 *
 *     open():   w->results = tls_results_new(host, conf, w->known);          // NULL: no memory
 *     judged:   tls_results_add(w->results, &r);                   // once for each verdict.report[]; texts are copied
 *     close():  tls_results_free(w->results);                      // writes what is left
 *
 * What is written, in arrays: day (days since 1970, UTC), domain, and as JSON objects with these keys in this order, so that equal ones are equal octets:
 *     policy   {"type": "sts", "domain": of tlsa alone, "strings": ["version: STSv1", …], "mx": ["*.example.org"]}     strings, mx: left out when there are none
 *     failure  {"result": "certificate-expired", "mx": "mx1.example.org", "receiving_ip": "192.0.2.1", "sending_ip": "198.51.100.1", "helo": …,
 *               "code": "tls-handshake-failed"}                      what is not known is left out; "" in its place: a success */
#ifndef COMMON_TLS_RESULTS_H
#define COMMON_TLS_RESULTS_H

#include "proto/report/tlsrpt.h"

#include <pepsi/stage.h>

enum {
	TLS_RESULTS_FLUSH_MS = 10000,
	TLS_RESULTS_ROWS = 2000,        /* kept in memory; what is beyond is counted as lost, and said with the next flush */
	TLS_RESULTS_BATCH = 500,        /* rows of one statement */
	TLS_RESULTS_ROWS_MAX = 1000,    /* of one domain and day in the table */
	TLS_RESULTS_REPORTS_MAX = 20000, /* domains and days that wait for their report */
};

struct tls_result {
	const char *domain;             /* the policy domain: that of the recipients, folded */
	enum tlsrpt_type type;
	const char *base;               /* of TLSA: the TLSA base domain, which RFC 8460 §1.1 takes for the policy's; "" or NULL: the domain */
	const struct str *string;       /* policy-string: TLSA records in presentation form, the lines of an MTA-STS policy */
	size_t n_strings;
	const struct str *mx;           /* mx-host patterns of an MTA-STS policy */
	size_t n_mx;
	bool success;
	enum tlsrpt_result failure;     /* unless success; and then: */
	const char *mx_host;            /* as the MX record names it; "" */
	const char *receiving_ip, *sending_ip, *helo; /* "": not known */
	const char *code;               /* failure-reason-code; NULL */
};

struct tls_results;
struct known;
struct tls_results *tls_results_new(const struct pepsi_host *host, const struct pepsi_conf *conf, struct known *known);
void tls_results_add(struct tls_results *t, const struct tls_result *r);
void tls_results_free(struct tls_results *t); /* accepts NULL */

#endif
