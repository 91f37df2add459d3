/* Who may hold how many messages, and when those given back come again; see traffic.h, "Room". */
#include "proto/relay/traffic_internal.h"

unsigned room_share(unsigned of, enum room r)
{
	unsigned share = r == ROOM_POOR ? of / 4 : r == ROOM_NEW ? of / 2 : of;
	return share ? share : 1;
}

void usual(int64_t *median, int64_t sample)
{
	int64_t step = *median / 32 + 1;
	*median += sample > *median ? step : sample < *median ? -step : 0;
}

static int64_t stretched(int64_t ms, int64_t typical)
{
	typical *= 4;
	return typical < ms ? ms : typical > ms * OWN_DELAY ? ms * OWN_DELAY : typical;
}

int64_t slow_ms(const struct traffic *t)
{
	return stretched(TRAFFIC_SLOW_MS, t->typical);
}

int64_t trial_ms(const struct traffic *t)
{
	return stretched(TRAFFIC_TRIAL_MS, t->typical_open);
}

int64_t dest_pace(const struct traffic_destination *d)
{
	int64_t us = d->interval_us > d->learnt_us ? d->interval_us : d->learnt_us, by_time, at_once;
	if (d->failures || (d->suspect && !d->mean))
		return us / 1000 > PACE_FAILED_MS ? us / 1000 : PACE_FAILED_MS;
	/* where nothing speaks against it the window will open */
	at_once = d->room == ROOM_POOR ? (d->busy.n ? d->busy.n : 1) : d->steady ? d->window / WINDOW_ONE : d->ceiling ? d->ceiling : d->concurrency;
	by_time = (d->mean ? d->mean : PACE_UNKNOWN_MS) / (at_once ? at_once : 1);
	if (us / 1000 > by_time)
		by_time = us / 1000;
	return by_time ? by_time : 1;
}

/* What this kind may hold now: those that nothing is known of have what the poor leave of theirs, too. */
static unsigned share_now(const struct traffic *t, enum room r)
{
	unsigned share = room_share(t->conf.slots, r), poor = room_share(t->conf.slots, ROOM_POOR);
	return r == ROOM_NEW && t->held[ROOM_POOR] < poor ? share + poor - t->held[ROOM_POOR] : share;
}

/* What is free for this destination's kind. */
static unsigned free_for(const struct traffic *t, enum room r)
{
	unsigned share = share_now(t, r), all = 0, kind;
	for (unsigned i = 0; i < ROOM_N; i++)
		all += t->held[i];
	kind = t->held[r] < share ? share - t->held[r] : 0;
	all = all < t->conf.slots ? t->conf.slots - all : 0;
	return kind < all ? kind : all;
}

/* A part of what is free, not a number: many share the room evenly however many they are, and one alone may have much of it. */
unsigned room_of(const struct traffic *t, const struct traffic_destination *d, int64_t now)
{
	unsigned held = dest_held(d), room = free_for(t, d->room), most;
	int64_t n;
	if (!room)
		return held;
	if (d->until > now)
		return d->until - now <= TRAFFIC_HORIZON_MS ? 1 : 0;
	if (d->probe)
		return 1;
	switch (d->room) {
	case ROOM_NEW:
		most = room / 16;
		return most < 1 ? 1 : most > 8 ? 8 : most;
	case ROOM_POOR:
		most = room / 8;
		n = 2 * (d->window / WINDOW_ONE);
		return most < 1 ? 1 : most > n ? (unsigned)n : most;
	default:
		if (room < t->conf.slots / GOOD_PART) /* all is in use by those that are well: no reason to give anything back as long as there is a slot */
			room = t->conf.slots / GOOD_PART;
		n = TRAFFIC_HORIZON_MS / dest_pace(d) + 2;
		if (n < 2 + 2 * (int64_t)(d->window / WINDOW_ONE))
			n = 2 + 2 * (int64_t)(d->window / WINDOW_ONE);
		return n < room ? (unsigned)n : room;
	}
}

void room_sort(struct traffic *t, struct traffic_destination *d, int64_t now)
{
	enum room r = d->failures || d->suspect || d->slow || d->stalled ? ROOM_POOR : d->proven ? ROOM_GOOD : ROOM_NEW;
	(void)now;
	if (r == d->room)
		return;
	dest_ready(t, d, false);
	dest_count(t, d, -(int)dest_held(d), -(int)(d->busy.n + d->n_starting));
	d->room = r;
	dest_count(t, d, (int)dest_held(d), (int)(d->busy.n + d->n_starting));
	if (r == ROOM_POOR)
		dest_shed(t, d);
}

void room_press(struct traffic *t, int64_t now)
{
	unsigned all = t->held[ROOM_NEW] + t->held[ROOM_GOOD] + t->held[ROOM_POOR];
	if (t->held[ROOM_NEW] * 2 < room_share(t->conf.slots, ROOM_NEW) && all + all / 7 < t->conf.slots)
		return;
	int64_t most = t->typical_open ? 8 * t->typical_open : TRAFFIC_TRIAL_MS / 4;
	most = most < TRAFFIC_TRIAL_MS / 8 ? TRAFFIC_TRIAL_MS / 8 : most > trial_ms(t) ? trial_ms(t) : most;
	while (t->trial.last && now - t->trial.last->since >= most)
		dest_suspect(t, t->trial.last->at, now);
}

void trial_over(struct traffic *t, struct traffic_link *k, int64_t now)
{
	if (!k->trial)
		return;
	k->trial = false;
	idle_del(&t->trial, k);
	t->new_ms += (now - k->since - t->new_ms) / 16;
	if (t->new_ms < 10)
		t->new_ms = 10;
}

void dest_suspect(struct traffic *t, struct traffic_destination *d, int64_t now)
{
	for (struct traffic_link *k = d->busy.first; k; k = k->next)
		trial_over(t, k, now);
	d->suspect = d->abandon = true;
	dest_shed(t, d);
	room_sort(t, d, now);
}

/* A destination that finds no place among its kind has one later, in line with the others: one place, however many messages. */
static int64_t admitted(struct traffic *t, struct traffic_destination *d, int64_t now, unsigned share)
{
	int64_t each = (d->room == ROOM_POOR ? t->poor_ms : t->new_ms) * 1000 / share, *turn = &t->back_turn[d->room];
	if (d->admit > now)
		return d->admit + t->new_ms;
	if (*turn < now * 1000)
		*turn = now * 1000;
	*turn += each ? each : 1;
	if (*turn > (now + TRAFFIC_BACK_MOST_S * INT64_C(1000)) * 1000)
		*turn = (now + TRAFFIC_BACK_MOST_S * INT64_C(1000)) * 1000;
	return d->admit = *turn / 1000;
}

/* There is no slot at all: the line is that of all messages, as fast as they leave. */
static int64_t any_slot(struct traffic *t, int64_t now)
{
	int64_t *turn = &t->back_turn[ROOM_GOOD];
	unsigned rate = t->each_second > t->in_second ? t->each_second : t->in_second;
	if (*turn < now * 1000)
		*turn = now * 1000;
	*turn += 1000000 / (rate > t->conf.slots / 2 ? rate : t->conf.slots / 2 + 1);
	if (*turn > (now + 60000) * 1000) /* we may get faster, too */
		*turn = (now + 60000) * 1000;
	return *turn / 1000;
}

/* Nothing is known of it, and its first session takes longer than most do: how long until that is known to be slow. 0: it is in time. */
static int64_t late(const struct traffic *t, const struct traffic_destination *d, int64_t now)
{
	int64_t since, most = 2 * t->typical_open > LATE_MS ? 2 * t->typical_open : LATE_MS;
	if (d->room != ROOM_NEW || d->proven || !d->n_opening || now - (since = d->busy.first->since) < most)
		return 0;
	return since + trial_ms(t) > now ? since + trial_ms(t) - now : 1;
}

/* Those that were not even asked for: behind all that were given back, one by one. Of one that is well only the operator's rate is known to last. */
static void others_back(const struct traffic *t, const struct traffic_destination *d, int64_t now, int64_t base, int64_t pace, struct traffic_back *ret)
{
	int64_t at = d->turn > base ? d->turn : base, trial = late(t, d, now);
	bool lasts = d->until > now || d->probe || d->room == ROOM_POOR || (d->interval_us && pace == d->interval_us / 1000);
	ret->others_s = ret->each_ms = 0;
	if (!lasts && !trial)
		return;
	if (!lasts) {
		at = now + trial;
		pace = LATE_EACH_MS;
	}
	at = (at - now + 999) / 1000;
	ret->others_s = (unsigned)(at < 1 ? 1 : at > TRAFFIC_BACK_MOST_S ? TRAFFIC_BACK_MOST_S : at);
	ret->each_ms = (unsigned)(pace < 1 ? 1 : pace > TRAFFIC_BACK_MOST_S * 1000 ? TRAFFIC_BACK_MOST_S * 1000 : pace);
}

void room_back(struct traffic *t, struct traffic_destination *d, int64_t now, struct traffic_back *ret)
{
	int64_t pace = dest_pace(d), at = now + (int64_t)dest_held(d) * pace, most = now + TRAFFIC_BACK_MOST_S * INT64_C(1000), other, base, after = 0;
	unsigned share = share_now(t, d->room), held = t->held[ROOM_NEW] + t->held[ROOM_GOOD] + t->held[ROOM_POOR];
	bool line = true; /* behind those of this destination that were given back before */
	ret->why = d->interval_us || d->learnt_us ? "rate" : "window";
	if (d->until > now && !d->called && !d->n_waiting) {
		d->called = true; /* this one is the probe, the others come when its outcome is known */
		ret->why = "backoff";
		at = d->until;
		line = false;
	} else if (d->until > now || d->probe) {
		ret->why = "backoff";
		at = (d->until > now ? d->until : now) + (d->probe ? d->failed_ms + 1000 : 0);
	} else if (d->room != ROOM_GOOD && t->held[d->room] >= share && !dest_held(d)) {
		ret->why = d->room == ROOM_POOR ? "poor" : "full";
		line = d->admit > now;
		at = admitted(t, d, now, share);
		after = d->suspect ? SUSPECT_MS : d->mean; /* that one is tried, and will have shown more by then */
	} else if (d->suspect && dest_held(d)) {
		ret->why = "poor";
		at = now + SUSPECT_MS; /* what is tried will have shown more by then */
	} else if (held + held / 8 >= t->conf.slots && (other = any_slot(t, now)) > at) {
		ret->why = "full";
		at = other;
		line = false;
	}
	base = at + after; /* the probe's outcome is to be known before others come */
	if (d->until > now && d->probe && base < d->until + d->failed_ms + 1000)
		base = d->until + d->failed_ms + 1000;
	if (line) {
		d->turn = (d->turn > at ? d->turn : at) + pace;
		at = d->turn = d->turn < most ? d->turn : most;
	}
	at -= now;
	at += (int64_t)(route_mix(&t->chance) % (uint64_t)(at / 16 + 1));
	at = (at + 999) / 1000;
	ret->seconds = (unsigned)(at < 1 ? 1 : at > TRAFFIC_BACK_MOST_S ? TRAFFIC_BACK_MOST_S : at);
	memcpy(t->text, d->error, sizeof t->text);
	ret->text = t->text;
	others_back(t, d, now, base, pace, ret);
	d->given_back++;
	t->totals.given_back++;
}
