/* Reports made of counts (dmarc_build.h): what the rows become, what is said about messages without one, what is left out of a report that would be
 * too long; and the message around it. */
#include "cli_internal.h"
#include "dmarc_build.h"
#include "proto/report/mail.h"
#include "proto/report/pack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct dmarc_sender sender = { .host = "mx.here.test", .org = "Here", .contact = "postmaster@here.test", .from = "dmarc@here.test", .stage = "init",
	.max_size = 5 << 20, .max_rows = 10000 };

static struct json_object *period(int64_t overflow)
{
	struct json_object *o = json_tokener_parse("{\"id\":7,\"domain\":\"example.org\",\"begin\":1796000000,\"end\":1796086400,"
						   "\"policy\":\"p=reject sp=none np=none adkim=r aspf=s fo=1:d t=y by=psl\",\"rows\":1,\"messages\":9}");
	json_object_object_add(o, "overflow", json_object_new_int64(overflow));
	return o;
}

/* n rows, of n, n - 1, … messages; each as different as rows are. */
static struct json_object *rows(int n)
{
	struct json_object *list = json_object_new_array();
	for (int i = 0; i < n; i++) {
		char text[700];
		snprintf(text, sizeof text, "{\"messages\":%d,\"data\":{\"ip\":\"10.%d.%d.%d\",\"disposition\":\"reject\",\"dkim_aligned\":false,\"spf_aligned\":true,"
					    "\"header_from\":\"h%d.example.org\",\"envelope_from\":\"e%x.test\",\"dkim\":[{\"domain\":\"d%x.test\",\"selector\":\"s\",\"result\":\"pass\"}],"
					    "\"spf\":{\"domain\":\"e%x.test\",\"result\":\"pass\"}}}",
		    n - i, i >> 16, i >> 8 & 255, i & 255, i, (unsigned)i * 2654435761u, (unsigned)i * 40503u, (unsigned)i * 2654435761u);
		json_object_array_add(list, json_tokener_parse(text));
	}
	return list;
}

static void build(struct dmarc_built *b, const struct dmarc_sender *s, int n, int64_t overflow, struct report *ret, struct arena **ret_a)
{
	struct json_object *p = period(overflow), *r = rows(n);
	const char *why = "";
	assert_int_equal(dmarc_build(b, s, p, r), 0);
	struct buf xml = BUF_INIT(REPORT_XML_MAX);
	assert_int_equal(report_unpack(buf_str(&b->packed), &xml, &why), 0);
	*ret_a = arena_new(REPORT_MEMORY_MAX);
	if (report_read(buf_str(&xml), *ret_a, ret, &why))
		fail_msg("%s", why);
	buf_free(&xml);
	struct buf headers, body;
	assert_int_equal(dmarc_mail(b, s, "r@example.org", 1, &headers, &body), 0);
	assert_true(body.n <= dmarc_mail_size(b) && headers.n + body.n <= s->max_size);
	struct report_mail_read m;
	report_mail_read(buf_str(&headers), buf_str(&body), 64 << 20, &m);
	assert_int_equal(m.kind, REPORT_MAIL_REPORT);
	assert_true(str_eq(buf_str(&m.data), buf_str(&b->packed)));
	report_mail_done(&m);
	buf_free(&headers);
	buf_free(&body);
	json_object_put(r);
	json_object_put(p);
}

static void plain(void **state)
{
	struct dmarc_built b;
	struct report r;
	struct arena *a;
	(void)state;
	build(&b, &sender, 3, 0, &r, &a);
	assert_int_equal(r.n_rows, 3);
	assert_int_equal(r.row[0].count, 3);
	assert_int_equal(r.error.n, 0);
	assert_true(r.begin == 1796000000 && r.end == 1796086399);
	assert_true(str_eq(r.policy.discovery, STR("psl")) && str_eq(r.policy.testing, STR("y")) && str_eq(r.policy.fo, STR("1:d")) && str_eq(r.policy.np, STR("none")));
	assert_true(r.row[0].spf_pass && !r.row[0].dkim_pass && r.row[0].n_dkim == 1 && r.row[0].has_spf);
	assert_int_equal(strlen(b.id), 32);
	dmarc_built_done(&b);
	arena_free(a);
	/* what has no row is told */
	build(&b, &sender, 1, 12345, &r, &a);
	assert_non_null(memmem(r.error.p, r.error.n, "12345 further messages", 22));
	dmarc_built_done(&b);
	arena_free(a);
}

static void too_long(void **state)
{
	struct dmarc_sender s = sender;
	(void)state;
	for (size_t max = 8192; max <= 262144; max *= 2) {
		struct dmarc_built b;
		struct report r;
		struct arena *a;
		uint64_t kept = 0;
		long long rows_out = 0, messages_out = 0;
		s.max_size = max;
		build(&b, &s, 10000, 5, &r, &a);
		for (size_t i = 0; i < r.n_rows; i++)
			kept += r.row[i].count;
		if (b.left_out) {
			char text[600];
			snprintf(text, sizeof text, "%.*s", STR_ARG(r.error));
			const char *at = strstr(text, "itemised");
			assert_non_null(at);
			assert_int_equal(sscanf(strchr(at, '.') + 1, " %lld rows with %lld messages were left out", &rows_out, &messages_out), 2);
		}
		/* nothing is lost without a word, those with most messages stay, and the room is used */
		assert_int_equal(r.n_rows + (size_t)rows_out, 10000);
		assert_int_equal(kept + (uint64_t)messages_out, 10000 * 10001 / 2);
		assert_int_equal(r.row[0].count, 10000);
		assert_int_equal(r.row[r.n_rows - 1].count, 10000 - (r.n_rows - 1));
		assert_true(dmarc_mail_size(&b) <= max);
		assert_true(!b.left_out || dmarc_mail_size(&b) > max / 3);
		dmarc_built_done(&b);
		arena_free(a);
	}
}

static void nothing(void **state)
{
	struct dmarc_built b;
	struct json_object *p = period(3), *none = json_object_new_array();
	(void)state;
	assert_int_equal(dmarc_build(&b, &sender, p, none), -1);
	dmarc_built_done(&b);
	json_object_put(none);
	/* a row the database should not have: no report, and no crash */
	struct json_object *odd = json_tokener_parse("[{\"messages\":1},{\"messages\":1,\"data\":{\"disposition\":\"burn\",\"ip\":7}}]");
	assert_int_equal(dmarc_build(&b, &sender, p, odd), -1);
	dmarc_built_done(&b);
	json_object_put(odd);
	json_object_put(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(plain), cmocka_unit_test(too_long), cmocka_unit_test(nothing) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
