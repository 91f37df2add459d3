/* Warm-up plans: reading them, and what they allow; see warmup.h. */
#include "proto/relay/warmup.h"

#include "proto/relay/source.h"
#include "proto/smtp/datetime.h"

#include <stdlib.h>

struct plan {
	char option[32];
	struct {
		unsigned char ip[16], n;
	} address[WARMUP_ADDRESSES_MAX];
	size_t n_addresses, n_steps;
	int64_t start;                   /* days since 1970 */
	int64_t step[WARMUP_STEPS_MAX];
};
struct warmups {
	struct plan *plan[WARMUP_PLANS_MAX];
	size_t n;
};

struct warmups *warmups_new(void)
{
	return calloc(1, sizeof(struct warmups));
}

void warmups_free(struct warmups *w)
{
	for (size_t i = 0; w && i < w->n; i++)
		free(w->plan[i]);
	free(w);
}

size_t warmups_count(const struct warmups *w)
{
	return w->n;
}

bool warmups_at(const struct warmups *w, size_t i, const char **ret_option, const unsigned char **ret_ip, unsigned *ret_n)
{
	for (size_t k = 0; k < w->n; k++) {
		const struct plan *p = w->plan[k];
		if (i < p->n_addresses) {
			*ret_option = p->option;
			*ret_ip = p->address[i].ip;
			*ret_n = p->address[i].n;
			return true;
		}
		i -= p->n_addresses;
	}
	return false;
}

static const struct plan *find(const struct warmups *w, const unsigned char *ip, unsigned n)
{
	for (size_t k = 0; k < w->n; k++)
		for (size_t i = 0; i < w->plan[k]->n_addresses; i++)
			if (w->plan[k]->address[i].n == n && !memcmp(w->plan[k]->address[i].ip, ip, n))
				return w->plan[k];
	return NULL;
}

int64_t warmups_allowance(const struct warmups *w, const unsigned char *ip, unsigned n, int64_t day)
{
	const struct plan *p = find(w, ip, n);
	if (!p)
		return WARMUP_FREE;
	if (day < p->start)
		return 0;
	return day - p->start < (int64_t)p->n_steps ? p->step[day - p->start] : WARMUP_FREE;
}

int64_t warmup_share(int64_t allowance)
{
	enum { SHARES = 50, SHARE_MAX = 200 };
	int64_t n = allowance / SHARES;
	return n < 1 ? 1 : n > SHARE_MAX ? SHARE_MAX : n;
}

/* -- reading */

/* What is read of the words that are no addresses. */
struct words {
	bool start, steps;
	int64_t first, last;             /* 0: not said */
	int64_t percent;                 /* factor= times 100; 0: not said */
};

static bool number(struct str s, int64_t *ret)
{
	uint64_t v;
	if (str_u64(s, (uint64_t)WARMUP_MOST, &v) || !v)
		return false;
	*ret = (int64_t)v;
	return true;
}

/* "2", "1.5", "1.25": from 1.01 to 10. */
static bool factor(struct str s, int64_t *ret)
{
	ptrdiff_t dot = str_chr(s, '.');
	struct str whole = dot < 0 ? s : str_n(s.p, (size_t)dot), part = dot < 0 ? STR_NULL : str_skip(s, (size_t)dot + 1);
	uint64_t a, b = 0;
	if (str_u64(whole, 10, &a) || (dot >= 0 && (!part.n || part.n > 2 || str_u64(part, 99, &b))))
		return false;
	*ret = (int64_t)(a * 100 + (part.n == 1 ? b * 10 : b));
	return *ret > 100 && *ret <= 1000;
}

static bool date(struct str s, int64_t *ret)
{
	char text[32];
	int64_t t;
	if (s.n != 10)
		return false;
	memcpy(text, s.p, 10);
	memcpy(text + 10, "T00:00:00Z", 10);
	if (smtp_datetime_parse(str_n(text, 20), &t))
		return false;
	*ret = t / 86400;
	return true;
}

static int steps(struct str list, struct plan *p, struct buf *why)
{
	struct str one;
	while (str_word(&list, ",", &one)) {
		if (p->n_steps == WARMUP_STEPS_MAX) {
			buf_addf(why, "more than %d steps", WARMUP_STEPS_MAX);
			return 1;
		}
		if (!number(one, &p->step[p->n_steps])) {
			buf_addf(why, "\"%.*s\": a step is a number of messages from 1 to %lld", STR_ARG(one), (long long)WARMUP_MOST);
			return 1;
		}
		p->n_steps++;
	}
	if (!p->n_steps)
		buf_addz(why, "numbers belong behind steps=, such as steps=50,100,200");
	return !p->n_steps;
}

static int address(struct str word, struct plan *p, const struct warmups *w, struct buf *why)
{
	if (p->n_addresses == WARMUP_ADDRESSES_MAX) {
		buf_addf(why, "more than %d addresses in one plan", WARMUP_ADDRESSES_MAX);
		return 1;
	}
	unsigned char *ip = p->address[p->n_addresses].ip, *n = &p->address[p->n_addresses].n;
	if (!source_address(word, ip, n)) {
		buf_addf(why, "\"%.*s\" is no IP address, start=, steps=, first=, factor= or last=", STR_ARG(word));
		return 1;
	}
	bool twice = find(w, ip, *n);
	for (size_t i = 0; i < p->n_addresses; i++)
		twice |= p->address[i].n == *n && !memcmp(p->address[i].ip, ip, *n);
	if (twice) {
		buf_addf(why, "\"%.*s\" has a plan already", STR_ARG(word));
		return 1;
	}
	p->n_addresses++;
	return 0;
}

static int word_of(struct str word, struct plan *p, struct words *have, const struct warmups *w, struct buf *why)
{
	ptrdiff_t eq = str_chr(word, '=');
	struct str name = eq < 0 ? STR_NULL : str_n(word.p, (size_t)eq), value = eq < 0 ? STR_NULL : str_skip(word, (size_t)eq + 1);
	bool ok = true, twice = false;
	if (str_ieq(name, STR("start"))) {
		twice = have->start;
		ok = have->start = date(value, &p->start);
	} else if (str_ieq(name, STR("steps"))) {
		twice = have->steps;
		have->steps = true;
		if (!twice)
			return steps(value, p, why);
	} else if (str_ieq(name, STR("first"))) {
		twice = have->first;
		ok = number(value, &have->first);
	} else if (str_ieq(name, STR("last"))) {
		twice = have->last;
		ok = number(value, &have->last);
	} else if (str_ieq(name, STR("factor"))) {
		twice = have->percent;
		ok = factor(value, &have->percent);
	} else {
		return address(word, p, w, why);
	}
	if (twice)
		buf_addf(why, "\"%.*s\" is there twice", STR_ARG(name));
	else if (!ok)
		buf_addf(why, "\"%.*s\": start= takes a date such as 2026-12-01, first= and last= a number of messages, factor= one from 1.01 to 10", STR_ARG(word));
	return twice || !ok;
}

/* first, first times the factor, …, last. */
static int grow(struct plan *p, const struct words *have, struct buf *why)
{
	int64_t n = have->first;
	if (!have->first || !have->last || !have->percent || have->last < have->first) {
		buf_addz(why, have->first && have->last && have->percent ? "last= is less than first=" : "steps= is needed, or first=, factor= and last=");
		return 1;
	}
	while (p->n_steps < WARMUP_STEPS_MAX) {
		p->step[p->n_steps++] = n;
		if (n == have->last)
			return 0;
		int64_t more = n * have->percent / 100;
		n = more <= n ? n + 1 : more;
		if (n > have->last)
			n = have->last;
	}
	buf_addf(why, "last= is not reached within %d days", WARMUP_STEPS_MAX);
	return 1;
}

int warmups_add(struct warmups *w, const char *option, struct str value, struct buf *why)
{
	struct str rest = str_trim(value), word;
	struct words have = { 0 };
	int rc = 0;
	if (w->n == WARMUP_PLANS_MAX) {
		buf_addf(why, "more than %d plans", WARMUP_PLANS_MAX);
		return 1;
	}
	struct plan *p = calloc(1, sizeof *p);
	if (!p)
		return -1;
	struct str name = str_from(option);
	memcpy(p->option, name.p, name.n < sizeof p->option ? name.n : sizeof p->option - 1);
	while (!rc && str_word(&rest, " \t", &word))
		rc = word_of(word, p, &have, w, why);
	if (!rc && (!p->n_addresses || !have.start)) {
		buf_addz(why, "an address and start= are needed, as in 192.0.2.11 start=2026-12-01 steps=50,100,200");
		rc = 1;
	}
	if (!rc && have.steps && (have.first || have.last || have.percent)) {
		buf_addz(why, "steps= says all: first=, factor= and last= do not go with it");
		rc = 1;
	}
	if (!rc && !have.steps)
		rc = grow(p, &have, why);
	if (rc)
		free(p);
	else
		w->plan[w->n++] = p;
	return rc;
}
