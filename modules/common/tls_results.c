/* Counting in memory, and the way into the table; see tls_results.h. */
#include "tls_results.h"

#include "base/json.h"
#include "base/map.h"
#include "known.h"
#include "say.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/random.h>

enum { POLICY_MAX = 30000, FAILURE_MAX = 4000 };

struct row {
	TAILQ_ENTRY(row) link;
	uint64_t hash;
	int64_t day;
	char *domain, *policy, *failure;
	uint64_t sessions;
};
struct tls_results {
	const struct pepsi_host *host;
	struct known *known;
	struct pepsi_event *timer;
	struct map map;
	TAILQ_HEAD(, row) rows;
	size_t n;
	uint64_t seed, lost;
	bool armed, writing; /* the timer; the batch is on its way */
	char source[64];     /* of this worker: a batch whose reply was lost counts once */
	uint64_t seq;        /* of the batch under way: kept until it is known to be in the table */
	size_t batch;        /* rows of it: the first ones; 0: none */
};

static void row_free(struct tls_results *t, struct row *r)
{
	TAILQ_REMOVE(&t->rows, r, link);
	if (map_get(&t->map, r->hash) == r)
		map_del(&t->map, r->hash);
	t->n--;
	free(r->domain);
	free(r->policy);
	free(r->failure);
	free(r);
}

static void arm(struct tls_results *t)
{
	if (!t->armed && !t->writing && t->host->event_arm(t->timer, 0, TLS_RESULTS_FLUSH_MS) == PEPSI_OK)
		t->armed = true;
}

static void flush(struct tls_results *t);

/* The batch is in the table, or is to be written again: under the same number, since it may be there all the same. */
static void written(void *arg, const PGresult *res)
{
	struct tls_results *t = arg;
	t->writing = false;
	if (!res) {
		arm(t);
		return;
	}
	t->lost += PQntuples(res) == 1 ? (uint64_t)known_number(res, 0, 0) : 0;
	for (; t->batch; t->batch--)
		row_free(t, TAILQ_FIRST(&t->rows));
	if (t->lost)
		say(t->host, NULL, PEPSI_LOG_WARN, "event=tls-results-lost sessions=%llu hint=\"more destinations in a day than are reported on\"",
		    (unsigned long long)t->lost);
	t->lost = 0;
	flush(t);
}

/* The first rows, which nothing is added to any more. */
static void flush(struct tls_results *t)
{
	enum { COLUMNS = 5 };
	struct buf a[COLUMNS];
	char seq[24], rows[24], reports[24];
	const char *values[4 + COLUMNS] = { t->source, seq, rows, reports };
	struct row *r;
	size_t n = 0;
	if (!t->n || t->writing)
		return;
	if (!t->batch) {
		t->seq++;
		TAILQ_FOREACH(r, &t->rows, link) {
			if (t->batch == TLS_RESULTS_BATCH)
				break;
			map_del(&t->map, r->hash);
			t->batch++;
		}
	}
	for (size_t k = 0; k < COLUMNS; k++)
		a[k] = (struct buf)BUF_INIT(TLS_RESULTS_BATCH * (size_t)(POLICY_MAX + 64));
	TAILQ_FOREACH(r, &t->rows, link) {
		if (n++ == t->batch)
			break;
		known_add_number(&a[0], r->day);
		known_add(&a[1], str_from(r->domain));
		known_add(&a[2], str_from(r->policy));
		known_add(&a[3], str_from(r->failure));
		known_add_number(&a[4], (int64_t)r->sessions);
	}
	snprintf(seq, sizeof seq, "%llu", (unsigned long long)t->seq);
	snprintf(rows, sizeof rows, "%d", TLS_RESULTS_ROWS_MAX);
	snprintf(reports, sizeof reports, "%d", TLS_RESULTS_REPORTS_MAX);
	bool good = true;
	for (size_t k = 0; k < COLUMNS; k++)
		good &= (values[4 + k] = known_end(&a[k])) != NULL;
	t->writing = good && known_ask(t->known, "SELECT pepsi.tlsrpt_put($1::text, $2::bigint, $3::integer, $4::integer, $5::integer[], $6::text[], $7::text[], "
	    "$8::text[], $9::bigint[])", 4 + COLUMNS, values, written, t) == 0;
	for (size_t k = 0; k < COLUMNS; k++)
		buf_free(&a[k]);
	if (!t->writing)
		arm(t);
}

static void on_timer(void *arg, uint32_t what)
{
	struct tls_results *t = arg;
	(void)what;
	t->host->in_hand(NULL);
	t->armed = false;
	flush(t);
}

static void list(struct buf *b, const char *key, const struct str *s, size_t n)
{
	if (!n)
		return;
	json_put_key(b, key);
	for (size_t i = 0; i < n; i++) {
		buf_addc(b, i ? ',' : '[');
		json_put_str(b, s[i]);
	}
	buf_addc(b, ']');
}

static void member(struct buf *b, const char *key, const char *value)
{
	if (value && *value)
		json_put_member(b, key, str_from(value));
}

static uint64_t hash_of(const struct tls_results *t, int64_t day, const char *domain, struct str policy, struct str failure)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ t->seed ^ (uint64_t)day;
	struct str parts[] = { str_from(domain), STR("\n"), policy, STR("\n"), failure };
	for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
		for (size_t i = 0; i < parts[k].n; i++)
			h = (h ^ (unsigned char)parts[k].p[i]) * UINT64_C(0x100000001b3);
	h ^= h >> 32;
	return h * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

static void count(struct tls_results *t, int64_t day, const char *domain, struct str policy, struct str failure)
{
	uint64_t hash = hash_of(t, day, domain, policy, failure);
	struct row *r = map_get(&t->map, hash);
	if (r && r->day == day && !strcmp(r->domain, domain) && str_eq(str_from(r->policy), policy) && str_eq(str_from(r->failure), failure)) {
		r->sessions++;
		return;
	}
	r = r || t->n >= TLS_RESULTS_ROWS ? NULL : calloc(1, sizeof *r);
	if (!r) { /* full, or two of one hash */
		t->lost++;
		return;
	}
	*r = (struct row){ .hash = hash, .day = day, .domain = strdup(domain), .policy = str_dupz(policy), .failure = str_dupz(failure), .sessions = 1 };
	TAILQ_INSERT_TAIL(&t->rows, r, link);
	t->n++;
	if (!r->domain || !r->policy || !r->failure || map_put(&t->map, hash, r)) {
		row_free(t, r);
		t->lost++;
	}
}

void tls_results_add(struct tls_results *t, const struct tls_result *r)
{
	struct buf policy = BUF_INIT(POLICY_MAX), failure = BUF_INIT(FAILURE_MAX);
	buf_addc(&policy, '{');
	json_put_member(&policy, "type", str_from(tlsrpt_type_name(r->type)));
	member(&policy, "domain", r->base);
	list(&policy, "strings", r->string, r->n_strings);
	list(&policy, "mx", r->mx, r->n_mx);
	buf_addc(&policy, '}');
	if (!r->success) {
		buf_addc(&failure, '{');
		json_put_member(&failure, "result", str_from(tlsrpt_result_name(r->failure)));
		member(&failure, "mx", r->mx_host);
		member(&failure, "receiving_ip", r->receiving_ip);
		member(&failure, "sending_ip", r->sending_ip);
		member(&failure, "helo", r->helo);
		member(&failure, "code", r->code);
		buf_addc(&failure, '}');
	}
	if (policy.failed || failure.failed) /* a policy of thousands of lines */
		t->lost++;
	else
		count(t, t->host->now_us() / INT64_C(86400000000), r->domain, buf_str(&policy), failure.n ? buf_str(&failure) : STR(""));
	buf_free(&policy);
	buf_free(&failure);
	arm(t);
}

struct tls_results *tls_results_new(const struct pepsi_host *host, const struct pepsi_conf *conf, struct known *known)
{
	struct tls_results *t = calloc(1, sizeof *t);
	uint64_t random = 0;
	if (!t)
		return NULL;
	t->host = host;
	t->known = known;
	TAILQ_INIT(&t->rows);
	if (getrandom(&t->seed, sizeof t->seed, 0) < 0 || getrandom(&random, sizeof random, 0) < 0)
		random = t->seed = (uint64_t)host->now_us();
	snprintf(t->source, sizeof t->source, "%llx-%llx", (unsigned long long)host->now_us(), (unsigned long long)random);
	t->timer = host->event_new(conf, -1, on_timer, t);
	if (t->timer)
		return t;
	free(t);
	return NULL;
}

void tls_results_free(struct tls_results *t)
{
	if (!t)
		return;
	known_settle(t->known);
	flush(t); /* and behind each batch the next one */
	known_settle(t->known);
	while (t->n)
		row_free(t, TAILQ_FIRST(&t->rows));
	map_done(&t->map);
	t->host->event_free(t->timer);
	free(t);
}
