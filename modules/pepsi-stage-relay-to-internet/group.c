/* One row, one destination: a message for several domains is split by domain before anything is sent, so that a slow one holds nobody up. */
#include "internet.h"

#include "say.h"

#include <stdio.h>
#include <stdlib.h>

struct to {
	const char *domain; /* the arena's */
	uint32_t i;
};

/* What stands behind the last @, folded; an address literal as it is; what is no domain as it is, for the route to refuse. */
static bool domain_of(struct str address, char *ret)
{
	size_t at = address.n;
	while (at && address.p[at - 1] != '@')
		at--;
	struct str d = at ? str_skip(address, at) : STR_NULL;
	bool literal = d.n && d.p[0] == '[';
	if (literal || dns_name_fold(d, ret) < 0)
		snprintf(ret, DNS_NAME_MAX + 3, "%.*s", STR_ARG(d));
	return literal;
}

static int by_domain(const void *a, const void *b)
{
	const struct to *x = a, *y = b;
	int c = strcmp(x->domain, y->domain);
	return c ? c : x->i < y->i ? -1 : 1;
}

/* list is sorted: the rows that leave, then where this one goes: through here again. */
static int32_t split(struct worker *w, struct pepsi_msg *msg, const struct to *list, size_t n, struct arena *a)
{
	uint32_t *idx = arena_calloc(a, n, sizeof *idx);
	struct pepsi_clone *c = arena_calloc(a, n, sizeof *c);
	size_t n_groups = 0, n_first = 0;
	if (!idx || !c)
		return PEPSI_RETRY;
	for (size_t i = 0; i < n; i++)
		idx[i] = list[i].i;
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && !strcmp(list[i].domain, list[end].domain); end++) {}
		if (!i)
			n_first = end;
		else
			c[n_groups++] = (struct pepsi_clone){ .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = w->set.stage, .indices = idx + i,
				.n = end - i };
	}
	int32_t r = w->host->fan_out(msg, c, n_groups, idx, n_first);
	if (r == PEPSI_OK)
		r = w->host->advance_to(msg, w->set.stage);
	if (r == PEPSI_OK)
		say(w->host, msg, PEPSI_LOG_INFO, "split into %zu domains: %zu recipients", n_groups + 1, n);
	return r;
}

int group_by_domain(struct worker *w, struct pepsi_msg *msg, char *ret, bool *ret_literal, int32_t *ret_rc)
{
	size_t n = w->host->n_rcpt(msg);
	char other[DNS_NAME_MAX + 3];
	bool one = true;
	*ret_literal = domain_of(from_host(w->host->rcpt(msg, 0)), ret);
	for (size_t i = 1; one && i < n; i++) {
		domain_of(from_host(w->host->rcpt(msg, i)), other);
		one = !strcmp(other, ret);
	}
	if (one)
		return 0;
	struct arena *a = arena_new((n + 1) * (sizeof(struct to) + sizeof(struct pepsi_clone) + DNS_NAME_MAX + 64));
	struct to *list = a ? arena_calloc(a, n, sizeof *list) : NULL;
	*ret_rc = list ? PEPSI_OK : PEPSI_RETRY;
	for (size_t i = 0; list && i < n && *ret_rc == PEPSI_OK; i++) {
		domain_of(from_host(w->host->rcpt(msg, i)), other);
		list[i] = (struct to){ arena_strz(a, str_from(other)), (uint32_t)i };
		if (!list[i].domain)
			*ret_rc = PEPSI_RETRY;
	}
	if (*ret_rc == PEPSI_OK) {
		qsort(list, n, sizeof *list, by_domain);
		*ret_rc = split(w, msg, list, n, a);
	}
	arena_free(a);
	return 1;
}
