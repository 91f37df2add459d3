/* Conversion for next hops that take less than a message needs (proto/mail/downgrade.h), as the relay stages have it: their option, and what is told of
 * it in the log and in metrics. The engine does it (proto/smtp/client.h). */
#ifndef COMMON_DOWNGRADE_H
#define COMMON_DOWNGRADE_H

#include "proto/smtp/client.h"

#include <pepsi/stage.h>

#define RELAY_DOWNGRADE_OPTION                                                                                       \
	{ "DOWNGRADE", PEPSI_OPT_CHOICE, 0, "always", 0, 0, "always unsigned never",                                      \
	    "convert what the next hop cannot take (8BITMIME, BINARYMIME, SMTPUTF8): always; not where a signature (DKIM) would break; or never: it is returned" }

struct relay_downgrade {
	enum smtp_downgrade policy;
	struct pepsi_metric *count; /* may be NULL */
};

void relay_downgrade_open(struct relay_downgrade *d, const struct pepsi_host *host, const struct pepsi_conf *conf);
/* Behind a transaction: one line and one count where something was converted, or refused because it could not be. hop: "mx.example.net:25". */
void relay_downgrade_tell(const struct relay_downgrade *d, const struct pepsi_host *host, struct pepsi_msg *msg, const struct smtp_client_msg *m, const char *hop);

#endif
