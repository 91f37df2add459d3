/* What new source addresses may still send today: plans (proto/relay/warmup.h) against what was taken by all workers, in the database. A worker takes
 * small shares of a day's allowance, so that not each message costs a statement, and gives back what is left when it ends. One message is booked when
 * a session from such an address is for it, and the next one before the session is kept; a session that finds nothing left is closed behind its message,
 * so the surplus leaves by the other addresses at once. The database is away: the new address sends no more than was taken before. */
#include "internet.h"

#include "known.h"
#include "memory.h"
#include "proto/relay/warmup.h"
#include "say.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	SHARES_KEPT = 5000,        /* addresses times destinations in memory */
	EMPTY_MS = 60000,          /* nothing was left: others may have given back then */
	AWAY_MS = 10000,           /* the database did not answer: it is not asked for each message */
	TAKE_MS = 1000,            /* a share is waited for so long, with all sessions: a message is to leave, by this address or another one */
	DAY_US_PER_S = 1000000,
};

struct warm_share {
	struct memory_item item;   /* key: octets of the address, then the destination's key */
	struct warm *w;
	char ip[INET6_ADDRSTRLEN];
	char destination[SHAPE_KEY_MAX + 1];
	int64_t day, left;         /* of the day: taken, and neither used nor booked */
	int64_t not_before;        /* monotonic ms: not to be asked for again until then */
	unsigned booked;           /* lines that hold one */
	bool told_empty, told_over;
};
struct warm {
	const struct pepsi_host *host;
	struct known *known;
	const struct warmups *plans;
	struct memory memory;
	struct pepsi_metric *metric;
};

static int64_t today(const struct warm *w)
{
	return w->host->now_us() / DAY_US_PER_S / 86400;
}

static void measure(const struct warm *w, const char *what)
{
	if (w->metric)
		w->host->measure(w->metric, what, 1);
}

/* -- the table */

/* Up to `want` of the day's allowance; 0 also while the database is away. */
static int64_t take(struct warm_share *s, int64_t allowance, int64_t want)
{
	char day[24], most[24], n[24];
	const char *values[] = { s->ip, s->destination, day, most, n };
	snprintf(day, sizeof day, "%lld", (long long)s->day);
	snprintf(most, sizeof most, "%lld", (long long)allowance);
	snprintf(n, sizeof n, "%lld", (long long)want);
	PGresult *r = known_now(s->w->known, "SELECT pepsi.warmup_take($1::text, $2::text, $3::integer, $4::bigint, $5::bigint)", 5, values, TAKE_MS);
	int64_t got = r && PQntuples(r) == 1 ? known_number(r, 0, 0) : 0;
	s->not_before = got ? 0 : s->w->host->mono_ms() + (r ? EMPTY_MS : AWAY_MS);
	PQclear(r);
	return got < want ? got : want;
}

/* What is left of these goes back; of days that are over nobody needs it. */
static void give(struct warm *w, struct warm_share *const *shares, size_t n)
{
	struct buf b[4] = { KNOWN_ARRAY, KNOWN_ARRAY, KNOWN_ARRAY, KNOWN_ARRAY };
	const char *values[4];
	bool good = true;
	size_t some = 0;
	for (size_t i = 0; i < n; i++) {
		struct warm_share *s = shares[i];
		if (s->left < 1 || s->day != today(w))
			continue;
		known_add(&b[0], str_from(s->ip));
		known_add(&b[1], str_from(s->destination));
		known_add_number(&b[2], s->day);
		known_add_number(&b[3], s->left);
		s->left = 0;
		some++;
	}
	for (int k = 0; k < 4; k++)
		good &= (values[k] = known_end(&b[k])) != NULL;
	if (some && good)
		known_ask(w->known, "SELECT pepsi.warmup_give($1::text[], $2::text[], $3::integer[], $4::bigint[])", 4, values, NULL, NULL);
	for (int k = 0; k < 4; k++)
		buf_free(&b[k]);
}

static bool may_go(void *item)
{
	return !((struct warm_share *)item)->booked;
}

static void gone(void *item)
{
	struct warm_share *s = item;
	give(s->w, &s, 1);
	free(s);
}

/* -- shares */

struct warm *warm_new(struct worker *worker)
{
	const struct pepsi_host *host = worker->host;
	struct warm *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	w->host = host;
	w->known = worker->known;
	w->plans = worker->set.warmups;
	if (PEPSI_HAS(host, metric))
		w->metric = host->metric(worker->conf, PEPSI_METRIC_COUNTER, "warmup_messages", "result",
		    "Messages and source addresses that have a warm-up plan");
	memory_init(&w->memory, SHARES_KEPT, route_mix(&worker->seed), may_go, gone);
	return w;
}

void warm_free(struct warm *w)
{
	enum { BATCH = 500 };
	struct warm_share *batch[BATCH];
	struct memory_item *i;
	size_t n = 0;
	if (!w)
		return;
	TAILQ_FOREACH(i, &w->memory.items, link) {
		batch[n++] = (struct warm_share *)(void *)i;
		if (n == BATCH) {
			give(w, batch, n);
			n = 0;
		}
	}
	give(w, batch, n);
	known_settle(w->known);
	memory_done(&w->memory);
	free(w);
}

static struct warm_share *share(struct warm *w, const struct source *source, const char *destination)
{
	char key[MEMORY_KEY_MAX + 32];
	size_t n = strlen(destination);
	if (n > SHAPE_KEY_MAX || source->n + n > MEMORY_KEY_MAX)
		n = MEMORY_KEY_MAX - source->n; /* of two that begin alike for so long one plan is used up earlier */
	memcpy(key, source->ip, source->n);
	memcpy(key + source->n, destination, n);
	struct str k = str_n(key, source->n + n);
	struct warm_share *s = memory_get(&w->memory, k);
	if (s || !(s = calloc(1, sizeof *s)))
		return s;
	s->w = w;
	s->day = -1;
	inet_ntop(source->n == 4 ? AF_INET : AF_INET6, source->ip, s->ip, sizeof s->ip);
	memcpy(s->destination, destination, n);
	if (memory_put(&w->memory, k, &s->item) == 0)
		return s;
	free(s);
	return NULL;
}

/* Is there one more message in it? Asks the database when the last share is used. */
static bool one_left(struct warm *w, struct warm_share *s, int64_t allowance)
{
	int64_t day = today(w);
	if (s->day != day) {
		s->day = day;
		s->left = s->not_before = 0;
		s->told_empty = s->told_over = false;
	}
	if (s->left < 1 && allowance > 0 && w->host->mono_ms() >= s->not_before)
		s->left = take(s, allowance, warmup_share(allowance));
	if (s->left < 1 && !s->told_empty) {
		s->told_empty = true;
		say(w->host, NULL, PEPSI_LOG_INFO, "event=warmup-full source=%s destination=%s allowance=%lld", s->ip, s->destination, (long long)allowance);
	}
	return s->left > 0;
}

enum source_allowed warm_allows(void *arg, const struct source *source, const char *destination)
{
	struct warm *w = arg;
	int64_t allowance = warmups_allowance(w->plans, source->ip, source->n, today(w));
	if (allowance == WARMUP_FREE)
		return SOURCE_MAY;
	struct warm_share *s = share(w, source, destination);
	if (s && one_left(w, s, allowance))
		return SOURCE_FIRST;
	measure(w, "turned-away");
	return SOURCE_NOT;
}

bool warm_book(struct warm *w, const struct source *source, const char *destination, struct warm_share **ret)
{
	int64_t allowance = w && source ? warmups_allowance(w->plans, source->ip, source->n, today(w)) : WARMUP_FREE;
	*ret = NULL;
	if (allowance == WARMUP_FREE)
		return true;
	struct warm_share *s = share(w, source, destination);
	if (!s || !one_left(w, s, allowance))
		return false;
	s->left--;
	s->booked++;
	*ret = s;
	return true;
}

void warm_over(struct warm *w, const struct source *source, const char *destination)
{
	struct warm_share *s = share(w, source, destination);
	measure(w, "over");
	if (!s || s->told_over)
		return;
	s->told_over = true;
	say(w->host, NULL, PEPSI_LOG_WARN, "event=warmup-over source=%s destination=%s hint=\"the pool has no address without a plan: mail leaves all the same\"",
	    s->ip, s->destination);
}

void warm_end(struct warm_share **share, bool used)
{
	struct warm_share *s = *share;
	*share = NULL;
	if (!s)
		return;
	s->booked--;
	if (used)
		measure(s->w, "sent");
	else if (s->day == today(s->w)) /* a booking of yesterday's is nobody's */
		s->left++;
}
