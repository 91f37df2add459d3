/* Selection of mail exchangers; see route.h. Every run makes the result anew from the set's answers, so that the last run saw all. */
#include "proto/relay/route.h"

#include "proto/address/address.h"

#include <arpa/inet.h>
#include <stdio.h>

const char *route_host_state_name(enum route_host_state s)
{
	static const char *const names[] = { "used", "none", "tempfail", "not-a-name", "loop" };
	return (unsigned)s < sizeof names / sizeof *names ? names[s] : "";
}

/* splitmix64 */
uint64_t route_mix(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* -- addresses */

static bool ok4(const unsigned char *ip)
{
	return ip[0] != 0 && ip[0] != 127 && ip[0] < 224 && !(ip[0] == 169 && ip[1] == 254);
}

static const unsigned char zero[15];

/* The forms of IPv6 that hold an IPv4 address in their last octets. */
static bool holds4(const unsigned char *ip)
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff }, translated[12] = { 0, 0x64, 0xff, 0x9b };
	return memcmp(ip, zero, 12) == 0 || memcmp(ip, mapped, 12) == 0 || memcmp(ip, translated, 12) == 0;
}

bool route_address_ok(const unsigned char *ip, size_t n)
{
	if (n == 4)
		return ok4(ip);
	if (holds4(ip))
		return memcmp(ip, zero, 15) != 0 && ok4(ip + 12); /* not ::, ::1 */
	if (ip[0] == 0x20 && ip[1] == 0x02)
		return ok4(ip + 2);
	return ip[0] != 0xff && !(ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80);
}

static bool may_use(struct route *r, const unsigned char *ip, size_t n)
{
	const char *word = "local";
	if (r->local_ok || outside_net_has(r->allow, r->n_allow, ip, n))
		return true;
	if (route_address_ok(ip, n) && !(r->public_only && (word = outside_mail_refused(ip, n))))
		return true;
	if (!r->refused) {
		const char *exact = outside_mail_refused(ip, n);
		r->refused = exact ? exact : word;
		memcpy(r->refused_ip.ip, ip, r->refused_ip.n = (unsigned char)n);
	}
	return false;
}

static bool is_own_ip(const struct route *r, const unsigned char *ip, size_t n)
{
	if (n == 16 && holds4(ip) && is_own_ip(r, ip + 12, 4)) /* the kernel, or a gateway, leads it there */
		return true;
	for (size_t i = 0; i < r->n_own_ip; i++)
		if (r->own_ip[i].n == n && memcmp(r->own_ip[i].ip, ip, n) == 0)
			return true;
	return false;
}

static bool is_own(const struct route *r, const char *name)
{
	for (size_t i = 0; i < r->n_own; i++)
		if (smtp_domain_equal(r->own[i], str_from(name)))
			return true;
	return false;
}

/* -- ends */

static int end(struct route *r, enum route_state state, unsigned code, const char *status, const char *reason)
{
	r->state = state;
	r->code = code;
	r->status = status;
	r->reason = reason;
	r->n_addresses = 0;
	return DNS_DONE;
}

/* §5.1: a domain name, or an address literal. RFC 3463 §3.2: X.1.2 is a destination that does not exist or cannot take mail. */
static int no_domain(struct route *r, const char *reason)
{
	return end(r, ROUTE_PERMANENT, 550, "5.1.2", reason);
}

/* -- an address literal */

static int literal(struct route *r)
{
	char text[64];
	struct route_address *a = &r->address[0];
	struct str s = r->domain;
	r->literal = true;
	if (smtp_literal_check(s))
		return no_domain(r, "not an address literal");
	s = str_n(s.p + 1, s.n - 2);
	bool six = str_istarts(s, STR("IPv6:"));
	if (six)
		s = str_skip(s, 5);
	if (s.n >= sizeof text)
		return no_domain(r, "not an address literal");
	snprintf(text, sizeof text, "%.*s", STR_ARG(s));
	memset(a, 0, sizeof *a);
	if (inet_pton(six ? AF_INET6 : AF_INET, text, a->ip) != 1)
		return no_domain(r, "not an address literal");
	a->n = six ? 16 : 4;
	r->host[0] = (struct route_host){ .n = 1 };
	r->n_hosts = 1;
	if (is_own_ip(r, a->ip, a->n)) {
		r->host[0].state = ROUTE_HOST_LOOP;
		r->looped = true;
		return end(r, ROUTE_PERMANENT, 550, "5.4.6", "the address is our own");
	}
	if (!(six ? r->ipv6 : r->ipv4) || !may_use(r, a->ip, a->n)) {
		r->host[0].state = ROUTE_HOST_NONE;
		return end(r, ROUTE_PERMANENT, 550, "5.4.4", "no mail can be sent to that address");
	}
	r->n_addresses = 1;
	r->state = ROUTE_FOUND;
	return DNS_DONE;
}

/* -- the list of exchangers */

/* "192.0.2.1" where a name belongs: its last label, and so every top-level domain it could be in, is a number. */
static bool is_number(const char *name)
{
	const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
	return *last && !last[strspn(last, "0123456789")];
}

/* Fisher and Yates, within each group of equals: RFC 5321 §5.1 "MUST randomize them to spread the load". */
static void shuffle_equals(uint16_t *order, size_t n, const struct dns_rr *rr, uint64_t *state)
{
	for (size_t from = 0, to; from < n; from = to) {
		for (to = from + 1; to < n && rr[order[to]].preference == rr[order[from]].preference; to++)
			;
		for (size_t k = to - 1; k > from; k--) {
			size_t other = from + (size_t)(route_mix(state) % (k - from + 1));
			uint16_t swap = order[k];
			order[k] = order[other];
			order[other] = swap;
		}
	}
}

static void add_host(struct route *r, struct str name, uint16_t preference)
{
	struct route_host *h = &r->host[r->n_hosts++];
	*h = (struct route_host){ .preference = preference, .state = ROUTE_HOST_USED };
	if (!name.n || dns_name_fold(name, h->name) < 0 || is_number(h->name)) {
		snprintf(h->name, sizeof h->name, "%.*s", STR_ARG(name));
		h->state = ROUTE_HOST_NOT_A_NAME;
	}
	memcpy(h->canonical, h->name, sizeof h->canonical);
}

/* By preference. What is no more preferred than ourselves is not looked up: a mail that went to it could come back (§5.1). */
static void list_hosts(struct route *r, const struct dns_answer *mx, uint64_t *state)
{
	uint16_t order[DNS_RR_MAX];
	size_t n = mx->n_rr < DNS_RR_MAX ? mx->n_rr : DNS_RR_MAX;
	uint32_t ours = UINT32_MAX;
	char name[DNS_NAME_MAX + 1];
	for (size_t i = 0; i < n; i++) {
		order[i] = (uint16_t)i;
		if (mx->rr[i].preference < ours && dns_name_fold(mx->rr[i].data, name) > 0 && is_own(r, name))
			ours = mx->rr[i].preference;
	}
	shuffle_equals(order, n, mx->rr, state);
	for (size_t i = 0; i < n && r->n_hosts < ROUTE_HOSTS_MAX; i++) {
		const struct dns_rr *rr = &mx->rr[order[i]];
		add_host(r, rr->data, rr->preference);
		if (rr->preference >= ours) {
			r->host[r->n_hosts - 1].state = ROUTE_HOST_LOOP;
			r->looped = true;
		}
	}
}

/* -- their addresses */

static void take_canonical(struct route_host *h, const struct dns_answer *a)
{
	if (a && a->n_chain)
		snprintf(h->canonical, sizeof h->canonical, "%.*s", STR_ARG(a->chain[a->n_chain - 1]));
}

/* Those of one family that we may use, shuffled. Returns how many. */
static size_t usable(struct route *r, const struct dns_answer *a, size_t octets, struct str *ret, bool *own, uint64_t *state)
{
	size_t n = 0;
	for (size_t i = 0; a && i < a->n_rr; i++) {
		const unsigned char *ip = (const unsigned char *)a->rr[i].data.p;
		if (a->rr[i].data.n != octets)
			continue;
		*own |= is_own_ip(r, ip, octets);
		if (n < DNS_RR_MAX && may_use(r, ip, octets))
			ret[n++] = a->rr[i].data;
	}
	for (size_t k = n; k > 1; k--) {
		size_t other = (size_t)(route_mix(state) % k);
		struct str swap = ret[k - 1];
		ret[k - 1] = ret[other];
		ret[other] = swap;
	}
	return n;
}

/* Both families, taking turns from IPv6 on: where one of them leads nowhere, every second attempt still does (as in RFC 8305 §4). */
static void add_addresses(struct route *r, struct route_host *h, const struct dns_answer *six, const struct dns_answer *four, uint64_t *state)
{
	struct str all[2][DNS_RR_MAX];
	bool own = false;
	size_t n[2] = { usable(r, six, 16, all[0], &own, state), usable(r, four, 4, all[1], &own, state) };
	if (own) {
		h->state = ROUTE_HOST_LOOP;
		return;
	}
	h->first = (unsigned)r->n_addresses;
	for (size_t at[2] = { 0, 0 }, turn = 0; at[0] < n[0] || at[1] < n[1]; turn = !turn) {
		if (at[turn] == n[turn])
			continue;
		if (h->n == ROUTE_HOST_ADDRESSES_MAX || r->n_addresses == ROUTE_ADDRESSES_MAX)
			break;
		struct route_address *a = &r->address[r->n_addresses++];
		struct str ip = all[turn][at[turn]++];
		*a = (struct route_address){ .n = (unsigned char)ip.n, .host = (unsigned char)(h - r->host) };
		memcpy(a->ip, ip.p, ip.n);
		h->n++;
	}
	if (!h->n)
		h->state = ROUTE_HOST_NONE;
}

static bool fails(const struct dns_answer *a)
{
	return a && a->status == DNS_TEMPFAIL;
}

/* True: more is needed. */
static bool ask_host(struct route *r, struct route_host *h, struct dns_answers *set, uint64_t *state)
{
	struct str name = str_from(h->name);
	const struct dns_answer *six = r->ipv6 ? dns_answers_get(set, name, DNS_AAAA) : NULL;
	const struct dns_answer *four = r->ipv4 ? dns_answers_get(set, name, DNS_A) : NULL;
	if ((r->ipv6 && !six) || (r->ipv4 && !four))
		return true;
	take_canonical(h, six && six->n_rr ? six : four ? four : six);
	if (is_own(r, h->name) || is_own(r, h->canonical)) {
		h->state = ROUTE_HOST_LOOP;
		return false;
	}
	add_addresses(r, h, six, four, state);
	/* what failed could have been the secure half */
	h->secure = h->n && (!six || !six->n_rr || six->authenticated) && (!four || !four->n_rr || four->authenticated);
	if (h->state == ROUTE_HOST_NONE && (fails(six) || fails(four)))
		h->state = ROUTE_HOST_TEMPFAIL;
	return false;
}

/* A host that turned out to be ourselves by alias or address, which takes those behind it with it. */
static void cut_loop(struct route *r)
{
	uint32_t ours = UINT32_MAX;
	size_t kept = 0;
	for (size_t i = 0; i < r->n_hosts; i++)
		if (r->host[i].state == ROUTE_HOST_LOOP && r->host[i].preference < ours)
			ours = r->host[i].preference;
	if (ours == UINT32_MAX)
		return;
	r->looped = true;
	for (size_t i = 0; i < r->n_hosts; i++)
		if (r->host[i].preference >= ours) {
			r->host[i].state = ROUTE_HOST_LOOP;
			r->host[i].n = 0;
		}
	for (size_t i = 0; i < r->n_addresses; i++)
		if (r->host[r->address[i].host].state != ROUTE_HOST_LOOP)
			r->address[kept++] = r->address[i];
	r->n_addresses = kept; /* those kept stand before those cut, so that `first` holds */
}

static int conclude(struct route *r)
{
	size_t tempfail = 0, loop = 0;
	cut_loop(r);
	for (size_t i = 0; i < r->n_hosts; i++) {
		tempfail += r->host[i].state == ROUTE_HOST_TEMPFAIL;
		loop += r->host[i].state == ROUTE_HOST_LOOP;
	}
	if (r->n_addresses) {
		r->state = ROUTE_FOUND;
		return DNS_DONE;
	}
	if (tempfail)
		return end(r, ROUTE_TEMPORARY, 451, "4.4.3", "the addresses of its mail exchangers cannot be looked up now");
	if (loop && loop == r->n_hosts)
		return end(r, ROUTE_PERMANENT, 550, "5.4.6", "we are its most preferred mail exchanger ourselves: mail would loop");
	if (r->refused)
		return end(r, ROUTE_PERMANENT, 550, "5.4.4", "it names only addresses that mail from outside must not be sent to");
	return end(r, ROUTE_PERMANENT, 550, "5.4.4",
	    r->implicit || r->no_mx ? "the host has no address that mail can be sent to" :
				      "none of its mail exchangers has an address that mail can be sent to");
}

/* 1: go on; else what route_evaluate() returns, in *ret. */
static int ask_domain(struct route *r, struct dns_answers *set, uint64_t *state, int *ret)
{
	const struct dns_answer *mx = dns_answers_get(set, str_from(r->name), DNS_MX);
	*ret = DNS_DONE;
	if (!mx) {
		*ret = DNS_MORE;
		return 0;
	}
	if (mx->n_chain)
		snprintf(r->canonical, sizeof r->canonical, "%.*s", STR_ARG(mx->chain[mx->n_chain - 1]));
	r->mx_secure = mx->authenticated;
	r->n_listed = mx->n_rr;
	if (mx->status == DNS_TEMPFAIL)
		end(r, ROUTE_TEMPORARY, 451, "4.4.3", "its mail exchangers cannot be looked up now");
	else if (mx->status == DNS_NXDOMAIN)
		no_domain(r, "the domain does not exist");
	else if (mx->n_rr == 1 && !mx->rr[0].data.n) /* RFC 7505 §4 */
		end(r, ROUTE_PERMANENT, 556, "5.1.10", "the domain takes no mail (null MX)");
	else if (mx->n_rr) {
		list_hosts(r, mx, state);
		return 1;
	} else {
		r->implicit = true;
		add_host(r, str_from(r->name), 0);
		return 1;
	}
	return 0;
}

static void begin(struct route *r)
{
	r->state = ROUTE_TEMPORARY;
	r->code = 0;
	r->refused = NULL;
	r->status = r->reason = NULL;
	r->name[0] = r->canonical[0] = 0;
	r->mx_secure = r->implicit = r->literal = r->looped = false;
	r->n_hosts = r->n_listed = r->n_addresses = 0;
}

int route_evaluate(void *arg, struct dns_answers *set)
{
	struct route *r = arg;
	uint64_t state = r->seed;
	bool more = false;
	int rc;
	begin(r);
	if (r->domain.n && r->domain.p[0] == '[')
		return literal(r);
	if (dns_name_fold(r->domain, r->name) < 0 || is_number(r->name)) {
		r->name[0] = 0;
		return no_domain(r, "not a domain name");
	}
	memcpy(r->canonical, r->name, sizeof r->canonical);
	r->mx_secure = r->no_mx;
	if (r->no_mx)
		add_host(r, str_from(r->name), 0);
	else if (ask_domain(r, set, &state, &rc) != 1)
		return rc;
	for (size_t i = 0; i < r->n_hosts; i++)
		if (r->host[i].state == ROUTE_HOST_USED)
			more |= ask_host(r, &r->host[i], set, &state);
	return more ? DNS_MORE : conclude(r);
}

int route_text(const struct route *r, struct buf *out)
{
	char ip[INET6_ADDRSTRLEN];
	if (r->literal)
		buf_addz(out, "address literal:");
	else
		buf_addf(out, "%s%s:", r->name[0] ? r->name : "?", r->mx_secure ? " (secure)" : "");
	if (r->state != ROUTE_FOUND) {
		buf_addf(out, " %s %s", r->status ? r->status : "", r->reason ? r->reason : "");
		return out->failed ? -1 : 0;
	}
	for (size_t i = 0; i < r->n_hosts; i++) {
		const struct route_host *h = &r->host[i];
		if (!r->literal)
			buf_addf(out, "%s %u %s", i ? ";" : "", h->preference, h->name[0] ? h->name : ".");
		if (h->state != ROUTE_HOST_USED)
			buf_addf(out, " (%s)", route_host_state_name(h->state));
		else if (h->secure)
			buf_addz(out, " (secure)");
		for (unsigned k = 0; k < h->n; k++) {
			const struct route_address *a = &r->address[h->first + k];
			buf_addf(out, " %s", inet_ntop(a->n == 16 ? AF_INET6 : AF_INET, a->ip, ip, sizeof ip) ? ip : "?");
		}
	}
	return out->failed ? -1 : 0;
}
