/* What is known of a domain's policy: to and from the table, and as it is told. See sts_policies.h. */
#include "sts_policies_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct counted {
	struct sts_held held; /* first: what is handed out */
	unsigned refs;
	char domain[DNS_NAME_MAX + 1];
	char body[];
};

const struct sts_held *sts_held_none(void)
{
	static const struct counted none = { .held = { .domain = "" } };
	return &none.held;
}

const struct sts_held *sts_held_unknown(void)
{
	static const struct counted unknown = { .held = { .domain = "", .unknown = true } };
	return &unknown.held;
}

static struct counted *counted_of(const struct sts_held *h)
{
	return (struct counted *)(void *)(uintptr_t)h;
}

struct sts_held *sts_held_ref(const struct sts_held *h)
{
	struct counted *c = counted_of(h);
	if (c->refs) /* those of nobody are not counted */
		c->refs++;
	return &c->held;
}

void sts_held_unref(const struct sts_held *h)
{
	struct counted *c = counted_of(h);
	if (c && c->refs && !--c->refs)
		free(c);
}

static struct sts_held *make(const struct sts_known *k, bool holds, bool unknown)
{
	struct counted *c = calloc(1, sizeof *c + (holds ? k->body_n : 0));
	const char *why;
	if (!c)
		return NULL;
	struct sts_held *h = &c->held;
	c->refs = 1;
	snprintf(c->domain, sizeof c->domain, "%.*s", (int)k->item.n, (const char *)k->item.key);
	h->domain = c->domain;
	h->unknown = unknown;
	if (holds) {
		memcpy(c->body, k->body, k->body_n);
		h->body = str_n(c->body, k->body_n);
		h->known = sts_policy_parse(h->body, &h->policy, &why) == 0;
		h->mode = h->known ? h->policy.mode : STS_NONE;
		snprintf(h->id, sizeof h->id, "%s", k->cached.id);
		h->expires = sts_expires(&k->cached);
	}
	h->failed = k->cached.failures > 0;
	h->failure = k->failure;
	snprintf(h->why, sizeof h->why, "%s", h->failed ? k->why : "");
	return h;
}

void sts_known_changed(struct sts_known *k)
{
	sts_held_unref(k->held);
	k->held = NULL;
}

const struct sts_held *sts_known_held(struct sts_known *k, bool unknown, int64_t now)
{
	bool holds = k->cached.known && k->body && now < sts_expires(&k->cached);
	if (k->held && (k->held->unknown != unknown || (k->held->known && !holds)))
		sts_known_changed(k);
	if (!k->held)
		k->held = make(k, holds, unknown);
	return k->held ? k->held : sts_held_none();
}

static void drop_body(struct sts_known *k)
{
	free(k->body);
	k->body = NULL;
	k->body_n = 0;
}

static int keep_body(struct sts_known *k, struct str body)
{
	char *copy = malloc(body.n + 1);
	if (!copy)
		return -1;
	memcpy(copy, body.p, body.n);
	copy[body.n] = 0;
	free(k->body);
	k->body = copy;
	k->body_n = body.n;
	return 0;
}

static enum tlsrpt_result result_of(const char *word)
{
	static const enum tlsrpt_result results[] = { TLSRPT_STS_POLICY_INVALID, TLSRPT_STS_WEBPKI_INVALID };
	for (size_t i = 0; i < 2; i++)
		if (strcmp(word, tlsrpt_result_name(results[i])) == 0)
			return results[i];
	return TLSRPT_STS_POLICY_FETCH_ERROR;
}

static void domain_of(const struct sts_known *k, char out[DNS_NAME_MAX + 1])
{
	snprintf(out, DNS_NAME_MAX + 1, "%.*s", (int)k->item.n, (const char *)k->item.key);
}

static void loaded(void *arg, const PGresult *r)
{
	struct sts_known *k = arg;
	struct sts_policy policy;
	const char *why;
	k->loading = false;
	if (!r) {
		sts_policies_loaded(k, false);
		return;
	}
	k->loaded = k->p->host->now_us() / 1000000;
	if (PQntuples(r) != 1) {
		if (k->stored && !k->writes) {
			k->cached = (struct sts_cached){ .known = false };
			drop_body(k);
			sts_known_changed(k);
		}
		sts_policies_loaded(k, true); /* what memory knows and the table never got stays */
		return;
	}
	k->stored = true;
	struct str body = str_n(PQgetvalue(r, 0, 1), (size_t)PQgetlength(r, 0, 1));
	int64_t fetched = known_number(r, 0, 2);
	if (!PQgetisnull(r, 0, 0) && (!k->cached.known || fetched >= k->cached.fetched) && sts_policy_parse(body, &policy, &why) == 0 && !keep_body(k, body)) {
		struct sts_cached c = { .known = true, .fetched = fetched, .max_age = policy.max_age };
		snprintf(c.id, sizeof c.id, "%s", PQgetvalue(r, 0, 0));
		k->cached = c;
	}
	if (known_number(r, 0, 3) >= k->cached.failed && known_number(r, 0, 3) > k->cached.fetched) {
		k->cached.failed = known_number(r, 0, 3);
		k->cached.failures = (unsigned)known_number(r, 0, 4);
		k->failure = result_of(PQgetvalue(r, 0, 5));
		snprintf(k->why, sizeof k->why, "%s", PQgetvalue(r, 0, 6));
	}
	sts_known_changed(k);
	sts_policies_loaded(k, true);
}

int sts_known_load(struct sts_known *k, bool used)
{
	char domain[DNS_NAME_MAX + 1];
	const char *values[] = { domain, used ? "t" : "f" };
	if (k->loading)
		return 0;
	domain_of(k, domain);
	k->loading = known_ask(k->p->known, "SELECT id, body, fetched, failed, failures, result, why FROM pepsi.sts_policy_get($1::text, $2::boolean)", 2, values, loaded, k) == 0;
	return k->loading ? 0 : -1;
}

/* What memory has is in the table, or is not. */
static void written(void *arg, const PGresult *r)
{
	struct sts_known *k = arg;
	k->writes--;
	k->stored |= r != NULL;
}

static void forgotten(void *arg, const PGresult *r)
{
	struct sts_known *k = arg;
	(void)r;
	k->writes--;
}

static void write_known(struct sts_known *k, const char *sql, int n, const char *const *values, known_fn fn)
{
	if (known_ask(k->p->known, sql, n, values, fn, k) == 0)
		k->writes++;
}

static void number(char out[24], int64_t n)
{
	snprintf(out, 24, "%lld", (long long)n);
}

void sts_known_fetched(struct sts_known *k, const struct sts_policy *policy, struct str body, int64_t now)
{
	char domain[DNS_NAME_MAX + 1], fetched[24], expires[24], due[24];
	if (keep_body(k, body)) {
		sts_known_failed(k, TLSRPT_STS_POLICY_FETCH_ERROR, STR("out of memory"), now);
		return;
	}
	sts_fetched(&k->cached, k->id, policy, now);
	sts_known_changed(k);
	domain_of(k, domain);
	number(fetched, now);
	number(expires, sts_expires(&k->cached));
	number(due, sts_due(&k->cached));
	const char *values[] = { domain, k->cached.id, sts_mode_name(policy->mode), k->body, fetched, expires, due };
	k->stored = false;
	write_known(k, "SELECT pepsi.sts_policy_put($1::text, $2::text, $3::text, $4::text, $5::bigint, $6::bigint, $7::bigint)", 7, values, written);
}

void sts_known_failed(struct sts_known *k, enum tlsrpt_result result, struct str why, int64_t now)
{
	char domain[DNS_NAME_MAX + 1], at[24], due[24], before[24];
	number(before, k->cached.failures);
	sts_failed(&k->cached, now);
	k->failure = result;
	snprintf(k->why, sizeof k->why, "%.*s", STR_ARG(why));
	sts_known_changed(k);
	domain_of(k, domain);
	number(at, now);
	number(due, sts_due(&k->cached));
	const char *values[] = { domain, tlsrpt_result_name(result), k->why, at, due, before };
	write_known(k, "SELECT pepsi.sts_policy_failed($1::text, $2::text, $3::text, $4::bigint, $5::bigint, $6::integer)", 6, values, written);
}

void sts_known_forget(struct sts_known *k)
{
	char domain[DNS_NAME_MAX + 1];
	const char *values[] = { domain };
	domain_of(k, domain);
	k->cached = (struct sts_cached){ .known = false };
	drop_body(k);
	sts_known_changed(k);
	write_known(k, "SELECT pepsi.sts_policy_forget($1::text)", 1, values, forgotten);
}
