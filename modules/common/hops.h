/* Several next hops for one stage: which is tried first, who takes over when one is dead, and how long a dead one is left alone. Each has its own
 * connection (hop.h). What is known of them lasts as long as the worker.
 *
 * A host that gave no session rests: a second (ten when it hung), doubling with every further failure up to backoff_max_ms; then one message tries
 * it again. Where all rest, one message in ten seconds tries the one whose rest ends first. A host that does not let us in rests a minute, up to a
 * quarter of an hour: tries count where passwords are checked. A single host rests only when it hung: there is nobody to go to instead. */
#ifndef COMMON_HOPS_H
#define COMMON_HOPS_H

#include "hop.h"
#include "proto/relay/traffic.h"

enum { HOPS_MAX = 16, HOPS_WEIGHT_MAX = 1000 };

struct hops_host {
	const char *name; /* as of hop_conf.host */
	int port;
	unsigned weight;  /* 1 to HOPS_WEIGHT_MAX */
};

struct hops_conf { /* strings must outlive the hops */
	struct hop_conf each;     /* host, port and cert_name are filled in; with `socket` there is no list */
	struct hops_host host[HOPS_MAX];
	size_t n;
	bool balance;             /* by chance and weight; else in this order */
	bool mx;                  /* the names are domains, whose mail exchangers are the hosts */
	int64_t backoff_max_ms;
};

struct hops;
/* NULL: reason appended to why. Connects to nothing. */
struct hops *hops_new(const struct hops_conf *conf, struct buf *why);
void hops_free(struct hops *s);

struct hops_report {
	struct hop_report hop;
	struct hop *used;         /* further transactions of the same message go here; NULL: none was tried */
	const char *name;         /* of the last one that was tried, or would have been: "mx.example.net:25"; lives until the next hops_send() */
	const char *remote_mta;   /* for reports: "mx.example.net", "[192.0.2.1]"; NULL: a socket */
	unsigned failed, signin;  /* hosts that gave no session; that did not let us in */
	bool tried;               /* this was an attempt */
};
/* Sends by the first host that gives a session and takes the sender, in time. Every result is filled; texts live until the next hops_send(). What
 * becomes of hosts is logged. */
void hops_send(struct hops *s, const struct pepsi_host *host, struct pepsi_msg *msg, struct smtp_client_msg *m, int64_t until,
    struct hops_report *ret);

/* Host i as people see it; its texts live until the next hops_send(). False: there are no more. */
bool hops_view(const struct hops *s, size_t i, struct traffic_view *ret);

/* -- for tests */

/* "NAME", "NAME:PORT", "[IPv6]:PORT", perhaps " weight=N": fills *ret, name being copied to room. 0, or -1: *ret_why is a constant. */
int hops_host_parse(struct str text, int port, char room[256], struct hops_host *ret, const char **ret_why);
/* Is it a host name or an address in figures? */
bool hops_name_ok(const char *s);
/* Milliseconds of rest behind the nth failure in a row (from 1). */
int64_t hops_rest_ms(unsigned n, bool hung, bool not_let_in, bool alone, int64_t max);

#endif
