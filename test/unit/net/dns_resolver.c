/* The resolver against servers that misbehave on demand: they run on the same loop, on loopback, and the first label of a name says
 * what is done with the question. No sleeps: everything waits for callbacks, and time-outs are short. */
#include "net/dns.h"

#include "base/clock.h"
#include "proto/dns/message.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

enum { SERVERS = 2, TIMEOUT_MS = 120 };

struct fake {
	int udp, tcp, other; /* other: a socket that forges */
	struct event *ev_udp, *ev_tcp;
	uint16_t port;
	bool dead;           /* takes questions, says nothing */
	unsigned asked, asked_tcp, with_edns;
	uint16_t client;     /* port of the last question */
};

struct peer { /* a TCP client of a fake server */
	struct fake *fake;
	struct event *ev;
	int fd;
	unsigned char in[600];
	size_t n;
	unsigned char out[70000];
	size_t out_n, out_at;
	bool drip;
	struct peer *next;
};

static struct {
	struct event_base *base;
	struct fake fake[SERVERS];
	struct net_dns *dns;
	struct net_dns_settings s;
	struct peer *peers;
} lab;

/* ---- the fake servers */

static size_t question(const unsigned char *q, size_t n, char *first, size_t size)
{
	size_t at = 12, len = q[12];
	snprintf(first, size, "%.*s", (int)len, (const char *)q + 13);
	for (char *c = first; *c; c++) /* 0x20 */
		*c = *c >= 'A' && *c <= 'Z' ? (char)(*c | 0x20) : *c;
	while (at < n && q[at])
		at += q[at] + 1u;
	return at + 1 + 4;
}

static size_t header(const unsigned char *q, size_t qn, unsigned char *out, unsigned rcode, unsigned answers)
{
	memcpy(out, q, qn);
	out[2] |= 0x80;
	out[3] = (unsigned char)(0xa0 | rcode); /* RA, AD */
	out[7] = (unsigned char)answers;
	out[8] = out[9] = out[10] = out[11] = 0;
	return qn;
}

static size_t record(unsigned char *out, size_t n, unsigned type, unsigned ttl, const void *data, size_t len)
{
	unsigned char head[] = { 0xc0, 12, 0, (unsigned char)type, 0, 1, 0, 0, (unsigned char)(ttl >> 8), (unsigned char)ttl,
		(unsigned char)(len >> 8), (unsigned char)len };
	memcpy(out + n, head, sizeof head);
	memcpy(out + n + sizeof head, data, len);
	return n + sizeof head + len;
}

/* The reply in out; 0: none. */
static size_t answer(struct fake *f, const unsigned char *q, size_t n, bool tcp, unsigned char *out)
{
	static const unsigned char soa[] = { 0xc0, 12, 0xc0, 12, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 60 };
	char what[64];
	bool first = f == &lab.fake[0];
	size_t qn = question(q, n, what, sizeof what);
	unsigned type = q[qn - 3];
	unsigned char ip[4] = { 192, 0, 2, 1 };
	if (strncmp(what, "silent", 6) == 0 || (first && strncmp(what, "first", 5) == 0))
		return 0;
	if (strncmp(what, "servfail", 8) == 0 || (first && strncmp(what, "half", 4) == 0))
		return header(q, qn, out, 2, 0);
	if (strncmp(what, "noedns", 6) == 0 && q[11])
		return header(q, qn, out, 1, 0);
	if (strncmp(what, "none", 4) == 0 || strncmp(what, "empty", 5) == 0) {
		size_t end = header(q, qn, out, what[0] == 'n' ? 3 : 0, 0);
		out[9] = 1;
		return record(out, end, 6, 60, soa, sizeof soa);
	}
	if (strncmp(what, "garbage", 7) == 0) {
		memset(out, 0xff, 300);
		memcpy(out, q, 2);
		return 300;
	}
	if (strncmp(what, "lower", 5) == 0) /* changes the case of the question */
		for (size_t i = 12; i < qn - 4; i++)
			((unsigned char *)(uintptr_t)q)[i] |= q[i] >= 'A' && q[i] <= 'Z' ? 0x20 : 0;
	size_t end = header(q, qn, out, 0, 1);
	if (!tcp && (strncmp(what, "big", 3) == 0 || strncmp(what, "drip", 4) == 0)) {
		out[2] |= 0x02;
		out[7] = 0;
		return end;
	}
	if (type == DNS_TXT) {
		unsigned char text[256 * 200];
		for (size_t i = 0; i < 200; i++) {
			memset(text + 256 * i, 'x', 256);
			text[256 * i] = 255;
		}
		return record(out, end, DNS_TXT, 60, text, tcp ? sizeof text : 256);
	}
	if (type == DNS_MX) {
		static const unsigned char mx[] = { 0, 10, 2, 'm', 'x', 0xc0, 12 };
		return record(out, end, DNS_MX, 60, mx, sizeof mx);
	}
	if (type == DNS_AAAA)
		return record(out, end, DNS_AAAA, 60, "0123456789abcdef", 16);
	return record(out, end, DNS_A, strncmp(what, "zero", 4) == 0 ? 0 : 60, ip, 4);
}

static void on_udp(evutil_socket_t fd, short what, void *arg)
{
	struct fake *f = arg;
	unsigned char q[600], out[70000];
	char name[64];
	struct sockaddr_in from;
	socklen_t len = sizeof from;
	ssize_t n = recvfrom(fd, q, sizeof q, 0, (struct sockaddr *)&from, &len);
	(void)what;
	if (n < 17)
		return;
	f->asked++;
	f->client = ntohs(from.sin_port);
	f->with_edns += q[11];
	if (f->dead)
		return;
	question(q, (size_t)n, name, sizeof name);
	size_t end = answer(f, q, (size_t)n, false, out);
	if (strncmp(name, "forged", 6) == 0) /* somebody guesses ids, from the right address */
		for (unsigned i = 1; i <= 40; i++) {
			out[1] ^= (unsigned char)i;
			sendto(fd, out, end, 0, (struct sockaddr *)&from, len);
			out[1] ^= (unsigned char)i;
		}
	else if (strncmp(name, "elsewhere", 9) == 0) /* the right reply from another address */
		sendto(f->other, out, end, 0, (struct sockaddr *)&from, len);
	else if (end)
		sendto(fd, out, end, 0, (struct sockaddr *)&from, len);
	if (strncmp(name, "twice", 5) == 0)
		sendto(fd, out, end, 0, (struct sockaddr *)&from, len);
}

static void peer_gone(struct peer *p)
{
	struct peer **at = &lab.peers;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	event_free(p->ev);
	close(p->fd);
	free(p);
}

static void on_peer(evutil_socket_t fd, short what, void *arg)
{
	struct peer *p = arg;
	if (what & EV_WRITE) {
		ssize_t n = send(fd, p->out + p->out_at, p->drip ? 1 : p->out_n - p->out_at, MSG_NOSIGNAL);
		if (n < 0) {
			peer_gone(p);
			return;
		}
		p->out_at += (size_t)n;
		if (p->out_at == p->out_n) {
			event_del(p->ev);
			event_assign(p->ev, lab.base, fd, EV_READ | EV_PERSIST, on_peer, p);
			event_add(p->ev, NULL);
		}
		return;
	}
	ssize_t n = recv(fd, p->in + p->n, sizeof p->in - p->n, 0);
	if (n <= 0) {
		peer_gone(p);
		return;
	}
	p->n += (size_t)n;
	if (p->n < 2 || p->n < (size_t)(p->in[0] << 8 | p->in[1]) + 2)
		return;
	char name[64];
	question(p->in + 2, p->n - 2, name, sizeof name);
	p->fake->asked_tcp++;
	size_t end = answer(p->fake, p->in + 2, p->n - 2, true, p->out + 2);
	p->out[0] = (unsigned char)(end >> 8);
	p->out[1] = (unsigned char)end;
	p->out_n = end + 2;
	p->drip = strncmp(name, "drip", 4) == 0;
	if (strncmp(name, "bigcut", 6) == 0) { /* promises more than comes */
		p->out_n /= 2;
		send(fd, p->out, p->out_n, MSG_NOSIGNAL);
		peer_gone(p);
		return;
	}
	event_del(p->ev);
	event_assign(p->ev, lab.base, fd, EV_WRITE | EV_PERSIST, on_peer, p);
	event_add(p->ev, NULL);
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
	struct peer *p = calloc(1, sizeof *p);
	(void)what;
	assert_non_null(p);
	p->fake = arg;
	p->fd = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	assert_true(p->fd >= 0);
	p->ev = event_new(lab.base, p->fd, EV_READ | EV_PERSIST, on_peer, p);
	event_add(p->ev, NULL);
	p->next = lab.peers;
	lab.peers = p;
}

static void fake_open(struct fake *f)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof in;
	for (unsigned attempt = 0; attempt < 50; attempt++) { /* UDP and TCP on one port */
		f->udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		f->tcp = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		in.sin_port = 0;
		assert_int_equal(bind(f->tcp, (struct sockaddr *)&in, sizeof in), 0);
		assert_int_equal(getsockname(f->tcp, (struct sockaddr *)&in, &len), 0);
		if (bind(f->udp, (struct sockaddr *)&in, sizeof in) == 0)
			break;
		close(f->udp);
		close(f->tcp);
		f->udp = -1;
	}
	assert_true(f->udp >= 0);
	assert_int_equal(listen(f->tcp, 10), 0);
	f->port = ntohs(in.sin_port);
	f->other = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	f->ev_udp = event_new(lab.base, f->udp, EV_READ | EV_PERSIST, on_udp, f);
	f->ev_tcp = event_new(lab.base, f->tcp, EV_READ | EV_PERSIST, on_accept, f);
	event_add(f->ev_udp, NULL);
	event_add(f->ev_tcp, NULL);
}

static void set_server(unsigned i, uint16_t port)
{
	char text[32];
	snprintf(text, sizeof text, "127.0.0.1:%u", port);
	assert_int_equal(net_dns_server_parse(str_from(text), &lab.s.server[i]), 0);
}

static int setup(void **st)
{
	(void)st;
	memset(&lab, 0, sizeof lab);
	lab.base = event_base_new();
	lab.s = (struct net_dns_settings){ .timeout_us = TIMEOUT_MS * 1000, .attempts = 2, .lookup_us = 2 * US_PER_S,
		.message_us = 20 * US_PER_S, .max_queries = 40, .max_in_flight = 50, .cache_octets = 1 << 20, .cache_entries = 100,
		.max_ttl = 86400, .max_negative_ttl = 3600, .n_servers = SERVERS, .reuse = true };
	for (unsigned i = 0; i < SERVERS; i++) {
		fake_open(&lab.fake[i]);
		set_server(i, lab.fake[i].port);
	}
	lab.dns = net_dns_new(lab.base, &lab.s);
	assert_non_null(lab.dns);
	return 0;
}

static void fake_close(struct fake *f)
{
	event_free(f->ev_udp);
	event_free(f->ev_tcp);
	close(f->udp);
	close(f->tcp);
	close(f->other);
}

static int teardown(void **st)
{
	(void)st;
	net_dns_free(lab.dns);
	while (lab.peers)
		peer_gone(lab.peers);
	for (unsigned i = 0; i < SERVERS; i++)
		fake_close(&lab.fake[i]);
	event_base_free(lab.base);
	return 0;
}

/* ---- asking */

struct got {
	unsigned n;
	enum dns_status status;
	size_t n_rr, first_n;
	bool authenticated, cached;
	char why[64], server[64];
	struct net_dns_group *free_it;
};

static void on_answer(void *arg, const struct dns_answer *a)
{
	struct got *g = arg;
	struct net_dns_delivery how = net_dns_delivery(lab.dns);
	g->n++;
	g->status = a->status;
	g->n_rr = a->n_rr;
	g->first_n = a->n_rr ? a->rr[0].data.n : 0;
	g->authenticated = a->authenticated;
	g->cached = how.cached;
	snprintf(g->why, sizeof g->why, "%s", a->why ? a->why : "");
	snprintf(g->server, sizeof g->server, "%s", how.server);
	net_dns_group_free(g->free_it);
}

static void run_until(const unsigned *n, unsigned wanted)
{
	struct timeval tv = { .tv_sec = 20 };
	event_base_loopexit(lab.base, &tv);
	while (*n < wanted && !event_base_got_exit(lab.base))
		event_base_loop(lab.base, EVLOOP_ONCE);
	assert_int_equal(*n, wanted);
	event_base_loop(lab.base, EVLOOP_NONBLOCK);
}

static struct got ask_in(struct net_dns_group *g, const char *name, enum dns_type type)
{
	struct got got = { 0 };
	assert_non_null(net_dns_query(g, str_from(name), type, on_answer, &got));
	assert_int_equal(got.n, 0); /* never within the call */
	run_until(&got.n, 1);
	return got;
}

static struct got ask(const char *name, enum dns_type type)
{
	struct net_dns_group *g = net_dns_group_new(lab.dns, 0, 0);
	struct got got = ask_in(g, name, type);
	net_dns_group_free(g);
	return got;
}

static unsigned asked(void)
{
	unsigned n = 0;
	for (unsigned i = 0; i < SERVERS; i++)
		n += lab.fake[i].asked;
	return n;
}

static double metric(const char *name)
{
	struct buf b = BUF_INIT(1 << 20);
	char line[128];
	net_dns_metrics(lab.dns, &b);
	snprintf(line, sizeof line, "\n%s ", name);
	const char *at = strstr(buf_z(&b), line);
	double v = at ? strtod(at + strlen(line), NULL) : -1;
	buf_free(&b);
	return v;
}

/* ---- the tests */

static void answers(void **st)
{
	static const struct {
		const char *name;
		enum dns_type type;
		enum dns_status status;
		size_t n_rr, first_n;
		const char *why;
	} cases[] = {
		{ "ok.test", DNS_A, DNS_OK, 1, 4, "" },
		{ "ok.test", DNS_AAAA, DNS_OK, 1, 16, "" },
		{ "ok.test", DNS_MX, DNS_OK, 1, 10, "" }, /* mx.ok.test */
		{ "ok.test", DNS_TXT, DNS_OK, 1, 255, "" },
		{ "none.test", DNS_A, DNS_NXDOMAIN, 0, 0, "" },
		{ "empty.test", DNS_A, DNS_NODATA, 0, 0, "" },
		{ "big.test", DNS_TXT, DNS_OK, 1, 51000, "" },
		{ "drip.test", DNS_A, DNS_OK, 1, 4, "" },
		{ "noedns.test", DNS_A, DNS_OK, 1, 4, "" },
		{ "half.test", DNS_A, DNS_OK, 1, 4, "" },
		{ "servfail.test", DNS_A, DNS_TEMPFAIL, 0, 0, "SERVFAIL" },
		{ "not..a.name", DNS_A, DNS_NXDOMAIN, 0, 0, "not a domain name" },
		{ "forged.test", DNS_A, DNS_OK, 1, 4, "" },
		{ "garbage.test", DNS_A, DNS_TEMPFAIL, 0, 0, "time-out" },
		{ "bigcut.test", DNS_TXT, DNS_TEMPFAIL, 0, 0, "connection closed" },
		{ "elsewhere.test", DNS_A, DNS_TEMPFAIL, 0, 0, "time-out" },
		{ "silent.test", DNS_A, DNS_TEMPFAIL, 0, 0, "time-out" },
	};
	(void)st;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct got g = ask(cases[i].name, cases[i].type);
		if (g.status != cases[i].status || g.n_rr != cases[i].n_rr || g.first_n != cases[i].first_n || strcmp(g.why, cases[i].why) != 0)
			fail_msg("%s %s: %s %zu %zu %s", cases[i].name, dns_type_name(cases[i].type), dns_status_name(g.status), g.n_rr, g.first_n, g.why);
		assert_int_equal(g.authenticated, g.status != DNS_TEMPFAIL && !cases[i].why[0]); /* loopback is trusted */
	}
	assert_true(metric("pepsi_dns_forged_total") >= 20);
	assert_true(metric("pepsi_dns_in_flight") == 0);
	assert_true(metric("pepsi_dns_edns_refused_total") == 1);
}

static void silent_first(void **st)
{
	(void)st;
	struct got g = ask("first.test", DNS_A);
	assert_int_equal(g.status, DNS_OK);
	assert_string_equal(g.server, lab.s.server[1].text);
	assert_int_equal(lab.fake[0].asked, 1);
}

/* Down after three silences; the others are asked at once from then on; a probe beside a question brings it back. */
static void down_and_up(void **st)
{
	char name[32];
	struct got g;
	(void)st;
	lab.fake[0].dead = true;
	for (unsigned i = 0; i < 3; i++) {
		snprintf(name, sizeof name, "ok%u.test", i);
		assert_int_equal(ask(name, DNS_A).status, DNS_OK);
	}
	assert_int_equal(lab.fake[0].asked, 3);
	snprintf(name, sizeof name, "pepsi_dns_server_up{server=\"%s\"}", lab.s.server[0].text);
	char up[128], times[128];
	snprintf(up, sizeof up, "pepsi_dns_server_up{server=\"%s\"}", lab.s.server[0].text);
	snprintf(times, sizeof times, "pepsi_dns_timeouts_total{server=\"%s\"}", lab.s.server[0].text);
	assert_true(metric(up) == 0 && metric(times) == 3);
	g = ask("after.test", DNS_A);
	assert_string_equal(g.server, lab.s.server[1].text);
	assert_int_equal(lab.fake[0].asked, 3); /* not asked */
	lab.fake[0].dead = false;
	int64_t until = clock_mono_us() + 15 * US_PER_S;
	for (unsigned i = 0; metric(up) == 0 && clock_mono_us() < until; i++) { /* the first probe is due after 2 s */
		snprintf(name, sizeof name, "more%u.test", i);
		assert_int_equal(ask(name, DNS_A).status, DNS_OK);
	}
	assert_true(metric(up) == 1);
	assert_string_equal(ask("back.test", DNS_A).server, lab.s.server[0].text);
	/* all are down: asked nevertheless */
	lab.fake[0].dead = lab.fake[1].dead = true;
	for (unsigned i = 0; i < 3; i++) {
		snprintf(name, sizeof name, "gone%u.test", i);
		g = ask(name, DNS_A);
		assert_int_equal(g.status, DNS_TEMPFAIL);
	}
	lab.fake[0].dead = lab.fake[1].dead = false;
	assert_int_equal(ask("again.test", DNS_A).status, DNS_OK);
}

static void refused(void **st)
{
	(void)st;
	fake_close(&lab.fake[0]); /* nobody listens there: ICMP says so at once */
	int64_t began = clock_mono_us();
	struct got g = ask("ok.test", DNS_A);
	assert_int_equal(g.status, DNS_OK);
	assert_true(clock_mono_us() - began < TIMEOUT_MS * 1000);
	fake_open(&lab.fake[0]);
}

static void cache(void **st)
{
	(void)st;
	assert_false(ask("ok.test", DNS_A).cached);
	unsigned n = asked();
	assert_true(ask("OK.Test.", DNS_A).cached);
	assert_false(ask("ok.test", DNS_MX).cached);
	assert_int_equal(asked(), n + 1);
	assert_false(ask("none.test", DNS_A).cached);
	assert_true(ask("none.test", DNS_A).cached);
	assert_false(ask("zero.test", DNS_A).cached);
	assert_false(ask("zero.test", DNS_A).cached); /* TTL 0 */
	assert_false(ask("servfail.test", DNS_A).cached);
	struct got g = ask("servfail.test", DNS_A); /* a failure, for some seconds */
	assert_true(g.cached);
	assert_string_equal(g.why, "SERVFAIL");
	assert_true(metric("pepsi_dns_cache_hits_total") == 3 && metric("pepsi_dns_cache_entries") == 4);
}

static uint16_t port_of(const char *name)
{
	unsigned n = asked();
	ask(name, DNS_A);
	assert_true(asked() > n);
	return lab.fake[0].client;
}

/* To loopback a socket is used again, but only behind a reply; what comes twice is no answer to the next question. */
static void spares(void **st)
{
	struct net_dns_group *g = net_dns_group_new(lab.dns, 0, 0);
	struct got got[3] = { { 0 } };
	(void)st;
	uint16_t port = port_of("zero.test");
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(port_of("zero.test"), port);
	assert_int_equal(port_of("none.twice.test"), port);
	struct got bad = ask("twice.test", DNS_A), good = ask("zero2.test", DNS_MX);
	assert_int_equal(bad.status, DNS_OK);
	assert_true(good.status == DNS_OK && good.n_rr == 1);
	/* at the same time each has its own */
	for (unsigned i = 0; i < 3; i++)
		net_dns_query(g, str_from((const char *[]){ "a.test", "b.test", "c.test" }[i]), DNS_A, on_answer, &got[i]);
	for (unsigned i = 0; i < 3; i++) {
		run_until(&got[i].n, 1);
		assert_int_equal(got[i].status, DNS_OK);
	}
	/* behind silence the socket is not used again: the reply may still come */
	port_of("first.test");
	uint16_t silent = lab.fake[0].client;
	for (unsigned i = 0; i < 5; i++)
		assert_int_not_equal(port_of("zero3.test"), silent);
	/* a server that is gone and another in its place: the spares of the old one are no longer used */
	lab.s.n_servers = 1;
	set_server(0, lab.fake[1].port);
	net_dns_reload(lab.dns, &lab.s);
	unsigned before = lab.fake[0].asked;
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(ask("zero4.test", DNS_A).status, DNS_OK);
	assert_int_equal(lab.fake[0].asked, before);
	net_dns_group_free(g);
}

static void coalesced(void **st)
{
	struct net_dns_group *g = net_dns_group_new(lab.dns, 0, 0), *h = net_dns_group_new(lab.dns, 0, 0);
	struct got got[3] = { { 0 } };
	(void)st;
	for (unsigned i = 0; i < 3; i++)
		net_dns_query(i < 2 ? g : h, STR("same.test"), DNS_A, on_answer, &got[i]);
	for (unsigned i = 0; i < 3; i++) {
		run_until(&got[i].n, 1);
		assert_int_equal(got[i].status, DNS_OK);
	}
	assert_int_equal(asked(), 1);
	assert_true(metric("pepsi_dns_coalesced_total") == 2);
	net_dns_group_free(g);
	net_dns_group_free(h);
}

static void budget(void **st)
{
	struct net_dns_group *g = net_dns_group_new(lab.dns, 0, 2);
	(void)st;
	assert_int_equal(ask_in(g, "a.test", DNS_A).status, DNS_OK);
	assert_int_equal(ask_in(g, "b.test", DNS_A).status, DNS_OK);
	assert_int_equal(ask_in(g, "a.test", DNS_A).status, DNS_OK); /* cached: free */
	struct got got = ask_in(g, "c.test", DNS_A);
	assert_int_equal(got.status, DNS_TEMPFAIL);
	assert_string_equal(got.why, "query budget used up");
	assert_int_equal(net_dns_group_queries(g), 2);
	assert_int_equal(asked(), 2);
	net_dns_group_free(g);
}

static void deadline(void **st)
{
	struct net_dns_group *g = net_dns_group_new(lab.dns, 30 * 1000, 0);
	(void)st;
	struct got got = ask_in(g, "silent.test", DNS_A);
	assert_int_equal(got.status, DNS_TEMPFAIL);
	assert_string_equal(got.why, "deadline passed");
	got = ask_in(g, "ok.test", DNS_A);
	assert_string_equal(got.why, "deadline passed");
	net_dns_group_free(g);
	/* and one question's */
	lab.s.lookup_us = 50 * 1000;
	net_dns_reload(lab.dns, &lab.s);
	int64_t began = clock_mono_us();
	got = ask("silent2.test", DNS_A);
	assert_string_equal(got.why, "time-out");
	assert_int_equal(asked(), 2); /* one attempt each: no time for more */
	assert_true(clock_mono_us() - began >= 40 * 1000); /* the loop has a coarse clock */
}

static void in_flight(void **st)
{
	struct net_dns_group *g[60];
	static struct got got[60];
	(void)st;
	memset(got, 0, sizeof got);
	for (unsigned i = 0; i < 60; i++) {
		char name[32];
		snprintf(name, sizeof name, "silent%u.test", i);
		g[i] = net_dns_group_new(lab.dns, 0, 100);
		net_dns_query(g[i], str_from(name), DNS_A, on_answer, &got[i]);
	}
	assert_true(metric("pepsi_dns_in_flight") == 50);
	assert_true(metric("pepsi_dns_over_in_flight_total") == 10);
	assert_int_equal(event_base_loop(lab.base, EVLOOP_NONBLOCK), 0);
	for (unsigned i = 50; i < 60; i++)
		assert_int_equal(got[i].n, 0); /* they wait, and nobody tells them that there is no answer */
	net_dns_group_free(g[0]);
	assert_true(metric("pepsi_dns_in_flight") == 49);
	assert_int_equal(event_base_loop(lab.base, EVLOOP_NONBLOCK), 0);
	assert_true(metric("pepsi_dns_in_flight") == 50); /* the first of them has the place */
	for (unsigned i = 1; i < 60; i++)
		net_dns_group_free(g[i]); /* nobody waits: half of them are ended, the others go on for the cache */
	assert_true(metric("pepsi_dns_in_flight") == 25);
}

/* Groups with many questions about silent names do not take all there may be; each of theirs is answered all the same. */
static void turns(void **st)
{
	enum { GROUPS = 4, EACH = 40 };
	static struct got got[GROUPS][EACH];
	static const double open[GROUPS] = { 10, 20, 25, 27 }; /* of 50: from 25 on a group has two */
	struct net_dns_group *g[GROUPS];
	(void)st;
	memset(got, 0, sizeof got);
	for (unsigned i = 0; i < GROUPS; i++) {
		g[i] = net_dns_group_new(lab.dns, 300 * 1000, 100);
		for (unsigned k = 0; k < EACH; k++) {
			char name[32];
			snprintf(name, sizeof name, "silent%u-%u.test", i, k);
			assert_non_null(net_dns_query(g[i], str_from(name), DNS_A, on_answer, &got[i][k]));
		}
		assert_true(metric("pepsi_dns_in_flight") == open[i]);
	}
	assert_true(metric("pepsi_dns_waited_total") == GROUPS * EACH - 27);
	assert_int_equal(ask("ok.test", DNS_A).status, DNS_OK);
	/* one goes while it waits */
	net_dns_group_free(g[1]);
	for (unsigned i = 0; i < GROUPS; i++)
		for (unsigned k = 0; k < EACH && i != 1; k++) {
			run_until(&got[i][k].n, 1);
			assert_int_equal(got[i][k].status, DNS_TEMPFAIL);
			assert_true(metric("pepsi_dns_in_flight") <= 50);
		}
	assert_int_equal(got[1][EACH - 1].n, 0);
	net_dns_group_free(g[0]);
	net_dns_group_free(g[2]);
	net_dns_group_free(g[3]);
	/* what waits is asked when there is room, all of it, and an answer that came meanwhile is taken */
	static struct got fine[EACH + 1];
	g[0] = net_dns_group_new(lab.dns, 0, 100);
	memset(fine, 0, sizeof fine);
	for (unsigned k = 0; k <= EACH; k++) {
		char name[32];
		snprintf(name, sizeof name, "ok%u.test", k % EACH);
		assert_non_null(net_dns_query(g[0], str_from(name), DNS_A, on_answer, &fine[k]));
	}
	for (unsigned k = 0; k <= EACH; k++) {
		run_until(&fine[k].n, 1);
		assert_int_equal(fine[k].status, DNS_OK);
	}
	assert_true(fine[EACH].cached);
	net_dns_group_free(g[0]);
}

static void cancelling(void **st)
{
	struct net_dns_group *g = net_dns_group_new(lab.dns, 0, 0);
	struct got got[4] = { { 0 } };
	(void)st;
	assert_int_equal(ask("ok.test", DNS_A).status, DNS_OK);
	struct net_dns_ask *under_way = net_dns_query(g, STR("wait.test"), DNS_A, on_answer, &got[0]);
	struct net_dns_ask *ready = net_dns_query(g, STR("ok.test"), DNS_A, on_answer, &got[1]);
	net_dns_cancel(ready);
	net_dns_cancel(under_way);
	/* the callback frees the group, and with it an answer that is ready and a question under way */
	got[2].free_it = g;
	net_dns_query(g, STR("ok.test"), DNS_A, on_answer, &got[2]);
	net_dns_query(g, STR("ok.test"), DNS_A, on_answer, &got[3]);
	net_dns_query(g, STR("wait2.test"), DNS_A, on_answer, &got[3]);
	run_until(&got[2].n, 1);
	assert_int_equal(ask("later.test", DNS_A).status, DNS_OK);
	assert_int_equal(got[0].n + got[1].n + got[3].n, 0);
	/* the resolver may go while flights without waiters are in the air: teardown does it */
	g = net_dns_group_new(lab.dns, 0, 0);
	net_dns_query(g, STR("silent.test"), DNS_A, on_answer, &got[3]);
	net_dns_group_free(g);
	assert_true(metric("pepsi_dns_in_flight") == 1);
}

static void trust(void **st)
{
	(void)st;
	assert_true(ask("ok.test", DNS_A).authenticated);
	/* the same server by an address that is not loopback cannot be had here: say that it is none */
	lab.s.server[0].loopback = lab.s.server[1].loopback = false;
	lab.s.random_case = false;
	teardown(NULL);
	struct net_dns_settings s = lab.s;
	setup(NULL);
	for (unsigned i = 0; i < SERVERS; i++)
		lab.s.server[i].loopback = false;
	net_dns_free(lab.dns);
	lab.dns = net_dns_new(lab.base, &lab.s);
	assert_false(ask("ok.test", DNS_A).authenticated);
	lab.s.trust_ad = !s.trust_ad;
	net_dns_reload(lab.dns, &lab.s);
	struct got g = ask("ok.test", DNS_A);
	assert_false(g.cached); /* another trust: the cache is empty */
	assert_true(g.authenticated);
}

static void random_case(void **st)
{
	(void)st;
	lab.s.random_case = true;
	net_dns_reload(lab.dns, &lab.s);
	assert_int_equal(ask("ok.a.long.name.with.many.letters.test", DNS_A).status, DNS_OK);
	assert_int_equal(ask("lower.a.long.name.with.many.letters.test", DNS_A).status, DNS_TEMPFAIL);
}

/* ---- the resolving child, hostile: what it says is bounded as what a server says */

static struct {
	int fd;
	struct event *ev;
	unsigned asked, closed;
	const char *mode;
} child;

static void on_child_question(evutil_socket_t fd, short what, void *arg)
{
	static unsigned char out[70000];
	unsigned char q[600];
	struct event **ev = arg;
	ssize_t n = recv(fd, q, sizeof q, 0);
	(void)what;
	if (n < 17) {
		child.closed++;
		event_free(*ev);
		free(ev);
		close(fd);
		return;
	}
	child.asked++;
	size_t end = answer(&lab.fake[1], q, (size_t)n, true, out);
	if (!strcmp(child.mode, "garbage")) {
		memset(out, 0xc0, end);
	} else if (!strcmp(child.mode, "id")) {
		out[0] ^= 1;
	} else if (!strcmp(child.mode, "short")) {
		end = 3;
	} else if (!strcmp(child.mode, "cut")) {
		end -= 2;
	} else if (!strcmp(child.mode, "huge")) {
		memset(out + end, 0xff, 65000 - end);
		end = 65000;
	} else if (!strcmp(child.mode, "counts")) {
		out[6] = out[7] = 0xff;
	} else if (!strcmp(child.mode, "dies")) {
		shutdown(fd, SHUT_RDWR);
		return;
	} else if (!strcmp(child.mode, "silent")) {
		return;
	}
	send(fd, out, end, MSG_NOSIGNAL);
	if (!strcmp(child.mode, "twice"))
		send(fd, out, end, MSG_NOSIGNAL);
}

static void on_child(evutil_socket_t fd, short what, void *arg)
{
	struct event **ev = malloc(sizeof *ev);
	int s = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	(void)what;
	(void)arg;
	assert_true(s >= 0 && ev);
	*ev = event_new(lab.base, s, EV_READ | EV_PERSIST, on_child_question, ev);
	event_add(*ev, NULL);
}

static void hostile_child(void **st)
{
	static const char *const modes[] = { "garbage", "id", "short", "cut", "huge", "counts", "dies", "silent", "twice", "good" };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	(void)st;
	memset(&child, 0, sizeof child);
	snprintf(un.sun_path, sizeof un.sun_path, "/tmp/pepsi-unit-dns.%ld", (long)getpid());
	child.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(child.fd, (struct sockaddr *)&un, sizeof un), 0);
	assert_int_equal(listen(child.fd, 100), 0);
	child.ev = event_new(lab.base, child.fd, EV_READ | EV_PERSIST, on_child, NULL);
	event_add(child.ev, NULL);
	lab.s.n_servers = 1;
	lab.s.server[0] = (struct net_dns_server){ .n = sizeof un, .loopback = true, .local = true, .text = "libunbound" };
	memcpy(&lab.s.server[0].ss, &un, sizeof un);
	lab.s.lookup_us = US_PER_S;
	net_dns_reload(lab.dns, &lab.s);
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		char name[64];
		unsigned before = child.asked;
		child.mode = modes[i];
		snprintf(name, sizeof name, "c%zu.test", i);
		struct got g = ask(name, DNS_A);
		bool good = !strcmp(modes[i], "good") || !strcmp(modes[i], "twice") || !strcmp(modes[i], "huge"); /* what stands behind a message is nothing */
		if ((g.status == DNS_OK) != good || (!good && g.status != DNS_TEMPFAIL))
			fail_msg("%s: %s %s", modes[i], dns_status_name(g.status), g.why);
		assert_true(child.asked - before <= 2 * lab.s.attempts);
	}
	/* gone altogether: the question fails, soon; and when it is back, it is asked again */
	event_del(child.ev);
	close(child.fd);
	unlink(un.sun_path);
	assert_int_equal(ask("gone.test", DNS_A).status, DNS_TEMPFAIL);
	child.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(child.fd, (struct sockaddr *)&un, sizeof un), 0);
	assert_int_equal(listen(child.fd, 100), 0);
	event_free(child.ev);
	child.ev = event_new(lab.base, child.fd, EV_READ | EV_PERSIST, on_child, NULL);
	event_add(child.ev, NULL);
	assert_int_equal(ask("back.test", DNS_A).status, DNS_OK);
	for (unsigned i = 0; i < 50; i++)
		event_base_loop(lab.base, EVLOOP_NONBLOCK);
	event_free(child.ev);
	close(child.fd);
	unlink(un.sun_path);
}

static void reload(void **st)
{
	struct net_dns_group *g = net_dns_group_new(lab.dns, 0, 0);
	struct got got = { 0 };
	(void)st;
	net_dns_query(g, STR("first.test"), DNS_A, on_answer, &got); /* the first says nothing … */
	lab.s.server[0] = lab.s.server[1];
	lab.s.n_servers = 1;
	int64_t began = clock_mono_us();
	net_dns_reload(lab.dns, &lab.s); /* … and is no longer asked */
	run_until(&got.n, 1);
	assert_int_equal(got.status, DNS_OK);
	assert_true(clock_mono_us() - began < TIMEOUT_MS * 1000);
	net_dns_group_free(g);
}

/* ---- evaluators */

struct eval {
	unsigned runs, done;
	int rc;
	size_t n;
	unsigned long found;
	struct net_dns_group *free_it;
};

static int two_steps(void *arg, struct dns_answers *set)
{
	struct eval *e = arg;
	e->runs++;
	const struct dns_answer *mx = dns_answers_get(set, STR("ok.test"), DNS_MX);
	const struct dns_answer *txt = dns_answers_get(set, STR("none.test"), DNS_TXT);
	if (!mx || !txt)
		return DNS_MORE;
	const struct dns_answer *a = dns_answers_get(set, mx->rr[0].data, DNS_A);
	if (!a)
		return DNS_MORE;
	e->found = a->n_rr;
	return DNS_DONE;
}

static int nothing_new(void *arg, struct dns_answers *set)
{
	struct eval *e = arg;
	e->runs++;
	return dns_answers_get(set, STR("ok.test"), DNS_A) ? DNS_MORE : DNS_MORE;
}

static int endless(void *arg, struct dns_answers *set)
{
	struct eval *e = arg;
	char name[32];
	snprintf(name, sizeof name, "n%u.test", e->runs++);
	for (unsigned i = 0; i + 1 < e->runs; i++) {
		char before[32];
		snprintf(before, sizeof before, "n%u.test", i);
		const struct dns_answer *a = dns_answers_get(set, str_from(before), DNS_A);
		if (a && a->status == DNS_TEMPFAIL)
			return DNS_DONE;
	}
	return dns_answers_get(set, str_from(name), DNS_A) ? -7 : DNS_MORE;
}

static void on_done(void *arg, int rc, const struct dns_answers *set)
{
	struct eval *e = arg;
	e->done++;
	e->rc = rc;
	e->n = dns_answers_n(set);
	net_dns_group_free(e->free_it);
}

static void evaluators(void **st)
{
	struct net_dns_group *g = net_dns_group_new(lab.dns, 0, 6);
	struct eval a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
	(void)st;
	net_dns_evaluate(g, two_steps, &a, on_done, &a);
	assert_int_equal(a.runs, 0); /* not within the call */
	run_until(&a.done, 1);
	assert_int_equal(a.rc, DNS_DONE);
	assert_int_equal(a.runs, 3);
	assert_int_equal(a.n, 3);
	assert_int_equal(a.found, 1);
	net_dns_evaluate(g, nothing_new, &b, on_done, &b);
	run_until(&b.done, 1);
	assert_int_equal(b.rc, -1);
	net_dns_evaluate(g, endless, &c, on_done, &c); /* until the budget is used up */
	run_until(&c.done, 1);
	assert_int_equal(c.rc, DNS_DONE);
	assert_int_equal(net_dns_group_queries(g), 6);
	/* cancelled while it waits; and the group freed in done() */
	struct net_dns_evaluation *e = net_dns_evaluate(g, two_steps, &d, on_done, &d);
	net_dns_evaluation_cancel(e);
	assert_int_equal(d.runs, 0);
	d.free_it = g;
	net_dns_evaluate(g, two_steps, &a, on_done, &a);
	net_dns_evaluate(g, two_steps, &d, on_done, &d);
	run_until(&d.done, 1);
	assert_int_equal(a.done, 2);
	g = net_dns_group_new(lab.dns, 0, 0);
	struct eval f = { 0 };
	net_dns_evaluate(g, endless, &f, on_done, &f);
	while (!f.runs)
		event_base_loop(lab.base, EVLOOP_ONCE);
	net_dns_group_free(g); /* in the middle */
	assert_int_equal(ask("last.test", DNS_A).status, DNS_OK);
	assert_int_equal(f.done, 0);
}

static void waiting(void **st)
{
	struct net_dns_group *g = net_dns_group_new(lab.dns, 0, 0);
	(void)st;
	struct dns_answer *a = net_dns_wait(g, STR("ok.test"), DNS_A), *b = net_dns_wait(g, STR("silent.test"), DNS_A);
	assert_int_equal(a->status, DNS_OK);
	assert_int_equal(b->status, DNS_TEMPFAIL);
	dns_answer_unref(a);
	dns_answer_unref(b);
	net_dns_group_free(g);
}

static void watch(void **st)
{
	char path[] = "/tmp/pepsi-resolv.XXXXXX", text[100];
	int fd = mkstemp(path);
	struct got g;
	(void)st;
	assert_true(fd >= 0);
	snprintf(lab.s.resolv_conf, sizeof lab.s.resolv_conf, "%s", path);
	int n = snprintf(text, sizeof text, "nameserver 127.0.0.1:%u\noptions timeout:1\n", lab.fake[1].port);
	assert_int_equal(write(fd, text, (size_t)n), n);
	close(fd);
	net_dns_reload(lab.dns, &lab.s); /* the file is looked at with the next question */
	g = ask("ok.test", DNS_A);
	assert_string_equal(g.server, lab.s.server[1].text);
	assert_int_equal(lab.fake[0].asked, 0);
	unlink(path);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = { T(answers), T(silent_first), T(down_and_up), T(refused), T(cache), T(spares), T(coalesced), T(budget), T(deadline),
		T(in_flight), T(turns), T(cancelling), T(trust), T(random_case), T(hostile_child), T(reload), T(evaluators), T(waiting), T(watch) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
