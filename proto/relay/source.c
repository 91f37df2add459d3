/* Source addresses: pools, the weighted and sticky choice, and those that cannot be had; see source.h. */
#include "proto/relay/pattern.h"
#include "proto/relay/shape.h"
#include "proto/relay/source.h"

#include <arpa/inet.h>
#include <stdlib.h>

struct pool {
	char option[32];
	char name[SHAPE_NAME_MAX + 1];
	uint32_t number;
	struct patterns from, to;      /* n 0: any */
	struct source *source;
	size_t n;
};
struct sources {
	struct pool *pool[SOURCE_POOLS_MAX]; /* by number */
	size_t n;
};

struct sources *sources_new(void)
{
	return calloc(1, sizeof(struct sources));
}

static void pool_free(struct pool *p)
{
	if (!p)
		return;
	patterns_done(&p->from);
	patterns_done(&p->to);
	for (size_t i = 0; p->source && i < p->n; i++)
		free((char *)p->source[i].helo);
	free(p->source);
	free(p);
}

void sources_free(struct sources *s)
{
	for (size_t i = 0; s && i < s->n; i++)
		pool_free(s->pool[i]);
	free(s);
}

bool sources_has(const struct sources *s, const char *pool)
{
	for (size_t i = 0; s && i < s->n; i++)
		if (!strcmp(s->pool[i]->name, pool))
			return true;
	return false;
}

/* -- reading */

bool source_address(struct str s, unsigned char ip[16], unsigned char *ret_n)
{
	char z[INET6_ADDRSTRLEN + 1];
	struct str bare = s;
	if (s.n > 2 && s.p[0] == '[' && s.p[s.n - 1] == ']')
		bare = str_n(s.p + 1, s.n - 2);
	if (!bare.n || bare.n >= sizeof z)
		return false;
	memcpy(z, bare.p, bare.n);
	z[bare.n] = 0;
	*ret_n = strlen(z) != bare.n ? 0 : inet_pton(AF_INET, z, ip) == 1 ? 4 : inet_pton(AF_INET6, z, ip) == 1 ? 16 : 0;
	return *ret_n;
}

/* A name for EHLO: a domain name in ASCII (RFC 5321 §4.1.1.1). */
static int helo_of(struct str s, const char **ret, struct buf *why)
{
	char folded[DNS_NAME_MAX + 1];
	if (dns_name_fold(s, folded) < 0 || str_chr(s, '*') >= 0 || str_chr(s, '=') >= 0 || folded[0] == '[') {
		buf_addf(why, "\"%.*s\" is no host name for EHLO", STR_ARG(s));
		return 1;
	}
	*ret = str_dupz(str_from(folded));
	return *ret ? 0 : -1;
}

/* "192.0.2.1=out.example.org*3" */
static int source_word(struct str word, struct pool *p, struct buf *why)
{
	struct str rest = word, ip;
	ptrdiff_t star = str_chr(word, '*'), eq;
	struct source src = { .weight = 1 };
	int rc = 0;
	if (star >= 0) {
		uint64_t w;
		if (str_u64(str_skip(word, (size_t)star + 1), SOURCE_WEIGHT_MAX, &w) || !w) {
			buf_addf(why, "\"%.*s\": a weight from 1 to %d belongs behind \"*\"", STR_ARG(word), SOURCE_WEIGHT_MAX);
			return 1;
		}
		src.weight = (unsigned)w;
		rest = str_n(word.p, (size_t)star);
	}
	eq = str_chr(rest, '=');
	ip = eq < 0 ? rest : str_n(rest.p, (size_t)eq);
	if (p->n == SOURCE_MAX) {
		buf_addf(why, "more than %d addresses in one pool", SOURCE_MAX);
		return 1;
	}
	if (!source_address(ip, src.ip, &src.n)) {
		buf_addf(why, "\"%.*s\" is no IP address", STR_ARG(ip));
		return 1;
	}
	for (size_t i = 0; i < p->n; i++)
		if (p->source[i].n == src.n && !memcmp(p->source[i].ip, src.ip, src.n)) {
			buf_addf(why, "\"%.*s\" is there twice: its weight says how often it is chosen", STR_ARG(ip));
			return 1;
		}
	if (eq >= 0 && (rc = helo_of(str_skip(rest, (size_t)eq + 1), &src.helo, why)))
		return rc;
	p->source[p->n++] = src;
	return 0;
}

static int list(struct str word, size_t prefix, struct patterns *ret, bool sender, struct buf *why)
{
	int rc;
	if (ret->n) {
		buf_addf(why, "\"%.*s\" is there twice: join patterns by commas", STR_ARG(str_n(word.p, prefix)));
		return 1;
	}
	if ((rc = patterns_parse(str_skip(word, prefix), ret, why)))
		return rc;
	for (size_t i = 0; sender && i < ret->n; i++)
		if (!ret->one[i].domain) {
			buf_addz(why, "from= takes domains of senders, with \"@\" in front: from=@example.org");
			return 1;
		}
	return 0;
}

static int parse(struct str value, struct pool *p, struct buf *why)
{
	struct str rest = str_trim(value), word;
	int rc;
	while (str_word(&rest, " \t", &word)) {
		if (str_istarts(word, STR("from="))) {
			rc = list(word, 5, &p->from, true, why);
		} else if (str_istarts(word, STR("to="))) {
			rc = list(word, 3, &p->to, false, why);
		} else if (str_istarts(word, STR("pool="))) {
			rc = p->name[0] || !pattern_label(str_skip(word, 5), SHAPE_NAME_MAX, p->name);
			if (rc)
				buf_addf(why, "\"%.*s\": one name of at most %d letters, digits, - and _ belongs behind \"=\"", STR_ARG(word), SHAPE_NAME_MAX);
		} else {
			rc = source_word(word, p, why);
		}
		if (rc)
			return rc;
	}
	if (!p->n)
		buf_addz(why, "an address is needed, such as 192.0.2.1 or 192.0.2.1=mx.example.org");
	return !p->n;
}

int sources_add(struct sources *s, const char *option, struct str value, struct buf *why)
{
	struct str name = str_from(option);
	size_t digits = 0, at;
	uint64_t number;
	int rc;
	while (digits < name.n && name.p[name.n - 1 - digits] >= '0' && name.p[name.n - 1 - digits] <= '9')
		digits++;
	if (s->n == SOURCE_POOLS_MAX) {
		buf_addf(why, "more than %d pools", SOURCE_POOLS_MAX);
		return 1;
	}
	if (name.n >= sizeof s->pool[0]->option || str_u64(str_skip(name, name.n - digits), UINT32_MAX, &number)) {
		buf_addz(why, "a number belongs behind the option's name, as in SOURCES_1: the pools count in the order of their numbers");
		return 1;
	}
	struct pool *p = calloc(1, sizeof *p);
	if (!p || !(p->source = calloc(SOURCE_MAX, sizeof *p->source))) {
		free(p);
		return -1;
	}
	memcpy(p->option, name.p, name.n);
	p->number = (uint32_t)number;
	rc = parse(value, p, why);
	if (!rc && p->name[0] && sources_has(s, p->name)) {
		buf_addf(why, "there is a pool \"%s\" already", p->name);
		rc = 1;
	}
	if (rc) {
		pool_free(p);
		return rc;
	}
	for (at = s->n; at && s->pool[at - 1]->number > p->number; at--)
		s->pool[at] = s->pool[at - 1];
	s->pool[at] = p;
	s->n++;
	return 0;
}

/* -- choosing */

unsigned source_pool(const struct sources *s, const struct source_ask *ask)
{
	size_t n = s ? s->n : 0;
	for (size_t i = 0; ask->pool && ask->pool[0] && i < n; i++)
		if (!strcmp(s->pool[i]->name, ask->pool))
			return (unsigned)i + 1;
	for (size_t i = 0; i < n; i++) {
		const struct pool *p = s->pool[i];
		if (p->name[0] && !p->from.n && !p->to.n)
			continue; /* for SHAPE lines only */
		if ((!p->from.n || patterns_fit_domain(&p->from, ask->sender)) && (!p->to.n || patterns_fit(&p->to, ask->route, ask->domain)))
			return (unsigned)i + 1;
	}
	return 0;
}

static uint64_t mixed(uint64_t h, const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h = (h ^ ((const unsigned char *)p)[i]) * UINT64_C(0x100000001b3);
	return h;
}

/* Rendezvous hashing: each address throws as many dice as it has weight, the same for the same destination, and the highest throw wins. When one
 * leaves, only its destinations move. */
static uint64_t throws(const struct source *s, const char *key)
{
	uint64_t state = mixed(mixed(UINT64_C(0xcbf29ce484222325), key, strlen(key)), s->ip, s->n), best = 0;
	for (unsigned i = 0; i < s->weight; i++) {
		uint64_t v = route_mix(&state);
		if (v > best)
			best = v;
	}
	return best;
}

enum source_found source_choose(struct sources *s, const struct source_ask *ask, int64_t now, struct source **ret, int64_t *ret_when)
{
	unsigned at = source_pool(s, ask);
	struct pool *p = at ? s->pool[at - 1] : NULL;
	struct source *best = NULL, *allowed = NULL;
	enum source_allowed allowed_by = SOURCE_NOT;
	uint64_t best_v = 0, allowed_v = 0;
	int64_t when = 0;
	bool family = false;
	if (!p)
		return SOURCE_SYSTEM;
	for (size_t i = 0; i < p->n; i++) {
		struct source *c = &p->source[i];
		uint64_t v;
		if (c->n != ask->family)
			continue;
		family = true;
		if (c->until > now) {
			when = !when || c->until < when ? c->until : when;
			continue;
		}
		v = throws(c, ask->key);
		if (!best || v > best_v)
			best = c, best_v = v;
		enum source_allowed by = ask->allow ? ask->allow(ask->allow_arg, c, ask->key) : SOURCE_MAY;
		if (by != SOURCE_NOT && (by > allowed_by || (by == allowed_by && v > allowed_v)))
			allowed = c, allowed_v = v, allowed_by = by;
	}
	if (!family)
		return SOURCE_NO_FAMILY;
	if (!best) {
		*ret_when = when;
		return SOURCE_SUSPENDED;
	}
	*ret = allowed ? allowed : best;
	return SOURCE_FOUND;
}

bool source_failed(struct source *source, int64_t now)
{
	int64_t pause = SOURCE_PAUSE_FIRST_MS;
	if (source->until > now)
		return false; /* several sessions met the same */
	for (unsigned i = 0; i < source->failures && pause < SOURCE_PAUSE_MOST_MS; i++)
		pause *= 2;
	if (pause > SOURCE_PAUSE_MOST_MS)
		pause = SOURCE_PAUSE_MOST_MS;
	source->until = now + pause;
	source->failures += source->failures < 100;
	return true;
}

bool source_ok(struct source *source)
{
	bool news = source->failures;
	source->failures = 0;
	source->until = 0;
	return news;
}

bool source_suspended(const struct source *source, int64_t now)
{
	return source->until > now;
}

bool sources_at(const struct sources *s, size_t i, const char **ret_option, const struct source **ret)
{
	for (size_t k = 0; s && k < s->n; k++) {
		if (i < s->pool[k]->n) {
			*ret_option = s->pool[k]->option;
			*ret = &s->pool[k]->source[i];
			return true;
		}
		i -= s->pool[k]->n;
	}
	return false;
}
