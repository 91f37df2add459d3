/* The sealing stage over rows in memory: whose mail is sealed, by the address of ours that it was sent to and by the one it goes to, by which domain and with
 * which key; what waits for a key. What a seal is worth is told by unit/dkim_arc_seal, vectors/arc and e2e/arc. */
#include "stage.h"

#include "proto/dkim/private.h"
#include "proto/mail/header.h"

#include <stdio.h>
#include <sys/stat.h>

#define CAME "{\"auth\":{\"spf\":[]}}"
#define ALIAS(address) "{\"auth\":{\"spf\":[]},\"dsn\":{\"rcpt\":[{\"alias\":\"" address "\"}]}}"

static const char headers[] = "Authentication-Results: mx.example.test; spf=pass smtp.mailfrom=far.test\r\nFrom: Ann <ann@far.test>\r\nTo: x@y.test\r\nSubject: x\r\n"
			      "Date: Mon, 30 Nov 2026 21:00:00 +0000\r\nMessage-ID: <1@far.test>\r\n";

/* Made once: to make one of RSA takes a second and more. */
static struct key {
	const char *domain, *selector, *kind;
	struct buf pem;
} keys[] = {
	{ "example.test", "a", "ed25519", BUF_INIT(DKIM_PEM_MAX) },
	{ "local.test", "b", "rsa2048", BUF_INIT(DKIM_PEM_MAX) },
	{ "local.test", "c", "ed25519", BUF_INIT(DKIM_PEM_MAX) },
	{ "shop.test", "d", "ed25519", BUF_INIT(DKIM_PEM_MAX) },
};
enum { KEYS = sizeof keys / sizeof *keys };

static int make_keys(void **st)
{
	const char *why;
	struct dkim_private *k;
	(void)st;
	for (size_t i = 0; i < KEYS; i++) {
		if (dkim_private_make(keys[i].kind, &k, &why) || dkim_private_pem(k, &keys[i].pem))
			return -1;
		dkim_private_free(k);
	}
	return 0;
}

static int drop_keys(void **st)
{
	(void)st;
	for (size_t i = 0; i < KEYS; i++)
		buf_free_secret(&keys[i].pem);
	return 0;
}

/* Keys of example.test (which HOSTNAME is in), local.test (two, one of each kind) and shop.test. */
static void begin(struct stage *s, const char *more)
{
	char text[1000];
	snprintf(s->dir, sizeof s->dir, "/tmp/pepsi-unit-XXXXXX");
	assert_non_null(mkdtemp(s->dir));
	for (size_t i = 0; i < KEYS; i++) {
		char path[300];
		snprintf(path, sizeof path, "%s/%s", s->dir, keys[i].domain);
		mkdir(path, 0700);
		snprintf(path, sizeof path, "%s/%s.pem", keys[i].domain, keys[i].selector);
		stage_file(s, path, buf_z(&keys[i].pem));
		snprintf(path, sizeof path, "%s/%s/%s.pem", s->dir, keys[i].domain, keys[i].selector);
		assert_int_equal(chmod(path, 0600), 0);
	}
	snprintf(text, sizeof text, "KEY_DIR = %%s\nNEXT_STAGE = next\nBOUNCE_STAGE = bounce\n%s", more);
	assert_int_equal(stage_open(s, "pepsi-stage-arc", text), PEPSI_OK);
	assert_string_equal(s->found, "");
}

/* "DOMAIN/SELECTOR" that a message was sealed by, "" for none, "pause" where it waits. The seal on top of it says the same as the state. */
static const char *sealed(struct stage *s, const char *to, const char *state)
{
	static char text[600];
	char domain[260] = "", selector[80] = "", want[2][300];
	stage_pass_full(s, "ann@far.test", to, state, str_from(headers), STR("hello\r\n"));
	const char *got = stage_outcome(s), *d = strstr(got, "\"domain\":\""), *sel = strstr(got, "\"selector\":\"");
	if (!strncmp(got, "pause", 5))
		return "pause";
	if (strncmp(got, "move next", 9) != 0)
		fail_msg("%s: %s", to, got);
	if (!d || !sel)
		return "";
	snprintf(domain, sizeof domain, "%.*s", (int)strcspn(d + 10, "\""), d + 10);
	snprintf(selector, sizeof selector, "%.*s", (int)strcspn(sel + 12, "\""), sel + 12);
	for (size_t i = 0; i < s->msg.pass.n_ops; i++) {
		const struct store_op *op = &s->msg.pass.ops[i];
		struct mail_field f;
		if (!(op->touched & STORE_SET_HEADERS))
			continue;
		snprintf(want[0], sizeof want[0], " d=%s;", domain);
		snprintf(want[1], sizeof want[1], " s=%s;", selector);
		assert_int_equal(mail_field_find(op->headers, STR("ARC-Seal"), 0, &f), 0);
		struct buf flat = BUF_INIT(4096);
		for (size_t k = 0; k < f.value.n; k++) /* unfolded */
			if (f.value.p[k] != '\r' && f.value.p[k] != '\n')
				buf_addc(&flat, f.value.p[k] == '\t' ? ' ' : f.value.p[k]);
		if (!strstr(buf_z(&flat), want[0]) || !strstr(buf_z(&flat), want[1]))
			fail_msg("%s and%s are not in %s", want[0], want[1], buf_z(&flat));
		buf_free(&flat);
	}
	snprintf(text, sizeof text, "%s/%s", domain, selector);
	return text;
}

struct row {
	const char *to, *state, *want;
};

static void table(const char *options, const struct row *rows, size_t n)
{
	struct stage s = { .dir = "" };
	begin(&s, options);
	for (size_t i = 0; i < n; i++) {
		const char *got = sealed(&s, rows[i].to, rows[i].state);
		if (strcmp(got, rows[i].want) != 0)
			fail_msg("%s: %zu: to %s %s: sealed by \"%s\", not \"%s\"", options, i, rows[i].to, rows[i].state, got, rows[i].want);
	}
	stage_close(&s);
}
#define TABLE(options, ...)                                                                                            \
	do {                                                                                                           \
		const struct row rows[] = { __VA_ARGS__ };                                                             \
		table(options, rows, sizeof rows / sizeof *rows);                                                      \
	} while (0)

static void by_the_domain_it_was_sent_to(void **st)
{
	(void)st;
	TABLE("", { "x@away.test", CAME, "example.test/a" }, { "x@away.test", ALIAS("y@shop.test"), "example.test/a" }, { "x@away.test", "{}", "" });
	TABLE("SENT_TO = shop.test *.local.test\n",
	    { "x@away.test", ALIAS("y@shop.test"), "example.test/a" },
	    { "x@away.test", ALIAS("y@SHOP.test"), "example.test/a" },
	    { "x@away.test", ALIAS("y@a.local.test"), "example.test/a" },
	    { "x@away.test", ALIAS("y@local.test"), "" },
	    { "x@away.test", ALIAS("y@other.test"), "" },
	    { "x@away.test", CAME, "" },                        /* no alias: what it goes to is what it was sent to */
	    { "x@shop.test", CAME, "example.test/a" },
	    { "x@shop.test", ALIAS("y@other.test"), "" },       /* … and otherwise is not */
	    { "x@away.test", ALIAS("nonsense"), "" },
	    { "x@away.test", ALIAS(""), "" },
	    { "x@away.test", "{\"auth\":{},\"dsn\":{\"rcpt\":[{\"alias\":7}]}}", "" },
	    { "x@away.test", "{\"auth\":{},\"dsn\":{\"rcpt\":{\"0\":{\"alias\":\"y@other.test\"}}}}", "" },
	    /* one that is chosen is enough, wherever it stands */
	    { "x@away.test z@away.test", "{\"auth\":{},\"dsn\":{\"rcpt\":[{},{\"alias\":\"y@shop.test\"}]}}", "example.test/a" });
	TABLE("NOT_SENT_TO = shop.test boss@local.test\nSEAL_FOR = away.test\n",
	    { "x@away.test", ALIAS("y@shop.test"), "" }, { "x@away.test", ALIAS("boss@local.test"), "" }, { "x@away.test", ALIAS("y@local.test"), "example.test/a" },
	    { "x@far.test", ALIAS("y@local.test"), "" },
	    /* both must choose the same recipient */
	    { "x@away.test z@far.test", "{\"auth\":{},\"dsn\":{\"rcpt\":[{\"alias\":\"y@shop.test\"},{\"alias\":\"y@local.test\"}]}}", "" });
}

static void by_whom(void **st)
{
	(void)st;
	TABLE("SEALER_1 = shop.test *.shop.test shop.test\nSEALER_2 = vip@other.test, local.test local.test/c\nSEALER_3 = local.test shop.test\n",
	    { "x@away.test", ALIAS("y@shop.test"), "shop.test/d" }, { "x@away.test", ALIAS("y@a.shop.test"), "shop.test/d" },
	    { "x@away.test", ALIAS("y@local.test"), "local.test/c" }, { "x@away.test", ALIAS("vip@other.test"), "local.test/c" },
	    { "x@away.test", ALIAS("y@other.test"), "example.test/a" }, { "x@local.test", CAME, "local.test/c" },
	    /* the first that is chosen decides */
	    { "x@away.test z@away.test", "{\"auth\":{},\"dsn\":{\"rcpt\":[{\"alias\":\"y@shop.test\"},{\"alias\":\"y@local.test\"}]}}", "shop.test/d" },
	    { "z@away.test x@away.test", "{\"auth\":{},\"dsn\":{\"rcpt\":[{\"alias\":\"y@local.test\"},{\"alias\":\"y@shop.test\"}]}}", "local.test/c" });
	TABLE("NOT_SENT_TO = local.test\nSEALER_1 = * self\n",
	    { "x@away.test z@away.test", "{\"auth\":{},\"dsn\":{\"rcpt\":[{\"alias\":\"y@local.test\"},{\"alias\":\"y@shop.test\"}]}}", "shop.test/d" });
	/* each by itself, or the nearest above with keys; who has none by the usual one */
	TABLE("SEALER_1 = * self\nDOMAIN = example.test\n",
	    { "x@away.test", ALIAS("y@shop.test"), "shop.test/d" }, { "x@away.test", ALIAS("y@a.b.Local.TEST"), "local.test/b" },
	    { "x@away.test", ALIAS("y@other.test"), "example.test/a" }, { "x@away.test", CAME, "example.test/a" }, { "x@away.test", ALIAS("y@[192.0.2.1]"), "example.test/a" },
	    { "x@away.test", ALIAS("nonsense"), "example.test/a" });
	TABLE("ALGORITHM = ed25519\nDOMAIN = local.test\n", { "x@away.test", CAME, "local.test/c" });
	TABLE("DOMAIN = local.test\n", { "x@away.test", CAME, "local.test/b" });
	TABLE("SELECTOR = c\nDOMAIN = local.test\nSEALER_1 = shop.test shop.test\n", { "x@away.test", CAME, "local.test/c" }, { "x@away.test", ALIAS("y@shop.test"), "shop.test/d" });
	/* never by another key than the one that was named, nor by another domain */
	TABLE("SELECTOR = old\nDOMAIN = local.test\n", { "x@away.test", CAME, "pause" });
	TABLE("SEALER_1 = shop.test shop.test/old\n", { "x@away.test", ALIAS("y@shop.test"), "pause" }, { "x@away.test", CAME, "example.test/a" });
	TABLE("SEALER_1 = * none.test\n", { "x@away.test", CAME, "pause" });
}

static void options(void **st)
{
	static const struct {
		const char *text, *found;
	} cases[] = {
		{ "SENT_TO = shop.test\nNOT_SENT_TO = a@shop.test\nSEALER_1 = * self\nSEALER_2 = x.test xn--4ca.test/s\n", "" },
		{ "SENT_TO = a..b\n", "SENT_TO: \"a..b\" is no pattern of addresses\n" },
		{ "NOT_SENT_TO = a@b@\n", "NOT_SENT_TO: \"a@b@\" is no pattern of addresses\n" },
		{ "SELECTOR = a/b\n", "SELECTOR: \"a/b\" is no selector\n" },
		{ "SEALER_1 = shop.test\n", "SEALER_1: expected patterns of addresses of ours and the domain that seals, such as: example.org *.example.org seal.example.org\n" },
		{ "SEALER_1 = shop.test a..b\n", "SEALER_1: what stands last is no domain\n" },
		{ "SEALER_1 = shop.test a.test/\n", "SEALER_1: what stands behind / is no selector\n" },
		{ "SEALER_1 = shop.test a.test/../x\n", "SEALER_1: what stands behind / is no selector\n" },
		{ "SEALER_1 = @ a.test\n", "SEALER_1: expected patterns of addresses (local@domain, local@*, domain, *.domain, *) before the domain\n" },
		{ "SEALER_1 = , a.test\n", "SEALER_1: expected patterns of addresses of ours and the domain that seals, such as: example.org *.example.org seal.example.org\n" },
	};
	(void)st;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct stage s = { .dir = "" };
		char text[600];
		snprintf(text, sizeof text, "KEY_DIR = %%s\nNEXT_STAGE = next\n%s", cases[i].text);
		stage_open(&s, "pepsi-stage-arc", text);
		if (strcmp(s.found, cases[i].found) != 0)
			fail_msg("%s: %s", cases[i].text, s.found);
		stage_close(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_the_domain_it_was_sent_to),
		cmocka_unit_test(by_whom),
		cmocka_unit_test(options),
	};
	return cmocka_run_group_tests(tests, make_keys, drop_keys);
}
