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
	int64_t written;      /* r.last_at, as it was written last */
	bool dirty;
};
struct ratchet_memory {
	struct known_db db;
	struct memory memory;
	struct pepsi_event *timer;
	size_t n_dirty;
};

static bool may_go(void *item)
{
	return !((struct seen *)item)->dirty;
}

static struct seen *load(struct ratchet_memory *m, struct str domain)
{
	struct seen *s = memory_get(&m->memory, domain);
	char name[DNS_NAME_MAX + 1];
	const char *values[] = { name };
	if (s || !(s = calloc(1, sizeof *s)))
		return s;
	if (memory_put(&m->memory, domain, &s->item)) {
		free(s);
		return NULL;
	}
	snprintf(name, sizeof name, "%.*s", STR_ARG(domain));
	PGresult *r = known_ask(&m->db, "SELECT best, best_at, last, last_at, told, told_at FROM pepsi.destination_security_get($1::text)", 1, values);
	if (r && PQntuples(r) == 1 && !ratchet_level_parse(str_from(PQgetvalue(r, 0, 0)), &s->r.best) &&
	    !ratchet_level_parse(str_from(PQgetvalue(r, 0, 2)), &s->r.last) && !ratchet_level_parse(str_from(PQgetvalue(r, 0, 4)), &s->r.told)) {
		s->r.best_at = known_number(r, 0, 1);
		s->r.last_at = s->written = known_number(r, 0, 3);
		s->r.told_at = known_number(r, 0, 5);
	}
	PQclear(r);
	return s;
}

/* Writes one batch. 0, or -1: the database is away, all stays as it is. */
static int flush(struct ratchet_memory *m)
{
	struct buf a[7];
	const char *values[7];
	struct seen *batch[BATCH];
	size_t n = 0;
	struct memory_item *i;
	int rc = -1;
	for (size_t k = 0; k < 7; k++)
		a[k] = KNOWN_ARRAY;
	TAILQ_FOREACH(i, &m->memory.items, link) {
		struct seen *s = (struct seen *)(void *)i;
		if (!s->dirty || n == BATCH)
			continue;
		batch[n++] = s;
		known_add(&a[0], str_n((const char *)i->key, i->n));
		known_add(&a[1], str_from(ratchet_level_name(s->r.best)));
		known_add_number(&a[2], s->r.best_at);
		known_add(&a[3], str_from(ratchet_level_name(s->r.last)));
		known_add_number(&a[4], s->r.last_at);
		known_add(&a[5], str_from(ratchet_level_name(s->r.told)));
		known_add_number(&a[6], s->r.told_at);
	}
	bool good = true;
	for (size_t k = 0; k < 7; k++)
		good &= (values[k] = known_end(&a[k])) != NULL;
	PGresult *r = n && good ? known_ask(&m->db, "SELECT pepsi.destination_security_put($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::bigint[])",
	    7, values) : NULL;
	if (r || !n)
		rc = 0;
	for (size_t k = 0; r && k < n; k++) {
		batch[k]->dirty = false;
		batch[k]->written = batch[k]->r.last_at;
		m->n_dirty--;
	}
	PQclear(r);
	for (size_t k = 0; k < 7; k++)
		buf_free(&a[k]);
	return rc;
}

static void on_timer(void *arg, uint32_t what)
{
	struct ratchet_memory *m = arg;
	(void)what;
	flush(m);
	if (m->n_dirty)
		m->db.host->event_arm(m->timer, 0, FLUSH_MS);
}

static void tell(struct ratchet_memory *m, struct pepsi_msg *msg, struct str domain, const struct ratchet *r, enum ratchet_event e)
{
	time_t at = (time_t)r->best_at;
	struct tm tm;
	char day[16] = "?";
	if (gmtime_r(&at, &tm))
		strftime(day, sizeof day, "%Y-%m-%d", &tm);
	if (e == RATCHET_WEAKER)
		say(m->db.host, msg, PEPSI_LOG_WARN, "event=destination-weaker domain=%.*s now=%s best=%s best_at=%s hint=\"mail to it is protected less than before: ask its postmaster, or look for "
		    "somebody in between\"", STR_ARG(domain), ratchet_level_name(r->last), ratchet_level_name(r->best), day);
	else
		say(m->db.host, msg, PEPSI_LOG_INFO, "event=destination-recovered domain=%.*s now=%s", STR_ARG(domain), ratchet_level_name(r->last));
}

void ratchet_memory_note(struct ratchet_memory *m, struct pepsi_msg *msg, struct str domain, enum ratchet_level level)
{
	char folded[DNS_NAME_MAX + 1];
	if (level == RATCHET_UNKNOWN || dns_name_fold(domain, folded) < 0 || !folded[0] || folded[0] == '[')
		return;
	struct str name = str_from(folded);
	struct seen *s = load(m, name);
	if (!s)
		return;
	enum ratchet_event e = ratchet_note(&s->r, level, m->db.host->now_us() / 1000000);
	if (e == RATCHET_WEAKER || e == RATCHET_RECOVERED)
		tell(m, msg, name, &s->r, e);
	if (s->dirty || (e == RATCHET_SAME && s->r.last_at - s->written < TOUCH_S))
		return;
	s->dirty = true;
	if (m->n_dirty++ == 0)
		m->db.host->event_arm(m->timer, 0, FLUSH_MS);
}

struct ratchet_memory *ratchet_memory_new(const struct pepsi_host *host, const struct pepsi_conf *conf)
{
	struct ratchet_memory *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	m->db = (struct known_db){ .host = host, .conf = conf };
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
	while (m->n_dirty && flush(m) == 0)
		;
	m->db.host->event_free(m->timer);
	memory_done(&m->memory);
	free(m);
}
