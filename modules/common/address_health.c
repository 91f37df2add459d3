/* Health of addresses, in memory and to the table; see address_health.h. The rules are proto/relay/health.c. */
#include "address_health.h"

#include "base/log.h"
#include "known.h"
#include "memory.h"
#include "say.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct place {
	struct memory_item item;   /* key: the address's octets */
	struct health h;
	int64_t expires, written;  /* written: of the last success that was */
	bool dirty, writing;       /* to be written; on its way */
	char host[DNS_NAME_MAX + 1];
	char why[ADDRESS_HEALTH_WHY_MAX];
};
struct address_health {
	const struct pepsi_host *host;
	struct known *known;
	struct memory memory;
	struct pepsi_event *timer;
	size_t n_dirty;
	bool writing;              /* a batch is on its way */
	uint64_t seed;
};
enum { TOUCH_S = 3600 }; /* that an address still works is written so often */

static int64_t now_of(const struct address_health *a)
{
	return a->host->now_us() / 1000000;
}

static bool may_go(void *item)
{
	const struct place *p = item;
	return !p->dirty && !p->writing;
}

static struct place *find(struct address_health *a, const struct route_address *ip)
{
	return memory_get(&a->memory, str_n((const char *)ip->ip, ip->n));
}

static struct place *find_or_make(struct address_health *a, const struct route_address *ip)
{
	struct place *p = find(a, ip);
	if (p || !(p = calloc(1, sizeof *p)))
		return p;
	if (memory_put(&a->memory, str_n((const char *)ip->ip, ip->n), &p->item) == 0)
		return p;
	free(p);
	return NULL;
}

/* -- the table */

/* The batch is in the table, or is to be written again. */
static void written(void *arg, const PGresult *res)
{
	struct address_health *a = arg;
	struct memory_item *i;
	a->writing = false;
	TAILQ_FOREACH(i, &a->memory.items, link) {
		struct place *p = (struct place *)(void *)i;
		if (!p->writing)
			continue;
		p->writing = false;
		if (res) {
			p->written = p->h.ok_at;
		} else if (!p->dirty) {
			p->dirty = true;
			a->n_dirty++;
		}
	}
	if (a->n_dirty)
		a->host->event_arm(a->timer, 0, ADDRESS_HEALTH_FLUSH_MS);
}

static void flush(struct address_health *a)
{
	enum { COLUMNS = 8 };
	struct buf b[COLUMNS];
	const char *values[COLUMNS];
	struct memory_item *i;
	bool good = true;
	size_t n = 0;
	if (a->writing || !a->n_dirty)
		return;
	for (size_t k = 0; k < COLUMNS; k++)
		b[k] = KNOWN_ARRAY;
	TAILQ_FOREACH(i, &a->memory.items, link) {
		struct place *p = (struct place *)(void *)i;
		char text[INET6_ADDRSTRLEN];
		if (!p->dirty || n == ADDRESS_HEALTH_BATCH || !inet_ntop(i->n == 4 ? AF_INET : AF_INET6, i->key, text, sizeof text))
			continue;
		n++;
		p->dirty = false;
		p->writing = true;
		a->n_dirty--;
		known_add(&b[0], str_from(text));
		known_add(&b[1], str_from(p->host));
		const int64_t numbers[] = { p->expires, p->h.ok_at, p->h.failed_at, p->h.failures, p->h.until };
		for (size_t k = 0; k < 5; k++)
			known_add_number(&b[2 + k], numbers[k]);
		known_add(&b[7], str_from(p->why));
	}
	for (size_t k = 0; k < COLUMNS; k++)
		good &= (values[k] = known_end(&b[k])) != NULL;
	a->writing = true;
	if (!good || known_ask(a->known, "SELECT pepsi.dns_address_put($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::integer[], $7::bigint[], $8::text[])",
	    COLUMNS, values, written, a))
		written(a, NULL);
	for (size_t k = 0; k < COLUMNS; k++)
		buf_free(&b[k]);
}

static void loaded(void *arg, const PGresult *r)
{
	struct address_health *a = arg;
	for (int i = r ? PQntuples(r) : 0; i-- > 0;) { /* the latest last: it is the one used last */
		struct route_address ip = { .n = 4 };
		const char *text = PQgetvalue(r, i, 0);
		if (inet_pton(AF_INET, text, ip.ip) != 1) {
			ip.n = 16;
			if (inet_pton(AF_INET6, text, ip.ip) != 1)
				continue;
		}
		struct place *p = find_or_make(a, &ip);
		if (!p)
			break;
		snprintf(p->host, sizeof p->host, "%s", PQgetvalue(r, i, 1));
		p->expires = known_number(r, i, 2);
		p->h = (struct health){ .ok_at = known_number(r, i, 3), .failed_at = known_number(r, i, 4), .failures = (unsigned)known_number(r, i, 5),
			.until = known_number(r, i, 6) };
		p->written = p->h.ok_at;
		snprintf(p->why, sizeof p->why, "%s", PQgetvalue(r, i, 7));
	}
}

static void load(struct address_health *a)
{
	char limit[16];
	const char *values[] = { limit };
	snprintf(limit, sizeof limit, "%d", ADDRESS_HEALTH_LOADED);
	known_ask(a->known, "SELECT address, host, expires, ok, failed, failures, until, why FROM pepsi.dns_address_load($1::integer)", 1, values, loaded, a);
	known_settle(a->known);
}

static void on_timer(void *arg, uint32_t what)
{
	struct address_health *a = arg;
	(void)what;
	flush(a);
}

static void changed(struct address_health *a, struct place *p)
{
	if (p->dirty)
		return;
	p->dirty = true;
	if (a->n_dirty++ == 0 && !a->writing)
		a->host->event_arm(a->timer, 0, ADDRESS_HEALTH_FLUSH_MS);
	if (a->n_dirty == ADDRESS_HEALTH_BATCH) /* and no sooner than the timer, where that did not work */
		flush(a);
}

/* -- questions */

size_t address_health_order(struct address_health *a, const struct route_address *ips, size_t n, unsigned char *order, int64_t *ret_when)
{
	const struct health *h[ROUTE_ADDRESSES_MAX];
	if (n > ROUTE_ADDRESSES_MAX)
		n = ROUTE_ADDRESSES_MAX;
	for (size_t i = 0; i < n; i++) {
		struct place *p = find(a, &ips[i]);
		h[i] = p ? &p->h : NULL;
	}
	return health_order(h, n, now_of(a), order, ret_when);
}

bool address_health_none(struct address_health *a, const struct route_address *ips, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		enum health_state s = address_health_state(a, &ips[i]);
		if (s == HEALTH_GOOD || s == HEALTH_NEW)
			return false;
	}
	return n > 0;
}

enum health_state address_health_state(struct address_health *a, const struct route_address *ip)
{
	struct place *p = find(a, ip);
	return health_state(p ? &p->h : NULL, now_of(a));
}

const char *address_health_why(struct address_health *a, const struct route_address *ip)
{
	struct place *p = find(a, ip);
	return p && p->h.failures ? p->why : "";
}

/* -- what happens */

void address_health_try(struct address_health *a, const struct route_address *ip)
{
	struct place *p = find(a, ip);
	if (p)
		health_probe(&p->h, now_of(a));
}

static struct place *note(struct address_health *a, const char *mx, const struct route_address *ip, uint32_t ttl)
{
	struct place *p = find_or_make(a, ip);
	if (!p)
		return NULL;
	snprintf(p->host, sizeof p->host, "%s", mx);
	p->expires = now_of(a) + ttl;
	return p;
}

static void tell(const struct address_health *a, const char *event, const struct route_address *ip, const char *mx, const char *why)
{
	char text[INET6_ADDRSTRLEN] = "?";
	inet_ntop(ip->n == 4 ? AF_INET : AF_INET6, ip->ip, text, sizeof text);
	say(a->host, NULL, PEPSI_LOG_INFO, "event=%s address=%s host=%s%s%s", event, text, mx, *why ? " reason=" : "", *why ? log_qz(why) : "");
}

void address_health_good(struct address_health *a, const char *mx, const struct route_address *ip, uint32_t ttl)
{
	struct place *p = note(a, mx, ip, ttl);
	if (!p)
		return;
	bool ill = p->h.failures;
	health_succeeded(&p->h, now_of(a));
	p->why[0] = 0;
	if (ill || p->h.ok_at - p->written >= TOUCH_S)
		changed(a, p);
	if (ill)
		tell(a, "address-well", ip, mx, "");
}

void address_health_bad(struct address_health *a, const char *mx, const struct route_address *ip, uint32_t ttl, const char *why)
{
	struct place *p = note(a, mx, ip, ttl);
	if (!p)
		return;
	bool well = !p->h.failures;
	a->seed = a->seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
	health_failed(&p->h, now_of(a), a->seed >> 33);
	snprintf(p->why, sizeof p->why, "%s", why);
	changed(a, p);
	if (well) /* of a series the first is worth a line: the attempts have theirs */
		tell(a, "address-ill", ip, mx, p->why);
}

/* -- life */

struct address_health *address_health_new(const struct pepsi_host *host, const struct pepsi_conf *conf, struct known *known, struct buf *why)
{
	struct address_health *a = calloc(1, sizeof *a);
	if (a) {
		a->host = host;
		a->known = known;
		a->seed = (uint64_t)host->now_us() * UINT64_C(0x9e3779b97f4a7c15);
		memory_init(&a->memory, ADDRESS_HEALTH_KEPT, a->seed, may_go, free);
		a->timer = host->event_new(conf, -1, on_timer, a);
	}
	if (!a || !a->timer) {
		free(a);
		buf_addz(why, "out of memory");
		return NULL;
	}
	load(a);
	return a;
}

void address_health_free(struct address_health *a)
{
	if (!a)
		return;
	known_settle(a->known);
	for (size_t before = a->n_dirty + 1; a->n_dirty && a->n_dirty < before;) { /* as long as that does something */
		before = a->n_dirty;
		flush(a);
		known_settle(a->known);
	}
	a->host->event_free(a->timer);
	memory_done(&a->memory);
	free(a);
}
