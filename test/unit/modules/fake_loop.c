/* See fake_loop.h. */
#include "fake_loop.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EVENTS_MAX = 2000, RR_MAX = 32 };

struct pepsi_event {
	int fd;
	pepsi_event_fn fn;
	void *arg;
	uint32_t what;
	int64_t at; /* -1: no time */
	bool armed;
};

struct pepsi_query {
	struct pepsi_query *next;
	char *name;
	uint32_t type;
	pepsi_dns_fn fn;
	void *arg;
	struct pepsi_msg *msg;
};

struct pepsi_host fake_loop_host;
static struct pepsi_event *events[EVENTS_MAX];
static size_t n_events, completed, questions;
static struct pepsi_query *queries;
static const char *const *zone;
static bool secure;
static int64_t skipped;
static struct pepsi_msg *hand;

static int64_t real_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int64_t mono_ms(void)
{
	return real_ms() + skipped;
}

static struct pepsi_event *event_new(const struct pepsi_conf *c, int fd, pepsi_event_fn fn, void *arg)
{
	struct pepsi_event *e = calloc(1, sizeof *e);
	(void)c;
	assert_non_null(e);
	assert_true(n_events < EVENTS_MAX);
	*e = (struct pepsi_event){ .fd = fd, .fn = fn, .arg = arg };
	return events[n_events++] = e;
}

static int32_t event_arm(struct pepsi_event *e, uint32_t what, int64_t timeout_ms)
{
	assert_true(!what || e->fd >= 0);
	e->what = what;
	e->at = timeout_ms < 0 ? -1 : mono_ms() + timeout_ms;
	e->armed = what || timeout_ms >= 0;
	return PEPSI_OK;
}

static void event_free(struct pepsi_event *e)
{
	size_t i = 0;
	if (!e)
		return;
	while (i < n_events && events[i] != e)
		i++;
	assert_true(i < n_events);
	events[i] = events[--n_events];
	free(e);
}

static struct pepsi_query *ask(const struct pepsi_conf *c, struct pepsi_msg *msg, const char *name, uint32_t type, pepsi_dns_fn fn, void *arg)
{
	struct pepsi_query *q = calloc(1, sizeof *q), **last = &queries;
	(void)c;
	assert_non_null(q);
	*q = (struct pepsi_query){ .name = strdup(name), .type = type, .fn = fn, .arg = arg, .msg = msg };
	while (*last)
		last = &(*last)->next;
	questions++;
	return *last = q;
}

static void query_free(struct pepsi_query *q)
{
	struct pepsi_query **p = &queries;
	while (*p && *p != q)
		p = &(*p)->next;
	assert_non_null(*p);
	*p = q->next;
	free(q->name);
	free(q);
}

static int32_t complete(struct pepsi_msg *m, int32_t rc)
{
	for (struct pepsi_query *q = queries, *next; q; q = next) {
		next = q->next;
		if (q->msg == m)
			query_free(q);
	}
	completed++;
	return buf_addf(&m->calls, "complete %d\n", rc);
}

static struct pg_conn *database(const struct pepsi_conf *c)
{
	(void)c;
	return NULL;
}

static void in_hand(struct pepsi_msg *m)
{
	hand = m;
}

/* -- the zone */

static size_t hex(const char *s, char *out)
{
	size_t n = 0;
	for (unsigned v; sscanf(s, "%2x", &v) == 1 && s[0] && s[1]; s += 2)
		out[n++] = (char)v;
	return n;
}

static const char *type_name(uint32_t type)
{
	switch (type) {
	case PEPSI_DNS_A:
		return "A";
	case PEPSI_DNS_AAAA:
		return "AAAA";
	case PEPSI_DNS_MX:
		return "MX";
	case PEPSI_DNS_TXT:
		return "TXT";
	case PEPSI_DNS_TLSA:
		return "TLSA";
	case PEPSI_DNS_CNAME:
		return "CNAME";
	}
	return "?";
}

struct answer {
	struct pepsi_dns dns;
	struct pepsi_dns_rr rr[RR_MAX];
	char data[RR_MAX][600], canonical[256];
};

static void add(struct answer *a, uint32_t type, const char *text)
{
	struct pepsi_dns_rr *rr = &a->rr[a->dns.n_rr];
	char *data = a->data[a->dns.n_rr++];
	unsigned u, s, m, pref;
	int at = 0;
	snprintf(data, sizeof a->data[0], "%s", text);
	rr->data = (struct pepsi_str){ data, strlen(data) };
	if (type == PEPSI_DNS_A || type == PEPSI_DNS_AAAA) {
		assert_int_equal(inet_pton(type == PEPSI_DNS_A ? AF_INET : AF_INET6, text, data), 1);
		rr->data.n = type == PEPSI_DNS_A ? 4 : 16;
	} else if (type == PEPSI_DNS_MX) {
		assert_int_equal(sscanf(text, "%u %n", &pref, &at), 1);
		rr->preference = (uint16_t)pref;
		snprintf(data, sizeof a->data[0], "%s", strcmp(text + at, ".") != 0 ? text + at : "");
		rr->data.n = strlen(data);
	} else if (type == PEPSI_DNS_TLSA) {
		assert_int_equal(sscanf(text, "%u %u %u %n", &u, &s, &m, &at), 3);
		rr->usage = (uint8_t)u;
		rr->selector = (uint8_t)s;
		rr->matching = (uint8_t)m;
		rr->data.n = hex(text + at, data);
	}
}

static void answer(const struct pepsi_query *q, struct answer *a)
{
	bool exists = false;
	size_t steps = 0;
	*a = (struct answer){ .dns = { .abi = PEPSI_ABI_OF(struct pepsi_dns), .status = PEPSI_DNS_NXDOMAIN, .authenticated = secure, .ttl = 60,
		.rr_size = sizeof(struct pepsi_dns_rr), .rr = a->rr, .canonical = a->canonical } };
	snprintf(a->canonical, sizeof a->canonical, "%s", q->name);
	for (const char *const *l = zone; l && *l; l++) {
		char name[256], type[16];
		int at = 0;
		assert_int_equal(sscanf(*l, "%255s %15s %n", name, type, &at), 2);
		if (strcmp(name, a->canonical) != 0)
			continue;
		exists = true;
		if (!strcmp(type, "CNAME") && q->type != PEPSI_DNS_CNAME && steps++ < 8) {
			snprintf(a->canonical, sizeof a->canonical, "%s", *l + at);
			l = zone - 1;
			exists = false;
		} else if (!strcmp(type, type_name(q->type)) && !strcmp(*l + at, "tempfail")) {
			a->dns.status = PEPSI_DNS_TEMPFAIL;
			return;
		} else if (!strcmp(type, type_name(q->type)) && a->dns.n_rr < RR_MAX) {
			add(a, q->type, *l + at);
		}
	}
	if (exists)
		a->dns.status = a->dns.n_rr ? PEPSI_DNS_OK : PEPSI_DNS_NODATA;
}

/* -- the loop */

static bool answer_one(void)
{
	static struct answer a;
	struct pepsi_query *q = queries;
	if (!q)
		return false;
	pepsi_dns_fn fn = q->fn;
	void *arg = q->arg;
	answer(q, &a);
	query_free(q);
	fn(arg, &a.dns);
	return true;
}

static bool fire_timer(void)
{
	int64_t now = mono_ms();
	for (size_t i = 0; i < n_events; i++) {
		struct pepsi_event *e = events[i];
		if (!e->armed || e->at < 0 || e->at > now)
			continue;
		e->armed = false;
		e->fn(e->arg, PEPSI_IO_TIMEOUT);
		return true;
	}
	return false;
}

/* Once round; waits at most ms. False: nothing is armed. */
static bool turn(int64_t ms)
{
	static struct pollfd p[EVENTS_MAX];
	static struct pepsi_event *who[EVENTS_MAX];
	nfds_t n = 0;
	bool any = false;
	if (answer_one() || fire_timer())
		return true;
	for (size_t i = 0; i < n_events; i++) {
		struct pepsi_event *e = events[i];
		any |= e->armed;
		if (!e->armed || !e->what)
			continue;
		who[n] = e;
		p[n++] = (struct pollfd){ .fd = e->fd,
			.events = (short)((e->what & PEPSI_IO_READ ? POLLIN : 0) | (e->what & PEPSI_IO_WRITE ? POLLOUT : 0)) };
	}
	if (!any)
		return false;
	if (poll(p, n, ms > 5 ? 5 : (int)ms) <= 0)
		return true;
	for (nfds_t i = 0; i < n; i++) {
		uint32_t what = (p[i].revents & (POLLIN | POLLHUP | POLLERR) ? PEPSI_IO_READ : 0) |
		    (p[i].revents & (POLLOUT | POLLHUP | POLLERR) ? PEPSI_IO_WRITE : 0);
		what &= who[i]->what;
		if (!what)
			continue;
		who[i]->armed = false;
		who[i]->fn(who[i]->arg, what);
		return true; /* the callback may have freed others */
	}
	return true;
}

size_t fake_loop_run(size_t want, int64_t ms)
{
	int64_t end = real_ms() + ms;
	while (completed < want && real_ms() < end)
		if (!turn(end - real_ms()))
			break;
	return completed;
}

void fake_loop_idle(int64_t ms)
{
	int64_t end = real_ms() + ms;
	while (real_ms() < end && turn(end - real_ms())) {}
}

void fake_loop_skip(int64_t ms)
{
	skipped += ms;
}

size_t fake_loop_questions(void)
{
	return questions;
}

struct pepsi_msg *fake_loop_hand(void)
{
	return hand;
}

void fake_loop_begin(const char *const *records, bool authenticated)
{
	fake_loop_host = fake_host;
	fake_loop_host.event_new = event_new;
	fake_loop_host.event_arm = event_arm;
	fake_loop_host.event_free = event_free;
	fake_loop_host.ask = ask;
	fake_loop_host.ask_cancel = query_free;
	fake_loop_host.complete = complete;
	fake_loop_host.in_hand = in_hand;
	fake_loop_host.database = database;
	fake_loop_host.mono_ms = mono_ms;
	zone = records;
	secure = authenticated;
	completed = questions = 0;
	hand = NULL;
}

void fake_loop_end(void)
{
	assert_int_equal(n_events, 0);
	assert_null(queries);
}
