/* Single values: booleans, durations, sizes, addresses, networks, domains, variables. */
#include "support.h"

static void durations(void **state)
{
	(void)state;
	static const struct {
		const char *in;
		int64_t us; /* -1: refused */
	} t[] = {
		{ "30", 30000000 }, { "30 s", 30000000 }, { "30s", 30000000 }, { "5 min", 300000000 }, { "5 MIN", 300000000 },
		{ "1 h", 3600000000 }, { "2 d", 172800000000 }, { "1 w", 604800000000 }, { "1 h 30 min", 5400000000 },
		{ "5 ms", 5000 }, { "7 us", 7 }, { "0", 0 }, { "0 s", 0 }, { "  1 s ", 1000000 }, { "1 hour", 3600000000 },
		{ "", -1 }, { "s", -1 }, { "-1 s", -1 }, { "1.5 h", -1 }, { "1 x", -1 }, { "30 min 1 h", -1 }, { "1 h 2 h", -1 },
		{ "1 h 30", -1 }, { "30 1 s", -1 }, { "99999999999999999999 s", -1 }, { "9223372036854775807 d", -1 },
		{ "9223372036854775807", -1 }, { "5 parsecs", -1 }, { "1 s x", -1 },
	};
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		int64_t v = 42;
		int r = config_parse_duration_us(str_from(t[i].in), &v);
		if (r != (t[i].us < 0 ? -1 : 0) || v != (t[i].us < 0 ? 42 : t[i].us))
			fail_msg("\"%s\": %d, %lld", t[i].in, r, (long long)v);
		/* whole seconds only without _us */
		int whole = t[i].us >= 0 && t[i].us % 1000000 == 0;
		v = 42;
		r = config_parse_duration(str_from(t[i].in), &v);
		if (r != (whole ? 0 : -1) || v != (whole ? t[i].us / 1000000 : 42))
			fail_msg("seconds \"%s\": %d, %lld", t[i].in, r, (long long)v);
	}
}

static void sizes(void **state)
{
	(void)state;
	static const struct {
		const char *in;
		int64_t v;
	} t[] = {
		{ "0", 0 }, { "17", 17 }, { "17 B", 17 }, { "64 KiB", 65536 }, { "64kib", 65536 }, { "50 MiB", 52428800 },
		{ "1 GiB", 1073741824 }, { "2 TiB", INT64_C(2199023255552) }, { "100 KB", 100000 }, { "1 MB", 1000000 },
		{ "", -1 }, { "KiB", -1 }, { "1 K", -1 }, { "1 M", -1 }, { "-1", -1 }, { "1.5 MiB", -1 }, { "1 MiB 1 KiB", -1 },
		{ "9223372036854775807 KiB", -1 }, { "99999999999999999999", -1 }, { "10 MiB,", -1 },
	};
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		int64_t v = -1;
		int r = config_parse_size(str_from(t[i].in), &v);
		if (r != (t[i].v < 0 ? -1 : 0) || v != t[i].v)
			fail_msg("\"%s\": %d, %lld", t[i].in, r, (long long)v);
	}
}

static void booleans(void **state)
{
	(void)state;
	static const struct {
		const char *in;
		int v;
	} t[] = { { "YES", 1 }, { "yes", 1 }, { "On", 1 }, { "TRUE", 1 }, { "1", 1 }, { "NO", 0 }, { "off", 0 }, { "false", 0 },
		{ "0", 0 }, { "", -1 }, { "2", -1 }, { "y", -1 }, { "YES please", -1 } };
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		int64_t v = -1;
		int r = config_parse_bool(str_from(t[i].in), &v);
		if (r != (t[i].v < 0 ? -1 : 0) || v != t[i].v)
			fail_msg("\"%s\"", t[i].in);
	}
}

static void hostports(void **state)
{
	(void)state;
	static const struct {
		const char *in, *host;
		int port;
	} t[] = {
		{ "127.0.0.1:25", "127.0.0.1", 25 }, { "[::]:25", "::", 25 }, { "[2001:db8::1]:65535", "2001:db8::1", 65535 },
		{ "localhost:0", "localhost", 0 }, { "127.0.0.1", NULL, 0 }, { "::1:25", NULL, 0 }, { "[::1]", NULL, 0 },
		{ "[::1]25", NULL, 0 }, { "[]:25", NULL, 0 }, { ":25", NULL, 0 }, { "a:65536", NULL, 0 }, { "a:", NULL, 0 },
		{ "a:x", NULL, 0 }, { "a b:1", NULL, 0 }, { "", NULL, 0 }, { "[", NULL, 0 }, { "[::1:25", NULL, 0 },
		{ "0123456789012345678901234567890123456789:1", NULL, 0 },
	};
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		char host[32];
		uint16_t port = 1;
		int r = config_parse_hostport(str_from(t[i].in), host, sizeof host, &port);
		if (r != (t[i].host ? 0 : -1) || (t[i].host && (strcmp(host, t[i].host) != 0 || port != t[i].port)))
			fail_msg("\"%s\": %d", t[i].in, r);
	}
}

static void networks(void **state)
{
	(void)state;
	static const struct {
		const char *list, *address;
		bool in;
	} t[] = {
		{ "127.0.0.0/8 ::1", "127.1.2.3", true }, { "127.0.0.0/8 ::1", "128.0.0.0", false },
		{ "127.0.0.0/8 ::1", "::1", true }, { "127.0.0.0/8 ::1", "::2", false },
		{ "127.0.0.0/8 ::1", "::ffff:127.0.0.1", true }, /* mapped counts as IPv4 */
		{ "192.0.2.128/25", "192.0.2.127", false }, { "192.0.2.128/25", "192.0.2.128", true },
		{ "192.0.2.4/30", "192.0.2.7", true }, { "192.0.2.4/30", "192.0.2.8", false },
		{ "192.0.2.1", "192.0.2.1", true }, { "192.0.2.1", "192.0.2.2", false }, { "192.0.2.77/24", "192.0.2.1", true },
		{ "0.0.0.0/0", "203.0.113.9", true }, { "0.0.0.0/0", "2001:db8::1", false }, { "::/0", "2001:db8::1", true },
		{ "::/0", "203.0.113.9", true }, { "2001:db8::/33", "2001:db8:7fff::1", true },
		{ "2001:db8::/33", "2001:db8:8000::1", false }, { "fe80::/10", "fe80::1%eth0", true },
		{ "[::1]", "::1", true }, { "nonsense 10.0.0.0/33 10.0.0.0/8", "10.1.1.1", true }, { "", "10.1.1.1", false },
		{ "10.0.0.0/", "10.0.0.0", false }, { "10.0.0.0/8", "", false }, { "10.0.0.0/8", "x", false },
	};
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		struct config_networks *n = config_networks_new(t[i].list);
		assert_non_null(n);
		if (config_networks_match(t[i].list, t[i].address) != t[i].in || config_networks_has(n, t[i].address) != t[i].in)
			fail_msg("%s in \"%s\"", t[i].address, t[i].list);
		config_networks_free(n);
	}
	assert_false(config_networks_match(NULL, "::1"));
	struct config_networks *none = config_networks_new(NULL);
	assert_non_null(none);
	assert_false(config_networks_has(none, "::1"));
	assert_false(config_networks_has(none, NULL));
	config_networks_free(none);
	config_networks_free(NULL);
}

static void domains(void **state)
{
	(void)state;
	static const struct {
		const char *list, *domain;
		bool in;
	} t[] = {
		{ "example.test example.org", "example.org", true }, { "example.test", "EXAMPLE.Test", true },
		{ "EXAMPLE.test", "example.test", true }, { "example.test", "example.test.", true },
		{ "example.test", "x.example.test", false }, { "*.example.test", "x.example.test", true },
		{ "*.example.test", "a.b.example.test", true }, { "*.example.test", "example.test", false },
		{ "*.example.test", "xexample.test", false }, { "*.example.test", ".example.test", false },
		{ "münchen.example", "xn--mnchen-3ya.example", true }, { "xn--mnchen-3ya.example", "MÜNCHEN.example", true },
		{ "*.münchen.example", "mx.xn--mnchen-3ya.example", true }, { "[192.0.2.1]", "[192.0.2.1]", true },
		{ "[IPv6:2001:DB8::1]", "[ipv6:2001:db8::1]", true }, { "*", "example.org", false },
		{ "bad\"word .dot a..b example.org", "example.org", true }, { "", "example.org", false }, { "example.org", "", false },
		{ "zz.test aa.test mm.test", "aa.test", true }, { "zz.test aa.test mm.test", "zz.test", true },
	};
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		struct config_domains *d = config_domains_new(t[i].list);
		assert_non_null(d);
		if (config_domains_match(t[i].list, str_from(t[i].domain)) != t[i].in ||
		    config_domains_has(d, str_from(t[i].domain)) != t[i].in)
			fail_msg("%s in \"%s\"", t[i].domain, t[i].list);
		config_domains_free(d);
	}
	char out[CONFIG_DOMAIN_MAX + 1];
	assert_int_equal(config_domain_fold(STR("a\0b"), out, sizeof out), -1);
	assert_int_equal(config_domain_fold(STR("\xff\xfe.example"), out, sizeof out), -1);
	assert_int_equal(config_domain_fold(STR("abc"), out, 3), -1);
	assert_false(config_domains_match(NULL, STR("x")));
	config_domains_free(NULL);
}

static void variables(void **state)
{
	(void)state;
	setenv("PEPSI_T_A", "aa", 1);
	setenv("PEPSI_T_EMPTY", "", 1);
	unsetenv("PEPSI_T_NONE");
	setenv("STATE_DIR", "/from/environment", 1);
	struct config_faults *f = config_faults_new();
	support_write("t.conf", STR("[pepsi]\nSTATE_DIR = $PEPSI_T_A/state\n"));
	struct config *c = config_load("t.conf", f);
	assert_int_equal(config_faults_n(f, true), 0);
	static const struct {
		const char *in, *out, *why;
	} t[] = {
		{ "/plain", "/plain", NULL }, { "", "", NULL }, { "/$PEPSI_T_A/x", "/aa/x", NULL }, { "/${PEPSI_T_A}x", "/aax", NULL },
		{ "${PEPSI_T_NONE:-d}/x", "d/x", NULL }, { "${PEPSI_T_EMPTY:-d}", "d", NULL }, { "$PEPSI_T_EMPTY", "", NULL },
		{ "${PEPSI_T_A:-d}", "aa", NULL }, { "${PEPSI_T_NONE:-}", "", NULL },
		{ "${PEPSI_T_NONE:-${PEPSI_T_A}/b}/c", "aa/b/c", NULL }, { "a$$b", "a$b", NULL },
		{ "$STATE_DIR/run", "aa/state/run", NULL }, { "$PEPSI_T_NONE", NULL, "no such environment variable: PEPSI_T_NONE" },
		{ "a$", NULL, "a variable without a name, or with too long a name: $" },
		{ "${A", NULL, "expected ${NAME} or ${NAME:-default}: ${A" },
		{ "${A-b}", NULL, "expected ${NAME} or ${NAME:-default}: ${A-b}" },
		{ "${X1:-${X2:-${X3:-${X4:-${X5:-deep}}}}}", NULL, "defaults go too deep in ${X5" },
	};
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		struct buf why = BUF_INIT(1024);
		char *out = config_expand(c, t[i].in, &why);
		if (t[i].out)
			assert_string_equal(out, t[i].out);
		else
			assert_null(out);
		assert_string_equal(buf_z(&why), t[i].why ? t[i].why : "");
		free(out);
		buf_free(&why);
	}
	/* STATE_DIR's own value: its name means the environment's there */
	assert_int_equal(config_set(c, "pepsi", "STATE_DIR", "$STATE_DIR/x"), 0);
	char *p = config_path(c, "pepsi", "STATE_DIR"), *q = config_path(c, "pepsi-ingress", "SPOOL_DIR");
	assert_string_equal(p, "/from/environment/x");
	assert_string_equal(q, "/from/environment/x/spool");
	free(p);
	free(q);
	config_free(c);
	config_faults_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(durations),
		cmocka_unit_test(sizes),
		cmocka_unit_test(booleans),
		cmocka_unit_test(hostports),
		cmocka_unit_test(networks),
		cmocka_unit_test(domains),
		cmocka_unit_test(variables),
	};
	return cmocka_run_group_tests(tests, support_enter, support_leave);
}
