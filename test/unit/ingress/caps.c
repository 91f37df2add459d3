/* Caps at work (caps.c) and the messages of our own they are told by (notice.c): who is told, how often, in which form; bookings that are
 * given back; the books over a restart, with a database that is a script. */
#include "harness.h"

#include "base/clock.h"
#include "ingress/notice.h"

#include <stdio.h>
#include <stdlib.h>

static struct {
	unsigned puts, gets;
	struct store_account_use line[8];
	char names[8][64];
	size_t n;
	store_done_fn put_fn;
	void *put_arg;
	store_account_use_fn get_fn;
	void *get_arg;
} db;

static void use_put(struct store_conn *c, const struct store_account_use *lines, size_t n, store_done_fn fn, void *arg)
{
	(void)c;
	assert_true(n > 0 && n <= 8);
	assert_null(db.put_fn); /* one at a time */
	for (size_t i = 0; i < n; i++) {
		db.line[i] = lines[i];
		snprintf(db.names[i], sizeof db.names[i], "%.*s", STR_ARG(lines[i].name));
	}
	db.n = n;
	db.puts++;
	db.put_fn = fn;
	db.put_arg = arg;
}

static void put_done(enum store_rc rc)
{
	store_done_fn fn = db.put_fn;
	assert_non_null(fn);
	db.put_fn = NULL;
	fn(db.put_arg, rc, rc == STORE_OK ? NULL : "script");
}

static void use_get(struct store_conn *c, store_account_use_fn fn, void *arg)
{
	(void)c;
	db.gets++;
	db.get_fn = fn;
	db.get_arg = arg;
}

/* A session of an account that may send one message an hour. */
static struct client signed_in(struct world *w, const char *account, uint32_t recipients_hour)
{
	struct client c = client_new(w);
	client_hello(&c);
	struct session *s = w->in->sessions;
	s->who = calloc(1, sizeof *s->who);
	snprintf(s->who->account, sizeof s->who->account, "%s", account);
	if (recipients_hour)
		s->who->recipients_hour = recipients_hour;
	else
		s->who->messages_hour = 1;
	buf_addz(&s->login, account);
	return c;
}

/* One message, committed with this outcome; the reply begins so. Further rows (notices) are committed, too. */
static void send_one(struct world *w, struct client *c, const char *from, enum store_rc rc, const char *want)
{
	char line[200];
	w->fake.sender = buf_z(&w->in->sessions->login);
	snprintf(line, sizeof line, "MAIL FROM:<%s>\r\n", from);
	client_send(c, line);
	client_expect(c, "250 ");
	client_send(c, "RCPT TO:<r@example.test>\r\n");
	client_expect(c, "250 ");
	client_send(c, "DATA\r\n");
	client_expect(c, "354 ");
	client_send(c, "Subject: x\r\n\r\nhello\r\n.\r\n");
	for (unsigned i = 0; i < 100 && !w->fake.admit_fn && !c->in.n; i++)
		client_pull(c);
	w->fake.sender = ""; /* notices are nobody's */
	if (w->fake.admit_fn)
		fake_commit_all(w, rc);
	client_expect(c, want);
	for (unsigned i = 0; i < 20; i++) {
		world_turn(w);
		if (w->fake.admit_fn)
			fake_commit(w, NULL);
	}
}

static struct str text_of(struct fake_row *r)
{
	return (struct str){ buf_z(&r->headers), r->headers.n };
}

static bool has(struct str s, const char *z)
{
	return memmem(s.p, s.n, z, strlen(z)) != NULL;
}

static void status(struct world *w, const char *want)
{
	struct buf b = BUF_INIT(1024);
	caps_status(w->in->caps, &b);
	if (!strstr(buf_z(&b), want))
		fail_msg("%s: not %s", buf_z(&b), want);
	buf_free(&b);
}

static void test_told(void **state)
{
	(void)state;
	struct world *w = world_new(NULL);
	struct client c = signed_in(w, "bob@example.test", 0);
	send_one(w, &c, "bob@example.test", STORE_OK, "250 ");
	assert_int_equal(w->fake.n_rows, 1);
	assert_false(has(str_from(w->fake.rows[0].state), "hold"));
	send_one(w, &c, "bob@example.test", STORE_OK, "250 ");
	assert_int_equal(w->fake.n_rows, 4);
	assert_true(has(str_from(w->fake.rows[1].state), "\"hold\":{\"until\":"));
	assert_true(has(str_from(w->fake.rows[1].state), "cap"));
	/* his own, and postmaster's: from nobody, to one, marked as what they are (RFC 3834), whole messages (RFC 5322 §3.6) */
	static const struct {
		const char *to, *subject, *word;
	} notices[] = { { "bob@example.test", "Subject: Your mail is held: limit of 1 messages per hour", "change your password" },
		{ "postmaster@example.test", "Subject: An account is over its limit of 1 messages per hour", "The account bob@example.test" } };
	for (size_t i = 0; i < 2; i++) {
		struct fake_row *r = &w->fake.rows[2 + i];
		struct str body = { buf_z(&r->body), r->body.n };
		assert_string_equal(r->mail_from, "");
		assert_string_equal(r->rcpts, notices[i].to);
		assert_true(has(text_of(r), notices[i].subject));
		assert_true(has(text_of(r), "Auto-Submitted: auto-generated\r\n"));
		assert_true(has(text_of(r), "\r\nDate: ") && has(text_of(r), "\r\nMessage-ID: <notice.") && has(text_of(r), "From: Mail Delivery System <"));
		assert_true(has(body, notices[i].word));
		assert_true(has(body, "queue id 2 "));
		for (size_t k = 0; k < body.n; k++) /* lines as SMTP has them, none too long */
			assert_true((body.p[k] == '\n') == (k > 0 && body.p[k - 1] == '\r'));
	}
	status(w, "\"held\":1,\"refused\":0,\"told\":1,\"not_told\":0,\"operator_told\":1,\"operator_not_told\":0");
	/* once in an hour */
	send_one(w, &c, "bob@example.test", STORE_OK, "250 ");
	assert_int_equal(w->fake.n_rows, 5);
	status(w, "\"held\":2,\"refused\":0,\"told\":1");
	/* 48 hours of backlog are enough */
	fake_forget_rows(w);
	for (unsigned i = 0; i < 46; i++) {
		send_one(w, &c, "bob@example.test", STORE_OK, "250 ");
		fake_forget_rows(w);
	}
	send_one(w, &c, "bob@example.test", STORE_OK, "450 4.7.1 ");
	assert_int_equal(w->fake.n_rows, 0);
	status(w, "\"refused\":1");
	client_free(&c);
	world_free(w);
}

/* An address that may be anybody's gets no mail about it, and learns no account's name; postmaster does. */
static void test_not_his(void **state)
{
	(void)state;
	struct world *w = world_new((const char *const[]){ "listener-mx", "SENDER_OWNERSHIP", "none", NULL });
	struct client c = signed_in(w, "mallory@example.test", 0);
	send_one(w, &c, "victim@example.org", STORE_OK, "250 ");
	send_one(w, &c, "victim@example.org", STORE_OK, "250 ");
	assert_int_equal(w->fake.n_rows, 3);
	assert_string_equal(w->fake.rows[2].rcpts, "postmaster@example.test");
	status(w, "\"told\":0,\"not_told\":1,\"operator_told\":1");
	client_free(&c);
	world_free(w);
	/* a null sender is no address to write to */
	w = world_new(NULL);
	c = signed_in(w, "bob@example.test", 0);
	send_one(w, &c, "", STORE_OK, "250 ");
	send_one(w, &c, "", STORE_OK, "250 ");
	assert_int_equal(w->fake.n_rows, 3);
	client_free(&c);
	world_free(w);
}

static void test_who(void **state)
{
	static const struct {
		const char *option, *status;
		size_t rows;
	} of[] = { { "none", "\"told\":0,\"not_told\":0,\"operator_told\":0,\"operator_not_told\":0", 2 }, { "owner", "\"told\":1,\"not_told\":0,\"operator_told\":0", 3 },
		{ "postmaster", "\"told\":0,\"not_told\":0,\"operator_told\":1", 3 } };
	(void)state;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		struct world *w = world_new((const char *const[]){ "pepsi-signin", "CAP_NOTICES", of[i].option, NULL });
		struct client c = signed_in(w, "bob@example.test", 0);
		send_one(w, &c, "bob@example.test", STORE_OK, "250 ");
		send_one(w, &c, "bob@example.test", STORE_OK, "250 ");
		assert_int_equal(w->fake.n_rows, of[i].rows);
		status(w, of[i].status);
		client_free(&c);
		world_free(w);
	}
}

/* Many accounts over their caps at once: postmaster hears of some, and that there may be more. */
static void test_flood(void **state)
{
	(void)state;
	struct world *w = world_new((const char *const[]){ "pepsi-signin", "CAP_NOTICES", "postmaster", NULL });
	unsigned told = 0;
	for (unsigned i = 0; i < 25; i++) {
		char name[40];
		snprintf(name, sizeof name, "u%u@example.test", i);
		struct client c = signed_in(w, name, 0);
		send_one(w, &c, name, STORE_OK, "250 ");
		send_one(w, &c, name, STORE_OK, "250 ");
		for (size_t k = 0; k < w->fake.n_rows; k++)
			if (!strcmp(w->fake.rows[k].rcpts, "postmaster@example.test")) {
				told++;
				assert_int_equal(has(buf_str(&w->fake.rows[k].body), "and the last"), told == 20);
			}
		fake_forget_rows(w);
		client_free(&c);
		for (unsigned k = 0; k < 10; k++)
			world_turn(w);
	}
	assert_int_equal(told, 20);
	status(w, "\"operator_told\":20,\"operator_not_told\":5");
	world_free(w);
}

/* What is not stored was not sent. */
static void test_given_back(void **state)
{
	(void)state;
	struct world *w = world_new(NULL);
	struct client c = signed_in(w, "bob@example.test", 2);
	static const enum store_rc bad[] = { STORE_AWAY, STORE_FULL, STORE_REFUSED };
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		send_one(w, &c, "bob@example.test", bad[i], "45");
	send_one(w, &c, "bob@example.test", STORE_OK, "250 ");
	send_one(w, &c, "bob@example.test", STORE_OK, "250 ");
	status(w, "\"accounts\":1,\"held\":0");
	send_one(w, &c, "bob@example.test", STORE_OK, "250 ");
	status(w, "\"held\":1");
	client_free(&c);
	/* nobody who did not sign in has caps */
	c = client_new(w);
	client_hello(&c);
	fake_forget_rows(w);
	w->fake.sender = NULL;
	client_envelope(&c);
	client_send(&c, "x\r\n.\r\n");
	for (unsigned i = 0; i < 100 && !w->fake.admit_fn; i++)
		world_turn(w);
	fake_commit(w, NULL);
	client_expect(&c, "250 ");
	status(w, "\"accounts\":1,\"held\":1");
	client_free(&c);
	world_free(w);
}

static void test_books(void **state)
{
	(void)state;
	memset(&db, 0, sizeof db);
	struct world *w = world_new(NULL);
	w->in->use_put = use_put;
	w->in->use_get = use_get;
	struct client c = signed_in(w, "bob@example.test", 0);
	int64_t hour = clock_wall_us();
	caps_write(w->in->caps, true); /* nothing is written before what there was has been read */
	assert_true(db.puts == 0 && db.gets == 1);
	caps_write(w->in->caps, true);
	assert_int_equal(db.gets, 1); /* it is on its way */
	db.get_fn(db.get_arg, STORE_AWAY, NULL, 0);
	caps_write(w->in->caps, true);
	assert_int_equal(db.gets, 2);
	char longer[300];
	memset(longer, 'x', sizeof longer);
	const struct store_account_use before[] = {
		{ .name = STR("bob@example.test"), .hour_at = hour, .day_at = hour, .messages_hour = 1, .messages_day = 1, .recipients_hour = 1,
		    .recipients_day = 1, .told_at = hour },
		{ .name = str_n(longer, sizeof longer), .hour_at = hour, .day_at = hour, .told_at = hour } /* no account is called so */
	};
	db.get_fn(db.get_arg, STORE_OK, before, 2);
	status(w, "\"accounts\":1");
	/* his hour's message was sent in the former life, and he was told: this one is held, without a word */
	send_one(w, &c, "bob@example.test", STORE_OK, "250 ");
	assert_int_equal(w->fake.n_rows, 1);
	status(w, "\"held\":1,\"refused\":0,\"told\":0");
	caps_write(w->in->caps, true);
	assert_true(db.puts == 1 && db.n == 1 && !strcmp(db.names[0], "bob@example.test") && db.line[0].messages_hour == 2);
	assert_true(db.line[0].hour_at / US_PER_S == hour / US_PER_S);
	caps_write(w->in->caps, true);
	assert_int_equal(db.puts, 1); /* one at a time */
	put_done(STORE_AWAY);
	caps_write(w->in->caps, false); /* not so often */
	assert_int_equal(db.puts, 1);
	caps_write(w->in->caps, true); /* what was not stored is written again */
	assert_int_equal(db.puts, 2);
	put_done(STORE_OK);
	caps_write(w->in->caps, true); /* nothing has changed */
	assert_int_equal(db.puts, 2);
	client_free(&c);
	world_free(w);
}

/* Notices that cannot be made, or are on their way when all ends. */
static void test_no_notice(void **state)
{
	(void)state;
	struct world *w = world_new(NULL);
	struct str text = STR("text\r\n");
	w->fake.sender = "";
	w->in->house.used = w->in->house.max;
	assert_int_equal(notice_send(w->in, STR("a@example.test"), false, "subject", text), -1);
	w->in->house.used = 0;
	assert_int_equal(notice_send(w->in, STR("a@example.test"), false, "subj\r\nBcc: evil@example.org", text), -1);
	assert_int_equal(w->fake.n_rows, 0);
	assert_int_equal(notice_send(w->in, STR("a@example.test"), false, "first", text), 0);
	for (unsigned i = 0; i < 20 && !w->fake.admit_fn; i++)
		world_turn(w);
	fake_commit_all(w, STORE_AWAY); /* lost, with a line in the log */
	assert_null(w->in->notices);
	assert_int_equal(notice_send(w->in, STR("\xc3\xbc@example.test"), true, "second", text), 0);
	assert_non_null(w->in->notices);
	assert_int_equal(notice_send(w->in, STR("b@example.test"), false, "third", text), 0);
	world_turn(w);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_told), cmocka_unit_test(test_not_his), cmocka_unit_test(test_who),
		cmocka_unit_test(test_flood), cmocka_unit_test(test_given_back), cmocka_unit_test(test_books), cmocka_unit_test(test_no_notice) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
