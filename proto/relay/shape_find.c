/* Which line a destination has, and what it is called; see shape.h. */
#include "proto/relay/shape_internal.h"

#include <stdio.h>
#include <stdlib.h>

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* FNV-1a: tells long lists of exchangers apart, no more. */
static uint64_t sum(uint64_t h, const char *z)
{
	for (; *z; z++)
		h = (h ^ (unsigned char)*z) * UINT64_C(0x100000001b3);
	return (h ^ ',') * UINT64_C(0x100000001b3);
}

/* The exchangers' canonical names in alphabetical order, each once. What was found of them does not matter, nor their preference: a host that
 * cannot be looked up for a minute does not make another destination. */
static void key_of(const struct route *r, const char *domain, char key[SHAPE_KEY_MAX + 1])
{
	const char *name[ROUTE_HOSTS_MAX];
	size_t n = 0, len = 0;
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	bool cut = false;
	for (size_t i = 0; i < r->n_hosts; i++) {
		const struct route_host *host = &r->host[i];
		const char *z = host->canonical[0] ? host->canonical : host->name;
		if (host->state != ROUTE_HOST_NOT_A_NAME && host->state != ROUTE_HOST_LOOP && *z)
			name[n++] = z;
	}
	if (!n) { /* an address literal: the domain with its brackets */
		snprintf(key, SHAPE_KEY_MAX + 1, "%s", domain);
		return;
	}
	qsort(name, n, sizeof *name, by_name);
	for (size_t i = 0; i < n; i++) {
		size_t m = strlen(name[i]);
		if (i && !strcmp(name[i], name[i - 1]))
			continue;
		h = sum(h, name[i]);
		if (cut || len + m + 1 > SHAPE_KEY_MAX - 20 - SHAPE_OPTION_MAX - 1) {
			cut = true;
			continue;
		}
		if (len)
			key[len++] = ',';
		memcpy(key + len, name[i], m);
		len += m;
	}
	key[len] = 0;
	if (!cut && !strchr(key, '.')) /* a top-level domain that takes mail is nobody's provider */
		key[len++] = '.', key[len] = 0;
	if (cut)
		snprintf(key + len, SHAPE_KEY_MAX + 1 - len, ",+%016llx", (unsigned long long)h);
}

void shape_find(const struct shapes *s, const struct route *r, const char *domain, struct shape_name *ret)
{
	ret->shape = &shape_default;
	ret->provider = false;
	const struct shape_rule *own = NULL;
	for (size_t i = 0; s && i < s->n; i++)
		if (patterns_fit(&s->rule[i]->patterns, r, domain)) {
			ret->shape = &s->rule[i]->shape;
			own = patterns_fit_domain(&s->rule[i]->patterns, domain) ? s->rule[i] : NULL;
			break;
		}
	if (ret->shape->provider[0]) {
		snprintf(ret->key, sizeof ret->key, "%s", ret->shape->provider);
		ret->provider = true;
		return;
	}
	key_of(r, domain, ret->key);
	if (own) { /* limits of a domain are not those of others at the same exchangers */
		size_t n = strlen(ret->key);
		snprintf(ret->key + n, sizeof ret->key - n, "@%s", own->option);
	}
}

void shape_lookup(const char *domain, struct shape_name *ret)
{
	snprintf(ret->key, sizeof ret->key, "?%s", domain);
	ret->shape = &shape_of_lookups;
	ret->provider = false;
}
