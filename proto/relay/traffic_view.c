/* What an operator sees of shaping; see traffic.h. */
#include "base/json.h"
#include "proto/relay/traffic_internal.h"

const char *traffic_state_name(enum traffic_state s)
{
	static const char *const names[] = { "new", "good", "slow", "backoff", "probe", "unsafe" };
	return (unsigned)s < sizeof names / sizeof *names ? names[s] : "";
}

static enum traffic_state state_of(const struct traffic_destination *d, int64_t now)
{
	if (d->until > now)
		return TRAFFIC_WAITING;
	if (d->probe)
		return TRAFFIC_PROBING;
	return d->room == ROOM_POOR ? TRAFFIC_POOR : d->room == ROOM_GOOD ? TRAFFIC_GOOD : TRAFFIC_NEW;
}

void view_of(const struct traffic_destination *d, int64_t now, struct traffic_view *ret)
{
	int64_t us = d->interval_us > d->learnt_us ? d->interval_us : d->learnt_us;
	unsigned window = d->window / WINDOW_ONE;
	if (d->ceiling && window > d->ceiling)
		window = d->ceiling;
	*ret = (struct traffic_view){ .key = d->key, .state = state_of(d, now), .window = d->until > now ? 0 : d->probe ? 1 : window,
		.concurrency = d->concurrency, .working = d->busy.n, .idle = d->idle.n, .waiting = d->n_waiting,
		.rate = us ? (unsigned)(INT64_C(60000000) / us) : 0, .backoff_ms = d->until > now ? d->until - now : 0, .mean_ms = d->mean,
		.trouble = d->trouble, .trouble_ms = d->trouble == TROUBLE_NONE ? 0 : now - d->trouble_at, .error = d->error, .sent = d->sent,
		.refused = d->refused, .failed = d->failed, .given_back = d->given_back };
}

bool traffic_view(const struct traffic *t, int64_t now, const void **pos, struct traffic_view *ret)
{
	const struct traffic_destination *d = *pos ? ((const struct traffic_destination *)*pos)->use_next : t->use_first;
	if (!d)
		return false;
	*pos = d;
	view_of(d, now, ret);
	return true;
}

static void number(struct buf *out, const char *key, uint64_t v)
{
	json_put_key(out, key);
	buf_addf(out, "%llu", (unsigned long long)v);
}

void traffic_view_json(const struct traffic_view *v, struct buf *out)
{
	buf_addc(out, '{');
	json_put_member(out, "destination", str_from(v->key));
	json_put_member(out, "state", str_from(traffic_state_name(v->state)));
	number(out, "window", v->window);
	number(out, "concurrency", v->concurrency);
	number(out, "working", v->working);
	number(out, "idle", v->idle);
	number(out, "waiting", v->waiting);
	number(out, "rate_per_minute", v->rate);
	number(out, "backoff_ms", (uint64_t)v->backoff_ms);
	number(out, "mean_ms", (uint64_t)v->mean_ms);
	number(out, "sent", v->sent);
	number(out, "refused", v->refused);
	number(out, "failed", v->failed);
	number(out, "given_back", v->given_back);
	if (v->tls)
		json_put_member(out, "tls", str_from(v->tls));
	if (v->trouble != TROUBLE_NONE) {
		json_put_member(out, "trouble", str_from(trouble_name(v->trouble)));
		number(out, "trouble_ago_ms", (uint64_t)(v->trouble_ms < 0 ? 0 : v->trouble_ms));
		json_put_member(out, "error", str_from(v->error));
	}
	buf_addc(out, '}');
}

void traffic_totals(const struct traffic *t, struct traffic_totals *ret)
{
	*ret = t->totals;
	ret->destinations = t->n;
	ret->slots = t->conf.slots;
	ret->held = t->held[ROOM_NEW] + t->held[ROOM_GOOD] + t->held[ROOM_POOR];
	ret->held_new = t->held[ROOM_NEW];
	ret->held_poor = t->held[ROOM_POOR];
	ret->sessions = t->n_links;
	ret->idle = 0;
	for (const struct traffic_link *k = t->idle.first; k; k = k->idle_next)
		ret->idle++;
	ret->failing = 0;
	for (const struct traffic_destination *d = t->use_first; d; d = d->use_next)
		ret->failing += d->failures != 0;
}
