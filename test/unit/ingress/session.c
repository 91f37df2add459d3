/* Sessions end to end over loopback: what is answered, what is stored, and when. */
#include "harness.h"

#include "base/clock.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define MESSAGE "Subject: test\r\nTo: <b@example.test>\r\n\r\nhello\r\n..dot\r\n"
#define MESSAGE_BODY "hello\r\n.dot\r\n"

static bool idle(struct world *w)
{
	for (unsigned i = 0; i < 50; i++)
		world_turn(w);
	return !w->in->n_sessions && !w->in->house.used && !w->in->clients.map.n;
}

static struct json_object *at(struct json_object *o, const char *path)
{
	char copy[128], *save = NULL;
	snprintf(copy, sizeof copy, "%s", path);
	for (char *p = strtok_r(copy, ".", &save); p && o; p = strtok_r(NULL, ".", &save))
		if (!json_object_object_get_ex(o, p, &o))
			return NULL;
	return o;
}

static const char *text_at(struct json_object *o, const char *path)
{
	struct json_object *v = at(o, path);
	if (!v)
		fail_msg("no %s", path);
	return json_object_get_string(v);
}

static void test_accept(void **state)
{
	(void)state;
	struct world *w = world_new(NULL);
	struct client c = client_new(w);
	char want[64];
	client_hello(&c);
	client_envelope(&c);
	client_send(&c, MESSAGE ".\r\n");
	client_quiet(&c); /* no word before the commit */
	assert_int_equal(w->fake.n_batch, 1);
	assert_int_equal(w->in->accepted, 0);
	struct fake_row *r = &w->fake.rows[0];
	fake_commit(w, NULL);
	snprintf(want, sizeof want, "250 2.0.0 Ok: queued as %lld\r\n", (long long)r->id);
	assert_string_equal(client_reply(&c), want);
	assert_string_equal(r->mail_from, "a@example.org");
	assert_string_equal(r->rcpts, "b@example.test");
	assert_false(r->running);
	assert_int_equal(w->fake.wakes, 1);
	/* trace on top, the rest untouched */
	assert_memory_equal(r->headers.p, "Received: from client.example.test ([127.0.0.1])\r\n", 50);
	snprintf(want, sizeof want, "with ESMTP id %lld", (long long)r->id);
	assert_non_null(strstr(r->headers.p, want));
	const char *rest = "Subject: test\r\nTo: <b@example.test>\r\n";
	assert_true(r->headers.n > strlen(rest));
	assert_string_equal(r->headers.p + r->headers.n - strlen(rest), rest);
	assert_string_equal(buf_z(&r->body), MESSAGE_BODY);
	struct json_object *o = json_tokener_parse(r->state);
	assert_non_null(o);
	assert_string_equal(text_at(o, "origin.ip"), "127.0.0.1");
	assert_true(json_object_get_int(at(o, "origin.port")) > 0);
	assert_string_equal(text_at(o, "origin.helo"), "client.example.test");
	assert_true(json_object_get_boolean(at(o, "origin.esmtp")));
	assert_false(json_object_get_boolean(at(o, "origin.smtputf8")));
	assert_string_equal(text_at(o, "origin.body"), "7BIT");
	assert_string_equal(text_at(o, "origin.listener"), "mx");
	assert_string_equal(text_at(o, "origin.authserv_id"), "mx.example.test");
	assert_null(at(o, "origin.tls"));
	assert_null(at(o, "dsn"));
	json_object_put(o);
	/* the session goes on */
	client_send(&c, "QUIT\r\n");
	client_expect(&c, "221 ");
	client_closed(&c);
	client_free(&c);
	assert_true(idle(w));
	world_free(w);
}

static void test_dsn_and_helo(void **state)
{
	(void)state;
	struct world *w = world_new(NULL);
	struct client c = client_new(w);
	client_expect(&c, "220 ");
	client_send(&c, "EHLO client.example.test\r\n");
	client_expect(&c, "250-");
	client_send(&c, "MAIL FROM:<> RET=HDRS ENVID=QQ314159 BODY=8BITMIME\r\n"
	    "RCPT TO:<b@example.test> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;b@example.test\r\n"
	    "RCPT TO:<c@example.test>\r\nRCPT TO:<d@example.test> NOTIFY=NEVER\r\nDATA\r\n");
	for (unsigned i = 0; i < 4; i++)
		client_expect(&c, "250 ");
	client_expect(&c, "354 ");
	client_send(&c, MESSAGE ".\r\n");
	client_quiet(&c);
	fake_commit(w, NULL);
	client_expect(&c, "250 ");
	struct fake_row *r = &w->fake.rows[0];
	assert_string_equal(r->mail_from, "");
	assert_string_equal(r->rcpts, "b@example.test c@example.test d@example.test");
	assert_null(strstr(r->headers.p, "for <")); /* several: none is told of the others */
	struct json_object *o = json_tokener_parse(r->state);
	assert_string_equal(text_at(o, "origin.body"), "8BITMIME");
	assert_string_equal(text_at(o, "dsn.ret"), "HDRS");
	assert_string_equal(text_at(o, "dsn.envid"), "QQ314159");
	struct json_object *rcpt = at(o, "dsn.rcpt");
	assert_int_equal(json_object_array_length(rcpt), 3);
	assert_string_equal(text_at(json_object_array_get_idx(rcpt, 0), "notify"), "SUCCESS,DELAY");
	assert_string_equal(text_at(json_object_array_get_idx(rcpt, 0), "orcpt"), "rfc822;b@example.test");
	assert_int_equal(json_object_object_length(json_object_array_get_idx(rcpt, 1)), 0);
	assert_string_equal(text_at(json_object_array_get_idx(rcpt, 2), "notify"), "NEVER");
	json_object_put(o);
	client_free(&c);
	assert_true(idle(w));
	world_free(w);
}

static void send_message(struct client *c)
{
	client_hello(c);
	client_envelope(c);
	client_send(c, MESSAGE ".\r\n");
}

/* While one commit is under way others gather, and go together; each gets its own verdict. */
static void test_batches(void **state)
{
	(void)state;
	struct world *w = world_new(NULL);
	struct client c[6];
	for (unsigned i = 0; i < 6; i++) {
		c[i] = client_new(w);
		send_message(&c[i]);
		client_quiet(&c[i]);
	}
	assert_int_equal(w->fake.batches, 1);
	assert_int_equal(w->fake.n_batch, 1);
	fake_commit(w, NULL);
	/* the next batch is on its way already when the first client is answered */
	assert_int_equal(w->fake.batches, 2);
	assert_int_equal(w->fake.n_batch, 5);
	client_expect(&c[0], "250 2.0.0 Ok: queued as ");
	for (unsigned i = 1; i < 6; i++)
		client_quiet(&c[i]);
	const enum store_rc rcs[5] = { STORE_OK, STORE_AWAY, STORE_FULL, STORE_REFUSED, STORE_RETRY };
	fake_commit(w, rcs);
	client_expect(&c[1], "250 2.0.0 Ok: queued as ");
	client_expect(&c[2], "451 4.3.0 ");
	client_expect(&c[3], "452 4.3.1 ");
	client_expect(&c[4], "451 4.3.0 ");
	client_expect(&c[5], "451 4.3.0 ");
	assert_int_equal(w->in->accepted, 2);
	/* refused clients may try again in the same session */
	client_envelope(&c[2]);
	client_send(&c[2], MESSAGE ".\r\n");
	client_quiet(&c[2]);
	fake_commit(w, NULL);
	client_expect(&c[2], "250 2.0.0 Ok: queued as ");
	for (unsigned i = 0; i < 6; i++)
		client_free(&c[i]);
	assert_true(idle(w));
	/* every row had an id of its own */
	for (size_t i = 0; i < w->fake.n_rows; i++)
		for (size_t k = 0; k < i; k++)
			assert_true(w->fake.rows[i].id > w->fake.rows[k].id); /* and age goes by id */
	world_free(w);
}

static void test_batch_limits(void **state)
{
	(void)state;
	struct world *w = world_new((const char *const[]){ "pepsi-ingress", "ADMISSION_BATCH", "2", NULL });
	struct client c[6];
	for (unsigned i = 0; i < 6; i++) {
		c[i] = client_new(w);
		send_message(&c[i]);
		client_quiet(&c[i]);
	}
	const size_t want[] = { 1, 2, 2, 1 };
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(w->fake.n_batch, want[i]);
		fake_commit(w, NULL);
	}
	assert_null(w->fake.admit_fn);
	for (unsigned i = 0; i < 6; i++) {
		client_expect(&c[i], "250 ");
		client_free(&c[i]);
	}
	assert_true(idle(w));
	world_free(w);
}

static void send_large_next(struct client *c, size_t body)
{
	char *p = malloc(body + 64);
	size_t n = (size_t)snprintf(p, 64, "Subject: large\r\n\r\n");
	while (n < body) {
		memset(p + n, 'x', 62);
		memcpy(p + n + 62, "\r\n", 2);
		n += 64;
		if (n + 64 > body)
			break;
	}
	client_envelope(c);
	client_send_n(c, p, n);
	client_send(c, ".\r\n");
	free(p);
}

static void send_large(struct client *c, size_t body)
{
	client_hello(c);
	send_large_next(c, body);
}

/* Small mail does not wait behind large, and large is not forgotten. */
static void test_large_turns(void **state)
{
	(void)state;
	struct world *w = world_new(NULL);
	struct client c[5];
	for (unsigned i = 0; i < 5; i++)
		c[i] = client_new(w);
	send_message(&c[0]);
	client_quiet(&c[0]);
	for (unsigned i = 1; i < 5; i++) {
		if (i < 3)
			send_large(&c[i], ADMIT_LARGE + 1000);
		else
			send_message(&c[i]);
		client_quiet(&c[i]);
	}
	fake_commit(w, NULL); /* c0; then both large ones */
	assert_int_equal(w->fake.n_batch, 2);
	assert_true(w->fake.rows[1].body.n > ADMIT_LARGE);
	assert_true(w->fake.rows[2].body.n > ADMIT_LARGE);
	fake_commit(w, NULL); /* then the small ones */
	assert_int_equal(w->fake.n_batch, 2);
	assert_string_equal(buf_z(&w->fake.rows[3].body), MESSAGE_BODY);
	fake_commit(w, NULL);
	for (unsigned i = 0; i < 5; i++) {
		client_expect(&c[i], "250 ");
		client_free(&c[i]);
	}
	assert_true(idle(w));
	world_free(w);
}

static void test_client_gone(void **state)
{
	(void)state;
	struct world *w = world_new(NULL);
	struct client c = client_new(w);
	send_message(&c);
	client_quiet(&c);
	struct linger hard = { 1, 0 };
	setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
	client_free(&c); /* a reset */
	for (unsigned i = 0; i < 20; i++)
		world_turn(w);
	assert_int_equal(w->in->n_sessions, 1); /* waits for the database alone */
	assert_int_equal(w->in->orphans, 1);
	fake_commit(w, NULL);
	assert_int_equal(w->in->accepted, 1);
	assert_int_equal(w->fake.wakes, 1);
	assert_true(idle(w));
	world_free(w);
}

/* A client that sends everything at once, closes its side and reads the answers then. */
static void test_half_close(void **state)
{
	(void)state;
	struct world *w = world_new(NULL);
	struct client c = client_new(w);
	client_hello(&c);
	client_envelope(&c);
	client_send(&c, MESSAGE ".\r\nQUIT\r\n");
	shutdown(c.fd, SHUT_WR);
	client_quiet(&c);
	fake_commit(w, NULL);
	client_expect(&c, "250 2.0.0 Ok: queued as ");
	client_expect(&c, "221 ");
	client_closed(&c);
	client_free(&c);
	/* without QUIT, in the middle of a message: nothing is stored */
	c = client_new(w);
	client_hello(&c);
	client_envelope(&c);
	client_send(&c, "Subject: cut\r\n\r\nof");
	shutdown(c.fd, SHUT_WR);
	client_closed(&c);
	client_free(&c);
	assert_int_equal(w->fake.n_rows, 1);
	assert_true(idle(w));
	world_free(w);
}

/* With ways of their own large ones neither wait for small ones nor the other way round. */
static void test_ways(void **state)
{
	(void)state;
	struct world *w = world_new_ways(NULL, 2);
	struct client c[5];
	for (unsigned i = 0; i < 5; i++)
		c[i] = client_new(w);
	send_large(&c[0], ADMIT_LARGE + 1000);
	client_quiet(&c[0]);
	assert_non_null(w->fake.large[0].fn);
	send_message(&c[1]);
	client_quiet(&c[1]);
	assert_non_null(w->fake.admit_fn); /* sent, though the large one is not committed */
	fake_commit(w, NULL);
	client_expect(&c[1], "250 ");
	send_large(&c[2], ADMIT_LARGE + 1000); /* nor does it wait for the other large one */
	client_quiet(&c[2]);
	assert_non_null(w->fake.large[1].fn);
	send_large(&c[3], ADMIT_LARGE + 1000); /* this one waits for either */
	client_quiet(&c[3]);
	send_message(&c[4]);
	client_quiet(&c[4]);
	assert_int_equal(w->fake.n_rows, 4);
	fake_commit_large(w, 1);
	client_expect(&c[2], "250 ");
	client_quiet(&c[0]);
	assert_int_equal(w->fake.n_rows, 5);
	assert_true(w->fake.rows[4].body.n > ADMIT_LARGE);
	/* what is in flight when the database goes is answered by its own commit */
	ingress_database(w->in, false);
	fake_commit(w, NULL);
	client_expect(&c[4], "250 ");
	fake_commit_large(w, 0);
	client_expect(&c[0], "250 ");
	fake_commit_large(w, 1);
	client_expect(&c[3], "250 ");
	for (unsigned i = 0; i < 5; i++)
		client_free(&c[i]);
	assert_true(idle(w));
	world_free(w);
}

static void test_budget(void **state)
{
	(void)state;
	struct world *w = world_new((const char *const[]){ "pepsi-ingress", "MESSAGE_MEMORY", "1 MiB", NULL });
	struct client c = client_new(w), neighbour = client_new(w);
	client_hello(&neighbour);
	client_envelope(&neighbour);
	client_send(&neighbour, "Subject: in the midst of it\r\n");
	client_quiet(&neighbour);
	/* headers are always in memory: a buffer of theirs as large as the budget finds no room beside the neighbour */
	client_hello(&c);
	client_envelope(&c);
	static char fields[9000 * 100];
	size_t n = 0;
	while (n < sizeof fields) {
		memset(fields + n, 'x', 98);
		fields[n + 1] = ':';
		memcpy(fields + n + 98, "\r\n", 2);
		n += 100;
	}
	client_send_n(&c, fields, n);
	client_send(&c, "\r\nbody\r\n.\r\n");
	client_expect(&c, "452 4.3.1 ");
	assert_int_equal(w->fake.n_rows, 0);
	client_send(&neighbour, "\r\nbody\r\n.\r\n");
	client_quiet(&neighbour);
	fake_commit(w, NULL);
	client_expect(&neighbour, "250 ");
	assert_int_equal(w->in->house.used, 0);
	client_free(&neighbour);
	/* a body is not: it goes to disk instead */
	send_large_next(&c, 900 * 1024);
	client_quiet(&c);
	assert_true(w->in->house.used < 64 * 1024);
	fake_commit(w, NULL);
	client_expect(&c, "250 ");
	/* small ones still pass */
	client_envelope(&c);
	client_send(&c, MESSAGE ".\r\n");
	client_quiet(&c);
	fake_commit(w, NULL);
	client_expect(&c, "250 ");
	client_free(&c);
	assert_true(idle(w));
	world_free(w);
}

/* Envelopes count against the same budget: sessions full of recipients are ended, and give everything back. */
static void test_budget_of_envelopes(void **state)
{
	(void)state;
	struct world *w = world_new((const char *const[]){ "pepsi-ingress", "MESSAGE_MEMORY", "1 MiB", NULL });
	struct client c[4], honest = client_new(w);
	unsigned ended = 0, taken = 0;
	char line[600], orcpt[451];
	memset(orcpt, 'x', sizeof orcpt - 1);
	orcpt[sizeof orcpt - 1] = 0;
	for (unsigned i = 0; i < 4; i++) {
		c[i] = client_new(w);
		client_hello(&c[i]);
		client_send(&c[i], "MAIL FROM:<a@example.org>\r\n");
		client_expect(&c[i], "250 ");
		for (bool more = true; more && taken < 4000; taken++) {
			snprintf(line, sizeof line, "RCPT TO:<b%u@example.test> ORCPT=rfc822;%s\r\n", taken, orcpt);
			client_send(&c[i], line);
			const char *got = client_reply(&c[i]);
			more = str_starts(str_from(got), STR("250 "));
			ended += str_starts(str_from(got), STR("421 4.3.1 "));
			if (str_starts(str_from(got), STR("452 4.5.3 ")))
				break;
		}
		assert_true(w->in->house.used <= w->in->house.max);
	}
	assert_true(ended > 0);
	assert_true(taken > 500 && taken < 3000);
	for (unsigned i = 0; i < 4; i++)
		client_free(&c[i]);
	client_hello(&honest);
	client_envelope(&honest);
	assert_true(w->in->house.used > 0);
	client_send(&honest, MESSAGE ".\r\n");
	client_quiet(&honest);
	fake_commit(w, NULL);
	client_expect(&honest, "250 ");
	assert_int_equal(w->in->house.used, 0);
	client_free(&honest);
	assert_true(idle(w));
	world_free(w);
}

static void test_hand_off(void **state)
{
	(void)state;
	struct world *w = world_new((const char *const[]){ "pepsi-ingress", "SPOOL_THRESHOLD", "100 KiB", NULL });
	struct client c[4];
	w->fake.places = 3;
	for (unsigned i = 0; i < 4; i++)
		c[i] = client_new(w);
	send_message(&c[0]);          /* inline */
	client_quiet(&c[0]);
	send_large(&c[1], 80 * 1024); /* memory, by a memfd */
	send_large(&c[2], 150 * 1024);/* spooled */
	send_message(&c[3]);          /* no place left */
	client_quiet(&c[3]);
	assert_true(w->fake.rows[0].running);
	assert_int_equal(w->fake.n_handed, 0); /* not before the commit */
	fake_commit(w, NULL);
	assert_int_equal(w->fake.n_handed, 1);
	assert_int_equal(w->fake.handed[0].id, w->fake.rows[0].id);
	assert_string_equal(buf_z(&w->fake.handed[0].body), MESSAGE_BODY);
	assert_false(w->fake.handed[0].in_fd);
	assert_int_equal(w->fake.wakes, 0);
	assert_int_equal(w->fake.n_batch, 3);
	fake_commit(w, NULL);
	assert_int_equal(w->fake.n_handed, 3);
	for (unsigned i = 1; i < 3; i++) {
		assert_true(w->fake.rows[i].running);
		assert_int_equal(w->fake.handed[i].id, w->fake.rows[i].id);
		assert_true(w->fake.handed[i].in_fd);
		assert_false(w->fake.handed[i].writable_fd);
		assert_int_equal(w->fake.handed[i].body.n, w->fake.rows[i].body.n);
		assert_memory_equal(w->fake.handed[i].body.p, w->fake.rows[i].body.p, w->fake.rows[i].body.n);
	}
	assert_false(w->fake.rows[3].running);
	assert_int_equal(w->fake.wakes, 1);
	for (unsigned i = 0; i < 4; i++) {
		client_expect(&c[i], "250 ");
		client_free(&c[i]);
	}
	assert_true(idle(w));
	world_free(w);
	/* a failed commit gives the place back */
	w = world_new(NULL);
	w->fake.places = 1;
	c[0] = client_new(w);
	send_message(&c[0]);
	client_quiet(&c[0]);
	assert_int_equal(w->fake.reserved, 1);
	fake_commit_all(w, STORE_AWAY);
	client_expect(&c[0], "451 ");
	assert_int_equal(w->fake.unreserved, 1);
	assert_int_equal(w->fake.n_handed + w->fake.wakes, 0);
	client_free(&c[0]);
	assert_true(idle(w));
	world_free(w);
}

/* Headers too large for a datagram: no place is asked for, the row is found in the queue. */
static void test_too_large_to_hand(void **state)
{
	(void)state;
	struct world *w = world_new(NULL);
	struct client c = client_new(w);
	w->fake.places = 1;
	client_hello(&c);
	client_envelope(&c);
	for (unsigned i = 0; i < 5000; i++)
		client_send(&c, "X-Filler: 0123456789012345678901234567890123456789\r\n");
	client_send(&c, "\r\nbody\r\n.\r\n");
	client_quiet(&c);
	assert_false(w->fake.rows[0].running);
	fake_commit(w, NULL);
	client_expect(&c, "250 ");
	assert_int_equal(w->fake.wakes, 1);
	assert_int_equal(w->fake.reserved, 0);
	client_free(&c);
	assert_true(idle(w));
	world_free(w);
}

static void test_smuggling(void **state)
{
	(void)state;
	static const char *const ends[] = { "\n.\r\n", "\n.\n", "\r\n.\n", "\r.\r", "\r\n.\r" };
	static const char *const true_ends[] = { "\r\r\n.\r\n", "\n\r\n.\r\n" };
	for (size_t i = 0; i < 7; i++) {
		struct world *w = world_new(NULL);
		struct client c = client_new(w);
		client_hello(&c);
		client_envelope(&c);
		client_send(&c, "Subject: outer\r\n\r\nx");
		client_send(&c, i < 5 ? ends[i] : true_ends[i - 5]);
		client_send(&c,
		    "MAIL FROM:<evil@example.org>\r\nRCPT TO:<b@example.test>\r\nDATA\r\nSubject: inner\r\n\r\n"
		    "smuggled\r\n.\r\n");
		client_expect(&c, "550 5.6.0 ");
		if (i < 5) {
			client_quiet(&c);
		} else {
			/* behind the true end these are commands, but nobody waits for 354 before this message */
			client_expect(&c, "250 2.1.0");
			client_expect(&c, "250 2.1.5");
			client_expect(&c, "503 5.5.1");
			client_closed(&c);
		}
		assert_int_equal(w->fake.n_rows, 0);
		assert_int_equal(w->in->rejected[REFUSED_CONTENT], 1);
		client_free(&c);
		assert_true(idle(w));
		world_free(w);
	}
}

static void test_relay_control(void **state)
{
	(void)state;
	static const struct {
		const char *networks, *domains, *rcpt, *reply;
	} cases[] = {
		{ "192.0.2.0/24", "example.test *.sub.test", "<b@example.test>", "250 2.1.5" },
		{ "192.0.2.0/24", "example.test *.sub.test", "<b@EXAMPLE.Test>", "250 2.1.5" },
		{ "192.0.2.0/24", "example.test *.sub.test", "<b@x.sub.test>", "250 2.1.5" },
		{ "192.0.2.0/24", "example.test *.sub.test", "<b@sub.test>", "550 5.7.1" },
		{ "192.0.2.0/24", "example.test *.sub.test", "<b@elsewhere.test>", "550 5.7.1" },
		{ "192.0.2.0/24", "example.test *.sub.test", "<b@notexample.test>", "550 5.7.1" },
		{ "192.0.2.0/24", "example.test *.sub.test", "<b@x.example.test>", "550 5.7.1" },
		{ "192.0.2.0/24", "example.test *.sub.test", "<@example.test:b@elsewhere.test>", "550 5.7.1" },
		{ "192.0.2.0/24", "example.test *.sub.test", "<\"b@elsewhere.test\"@example.test>", "250 2.1.5" },
		{ "192.0.2.0/24", "example.test *.sub.test", "<b@[127.0.0.1]>", "550 5.7.1" },
		{ "192.0.2.0/24", "example.test *.sub.test", "<postmaster>", "250 2.1.5" },
		{ "192.0.2.0/24", "", "<postmaster>", "550 5.7.1" },
		{ "127.0.0.0/8", "", "<postmaster>", "250 2.1.5" },
		{ "127.0.0.0/8", "", "<b@elsewhere.test>", "250 2.1.5" },
		{ "127.0.0.1", "example.test", "<b@elsewhere.test>", "250 2.1.5" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct world *w = world_new((const char *const[]){ "pepsi", "RELAY_NETWORKS", cases[i].networks,
		    "pepsi", "LOCAL_DOMAINS", cases[i].domains, NULL });
		struct client c = client_new(w);
		char line[256];
		client_hello(&c);
		client_send(&c, "MAIL FROM:<a@example.org>\r\n");
		client_expect(&c, "250 ");
		snprintf(line, sizeof line, "RCPT TO:%s\r\n", cases[i].rcpt);
		client_send(&c, line);
		const char *got = client_reply(&c);
		if (strncmp(got, cases[i].reply, strlen(cases[i].reply)) != 0)
			fail_msg("%s with \"%s\" and \"%s\": %s", cases[i].rcpt, cases[i].networks,
			    cases[i].domains, got);
		client_free(&c);
		assert_true(idle(w));
		world_free(w);
	}
}

static void test_postmaster(void **state)
{
	(void)state;
	struct world *w = world_new(
	    (const char *const[]){ "pepsi", "LOCAL_DOMAINS", "*.wild.test first.test second.test", NULL });
	struct client c = client_new(w);
	client_hello(&c);
	client_send(&c, "MAIL FROM:<a@example.org>\r\nRCPT TO:<Postmaster>\r\nDATA\r\n");
	client_expect(&c, "250 ");
	client_expect(&c, "250 ");
	client_expect(&c, "354 ");
	client_send(&c, MESSAGE ".\r\n");
	client_quiet(&c);
	assert_string_equal(w->fake.rows[0].rcpts, "postmaster@first.test");
	fake_commit(w, NULL);
	client_expect(&c, "250 ");
	client_free(&c);
	world_free(w);
}

static void test_content_rules(void **state)
{
	(void)state;
	struct world *w = world_new((const char *const[]){ "listener-mx", "MAX_HOPS", "10", NULL });
	struct client c = client_new(w);
	client_hello(&c);
	for (unsigned hops = 10; hops <= 11; hops++) {
		client_envelope(&c);
		for (unsigned i = 0; i < hops; i++)
			client_send(&c, "received: from a by b; Mon, 30 Nov 2026 11:12:44 +0000\r\n");
		client_send(&c, "\r\nReceived: in the body does not count\r\n.\r\n");
		if (hops == 10) {
			client_quiet(&c);
			fake_commit(w, NULL);
			client_expect(&c, "250 ");
		} else {
			client_expect(&c, "554 5.4.6 ");
		}
	}
	client_envelope(&c);
	for (unsigned i = 0; i <= SPOOL_HEADER_LINES; i++)
		client_send(&c, "X: y\r\n");
	client_send(&c, "\r\nbody\r\n.\r\n");
	client_expect(&c, "554 5.6.0 ");
	assert_int_equal(w->fake.n_rows, 1);
	client_free(&c);
	assert_true(idle(w));
	world_free(w);
}

/* Stored rows lose nothing, whatever the message looks like. */
static void test_bodies(void **state)
{
	(void)state;
	static const struct {
		const char *sent, *headers, *body;
	} cases[] = {
		{ "Subject: x\r\n\r\n.\r\n", "Subject: x\r\n", "" },
		{ "\r\nonly body\r\n.\r\n", "", "only body\r\n" },
		{ "Subject: x\r\n\r\n\r\n\r\n.\r\n", "Subject: x\r\n", "\r\n\r\n" },
		{ "..\r\n\r\n...\r\n.\r\n", ".\r\n", "..\r\n" },
		{ "Subject: x\r\n.\r\n", "Subject: x\r\n", "" },
		{ "just text\r\n.\r\n", "", "just text\r\n" },
		{ ".\r\n", "", "" },
	};
	struct world *w = world_new(NULL);
	struct client c = client_new(w);
	client_hello(&c);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		client_envelope(&c);
		client_send(&c, cases[i].sent);
		client_quiet(&c);
		struct fake_row *r = &w->fake.rows[i];
		const char *behind = strstr(r->headers.p, " +0000\r\n");
		assert_non_null(behind);
		assert_string_equal(behind + 8, cases[i].headers);
		assert_string_equal(buf_z(&r->body), cases[i].body);
		fake_commit(w, NULL);
		client_expect(&c, "250 ");
	}
	client_free(&c);
	assert_true(idle(w));
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accept),
		cmocka_unit_test(test_dsn_and_helo),
		cmocka_unit_test(test_batches),
		cmocka_unit_test(test_batch_limits),
		cmocka_unit_test(test_large_turns), cmocka_unit_test(test_ways),
		cmocka_unit_test(test_client_gone),
		cmocka_unit_test(test_half_close),
		cmocka_unit_test(test_budget), cmocka_unit_test(test_budget_of_envelopes),
		cmocka_unit_test(test_hand_off),
		cmocka_unit_test(test_too_large_to_hand),
		cmocka_unit_test(test_smuggling),
		cmocka_unit_test(test_relay_control),
		cmocka_unit_test(test_postmaster),
		cmocka_unit_test(test_content_rules),
		cmocka_unit_test(test_bodies),
	};
	log_setup(LOG_LV_ERROR, "test");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
