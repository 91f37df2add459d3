/* Answers: one block each, never changed once made, counted. And the set of answers of one evaluation. No I/O, no clock. */
#include "proto/dns/answers.h"

#include "answers_internal.h"

#include <stdlib.h>

#define NOT_A_NAME "not a domain name"

/* ---- one answer */

static bool names_in(enum dns_type t)
{
	return t == DNS_NS || t == DNS_CNAME || t == DNS_PTR || t == DNS_MX || t == DNS_SOA;
}

static struct str put(char **at, struct str s)
{
	struct str copy = { *at, s.n };
	if (s.n)
		memcpy(*at, s.p, s.n);
	(*at)[s.n] = 0; /* for those who want a string */
	*at += s.n + 1;
	return copy;
}

struct dns_answer *dns_answer_build(const struct dns_answer *parts)
{
	size_t n = sizeof *parts + parts->n_rr * sizeof *parts->rr + parts->n_chain * sizeof *parts->chain + parts->name.n + 1;
	for (size_t i = 0; i < parts->n_rr; i++)
		n += parts->rr[i].data.n + 1;
	for (size_t i = 0; i < parts->n_chain; i++)
		n += parts->chain[i].n + 1;
	struct dns_answer *a = malloc(n);
	if (!a)
		return NULL;
	*a = *parts;
	a->octets = n;
	a->refs = 1;
	struct dns_rr *rr = (struct dns_rr *)(a + 1);
	struct str *chain = (struct str *)(rr + parts->n_rr);
	char *at = (char *)(chain + parts->n_chain);
	a->rr = parts->n_rr ? rr : NULL;
	a->chain = parts->n_chain ? chain : NULL;
	a->name = put(&at, parts->name);
	for (size_t i = 0; i < parts->n_rr; i++) {
		struct dns_rr one = parts->rr[i];
		one.data = put(&at, one.data);
		size_t k = i;
		for (; parts->type == DNS_MX && k && rr[k - 1].preference > one.preference; k--) /* stable */
			rr[k] = rr[k - 1];
		rr[k] = one;
	}
	for (size_t i = 0; i < parts->n_chain; i++)
		chain[i] = put(&at, parts->chain[i]);
	return a;
}

/* The record with its name folded into at, or as it is. */
static int take_rr(struct dns_rr *ret, const struct dns_rr *rr, enum dns_type type, char *at)
{
	*ret = *rr;
	if (names_in(type)) {
		bool root = !rr->data.n || (rr->data.n == 1 && rr->data.p[0] == '.');
		int n = root ? 0 : dns_name_fold(rr->data, at);
		ret->data = str_n(at, (size_t)(n > 0 ? n : 0));
		return n < 0 ? -1 : 0;
	}
	if ((type == DNS_A && rr->data.n != 4) || (type == DNS_AAAA && rr->data.n != 16) || rr->data.n > UINT16_MAX)
		return -1;
	return 0;
}

struct dns_answer *dns_answer_new(struct str name, enum dns_type type, enum dns_status status, const struct dns_rr *rr, size_t n_rr,
    uint32_t ttl, bool authenticated)
{
	return dns_answer_at(name, STR_NULL, type, status, rr, n_rr, ttl, authenticated);
}

struct dns_answer *dns_answer_at(struct str name, struct str canonical, enum dns_type type, enum dns_status status, const struct dns_rr *rr,
    size_t n_rr, uint32_t ttl, bool authenticated)
{
	char folded[DNS_NAME_MAX + 1], end[DNS_NAME_MAX + 1];
	int n = dns_name_fold(name, folded), n_end = canonical.n ? dns_name_fold(canonical, end) : 0;
	struct str chain = { end, (size_t)(n_end > 0 ? n_end : 0) };
	struct dns_answer parts = { .name = { folded, (size_t)(n > 0 ? n : 0) }, .type = type, .status = status, .ttl = ttl,
		.authenticated = authenticated };
	if (status != DNS_OK)
		n_rr = 0;
	if (n < 0 || n_end < 0 || n_rr > DNS_RR_MAX || !dns_type_name(type) || (status == DNS_OK && !n_rr))
		return NULL;
	if (chain.n && !str_eq(chain, parts.name)) {
		parts.chain = &chain;
		parts.n_chain = 1;
	}
	if (!n_rr)
		return dns_answer_build(&parts);
	struct dns_rr *rrs = malloc(n_rr * sizeof *rrs);
	char(*names)[DNS_NAME_MAX + 1] = names_in(type) ? malloc(n_rr * sizeof *names) : NULL;
	struct dns_answer *a = NULL;
	bool good = rrs && (names || !names_in(type));
	for (size_t i = 0; good && i < n_rr; i++)
		good = take_rr(&rrs[i], &rr[i], type, names ? names[i] : NULL) == 0;
	if (good) {
		parts.rr = rrs;
		parts.n_rr = n_rr;
		a = dns_answer_build(&parts);
	}
	free(rrs);
	free(names);
	return a;
}

struct dns_answer *dns_answer_fail(struct str name, enum dns_type type, const char *why)
{
	struct dns_answer *a = dns_answer_new(name, type, DNS_TEMPFAIL, NULL, 0, 0, false);
	if (a)
		a->why = why;
	return a;
}

struct dns_answer *dns_answer_unaskable(enum dns_type type)
{
	struct dns_answer parts = { .type = type, .status = DNS_NXDOMAIN, .why = NOT_A_NAME };
	return dns_answer_build(&parts);
}

struct dns_answer *dns_answer_ref(const struct dns_answer *a)
{
	struct dns_answer *mine = (struct dns_answer *)(uintptr_t)a; /* the count is the one thing that changes */
	mine->refs++;
	return mine;
}

void dns_answer_unref(const struct dns_answer *a)
{
	struct dns_answer *mine = (struct dns_answer *)(uintptr_t)a;
	if (mine && !--mine->refs)
		free(mine);
}

/* ---- the set */

struct question {
	char *name; /* owned */
	struct str text;
	uint32_t hash;
	enum dns_type type;
	const struct dns_answer *answer; /* NULL: missing */
};

struct dns_answers {
	struct question *q;
	size_t n, cap, missing, octets, most; /* most: 0: DNS_ANSWERS_MAX */
};

/* Answers that belong to nobody: said where there is nothing to ask or no room to keep an answer. */
static const struct dns_answer no_name = { .status = DNS_NXDOMAIN, .why = NOT_A_NAME };
static const struct dns_answer set_full = { .status = DNS_TEMPFAIL, .why = "too many names, or out of memory" };

static bool is_static(const struct dns_answer *a)
{
	return a == &no_name || a == &set_full;
}

struct dns_answers *dns_answers_new(void)
{
	return calloc(1, sizeof(struct dns_answers));
}

void dns_answers_free(struct dns_answers *set)
{
	if (!set)
		return;
	for (size_t i = 0; i < set->n; i++) {
		free(set->q[i].name);
		if (!is_static(set->q[i].answer))
			dns_answer_unref(set->q[i].answer);
	}
	free(set->q);
	free(set);
}

void dns_answers_limit(struct dns_answers *set, size_t most)
{
	set->most = most < DNS_ANSWERS_MAX ? most : DNS_ANSWERS_MAX;
}

static uint32_t hash_of(struct str name, enum dns_type type)
{
	uint32_t h = 2166136261u ^ (uint32_t)type; /* FNV-1a; a set is small, collisions cost a comparison */
	for (size_t i = 0; i < name.n; i++)
		h = (h ^ (unsigned char)name.p[i]) * 16777619u;
	return h;
}

static struct question *find(const struct dns_answers *set, struct str name, enum dns_type type)
{
	uint32_t h = hash_of(name, type);
	for (size_t i = 0; i < set->n; i++) {
		struct question *q = &set->q[i];
		if (q->hash == h && q->type == type && str_eq(q->text, name))
			return q;
	}
	return NULL;
}

/* A new question; NULL: full, or no memory. */
static struct question *note(struct dns_answers *set, struct str name, enum dns_type type)
{
	if (set->n >= (set->most ? set->most : DNS_ANSWERS_MAX))
		return NULL;
	if (set->n == set->cap) {
		size_t cap = set->cap ? 2 * set->cap : 16;
		struct question *q = realloc(set->q, cap * sizeof *q);
		if (!q)
			return NULL;
		set->q = q;
		set->cap = cap;
	}
	char *copy = str_dupz(name);
	if (!copy)
		return NULL;
	struct question *q = &set->q[set->n++];
	*q = (struct question){ .name = copy, .text = { copy, name.n }, .hash = hash_of(name, type), .type = type };
	set->missing++;
	return q;
}

const struct dns_answer *dns_answers_peek(const struct dns_answers *set, struct str name, enum dns_type type)
{
	char folded[DNS_NAME_MAX + 1];
	int n = dns_name_fold(name, folded);
	if (n < 0 || !dns_type_name(type))
		return &no_name;
	struct question *q = find(set, str_n(folded, (size_t)n), type);
	return q ? q->answer : NULL;
}

const struct dns_answer *dns_answers_get(struct dns_answers *set, struct str name, enum dns_type type)
{
	char folded[DNS_NAME_MAX + 1];
	int n = dns_name_fold(name, folded);
	if (n < 0 || !dns_type_name(type))
		return &no_name;
	struct question *q = find(set, str_n(folded, (size_t)n), type);
	if (q)
		return q->answer;
	return note(set, str_n(folded, (size_t)n), type) ? NULL : &set_full;
}

bool dns_answers_missing(const struct dns_answers *set, size_t i, struct str *ret_name, enum dns_type *ret_type)
{
	for (size_t k = 0; i < set->missing && k < set->n; k++) {
		if (set->q[k].answer || i--)
			continue;
		*ret_name = set->q[k].text;
		*ret_type = set->q[k].type;
		return true;
	}
	return false;
}

size_t dns_answers_n_missing(const struct dns_answers *set)
{
	return set->missing;
}

bool dns_answers_at(const struct dns_answers *set, size_t i, struct str *ret_name, enum dns_type *ret_type,
    const struct dns_answer **ret_answer)
{
	if (i >= set->n)
		return false;
	*ret_name = set->q[i].text;
	*ret_type = set->q[i].type;
	*ret_answer = set->q[i].answer;
	return true;
}

size_t dns_answers_n(const struct dns_answers *set)
{
	return set->n;
}

int dns_answers_put(struct dns_answers *set, struct dns_answer *a)
{
	if (!a)
		return -1;
	struct question *q = find(set, a->name, a->type);
	if (!q)
		q = note(set, a->name, a->type);
	bool fits = q && a->octets <= DNS_ANSWERS_OCTETS_MAX - set->octets;
	if (q && !q->answer) {
		set->missing--;
		q->answer = fits ? a : &set_full;
	}
	if (!q || q->answer != a) {
		dns_answer_unref(a);
		return q && fits ? 0 : -1;
	}
	set->octets += a->octets;
	return 0;
}
