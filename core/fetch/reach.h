/* Which addresses a connection may go to when a stranger named the host: those of the public Internet that are not our own, and what an operator of a
 * laboratory allows. For the fetching child and for POSTs (post.h). */
#ifndef FETCH_REACH_H
#define FETCH_REACH_H

#include "base/buf.h"

struct reach;
struct sockaddr;

struct reach_address {
	unsigned char ip[16];
	unsigned char n;           /* 4 or 16 */
};

/* allowed: networks, as a list; may be NULL. Our own addresses are looked at when it is made, and once a minute. NULL: no memory. */
struct reach *reach_new(const char *allowed);
void reach_free(struct reach *r); /* accepts NULL */
/* NULL: it may be connected to; else a constant word why not. ip: 4 or 16 octets. */
const char *reach_refused(struct reach *r, const unsigned char *ip, size_t n);
/* The same of where a socket is about to go. */
const char *reach_refused_socket(struct reach *r, const struct sockaddr *to);
/* "+example.org:443:192.0.2.1,[2001:db8::1]", for CURLOPT_RESOLVE: what we resolved is all that is known of the name. */
void reach_resolved(struct buf *out, const char *host, unsigned port, const struct reach_address *to, size_t n);

#endif
