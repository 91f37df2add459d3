/* The text that says what becomes of a domain's keys (ring.h): strict reader, writer, and the steps of a rotation. */
#include "ring.h"

#include <stdio.h>

static const char *const states[] = { "waiting", "active", "retired", "revoked" };

const char *dkim_key_state_name(enum dkim_key_state s)
{
	return states[s];
}

bool dkim_selector_ok(struct str s)
{
	bool start = true;
	if (!s.n || s.n > DKIM_SELECTOR_MAX)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
		if (c == '.' ? start || i + 1 == s.n || s.p[i - 1] == '-' : !word && (c != '-' || start || i + 1 == s.n))
			return false;
		start = c == '.';
	}
	return true;
}

struct dkim_ring_key *dkim_ring_find(struct dkim_ring *r, struct str selector)
{
	for (size_t i = 0; i < r->n; i++)
		if (str_eq(str_from(r->key[i].selector), selector))
			return &r->key[i];
	return NULL;
}

int dkim_ring_add(struct dkim_ring *r, struct str selector, const char *kind, enum dkim_key_state state, int64_t now, struct str replaces)
{
	if (r->n == DKIM_RING_MAX || dkim_ring_find(r, selector) || selector.n > DKIM_SELECTOR_MAX || replaces.n > DKIM_SELECTOR_MAX)
		return -1;
	struct dkim_ring_key *k = &r->key[r->n++];
	*k = (struct dkim_ring_key){ .state = state, .since = now };
	memcpy(k->selector, selector.p, selector.n);
	if (replaces.n)
		memcpy(k->replaces, replaces.p, replaces.n);
	snprintf(k->kind, sizeof k->kind, "%s", kind);
	return 0;
}

void dkim_ring_remove(struct dkim_ring *r, struct str selector)
{
	struct dkim_ring_key *k = dkim_ring_find(r, selector);
	if (!k)
		return;
	size_t i = (size_t)(k - r->key);
	memmove(k, k + 1, (r->n - i - 1) * sizeof *k);
	r->n--;
}

static bool kind_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= '0' && s.p[i] <= '9')))
			return false;
	return s.n > 0;
}

/* One line that is not empty and no comment. */
static const char *one(struct str line, struct dkim_ring *r)
{
	struct str w[7], rest = line;
	size_t n = 0;
	uint64_t since;
	char kind[16];
	enum dkim_key_state state = DKIM_KEY_WAITING;
	while (n < 7 && str_word(&rest, " \t", &w[n]))
		n++;
	if (n != 4 && n != 6)
		return "a line has a selector, an algorithm, a state and a time; perhaps \"replaces\" and a selector";
	if (!dkim_selector_ok(w[0]))
		return "no selector";
	while (state <= DKIM_KEY_REVOKED && !str_eq(w[2], str_from(states[state])))
		state++;
	if (state > DKIM_KEY_REVOKED)
		return "a state is waiting, active, retired or revoked";
	if (str_u64(w[3], INT64_C(253402300800), &since))
		return "no time";
	if (n == 6 && (!str_eq(w[4], STR("replaces")) || !dkim_selector_ok(w[5]) || str_eq(w[5], w[0])))
		return "behind the time only \"replaces\" and another selector may stand";
	if (!kind_ok(w[1]) || w[1].n >= sizeof kind)
		return "no algorithm";
	snprintf(kind, sizeof kind, "%.*s", STR_ARG(w[1]));
	if (dkim_ring_add(r, w[0], kind, state, (int64_t)since, n == 6 ? w[5] : STR_NULL))
		return r->n == DKIM_RING_MAX ? "too many keys" : "a selector twice";
	return NULL;
}

int dkim_ring_parse(struct str text, struct dkim_ring *ret, const char **why, unsigned *line)
{
	struct dkim_ring r = { .n = 0 };
	*line = 0;
	*why = text.n > DKIM_RING_TEXT_MAX ? "too long" : NULL;
	while (text.n && !*why) {
		ptrdiff_t end = str_chr(text, '\n');
		struct str l = str_trim(str_n(text.p, end < 0 ? text.n : (size_t)end));
		text = str_skip(text, end < 0 ? text.n : (size_t)end + 1);
		++*line;
		if (l.n && l.p[0] != '#')
			*why = one(l, &r);
	}
	if (*why)
		return -1;
	*ret = r;
	return 0;
}

int dkim_ring_write(const struct dkim_ring *r, struct buf *out)
{
	if (buf_addz(out, "# Written by pepsi-keys: selector, algorithm, state, since when (seconds since 1970)\n"))
		return -1;
	for (size_t i = 0; i < r->n; i++) {
		const struct dkim_ring_key *k = &r->key[i];
		if (buf_addf(out, "%s %s %s %lld%s%s\n", k->selector, k->kind, states[k->state], (long long)k->since, k->replaces[0] ? " replaces " : "", k->replaces))
			return -1;
	}
	return 0;
}

bool dkim_ring_switch(struct dkim_ring *r, struct str selector, int64_t now)
{
	struct dkim_ring_key *k = dkim_ring_find(r, selector), *old;
	if (!k || k->state != DKIM_KEY_WAITING)
		return false;
	old = dkim_ring_find(r, str_from(k->replaces));
	if (old && old->state == DKIM_KEY_ACTIVE) {
		old->state = DKIM_KEY_RETIRED;
		old->since = now;
	}
	k->state = DKIM_KEY_ACTIVE;
	k->since = now;
	k->replaces[0] = 0;
	return true;
}

size_t dkim_ring_expire(struct dkim_ring *r, int64_t now, int64_t after)
{
	size_t n = 0;
	for (size_t i = 0; i < r->n; i++)
		if (r->key[i].state == DKIM_KEY_RETIRED && now - r->key[i].since >= after) {
			r->key[i].state = DKIM_KEY_REVOKED;
			r->key[i].since = now;
			n++;
		}
	return n;
}
