/* Counts for DMARC reports against a database that answers as it is told: what makes a line, what does not, bounds, batches that are
 * lost and sent again, and answers that come too late. */
#include "ingress/tally.h"

#include <json-c/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct database {
	bool down;
	int64_t seq;
	char source[64];
	size_t n, calls;
	struct {
		int64_t begin, end, messages;
		char domain[254], policy[200], data[2048];
	} line[3000];
	store_dmarc_lost_fn fn;
	void *arg;
};

static bool up(void *ctx)
{
	return !((struct database *)ctx)->down;
}

static void put(void *ctx, const struct store_dmarc_tally *t, const struct store_dmarc_line *lines, size_t n, store_dmarc_lost_fn fn, void *arg)
{
	struct database *d = ctx;
	assert_true(n > 0 && n <= STORE_DMARC_TALLY_MAX && n <= 3000);
	assert_null(d->fn); /* one at a time */
	d->seq = t->seq;
	snprintf(d->source, sizeof d->source, "%s", t->source);
	d->n = n;
	d->calls++;
	d->fn = fn;
	d->arg = arg;
	for (size_t i = 0; i < n; i++) {
		d->line[i].begin = lines[i].begin;
		d->line[i].end = lines[i].end;
		d->line[i].messages = lines[i].messages;
		snprintf(d->line[i].domain, sizeof d->line[i].domain, "%.*s", STR_ARG(lines[i].domain));
		snprintf(d->line[i].policy, sizeof d->line[i].policy, "%.*s", STR_ARG(lines[i].policy));
		snprintf(d->line[i].data, sizeof d->line[i].data, "%.*s", STR_ARG(lines[i].data));
	}
}

static void answer(struct database *d, enum store_rc rc, int64_t lost)
{
	store_dmarc_lost_fn fn = d->fn;
	d->fn = NULL;
	fn(d->arg, rc, lost, rc == STORE_OK ? "" : "error");
}

static struct tally *begin(struct database *d)
{
	const struct tally_backend be = { d, up, put };
	const struct tally_settings s = { .on = true, .interval_s = 86400, .max_rows = 100, .max_periods = 10, .address = "dmarc@here.test" };
	memset(d, 0, sizeof *d);
	struct tally *t = tally_new(&be, "life");
	assert_non_null(t);
	tally_configure(t, &s);
	return t;
}

static void add(struct tally *t, const struct tally_message *m, int64_t now)
{
	struct buf slip = BUF_INIT(TALLY_SLIP_MAX);
	tally_write(t, m, &slip);
	assert_false(slip.failed);
	tally_count(t, buf_str(&slip), now);
	buf_free(&slip);
}

static const struct str rcpt = STR_INIT("Bob@Here.test");
#define NOW (INT64_C(1796038764) * 1000000) /* 2026-11-30 11:39:24 */
#define MIDNIGHT (INT64_C(1795996800) * 1000000)

static struct tally_message message(void)
{
	return (struct tally_message){ .domain = STR("example.org"), .asks = true, .p = DMARC_REJECT, .sp = DMARC_QUARANTINE, .np = DMARC_REJECT,
		.aspf_strict = true, .fo = DMARC_FO_1 | DMARC_FO_D, .result = DMARC_RESULT_FAIL, .wanted = DMARC_REJECT, .done = DMARC_REJECT, .ip = { 192, 0, 2, 1 },
		.ip_n = 4, .header_from = STR("Example.ORG"), .envelope_from = STR("b.example.org"), .rcpts = &rcpt, .n_rcpts = 1,
		.spf_domain = STR("b.example.org"), .spf_result = "softfail" };
}

static const char *text_of(const struct database *d, size_t i, const char *key)
{
	static char out[256];
	struct json_object *o = json_tokener_parse(d->line[i].data), *v = NULL;
	assert_non_null(o);
	snprintf(out, sizeof out, "%s", json_object_object_get_ex(o, key, &v) ? json_object_get_string(v) : "-");
	json_object_put(o);
	return out;
}

static void lines(void **state)
{
	static struct database d;
	struct tally *t = begin(&d);
	struct tally_message m = message();
	(void)state;
	for (int i = 0; i < 5; i++)
		add(t, &m, NOW + i);
	m.ip[3] = 2;
	add(t, &m, NOW);
	add(t, &m, NOW + INT64_C(86400) * 1000000); /* the next day */
	tally_flush(t, 10000000, false);
	assert_int_equal(d.n, 3);
	assert_int_equal(d.seq, 1);
	assert_string_equal(d.source, "life");
	size_t five = d.line[0].messages == 5 ? 0 : d.line[1].messages == 5 ? 1 : 2;
	assert_int_equal(d.line[five].messages, 5);
	assert_string_equal(d.line[five].domain, "example.org");
	assert_string_equal(d.line[five].policy, "p=reject sp=quarantine np=reject adkim=r aspf=s fo=1:d t=n by=treewalk");
	assert_true(d.line[five].begin == MIDNIGHT && d.line[five].end == MIDNIGHT + INT64_C(86400) * 1000000);
	assert_string_equal(text_of(&d, five, "ip"), "192.0.2.1");
	assert_string_equal(text_of(&d, five, "disposition"), "reject");
	assert_string_equal(text_of(&d, five, "reason"), "-");
	assert_string_equal(text_of(&d, five, "header_from"), "example.org");
	assert_string_equal(text_of(&d, five, "envelope_to"), "here.test");
	answer(&d, STORE_OK, 0);
	assert_true(tally_idle(t));
	tally_flush(t, 20000000, false);
	assert_int_equal(d.calls, 1); /* nothing to say */
	tally_free(t);
}

static void words(void **state)
{
	static struct database d;
	struct tally *t = begin(&d);
	static const struct {
		enum dmarc_result result;
		enum dmarc_policy wanted, done;
		const char *given, *disposition, *reason;
	} cases[] = {
		{ DMARC_RESULT_PASS, DMARC_REJECT, DMARC_NONE, NULL, "pass", "-" },
		{ DMARC_RESULT_PASS, DMARC_NONE, DMARC_NONE, NULL, "none", "-" },
		{ DMARC_RESULT_FAIL, DMARC_NONE, DMARC_NONE, NULL, "none", "-" },
		{ DMARC_RESULT_FAIL, DMARC_REJECT, DMARC_NONE, NULL, "none", "local_policy" },
		{ DMARC_RESULT_FAIL, DMARC_REJECT, DMARC_NONE, "policy_test_mode", "none", "policy_test_mode" },
		{ DMARC_RESULT_FAIL, DMARC_REJECT, DMARC_QUARANTINE, NULL, "quarantine", "local_policy" },
		{ DMARC_RESULT_FAIL, DMARC_QUARANTINE, DMARC_QUARANTINE, NULL, "quarantine", "-" },
		{ DMARC_RESULT_FAIL, DMARC_NONE, DMARC_REJECT, NULL, "reject", "local_policy" },
		{ DMARC_RESULT_TEMPERROR, DMARC_REJECT, DMARC_NONE, NULL, "none", "other" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct tally_message m = message();
		m.result = cases[i].result;
		m.wanted = cases[i].wanted;
		m.done = cases[i].done;
		m.reason = cases[i].given;
		add(t, &m, NOW);
		tally_flush(t, (int64_t)(i + 1) * 10000000, false);
		assert_string_equal(text_of(&d, 0, "disposition"), cases[i].disposition);
		assert_string_equal(text_of(&d, 0, "reason"), cases[i].reason);
		answer(&d, STORE_OK, 0);
	}
	/* signatures: those that count first */
	const struct tally_dkim sigs[] = { { STR("x.test"), STR("a"), "fail", false }, { STR("y.test"), STR("b"), "pass", false }, { STR("EXAMPLE.org"), STR("c"), "pass", true } };
	struct tally_message m = message();
	m.dkim = sigs;
	m.n_dkim = 3;
	add(t, &m, NOW);
	tally_flush(t, 900000000, false);
	assert_non_null(strstr(d.line[0].data, "\"dkim\":[{\"domain\":\"example.org\",\"selector\":\"c\",\"result\":\"pass\"},{\"domain\":\"y.test\""));
	answer(&d, STORE_OK, 0);
	/* an IPv4 address that came as IPv6, and octets that are no text */
	m = message();
	memcpy(m.ip, (unsigned char[]){ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 9 }, 16);
	m.ip_n = 16;
	m.envelope_from = STR("\xff\x01\"");
	const struct str two[] = { STR("a@here.test"), STR("b@there.test") };
	m.rcpts = two;
	m.n_rcpts = 2;
	add(t, &m, NOW);
	tally_flush(t, 990000000, false);
	assert_string_equal(text_of(&d, 0, "ip"), "192.0.2.9");
	assert_string_equal(text_of(&d, 0, "envelope_to"), "-");
	assert_true(str_is_utf8(str_from(d.line[0].data)));
	answer(&d, STORE_OK, 0);
	tally_free(t);
}

static void not_counted(void **state)
{
	static struct database d;
	struct tally *t = begin(&d);
	struct tally_settings off = { .interval_s = 86400 };
	const struct str us[] = { STR("DMARC@here.test"), STR("dmarc@HERE.test") };
	struct tally_message m = message();
	(void)state;
	m.asks = false;
	add(t, &m, NOW);
	m = message();
	m.ip_n = 0;
	add(t, &m, NOW);
	m = message();
	m.domain = STR("");
	add(t, &m, NOW);
	m = message();
	m.rcpts = us; /* a report of somebody else's */
	m.n_rcpts = 2;
	add(t, &m, NOW);
	tally_configure(t, &off);
	m = message();
	add(t, &m, NOW);
	assert_true(tally_idle(t));
	tally_free(t);
}

static void again(void **state)
{
	static struct database d;
	struct tally *t = begin(&d);
	struct tally_message m = message();
	(void)state;
	d.down = true;
	add(t, &m, NOW);
	tally_flush(t, 10000000, false);
	assert_int_equal(d.calls, 0);
	d.down = false;
	tally_flush(t, 10000001, false);
	assert_int_equal(d.calls, 1);
	add(t, &m, NOW);
	tally_flush(t, 20000000, true); /* the answer is still to come */
	assert_int_equal(d.calls, 1);
	answer(&d, STORE_AWAY, 0);
	tally_flush(t, 20000001, false); /* the pause is kept */
	tally_flush(t, 30000000, false);
	assert_int_equal(d.calls, 2);
	assert_int_equal(d.seq, 1); /* the same batch, by its number */
	assert_int_equal(d.line[0].messages, 1);
	answer(&d, STORE_OK, 0);
	tally_flush(t, 40000000, false);
	assert_int_equal(d.seq, 2);
	assert_int_equal(d.line[0].messages, 1);
	answer(&d, STORE_REFUSED, 0); /* would be refused again: given up, and counted as lost */
	assert_true(tally_idle(t));
	struct buf b = BUF_INIT(4096);
	tally_metrics(t, &b);
	assert_non_null(strstr(buf_z(&b), "\npepsi_dmarc_lost_total 1\n"));
	assert_non_null(strstr(buf_z(&b), "\npepsi_dmarc_counted_total 2\n"));
	buf_free(&b);
	/* an answer that comes when nobody is there any more */
	add(t, &m, NOW);
	tally_flush(t, 50000000, true);
	tally_free(t);
	answer(&d, STORE_OK, 0);
}

/* A stop: a batch is under way, more was counted since; both are waited for, and nothing is when the database is away. */
static void drained(void **state)
{
	static struct database d;
	struct tally *t = begin(&d);
	struct tally_message m = message();
	(void)state;
	assert_false(tally_drain(t, 1));
	add(t, &m, NOW);
	tally_flush(t, 10000000, false);
	add(t, &m, NOW);
	assert_true(tally_drain(t, 10000001));
	assert_int_equal(d.calls, 1);
	answer(&d, STORE_OK, 0);
	assert_true(tally_drain(t, 10000002));
	assert_int_equal(d.calls, 2);
	answer(&d, STORE_OK, 0);
	assert_false(tally_drain(t, 10000003));
	add(t, &m, NOW);
	d.down = true;
	assert_false(tally_drain(t, 10000004));
	assert_int_equal(d.calls, 2);
	tally_free(t);
}

static void bounds(void **state)
{
	static struct database d;
	struct tally *t = begin(&d);
	struct tally_message m = message();
	struct buf b = BUF_INIT(4096);
	int64_t sum = 0;
	(void)state;
	for (int i = 0; i < 3000; i++) { /* one domain with a thousand sources */
		m.ip[1] = (unsigned char)(i >> 8);
		m.ip[2] = (unsigned char)i;
		add(t, &m, NOW);
	}
	for (int i = 0; i < 3000; i++) { /* and thousands of domains */
		char name[64];
		snprintf(name, sizeof name, "d%d.test", i);
		m.domain = str_from(name);
		add(t, &m, NOW);
	}
	tally_flush(t, 10000000, true);
	for (size_t i = 0; i < d.n; i++) {
		sum += d.line[i].messages;
		if (!*d.line[i].data)
			assert_int_equal(d.line[i].messages, 3000 - TALLY_LINES_DOMAIN);
	}
	answer(&d, STORE_OK, 7);
	assert_int_equal(sum, 3000 + TALLY_DOMAINS_MAX - 1);
	tally_status(t, &b);
	char want[200];
	snprintf(want, sizeof want, "{\"on\":true,\"counted\":6000,\"overflow\":%d,\"lost\":%d,\"lines\":0,\"failures\":0}", 3000 - TALLY_LINES_DOMAIN,
	    3000 - TALLY_DOMAINS_MAX + 1 + 7);
	assert_string_equal(buf_z(&b), want);
	buf_free(&b);
	/* and there is room again */
	m = message();
	add(t, &m, NOW);
	tally_flush(t, 20000000, true);
	assert_int_equal(d.n, 1);
	answer(&d, STORE_OK, 0);
	tally_free(t);
}

/* One organisation with names below it without end takes its share of a batch, not all of it. */
static void crowd(void **state)
{
	struct database d;
	struct tally *t = begin(&d);
	char name[64];
	(void)state;
	for (unsigned i = 0; i < 700; i++) {
		struct tally_message m = message();
		snprintf(name, sizeof name, "n%u.evil.test", i);
		m.domain = str_from(name);
		m.org = STR("Evil.test");
		add(t, &m, NOW);
	}
	struct tally_message honest = message();
	add(t, &honest, NOW);
	tally_flush(t, 0, true);
	assert_int_equal(d.n, TALLY_DOMAINS_ORG + 1);
	unsigned there = 0;
	for (size_t i = 0; i < d.n; i++)
		there += !strcmp(d.line[i].domain, "example.org");
	assert_int_equal(there, 1);
	answer(&d, STORE_OK, 0);
	tally_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(lines), cmocka_unit_test(words), cmocka_unit_test(not_counted), cmocka_unit_test(again), cmocka_unit_test(drained),
		cmocka_unit_test(bounds), cmocka_unit_test(crowd) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
