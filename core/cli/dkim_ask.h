/* Does the DNS tell a DKIM record? Asked of every authoritative server of the zone by itself, since a rotation may go on only when none of them lags:
 * a resolver would tell what one of them said, perhaps an hour ago. */
#ifndef CLI_DKIM_ASK_H
#define CLI_DKIM_ASK_H

#include "cli_internal.h"
#include "net/dns.h"

enum { DKIM_ASK_SERVERS_MAX = 16 };

struct dkim_asker {
	struct event_base *base;
	struct net_dns_settings settings;
	struct net_dns_server fixed[NET_DNS_SERVERS_MAX]; /* --server: these are the authoritative ones */
	unsigned n_fixed;
};
/* 0, or an exit status after a message. */
int dkim_ask_open(const struct cli *c, const struct config *conf, struct dkim_asker *ret);
void dkim_ask_close(struct dkim_asker *a);

enum dkim_told {
	DKIM_TOLD_ALL,     /* every server tells this key */
	DKIM_TOLD_SOME,    /* not every one yet */
	DKIM_TOLD_NONE,    /* no record anywhere, or everywhere an empty p= */
	DKIM_TOLD_OTHER,   /* every server tells something else */
	DKIM_TOLD_UNKNOWN, /* could not be found out */
};
const char *dkim_told_name(enum dkim_told t);
/* why: one clause for each server that does not tell it ("192.0.2.1:53 has no record"). */
enum dkim_told dkim_ask(struct dkim_asker *a, const char *domain, const char *selector, struct str record, struct buf *why);

#endif
