/* The ratchet's memory; see ratchet_memory.h. The rule is proto/relay/ratchet.c. */
#include "ratchet_memory.h"

#include "known.h"
#include "memory.h"
#include "say.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
	KEPT = 5000,
	FLUSH_MS = 5000,
	BATCH = 500,
	TOUCH_S = 6 * 3600,   /* that a domain is as it was is written so often */
};

struct seen {
	struct memory_item item;
	struct ratchet r;
	struct ratchet_memory *m;
	int64_t written;      /* r.last_at, as it was written last */
	bool loaded, loading; /* from the table */
	bool dirty, writing;  /* to be written; on its way */
	enum ratchet_level waits; /* noted before it was loaded; RATCHET_UNKNOWN: nothing */
	int64_t id;           /* of the message of that */
};
struct ratchet_memory {
	const struct pepsi_host *host;
	struct known *known;
	struct memory memory;
	struct pepsi_event *timer;
	size_t n_dirty;
	bool writing;         /* a batch is on its way */
};

static bool may_go(void *item)
{
	const struct seen *s = item;
	return !s->dirty && !s->writing && !s->loading;
}

/* The batch is in the table, or is to be written again. */
static void written(void *arg, const PGresult *res)
{
	struct ratchet_memory *m = arg;
	struct memory_item *i;
	m->writing = false;
	TAILQ_FOREACH(i, &m->memory.items, link) {
		struct seen *s = (struct seen *)(void *)i;
		if (!s->writing)
			continue;
		s->writing = false;
		if (res) {
			s->written = s->r.last_at;
		} else if (!s->dirty) {
			s->dirty = true;
			m->n_dirty++;
		}
	}
	if (m->n_dirty)
		m->host->event_arm(m->timer, 0, FLUSH_MS);
}

/* Writes one batch. */
static void flush(struct ratchet_memory *m)
{
	struct buf a[7];
	const char *values[7];
	size_t n = 0;
	struct memory_item *i;
	bool good = true;
	if (m->writing || !m->n_dirty)
		return;
	for (size_t k = 0; k < 7; k++)
		a[k] = KNOWN_ARRAY;
	TAILQ_FOREACH(i, &m->memory.items, link) {
		struct seen *s = (struct seen *)(void *)i;
		if (!s->dirty || n == BATCH)
			continue;
		n++;
		s->dirty = false;
		s->writing = true;
		m->n_dirty--;
		known_add(&a[0], str_n((const char *)i->key, i->n));
		known_add(&a[1], str_from(ratchet_level_name(s->r.best)));
		known_add_number(&a[2], s->r.best_at);
		known_add(&a[3], str_from(ratchet_level_name(s->r.last)));
		known_add_number(&a[4], s->r.last_at);
		known_add(&a[5], str_from(ratchet_level_name(s->r.told)));
		known_add_number(&a[6], s->r.told_at);
	}
	for (size_t k = 0; k < 7; k++)
		good &= (values[k] = known_end(&a[k])) != NULL;
	m->writing = true;
	if (!good || known_ask(m->known, "SELECT pepsi.destination_security_put($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::bigint[])",
	    7, values, written, m))
		written(m, NULL);
	for (size_t k = 0; k < 7; k++)
		buf_free(&a[k]);
}

static void on_timer(void *arg, uint32_t what)
{
	struct ratchet_memory *m = arg;
	(void)what;
	flush(m);
}

/* msg NULL: it may be gone by now; id names it. */
static void tell(struct ratchet_memory *m, struct pepsi_msg *msg, int64_t id, struct str domain, const struct ratchet *r, enum ratchet_event e)
{
	time_t at = (time_t)r->best_at;
	struct tm tm;
	char day[16] = "?", name[32] = "";
	if (gmtime_r(&at, &tm))
		strftime(day, sizeof day, "%Y-%m-%d", &tm);
	if (!msg && id)
		snprintf(name, sizeof name, "id=%lld ", (long long)id);
	if (e == RATCHET_WEAKER)
		say(m->host, msg, PEPSI_LOG_WARN, "%sevent=destination-weaker domain=%.*s now=%s best=%s best_at=%s hint=\"mail to it is protected less than before: ask its postmaster, or "
		    "look for somebody in between\"", name, STR_ARG(domain), ratchet_level_name(r->last), ratchet_level_name(r->best), day);
	else
		say(m->host, msg, PEPSI_LOG_INFO, "%sevent=destination-recovered domain=%.*s now=%s", name, STR_ARG(domain), ratchet_level_name(r->last));
}

static void note(struct seen *s, struct pepsi_msg *msg, int64_t id, enum ratchet_level level)
{
	struct ratchet_memory *m = s->m;
	enum ratchet_event e = ratchet_note(&s->r, level, m->host->now_us() / 1000000);
	if (e == RATCHET_WEAKER || e == RATCHET_RECOVERED)
		tell(m, msg, id, str_n((const char *)s->item.key, s->item.n), &s->r, e);
	if (s->dirty || (e == RATCHET_SAME && s->r.last_at - s->written < TOUCH_S))
		return;
	s->dirty = true;
	if (m->n_dirty++ == 0 && !m->writing)
		m->host->event_arm(m->timer, 0, FLUSH_MS);
}

static void loaded(void *arg, const PGresult *r)
{
	struct seen *s = arg;
	enum ratchet_level level = s->waits;
	s->loading = false;
	if (!r)
		return;
	s->loaded = true;
	if (PQntuples(r) == 1 && !ratchet_level_parse(str_from(PQgetvalue(r, 0, 0)), &s->r.best) &&
	    !ratchet_level_parse(str_from(PQgetvalue(r, 0, 2)), &s->r.last) && !ratchet_level_parse(str_from(PQgetvalue(r, 0, 4)), &s->r.told)) {
		s->r.best_at = known_number(r, 0, 1);
		s->r.last_at = s->written = known_number(r, 0, 3);
		s->r.told_at = known_number(r, 0, 5);
	}
	s->waits = RATCHET_UNKNOWN;
	if (level != RATCHET_UNKNOWN)
		note(s, NULL, s->id, level);
}

static struct seen *seen_of(struct ratchet_memory *m, struct str domain)
{
	struct seen *s = memory_get(&m->memory, domain);
	if (s || !(s = calloc(1, sizeof *s)))
		return s;
	s->m = m;
	s->waits = RATCHET_UNKNOWN;
	if (memory_put(&m->memory, domain, &s->item) == 0)
		return s;
	free(s);
	return NULL;
}

void ratchet_memory_note(struct ratchet_memory *m, struct pepsi_msg *msg, struct str domain, enum ratchet_level level)
{
	char folded[DNS_NAME_MAX + 1];
	const char *values[] = { folded };
	if (level == RATCHET_UNKNOWN || dns_name_fold(domain, folded) < 0 || !folded[0] || folded[0] == '[')
		return;
	struct seen *s = seen_of(m, str_from(folded));
	if (!s)
		return;
	if (s->loaded) {
		note(s, msg, 0, level);
		return;
	}
	if (s->waits == RATCHET_UNKNOWN || level < s->waits) { /* of several the weakest: that is what is to be told */
		s->waits = level;
		s->id = msg ? m->host->id(msg) : 0;
	}
	if (!s->loading)
		s->loading = known_ask(m->known, "SELECT best, best_at, last, last_at, told, told_at FROM pepsi.destination_security_get($1::text)", 1, values, loaded, s) == 0;
}

struct ratchet_memory *ratchet_memory_new(const struct pepsi_host *host, const struct pepsi_conf *conf, struct known *known)
{
	struct ratchet_memory *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	m->host = host;
	m->known = known;
	memory_init(&m->memory, KEPT, (uint64_t)host->now_us() * UINT64_C(0x9e3779b97f4a7c15), may_go, free);
	m->timer = host->event_new(conf, -1, on_timer, m);
	if (m->timer)
		return m;
	free(m);
	return NULL;
}

void ratchet_memory_free(struct ratchet_memory *m)
{
	if (!m)
		return;
	known_settle(m->known);
	for (size_t before = m->n_dirty + 1; m->n_dirty && m->n_dirty < before;) { /* as long as that does something */
		before = m->n_dirty;
		flush(m);
		known_settle(m->known);
	}
	m->host->event_free(m->timer);
	memory_done(&m->memory);
	free(m);
}
