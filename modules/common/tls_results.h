/* What a worker saw of TLS with other domains' mail exchangers, for TLS reports (RFC 8460): counted in memory by day (UTC), domain, policy and result,
 * written to pepsi.tlsrpt_report in batches every few seconds, never per message. Off, and free, unless [pepsi-tlsrpt] REPORTS is set. A database that is
 * away costs what does not fit into memory, and a line in the log; never a message. For modules with PEPSI_CAP_CONCURRENT and PEPSI_CAP_DB.
 *
 *     open():     w->results = tls_results_new(host, conf);
 *     a session:  for (i < verdict.n_reports) tls_results_note(w->results, &r);      // once for each connection that was judged, not for each message
 *     close():    tls_results_free(w->results);                                      // writes what is left */
#ifndef COMMON_TLS_RESULTS_H
#define COMMON_TLS_RESULTS_H

#include "proto/dns/answers.h"
#include "proto/relay/tls.h"
#include "sts_policies.h"

#include <pepsi/stage.h>

enum {
	TLS_RESULTS_KEPT = 5000,        /* different lines in memory; what is beyond is lost, and counted */
	TLS_RESULTS_FLUSH_MS = 5000,
	TLS_RESULTS_BATCH = 200,        /* lines of one statement */
	TLS_RESULTS_POLICY_MAX = 12000, /* octets of a policy's strings: further ones are left out */
};

struct tls_results;
struct tls_result {
	struct str domain;              /* that of the recipients, as it was asked for */
	const struct tls_report *report;
	const struct sts_held *sts;     /* its policy; NULL: none, or MTA-STS is off */
	const struct dane_lookup *dane; /* of the host; NULL: DANE is off */
	const char *mx;                 /* as the MX record names it; "": an address literal */
	const char *receiving_ip;       /* text; "": no connection was made */
	const char *sending_ip;         /* text; "": not known */
};

struct tls_results *tls_results_new(const struct pepsi_host *host, const struct pepsi_conf *conf); /* NULL: no memory */
void tls_results_free(struct tls_results *t); /* accepts NULL */
void tls_results_note(struct tls_results *t, const struct tls_result *r);

#endif
