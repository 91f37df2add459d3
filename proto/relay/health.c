/* When an address is tried; see health.h. */
#include "proto/relay/health.h"

const char *health_state_name(enum health_state s)
{
	static const char *const names[] = { "good", "new", "due", "paused", "probed" };
	return (unsigned)s < sizeof names / sizeof *names ? names[s] : "";
}

enum health_state health_state(const struct health *h, int64_t now)
{
	if (!h || (!h->ok_at && !h->failed_at))
		return HEALTH_NEW;
	if (!h->failures)
		return now - h->ok_at > HEALTH_FORGET ? HEALTH_NEW : HEALTH_GOOD;
	if (now - h->failed_at > HEALTH_FORGET)
		return HEALTH_NEW;
	if (h->probe_at && now >= h->probe_at && now - h->probe_at < HEALTH_PROBE_S)
		return HEALTH_PROBED;
	/* a clock that was set back does not make a pause longer than it can be */
	return h->until > now && h->until - now <= HEALTH_PAUSE_MOST * 2 ? HEALTH_PAUSED : HEALTH_DUE;
}

void health_succeeded(struct health *h, int64_t now)
{
	*h = (struct health){ .ok_at = now, .failed_at = h->failed_at };
}

void health_failed(struct health *h, int64_t now, uint64_t seed)
{
	int64_t pause = HEALTH_PAUSE_FIRST;
	/* several connections that were open at once and fail together are one failure */
	bool again = h->failures && h->until > now && !h->probe_at;
	h->failed_at = now;
	h->probe_at = 0;
	if (again)
		return;
	if (h->failures < 1000)
		h->failures++;
	for (unsigned i = 1; i < h->failures && pause < HEALTH_PAUSE_MOST; i++)
		pause *= 2;
	if (pause > HEALTH_PAUSE_MOST)
		pause = HEALTH_PAUSE_MOST;
	h->until = now + pause + (int64_t)(seed % ((uint64_t)pause / 4 + 1));
}

void health_probe(struct health *h, int64_t now)
{
	if (h->failures)
		h->probe_at = now;
}

size_t health_order(const struct health *const *h, size_t n, int64_t now, unsigned char *order, int64_t *ret_when)
{
	size_t n_order = 0;
	int64_t when = 0;
	for (size_t i = 0; i < n; i++) {
		enum health_state s = health_state(h[i], now);
		if (s == HEALTH_GOOD || s == HEALTH_NEW)
			order[n_order++] = (unsigned char)i;
	}
	for (size_t i = 0; i < n; i++) {
		enum health_state s = health_state(h[i], now);
		if (s == HEALTH_DUE) {
			order[n_order++] = (unsigned char)i;
			break;
		}
		if (s == HEALTH_PAUSED || s == HEALTH_PROBED) {
			int64_t at = s == HEALTH_PAUSED ? h[i]->until : h[i]->probe_at + HEALTH_PROBE_S;
			if (!when || at < when)
				when = at;
		}
	}
	if (!n_order)
		*ret_when = when;
	return n_order;
}
