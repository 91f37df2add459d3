/* Answers about recipients, and the questions under way. Entries that are answered are forgotten by use and by age; those that are
 * asked live until their answer, or PATIENCE_S. */
#include "recipients_internal.h"

#include "base/clock.h"

#include <stdlib.h>

static void unlink_known(struct known_list *l, struct known *k)
{
	*(k->newer ? &k->newer->older : &l->newest) = k->older;
	*(k->older ? &k->older->newer : &l->oldest) = k->newer;
	l->n--;
}

static void link_known(struct known_list *l, struct known *k)
{
	k->newer = NULL;
	k->older = l->newest;
	*(k->older ? &k->older->newer : &l->oldest) = k;
	l->newest = k;
	l->n++;
}

static uint64_t hash(const struct recipients *r, enum known_kind kind, struct str name, struct str base)
{
	uint64_t h = r->salt ^ ((uint64_t)kind << 56);
	for (size_t i = 0; i < name.n; i++)
		h = (h ^ (unsigned char)name.p[i]) * UINT64_C(0x100000001b3);
	h = (h ^ 0x100) * UINT64_C(0x100000001b3);
	for (size_t i = 0; i < base.n; i++)
		h = (h ^ (unsigned char)base.p[i]) * UINT64_C(0x100000001b3);
	return h ^ h >> 31;
}

static void remove_known(struct recipients *r, struct known *k)
{
	struct known *first = map_get(&r->by_hash, k->hash);
	if (first == k) {
		map_del(&r->by_hash, k->hash);
		if (k->same)
			map_put(&r->by_hash, k->hash, k->same); /* into the slot just left: needs no memory */
	} else {
		while (first && first->same != k)
			first = first->same;
		if (first)
			first->same = k->same;
	}
	if (k->id)
		map_del(&r->by_id, k->id);
	if (k->batch)
		k->batch->of[k->batch_at] = NULL;
	unlink_known(k->answer == RECIPIENT_WAIT ? &r->asked : &r->answered, k);
	free(k);
}

void recipient_cache_limit(struct recipients *r)
{
	for (struct known *k = r->answered.oldest, *newer; k && r->answered.n > r->set.cached; k = newer) {
		newer = k->newer;
		if (!k->busy)
			remove_known(r, k);
	}
}

void recipient_cache_forget(struct recipients *r)
{
	r->generation++; /* answers under way are told, but not kept */
	for (struct known *k = r->answered.oldest, *newer; k; k = newer) {
		newer = k->newer;
		if (!k->busy && k->kind != KNOWN_ACCOUNT)
			remove_known(r, k);
	}
}

void recipient_cache_done(struct recipients *r)
{
	for (struct batch *b = r->batches; b; b = b->next)
		b->r = NULL; /* freed with its answer */
	r->batches = NULL;
	while (r->asked.oldest)
		remove_known(r, r->asked.oldest);
	while (r->answered.oldest)
		remove_known(r, r->answered.oldest);
	map_done(&r->by_hash);
	map_done(&r->by_id);
}

void recipient_cache_leave(struct part *p)
{
	if (!p->known)
		return;
	*(p->prev ? &p->prev->next : &p->known->waiting) = p->next;
	if (p->next)
		p->next->prev = p->prev;
	p->known = NULL;
}

void recipient_cache_answer(struct recipients *r, struct known *k, enum recipient_answer answer, const char *source)
{
	bool keep = answer != RECIPIENT_AWAY && k->generation == r->generation && r->set.cache_us > 0;
	unlink_known(&r->asked, k);
	k->answer = answer;
	k->source = source;
	k->at_us = keep ? clock_mono_us() : INT64_MIN / 2;
	k->busy = true;
	if (k->id)
		map_del(&r->by_id, k->id);
	k->id = 0;
	if (k->batch)
		k->batch->of[k->batch_at] = NULL;
	k->batch = NULL;
	link_known(&r->answered, k);
	while (k->waiting) {
		struct part *p = k->waiting;
		recipient_cache_leave(p);
		recipient_ask_part(p->ask, answer, source);
	}
	k->busy = false;
	if (!keep)
		remove_known(r, k);
	recipient_cache_limit(r);
}

static struct known *find(struct recipients *r, uint64_t h, enum known_kind kind, struct str name, struct str base)
{
	for (struct known *k = map_get(&r->by_hash, h); k; k = k->same)
		if (k->kind == kind && str_eq(k->name, name) && str_eq(k->base, base))
			return k;
	return NULL;
}

static struct known *make(struct recipients *r, uint64_t h, enum known_kind kind, struct str name, struct str base)
{
	struct known *k = calloc(1, sizeof *k + name.n + base.n), *first = map_get(&r->by_hash, h);
	if (!k)
		return NULL;
	memcpy(k->text, name.p, name.n);
	if (base.n)
		memcpy(k->text + name.n, base.p, base.n);
	k->name = str_n(k->text, name.n);
	k->base = str_n(k->text + name.n, base.n);
	k->hash = h;
	k->kind = kind;
	k->answer = RECIPIENT_WAIT;
	k->at_us = clock_mono_us();
	k->generation = r->generation;
	k->same = first;
	if (map_put(&r->by_hash, h, k)) {
		free(k);
		return NULL;
	}
	link_known(&r->asked, k);
	r->questions++;
	return k;
}

/* 0 or -1. */
static int ask(struct recipients *r, struct known *k)
{
	if (k->kind != KNOWN_ACCOUNT) {
		event_active(r->flush, EV_TIMEOUT, 0);
		return 0;
	}
	k->id = ++r->last_id;
	if (map_put(&r->by_id, k->id, k)) {
		k->id = 0;
		return -1;
	}
	/* without what is behind the delimiter; an account with a '+' in its name is none of those */
	return r->be.account(r->be.ctx, k->id, k->base.n ? k->base : k->name);
}

enum recipient_answer recipient_cache_ask(struct recipients *r, enum known_kind kind, struct str name, struct str base, struct part *p,
    const char **ret_source)
{
	uint64_t h = hash(r, kind, name, base);
	struct known *k = find(r, h, kind, name, base);
	if (k && k->answer != RECIPIENT_WAIT) {
		if (k->at_us + r->set.cache_us > clock_mono_us()) {
			unlink_known(&r->answered, k);
			link_known(&r->answered, k);
			r->hits++;
			*ret_source = k->source;
			return k->answer;
		}
		if (k->busy) /* it is about to go, and cannot be told to wait */
			return RECIPIENT_AWAY;
		remove_known(r, k);
		k = NULL;
	}
	if (!k) {
		if (kind != KNOWN_ACCOUNT && !r->be.up(r->be.ctx))
			return RECIPIENT_AWAY;
		k = make(r, h, kind, name, base);
		if (!k)
			return RECIPIENT_AWAY;
		if (ask(r, k)) {
			remove_known(r, k);
			return RECIPIENT_AWAY;
		}
	}
	p->known = k;
	p->prev = NULL;
	p->next = k->waiting;
	if (p->next)
		p->next->prev = p;
	k->waiting = p;
	return RECIPIENT_WAIT;
}

/* --- the database */

struct names {
	struct str of[5];
	size_t n;
};

static struct str domain_of(struct str full) /* with its '@' */
{
	size_t at = full.n;
	while (at > 0 && full.p[at - 1] != '@')
		at--;
	return at ? str_skip(full, at - 1) : STR_NULL;
}

static void put(struct names *n, struct str s)
{
	if (s.n)
		n->of[n->n++] = s;
}

static struct names table_names(const struct known *k)
{
	struct names n = { .n = 0 };
	if (k->kind & KNOWN_TABLE) {
		put(&n, k->name);
		put(&n, k->base);
		put(&n, domain_of(k->name));
	}
	return n;
}

/* As pepsi-stage-aliases looks them up. */
static struct names alias_names(const struct known *k)
{
	struct names n = { .n = 0 };
	if (k->kind & KNOWN_ALIASES) {
		struct str domain = domain_of(k->name);
		put(&n, k->name);
		put(&n, k->base);
		put(&n, domain);
		put(&n, str_n(k->name.p, k->name.n - domain.n));
		put(&n, str_n(k->base.p, k->base.n ? k->base.n - domain.n : 0));
	}
	return n;
}

static bool names_it(const struct names *n, struct str name)
{
	for (size_t i = 0; i < n->n; i++)
		if (str_eq(n->of[i], name))
			return true;
	return false;
}

static void on_row(void *arg, struct str name, bool alias)
{
	struct batch *b = arg;
	for (size_t i = 0; i < b->n; i++) {
		struct known *k = b->of[i];
		struct names n = { .n = 0 };
		if (!k || k->source)
			continue;
		n = alias ? alias_names(k) : table_names(k);
		if (names_it(&n, name))
			k->source = alias ? "aliases" : "table";
	}
}

static void on_done(void *arg, enum store_rc rc, unsigned n, const char *err)
{
	struct batch *b = arg;
	struct recipients *r = b->r;
	(void)n;
	(void)err;
	if (r) {
		struct batch **at = &r->batches;
		while (*at != b)
			at = &(*at)->next;
		*at = b->next;
	}
	for (size_t i = 0; r && i < b->n; i++) {
		struct known *k = b->of[i];
		if (!k)
			continue;
		const char *source = k->source;
		recipient_cache_answer(r, k, rc != STORE_OK ? RECIPIENT_AWAY : source ? RECIPIENT_YES : RECIPIENT_NO, source ? source : "");
	}
	free(b);
}

static void send_batch(struct recipients *r, struct batch *b)
{
	struct str *names = calloc(BATCH_MAX * 8, sizeof *names), *aliases = names ? names + BATCH_MAX * 3 : NULL;
	size_t n = 0, n_aliases = 0;
	b->r = r;
	b->next = r->batches;
	r->batches = b;
	if (!names) {
		on_done(b, STORE_FULL, 0, "out of memory");
		return;
	}
	for (size_t i = 0; i < b->n; i++) {
		struct names t = table_names(b->of[i]), a = alias_names(b->of[i]);
		for (size_t j = 0; j < t.n; j++)
			names[n++] = t.of[j];
		for (size_t j = 0; j < a.n; j++)
			aliases[n_aliases++] = a.of[j];
	}
	r->statements++;
	r->be.lookup(r->be.ctx, names, n, aliases, n_aliases, on_row, on_done, b);
	free(names);
}

void recipient_cache_flush(struct recipients *r)
{
	for (;;) {
		struct batch *b = calloc(1, sizeof *b);
		for (struct known *k = b ? r->asked.oldest : NULL; k && b->n < BATCH_MAX; k = k->newer) {
			if (k->batch || k->kind == KNOWN_ACCOUNT)
				continue;
			k->batch = b;
			k->batch_at = b->n;
			b->of[b->n++] = k;
		}
		if (!b || !b->n) { /* without memory: PATIENCE_S ends it */
			free(b);
			return;
		}
		send_batch(r, b);
	}
}

void recipient_cache_tick(struct recipients *r, int64_t now_us)
{
	while (r->asked.oldest && r->asked.oldest->at_us + PATIENCE_S * US_PER_S < now_us)
		recipient_cache_answer(r, r->asked.oldest, RECIPIENT_AWAY, "");
}
