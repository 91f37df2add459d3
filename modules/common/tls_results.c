/* The counts of tls_results.h. A batch that could not be written stays as it is, with its number, until it could: sent again, it counts once. */
#include "tls_results.h"

#include "known.h"
#include "memory.h"
#include "say.h"

#include <json-c/json.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

enum { COLUMNS = 5, DAY_S = 86400 };

struct line {
	struct memory_item item;
	int64_t day;
	char domain[DNS_NAME_MAX + 1];
	char *policy, *failure;
	int64_t sessions;
};
struct tls_results {
	struct known_db db;
	struct memory memory;
	struct pepsi_event *timer;
	bool on, armed;
	char source[64], max_rows[24], max_reports[24];
	int64_t seq;
	struct buf batch[COLUMNS]; /* array literals; of one that waits */
	size_t n_batch;
	uint64_t lost;             /* sessions, since it was said */
};

static bool never(void *item)
{
	(void)item;
	return false; /* what is not written is not forgotten */
}

static void line_gone(void *item)
{
	struct line *l = item;
	free(l->policy);
	free(l->failure);
	free(l);
}

/* -- what a line says */

static void put(struct json_object *o, const char *key, const char *text)
{
	if (text && *text)
		json_object_object_add(o, key, json_object_new_string(text));
}

static void put_tlsa(struct json_object *list, const struct dns_rr *rr)
{
	static const char hex[] = "0123456789abcdef";
	struct buf b = BUF_INIT(TLS_RESULTS_POLICY_MAX);
	const unsigned char *p = (const unsigned char *)rr->data.p;
	if (rr->data.n < 4)
		return;
	buf_addf(&b, "%u %u %u ", p[0], p[1], p[2]);
	for (size_t i = 3; i < rr->data.n; i++) {
		buf_addc(&b, hex[p[i] >> 4]);
		buf_addc(&b, hex[p[i] & 15]);
	}
	if (!b.failed)
		json_object_array_add(list, json_object_new_string(buf_z(&b)));
	buf_free(&b);
}

static struct json_object *strings(struct str text)
{
	struct json_object *list = json_object_new_array();
	size_t n = 0;
	for (struct str w; n < TLS_RESULTS_POLICY_MAX && str_word(&text, "\r\n", &w); n += w.n)
		json_object_array_add(list, json_object_new_string_len(w.p, (int)(w.n < TLSRPT_TEXT_MAX ? w.n : TLSRPT_TEXT_MAX)));
	return list;
}

static struct json_object *policy(const struct tls_result *r)
{
	struct json_object *o = json_object_new_object(), *list;
	put(o, "type", tlsrpt_type_name(r->report->policy));
	if (r->report->policy == TLSRPT_TLSA && r->dane) {
		size_t n = 0;
		list = json_object_new_array();
		for (size_t i = 0; r->dane->tlsa && i < r->dane->tlsa->n_rr && n < TLS_RESULTS_POLICY_MAX; n += 2 * r->dane->tlsa->rr[i++].data.n)
			put_tlsa(list, &r->dane->tlsa->rr[i]);
		json_object_object_add(o, "string", list);
		put(o, "domain", r->dane->base[0] ? r->dane->base : r->mx); /* RFC 8460 §1.1: of DANE it is the TLSA base domain */
	} else if (r->report->policy == TLSRPT_STS && r->sts && r->sts->known) {
		json_object_object_add(o, "string", strings(r->sts->body));
		list = json_object_new_array();
		for (size_t i = 0, n = 0; i < r->sts->policy.n_mx && n < TLS_RESULTS_POLICY_MAX / 2; n += r->sts->policy.mx[i++].n)
			json_object_array_add(list, json_object_new_string_len(r->sts->policy.mx[i].p, (int)r->sts->policy.mx[i].n));
		json_object_object_add(o, "mx", list);
	}
	return o;
}

static struct json_object *failure(const struct tls_result *r)
{
	struct json_object *o = json_object_new_object();
	/* that a policy could not be had is about no host */
	bool about_host = r->report->failure != TLSRPT_STS_POLICY_FETCH_ERROR && r->report->failure != TLSRPT_STS_POLICY_INVALID &&
	    r->report->failure != TLSRPT_STS_WEBPKI_INVALID;
	put(o, "result", tlsrpt_result_name(r->report->failure));
	put(o, "code", r->report->code);
	put(o, "sending_ip", r->sending_ip);
	if (about_host) {
		put(o, "mx", r->mx);
		put(o, "receiving_ip", r->receiving_ip);
	}
	return o;
}

static char *text_of(struct json_object *o)
{
	char *s = strdup(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
	json_object_put(o);
	return s;
}

/* -- counting */

static struct line *find(struct tls_results *t, int64_t day, const char *domain, char *policy, char *failure)
{
	struct buf all = BUF_INIT(1 << 20);
	unsigned char key[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	struct line *l = NULL;
	buf_addf(&all, "%lld %s\n%s\n%s", (long long)day, domain, policy, failure);
	if (!all.failed && EVP_Digest(all.p, all.n, key, &n, EVP_sha256(), NULL) && !(l = memory_get(&t->memory, str_n((const char *)key, n))) &&
	    (l = calloc(1, sizeof *l))) {
		if (memory_put(&t->memory, str_n((const char *)key, n), &l->item)) {
			free(l);
			l = NULL;
		} else {
			l->day = day;
			snprintf(l->domain, sizeof l->domain, "%s", domain);
			l->policy = policy;
			l->failure = failure;
			policy = failure = NULL;
		}
	}
	free(policy);
	free(failure);
	buf_free(&all);
	return l;
}

void tls_results_note(struct tls_results *t, const struct tls_result *r)
{
	char domain[DNS_NAME_MAX + 1];
	if (!t->on || dns_name_fold(r->domain, domain) < 0 || !domain[0] || domain[0] == '[')
		return;
	char *p = text_of(policy(r)), *f = r->report->success ? strdup("") : text_of(failure(r));
	struct line *l = NULL;
	if (p && f) {
		l = find(t, t->db.host->now_us() / 1000000 / DAY_S, domain, p, f);
	} else {
		free(p);
		free(f);
	}
	if (l)
		l->sessions++;
	else
		t->lost++;
	if (!t->armed)
		t->armed = t->db.host->event_arm(t->timer, 0, TLS_RESULTS_FLUSH_MS) == PEPSI_OK;
}

/* -- writing */

static void batch_done(struct tls_results *t)
{
	for (size_t k = 0; k < COLUMNS; k++)
		buf_free(&t->batch[k]);
	t->n_batch = 0;
}

/* The next batch out of memory. 0, or -1: nothing, or no memory. */
static int batch_make(struct tls_results *t)
{
	struct memory_item *i, *next;
	struct line *taken[TLS_RESULTS_BATCH];
	bool bad = false;
	size_t octets = 0;
	for (size_t k = 0; k < COLUMNS; k++)
		t->batch[k] = (struct buf)BUF_INIT(4 << 20);
	for (i = TAILQ_FIRST(&t->memory.items); i && t->n_batch < TLS_RESULTS_BATCH && octets < 1 << 20; i = next) {
		struct line *l = (struct line *)(void *)i;
		next = TAILQ_NEXT(i, link);
		known_add_number(&t->batch[0], l->day);
		known_add(&t->batch[1], str_from(l->domain));
		known_add(&t->batch[2], str_from(l->policy));
		known_add(&t->batch[3], str_from(l->failure));
		known_add_number(&t->batch[4], l->sessions);
		octets += strlen(l->policy) + strlen(l->failure);
		taken[t->n_batch++] = l;
	}
	for (size_t k = 0; k < COLUMNS; k++)
		bad |= !known_end(&t->batch[k]);
	if (bad || !t->n_batch) {
		batch_done(t);
		return -1;
	}
	for (size_t k = 0; k < t->n_batch; k++)
		memory_drop(&t->memory, &taken[k]->item);
	t->seq++;
	return 0;
}

/* Writes all there is. False: the database is away. */
static bool flush(struct tls_results *t)
{
	char seq[24];
	while (t->n_batch || batch_make(t) == 0) {
		snprintf(seq, sizeof seq, "%lld", (long long)t->seq);
		const char *values[] = { t->source, seq, t->max_rows, t->max_reports, t->batch[0].p, t->batch[1].p, t->batch[2].p, t->batch[3].p, t->batch[4].p };
		PGresult *r = known_ask(&t->db, "SELECT pepsi.tlsrpt_put($1::text, $2::bigint, $3::integer, $4::integer, $5::integer[], $6::text[], $7::text[], $8::text[], $9::bigint[])",
		    9, values);
		if (!r)
			return false;
		t->lost += PQntuples(r) == 1 ? (uint64_t)known_number(r, 0, 0) : 0;
		PQclear(r);
		batch_done(t);
	}
	if (t->lost)
		say(t->db.host, NULL, PEPSI_LOG_WARN, "event=tls-results-lost sessions=%llu hint=\"too many domains or results, or reports that had gone out: [pepsi-tlsrpt] MAX_DOMAINS\"",
		    (unsigned long long)t->lost);
	t->lost = 0;
	return true;
}

static void on_timer(void *arg, uint32_t what)
{
	struct tls_results *t = arg;
	(void)what;
	t->armed = false;
	if (!flush(t))
		t->armed = t->db.host->event_arm(t->timer, 0, TLS_RESULTS_FLUSH_MS) == PEPSI_OK;
}

static bool is_on(const struct pepsi_host *host, const struct pepsi_conf *conf)
{
	static const char *const yes[] = { "yes", "true", "on", "1" };
	const char *v = host->conf_global(conf, "pepsi-tlsrpt", "REPORTS");
	for (size_t i = 0; v && i < sizeof yes / sizeof *yes; i++)
		if (str_ieq(str_from(v), str_from(yes[i])))
			return true;
	return false;
}

static void limit(const struct pepsi_host *host, const struct pepsi_conf *conf, const char *option, char *out, size_t size, const char *most)
{
	const char *v = host->conf_global(conf, "pepsi-tlsrpt", option);
	snprintf(out, size, "%s", v && *v ? v : most);
}

struct tls_results *tls_results_new(const struct pepsi_host *host, const struct pepsi_conf *conf)
{
	struct tls_results *t = calloc(1, sizeof *t);
	uint64_t chance = 0;
	if (!t)
		return NULL;
	if (getrandom(&chance, sizeof chance, 0) != sizeof chance)
		chance = (uint64_t)host->mono_ms();
	t->db = (struct known_db){ .host = host, .conf = conf };
	t->on = is_on(host, conf);
	limit(host, conf, "MAX_ROWS", t->max_rows, sizeof t->max_rows, "2000");
	limit(host, conf, "MAX_DOMAINS", t->max_reports, sizeof t->max_reports, "50000");
	snprintf(t->source, sizeof t->source, "tls/%lld/%016llx", (long long)host->now_us(), (unsigned long long)chance);
	memory_init(&t->memory, TLS_RESULTS_KEPT, chance, never, line_gone);
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
	flush(t);
	t->db.host->event_free(t->timer);
	batch_done(t);
	memory_done(&t->memory);
	free(t);
}
