/* Stages before acceptance, with a worker played by the test: what each verdict and each kind of failure comes to, what a
 * hostile worker cannot do, and what is left when a client leaves. */
#include "played.h"

#include "base/clock.h"
#include "net/parcel.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define MESSAGE "Subject: test\r\n\r\nhello\r\n"

static struct world *world(const char *list, const char *policy)
{
	const char *const options[] = { "listener-mx", "BEFORE_ACCEPT", list, "listener-mx", "BEFORE_ACCEPT_FAILURE", policy,
		"stage-one", "PROGRAM", "x", "stage-one", "PARALLELISM", "1", "stage-one", "QUEUE_LIMIT", "2", "stage-two", "PROGRAM", "x",
		"stage-two", "PARALLELISM", "1", NULL };
	struct world *w = world_new(options);
	play(w);
	return w;
}

static struct client sent(struct world *w)
{
	struct client c = client_new(w);
	client_hello(&c);
	client_envelope(&c);
	client_send(&c, MESSAGE ".\r\n");
	settle(w);
	return c;
}

static void done(struct world *w, struct client *c, int sock)
{
	if (c)
		client_free(c);
	if (sock >= 0)
		close(sock);
	settle(w);
	event_active(w->in->before->tick, EV_TIMEOUT, 0); /* who left while its message waited is found here */
	settle(w);
	assert_int_equal(w->in->house.used, 0);
	world_free(w);
}

static void test_pass_and_change(void **state)
{
	static struct str rcpts[] = { STR_INIT("x@example.test"), STR_INIT("y@example.test") };
	(void)state;
	struct world *w = world("one two", "tempfail");
	struct client c = sent(w);
	assert_int_equal(spawner.started, 1);
	assert_string_equal(spawner.stage, "one");
	client_quiet(&c);
	int one = come(w, 11);
	struct job j = get_job(one);
	assert_true(str_eq(j.item.headers, STR("Subject: test\r\n"))); /* as sent: no trace field of ours yet */
	assert_true(str_eq(j.item.body, STR("hello\r\n")));
	assert_true(j.ms > 20000 && j.ms <= 30000);
	assert_non_null(memmem(j.item.state.p, j.item.state.n, "\"origin\"", 8));
	say(w, one, &(struct wire_verdict){ .id = j.item.id, .what = WIRE_PASS, .changed = WIRE_CHANGED_ALL, .mail_from = STR("new@example.org"),
	    .rcpts = rcpts, .n_rcpts = 2, .state = STR("{\"k\":1}"), .headers = STR("Subject: new\r\n"), .body = STR("bye\r\n"), .body_size = 5 }, -1);
	drop_job(&j);
	assert_string_equal(spawner.stage, "two");
	int two = come(w, 12);
	j = get_job(two); /* the second sees what the first made of it */
	assert_true(str_eq(j.item.headers, STR("Subject: new\r\n")) && str_eq(j.item.body, STR("bye\r\n")));
	assert_true(str_eq(j.item.mail_from, STR("new@example.org")) && j.item.n_rcpts == 2);
	client_quiet(&c);
	assert_int_equal(w->fake.n_rows, 0);
	say(w, two, &(struct wire_verdict){ .id = j.item.id, .what = WIRE_PASS }, -1);
	drop_job(&j);
	client_quiet(&c); /* no word before the commit */
	struct fake_row *r = &w->fake.rows[0];
	assert_string_equal(r->mail_from, "new@example.org");
	assert_string_equal(r->rcpts, "x@example.test y@example.test");
	assert_string_equal(r->state, "{\"k\":1}");
	assert_memory_equal(r->headers.p, "Received: ", 10); /* ours on top of what the stages wrote */
	assert_non_null(strstr(buf_z(&r->headers), "\r\nSubject: new\r\n"));
	assert_string_equal(buf_z(&r->body), "bye\r\n");
	fake_commit(w, NULL);
	client_expect(&c, "250 2.0.0 Ok: queued as ");
	close(one);
	done(w, &c, two);
}

static void test_large_body(void **state)
{
	(void)state;
	struct world *w = world("one", "tempfail");
	struct client c = sent(w);
	int sock = come(w, 11);
	struct job j = get_job(sock);
	struct buf body = BUF_INIT(1 << 20);
	while (body.n < 200000)
		buf_addz(&body, "a line of the new body\r\n");
	int fd = net_sealed_new("test", buf_str(&body));
	say(w, sock, &(struct wire_verdict){ .id = j.item.id, .what = WIRE_PASS, .changed = WIRE_CHANGED_BODY, .body_in_fd = true,
	    .body_size = body.n }, fd);
	close(fd);
	assert_int_equal(w->fake.n_rows, 1);
	assert_true(str_eq(buf_str(&w->fake.rows[0].body), buf_str(&body)));
	fake_commit(w, NULL);
	client_expect(&c, "250 ");
	buf_free(&body);
	drop_job(&j);
	done(w, &c, sock);
}

static void test_verdicts(void **state)
{
	static const struct {
		struct wire_verdict v;
		const char *want;
	} cases[] = {
		{ { .what = WIRE_REJECT, .text = STR_INIT("spam, really"), .enhanced = STR_INIT("5.7.9") }, "550 5.7.9 spam, really\r\n" },
		{ { .what = WIRE_REJECT }, "550 5.7.1 The message is refused\r\n" },
		{ { .what = WIRE_REJECT, .text = STR_INIT("554 5.6.0 bad\r\n250 2.0.0 fine") }, "550 5.6.0 bad  250 2.0.0 fine\r\n" },
		{ { .what = WIRE_REJECT, .text = STR_INIT("x"), .enhanced = STR_INIT("4.7.1") }, "550 5.7.1 x\r\n" },
		{ { .what = WIRE_REJECT, .text = STR_INIT("\xc3\xbc\x01") }, "550 5.7.1 ???\r\n" },
		{ { .what = WIRE_DEFER, .detail = STR_INIT("/secret/path failed") }, "451 4.7.1 The message cannot be taken at the moment" },
		{ { .what = WIRE_DISCARD }, "250 2.0.0 Ok\r\n" },
		{ { .what = WIRE_FAULT, .detail = STR_INIT("fan_out()") }, "451 4.7.1 The message could not be examined" },
	};
	(void)state;
	struct world *w = world("one", "tempfail");
	int sock = -1;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct client c = sent(w);
		if (sock < 0)
			sock = come(w, 11);
		struct job j = get_job(sock);
		struct wire_verdict v = cases[i].v;
		v.id = j.item.id;
		say(w, sock, &v, -1);
		client_expect(&c, cases[i].want);
		client_send(&c, "NOOP\r\n"); /* the session goes on */
		client_expect(&c, "250 ");
		drop_job(&j);
		client_free(&c);
	}
	assert_int_equal(spawner.started, 1);
	assert_int_equal(w->fake.n_rows, 0);
	assert_int_equal(w->in->accepted, 0);
	done(w, NULL, sock);
}

/* How a worker may die or lie; each costs its message the policy, and itself its life. */
static void test_failures(void **state)
{
	static struct str bad_rcpt[] = { STR_INIT("x\r\ny@example.test") };
	static const struct wire_verdict lies[] = {
		{ .what = WIRE_PASS, .changed = WIRE_CHANGED_HEADERS, .headers = STR_INIT("Subject: x\n") },
		{ .what = WIRE_PASS, .changed = WIRE_CHANGED_HEADERS, .headers = STR_INIT("A: b\r\n\r\nC: d\r\n") },
		{ .what = WIRE_PASS, .changed = WIRE_CHANGED_RCPTS, .rcpts = bad_rcpt, .n_rcpts = 1 },
		{ .what = WIRE_PASS, .changed = WIRE_CHANGED_STATE, .state = STR_INIT("[]") },
		{ .what = WIRE_PASS, .changed = WIRE_CHANGED_STATE, .state = STR_INIT("{\"a\" 1}") },
		{ .what = WIRE_PASS, .changed = WIRE_CHANGED_STATE, .state = STR_INIT("{\"a\":\"\\u0000\"}") },
		{ .what = WIRE_PASS, .stage = STR_INIT("x verdict=pass") },
		{ .what = WIRE_PASS, .stage = STR_INIT("x\xff") },
		{ .what = WIRE_PASS, .changed = WIRE_CHANGED_BODY, .body_in_fd = true, .body_size = 100 },
	};
	(void)state;
	struct world *w = world("one", "reject");
	struct before_pool *p;
	struct client c = sent(w);
	int sock = come(w, 11);
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		struct job j = get_job(sock);
		struct wire_verdict v = lies[i];
		v.id = j.item.id;
		/* a descriptor that somebody can still change is no body */
		int fd = v.body_in_fd ? memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING) : -1;
		assert_true(fd < 0 || ftruncate(fd, 100) == 0);
		say(w, sock, &v, fd);
		if (fd >= 0)
			close(fd);
		client_expect(&c, "550 5.7.1 The message could not be examined");
		drop_job(&j);
		client_free(&c);
		c = sent(w);
	}
	p = TAILQ_FIRST(&w->in->before->pools);
	assert_int_equal(p->failures[BEFORE_CONTENT], 9);
	assert_int_equal(spawner.killed, 0);
	/* a verdict about another message, and no verdict at all */
	struct job j = get_job(sock);
	say(w, sock, &(struct wire_verdict){ .id = j.item.id + 1, .what = WIRE_PASS }, -1);
	drop_job(&j);
	client_expect(&c, "550 ");
	assert_true(spawner.killed > 0);
	assert_int_equal(spawner.pid, 11);
	close(sock);
	assert_true(ingress_worker_exited(w->in, 11, SIGKILL));
	assert_false(ingress_worker_exited(w->in, 11, SIGKILL));
	client_free(&c);
	/* its successor dies with a message in hand */
	c = sent(w);
	assert_int_equal(spawner.started, 2);
	sock = come(w, 12);
	j = get_job(sock);
	drop_job(&j);
	close(sock);
	settle(w);
	assert_true(ingress_worker_exited(w->in, 12, SIGSEGV));
	client_expect(&c, "550 ");
	assert_int_equal(p->failures[BEFORE_CRASH], 2);
	client_free(&c);
	/* none can be started */
	c = sent(w);
	assert_int_equal(spawner.started, 3);
	assert_true(ingress_worker_failed(w->in, spawner.token));
	settle(w);
	client_expect(&c, "550 ");
	assert_int_equal(p->failures[BEFORE_NO_WORKER], 1);
	client_free(&c);
	c = sent(w); /* within the pause nothing is asked for */
	client_expect(&c, "550 ");
	assert_int_equal(spawner.started, 3);
	assert_int_equal(w->fake.n_rows, 0);
	done(w, &c, -1);
}

/* PRDR with stages before acceptance: not a word before the verdict and the commit; then one reply for each recipient, and one for all
 * of what is refused. Who changes the recipients does not change how many replies the client counts on. */
static void test_prdr(void **state)
{
	static struct str one[] = { STR_INIT("other@example.test") };
	static const struct {
		struct wire_verdict v;
		const char *want[5];
		const char *rcpts;
	} cases[] = {
		{ { .what = WIRE_PASS }, { "353 ", "250 ", "250 ", "250 2.0.0 Ok: queued as" }, "alice@example.test bob@example.test" },
		{ { .what = WIRE_PASS, .changed = WIRE_CHANGED_RCPTS, .rcpts = one, .n_rcpts = 1 }, { "353 ", "250 ", "250 ", "250 2.0.0 Ok: queued as" },
		    "other@example.test" },
		{ { .what = WIRE_DISCARD }, { "353 ", "250 ", "250 ", "250 " }, NULL },
		{ { .what = WIRE_REJECT, .text = STR_INIT("no"), .enhanced = STR_INIT("5.7.9") }, { "550 5.7.9 no\r\n" }, NULL },
		{ { .what = WIRE_DEFER }, { "451 4.7.1 " }, NULL },
		{ { .what = WIRE_FAULT }, { "451 4.7.1 " }, NULL },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct world *w = world("one", "tempfail");
		struct client c = client_new(w);
		client_hello(&c);
		client_send(&c, "MAIL FROM:<a@example.org> PRDR\r\nRCPT TO:<alice@example.test>\r\nRCPT TO:<bob@example.test>\r\nDATA\r\n");
		for (unsigned k = 0; k < 3; k++)
			client_expect(&c, "250 ");
		client_expect(&c, "354 ");
		client_send(&c, MESSAGE ".\r\nNOOP\r\n");
		settle(w);
		int sock = come(w, 11);
		struct job j = get_job(sock);
		struct wire_verdict v = cases[i].v;
		v.id = j.item.id;
		client_quiet(&c);
		say(w, sock, &v, -1);
		drop_job(&j);
		assert_int_equal(w->fake.n_rows, cases[i].rcpts != NULL);
		if (cases[i].rcpts) {
			assert_string_equal(w->fake.rows[0].rcpts, cases[i].rcpts);
			client_quiet(&c);
			fake_commit(w, NULL);
		}
		for (unsigned k = 0; cases[i].want[k]; k++)
			client_expect(&c, cases[i].want[k]);
		client_expect(&c, "250 2.0.0 Ok\r\n"); /* NOOP: nothing was told twice */
		done(w, &c, sock);
	}
}

/* BEFORE_ACCEPT_AUTHENTICATED = NO: mail of who signed in goes past the stages, everybody else's and the rest of the listener's does not. */
static void test_spared(void **state)
{
	(void)state;
	for (unsigned spares = 0; spares < 2; spares++) {
		struct world *w = world_new((const char *const[]){ "listener-mx", "BEFORE_ACCEPT", "one", "listener-mx", "BEFORE_ACCEPT_AUTHENTICATED",
		    spares ? "NO" : "YES", "stage-one", "PROGRAM", "x", NULL });
		play(w);
		struct client c = client_new(w);
		client_hello(&c);
		buf_addz(&w->in->sessions->login, "bob@example.test");
		w->fake.sender = "bob@example.test";
		client_envelope(&c);
		client_send(&c, MESSAGE ".\r\n");
		settle(w);
		assert_int_equal(spawner.started, !spares);
		assert_int_equal(w->fake.n_rows, spares);
		int sock = -1;
		if (!spares) {
			sock = come(w, 11);
			struct job j = get_job(sock);
			say(w, sock, &(struct wire_verdict){ .id = j.item.id, .what = WIRE_PASS }, -1);
			drop_job(&j);
		}
		fake_commit(w, NULL);
		client_expect(&c, "250 2.0.0 Ok: queued as ");
		client_free(&c);
		/* a stranger is looked at either way */
		w->fake.sender = NULL;
		c = sent(w);
		if (sock < 0)
			sock = come(w, 11);
		struct job j = get_job(sock);
		client_quiet(&c);
		say(w, sock, &(struct wire_verdict){ .id = j.item.id, .what = WIRE_REJECT }, -1);
		drop_job(&j);
		client_expect(&c, "550 ");
		done(w, &c, sock);
	}
}

static void test_overload(void **state)
{
	(void)state;
	struct world *w = world("one", "accept");
	struct client c[3];
	for (unsigned i = 0; i < 3; i++) /* PARALLELISM 1, QUEUE_LIMIT 2: the third finds no place, and passes unseen */
		c[i] = sent(w);
	assert_int_equal(TAILQ_FIRST(&w->in->before->pools)->failures[BEFORE_OVERLOAD], 1);
	assert_int_equal(w->fake.n_batch, 1);
	fake_commit(w, NULL);
	client_expect(&c[2], "250 ");
	client_quiet(&c[0]);
	client_quiet(&c[1]);
	for (unsigned i = 0; i < 3; i++)
		client_free(&c[i]);
	done(w, NULL, -1);
}

/* close() of the module hangs: the next message has a worker at once, the one after it soon. */
static void test_successor(void **state)
{
	(void)state;
	struct world *w = world("one", "tempfail");
	struct before_pool *p = TAILQ_FIRST(&w->in->before->pools);
	struct client c[3];
	int sock[2];
	p->max_messages = 1;
	for (int i = 0; i < 2; i++) {
		c[i] = sent(w);
		assert_int_equal(spawner.started, i + 1);
		sock[i] = come(w, 11 + i);
		struct job j = get_job(sock[i]);
		say(w, sock[i], &(struct wire_verdict){ .id = j.item.id, .what = WIRE_PASS }, -1);
		fake_commit(w, NULL);
		client_expect(&c[i], "250 ");
		drop_job(&j);
	}
	c[2] = sent(w);
	assert_int_equal(spawner.started, 2); /* PARALLELISM 1: two are there */
	event_active(w->in->before->tick, EV_TIMEOUT, 0);
	settle(w);
	assert_int_equal(spawner.killed, 0);
	TAILQ_FIRST(&p->workers)->since_us -= 2 * US_PER_S;
	event_active(w->in->before->tick, EV_TIMEOUT, 0);
	settle(w);
	assert_int_equal(spawner.killed, 1);
	assert_int_equal(spawner.pid, 11);
	ingress_worker_exited(w->in, 11, SIGKILL);
	settle(w);
	assert_int_equal(spawner.started, 3);
	int last = come(w, 13);
	struct job j = get_job(last);
	say(w, last, &(struct wire_verdict){ .id = j.item.id, .what = WIRE_PASS }, -1);
	fake_commit(w, NULL);
	client_expect(&c[2], "250 ");
	drop_job(&j);
	for (unsigned i = 0; i < 3; i++)
		client_free(&c[i]);
	close(sock[0]);
	close(sock[1]);
	done(w, NULL, last);
}

/* Told to go while its module was still opening, and killed in the end: nobody believes that the module cannot be opened. */
static void test_retired_while_opening(void **state)
{
	(void)state;
	struct world *w = world("one", "tempfail");
	struct before_pool *p = TAILQ_FIRST(&w->in->before->pools);
	struct client c = sent(w);
	int sock[2];
	assert_int_equal(spawner.started, 1);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sock), 0);
	ingress_worker_started(w->in, spawner.token, 11, sock[0]);
	settle(w);
	ingress_workers_changed(w->in, w->conf);
	settle(w);
	TAILQ_FIRST(&p->workers)->since_us -= 60 * US_PER_S;
	event_active(w->in->before->tick, EV_TIMEOUT, 0);
	settle(w);
	assert_int_equal(spawner.killed, 1);
	close(sock[1]);
	ingress_worker_exited(w->in, 11, SIGKILL);
	settle(w);
	client_quiet(&c);
	assert_int_equal(spawner.started, 2);
	int last = come(w, 12);
	struct job j = get_job(last);
	say(w, last, &(struct wire_verdict){ .id = j.item.id, .what = WIRE_PASS }, -1);
	fake_commit(w, NULL);
	client_expect(&c, "250 ");
	drop_job(&j);
	client_free(&c);
	done(w, NULL, last);
}

static void test_deadline(void **state)
{
	(void)state;
	struct world *w = world("one", "tempfail");
	struct client c = sent(w);
	int sock = come(w, 11);
	struct job j = get_job(sock);
	/* the clock is ours: what is due now was due long ago */
	struct before_job *job = TAILQ_FIRST(&w->in->before->jobs);
	job->deadline_us = clock_mono_us() - 1;
	job->w->until_us = job->deadline_us;
	event_active(w->in->before->tick, EV_TIMEOUT, 0);
	settle(w);
	client_expect(&c, "451 4.7.1 ");
	assert_int_equal(spawner.killed, 1);
	assert_int_equal(TAILQ_FIRST(&w->in->before->pools)->failures[BEFORE_TIMEOUT], 1);
	/* its late verdict is nobody's */
	say(w, sock, &(struct wire_verdict){ .id = j.item.id, .what = WIRE_PASS }, -1);
	client_quiet(&c);
	assert_int_equal(w->fake.n_rows, 0);
	drop_job(&j);
	done(w, &c, sock);
}

static void test_client_leaves(void **state)
{
	(void)state;
	struct world *w = world("one", "tempfail");
	struct client c = sent(w);
	int sock = come(w, 11);
	struct job j = get_job(sock);
	client_free(&c);
	say(w, sock, &(struct wire_verdict){ .id = j.item.id, .what = WIRE_PASS }, -1);
	assert_int_equal(w->fake.n_rows, 0);
	assert_int_equal(w->in->n_sessions, 0);
	assert_int_equal(w->in->before->clients_gone, 1);
	drop_job(&j);
	/* and one with a message at the worker when all ends */
	c = sent(w);
	j = get_job(sock);
	drop_job(&j);
	world_free(w);
	client_free(&c);
	close(sock);
}

static bool tell(struct world *w, int sock, const char *lines)
{
	struct buf b = BUF_INIT(1 << 20);
	buf_addz(&b, WIRE_BEFORE_METRICS);
	buf_addz(&b, lines);
	bool sent = net_parcel_send(sock, buf_str(&b), -1) == 1;
	buf_free(&b);
	settle(w);
	return sent;
}

/* What a module counts comes between, before and behind verdicts, and goes to the dispatcher; who never stops is killed. */
static void test_metrics(void **state)
{
	(void)state;
	struct world *w = world("one", "tempfail");
	struct client c = sent(w);
	int sock = come(w, 11);
	struct job j = get_job(sock);
	assert_true(tell(w, sock, "4 3:one c hits - - 1\n4 3:one c hits - - 2\n5 3:one {}\nrubbish\n"));
	assert_string_equal(w->measured, "one: 3:one c hits - - 2");
	client_quiet(&c);
	say(w, sock, &(struct wire_verdict){ .id = j.item.id, .what = WIRE_PASS }, -1);
	drop_job(&j);
	fake_commit(w, NULL);
	client_expect(&c, "250 2.0.0 Ok: queued as ");
	assert_true(tell(w, sock, "4 3:one c hits - - 3\n")); /* idle */
	assert_string_equal(w->measured, "one: 3:one c hits - - 3");
	assert_int_equal(spawner.killed, 0);
	char *flood = calloc(1, 60001);
	memset(flood, 'x', 60000);
	unsigned n = 0;
	while (!spawner.killed && n < 1000 && tell(w, sock, flood))
		n++;
	free(flood);
	assert_true(spawner.killed);
	assert_in_range(n, METRICS_OCTETS_MAX / 60000, 2 * METRICS_OCTETS_MAX / 60000);
	assert_true(ingress_worker_exited(w->in, 11, SIGKILL));
	done(w, &c, sock);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_pass_and_change), cmocka_unit_test(test_large_body),
		cmocka_unit_test(test_verdicts), cmocka_unit_test(test_failures), cmocka_unit_test(test_prdr), cmocka_unit_test(test_spared), cmocka_unit_test(test_overload),
		cmocka_unit_test(test_successor), cmocka_unit_test(test_retired_while_opening),
		cmocka_unit_test(test_metrics), cmocka_unit_test(test_deadline), cmocka_unit_test(test_client_leaves) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
