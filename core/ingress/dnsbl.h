/* Is a session's client on a block list, or an allow list, in the DNS? Asked from the connection on, beside the dialogue and
 * beside iprev; only a RCPT waits for it (checks.c), and that for so long. */
#ifndef INGRESS_DNSBL_H
#define INGRESS_DNSBL_H

#include "base/buf.h"
#include "proto/dns/dnsbl.h"

struct session;
struct ingress;
struct dnsbl;

/* Forgets what was found and asks about s->peer, unless it is exempt or has no address. */
void dnsbl_begin(struct session *s);
void dnsbl_free(struct session *s);
/* Is there something to wait for? */
bool dnsbl_open(const struct session *s);
/* It was waited for long enough: counted. */
void dnsbl_late(struct session *s);
/* Is it on an allow list, as far as is known? */
bool dnsbl_allowed(const struct session *s);
/* The list that refuses it, NULL: none does. Reject comes before defer. */
const struct dnsbl_list *dnsbl_refusal(const struct session *s, const struct dnsbl_result **ret);
/* Members "dnsbl" and "dnswl" of state.origin, where it is listed. */
void dnsbl_put(const struct session *s, struct buf *out);

/* Counts by zone. */
struct dnsbl_counts {
	char zone[DNS_NAME_MAX + 1];
	uint64_t listed, clean, failed, late;
};
void dnsbl_metrics(const struct ingress *in, struct buf *out);

#endif
