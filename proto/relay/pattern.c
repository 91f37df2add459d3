/* Patterns for names; see pattern.h. */
#include "proto/relay/pattern.h"

#include <stdlib.h>

bool pattern_label(struct str s, size_t max, char *out)
{
	if (!s.n || s.n > max)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i], low = (char)(c | 0x20);
		if (!((low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'))
			return false;
	}
	memcpy(out, s.p, s.n);
	out[s.n] = 0;
	return true;
}

/* 0, or 1 with *why. */
static int parse(struct str s, struct pattern *ret, struct buf *why)
{
	struct str whole = s;
	*ret = (struct pattern){ 0 };
	if (s.n && s.p[0] == '@') {
		ret->domain = true;
		s = str_skip(s, 1);
	}
	if (str_eq(s, STR("*")))
		return 0;
	if (str_starts(s, STR("*."))) {
		ret->below = true;
		s = str_skip(s, 2);
	}
	if (s.n && s.p[0] == '[') { /* an address literal, as route.h has it for the domain and no exchanger's name */
		if (!ret->domain || ret->below || s.n > DNS_NAME_MAX || s.p[s.n - 1] != ']' || !str_is_ascii(s)) {
			buf_addf(why, "\"%.*s\" is no pattern: an address in brackets stands for a recipient's domain, \"@[192.0.2.1]\"", STR_ARG(whole));
			return 1;
		}
		for (size_t i = 0; i < s.n; i++)
			ret->name[i] = ascii_lower(s.p[i]);
		return 0;
	}
	if (!s.n || str_chr(s, '*') >= 0 || str_chr(s, '@') >= 0 || str_chr(s, '/') >= 0 || dns_name_fold(s, ret->name) < 0) {
		buf_addf(why, "\"%.*s\" is no pattern: a host name, \"*.\" and a name, the same behind \"@\" for a recipient's domain, or \"*\"",
		    STR_ARG(whole));
		return 1;
	}
	return 0;
}

int patterns_parse(struct str list, struct patterns *ret, struct buf *why)
{
	struct str word, rest = list;
	size_t n = 1;
	if (list.n > PATTERNS_OCTETS_MAX) {
		buf_addf(why, "the list of patterns is longer than %d octets", PATTERNS_OCTETS_MAX);
		return 1;
	}
	for (size_t i = 0; i < list.n; i++)
		n += list.p[i] == ',';
	if (n > PATTERNS_MAX) {
		buf_addf(why, "more than %d patterns in one list", PATTERNS_MAX);
		return 1;
	}
	struct patterns p = { calloc(n, sizeof *p.one), 0 };
	if (!p.one)
		return -1;
	while (str_word(&rest, ",", &word)) {
		if (parse(word, &p.one[p.n], why)) {
			patterns_done(&p);
			return 1;
		}
		p.n++;
	}
	if (p.n != n) { /* "a,,b", ",a" */
		buf_addf(why, "\"%.*s\": an empty pattern between commas", STR_ARG(list));
		patterns_done(&p);
		return 1;
	}
	*ret = p;
	return 0;
}

void patterns_done(struct patterns *p)
{
	free(p->one);
	*p = (struct patterns){ 0 };
}

static bool fits(const struct pattern *p, const char *name)
{
	size_t n = strlen(name), m = strlen(p->name);
	if (!m)
		return true;
	if (p->below)
		return n > m + 1 && name[n - m - 1] == '.' && !memcmp(name + n - m, p->name, m);
	return n == m && !memcmp(name, p->name, n);
}

bool patterns_fit_domain(const struct patterns *p, const char *domain)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->one[i].domain && fits(&p->one[i], domain))
			return true;
	return false;
}

bool patterns_fit(const struct patterns *p, const struct route *r, const char *domain)
{
	if (patterns_fit_domain(p, domain))
		return true;
	for (size_t i = 0; i < p->n; i++) {
		const struct route_host *first = NULL;
		if (p->one[i].domain)
			continue;
		if (!p->one[i].name[0])
			return true;
		for (size_t h = 0; r && h < r->n_hosts; h++) {
			const struct route_host *host = &r->host[h];
			if (host->state != ROUTE_HOST_USED)
				continue;
			if (!first)
				first = host;
			if (host->preference == first->preference && (fits(&p->one[i], host->name) || fits(&p->one[i], host->canonical)))
				return true;
		}
	}
	return false;
}

bool pattern_covers(const struct pattern *wide, const struct pattern *narrow)
{
	if (!wide->name[0])
		return !wide->domain || narrow->domain; /* "*" fits whatever there is */
	if (wide->domain != narrow->domain || !narrow->name[0])
		return false;
	if (narrow->below) { /* everything below narrow is below wide */
		size_t n = strlen(narrow->name), m = strlen(wide->name);
		return wide->below && (!strcmp(wide->name, narrow->name) || (n > m && narrow->name[n - m - 1] == '.' &&
		    !memcmp(narrow->name + n - m, wide->name, m)));
	}
	return fits(wide, narrow->name);
}
