/* One POST over HTTPS to a server that a stranger's DNS record names, by libcurl, waited for. HTTPS alone, certificate by name, no redirects, no proxy, no
 * credentials; time and the answer are bounded; the address is judged as it was resolved and once more when the socket is made. For tools, which may wait:
 * never for the reactor. */
#ifndef FETCH_POST_H
#define FETCH_POST_H

#include "base/str.h"
#include "reach.h"

enum { POST_ADDRESSES_MAX = 8, POST_HOST_MAX = 254 };

struct post_url {
	char host[POST_HOST_MAX];  /* folded; a name, never an address */
	unsigned port;
};
/* Host and port of an https URI, which is 443 (HTTPS_PORT is for laboratories). 0, or -1 with *ret_why a constant clause. */
int post_url_read(struct str uri, struct post_url *ret, const char **ret_why);

struct post {
	const char *uri;           /* post_url_read() took it */
	const struct post_url *url;
	const char *type;          /* of the content */
	struct str body;
	struct reach *reach;
	const struct reach_address *to;
	size_t n_to;
	unsigned timeout_s;        /* for all of it */
	unsigned port;             /* connected to in place of the URI's; 0: the URI's */
	const char *ca_file;       /* NULL: the system's */
};
/* 0: it was taken (2xx). -1 with the reason in why. */
int post_send(const struct post *p, char *why, size_t why_size);

#endif
