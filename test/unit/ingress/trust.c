/* Whom a listener believes: PROXY headers and XCLIENT, from those who may and from others; places counted for the client, not
 * its proxy; listeners that come and go at a reload; submission without a sign-in. */
#include "harness.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const behind[] = { "listener-mx", "PROXY_FROM", "127.0.0.1", "listener-mx", "MAX_CONNECTIONS_PER_ADDRESS", "1",
	NULL };

/* The session that was begun last. */
static const struct session *newest(struct world *w)
{
	assert_non_null(w->in->sessions);
	return w->in->sessions;
}

static void turns(struct world *w, unsigned n)
{
	while (n--)
		world_turn(w);
}

static void test_proxy(void **state)
{
	(void)state;
	struct world *w = world_new(behind);
	struct client a = client_new(w), b = client_new(w), again = client_new(w), local = client_new(w), unknown = client_new(w);
	client_quiet(&a); /* no banner before the header */
	assert_int_equal(w->in->listening->sessions, 5);
	assert_int_equal(w->in->n_sessions, 0);
	client_send(&a, "PROXY TCP4 198.51.100.7 127.0.0.1 47");
	client_quiet(&a);
	client_send(&a, "11 25\r\n");
	client_expect(&a, "220 ");
	assert_string_equal(newest(w)->peer.text, "198.51.100.7");
	assert_int_equal(newest(w)->peer.port, 4711);
	assert_string_equal(newest(w)->via->addr.text, "127.0.0.1");
	assert_false(newest(w)->relay);
	/* RELAY_NETWORKS is asked for the client, and so is the limit */
	client_send(&b, "PROXY TCP4 192.0.2.9 127.0.0.1 1 25\r\n");
	client_expect(&b, "220 ");
	assert_true(newest(w)->relay);
	client_send(&again, "PROXY TCP6 ::ffff:198.51.100.7 ::1 2 25\r\n");
	client_expect(&again, "421 4.7.0 ");
	client_closed(&again);
	client_send(&unknown, "PROXY UNKNOWN\r\n");
	client_expect(&unknown, "220 ");
	assert_false(newest(w)->relay);
	assert_true(newest(w)->via->unknown);
	client_free(&unknown);
	turns(w, 5);
	client_send_n(&local, "\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", 16);
	client_expect(&local, "220 ");
	assert_string_equal(newest(w)->peer.text, "127.0.0.1");
	assert_int_equal(w->in->proxied_total, 5);
	client_free(&a);
	client_free(&b);
	client_free(&again);
	client_free(&local);
	turns(w, 10);
	assert_int_equal(w->in->n_sessions, 0);
	assert_int_equal(w->in->listening->sessions, 0);
	world_free(w);
}

static void test_proxy_bad(void **state)
{
	(void)state;
	static const char *const tries[] = { "EHLO x\r\n", "PROXY TCP4 198.51.100.7 127.0.0.1 4711 99999\r\n", "QUIT\r\n", "\x16\x03\x01" };
	struct world *w = world_new(behind);
	for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
		struct client c = client_new(w);
		client_send(&c, tries[i]);
		client_closed(&c);
		assert_int_equal(c.in.n, 0);
		client_free(&c);
	}
	assert_int_equal(w->in->rejected[REFUSED_PROXY], sizeof tries / sizeof *tries);
	/* gone in the middle, and too slow */
	struct client gone = client_new(w), slow = client_new(w);
	client_send(&gone, "PROXY TCP4");
	turns(w, 5);
	client_free(&gone);
	client_send(&slow, "PROXY");
	turns(w, 10);
	assert_int_equal(w->in->listening->sessions, 1);
	proxied_sweep(w->in, clock_mono_us() + 9 * US_PER_S);
	assert_int_equal(w->in->listening->sessions, 1);
	proxied_sweep(w->in, clock_mono_us() + 11 * US_PER_S);
	assert_int_equal(w->in->listening->sessions, 0);
	client_closed(&slow);
	client_free(&slow);
	/* early talk is early talk behind a header, too */
	struct client early = client_new(w);
	client_send(&early, "PROXY TCP4 198.51.100.8 127.0.0.1 1 25\r\nEHLO x.example.test\r\n");
	client_expect(&early, "554 5.5.1 ");
	client_free(&early);
	/* one that waits when everything ends */
	struct client waits = client_new(w);
	turns(w, 5);
	world_free(w);
	client_free(&waits);
}

static void test_untrusted(void **state)
{
	(void)state;
	struct world *w = world_new((const char *const[]){ "listener-mx", "PROXY_FROM", "192.0.2.0/24 unix", "listener-mx", "XCLIENT_FROM",
	    "192.0.2.0/24", NULL });
	struct client c = client_new(w);
	client_expect(&c, "220 ");
	assert_null(newest(w)->via);
	client_send(&c, "EHLO x.example.test\r\n");
	assert_null(strstr(client_reply(&c), "XCLIENT"));
	client_send(&c, "XCLIENT ADDR=192.0.2.1\r\n");
	client_expect(&c, "550 ");
	client_send(&c, "PROXY TCP4 192.0.2.1 127.0.0.1 1 25\r\n");
	client_expect(&c, "5");
	assert_string_equal(newest(w)->peer.text, "127.0.0.1");
	client_free(&c);
	world_free(w);
}

static void test_xclient(void **state)
{
	(void)state;
	struct world *w = world_new((const char *const[]){ "listener-mx", "XCLIENT_FROM", "127.0.0.0/8", "listener-mx",
	    "MAX_CONNECTIONS_PER_ADDRESS", "2", NULL });
	struct client c = client_new(w), d = client_new(w);
	client_hello(&c);
	client_send(&c, "XCLIENT ADDR=IPV6:2001:db8::1 PORT=4711 NAME=host.example.test HELO=his.example.test LOGIN=alice\r\n");
	client_expect(&c, "220 ");
	const struct session *s = newest(w)->next; /* d is newer */
	assert_string_equal(s->peer.text, "2001:db8::1");
	assert_int_equal(s->peer.port, 4711);
	assert_string_equal(s->via->addr.text, "127.0.0.1");
	client_send(&c, "EHLO proxy.example.test\r\n");
	assert_null(strstr(client_reply(&c), "XCLIENT"));
	assert_true(str_eq(buf_str(&s->helo), STR("his.example.test")));
	assert_true(str_eq(buf_str(&s->login), STR("alice")));
	assert_true(str_eq(buf_str(&s->rdns), STR("host.example.test")));
	/* the place at 127.0.0.1 is free again, the one at 2001:db8::/64 taken */
	assert_int_equal(clients_now(&w->in->clients, &s->peer), 1);
	assert_int_equal(clients_now(&w->in->clients, &s->via->addr), 1);
	client_hello(&d);
	client_send(&d, "XCLIENT ADDR=IPV6:2001:db8::2\r\n");
	client_expect(&d, "220 ");
	struct client e = client_new(w);
	client_hello(&e);
	client_send(&e, "XCLIENT ADDR=IPV6:2001:db8::3\r\n");
	client_expect(&e, "421 4.7.0 ");
	client_free(&e);
	/* nobody: no rights */
	client_free(&d);
	d = client_new(w);
	client_hello(&d);
	client_send(&d, "XCLIENT ADDR=[UNAVAILABLE] NAME=[TEMPUNAVAIL] LOGIN=[UNAVAILABLE]\r\n");
	client_expect(&d, "220 ");
	assert_string_equal(newest(w)->peer.text, "unknown");
	assert_false(newest(w)->relay);
	assert_int_equal(newest(w)->login.n, 0);
	client_free(&c);
	client_free(&d);
	turns(w, 10);
	assert_int_equal(w->in->n_sessions, 0);
	world_free(w);
}

static size_t reload(struct world *w, char *text, size_t size)
{
	struct config_faults *f = config_faults_new();
	ingress_reload(w->in, w->conf, NULL, f);
	size_t n = config_faults_n(f, true);
	snprintf(text, size, "%s", n ? config_faults_at(f, 0)->text : "");
	config_faults_free(f);
	return n;
}

/* The sockets of a configuration, one after the other; sessions outlive theirs. */
static void test_listeners_change(void **state)
{
	(void)state;
	struct world *w = world_new(NULL);
	char first[64], more[256], text[512];
	snprintf(first, sizeof first, "127.0.0.1:%u", w->in->listening->port);
	struct client c = client_new(w);
	client_hello(&c);
	const struct listening *old = w->in->listening;
	/* one more, a unix socket */
	snprintf(more, sizeof more, "%s unix:$STATE_DIR/in", first);
	assert_int_equal(config_set(w->conf, "listener-mx", "BIND", more), 0);
	assert_int_equal(reload(w, text, sizeof text), 0);
	assert_ptr_equal(w->in->listening, old);
	assert_non_null(old->next);
	int fd = old->next->fd;
	assert_true(fd >= 0);
	/* the same place under another name and section */
	assert_int_equal(config_set(w->conf, "listener-mx", "BIND", "unix:$STATE_DIR/in"), 0);
	assert_int_equal(config_set(w->conf, "listener-second", "BIND", first), 0);
	assert_int_equal(reload(w, text, sizeof text), 0);
	assert_ptr_equal(w->in->listening, old);
	assert_string_equal(old->terms->name, "second");
	assert_int_equal(old->next->fd, fd);
	/* the first is gone, its session not */
	assert_int_equal(config_set(w->conf, "listener-second", "BIND", "unix:$STATE_DIR/other"), 0);
	assert_int_equal(reload(w, text, sizeof text), 0);
	assert_true(old->gone && old->fd == -1 && old->sessions == 1);
	client_send(&c, "NOOP\r\n");
	client_expect(&c, "250 ");
	client_free(&c);
	turns(w, 10);
	assert_ptr_not_equal(w->in->listening, old);
	/* what cannot be opened is told, the others stay */
	assert_int_equal(config_set(w->conf, "listener-second", "BIND", "unix:$STATE_DIR/other 192.0.2.77:2525 systemd:none"), 0);
	assert_int_equal(reload(w, text, sizeof text), 2);
	assert_non_null(strstr(text, "192.0.2.77:2525"));
	assert_non_null(w->in->listening->next);
	assert_null(w->in->listening->next->next);
	snprintf(text, sizeof text, "%s/in", w->dir);
	assert_int_equal(unlink(text), 0);
	snprintf(text, sizeof text, "%s/other", w->dir);
	assert_int_equal(unlink(text), 0);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_proxy), cmocka_unit_test(test_proxy_bad), cmocka_unit_test(test_untrusted),
		cmocka_unit_test(test_xclient), cmocka_unit_test(test_listeners_change) };
	log_setup(LOG_LV_ERROR, "test");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
