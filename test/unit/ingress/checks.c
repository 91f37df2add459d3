/* Answers that are not known at once (checks.c): RCPT, DATA and VRFY while somebody is asked who lives here or whether it came before;
 * what strangers and users are told; clients that leave meanwhile. The database is two scripts, the files are real. */
#include "harness.h"

#include "base/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* --- the greylist's database */

static struct {
	unsigned asked;
	size_t n;
	store_greylist_fn fn;
	void *arg;
	bool down;
} grey;

static bool grey_up(void *ctx)
{
	(void)ctx;
	return !grey.down;
}

static void grey_ask(void *ctx, const struct store_greylist_key *keys, size_t n, const struct store_greylist_terms *t, store_greylist_fn fn, void *arg)
{
	(void)ctx;
	(void)keys;
	(void)t;
	grey.asked++;
	grey.n = n;
	grey.fn = fn;
	grey.arg = arg;
}

static void grey_sweep(void *ctx, store_number_fn fn, void *arg)
{
	(void)ctx;
	(void)fn;
	(void)arg;
}

static void grey_says(int32_t wait)
{
	store_greylist_fn fn = grey.fn;
	assert_non_null(fn);
	assert_int_equal(grey.n, 1);
	grey.fn = NULL;
	fn(grey.arg, STORE_OK, &wait, 1);
}

static void use_grey(struct world *w)
{
	const struct greylist_backend be = { NULL, grey_up, grey_ask, grey_sweep };
	memset(&grey, 0, sizeof grey);
	greylist_free(w->in->greylist);
	w->in->greylist = greylist_new(w->base, &be);
	assert_non_null(w->in->greylist);
}

/* --- who lives here: alice, in a file */

static char file[] = "/tmp/unit-checks-XXXXXX";

static int setup(void **state)
{
	int fd = mkstemp(file);
	(void)state;
	return fd < 0 || write(fd, "alice@example.test\n", 19) != 19 || close(fd);
}

static int teardown(void **state)
{
	(void)state;
	return unlink(file);
}

static struct world *world(const char *option, const char *value)
{
	static char recipients[64];
	snprintf(recipients, sizeof recipients, "file:%s", file);
	return world_new((const char *const[]){ "pepsi", "RECIPIENTS", recipients, "listener-mx", option, value, NULL });
}

static void turns(struct world *w)
{
	for (unsigned i = 0; i < 30; i++)
		world_turn(w);
}

static void ask(struct client *c, const char *command, const char *want)
{
	client_send(c, command);
	client_expect(c, want);
}

static void test_vrfy(void **state)
{
	static const struct {
		const char *command, *stranger, *user;
	} of[] = {
		{ "VRFY alice@example.test\r\n", "252 ", "250 2.1.5 <alice@example.test>\r\n" },
		{ "VRFY <alice@example.test>\r\n", "252 ", "250 2.1.5 <alice@example.test>\r\n" },
		{ "VRFY  <alice@EXAMPLE.test> \r\n", "252 ", "250 2.1.5 <alice@" },
		{ "VRFY nobody@example.test\r\n", "252 ", "550 5.1.1 " },
		{ "VRFY alice@example.org\r\n", "252 ", "252 " }, /* not ours to say */
		{ "VRFY alice\r\n", "252 ", "252 " },
		{ "VRFY Alice Smith\r\n", "252 ", "252 " },
		{ "VRFY <>\r\n", "252 ", "252 " },
		{ "VRFY <a\x01@example.test>\r\n", "", "" }, /* whatever it is, no 250 */
		{ "VRFY\r\n", "501 ", "501 " },
		/* nobody is told who is on a list, users neither */
		{ "EXPN friends@example.test\r\n", "252 ", "252 " },
		{ "EXPN alice@example.test\r\n", "252 ", "252 " },
		{ "EXPN\r\n", "501 ", "501 " },
	};
	(void)state;
	struct world *w = world("EXTENSIONS", "size enhancedstatuscodes pipelining expn");
	for (unsigned user = 0; user < 2; user++)
		for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
			struct client c = client_new(w);
			client_hello(&c);
			if (user)
				buf_addz(&w->in->sessions->login, "bob@example.test");
			client_send(&c, of[i].command);
			const char *got = client_reply(&c), *want = user ? of[i].user : of[i].stranger;
			if (strncmp(got, want, strlen(want)) != 0 || (!*want && !strncmp(got, "250", 3)))
				fail_msg("%u %s: %s", user, of[i].command, got);
			ask(&c, "NOOP\r\n", "250 "); /* one answer, and the dialogue goes on */
			client_free(&c);
			turns(w);
		}
	world_free(w);
	/* EXPN has to be asked for */
	w = world("MAX_ERRORS", "20");
	struct client c = client_new(w);
	client_hello(&c);
	ask(&c, "EXPN friends\r\n", "502 ");
	client_free(&c);
	world_free(w);
}

/* Whoever knows is away: VRFY and RCPT are told to come again, never a no. */
static void test_away(void **state)
{
	(void)state;
	struct world *w = world_new((const char *const[]){ "pepsi", "RECIPIENTS", "table", NULL }); /* there is no database to ask */
	struct client c = client_new(w);
	client_hello(&c);
	buf_addz(&w->in->sessions->login, "bob@example.test");
	ask(&c, "VRFY alice@example.test\r\n", "451 4.3.0 ");
	client_free(&c);
	c = client_new(w);
	client_hello(&c);
	ask(&c, "MAIL FROM:<a@example.org>\r\n", "250 ");
	ask(&c, "RCPT TO:<alice@example.test>\r\n", "451 4.3.0 ");
	assert_int_equal(w->in->rejected[REFUSED_LOOKUP], 1);
	client_free(&c);
	world_free(w);
}

static void test_unknown(void **state)
{
	char recipients[64];
	(void)state;
	struct world *w = world("MAX_UNKNOWN", "3");
	struct client c = client_new(w);
	client_hello(&c);
	ask(&c, "MAIL FROM:<a@example.org>\r\n", "250 ");
	ask(&c, "RCPT TO:<alice@example.test>\r\n", "250 ");
	ask(&c, "RCPT TO:<x@example.test>\r\n", "550 5.1.1 ");
	ask(&c, "RCPT TO:<y@example.test>\r\n", "550 5.1.1 ");
	ask(&c, "RCPT TO:<z@example.test>\r\n", "421 4.7.0 ");
	client_closed(&c);
	assert_int_equal(w->in->rejected[REFUSED_RECIPIENT], 2);
	assert_int_equal(w->in->rejected[REFUSED_HARVEST], 1);
	client_free(&c);
	world_free(w);
	/* an answer that is held back: the place of the tarpit is taken, given back, also when the client is gone before */
	snprintf(recipients, sizeof recipients, "file:%s", file);
	w = world_new((const char *const[]){ "pepsi", "RECIPIENTS", recipients, "listener-mx", "UNKNOWN_FREE", "0", "listener-mx",
	    "UNKNOWN_DELAY", "60 s", "pepsi-ingress", "TARPIT_MAX", "1", NULL });
	c = client_new(w);
	client_hello(&c);
	ask(&c, "MAIL FROM:<a@example.org>\r\n", "250 ");
	client_send(&c, "RCPT TO:<x@example.test>\r\nNOOP\r\n");
	turns(w);
	client_quiet(&c);
	assert_int_equal(w->in->tarpitted, 1);
	struct client other = client_new(w);
	client_hello(&other);
	ask(&other, "MAIL FROM:<a@example.org>\r\n", "250 ");
	ask(&other, "RCPT TO:<x@example.test>\r\n", "550 5.1.1 "); /* no place left: at once */
	assert_int_equal(w->in->tarpit_full, 1);
	client_free(&other);
	/* its own time does not run meanwhile */
	ingress_sweep(w->in, clock_mono_us() + 320 * US_PER_S);
	turns(w);
	assert_int_equal(w->in->tarpitted, 1);
	session_drop(w->in->sessions);
	assert_int_equal(w->in->tarpitted, 0);
	client_free(&c);
	world_free(w);
}

static void test_greylist(void **state)
{
	(void)state;
	struct world *w = world("GREYLIST", "YES");
	use_grey(w);
	struct client c = client_new(w);
	client_hello(&c);
	ask(&c, "MAIL FROM:<a@example.org>\r\n", "250 ");
	/* who does not live here is told so, without a question */
	ask(&c, "RCPT TO:<x@example.test>\r\n", "550 5.1.1 ");
	assert_int_equal(grey.asked, 0);
	client_send(&c, "RCPT TO:<alice@example.test>\r\nNOOP\r\n");
	turns(w);
	client_quiet(&c); /* nothing is answered out of turn */
	grey_says(240);
	client_expect(&c, "450 4.7.1 First time from your network: try again in 240 seconds\r\n");
	client_expect(&c, "250 "); /* NOOP */
	client_send(&c, "RCPT TO:<alice@example.test>\r\n");
	turns(w);
	grey_says(0);
	client_expect(&c, "250 ");
	client_send(&c, "DATA\r\n"); /* a sender with a name was looked at before */
	client_expect(&c, "354 ");
	assert_int_equal(grey.asked, 2);
	client_free(&c);
	turns(w);
	/* the null sender waits at DATA: who only looks whether an address exists leaves before */
	c = client_new(w);
	client_hello(&c);
	ask(&c, "MAIL FROM:<>\r\n", "250 ");
	ask(&c, "RCPT TO:<alice@example.test>\r\n", "250 ");
	client_send(&c, "DATA\r\n");
	turns(w);
	client_quiet(&c);
	grey_says(100);
	client_expect(&c, "451 4.7.1 ");
	client_send(&c, "DATA\r\n");
	turns(w);
	grey_says(0);
	client_expect(&c, "354 ");
	client_free(&c);
	turns(w);
	/* gone while it is asked: the answer finds nobody */
	c = client_new(w);
	client_hello(&c);
	ask(&c, "MAIL FROM:<a@example.org>\r\n", "250 ");
	client_send(&c, "RCPT TO:<alice@example.test>\r\n");
	turns(w);
	session_drop(w->in->sessions);
	grey_says(0);
	client_free(&c);
	/* the database is away: nobody waits */
	grey.down = true;
	c = client_new(w);
	client_hello(&c);
	ask(&c, "MAIL FROM:<a@example.org>\r\n", "250 ");
	ask(&c, "RCPT TO:<alice@example.test>\r\n", "250 ");
	client_free(&c);
	grey.down = false;
	/* who signed in is no stranger */
	unsigned asked = grey.asked;
	c = client_new(w);
	client_hello(&c);
	buf_addz(&w->in->sessions->login, "bob@example.test");
	ask(&c, "MAIL FROM:<a@example.org>\r\n", "250 ");
	ask(&c, "RCPT TO:<alice@example.test>\r\n", "250 ");
	assert_int_equal(grey.asked, asked);
	client_free(&c);
	turns(w);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_vrfy), cmocka_unit_test(test_away), cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_greylist) };
	return cmocka_run_group_tests(tests, setup, teardown);
}
