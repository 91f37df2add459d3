/* What a listener holds against abuse, read from the configuration: part of its terms. And what sessions are judged by beside what
 * they say: may this client come in, is it one of ours. */
#ifndef INGRESS_ABUSE_H
#define INGRESS_ABUSE_H

#include "config/config.h"
#include "limits.h"
#include "proto/dns/dnsbl.h"
#include "recipients.h"

struct listening;
struct session;
struct ingress;

struct abuse_terms {
	struct config_networks *exempt; /* LIMIT_EXEMPT; NULL: RELAY_NETWORKS */
	struct limit_rates rates;
	unsigned max_per_network;      /* sessions at once; 0: no limit */
	unsigned reserved;             /* of MAX_CONNECTIONS, for those who are exempt */
	int64_t banner_delay_us;
	unsigned unknown_free;         /* unknown recipients of a session that are answered at once */
	unsigned unknown_max;          /* … and at which it ends; 0: never */
	int64_t unknown_delay_us;
	struct dnsbl_list *lists;
	size_t n_lists;
	int64_t dnsbl_wait_us;
	bool dnsbl_text;
	bool greylist;
};

/* What all listeners share. */
struct abuse_settings {
	unsigned max_sessions;         /* of all listeners; 0: no limit */
	unsigned reserved_percent;     /* of these, for submission and those who are exempt */
	unsigned remembered;
	unsigned tarpit_max;
	struct recipients_settings recipients;
	struct store_greylist_terms greylist;
	uint64_t queue_max;            /* rows; 0: no limit */
};

/* users: the listener is for users of this machine (PROTOCOL = local). 0, or -1: memory. */
int abuse_terms_read(struct abuse_terms *t, const struct config *c, const char *section, bool users);
void abuse_terms_done(struct abuse_terms *t);
void abuse_settings_read(struct abuse_settings *s, const struct config *c);

/* Does no limit on strangers hold for this client? */
bool abuse_exempt(const struct listening *l, const struct net_addr *peer, bool relay);
/* How long the banner is kept from it; 0: not at all. */
int64_t abuse_banner_delay(const struct session *s);

#endif
