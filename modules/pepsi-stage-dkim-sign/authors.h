/* Whose a message is: the domains of its From field, and whether it came from our side at all. */
#ifndef DKIM_SIGN_AUTHORS_H
#define DKIM_SIGN_AUTHORS_H

#include "base/str.h"

#include <pepsi/stage.h>

enum { AUTHORS_MAX = 4 }; /* domains of one From field that are looked at */

struct authors {
	char domain[AUTHORS_MAX][256]; /* A-labels, lower case, each once, in the order of the field */
	size_t n;
	const char *why; /* NULL, or why nobody can be sure who the author is: our own words. The domains are those of all From fields then */
};

/* RFC 5322 §3.6.2: one From field. With several, or one that no grammar allows, readers see different authors, and a signature would vouch for
 * all of them. */
void authors_read(struct str headers, struct authors *ret);

/* Networks, "192.0.2.0/24 2001:db8::/32": is the address in one of them? A text that is no network counts for nothing. */
bool authors_network(struct str networks, const char *address);
/* Is the text such a list? NULL: yes; else the first word that is not, of *ret_n octets. */
const char *authors_network_wrong(const char *networks, size_t *ret_n);

/* Did our side send it: an account that signed in, a client within networks, or Pepsi itself? What came from outside is never signed as if it were
 * ours, whatever its From says. */
bool authors_ours(const struct pepsi_host *host, struct pepsi_msg *msg, const char *networks);

#endif
