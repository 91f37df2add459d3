/* TLS reports made of counts (tlsrpt_build.h): rows of one policy together, what a database should not have left out; the message around it; and which
 * https URIs are POSTed to (fetch/post.h). */
#include "cli_internal.h"
#include "fetch/post.h"
#include "proto/report/pack.h"
#include "tlsrpt_build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct tlsrpt_sender sender = { .host = "mx.here.test", .org = "Here \"& Co\"", .contact = "postmaster@here.test", .from = "tls@here.test", .stage = "init",
	.max_size = 5 << 20, .max_rows = 2000 };
static const char id[] = "0123456789abcdef0123456789abcdef";

static const char counts[] = "["
    "{\"policy\":{\"type\":\"sts\",\"strings\":[\"version: STSv1\",\"mode: testing\"],\"mx\":[\"*.example.org\"]},\"failure\":null,\"sessions\":40},"
    "{\"policy\":{\"mx\":[\"*.example.org\"],\"type\":\"sts\",\"strings\":[\"version: STSv1\",\"mode: testing\"]},\"failure\":{\"result\":\"certificate-expired\","
    "\"mx\":\"mx1.example.org\",\"receiving_ip\":\"192.0.2.1\",\"sending_ip\":\"198.51.100.1\",\"code\":\"x\"},\"sessions\":3},"
    "{\"policy\":{\"type\":\"sts\",\"strings\":[\"version: STSv1\",\"mode: enforce\"]},\"failure\":{\"result\":\"of tomorrow\"},\"sessions\":2},"
    "{\"policy\":{\"type\":\"tlsa\",\"domain\":\"mx1.example.org\",\"strings\":[\"3 1 1 00\"]},\"failure\":null,\"sessions\":5},"
    "{\"policy\":{\"type\":\"burn\"},\"failure\":null,\"sessions\":5},{\"policy\":7,\"sessions\":1},{\"sessions\":1},"
    "{\"policy\":{\"type\":\"sts\"},\"sessions\":-1}]";

static struct json_object *report(void)
{
	return json_tokener_parse("{\"id\":7,\"domain\":\"example.org\",\"begin\":1796083200,\"rows\":4,\"sessions\":50}");
}

static void policies(void **state)
{
	struct json_object *o = report(), *rows = json_tokener_parse(counts);
	struct tlsrpt_built b;
	struct tlsrpt r;
	struct arena *a = arena_new(TLSRPT_MEMORY_MAX);
	struct buf json = BUF_INIT(TLSRPT_JSON_MAX), headers, body;
	const char *why = "";
	(void)state;
	assert_int_equal(tlsrpt_build(&b, &sender, o, rows, id), 0);
	assert_int_equal(tlsrpt_unpack(buf_str(&b.packed), &json, &why), 0);
	if (tlsrpt_read(buf_str(&json), a, &r, &why))
		fail_msg("%s", why);
	assert_true(str_eq(r.id, STR("0123456789abcdef0123456789abcdef@mx.here.test")) && str_eq(r.org, STR("Here \"& Co\"")));
	assert_true(r.begin == 1796083200 && r.end == 1796083200 + 86399);
	assert_int_equal(r.n_policies, 3);
	assert_true(r.policy[0].type == TLSRPT_STS && r.policy[0].successes == 40 && r.policy[0].failures == 3 && r.policy[0].n_failures == 1 && r.policy[0].n_mx == 1);
	assert_true(r.policy[0].n_strings == 2 && str_eq(r.policy[0].string[1], STR("mode: testing")) && str_eq(r.policy[0].domain, STR("example.org")));
	assert_true(r.policy[0].failure[0].result == TLSRPT_CERTIFICATE_EXPIRED && r.policy[0].failure[0].count == 3 &&
		    str_eq(r.policy[0].failure[0].mx_host, STR("mx1.example.org")) && str_eq(r.policy[0].failure[0].receiving_ip, STR("192.0.2.1")));
	assert_true(r.policy[1].failure[0].result == TLSRPT_VALIDATION_FAILURE && str_eq(r.policy[1].failure[0].code, STR("of tomorrow")));
	assert_true(r.policy[2].type == TLSRPT_TLSA && str_eq(r.policy[2].domain, STR("mx1.example.org")) && r.policy[2].successes == 5);
	/* as it travels */
	assert_int_equal(tlsrpt_mail(&b, &sender, STR("example.org"), "r@example.org", 2, &headers, &body), 0);
	struct tlsrpt_mail m;
	tlsrpt_mail_read(buf_str(&headers), buf_str(&body), 1 << 20, &m);
	assert_true(m.found && str_eq(buf_str(&m.data), buf_str(&b.packed)));
	assert_string_equal(m.domain, "example.org");
	assert_string_equal(m.submitter, "mx.here.test");
	tlsrpt_mail_done(&m);
	/* no header through an address */
	struct buf h2, b2;
	assert_int_equal(tlsrpt_mail(&b, &sender, STR("example.org"), "r@example.org\r\nBcc: x", 1, &h2, &b2), -1);
	buf_free(&h2);
	buf_free(&b2);
	buf_free(&headers);
	buf_free(&body);
	buf_free(&json);
	arena_free(a);
	tlsrpt_built_done(&b);
	json_object_put(rows);
	json_object_put(o);
}

static void nothing(void **state)
{
	struct json_object *o = report(), *rows = json_object_new_array();
	struct tlsrpt_built b;
	(void)state;
	assert_int_equal(tlsrpt_build(&b, &sender, o, rows, id), -1);
	tlsrpt_built_done(&b);
	json_object_put(rows);
	json_object_put(o);
}

static void uris(void **state)
{
	static const struct {
		const char *uri, *host;
		unsigned port;
	} of[] = { { "https://reports.example.org/v1?x", "reports.example.org", 443 }, { "HTTPS://Reports.Example.org", "reports.example.org", 443 },
		{ "https://a.example:443/x", "a.example", 443 }, { "https://a.example?x@y", "a.example", 443 },
		{ "https://a.example:8443/x", NULL, 0 }, { "https://a.example:25", NULL, 0 }, { "http://a.example/", NULL, 0 }, { "https://", NULL, 0 }, { "https://127.0.0.1/", NULL, 0 }, { "https://[::1]/", NULL, 0 }, { "https://2130706433/", NULL, 0 },
		{ "https://u:p@a.example/", NULL, 0 }, { "https://a.example:0/", NULL, 0 }, { "https://a.example:x/", NULL, 0 }, { "https://a.example:99999/", NULL, 0 },
		{ "https://a.example/ x", NULL, 0 }, { "https://a.example/\r\nx", NULL, 0 }, { "file:///etc/passwd", NULL, 0 } };
	(void)state;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		struct post_url u;
		const char *why = NULL;
		int rc = post_url_read(str_from(of[i].uri), &u, &why);
		if (rc != (of[i].host ? 0 : -1) || (rc && !why))
			fail_msg("%s: %d", of[i].uri, rc);
		if (of[i].host) {
			assert_string_equal(u.host, of[i].host);
			assert_int_equal(u.port, of[i].port);
		}
	}
}

static void reached(void **state)
{
	static const unsigned char loop[4] = { 127, 0, 0, 1 }, inner[4] = { 10, 1, 2, 3 };
	struct reach *none = reach_new(NULL), *lab = reach_new("127.0.0.0/8");
	struct buf b = BUF_INIT(200);
	const struct reach_address to[2] = { { .ip = { 192, 0, 2, 1 }, .n = 4 }, { .ip = { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 }, .n = 16 } };
	(void)state;
	assert_true(none && lab && reach_refused(none, loop, 4) && reach_refused(none, inner, 4) && !reach_refused(lab, loop, 4) && reach_refused(lab, inner, 4));
	reach_resolved(&b, "a.example", 443, to, 2);
	assert_string_equal(buf_z(&b), "+a.example:443:192.0.2.1,[2001:db8::1]");
	buf_free(&b);
	reach_free(none);
	reach_free(lab);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(policies), cmocka_unit_test(nothing), cmocka_unit_test(uris), cmocka_unit_test(reached) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
