/* The books of quota.h: a hash table with a list of use. */
#include "quota.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 4096, HOUR = 3600, DAY = 86400 };

struct line {
	struct line *next;          /* in the bucket */
	struct line *newer, *older;
	struct quota_use use;
	bool changed;
};

struct quota {
	struct line *buckets[BUCKETS];
	struct line *newest, *oldest;
	size_t n, max;
};

struct quota *quota_new(size_t accounts)
{
	struct quota *q = calloc(1, sizeof *q);
	if (q)
		q->max = accounts ? accounts : 1;
	return q;
}

void quota_free(struct quota *q)
{
	if (!q)
		return;
	while (q->newest) {
		struct line *l = q->newest;
		q->newest = l->older;
		free(l);
	}
	free(q);
}

/* Names are those of existing accounts: nobody can choose them to fall into one bucket. */
static struct line **bucket(struct quota *q, struct str name)
{
	uint32_t h = 2166136261u;
	for (size_t i = 0; i < name.n; i++)
		h = (h ^ (unsigned char)name.p[i]) * 16777619u;
	return &q->buckets[(h ^ h >> 16) % BUCKETS];
}

static void drop_link(struct quota *q, struct line *l)
{
	*(l->newer ? &l->newer->older : &q->newest) = l->older;
	*(l->older ? &l->older->newer : &q->oldest) = l->newer;
}

static void add_link(struct quota *q, struct line *l)
{
	l->newer = NULL;
	l->older = q->newest;
	*(l->older ? &l->older->newer : &q->oldest) = l;
	q->newest = l;
}

static struct line *find(struct quota *q, struct str name)
{
	struct line *l = *bucket(q, name);
	while (l && !str_eq(str_from(l->use.name), name))
		l = l->next;
	return l;
}

static void forget(struct quota *q, struct line *l)
{
	struct line **at = bucket(q, str_from(l->use.name));
	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	drop_link(q, l);
	free(l);
	q->n--;
}

static struct line *find_or_add(struct quota *q, struct str name, int64_t now)
{
	struct line *l = find(q, name);
	if (l) {
		drop_link(q, l);
		add_link(q, l);
		return l;
	}
	if (name.n > QUOTA_NAME_MAX || !name.n || !(l = calloc(1, sizeof *l)))
		return NULL;
	if (q->n == q->max)
		forget(q, q->oldest);
	memcpy(l->use.name, name.p, name.n);
	l->use.hour_at = l->use.day_at = now;
	struct line **at = bucket(q, name);
	l->next = *at;
	*at = l;
	add_link(q, l);
	q->n++;
	return l;
}

static uint64_t less(uint64_t count, uint64_t windows, uint32_t cap)
{
	/* without a cap there is no backlog: a new window begins at nothing */
	if (!cap || windows > count / cap)
		return 0;
	return count - windows * cap;
}

/* Each window that is over has let out as much as its cap; what is above that was scheduled into the next ones. */
static void roll(int64_t *at, int64_t now, int64_t length, uint64_t *messages, uint32_t cap_messages, uint64_t *recipients,
    uint32_t cap_recipients)
{
	if (now < *at) { /* the clock went back */
		*at = now;
		return;
	}
	uint64_t windows = (uint64_t)((now - *at) / length);
	if (!windows)
		return;
	*messages = less(*messages, windows, cap_messages);
	*recipients = less(*recipients, windows, cap_recipients);
	*at += (int64_t)windows * length;
	if (!*messages && !*recipients)
		*at = now;
}

/* In how many windows there is room for `add` more: 0, in this one. */
static uint64_t ahead(uint64_t count, unsigned add, uint32_t cap)
{
	return cap ? (count + add - 1) / cap : 0;
}

bool quota_take(struct quota *q, struct str account, const struct quota_caps *c, unsigned recipients, int64_t now, struct quota_verdict *ret)
{
	*ret = (struct quota_verdict){ 0 };
	if (!c->messages_hour && !c->messages_day && !c->recipients_hour && !c->recipients_day)
		return true;
	struct line *l = find_or_add(q, account, now);
	if (!l)
		return false;
	struct quota_use *u = &l->use;
	roll(&u->hour_at, now, HOUR, &u->messages_hour, c->messages_hour, &u->recipients_hour, c->recipients_hour);
	roll(&u->day_at, now, DAY, &u->messages_day, c->messages_day, &u->recipients_day, c->recipients_day);
	const struct {
		uint64_t windows;
		int64_t at, length;
		unsigned most;
		const char *name;
		uint32_t cap;
	} rules[] = {
		{ ahead(u->messages_hour, 1, c->messages_hour), u->hour_at, HOUR, QUOTA_HOURS_MAX, "messages per hour", c->messages_hour },
		{ ahead(u->recipients_hour, recipients, c->recipients_hour), u->hour_at, HOUR, QUOTA_HOURS_MAX, "recipients per hour", c->recipients_hour },
		{ ahead(u->messages_day, 1, c->messages_day), u->day_at, DAY, QUOTA_DAYS_MAX, "messages per day", c->messages_day },
		{ ahead(u->recipients_day, recipients, c->recipients_day), u->day_at, DAY, QUOTA_DAYS_MAX, "recipients per day", c->recipients_day },
	};
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
		if (!rules[i].windows)
			continue;
		ret->refuse |= rules[i].windows > rules[i].most;
		int64_t until = rules[i].windows > rules[i].most ? INT64_MAX : rules[i].at + (int64_t)rules[i].windows * rules[i].length;
		if (until > ret->until) {
			ret->until = until;
			ret->cap = rules[i].name;
			ret->limit = rules[i].cap;
		}
	}
	l->changed = true;
	if (ret->refuse)
		return true;
	u->messages_hour++;
	u->messages_day++;
	u->recipients_hour += recipients;
	u->recipients_day += recipients;
	if (ret->until && (u->told_at < u->hour_at || u->told_at > now)) {
		ret->tell = true;
		u->told_at = now;
	}
	return true;
}

void quota_return(struct quota *q, struct str account, unsigned recipients)
{
	struct line *l = find(q, account);
	if (!l)
		return;
	struct quota_use *u = &l->use;
	u->messages_hour -= u->messages_hour > 0;
	u->messages_day -= u->messages_day > 0;
	u->recipients_hour -= u->recipients_hour < recipients ? u->recipients_hour : recipients;
	u->recipients_day -= u->recipients_day < recipients ? u->recipients_day : recipients;
	l->changed = true;
}

size_t quota_changed(struct quota *q, struct quota_use *ret, size_t max)
{
	size_t n = 0;
	/* what changed was used: it stands at the front, mostly */
	for (struct line *l = q->newest; l && n < max; l = l->older)
		if (l->changed) {
			l->changed = false;
			ret[n++] = l->use;
		}
	return n;
}

void quota_again(struct quota *q, const struct quota_use *lines, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct line *l = find(q, str_from(lines[i].name));
		if (l)
			l->changed = true;
	}
}

void quota_restore(struct quota *q, const struct quota_use *line)
{
	struct str name = str_from(line->name);
	struct line *l = find(q, name);
	if (!l && (q->n == q->max || !(l = find_or_add(q, name, line->hour_at))))
		return;
	struct quota_use *u = &l->use;
	u->messages_hour += line->messages_hour;
	u->messages_day += line->messages_day;
	u->recipients_hour += line->recipients_hour;
	u->recipients_day += line->recipients_day;
	u->hour_at = line->hour_at;
	u->day_at = line->day_at;
	u->told_at = u->told_at > line->told_at ? u->told_at : line->told_at;
}

size_t quota_accounts(const struct quota *q)
{
	return q->n;
}
