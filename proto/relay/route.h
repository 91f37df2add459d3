/* Where mail for a domain goes (RFC 5321 §5.1): its mail exchangers in the order they are to be tried, each with its addresses, or why there
 * are none. An evaluator over a set of answers (proto/dns/answers.h): no I/O, no clock, no chance of its own (the caller gives a seed).
 *
 *     struct route r = { .domain = STR("example.org"), .own = names, .n_own = n, .ipv4 = true, .ipv6 = true, .seed = random };
 *     net_dns_evaluate(group, route_evaluate, &r, done, arg);
 *     ...
 *     if (r.state == ROUTE_FOUND)
 *             for (size_t i = 0; i < r.n_addresses; i++)        // the order in which to try
 *                     connect(r.address[i].ip, ..., r.host[r.address[i].host].name)
 *     else
 *             r.code, r.status, r.reason                        // 556, "5.1.10", "the domain takes no mail (null MX)"
 *
 * What is asked, whatever the DNS says: one MX question and two addresses each for ROUTE_HOSTS_MAX hosts. */
#ifndef PROTO_RELAY_ROUTE_H
#define PROTO_RELAY_ROUTE_H

#include "base/buf.h"
#include "proto/dns/answers.h"
#include "proto/relay/outside.h"

enum {
	ROUTE_HOSTS_MAX = 20,          /* exchangers looked up; a list of more is cut behind its most preferred */
	ROUTE_HOST_ADDRESSES_MAX = 16, /* kept of one host */
	ROUTE_ADDRESSES_MAX = 64,      /* kept in all: a message does not try more within one attempt */
	ROUTE_QUERIES = 1 + 2 * ROUTE_HOSTS_MAX,
};

enum route_state {
	ROUTE_FOUND,     /* n_addresses > 0 */
	ROUTE_TEMPORARY, /* it cannot be known now; status is 4.x.x */
	ROUTE_PERMANENT, /* no mail can go there; status is 5.x.x */
};

/* What became of one exchanger. */
enum route_host_state {
	ROUTE_HOST_USED,       /* has addresses */
	ROUTE_HOST_NONE,       /* has none, or none that we may connect to */
	ROUTE_HOST_TEMPFAIL,   /* its addresses could not be asked for: they may exist, or be forged (a bogus answer) */
	ROUTE_HOST_NOT_A_NAME, /* an address in the place of a name, the root among others, an invalid name */
	ROUTE_HOST_LOOP,       /* ourselves, or no more preferred than ourselves (§5.1: such are cut) */
};
/* "used", "none", "tempfail", "not-a-name", "loop" */
const char *route_host_state_name(enum route_host_state s);

struct route_host {
	char name[DNS_NAME_MAX + 1];      /* as the MX record names it: for SNI, reports and reference names; "" of an address literal */
	char canonical[DNS_NAME_MAX + 1]; /* where its CNAMEs lead, or the same */
	uint16_t preference;
	enum route_host_state state;
	bool secure;                      /* its addresses are validated (DNSSEC), aliases included */
	unsigned first, n;                /* of route.address */
};
struct route_address {
	unsigned char ip[16];
	unsigned char n;                  /* 4 or 16 */
	unsigned char host;               /* index of route.host */
};
/* An address of ours: mail that goes there loops. */
struct route_own {
	unsigned char ip[16];
	unsigned char n;
};

struct route {
	/* in; all must live until it is done */
	struct str domain;          /* of the recipients, U-labels are fine; or an address literal with its brackets (§4.1.3) */
	bool no_mx;                 /* a host is meant (an operator's "[mail.example.org]"): MX is not asked */
	bool ipv4, ipv6;            /* families we can speak; at least one */
	bool local_ok;              /* loopback and link-local addresses may be connected to: laboratories, next hops of our own */
	bool public_only;           /* only addresses of the public Internet (outside_mail_refused()): exchangers that strangers name */
	const struct outside_net *allow; /* and those in here, whatever they are */
	size_t n_allow;
	const struct str *own;      /* our host names */
	size_t n_own;
	const struct route_own *own_ip; /* and addresses */
	size_t n_own_ip;
	uint64_t seed;              /* the same seed gives the same order */
	/* out */
	enum route_state state;
	unsigned code;              /* for a reply or DSN: 451, 550, 556 */
	const char *status;         /* "5.1.10", …; NULL when found */
	const char *reason;         /* a constant clause for people; NULL when found */
	char name[DNS_NAME_MAX + 1];      /* the domain, folded; "" of a literal */
	char canonical[DNS_NAME_MAX + 1]; /* where its CNAMEs lead: the name whose MX records these are */
	bool mx_secure;             /* the MX set, or that there is none, is validated, aliases included; or none was asked (no_mx): what DANE
	                             * finds for the host is found for the domain, too (RFC 7672 §2.2.1) */
	bool implicit;              /* no MX records: the domain is its own exchanger (§5.1) */
	bool literal;
	const char *refused;        /* an address was not used because of what it is ("private"): the first one; NULL: none */
	struct route_own refused_ip;
	bool looped;                /* some exchangers were cut because we are one */
	struct route_host host[ROUTE_HOSTS_MAX]; /* in the order of preference, equals shuffled */
	size_t n_hosts;
	size_t n_listed;            /* MX records there were */
	struct route_address address[ROUTE_ADDRESSES_MAX]; /* in the order to be tried; families take turns within a host, IPv6 first */
	size_t n_addresses;
};
/* A dns_evaluate_fn; arg: struct route. */
int route_evaluate(void *arg, struct dns_answers *set);

/* The least random seed is good enough; for callers: two messages of one second should not have the same. */
uint64_t route_mix(uint64_t *state);

/* May mail from outside be sent there? Not to what leads back into this host or to nobody: loopback, "this network", link-local, multicast,
 * broadcast; of IPv6 those and the mapped, translated (64:ff9b::/96) and 6to4 forms of such IPv4 addresses. Private networks may be; public_only says more. */
bool route_address_ok(const unsigned char *ip, size_t n);

/* Appends one line for logs: "example.org: 10 mx1.example.org (secure) 192.0.2.1, …" or the reason. Printable. 0, or -1: full. */
int route_text(const struct route *r, struct buf *out);

#endif
