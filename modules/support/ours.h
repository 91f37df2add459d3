/* Did our side send a message, or did it come from outside? By what the ingress wrote into state.origin; no content is believed. */
#ifndef SUPPORT_OURS_H
#define SUPPORT_OURS_H

#include "base/str.h"

#include <pepsi/stage.h>

/* Networks, "192.0.2.0/24 2001:db8::/32 unix": is the address in one of them? A text that is no network counts for nothing. */
bool ours_network(struct str networks, const char *address);
/* Is the text such a list? NULL: yes; else the first word that is not, of *ret_n octets. */
const char *ours_network_wrong(const char *networks, size_t *ret_n);

/* Did an account sign in to send it? */
bool ours_signed_in(const struct pepsi_host *host, struct pepsi_msg *msg);
/* Did our side send it: an account that signed in, a client within networks (NULL: none), or Pepsi itself? */
bool ours_sent(const struct pepsi_host *host, struct pepsi_msg *msg, const char *networks);

#endif
