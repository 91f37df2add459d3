/* Whose a message is: the domains of its From field. */
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

#endif
