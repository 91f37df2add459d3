/* The way of a message through its authentication, with a resolver in the test's hand: answers that come late, not at all, or to nobody any more; each
 * call that can fail for want of memory; every temporary failure as accepted and as put off. The sessions, the spool and the replies are the real ones. */
#include "harness.h"

#include "base/clock.h"
#include "net/dns.h"
#include "proto/auth/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/socket.h>

/* ---- the resolver */

struct net_dns_ask {
	TAILQ_ENTRY(net_dns_ask) link;
	struct net_dns_group *g;
	char name[DNS_NAME_MAX + 1];
	enum dns_type type;
	net_dns_fn fn;
	void *arg;
};

struct net_dns_group {
	int64_t deadline_us;
	unsigned queries, most;
};

enum failing { NOTHING, GROUP, QUERY, NEW, SET, ENVELOPE, HEADERS, JSON, LOG, AUTHRES };

static struct {
	TAILQ_HEAD(, net_dns_ask) asks;
	unsigned groups, asked;
	enum failing failing;
	unsigned spared; /* calls that still succeed */
	int64_t longest_us;
} dns;

static bool fails(enum failing what)
{
	if (dns.failing != what)
		return false;
	if (!dns.spared)
		return true;
	dns.spared--;
	return false;
}

static struct net_dns_group *fake_group_new(struct net_dns *d, int64_t deadline_us, unsigned most)
{
	(void)d;
	if (fails(GROUP))
		return NULL;
	struct net_dns_group *g = calloc(1, sizeof *g);
	g->deadline_us = deadline_us;
	g->most = most;
	dns.longest_us = deadline_us > dns.longest_us ? deadline_us : dns.longest_us;
	dns.groups++;
	return g;
}

static void fake_group_free(struct net_dns_group *g)
{
	struct net_dns_ask *a, *next;
	if (!g)
		return;
	for (a = TAILQ_FIRST(&dns.asks); a; a = next) {
		next = TAILQ_NEXT(a, link);
		if (a->g != g)
			continue;
		TAILQ_REMOVE(&dns.asks, a, link);
		free(a);
	}
	dns.groups--;
	free(g);
}

static unsigned fake_group_queries(const struct net_dns_group *g)
{
	return g->queries;
}

static struct net_dns_ask *fake_query(struct net_dns_group *g, struct str name, enum dns_type type, net_dns_fn fn, void *arg)
{
	if (fails(QUERY))
		return NULL;
	struct net_dns_ask *a = calloc(1, sizeof *a);
	*a = (struct net_dns_ask){ .g = g, .type = type, .fn = fn, .arg = arg };
	assert_true(dns_name_fold(name, a->name) > 0);
	g->queries++;
	assert_true(g->queries <= g->most);
	dns.asked++;
	TAILQ_INSERT_TAIL(&dns.asks, a, link);
	return a;
}

#include "ingress/vet_internal.h"
#define net_dns_group_new fake_group_new
#define net_dns_group_free fake_group_free
#define net_dns_group_queries fake_group_queries
#define net_dns_query fake_query
#define verify_new(p) (fails(NEW) ? NULL : verify_new(p))
#define dns_answers_new() (fails(SET) ? NULL : dns_answers_new())
#define verify_envelope(v, e) (fails(ENVELOPE) ? -1 : verify_envelope(v, e))
#define verify_json(v, b) (fails(JSON) ? -1 : verify_json(v, b))
#define verify_log(v, b) (fails(LOG) ? -1 : verify_log(v, b))
#define vet_fields(s, v, n) (fails(AUTHRES) ? SPOOL_FULL : vet_fields(s, v, n))
#include "ingress/vet.c"
#undef verify_new
#undef dns_answers_new
#undef verify_envelope
#undef verify_json
#undef verify_log
#undef vet_fields

/* ---- what the zone says */

static const char *zone_text(const char *name)
{
	static const struct {
		const char *name, *txt;
	} zone[] = {
		{ "good.test", "v=spf1 ip4:127.0.0.1 -all" }, { "mapped.test", "v=spf1 ip4:127.0.0.9 -all" }, { "bad.test", "v=spf1 -all" }, { "_dmarc.bad.test", "v=DMARC1; p=reject; rua=mailto:r@bad.test" },
		{ "_dmarc.good.test", "v=DMARC1; p=reject; rua=mailto:r@good.test" },
	};
	for (size_t i = 0; i < sizeof zone / sizeof *zone; i++)
		if (!strcmp(zone[i].name, name))
			return zone[i].txt;
	return NULL;
}

/* Answers the first question whose name ends so; down: nobody knows. False: there is none. */
static bool answer_one(const char *end, bool down)
{
	struct net_dns_ask *a;
	TAILQ_FOREACH(a, &dns.asks, link)
		if (str_iends(str_from(a->name), str_from(end)))
			break;
	if (!a)
		return false;
	const char *txt = a->type == DNS_TXT ? zone_text(a->name) : NULL;
	struct dns_rr rr = { .data = str_from(txt ? txt : "") };
	struct dns_answer *got = down ? dns_answer_fail(str_from(a->name), a->type, "deadline passed")
				      : dns_answer_new(str_from(a->name), a->type, txt ? DNS_OK : DNS_NXDOMAIN, &rr, txt ? 1 : 0, 60, false);
	net_dns_fn fn = a->fn;
	void *arg = a->arg;
	TAILQ_REMOVE(&dns.asks, a, link);
	free(a);
	fn(arg, got);
	dns_answer_unref(got);
	return true;
}

/* Whatever is asked from now on, until nothing is. down: the end of those names that nobody knows; NULL: none. */
static void resolve(struct world *w, const char *down)
{
	for (unsigned i = 0; i < 50; i++) {
		while (!TAILQ_EMPTY(&dns.asks)) {
			const char *name = TAILQ_FIRST(&dns.asks)->name;
			char first[DNS_NAME_MAX + 1];
			snprintf(first, sizeof first, "%s", name);
			answer_one(first, down && str_iends(str_from(first), str_from(down)));
		}
		world_turn(w);
	}
}

/* ---- the dialogue */

static struct world *begin(const char *const *options)
{
	memset(&dns, 0, sizeof dns);
	TAILQ_INIT(&dns.asks);
	struct world *w = world_new(options);
	w->in->dns = (struct net_dns *)&dns; /* nobody looks into it */
	w->fake.places = 0;
	return w;
}

static void end(struct world *w)
{
	for (unsigned i = 0; i < 10; i++)
		world_turn(w);
	assert_int_equal(w->in->n_sessions, 0);
	assert_int_equal(dns.groups, 0);
	assert_true(TAILQ_EMPTY(&dns.asks));
	assert_int_equal(w->in->house.used, 0);
	w->in->dns = NULL;
	world_free(w);
}

static void envelope(struct client *c, const char *from)
{
	char line[300];
	snprintf(line, sizeof line, "MAIL FROM:<%s>\r\n", from);
	client_send(c, line);
	client_expect(c, "250 ");
	client_send(c, "RCPT TO:<bob@example.test>\r\n");
	client_expect(c, "250 ");
	client_send(c, "DATA\r\n");
	client_expect(c, "354 ");
}

#define SIGNED "DKIM-Signature: v=1; a=rsa-sha256; d=signer.test; s=k; h=from; bh=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=;\r\n b=AAAA\r\n"
#define SEALED                                                                                                         \
	"ARC-Seal: i=1; a=rsa-sha256; t=1; cv=none; d=sealer.test; s=k; b=AAAA\r\n"                                    \
	"ARC-Message-Signature: i=1; a=rsa-sha256; d=sealer.test; s=k; h=from;\r\n bh=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=; b=AAAA\r\n" \
	"ARC-Authentication-Results: i=1; sealer.test; spf=pass\r\n"

static void content(struct client *c, const char *more, const char *author)
{
	char text[2000];
	snprintf(text, sizeof text, "%sFrom: <%s>\r\nSubject: x\r\n\r\nhello\r\n.\r\n", more, author);
	client_send(c, text);
}

/* A reply comes once the row is committed. */
static void expect_accepted(struct world *w, struct client *c)
{
	for (unsigned i = 0; i < 200 && !w->fake.admit_fn; i++)
		client_pull(c);
	assert_non_null(w->fake.admit_fn);
	fake_commit(w, NULL);
	client_expect(c, "250 ");
}

static struct client hello(struct world *w)
{
	struct client c = client_new(w);
	client_hello(&c);
	return c;
}

static const char *last_headers(struct world *w)
{
	return buf_z(&w->fake.rows[w->fake.n_rows - 1].headers);
}

static void has(const char *text, const char *what)
{
	if (!strstr(text, what))
		fail_msg("no \"%s\" in %s", what, text);
}

static double counted(struct world *w, const char *name)
{
	struct buf b = BUF_INIT(1 << 20);
	char line[128];
	tally_metrics(w->in->tally, &b);
	vet_metrics(w->in, &b);
	snprintf(line, sizeof line, "\n%s ", name);
	const char *at = strstr(buf_z(&b), line);
	double v = at ? strtod(at + strlen(line), NULL) : -1;
	buf_free(&b);
	return v;
}

#define ENFORCE(more...)                                                                                               \
	(const char *const[]){ "listener-mx", "SPF", "enforce", "listener-mx", "DKIM", "enforce", "listener-mx", "ARC", "enforce", "listener-mx", "DMARC",   \
		"enforce", "pepsi-dmarc", "REPORTS", "YES", more, NULL }

/* ---- the tests */

/* All is known before the end of the message. */
static void in_time(void **st)
{
	struct world *w = begin(ENFORCE("pepsi", "HOSTNAME", "mx.example.test"));
	struct client c = hello(w);
	(void)st;
	envelope(&c, "ann@good.test");
	resolve(w, NULL);
	client_send(&c, "From: <ann@good.test>\r\n\r\nx\r\n");
	resolve(w, NULL);
	client_send(&c, ".\r\n");
	expect_accepted(w, &c);
	has(last_headers(w), "spf=pass");
	has(last_headers(w), "dmarc=pass");
	assert_true(counted(w, "pepsi_authentication_abandoned_total") <= 0);
	client_free(&c);
	end(w);
}

/* The message is whole, and waits; only itself: another session goes on. Each part of it has time of its own. */
static void late(void **st)
{
	struct world *w = begin(ENFORCE("listener-mx", "AUTHENTICATION_TIMEOUT", "7 s"));
	struct client c = hello(w), other = hello(w);
	(void)st;
	envelope(&c, "ann@good.test");
	content(&c, "", "ann@good.test");
	client_quiet(&c);
	assert_int_equal(dns.longest_us, 7 * US_PER_S);
	client_send(&c, "NOOP\r\n"); /* nothing overtakes it */
	client_quiet(&c);
	client_send(&other, "NOOP\r\n");
	client_expect(&other, "250 ");
	assert_true(answer_one("_dmarc.good.test", false));
	client_quiet(&c);
	resolve(w, NULL);
	expect_accepted(w, &c);
	client_expect(&c, "250 "); /* NOOP */
	has(last_headers(w), "dmarc=pass");
	/* the next message of the session begins anew */
	envelope(&c, "ann@bad.test");
	content(&c, "", "ann@bad.test");
	client_quiet(&c);
	resolve(w, NULL);
	client_expect(&c, "550 5.7.26 ");
	client_free(&c);
	client_free(&other);
	end(w);
}

/* Gone while its message waits: what was asked is forgotten, nothing is left, nobody else notices. */
static void gone(void **st)
{
	struct world *w = begin(ENFORCE("pepsi", "HOSTNAME", "mx.example.test"));
	(void)st;
	for (unsigned when = 0; when < 4; when++) {
		struct client c = hello(w);
		if (when < 3) {
			client_send(&c, "MAIL FROM:<ann@good.test>\r\nRCPT TO:<bob@example.test>\r\nDATA\r\n");
			client_expect(&c, "250 ");
			client_expect(&c, "250 ");
			client_expect(&c, "354 ");
		}
		if (when == 1)
			client_send(&c, SIGNED "From: <ann@good.test>\r\n\r\nhalf");
		else if (when == 2)
			content(&c, SIGNED, "ann@good.test");
		else if (when == 3) { /* reset behind RCPT */
			client_send(&c, "MAIL FROM:<ann@good.test>\r\nRCPT TO:<bob@example.test>\r\nRSET\r\n");
			client_expect(&c, "250 ");
			client_expect(&c, "250 ");
			client_expect(&c, "250 ");
		}
		for (unsigned i = 0; i < 5; i++)
			world_turn(w);
		if (when == 2 && TAILQ_EMPTY(&dns.asks))
			fail_msg("nothing is asked; %s", client_reply(&c));
		/* broken off: seen at once */
		setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 }, sizeof(struct linger));
		client_free(&c);
		for (unsigned i = 0; i < 20 && w->in->n_sessions; i++)
			world_turn(w);
		assert_int_equal(w->in->n_sessions, 0);
		assert_true(TAILQ_EMPTY(&dns.asks));
		assert_int_equal(dns.groups, 0);
	}
	assert_int_equal(w->fake.n_rows, 0);
	/* half closed: it may still want to hear, so the message goes its way, and the answer finds nobody */
	struct client c = hello(w);
	envelope(&c, "ann@good.test");
	content(&c, "", "ann@good.test");
	client_free(&c);
	for (unsigned i = 0; i < 20; i++)
		world_turn(w);
	resolve(w, NULL);
	if (w->fake.admit_fn)
		fake_commit(w, NULL);
	end(w);
}

/* What cannot be looked up, method by method: let through as temperror, or put off. */
static void temporary(void **st)
{
	static const struct {
		const char *from, *more, *author, *down, *word, *reply;
	} cases[] = {
		{ "x@good.test", "", "a@none.test", "good.test", "spf=temperror", "451 4.7.24 " },
		{ "x@none.test", "", "a@good.test", "_dmarc.good.test", "dmarc=temperror", "451 4.7.0 " },
		{ "x@none.test", SIGNED, "a@none.test", "k._domainkey.signer.test", "dkim=temperror", "451 4.7.0 " },
		{ "x@none.test", SEALED, "a@none.test", "k._domainkey.sealer.test", "arc=fail", "451 4.7.0 " },
		{ "x@none.test", SIGNED SEALED, "a@none.test", "test", "dkim=temperror", "451 4.7." },
	};
	(void)st;
	for (unsigned tempfail = 0; tempfail < 2; tempfail++) {
		struct world *w = begin(ENFORCE("listener-mx", "AUTHENTICATION_TEMPERROR", tempfail ? "tempfail" : "accept"));
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
			struct client c = hello(w);
			envelope(&c, cases[i].from);
			content(&c, cases[i].more, cases[i].author);
			client_quiet(&c);
			resolve(w, cases[i].down);
			if (tempfail) {
				client_expect(&c, cases[i].reply);
				assert_int_equal(w->fake.n_rows, 0);
			} else {
				expect_accepted(w, &c);
				has(last_headers(w), cases[i].word);
			}
			client_free(&c);
		}
		assert_true(counted(w, "pepsi_authentication_temporary_total") == 5);
		assert_true(counted(w, "pepsi_authentication_deferred_total") == (tempfail ? 5 : 0));
		/* DMARC judged one of them by a record: put off, it is not counted; nor was it known */
		assert_true(counted(w, "pepsi_dmarc_counted_total") == 0);
		end(w);
	}
}

/* No memory, wherever: the message is put off or its verdict is temperror; nothing hangs, nothing leaks, the next one is as ever. */
static void memory(void **st)
{
	static const struct {
		enum failing what;
		const char *reply; /* NULL: accepted */
		const char *word;
	} cases[] = {
		{ GROUP, NULL, "temperror" }, { QUERY, NULL, "temperror" }, { NEW, "452 4.3.1 ", NULL }, { SET, "452 4.3.1 ", NULL }, { ENVELOPE, "452 4.3.1 ", NULL },
		{ JSON, "452 4.3.1 ", NULL }, { LOG, "452 4.3.1 ", NULL }, { AUTHRES, "452 4.3.1 ", NULL },
	};
	/* the signature has no key: only noted */
	struct world *w = begin(ENFORCE("listener-mx", "AUTHENTICATION_TEMPERROR", "accept", "listener-mx", "DKIM", "record"));
	(void)st;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (unsigned spared = 0; spared < 5; spared++) {
			struct client c = hello(w);
			fake_forget_rows(w);
			dns.failing = cases[i].what;
			dns.spared = spared;
			envelope(&c, "ann@good.test");
			content(&c, SIGNED, "ann@good.test");
			resolve(w, NULL);
			bool hit = !dns.spared && fails(cases[i].what);
			dns.failing = NOTHING;
			if (w->fake.admit_fn) {
				expect_accepted(w, &c);
				if (hit && !spared && cases[i].word)
					has(last_headers(w), cases[i].word);
				assert_true(!cases[i].reply || spared);
			} else {
				assert_non_null(cases[i].reply);
				client_expect(&c, cases[i].reply);
			}
			envelope(&c, "ann@good.test");
			content(&c, "", "ann@good.test");
			resolve(w, NULL);
			expect_accepted(w, &c);
			has(last_headers(w), "dmarc=pass");
			client_free(&c);
			for (unsigned k = 0; k < 5; k++)
				world_turn(w);
		}
	end(w);
}

/* A report counts what its sender was told for good: 250 or 5xx, once. */
static void counts(void **st)
{
	struct world *w = begin(ENFORCE("listener-mx", "AUTHENTICATION_TEMPERROR", "tempfail"));
	struct client c = hello(w);
	(void)st;
	envelope(&c, "ann@good.test");
	content(&c, "", "ann@good.test");
	resolve(w, NULL);
	for (unsigned i = 0; i < 200 && !w->fake.admit_fn; i++)
		client_pull(&c);
	assert_true(counted(w, "pepsi_dmarc_counted_total") == 0); /* not yet */
	fake_commit_all(w, STORE_AWAY);
	client_expect(&c, "451 ");
	assert_true(counted(w, "pepsi_dmarc_counted_total") == 0);
	envelope(&c, "ann@good.test");
	content(&c, "", "ann@good.test");
	resolve(w, NULL);
	expect_accepted(w, &c);
	world_turn(w);
	assert_true(counted(w, "pepsi_dmarc_counted_total") == 1);
	envelope(&c, "ann@bad.test");
	content(&c, "", "ann@bad.test");
	resolve(w, NULL);
	client_expect(&c, "550 5.7.26 ");
	assert_true(counted(w, "pepsi_dmarc_counted_total") == 2);
	client_free(&c);
	end(w);
}

/* A client that never ends a message makes us ask no more than it may: nobody floods a third party's name servers through us. */
static void amplification(void **st)
{
	struct world *w = begin(ENFORCE("listener-mx", "AUTHENTICATION_QUERIES_PER_MINUTE", "50"));
	struct client c = hello(w);
	(void)st;
	for (unsigned i = 0; i < 300; i++) {
		char line[200];
		snprintf(line, sizeof line, "MAIL FROM:<x@v%u.victim.test>\r\nRCPT TO:<bob@example.test>\r\n", i);
		client_send(&c, line);
		client_expect(&c, "250 ");
		client_expect(&c, "250 ");
		world_turn(w);
		resolve(w, NULL);
		client_send(&c, "RSET\r\n");
		client_expect(&c, "250 ");
	}
	assert_true(dns.asked >= 50 && dns.asked <= 50 + VERIFY_QUERIES);
	assert_true(counted(w, "pepsi_authentication_unasked_total") >= 200);
	/* what it sends then is told temperror, not refused and not passed */
	envelope(&c, "ann@good.test");
	content(&c, "", "ann@good.test");
	resolve(w, NULL);
	expect_accepted(w, &c);
	has(last_headers(w), "spf=temperror");
	has(last_headers(w), "dmarc=temperror");
	client_free(&c);
	end(w);
}

/* An IPv4 client that a proxy tells of in the form of IPv6 is the IPv4 client it is: for SPF, and in what is written. */
static void mapped(void **st)
{
	static const unsigned char v2[] = "\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24" /* PROXY, TCP over IPv6, 36 octets */
					  "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\x09"
					  "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\x01"
					  "\x12\x67\0\x19";
	struct world *w = begin(ENFORCE("listener-mx", "PROXY_FROM", "127.0.0.1", "listener-mx", "REVERSE_DNS", "NO"));
	struct client c = client_new(w);
	(void)st;
	client_send_n(&c, (const char *)v2, sizeof v2 - 1);
	client_hello(&c);
	w->fake.sender = "127.0.0.9";
	envelope(&c, "ann@mapped.test");
	content(&c, "", "ann@mapped.test");
	resolve(w, NULL);
	expect_accepted(w, &c);
	has(last_headers(w), "spf=pass (ip4:127.0.0.9");
	client_free(&c);
	end(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(in_time), cmocka_unit_test(late), cmocka_unit_test(gone), cmocka_unit_test(temporary),
		cmocka_unit_test(memory), cmocka_unit_test(counts), cmocka_unit_test(amplification), cmocka_unit_test(mapped) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
