/* The expansion: level by level, so that a map far away is asked once per level and not once per name. Bounded in depth and
 * in results; an address is followed once per recipient, so a loop ends. */
#include "aliases.h"

#include "proto/smtp/address.h"

#include <stdlib.h>

struct node {
	struct str address;
	size_t origin;
};

/* Addresses without ASCII case, with a number beside them. A hash, because a message may have many recipients. */
struct known {
	struct known *next; /* same hash */
	struct str address;
	size_t origin;
};
struct set {
	struct map m;
};

enum { NAMES_MAX = 5 }; /* that one address is looked up by */

struct work {
	const struct alias_source *src;
	struct arena *a;
	const char *local_domains, *delimiters;
	struct node *now, *next; /* frontiers, ALIAS_TARGETS_MAX + recipients each */
	size_t n_now, n_next, cap;
	struct set seen;         /* every (address, origin) that was ever on a frontier */
	struct set results;      /* addresses; origin 0 */
	bool *has, *dropped;     /* per recipient: it has a result (perhaps one that others have too); it goes nowhere */
};

static struct str domain_of(struct str addr)
{
	const char *at = addr.n ? memrchr(addr.p, '@', addr.n) : NULL;
	return at ? str_skip(addr, (size_t)(at - addr.p) + 1) : STR_NULL;
}

bool alias_local(const char *local_domains, struct str domain)
{
	struct str rest = str_from(local_domains), word;
	while (str_word(&rest, " \t,", &word))
		if (smtp_domain_equal(word, domain))
			return true;
	return false;
}

/* How much of a local part of n octets stands before its detail; n where it has none. */
static size_t base_of(const struct work *w, struct str addr, size_t n)
{
	if (addr.p[0] == '"')
		return n;
	for (size_t i = 1; i < n; i++)
		if (addr.p[i] && strchr(w->delimiters, addr.p[i]))
			return i;
	return n;
}

/* The names an address is looked up by, best first: itself, its local part at our own domains, both of them without a detail,
 * its whole domain. */
static size_t names_of(const struct work *w, struct str addr, struct str names[NAMES_MAX])
{
	struct str low = arena_lower(w->a, addr), d = domain_of(low);
	size_t n = 0, local = d.n ? low.n - d.n - 1 : low.n;
	if (!low.p)
		return 0;
	size_t base = local ? base_of(w, low, local) : local;
	bool ours = d.n && alias_local(w->local_domains, d);
	names[n++] = low;
	if (ours)
		names[n++] = str_n(low.p, local);
	const char *z = base < local ? arena_printf(w->a, "%.*s@%.*s", (int)base, low.p, (int)d.n, d.n ? d.p : "") : NULL;
	if (z && d.n)
		names[n++] = str_from(z);
	if (z && ours)
		names[n++] = str_n(low.p, base);
	if (d.n)
		names[n++] = str_n(d.p - 1, d.n + 1);
	return n;
}

/* 1: it was there, 0: it is now, -1: memory. */
static int set_add(struct set *set, struct arena *a, struct str addr, size_t origin)
{
	uint64_t h = UINT64_C(14695981039346656037) + origin;
	for (size_t i = 0; i < addr.n; i++) {
		char c = addr.p[i];
		h = (h ^ (unsigned char)ascii_lower(c)) * UINT64_C(1099511628211);
	}
	struct known *first = map_get(&set->m, h);
	for (const struct known *k = first; k; k = k->next)
		if (k->origin == origin && str_ieq(k->address, addr))
			return 1;
	struct known *k = arena_alloc(a, sizeof *k);
	if (!k)
		return -1;
	*k = (struct known){ first, addr, origin };
	return map_put(&set->m, h, k) ? -1 : 0;
}

/* 0, 1: too many, -1: memory. */
static int add_result(struct work *w, struct alias_expansion *e, struct str addr, size_t origin)
{
	int r = set_add(&w->results, w->a, addr, 0);
	w->has[origin] = true;
	if (r)
		return r < 0 ? -1 : 0;
	if (e->n == w->cap) {
		e->too_many = true;
		return 1;
	}
	e->r[e->n] = (struct alias_result){ addr, origin, e->n };
	e->n++;
	return 0;
}

/* A target without a domain is at the domain of the name it stands for. */
static struct str qualify(struct work *w, struct str target, struct str from)
{
	struct str d = domain_of(from);
	if (domain_of(target).n || !d.n)
		return target;
	const char *z = arena_printf(w->a, "%.*s@%.*s", (int)target.n, target.p, (int)d.n, d.p);
	return str_from(z);
}

static int follow(struct work *w, const struct node *nd, const struct alias_hit *hit, struct alias_expansion *e)
{
	int r = 0;
	for (size_t i = 0; i < hit->n && !r; i++) {
		struct str t = qualify(w, hit->targets[i], nd->address);
		if (!t.p)
			return -1;
		if (str_ieq(t, nd->address)) { /* "a: a, b": a itself is meant */
			r = add_result(w, e, t, nd->origin);
			continue;
		}
		int was = set_add(&w->seen, w->a, t, nd->origin);
		if (was < 0)
			return -1;
		if (was)
			continue;
		if (w->n_next == w->cap) {
			e->too_many = true;
			return 1;
		}
		w->next[w->n_next++] = (struct node){ t, nd->origin };
	}
	return r;
}

/* One level. 0 go on, 1 too many, -1 trouble. */
static int level(struct work *w, struct alias_expansion *e, bool last, struct buf *why)
{
	struct str *names = arena_calloc(w->a, NAMES_MAX * w->n_now, sizeof *names);
	size_t *first = arena_calloc(w->a, w->n_now + 1, sizeof *first), n = 0;
	if (!names || !first)
		return -1;
	for (size_t i = 0; i < w->n_now; i++) {
		first[i] = n;
		n += names_of(w, w->now[i].address, names + n);
	}
	first[w->n_now] = n;
	struct alias_hit *hits = arena_calloc(w->a, n + 1, sizeof *hits);
	if (!hits || w->src->find(w->src->arg, w->a, names, n, hits, why))
		return -1;
	w->n_next = 0;
	for (size_t i = 0; i < w->n_now; i++) {
		const struct alias_hit *hit = NULL;
		for (size_t k = first[i]; k < first[i + 1] && !hit; k++)
			if (hits[k].found)
				hit = &hits[k];
		if (hit && !hit->n)
			w->dropped[w->now[i].origin] = true;
		int r = hit && !last ? follow(w, &w->now[i], hit, e) : add_result(w, e, w->now[i].address, w->now[i].origin);
		if (r)
			return r;
	}
	struct node *t = w->now;
	w->now = w->next;
	w->next = t;
	w->n_now = w->n_next;
	return 0;
}

/* Results in the order of the recipients they came from; within one, in the order they were found. */
static int by_origin(const void *a, const void *b)
{
	const struct alias_result *x = a, *y = b;
	return x->origin != y->origin ? (x->origin < y->origin ? -1 : 1) : x->order < y->order ? -1 : x->order > y->order;
}

static int expand(struct work *w, struct alias_expansion *e, const struct str *rcpts, size_t n, struct buf *why)
{
	int r = 0;
	for (size_t i = 0; i < n; i++) {
		w->now[w->n_now++] = (struct node){ rcpts[i], i };
		if (set_add(&w->seen, w->a, rcpts[i], i) < 0)
			return -1;
	}
	for (int depth = 0; depth <= ALIAS_DEPTH_MAX && w->n_now && !r; depth++)
		r = level(w, e, depth == ALIAS_DEPTH_MAX, why);
	for (size_t i = 0; i < n && !r; i++) {
		if (w->has[i] || w->dropped[i])
			continue;
		e->looped++; /* its aliases lead only to each other: the next stage shall judge the address as it is */
		r = add_result(w, e, rcpts[i], i);
	}
	return r;
}

int alias_expand(const struct alias_source *src, struct arena *a, const struct str *rcpts, size_t n, const char *local_domains,
    const char *delimiters, struct alias_expansion *ret, struct buf *why)
{
	size_t cap = n > ALIAS_TARGETS_MAX ? n : ALIAS_TARGETS_MAX;
	struct work w = { .src = src, .a = a, .local_domains = local_domains ? local_domains : "",
		.delimiters = delimiters ? delimiters : "", .cap = cap };
	struct alias_expansion e = { .r = arena_calloc(a, cap, sizeof *e.r) };
	w.dropped = arena_calloc(a, n + 1, sizeof *w.dropped);
	w.has = arena_calloc(a, n + 1, sizeof *w.has);
	w.now = arena_calloc(a, cap, sizeof *w.now);
	w.next = arena_calloc(a, cap, sizeof *w.next);
	int r = e.r && w.dropped && w.has && w.now && w.next ? expand(&w, &e, rcpts, n, why) : -1;
	map_done(&w.seen.m);
	map_done(&w.results.m);
	if (r < 0) {
		if (!why->n)
			buf_addz(why, "out of memory");
		return -1;
	}
	qsort(e.r, e.n, sizeof *e.r, by_origin);
	e.changed = e.n != n;
	for (size_t i = 0; i < n && !e.changed; i++)
		e.changed = !str_eq(e.r[i].address, rcpts[i]);
	*ret = e;
	return 0;
}
