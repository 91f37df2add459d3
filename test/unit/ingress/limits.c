/* What happens when something runs out: the database, ids, connections, time, disk; and drain, reload, numbers. */
#include "harness.h"

#include "base/clock.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define MESSAGE "Subject: test\r\n\r\nhello\r\n"
enum { SECOND = 1000000 };

static bool idle(struct world *w)
{
	for (unsigned i = 0; i < 50; i++)
		world_turn(w);
	return !w->in->n_sessions && !w->in->house.used && !w->in->clients.map.n;
}

static void test_database_away(void **state)
{
	(void)state;
	struct world *w = world_new(NULL);
	struct client c = client_new(w), d = client_new(w), e = client_new(w);
	/* c's message is in flight, d's waits behind it, e is in the middle of its own when the database goes */
	client_hello(&c);
	client_envelope(&c);
	client_send(&c, MESSAGE ".\r\n");
	client_quiet(&c);
	client_hello(&d);
	client_envelope(&d);
	client_send(&d, MESSAGE ".\r\n");
	client_quiet(&d);
	client_hello(&e);
	client_envelope(&e);
	ingress_database(w->in, false);
	client_expect(&d, "451 4.3.0 ");
	client_quiet(&c); /* in doubt until the store says so */
	fake_commit_all(w, STORE_AWAY);
	client_expect(&c, "451 4.3.0 ");
	client_send(&e, MESSAGE ".\r\n");
	client_expect(&e, "451 4.3.0 ");
	/* sessions live on, new ones are welcome, but MAIL is refused before any content travels */
	client_send(&c, "NOOP\r\n");
	client_expect(&c, "250 ");
	client_send(&c, "MAIL FROM:<a@example.org>\r\n");
	client_expect(&c, "451 4.3.0 ");
	struct client f = client_new(w);
	client_hello(&f);
	client_send(&f, "MAIL FROM:<a@example.org>\r\n");
	client_expect(&f, "451 4.3.0 ");
	assert_int_equal(w->in->accepted, 0);
	/* and back */
	unsigned asked = w->fake.ids_asked;
	ingress_database(w->in, true);
	world_turn(w);
	assert_int_equal(w->fake.ids_asked, asked + 1); /* ids of the old server are not used */
	client_envelope(&f);
	client_send(&f, MESSAGE ".\r\n");
	client_quiet(&f);
	assert_true(w->fake.rows[w->fake.n_rows - 1].id > (int64_t)ADMIT_IDS_BLOCK);
	fake_commit(w, NULL);
	client_expect(&f, "250 2.0.0 Ok: queued as ");
	client_free(&c);
	client_free(&d);
	client_free(&e);
	client_free(&f);
	assert_true(idle(w));
	world_free(w);
}

static void test_ids(void **state)
{
	(void)state;
	struct world *w = world_new(NULL);
	/* start over without ids in hand */
	ingress_database(w->in, false);
	w->fake.hold_ids = true;
	ingress_database(w->in, true);
	struct client c = client_new(w);
	client_hello(&c);
	client_envelope(&c);
	client_send(&c, MESSAGE ".\r\n");
	client_quiet(&c);
	assert_int_equal(w->fake.batches, 0);
	assert_non_null(w->fake.ids_fn);
	fake_give_ids(w, STORE_OK);
	client_quiet(&c);
	assert_int_equal(w->fake.batches, 1);
	fake_commit(w, NULL);
	client_expect(&c, "250 ");
	/* none, and none to be had */
	ingress_database(w->in, false);
	ingress_database(w->in, true);
	client_envelope(&c);
	client_send(&c, MESSAGE ".\r\n");
	client_quiet(&c);
	fake_give_ids(w, STORE_REFUSED);
	client_expect(&c, "451 4.3.0 ");
	client_free(&c);
	assert_true(idle(w));
	/* an answer for a connection that is no more brings nothing */
	world_turn(w);
	if (!w->fake.ids_fn) {
		ingress_database(w->in, false);
		ingress_database(w->in, true);
		world_turn(w);
	}
	ingress_database(w->in, false);
	fake_give_ids(w, STORE_OK);
	struct admit_stats a;
	admit_stats(w->in->admit, &a);
	assert_int_equal(a.ids, 0);
	world_free(w);
}

/* The store has no memory for the call: 452, and all goes on when it has. */
static void test_store_memory(void **state)
{
	(void)state;
	struct world *w = world_new((const char *const[]){ "pepsi-ingress", "SPOOL_THRESHOLD", "10", NULL });
	struct client c[3];
	for (unsigned i = 0; i < 3; i++) {
		c[i] = client_new(w);
		client_hello(&c[i]);
		client_envelope(&c[i]);
	}
	w->fake.places = 10;
	client_send(&c[0], MESSAGE "and more\r\n.\r\n");
	client_quiet(&c[0]); /* in flight */
	client_send(&c[1], MESSAGE "and more\r\n.\r\n");
	client_send(&c[2], MESSAGE "and more\r\n.\r\n");
	client_quiet(&c[1]);
	w->fake.no_memory = true;
	fake_commit(w, NULL);
	client_expect(&c[0], "250 ");
	client_expect(&c[1], "452 4.3.1 ");
	client_expect(&c[2], "452 4.3.1 ");
	assert_int_equal(w->fake.n_handed, 1);
	assert_int_equal(w->fake.unreserved, 2);
	/* no ids either */
	ingress_database(w->in, false);
	ingress_database(w->in, true);
	client_envelope(&c[1]);
	client_send(&c[1], MESSAGE ".\r\n");
	client_expect(&c[1], "452 4.3.1 ");
	w->fake.no_memory = false;
	client_envelope(&c[1]);
	client_send(&c[1], MESSAGE ".\r\n");
	client_quiet(&c[1]);
	fake_commit(w, NULL);
	client_expect(&c[1], "250 ");
	for (unsigned i = 0; i < 3; i++)
		client_free(&c[i]);
	assert_true(idle(w));
	world_free(w);
}

static void test_ids_refill(void **state)
{
	(void)state;
	struct world *w = world_new(NULL);
	struct client c = client_new(w);
	struct admit_stats a;
	unsigned asked = w->fake.ids_asked;
	client_hello(&c);
	admit_stats(w->in->admit, &a);
	assert_int_equal(a.ids, ADMIT_IDS_BLOCK);
	for (unsigned i = 0; i < ADMIT_IDS_BLOCK; i++) {
		client_send(&c, "MAIL FROM:<a@example.org>\r\nRCPT TO:<b@example.test>\r\nDATA\r\n");
		client_expect(&c, "250 ");
		client_expect(&c, "250 ");
		client_expect(&c, "354 ");
		client_send(&c, MESSAGE ".\r\n");
		while (!w->fake.admit_fn)
			world_turn(w);
		fake_forget_rows(w);
		fake_commit(w, NULL);
		client_expect(&c, "250 ");
	}
	assert_int_equal(w->fake.ids_asked, asked + 1); /* when fewer than ADMIT_IDS_LOW were left */
	admit_stats(w->in->admit, &a);
	assert_int_equal(a.ids, ADMIT_IDS_BLOCK);
	client_free(&c);
	assert_true(idle(w));
	world_free(w);
}

static void test_connections(void **state)
{
	(void)state;
	struct world *w = world_new((const char *const[]){ "listener-mx", "MAX_CONNECTIONS_PER_ADDRESS", "2", NULL });
	struct client c[3];
	for (unsigned i = 0; i < 3; i++)
		c[i] = client_new(w);
	client_expect(&c[0], "220 ");
	client_expect(&c[1], "220 ");
	client_expect(&c[2], "421 4.7.0 mx.example.test Too many connections from your address");
	client_closed(&c[2]);
	client_free(&c[2]);
	client_send(&c[0], "QUIT\r\n");
	client_expect(&c[0], "221 ");
	client_closed(&c[0]);
	client_free(&c[0]);
	c[2] = client_new(w);
	client_expect(&c[2], "220 ");
	client_free(&c[1]);
	client_free(&c[2]);
	assert_true(idle(w));
	world_free(w);
	/* our own networks are exempt; the total is for all */
	w = world_new((const char *const[]){ "listener-mx", "MAX_CONNECTIONS_PER_ADDRESS", "1", "listener-mx",
	    "MAX_CONNECTIONS", "2", "pepsi", "RELAY_NETWORKS", "127.0.0.1", NULL });
	for (unsigned i = 0; i < 3; i++)
		c[i] = client_new(w);
	client_expect(&c[0], "220 ");
	client_expect(&c[1], "220 ");
	client_expect(&c[2], "421 4.7.0 mx.example.test Too many connections;");
	client_closed(&c[2]);
	assert_int_equal(w->in->rejected[REFUSED_CONNECTIONS], 1);
	for (unsigned i = 0; i < 3; i++)
		client_free(&c[i]);
	assert_true(idle(w));
	world_free(w);
}

static void test_deadlines(void **state)
{
	(void)state;
	struct world *w = world_new((const char *const[]){ "listener-mx", "COMMAND_TIMEOUT", "10 s", "listener-mx",
	    "SESSION_TIMEOUT", "10 min", NULL });
	struct client c = client_new(w);
	client_hello(&c);
	/* half a command, drop by drop, is no progress */
	int64_t t0 = clock_mono_us();
	client_send(&c, "NO");
	client_send(&c, "O");
	ingress_sweep(w->in, t0 + 9 * SECOND);
	client_quiet(&c);
	ingress_sweep(w->in, t0 + 11 * SECOND);
	client_expect(&c, "421 4.4.2 ");
	client_closed(&c);
	client_free(&c);
	/* a message has time by its size, not by the time of its last octet */
	c = client_new(w);
	client_hello(&c);
	client_envelope(&c);
	t0 = clock_mono_us();
	client_send(&c, "Subject: slow\r\n\r\n");
	ingress_sweep(w->in, t0 + 9 * SECOND);
	client_quiet(&c);
	for (unsigned i = 0; i < 64; i++)
		client_send(&c, "0123456789012345678901234567890123456789012345678901234567890123456789012345678\r\n"
		    "0123456789012345678901234567890123456789012345678901234567890123456789012345678\r\n");
	ingress_sweep(w->in, t0 + 15 * SECOND); /* 10 KiB: ten seconds more */
	client_quiet(&c);
	client_send(&c, "more");
	ingress_sweep(w->in, t0 + 21 * SECOND);
	client_expect(&c, "421 4.4.2 ");
	client_closed(&c);
	client_free(&c);
	/* whoever is busy all the time is ended, too */
	c = client_new(w);
	client_hello(&c);
	t0 = clock_mono_us();
	w->in->sessions->deadline_us = INT64_MAX; /* as if a command had just come */
	ingress_sweep(w->in, t0 + 599 * SECOND);
	client_quiet(&c);
	ingress_sweep(w->in, t0 + 601 * SECOND);
	client_expect(&c, "421 4.4.2 ");
	client_closed(&c);
	client_free(&c);
	/* a client that waits for its commit has the database's time; then it hears nothing, least of all a
	 * wrong word */
	c = client_new(w);
	client_hello(&c);
	client_envelope(&c);
	client_send(&c, MESSAGE ".\r\n");
	client_quiet(&c);
	t0 = clock_mono_us();
	ingress_sweep(w->in, t0 + 400 * SECOND);
	client_quiet(&c);
	ingress_sweep(w->in, t0 + 500 * SECOND);
	client_closed(&c);
	client_free(&c);
	fake_commit(w, NULL);
	assert_int_equal(w->in->accepted, 1);
	assert_int_equal(w->in->timeouts, 4);
	for (unsigned i = 0; i < DEADLINE_N; i++)
		assert_int_equal(w->in->deadlines[i], i == DEADLINE_COMMAND || i == DEADLINE_MESSAGE || i == DEADLINE_SESSION || i == DEADLINE_ANSWER);
	assert_true(idle(w));
	world_free(w);
}

/* Many that run out of time together: a turn ends some of them, others get their turn before it goes on. */
static void test_deadlines_together(void **state)
{
	enum { N = 120 };
	(void)state;
	struct world *w = world_new((const char *const[]){ "listener-mx", "MAX_CONNECTIONS_PER_ADDRESS", "1000", NULL });
	struct client c[N];
	for (unsigned i = 0; i < N; i++) {
		c[i] = client_new(w);
		client_hello(&c[i]);
	}
	for (struct session *s = w->in->sessions; s; s = s->next)
		s->deadline_us = 0;
	ingress_sweep(w->in, clock_mono_us());
	unsigned first = (unsigned)w->in->timeouts;
	assert_in_range(first, 1, N / 2);
	ingress_sweep(w->in, clock_mono_us()); /* the next tick, before it went on */
	assert_int_equal(w->in->timeouts, first);
	/* the one it would go on with is gone by then */
	session_free(w->in->sweep_at);
	for (unsigned i = 0; i < N; i++) {
		if (i != N - 1 - first) /* newest first */
			client_expect(&c[i], "421 4.4.2 ");
		client_closed(&c[i]);
	}
	for (unsigned i = 0; i < N; i++)
		client_free(&c[i]);
	assert_int_equal(w->in->timeouts, N - 1);
	assert_int_equal(w->in->n_sessions, 0);
	assert_null(w->in->sweep_at);
	world_free(w);
}

/* MAX_SESSIONS of all listeners together; RESERVED_SESSIONS of it are for submission and LIMIT_EXEMPT, so that strangers on one port do not
 * shut out the others. */
static void test_reserved(void **state)
{
	enum { MX, OWN, MSA, PORTS };
	static const char *const sections[PORTS] = { "listener-mx", "listener-own", "listener-msa" };
	char at[PORTS][64];
	struct client c[16];
	unsigned n = 0, port[PORTS] = { 0 };
	(void)state;
	for (unsigned i = 0; i < PORTS; i++) {
		int fd = net_listen("127.0.0.1", 0, at[i], sizeof at[i]);
		assert_true(fd >= 0);
		snprintf(at[i], sizeof at[i], "127.0.0.1:%u", net_listen_port(fd));
		close(fd);
	}
	struct world *w = world_new((const char *const[]){ "pepsi-ingress", "MAX_SESSIONS", "10", "pepsi-ingress", "RESERVED_SESSIONS", "20",
	    sections[MX], "BIND", at[MX], sections[OWN], "BIND", at[OWN], sections[OWN], "LIMIT_EXEMPT", "127.0.0.0/8", sections[MSA], "BIND", at[MSA],
	    NULL });
	for (struct listening *l = w->in->listening; l; l = l->next)
		for (unsigned i = 0; i < PORTS; i++)
			if (!strcmp(l->terms->section, sections[i])) {
				port[i] = l->port;
				l->terms->need_auth = i == MSA; /* as submission has it, without its TLS */
			}
	assert_true(port[MX] && port[OWN] && port[MSA]);
	for (unsigned i = 0; i < 8; i++) {
		c[n] = client_new_at(w, port[MX]);
		client_expect(&c[n++], "220 ");
	}
	struct client more = client_new_at(w, port[MX]);
	client_expect(&more, "421 4.7.0 ");
	client_closed(&more);
	client_free(&more);
	c[n] = client_new_at(w, port[MSA]);
	client_expect(&c[n++], "220 ");
	c[n] = client_new_at(w, port[OWN]);
	client_expect(&c[n++], "220 ");
	/* all is all */
	for (unsigned i = 0; i < PORTS; i++) {
		more = client_new_at(w, port[i]);
		client_expect(&more, "421 4.7.0 ");
		client_closed(&more);
		client_free(&more);
	}
	assert_int_equal(w->in->rejected[REFUSED_CONNECTIONS], 4);
	/* a place of a stranger that is given back is no stranger's: seven others are there, and two of ours */
	client_free(&c[0]);
	for (unsigned i = 0; i < 20; i++)
		world_turn(w);
	assert_int_equal(w->in->n_sessions, 9);
	more = client_new_at(w, port[MX]);
	client_expect(&more, "421 4.7.0 ");
	client_free(&more);
	c[0] = client_new_at(w, port[MSA]);
	client_expect(&c[0], "220 ");
	for (unsigned i = 0; i < n; i++)
		client_free(&c[i]);
	world_free(w);
}

static void on_all_gone(void *arg)
{
	++*(unsigned *)arg;
}

/* Many that are idle when the service stops: a turn ends some of them, whoever has a message on its way is heard in between. */
static void test_drain_together(void **state)
{
	enum { N = 120 };
	(void)state;
	struct world *w = world_new((const char *const[]){ "listener-mx", "MAX_CONNECTIONS_PER_ADDRESS", "1000", NULL });
	struct client c[N];
	unsigned gone = 0, first = 0;
	for (unsigned i = 0; i < N; i++) {
		c[i] = client_new(w);
		client_hello(&c[i]);
	}
	client_envelope(&c[5]);
	ingress_drain(w->in, 60, on_all_gone, &gone);
	for (const struct session *s = w->in->sessions; s; s = s->next)
		first++;
	assert_in_range(N - first, 1, N / 2);
	/* the one it would go on with is gone by then */
	struct session *at = w->in->drain_at;
	assert_non_null(at);
	session_free(at);
	unsigned lost = 0;
	for (unsigned i = 0; i < N; i++) {
		if (i == 5)
			continue;
		while (!c[i].closed)
			client_pull(&c[i]);
		lost += !c[i].in.n;
		assert_true(!c[i].in.n || !strncmp(buf_z(&c[i].in), "421 4.3.2 ", 10));
	}
	assert_int_equal(lost, 1);
	assert_null(w->in->drain_at);
	assert_int_equal(w->in->n_sessions, 1);
	assert_int_equal(gone, 0);
	client_send(&c[5], "x\r\n.\r\n");
	for (unsigned i = 0; i < 20 && !w->fake.n_batch; i++)
		world_turn(w);
	fake_commit(w, NULL);
	client_expect(&c[5], "250 ");
	client_expect(&c[5], "421 4.3.2 ");
	for (unsigned i = 0; i < 20 && !gone; i++)
		world_turn(w);
	assert_int_equal(gone, 1);
	for (unsigned i = 0; i < N; i++)
		client_free(&c[i]);
	world_free(w);
}

/* A client that sends commands and reads no replies is stopped, not buffered without end. */
static void test_not_reading(void **state)
{
	(void)state;
	struct world *w = world_new(NULL);
	struct client c = client_new(w);
	static char block[64 * 1024];
	size_t sent = 0;
	client_hello(&c);
	for (size_t i = 0; i + 6 <= sizeof block; i += 6)
		memcpy(block + i, "NOOP\r\n", 6);
	for (unsigned i = 0; i < 4000; i++) {
		ssize_t n = send(c.fd, block + sent % 6, sizeof block / 6 * 6 - 6, MSG_NOSIGNAL);
		if (n > 0)
			sent += (size_t)n;
		world_turn(w);
	}
	assert_int_equal(w->in->n_sessions, 1);
	struct session *s = w->in->sessions;
	assert_true(s->blocked);
	assert_true(smtp_server_out(s->engine)->n < 2 * 1024 * 1024);
	size_t held = sent;
	for (unsigned i = 0; i < 100; i++) {
		ssize_t n = send(c.fd, block + sent % 6, sizeof block / 6 * 6 - 6, MSG_NOSIGNAL);
		sent += n > 0 ? (size_t)n : 0;
		world_turn(w);
	}
	assert_int_equal(sent, held); /* the pressure reaches the client */
	/* it reads at last: all goes on (a partial command may be at the end) */
	size_t replies = 0;
	c.in.max = 64 << 20;
	for (unsigned i = 0; i < 100000 && replies < sent / 6; i++) {
		client_pull(&c);
		for (size_t k = 0; k < c.in.n; k++)
			replies += c.in.p[k] == '\n';
		buf_reset(&c.in);
	}
	assert_int_equal(replies, sent / 6);
	client_free(&c);
	assert_true(idle(w));
	world_free(w);
}

static void test_wake_interval(void **state)
{
	(void)state;
	struct world *w = world_new((const char *const[]){ "pepsi-ingress", "DISPATCH_WAKE_INTERVAL", "10 s", NULL });
	struct client c = client_new(w);
	client_hello(&c);
	for (unsigned i = 0; i < 5; i++) {
		client_envelope(&c);
		client_send(&c, MESSAGE ".\r\n");
		client_quiet(&c);
		fake_commit(w, NULL);
		client_expect(&c, "250 ");
	}
	assert_int_equal(w->fake.wakes, 1);
	assert_true(w->in->wake_armed); /* the others follow when the interval is over */
	client_free(&c);
	assert_true(idle(w));
	world_free(w);
}

static void test_spool_trouble(void **state)
{
	(void)state;
	struct world *w = world_new((const char *const[]){ "pepsi-ingress", "SPOOL_THRESHOLD", "1 KiB",
	    "pepsi-ingress", "SPOOL_DIR", "/nonexistent/pepsi/spool", NULL });
	struct client c = client_new(w);
	client_hello(&c);
	client_envelope(&c);
	client_send(&c, "Subject: x\r\n\r\n");
	for (unsigned i = 0; i < 64; i++)
		client_send(
		    &c, "0123456789012345678901234567890123456789012345678901234567890123456789012345678\r\n");
	client_send(&c, ".\r\n");
	client_expect(&c, "452 4.3.1 ");
	assert_int_equal(w->in->rejected[REFUSED_DISK], 1);
	client_envelope(&c);
	client_send(&c, MESSAGE ".\r\n");
	client_quiet(&c);
	fake_commit(w, NULL);
	client_expect(&c, "250 ");
	/* free space is looked at before content travels */
	w->in->disk_low = true;
	client_send(&c, "MAIL FROM:<a@example.org>\r\n");
	client_expect(&c, "452 4.3.1 ");
	client_free(&c);
	assert_true(idle(w));
	world_free(w);
}

static void on_drained(void *arg)
{
	++*(unsigned *)arg;
}

static void test_drain(void **state)
{
	(void)state;
	struct world *w = world_new(NULL);
	struct client quiet = client_new(w), busy = client_new(w), waiting = client_new(w);
	unsigned drained = 0;
	client_hello(&quiet);
	client_hello(&busy);
	client_envelope(&busy);
	client_hello(&waiting);
	client_envelope(&waiting);
	client_send(&waiting, MESSAGE ".\r\n");
	client_quiet(&waiting);
	ingress_drain(w->in, 60, on_drained, &drained);
	client_expect(&quiet, "421 4.3.2 ");
	client_closed(&quiet);
	client_free(&quiet);
	/* the message that was begun may come to its end; then that session ends, too */
	client_send(&busy, MESSAGE ".\r\n");
	client_quiet(&busy);
	fake_commit(w, NULL);
	client_expect(&waiting, "250 ");
	client_expect(&waiting, "421 4.3.2 ");
	client_closed(&waiting);
	assert_int_equal(drained, 0);
	fake_commit(w, NULL);
	client_expect(&busy, "250 ");
	client_expect(&busy, "421 4.3.2 ");
	client_closed(&busy);
	for (unsigned i = 0; i < 10; i++)
		world_turn(w);
	assert_int_equal(drained, 1);
	client_free(&busy);
	client_free(&waiting);
	assert_true(idle(w));
	world_free(w);
	/* nobody there: done at once, but not from inside the call */
	w = world_new(NULL);
	drained = 0;
	ingress_drain(w->in, 60, on_drained, &drained);
	assert_int_equal(drained, 0);
	world_turn(w);
	assert_int_equal(drained, 1);
	world_free(w);
}

static void test_reload(void **state)
{
	(void)state;
	struct config_faults *f = config_faults_new();
	struct world *w = world_new(NULL);
	struct client old = client_new(w);
	client_hello(&old);
	assert_int_equal(config_set(w->conf, "pepsi", "LOCAL_DOMAINS", "other.test"), 0);
	assert_int_equal(config_set(w->conf, "pepsi", "HOSTNAME", "new.example.test"), 0);
	ingress_reload(w->in, w->conf, NULL, f);
	assert_int_equal(config_faults_n(f, true), 0);
	config_faults_free(f);
	struct client now = client_new(w);
	client_expect(&now, "220 new.example.test ");
	client_send(&now, "EHLO x.example.test\r\n");
	client_expect(&now, "250-new.example.test");
	client_send(&now, "MAIL FROM:<a@example.org>\r\nRCPT TO:<b@other.test>\r\nRCPT TO:<b@example.test>\r\n");
	client_expect(&now, "250 ");
	client_expect(&now, "250 ");
	client_expect(&now, "550 5.7.1 ");
	/* sessions keep the terms they began under */
	client_send(&old, "MAIL FROM:<a@example.org>\r\nRCPT TO:<b@other.test>\r\nRCPT TO:<b@example.test>\r\n");
	client_expect(&old, "250 ");
	client_expect(&old, "550 5.7.1 ");
	client_expect(&old, "250 ");
	client_free(&old);
	client_free(&now);
	assert_true(idle(w));
	world_free(w);
}

static void test_numbers(void **state)
{
	(void)state;
	struct world *w = world_new(NULL);
	struct client c = client_new(w);
	struct buf b = BUF_INIT(1 << 20);
	client_hello(&c);
	client_envelope(&c);
	client_send(&c, MESSAGE ".\r\n");
	client_quiet(&c);
	fake_commit(w, NULL);
	client_expect(&c, "250 ");
	client_send(&c, "MAIL FROM:<>\r\nRCPT TO:<x@elsewhere.test>\r\n");
	client_expect(&c, "250 ");
	client_expect(&c, "550 ");
	ingress_metrics(w->in, &b);
	assert_false(b.failed);
	static const char *const lines[] = { "pepsi_smtp_connections_total 1\n", "pepsi_smtp_sessions 1\n",
		"pepsi_smtp_messages_accepted_total 1\n", "pepsi_smtp_bytes_total 24\n",
		"pepsi_smtp_rejected_total{reason=\"relay\"} 1\n", "pepsi_admission_batch_rows_bucket{le=\"1\"} 1\n",
		"pepsi_admission_batch_rows_bucket{le=\"+Inf\"} 1\n", "pepsi_admission_batch_rows_count 1\n",
		"pepsi_admission_seconds_count 1\n", "pepsi_admission_ids 1999\n" };
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		if (!strstr(buf_z(&b), lines[i]))
			fail_msg("no %s in\n%s", lines[i], buf_z(&b));
	buf_reset(&b);
	ingress_status(w->in, &b);
	struct json_object *o = json_tokener_parse(buf_z(&b)), *v;
	assert_non_null(o);
	assert_true(json_object_object_get_ex(o, "accepted", &v));
	assert_int_equal(json_object_get_int(v), 1);
	json_object_put(o);
	buf_free(&b);
	client_free(&c);
	assert_true(idle(w));
	world_free(w);
}

/* Every listener that cannot be had is named, all in one run. */
static void test_bind_faults(void **state)
{
	(void)state;
	struct world *w = world_new(NULL);
	struct config_faults *f = config_faults_new();
	char taken[64];
	snprintf(taken, sizeof taken, "127.0.0.1:%u", w->in->listening->port);
	config_set(w->conf, "listener-second", "BIND", taken);
	config_set(w->conf, "listener-third", "BIND", "192.0.2.77:2525");
	config_set(w->conf, "listener-tls", "BIND", taken);
	config_set(w->conf, "listener-tls", "TLS_CERT", "/nonexistent/cert.pem");
	config_set(w->conf, "listener-tls", "TLS_KEY", "/nonexistent/key.pem");
	assert_null(ingress_new(w->conf, NULL, f));
	bool second = false, third = false, tls = false;
	for (size_t i = 0; i < config_faults_n(f, false); i++) {
		const char *t = config_faults_at(f, i)->text;
		second = second || (strstr(t, "[listener-second]") && strstr(t, "Address already in use"));
		third = third || (strstr(t, "[listener-third]") && strstr(t, "192.0.2.77:2525"));
		tls = tls || (strstr(t, "[listener-tls]") && strstr(t, "/nonexistent/cert.pem"));
	}
	assert_true(second && third && tls);
	config_faults_free(f);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_database_away),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_store_memory),
		cmocka_unit_test(test_ids_refill),
		cmocka_unit_test(test_connections),
		cmocka_unit_test(test_deadlines),
		cmocka_unit_test(test_deadlines_together),
		cmocka_unit_test(test_not_reading),
		cmocka_unit_test(test_wake_interval),
		cmocka_unit_test(test_spool_trouble),
		cmocka_unit_test(test_drain), cmocka_unit_test(test_drain_together), cmocka_unit_test(test_reserved),
		cmocka_unit_test(test_reload),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_bind_faults),
	};
	/* errors of these tests are meant */
	log_setup(LOG_LV_ERROR, "test");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
