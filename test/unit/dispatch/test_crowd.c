/* Where more is due of a domain than one message: which domains come next, and when; where the next look at what is due begins. */
#include "fake.h"

/* The due timer fires; the question is in db.due and db.named. */
static void fires(void)
{
	unsigned before = db.dues;
	event_active(d->due, EV_TIMEOUT, 0);
	spin();
	assert_int_equal(db.dues, before + 1);
}

static void gives(const struct store_due *got)
{
	store_due_fn fn = db.due_fn;
	db.due_fn = NULL;
	assert_non_null(fn);
	fn(db.due_arg, STORE_OK, got);
	spin();
}

static void gives_domain(const char *name, int n)
{
	gives(&(const struct store_due){ .requeued = n > 0 ? (unsigned)n : 0, .now_us = now_us,
	    .domains = &(const struct store_due_domain){ init_stage()->number, name, n }, .n_domains = 1 });
}

/* How many of it are asked for; 0, too, when it is passed by. */
static int asked_of(const char *name)
{
	for (size_t i = 0; i < db.n_named; i++)
		if (!strcmp(db.named[i].domain, name))
			return db.named[i].n;
	return 0;
}

static void claims(int64_t id, const char *domain)
{
	dispatch_wake(d, "init");
	spin();
	db.claim_fn(db.claim_arg, STORE_OK, &(const struct store_claimed){ .id = id, .sender_key = "k", .domain = domain }, 1);
	spin();
}

/* A worker that drives many at once with one message of each of these domains, more of which are due. */
static int crowded(const char *const *domains, size_t n)
{
	struct store_due_domain left[8];
	struct stage *st = init_stage();
	ready_line = "2 ids\n";
	st->max_messages = 0;
	st->parallelism = 1;
	limit_to(st, 16);
	fires();
	assert_true(db.due.look);
	assert_false(db.due.behind);
	assert_int_equal(db.due_firsts, 12); /* three quarters of the places of one worker; nobody knows yet whether it drives many */
	for (size_t i = 0; i < n; i++)
		left[i] = (struct store_due_domain){ st->number, domains[i], -1 };
	gives(&(const struct store_due){ .requeued = (unsigned)n, .now_us = now_us, .looked = true, .upto_us = 77, .upto_id = 7, .domains = left, .n_domains = n });
	assert_int_equal(d->crowds.n, n);
	claims(11, domains[0]);
	int w = worker_up(0);
	for (size_t i = 1; i < n; i++)
		claims(11 + (int64_t)i, domains[i]);
	struct arena *a = arena_new(1 << 20);
	int64_t ids[16];
	for (size_t i = 0; i < n;)
		i += got(w, ids, 16, NULL, a);
	arena_free(a);
	return w;
}

static void test_answers(void **state)
{
	static const char *const domains[] = { "a.test", "b.test", "c.test" };
	(void)state;
	int w = crowded(domains, 3);
	/* the first of a.test is delivered: all the others of it, and no look at anything else */
	say(w, "0 11 {\"outcome\":\"finish\"}\n");
	now_us += 10 * 1000;
	fires();
	assert_false(db.due.look);
	assert_int_equal(db.n_named, 1);
	assert_string_equal(db.named[0].domain, "a.test");
	assert_int_equal(db.named[0].n, 1000);
	gives_domain("a.test", 1000); /* there may be more */
	now_us += 10 * 1000;
	fires();
	assert_int_equal(db.named[0].n, 1000);
	gives_domain("a.test", 30);
	assert_int_equal(d->crowds.n, 2);
	/* of c.test nothing is heard for four seconds; that of b.test is paused: five seconds later some of what was not put off with it, by and by */
	say(w, "0 12 {\"outcome\":\"pause\"}\n");
	now_us += 4100 * 1000;
	fires(); /* the row that was paused may be due, too */
	assert_true(db.due.look);
	assert_int_equal(asked_of("b.test"), 0);
	assert_int_equal(asked_of("c.test"), 2);
	gives_domain("c.test", 2);
	now_us += US_PER_S;
	fires();
	assert_int_equal(asked_of("b.test"), 2);
	assert_int_equal(asked_of("c.test"), 0);
	gives_domain("b.test", 2);
	now_us += 8100 * 1000;
	fires();
	assert_int_equal(asked_of("b.test"), 4);
	assert_int_equal(asked_of("c.test"), 4);
	gives_domain("b.test", 0); /* put off, or deleted, meanwhile */
	now_us += US_PER_S;
	fires(); /* what the database said nothing of is asked for again */
	assert_int_equal(asked_of("c.test"), 4);
	gives_domain("c.test", 3);
	assert_int_equal(d->crowds.n, 0);
	assert_int_equal(d->crowds_total, 3);
	close(w);
}

/* No more domains are begun with at once than workers have places for: the others come as those are heard of, or ought to have been; who was given back for want
 * of room counts as heard of, and its domain's next come when it is back itself. */
static void test_paced(void **state)
{
	static const char *const domains[] = { "a.test", "b.test", "c.test" };
	struct store_due_domain none[] = { { 0, "d.test", STORE_DUE_NONE }, { 0, "e.test", STORE_DUE_NONE } };
	(void)state;
	int w = crowded(domains, 3);
	struct stage *st = init_stage();
	assert_int_equal(st->unheard, 3);
	limit_to(st, 4);
	none[0].stage = none[1].stage = st->number;
	fires();
	assert_int_equal(db.due_firsts, 0);
	gives(&(const struct store_due){ .now_us = now_us, .domains = none, .n_domains = 2 });
	assert_int_equal(st->unbegun, 2);
	now_us += 10 * 1000;
	d->look_at = now_us;
	fires();
	assert_int_equal(asked_of("d.test"), 0);
	gives(&(const struct store_due){ .now_us = now_us });
	/* one place is free: one of them */
	say(w, "0 11 {\"outcome\":\"pause\",\"secs\":1}\n");
	assert_int_equal(st->unheard, 2);
	now_us += 10 * 1000;
	fires();
	assert_int_equal(asked_of("d.test") + asked_of("e.test"), 1);
	assert_int_equal(asked_of("a.test"), 0);
	assert_int_equal(db.due_firsts, 0);
	const char *second = asked_of("d.test") ? "e.test" : "d.test";
	gives_domain(asked_of("d.test") ? "d.test" : "e.test", 1);
	assert_int_equal(st->unheard, 3);
	assert_int_equal(st->unbegun, 1);
	/* a second later a.test is back; three more, and the others were silent for long enough */
	now_us += 1150 * 1000;
	fires();
	assert_int_equal(asked_of("a.test"), 2);
	assert_int_equal(asked_of("b.test"), 0);
	gives_domain("a.test", 1);
	now_us += 3000 * 1000;
	fires();
	assert_int_equal(asked_of("b.test"), 2);
	gives_domain("b.test", 2);
	assert_int_equal(st->unheard, 2);
	now_us += 10 * 1000;
	fires();
	assert_int_equal(asked_of(second), 1);
	gives_domain(second, 0); /* it was deleted meanwhile */
	assert_int_equal(st->unbegun, 0);
	assert_int_equal(d->crowds.n, 3);
	/* what a worker says of its pause is no number: it was paused all the same */
	say(w, "0 13 {\"outcome\":\"pause\",\"secs\":-1}\n");
	assert_int_equal(st->unheard, 1);
	close(w);
}

/* A look goes on where the last one ended, passing by who is left behind; and begins anew now and then, and when nobody is. */
static void test_looks(void **state)
{
	static const char *const domains[] = { "a.test" };
	(void)state;
	int w = crowded(domains, 1);
	d->look_at = now_us;
	fires();
	assert_true(db.due.look && db.due.behind);
	assert_int_equal(db.due.after_us, 77);
	assert_int_equal(db.due.after_id, 7);
	assert_int_equal(db.n_named, 1);
	assert_int_equal(db.named[0].n, 0);
	gives(&(const struct store_due){ .now_us = now_us, .wait_us = 1, .looked = true, .upto_us = 88, .upto_id = 8 });
	fires(); /* more at once */
	assert_true(db.due.look && db.due.behind);
	assert_int_equal(db.due.after_us, 88);
	gives(&(const struct store_due){ .now_us = now_us, .looked = true, .upto_us = 99, .upto_id = 9 });
	now_us += 6 * US_PER_S;
	d->look_at = now_us;
	fires();
	assert_true(db.due.look);
	assert_false(db.due.behind);
	assert_int_equal(db.named[0].n, 2);
	gives_domain("a.test", 1);
	d->look_at = now_us;
	fires();
	assert_false(db.due.behind);
	assert_int_equal(db.n_named, 0);
	gives(&(const struct store_due){ .now_us = now_us });
	close(w);
}

/* A stage whose workers take one at a time has no crowds, and gives up those it began with; a database that is away, none of it. */
static void test_no_crowd(void **state)
{
	static const char *const domains[] = { "a.test", "b.test" };
	struct stage *st = init_stage();
	(void)state;
	int w = crowded(domains, 2);
	fires();
	store_due_fn fn = db.due_fn;
	fn(db.due_arg, STORE_AWAY, &(const struct store_due){ .requeued = 0 });
	assert_int_equal(d->crowds.n, 2);
	st->many = false;
	now_us += 2 * US_PER_S;
	fires();
	assert_int_equal(db.due_firsts, -1);
	assert_int_equal(db.n_named, 2);
	assert_int_equal(db.named[0].n, 1000);
	assert_int_equal(db.named[1].n, 1000);
	gives_domain("a.test", 3);
	now_us += US_PER_S;
	fires();
	assert_int_equal(db.n_named, 1);
	gives_domain("b.test", 3);
	assert_int_equal(d->crowds.n, 0);
	close(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_paced, setup, teardown),
		cmocka_unit_test_setup_teardown(test_looks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_crowd, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
