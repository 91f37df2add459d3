/* RECIPIENTS = stage:NAME: a stage is asked at RCPT, with a worker played by the test. What each verdict comes to, who is asked after it, what a lying or
 * dying worker cannot do, and what is left when a client leaves. */
#include "played.h"

#include <unistd.h>

static struct world *world(const char *recipients)
{
	const char *const options[] = { "domain-example.test", "RECIPIENTS", recipients, "stage-one", "PROGRAM", "x", "stage-one", "PARALLELISM", "1", "stage-one",
		"QUEUE_LIMIT", "2", NULL };
	struct world *w = world_new(options);
	play(w);
	return w;
}

static struct client rcpt(struct world *w, const char *from, const char *to)
{
	char line[400];
	struct client c = client_new(w);
	client_hello(&c);
	snprintf(line, sizeof line, "MAIL FROM:<%s>\r\n", from);
	client_send(&c, line);
	client_expect(&c, "250 ");
	snprintf(line, sizeof line, "RCPT TO:<%s>\r\n", to);
	client_send(&c, line);
	settle(w);
	return c;
}

static struct before_pool *pool(struct world *w)
{
	return TAILQ_FIRST(&w->in->before->pools);
}

static void done(struct world *w, int sock)
{
	if (sock >= 0)
		close(sock);
	settle(w);
	assert_true(TAILQ_EMPTY(&w->in->before->asks) && TAILQ_EMPTY(&w->in->before->fresh_asks));
	world_free(w);
}

static void test_answers(void **state)
{
	static struct str other[] = { STR_INIT("author@elsewhere.test") }, same[] = { STR_INIT("x@example.test") };
	static const struct {
		struct wire_verdict v;
		const char *want;
		enum before_told told;
	} cases[] = {
		{ { .what = WIRE_PASS, .changed = WIRE_CHANGED_RCPTS, .rcpts = other, .n_rcpts = 1 }, "250 2.1.5 ", BEFORE_KNOWS },
		{ { .what = WIRE_DISCARD }, "250 2.1.5 ", BEFORE_KNOWS },
		/* the only source, and it does not know it */
		{ { .what = WIRE_PASS }, "550 5.1.1 No such recipient here\r\n", BEFORE_SILENT },
		{ { .what = WIRE_PASS, .changed = WIRE_CHANGED_RCPTS, .rcpts = same, .n_rcpts = 1 }, "550 5.1.1 No such", BEFORE_SILENT },
		{ { .what = WIRE_PASS, .changed = WIRE_CHANGED_STATE, .state = STR_INIT("{}"), .stage = STR_INIT("x") }, "550 5.1.1 No such", BEFORE_SILENT },
		{ { .what = WIRE_REJECT, .text = STR_INIT("it has expired"), .enhanced = STR_INIT("5.1.6") }, "550 5.1.6 it has expired\r\n", BEFORE_REFUSES },
		{ { .what = WIRE_REJECT, .text = STR_INIT("x\r\n250 2.1.5 fine"), .enhanced = STR_INIT("2.0.0") }, "550 ", BEFORE_REFUSES },
		{ { .what = WIRE_REJECT }, "550 5.1.1 No such recipient here\r\n", BEFORE_REFUSES },
		{ { .what = WIRE_DEFER, .text = STR_INIT("too many"), .enhanced = STR_INIT("4.7.1") }, "450 4.7.1 too many\r\n", BEFORE_LATER },
		{ { .what = WIRE_DEFER, .detail = STR_INIT("/etc/secret cannot be read") }, "451 4.3.0 Recipients cannot be looked up", BEFORE_LATER },
		{ { .what = WIRE_FAULT, .detail = STR_INIT("fan_out()") }, "451 4.3.0 Recipients cannot be looked up", BEFORE_LATER },
	};
	(void)state;
	struct world *w = world("stage:One");
	uint64_t told[BEFORE_TOLD] = { 0 };
	int sock = -1;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct client c = rcpt(w, i % 2 ? "" : "a@far.test", "x@example.test");
		if (sock < 0) {
			assert_string_equal(spawner.stage, "one");
			sock = come(w, 11);
		}
		client_quiet(&c);
		struct job j = get_job(sock);
		assert_true(j.item.n_rcpts == 1 && str_eq(j.item.rcpts[0], STR("x@example.test")));
		assert_true(str_eq(j.item.mail_from, i % 2 ? STR("") : STR("a@far.test")));
		assert_true(str_eq(j.item.state, STR("{\"question\":\"recipient\"}")) && !j.item.headers.n && !j.item.body.n && j.fd < 0);
		struct wire_verdict v = cases[i].v;
		v.id = j.item.id;
		say(w, sock, &v, -1);
		client_expect(&c, cases[i].want);
		client_send(&c, "RSET\r\n");
		client_expect(&c, "250 ");
		assert_int_equal(pool(w)->asked[cases[i].told], ++told[cases[i].told]);
		drop_job(&j);
		client_free(&c);
	}
	assert_int_equal(spawner.started, 1);
	done(w, sock);
}

/* A silent stage leaves it to the others; another domain's recipients never come to it. */
static void test_others(void **state)
{
	(void)state;
	struct world *w = world("any stage:one");
	struct client c = rcpt(w, "", "x@example.test");
	int sock = come(w, 11);
	struct job j = get_job(sock);
	say(w, sock, &(struct wire_verdict){ .id = j.item.id, .what = WIRE_PASS }, -1);
	client_expect(&c, "250 2.1.5 ");
	drop_job(&j);
	client_send(&c, "RCPT TO:<x@a.sub.test>\r\n");
	client_expect(&c, "250 2.1.5 ");
	/* but it can refuse what others would take */
	client_send(&c, "RCPT TO:<y@example.test>\r\n");
	settle(w);
	j = get_job(sock);
	say(w, sock, &(struct wire_verdict){ .id = j.item.id, .what = WIRE_REJECT, .text = STR("forged") }, -1);
	client_expect(&c, "550 5.1.1 forged\r\n");
	drop_job(&j);
	client_free(&c);
	done(w, sock);
}

/* No worker, one that dies, one that lies, too many: never a 550, never a 250. */
static void test_failures(void **state)
{
	static struct str many[] = { STR_INIT("a@b.test"), STR_INIT("c@d.test") };
	(void)state;
	struct world *w = world("any stage:one");
	struct client c = rcpt(w, "", "x@example.test");
	ingress_worker_failed(w->in, spawner.token);
	settle(w);
	client_expect(&c, "451 4.3.0 ");
	client_free(&c);
	pool(w)->cool_until = 0;
	c = rcpt(w, "", "x@example.test");
	int sock = come(w, 11);
	close(sock); /* with the question in its hands */
	settle(w);
	client_expect(&c, "451 4.3.0 ");
	client_free(&c);
	ingress_worker_exited(w->in, 11, 11);
	c = rcpt(w, "", "x@example.test");
	sock = come(w, 12);
	struct job j = get_job(sock);
	/* the answer to another question */
	say(w, sock, &(struct wire_verdict){ .id = j.item.id + 1, .what = WIRE_PASS, .changed = WIRE_CHANGED_RCPTS, .rcpts = many, .n_rcpts = 2 }, -1);
	client_expect(&c, "451 4.3.0 ");
	assert_true(spawner.killed && spawner.pid == 12);
	drop_job(&j);
	client_free(&c);
	ingress_worker_exited(w->in, 12, 9);
	/* one at the worker, two in line, the next is too many */
	struct client waiting[4];
	waiting[0] = rcpt(w, "", "x@example.test");
	close(sock);
	sock = come(w, 13);
	for (unsigned i = 1; i < 4; i++)
		waiting[i] = rcpt(w, "", "x@example.test");
	client_expect(&waiting[3], "451 4.3.0 ");
	assert_int_equal(pool(w)->failures[BEFORE_OVERLOAD], 1);
	/* who left is answered to nobody, and the next one's turn comes */
	client_free(&waiting[1]);
	client_free(&waiting[0]);
	for (unsigned i = 0; i < 3; i++) {
		client_quiet(&waiting[2]);
		j = get_job(sock);
		say(w, sock, &(struct wire_verdict){ .id = j.item.id, .what = WIRE_PASS, .changed = WIRE_CHANGED_RCPTS, .rcpts = many, .n_rcpts = 2 }, -1);
		drop_job(&j);
	}
	client_expect(&waiting[2], "250 2.1.5 ");
	client_free(&waiting[2]);
	client_free(&waiting[3]);
	done(w, sock);
}

/* Nobody answers for twenty seconds. */
static void test_deadline(void **state)
{
	(void)state;
	struct world *w = world("any stage:one");
	struct client c = rcpt(w, "", "x@example.test");
	int sock = come(w, 11);
	struct job j = get_job(sock);
	TAILQ_FIRST(&w->in->before->asks)->deadline_us = 0;
	event_active(w->in->before->tick, EV_TIMEOUT, 0);
	settle(w);
	client_expect(&c, "451 4.3.0 ");
	drop_job(&j);
	client_free(&c);
	done(w, sock);
}

/* All ends while a question is asked, and one is not asked yet. */
static void test_end(void **state)
{
	(void)state;
	struct world *w = world("stage:one");
	struct client c = rcpt(w, "", "x@example.test");
	int sock = come(w, 11);
	struct job j = get_job(sock);
	drop_job(&j);
	world_free(w);
	client_free(&c);
	close(sock);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_answers), cmocka_unit_test(test_others), cmocka_unit_test(test_failures), cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_end) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
