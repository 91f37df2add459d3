/* Domains whose hosts were not as safe as they must be: left alone a while, one message being tried then. Kept by domain and demand (struct delivery's
 * tag), not by destination: whoever shares the hosts and asks for less is served meanwhile, and a demand that changes is tried at once. In this
 * worker's memory only: all mail of one domain comes to one worker. No I/O. */
#include "internet.h"

#include "base/log.h"
#include "memory.h"
#include "say.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	DOMAINS_MAX = 5000,      /* left alone at once; the longest unused are tried sooner */
	FREE_FAILURES = 3,       /* in a row before the first pause, as with destinations (traffic.h) */
	PROBE_MS = 120000,       /* whoever tries and is not heard of for so long has failed */
	PROBE_BACK_S = 15,       /* meanwhile the others come again after this, and as much by chance */
	WHY_MAX = 300,
	SHOWN_MS = 24 * 3600 * 1000, /* since its pause ended; nobody may write there any more */
};

struct unsafe {
	struct memory_item item;
	unsigned failures;
	int64_t until, pause_ms, probe_at; /* monotonic ms; 0: none */
	int64_t refused_at;
	char why[WHY_MAX], domain[DNS_NAME_MAX + 3];
};

struct safety {
	struct memory memory;
	uint64_t seed;
};

static bool may_go(void *item)
{
	(void)item;
	return true;
}

struct safety *safety_new(const struct pepsi_host *host)
{
	struct safety *s = calloc(1, sizeof *s);
	if (s) {
		s->seed = (uint64_t)host->now_us() * UINT64_C(0x9e3779b97f4a7c15);
		memory_init(&s->memory, DOMAINS_MAX, s->seed, may_go, free);
	}
	return s;
}

void safety_free(struct safety *s)
{
	if (s)
		memory_done(&s->memory);
	free(s);
}

static struct str key_of(const struct delivery *d, char ret[MEMORY_KEY_MAX])
{
	size_t n = strnlen(d->domain, MEMORY_KEY_MAX - sizeof d->tag - 1);
	memcpy(ret, d->domain, n);
	memcpy(ret + n, &d->tag, sizeof d->tag);
	return str_n(ret, n + sizeof d->tag);
}

static struct unsafe *find(const struct delivery *d)
{
	char key[MEMORY_KEY_MAX];
	return memory_get(&d->w->safety->memory, key_of(d, key));
}

uint32_t safety_rests(struct delivery *d, const char **ret_why)
{
	struct unsafe *u = find(d);
	int64_t now = d->w->host->mono_ms();
	if (!u || u->failures < FREE_FAILURES)
		return 0;
	*ret_why = u->why;
	uint64_t chance = route_mix(&d->w->safety->seed);
	if (u->until > now) /* not all at the same moment */
		return (uint32_t)((u->until - now + 999) / 1000) + (uint32_t)(chance % (uint64_t)(u->pause_ms / 4000 + 1));
	if (u->probe_at && now - u->probe_at < PROBE_MS)
		return PROBE_BACK_S + (uint32_t)(chance % PROBE_BACK_S);
	u->probe_at = now;
	return 0;
}

void safety_refused(struct delivery *d)
{
	struct unsafe *u = find(d);
	int64_t now = d->w->host->mono_ms(), first = d->name.shape->backoff_first_ms, most = d->name.shape->backoff_most_ms;
	char key[MEMORY_KEY_MAX];
	if (!u) {
		if (!(u = calloc(1, sizeof *u)))
			return;
		if (memory_put(&d->w->safety->memory, key_of(d, key), &u->item)) {
			free(u);
			return;
		}
	}
	u->probe_at = 0;
	u->refused_at = now;
	snprintf(u->domain, sizeof u->domain, "%s", d->domain);
	snprintf(u->why, sizeof u->why, "%.*s", (int)str_utf8_cut(str_from(d->unsafe), WHY_MAX - 1), d->unsafe);
	if (u->until > now || ++u->failures < FREE_FAILURES)
		return; /* what began before the pause says nothing new */
	bool news = !u->pause_ms;
	u->pause_ms = news ? first : u->pause_ms * 2 < most ? u->pause_ms * 2 : most;
	u->until = now + u->pause_ms;
	if (news)
		say(d->w->host, NULL, PEPSI_LOG_WARN, "event=domain-unsafe domain=%s destination=%s seconds=%lld reason=%s", d->domain, d->name.key,
		    (long long)(u->pause_ms / 1000), log_qz(u->why));
}

void safety_met(struct delivery *d)
{
	struct unsafe *u = find(d);
	if (!u)
		return;
	if (u->pause_ms)
		say(d->w->host, NULL, PEPSI_LOG_INFO, "event=domain-safe domain=%s destination=%s", d->domain, d->name.key);
	memory_drop(&d->w->safety->memory, &u->item);
}

size_t safety_view(const struct safety *s, int64_t now, struct traffic_view *v, size_t most)
{
	const struct memory_item *i;
	size_t n = 0;
	if (!v)
		return s->memory.n;
	TAILQ_FOREACH(i, &s->memory.items, link) {
		const struct unsafe *u = (const struct unsafe *)(const void *)i;
		if (n == most)
			break;
		if (u->pause_ms && now - u->until < SHOWN_MS)
			v[n++] = (struct traffic_view){ .key = u->domain, .state = TRAFFIC_UNSAFE, .backoff_ms = u->until > now ? u->until - now : 0,
				.trouble = TROUBLE_TLS, .trouble_ms = now - u->refused_at, .error = u->why, .failed = u->failures };
	}
	return n;
}
