/* Both doors of the admin over real sockets, driven from one event loop. */
#include "fixture.h"

#include "base/clock.h"
#include "control_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <json-c/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define HOST "Host: localhost\r\n"

static int dial(const struct fixture *f, bool http)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(f->port) };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	snprintf(un.sun_path, sizeof un.sun_path, "%s", f->socket);
	int fd = socket(http ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(http ? connect(fd, (struct sockaddr *)&in, sizeof in) : connect(fd, (struct sockaddr *)&un, sizeof un), 0);
	return fd;
}

static void nothing(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

/* Turns the loop, collecting what arrives, until `until` octets or text are there, the peer closed (*ret_eof), or two seconds
 * are over, which fails the test. */
static void collect(struct fixture *f, int fd, struct buf *in, const char *until, bool *ret_eof)
{
	int64_t deadline = clock_mono_us() + 2 * US_PER_S;
	struct timeval tick = { 0, 1000 };
	struct event *timer = event_new(f->base, -1, EV_PERSIST, nothing, NULL);
	event_add(timer, &tick);
	for (;;) {
		event_base_loop(f->base, EVLOOP_ONCE);
		char *at = buf_room(in, 65536);
		assert_non_null(at);
		ssize_t n = recv(fd, at, 65536, MSG_DONTWAIT);
		if (n > 0)
			in->n += (size_t)n;
		in->p[in->n] = 0;
		if (n == 0 || (n < 0 && errno != EAGAIN)) {
			if (!ret_eof)
				fail_msg("connection closed; got: %s", in->p);
			*ret_eof = true;
			break;
		}
		if (until && memmem(in->p, in->n, until, strlen(until)))
			break;
		if (clock_mono_us() > deadline)
			fail_msg("timeout; got: %s", in->p);
	}
	event_free(timer);
}

static void say(int fd, struct str s)
{
	while (s.n) {
		ssize_t n = send(fd, s.p, s.n, MSG_NOSIGNAL);
		assert_true(n > 0);
		s = str_skip(s, (size_t)n);
	}
}

/* One request on a connection of its own; the answer up to the close or `until`. Caller frees. */
static char *http(struct fixture *f, const char *request, const char *until)
{
	struct buf in = BUF_INIT(1 << 20);
	bool eof = false;
	int fd = dial(f, true);
	say(fd, str_from(request));
	collect(f, fd, &in, until, &eof);
	close(fd);
	return in.p;
}

static void has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in: %s", part, text);
}

static void test_health(void **state)
{
	struct fixture f;
	(void)state;
	fixture_open(&f, true);
	char *text = http(&f, "GET /healthz HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", NULL);
	has(text, "HTTP/1.1 200 OK\r\n");
	has(text, "\r\n\r\nok\n");
	free(text);
	f.healthy = false;
	text = http(&f, "GET /healthz HTTP/1.0\r\n\r\n", NULL);
	has(text, "HTTP/1.1 503 ");
	has(text, "\r\n\r\nthe listeners are down\n");
	free(text);
	fixture_close(&f);
}

static int64_t metric(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	while (at && at[-1] != '\n')
		at = strstr(at + 1, name);
	if (!at)
		fail_msg("no %s in: %s", name, text);
	return strtoll(at + strlen(name), NULL, 10);
}

static void test_metrics(void **state)
{
	static const char *const queue[] = { "pending", "running", "paused", "failed", "timeout" };
	struct fixture f;
	(void)state;
	fixture_open(&f, true);
	char *text = http(&f, "GET /metrics HTTP/1.1\r\nHost: metrics.example.test\r\nConnection: close\r\n\r\n", NULL);
	int64_t sum = 0;
	has(text, "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
	for (size_t i = 0; i < 5; i++) {
		char name[64];
		snprintf(name, sizeof name, "pepsi_queue_messages{status=\"%s\"} ", queue[i]);
		sum += metric(text, name);
	}
	assert_int_equal(sum, 15);
	assert_int_equal(metric(text, "pepsi_messages_accepted_total "), sum +
	    metric(text, "pepsi_messages_delivered_total ") + metric(text, "pepsi_messages_bounced_total ") +
	    metric(text, "pepsi_messages_discarded_total "));
	assert_int_equal(metric(text, "pepsi_database_up "), 1);
	assert_int_equal(metric(text, "pepsi_smtp_sessions "), 3);
	has(text, "# HELP pepsi_queue_messages ");
	has(text, "# TYPE pepsi_messages_accepted_total counter\n");
	free(text);
	/* away in three ways: not connected, an error, no connection at all */
	f.db.up = false;
	text = http(&f, "GET /metrics HTTP/1.0\r\n\r\n", NULL);
	assert_int_equal(metric(text, "pepsi_database_up "), 0);
	assert_null(strstr(text, "pepsi_queue_messages"));
	assert_int_equal(metric(text, "pepsi_smtp_sessions "), 3);
	free(text);
	f.db.up = true;
	f.db.rc = STORE_AWAY;
	text = http(&f, "GET /metrics HTTP/1.0\r\n\r\n", NULL);
	assert_int_equal(metric(text, "pepsi_database_up "), 0);
	free(text);
	fixture_close(&f);
	fixture_open(&f, false);
	text = http(&f, "GET /metrics HTTP/1.0\r\n\r\n", NULL);
	assert_int_equal(metric(text, "pepsi_database_up "), 0);
	free(text);
	fixture_close(&f);
}

static struct admin_peer *only_peer(const struct fixture *f)
{
	size_t pos = 0;
	uint64_t key;
	struct admin_peer *p = map_next(&f->a->peers, &pos, &key);
	assert_non_null(p);
	return p;
}

/* A database that keeps silent: the deadline answers, and the late answer finds nobody it could confuse. */
static void test_silent_database(void **state)
{
	struct fixture f;
	struct buf in = BUF_INIT(1 << 20);
	(void)state;
	fixture_open(&f, true);
	f.db.silent = true;
	int fd = dial(&f, true);
	say(fd, STR("GET /metrics HTTP/1.1\r\n" HOST "\r\n"));
	while (!f.db.asked)
		event_base_loop(f.base, EVLOOP_ONCE);
	struct admin_peer *p = only_peer(&f);
	p->calls->expired(p);
	collect(&f, fd, &in, "pepsi_database_up 0\n", NULL);
	fake_store_release(&f.db);
	f.db.silent = false;
	buf_reset(&in);
	say(fd, STR("GET /metrics HTTP/1.1\r\n" HOST "\r\n"));
	collect(&f, fd, &in, "pepsi_database_up 1\n", NULL);
	/* askers share queries; the one on its way is too old for who comes now */
	f.db.silent = true;
	f.db.asked = 0;
	int more[5];
	for (size_t i = 0; i < 5; i++) {
		more[i] = dial(&f, true);
		say(more[i], STR("GET /metrics HTTP/1.0\r\n\r\n"));
	}
	for (unsigned i = 0; i < 1000 && (!f.db.asked || f.a->http_requests < 2); i++)
		event_base_loop(f.base, EVLOOP_NONBLOCK);
	assert_int_equal(f.db.asked, 1);
	f.db.silent = false;
	fake_store_release(&f.db);
	for (size_t i = 0; i < 5; i++) {
		bool eof = false;
		buf_reset(&in);
		collect(&f, more[i], &in, NULL, &eof);
		has(buf_z(&in), "pepsi_database_up 1\n");
		close(more[i]);
	}
	assert_true(f.db.asked <= 2);
	/* a question still open when the admin goes */
	f.db.silent = true;
	say(fd, STR("GET /metrics HTTP/1.1\r\n" HOST "\r\n"));
	while (!f.db.held)
		event_base_loop(f.base, EVLOOP_ONCE);
	buf_free(&in);
	close(fd);
	fixture_close(&f);
}

static void test_routes(void **state)
{
	static const struct {
		const char *request, *want, *also;
	} cases[] = {
		{ "GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 404 ", "not found\n" },
		{ "GET /metrics/ HTTP/1.0\r\n\r\n", "HTTP/1.1 404 ", "not found\n" },
		{ "POST /metrics HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi", "HTTP/1.1 405 ", "\r\nAllow: GET, HEAD\r\n" },
		{ "DELETE /healthz HTTP/1.0\r\n\r\n", "HTTP/1.1 405 ", "\r\nAllow: GET, HEAD\r\n" },
		{ "GET /healthz HTTP/1.1\r\nHost: rebound.example\r\n\r\n", "HTTP/1.1 421 ", "\r\nConnection: close\r\n" },
		{ "GET /healthz HTTP/1.1\r\nHost: MX.example.test:8025\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 ", "ok\n" },
		{ "POST /healthz HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\n"
		  HOST "\r\n", "HTTP/1.1 501 ", "\r\nConnection: close\r\n" },
		{ "GET /healthz HTTP/1.1\n", "HTTP/1.1 400 ", "bare LF" },
		{ "HEAD /healthz HTTP/1.0\r\n\r\n", "HTTP/1.1 200 ", "\r\nContent-Length: 3\r\n" },
	};
	struct fixture f;
	(void)state;
	fixture_open(&f, true);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *text = http(&f, cases[i].request, NULL);
		if (strncmp(text, cases[i].want, strlen(cases[i].want)) != 0)
			fail_msg("%s: wanted %s, got %s", cases[i].request, cases[i].want, text);
		has(text, cases[i].also);
		assert_null(strstr(text + 1, "HTTP/1.1 ")); /* one answer, whatever followed */
		if (!strncmp(cases[i].request, "HEAD", 4))
			assert_string_equal(text + strlen(text) - 4, "\r\n\r\n");
		free(text);
	}
	fixture_close(&f);
}

static void test_pipeline(void **state)
{
	struct fixture f;
	struct buf in = BUF_INIT(1 << 20);
	bool eof = false;
	(void)state;
	fixture_open(&f, true);
	int fd = dial(&f, true);
	/* the slow one first: answers keep the order of the requests */
	say(fd, STR("GET /metrics HTTP/1.1\r\n" HOST "\r\nHEAD /healthz HTTP/1.1\r\n" HOST "\r\n"
		    "GET /nowhere HTTP/1.1\r\n" HOST "Connection: close\r\n\r\nGET /healthz HTTP/1.1\r\n" HOST "\r\n"));
	collect(&f, fd, &in, NULL, &eof);
	const char *a = strstr(in.p, "HTTP/1.1 200 OK"), *b = a ? strstr(a + 1, "HTTP/1.1 200 OK") : NULL,
		   *c = b ? strstr(b, "HTTP/1.1 404 ") : NULL;
	assert_true(a == in.p && b && c);
	assert_null(strstr(c + 1, "HTTP/1.1 "));
	buf_free(&in);
	close(fd);
	fixture_close(&f);
}

static void test_http_caps(void **state)
{
	struct fixture f;
	struct buf in = BUF_INIT(1 << 20);
	int fds[ADMIN_HTTP_PER_ADDRESS + 1];
	bool eof = false;
	(void)state;
	fixture_open(&f, true);
	for (size_t i = 0; i <= ADMIN_HTTP_PER_ADDRESS; i++)
		fds[i] = dial(&f, true);
	/* who only sits there gives way, the one that sat longest, and who came last is answered */
	collect(&f, fds[0], &in, NULL, &eof);
	assert_int_equal(in.n, 0);
	assert_true(eof);
	assert_int_equal(f.a->http_peers, ADMIN_HTTP_PER_ADDRESS);
	assert_int_equal(f.a->http_evicted, 1);
	say(fds[ADMIN_HTTP_PER_ADDRESS], STR("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"));
	collect(&f, fds[ADMIN_HTTP_PER_ADDRESS], &in, "ok\n", &eof);
	assert_non_null(strstr(buf_z(&in), "ok\n"));
	buf_reset(&in);
	for (size_t i = 0; i <= ADMIN_HTTP_PER_ADDRESS; i++)
		close(fds[i]);
	for (unsigned i = 0; i < 1000 && f.a->http_peers; i++)
		event_base_loop(f.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	assert_int_equal(f.a->http_peers, 0);
	/* a header that drips in is cut by the total deadline */
	int fd = dial(&f, true);
	buf_reset(&in);
	say(fd, STR("GET /healthz HT"));
	for (unsigned i = 0; i < 1000 && (!f.a->http_peers || !only_peer(&f)->in.cap); i++)
		event_base_loop(f.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	struct admin_peer *p = only_peer(&f);
	p->calls->expired(p);
	collect(&f, fd, &in, "too long\n", NULL);
	has(buf_z(&in), "HTTP/1.1 408 ");
	close(fd);
	buf_free(&in);
	fixture_close(&f);
}

/* --- control --- */

static char *control(struct fixture *f, int fd, const char *line)
{
	struct buf in = BUF_INIT(1 << 20);
	say(fd, str_from(line));
	say(fd, STR("\n"));
	collect(f, fd, &in, "\n", NULL);
	return in.p;
}

static void check(struct fixture *f, int fd, const char *line, const char *want)
{
	char *text = control(f, fd, line);
	if (!strstr(text, want))
		fail_msg("%s: wanted %s, got %s", line, want, text);
	free(text);
}

static void test_commands(void **state)
{
	struct fixture f;
	(void)state;
	fixture_open(&f, true);
	f.db.list = "[{\"id\":1}, \n {\"id\":2}]"; /* as json_agg() writes it */
	int fd = dial(&f, false);
	check(&f, fd, "{\"cmd\":\"ping\"}", "{\"ok\":true,\"data\":\"pong\"}");
	check(&f, fd, "{\"cmd\":\"queue.list\"}", "{\"ok\":true,\"data\":[{\"id\":1},   {\"id\":2}]}\n");
	check(&f, fd, "{\"cmd\":\"queue.list\",\"args\":{\"stage\":\"init\",\"limit\":5,\"after_id\":9}}", "\"data\":[]");
	assert_int_equal(f.db.filter.limit, 5);
	assert_int_equal(f.db.filter.after_id, 9);
	assert_string_equal(f.db.stage, "init");
	check(&f, fd, "{\"cmd\":\"queue.show\",\"args\":{\"ids\":[7]}}", "\"data\":{\"id\":1}}");
	check(&f, fd, "{\"cmd\":\"queue.show\",\"args\":{\"ids\":[107]}}", "no such message");
	check(&f, fd, "{\"cmd\":\"queue.delete\",\"args\":{\"ids\":[1,2,101]}}", "{\"count\":2,\"matched\":2");
	assert_int_equal(f.woken, 0);
	check(&f, fd, "{\"cmd\":\"queue.retry\",\"args\":{\"status\":\"failed\"}}", "{\"count\":7,");
	assert_int_equal(f.woken, 1);
	f.db.rows = 2500; /* batch by batch: 1000, 1000, 500 */
	unsigned before = f.db.asked;
	check(&f, fd, "{\"cmd\":\"queue.retry\",\"args\":{\"status\":\"failed\"}}", "{\"count\":2500,\"matched\":2500,\"rule\":0,\"dry_run\":false}");
	assert_int_equal(f.db.asked - before, 3);
	assert_int_equal(f.db.filter.after_id, 2000);
	check(&f, fd, "{\"cmd\":\"queue.retry\",\"args\":{\"status\":\"failed\",\"limit\":1500}}", "{\"count\":1500,");
	assert_int_equal(f.db.filter.limit, 500);
	before = f.db.asked;
	unsigned woken = (unsigned)f.woken;
	check(&f, fd, "{\"cmd\":\"queue.delete\",\"args\":{\"all\":true,\"dry_run\":true}}", "{\"count\":2500,\"matched\":2500,\"rule\":0,\"dry_run\":true}");
	assert_int_equal(f.db.asked - before, 1);
	assert_true(f.db.dry);
	check(&f, fd, "{\"cmd\":\"queue.hold\",\"args\":{\"ids\":[5],\"reason\":\"look\"}}", "{\"count\":1,");
	assert_string_equal(f.db.last, "hold");
	assert_string_equal(f.db.to, "look");
	check(&f, fd, "{\"cmd\":\"queue.release\",\"args\":{\"status\":\"held\"}}", "{\"count\":2500,");
	/* a rule: made, then what is queued in batches; only asked: nothing is made */
	check(&f, fd, "{\"cmd\":\"rule.add\",\"args\":{\"action\":\"hold\",\"sender\":\"@a\\\"b\",\"for\":60}}", "{\"count\":2500,\"matched\":2500,\"rule\":3,");
	assert_non_null(strstr(f.db.rule, ",\"action\":\"hold\",\"sender\":\"@a\\\"b\",\"for\":60}"));
	assert_string_equal(f.db.last, "rule-apply");
	f.db.rule[0] = 0;
	check(&f, fd, "{\"cmd\":\"rule.add\",\"args\":{\"action\":\"reroute\",\"to\":\"init\",\"recipient\":\"@b\",\"dry_run\":true}}", "\"rule\":0,\"dry_run\":true}");
	assert_true(f.db.dry);
	assert_non_null(strstr(f.db.rule, "\"to_stage\":\"init\""));
	check(&f, fd, "{\"cmd\":\"reports\"}", "\"data\":[{\"stage\":\"all\",\"report\":{}}]}");
	check(&f, fd, "{\"cmd\":\"reports\",\"args\":{\"stage\":\"relay\"}}", "\"data\":[{\"stage\":\"relay\",\"report\":{}}]}");
	check(&f, fd, "{\"cmd\":\"rule.add\",\"args\":{\"action\":\"reroute\",\"to\":\"imit\",\"recipient\":\"@b\"}}", "did you mean init?");
	check(&f, fd, "{\"cmd\":\"rule.add\",\"args\":{\"action\":\"hold\",\"stage\":\"imit\"}}", "did you mean init?");
	check(&f, fd, "{\"cmd\":\"rule.list\",\"args\":{\"action\":\"hold\"}}", "\"data\":[]");
	check(&f, fd, "{\"cmd\":\"rule.remove\",\"args\":{\"ids\":[4]}}", "no such rule");
	check(&f, fd, "{\"cmd\":\"rule.remove\",\"args\":{\"ids\":[3]}}", "{\"count\":2500,");
	assert_int_equal(f.db.rows, 0);
	assert_true((unsigned)f.woken > woken);
	f.woken = 1;
	check(&f, fd, "{\"cmd\":\"queue.retry\",\"args\":{}}", "needs ids or a filter");
	check(&f, fd, "{\"cmd\":\"queue.set-stage\",\"args\":{\"to\":\"imit\",\"all\":true}}", "did you mean init?");
	check(&f, fd, "{\"cmd\":\"queue.set-stage\",\"args\":{\"to\":\"init\",\"ids\":[4]}}", "{\"count\":1,");
	assert_string_equal(f.db.to, "init");
	assert_int_equal(f.woken, 2);
	check(&f, fd, "{\"cmd\":\"config.show\"}", "HOSTNAME");
	check(&f, fd, "{\"cmd\":\"reload\"}", "{\"reloaded\":true}");
	f.reload_faults = "pepsi.conf:3: no\npepsi.conf:4: no";
	check(&f, fd, "{\"cmd\":\"reload\"}", "\"error\":\"pepsi.conf:3: no\\u000apepsi.conf:4: no\"");
	f.db.rc = STORE_REFUSED;
	check(&f, fd, "{\"cmd\":\"queue.list\"}", "the database refused: constraint \\\"x\\\" says no");
	f.db.up = false;
	check(&f, fd, "{\"cmd\":\"queue.list\"}", "the database is away");
	check(&f, fd, "{\"cmd\":\"stop\"}", "{\"stopping\":true}");
	assert_int_equal(f.stopped, 1);
	close(fd);
	fixture_close(&f);
}

static int64_t number(struct json_object *o, const char *key, const char *inner)
{
	struct json_object *v = NULL;
	if (!json_object_object_get_ex(o, key, &v) || (inner && !json_object_object_get_ex(v, inner, &v)))
		fail_msg("no %s %s in %s", key, inner ? inner : "", json_object_to_json_string(o));
	return v ? json_object_get_int64(v) : -1;
}

static void test_status(void **state)
{
	struct fixture f;
	struct json_object *data = NULL, *v = NULL;
	(void)state;
	fixture_open(&f, true);
	int fd = dial(&f, false);
	char *text = control(&f, fd, "{\"cmd\":\"status\"}");
	struct json_object *o = json_tokener_parse(text);
	assert_true(json_object_object_get_ex(o, "data", &data));
	assert_true(number(data, "uptime_s", NULL) >= 0);
	assert_int_equal(number(data, "queue", "total"), 15);
	assert_int_equal(number(data, "queue", "timeout"), 1);
	assert_int_equal(number(data, "accepted", NULL), 115);
	assert_int_equal(number(data, "delivered", NULL), 80);
	assert_int_equal(number(data, "database", "up"), 1);
	assert_int_equal(number(data, "database", "embedded"), 1);
	assert_int_equal(number(data, "ingress", "sessions"), 3);
	assert_true(json_object_object_get_ex(data, "version", &v));
	assert_true(json_object_object_get_ex(data, "stages", &v));
	assert_int_equal(json_object_array_length(v), 1);
	json_object_put(o);
	free(text);
	f.db.up = false;
	f.healthy = false;
	text = control(&f, fd, "{\"cmd\":\"status\"}");
	has(text, "\"healthy\":false,\"reason\":\"the listeners are down\"");
	o = json_tokener_parse(text);
	assert_true(json_object_object_get_ex(o, "data", &data));
	assert_int_equal(number(data, "queue", "total"), -1);
	assert_int_equal(number(data, "database", "up"), 0);
	json_object_put(o);
	free(text);
	close(fd);
	fixture_close(&f);
}

/* Every octet of a message larger than all buffers on the way, through a reader that pauses. */
static void test_cat(void **state)
{
	struct fixture f;
	struct buf message = BUF_INIT(8 << 20), in = BUF_INIT(16 << 20);
	char head[64];
	(void)state;
	fixture_open(&f, true);
	for (unsigned i = 0; i < 3u << 20; i++)
		buf_addc(&message, (char)(i * 7 + i / 251));
	f.db.message = buf_str(&message);
	int fd = dial(&f, false);
	say(fd, STR("{\"cmd\":\"queue.cat\",\"args\":{\"ids\":[5]}}\n{\"cmd\":\"ping\"}\n"));
	for (unsigned i = 0; i < 200; i++) /* nobody reads: it must wait, not pile up */
		event_base_loop(f.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	assert_true(only_peer(&f)->out.n < 1 << 20);
	collect(&f, fd, &in, "\"pong\"}\n", NULL);
	size_t n = (size_t)snprintf(head, sizeof head, "{\"ok\":true,\"length\":%zu}\n", message.n);
	assert_true(str_starts(buf_str(&in), str_n(head, n)));
	assert_true(str_starts(str_skip(buf_str(&in), n), buf_str(&message)));
	check(&f, fd, "{\"cmd\":\"queue.cat\",\"args\":{\"ids\":[500]}}", "no such message");
	f.db.message = STR("");
	buf_reset(&in);
	say(fd, STR("{\"cmd\":\"queue.cat\",\"args\":{\"ids\":[5]}}\n{\"cmd\":\"ping\"}\n"));
	collect(&f, fd, &in, "\"pong\"}\n", NULL);
	assert_true(str_starts(buf_str(&in), STR("{\"ok\":true,\"length\":0}\n{\"ok\"")));
	close(fd);
	buf_free(&message);
	buf_free(&in);
	fixture_close(&f);
}

static void test_rights(void **state)
{
	struct fixture f;
	(void)state;
	fixture_open(&f, true);
	int fd = dial(&f, false);
	check(&f, fd, "{\"cmd\":\"ping\"}", "pong");
	struct control_peer *c = (struct control_peer *)only_peer(&f);
	assert_true(c->trusted);
	assert_int_equal(c->uid, geteuid());
	assert_int_equal(c->pid, getpid());
	c->trusted = false;
	check(&f, fd, "{\"cmd\":\"status\"}", "\"ok\":true");
	static const char *const denied[] = { "queue.list", "config.show", "reload", "stop" };
	for (size_t i = 0; i < sizeof denied / sizeof *denied; i++) {
		char line[64];
		snprintf(line, sizeof line, "{\"cmd\":\"%s\"}", denied[i]);
		check(&f, fd, line, "not permitted");
	}
	assert_int_equal(f.stopped, 0);
	assert_int_equal(f.db.asked, 1);
	close(fd);
	fixture_close(&f);
}

static void test_hostile_lines(void **state)
{
	struct fixture f;
	struct buf in = BUF_INIT(1 << 20), big = BUF_INIT(1 << 20);
	bool eof = false;
	(void)state;
	fixture_open(&f, true);
	int fd = dial(&f, false);
	check(&f, fd, "", "\"ok\":false");
	check(&f, fd, "GET / HTTP/1.1\r", "\"ok\":false");
	check(&f, fd, "{\"cmd\":\"ping\"}", "pong"); /* the connection lives on */
	close(fd);
	fd = dial(&f, false);
	for (size_t i = 0; i < CONTROL_LINE_MAX; i++)
		buf_addc(&big, 'x');
	say(fd, buf_str(&big));
	collect(&f, fd, &in, NULL, &eof);
	has(buf_z(&in), "too long");
	close(fd);
	/* many commands that answer at once, in one piece: no recursion, all answered in order */
	buf_reset(&big);
	buf_reset(&in);
	for (size_t i = 0; i < 3000; i++)
		buf_addz(&big, "{\"cmd\":\"reload\"}\n");
	buf_addz(&big, "{\"cmd\":\"ping\"}\n");
	fd = dial(&f, false);
	say(fd, buf_str(&big));
	collect(&f, fd, &in, "pong\"}\n", NULL);
	close(fd);
	/* half a line and then the end */
	eof = false;
	buf_reset(&in);
	fd = dial(&f, false);
	say(fd, STR("{\"cmd\":\"ping\"}\n{\"cmd\""));
	shutdown(fd, SHUT_WR);
	collect(&f, fd, &in, NULL, &eof);
	assert_string_equal(buf_z(&in), "{\"ok\":true,\"data\":\"pong\"}\n");
	close(fd);
	buf_free(&in);
	buf_free(&big);
	fixture_close(&f);
}

static void test_socket(void **state)
{
	struct fixture f;
	struct stat st;
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	(void)state;
	fixture_open(&f, true);
	assert_int_equal(stat(f.socket, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0660);
	/* a second daemon on the same folder is told so */
	struct config_faults *faults = config_faults_new();
	assert_null(admin_new(f.conf, f.dir, geteuid(), getegid(), faults));
	assert_int_equal(config_faults_n(faults, true), 1);
	has(config_faults_at(faults, 0)->text, "another pepsid");
	assert_int_equal(stat(f.socket, &st), 0);
	/* what a killed one left is replaced */
	snprintf(un.sun_path, sizeof un.sun_path, "%s", f.socket);
	admin_free(f.a);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof un), 0);
	close(fd);
	f.a = admin_new(f.conf, f.dir, geteuid(), getegid(), faults);
	assert_non_null(f.a);
	admin_free(f.a);
	/* what is no socket is left alone */
	FILE *file = fopen(f.socket, "w");
	assert_non_null(file);
	fclose(file);
	f.a = admin_new(f.conf, f.dir, geteuid(), getegid(), faults);
	assert_null(f.a);
	has(config_faults_at(faults, 1)->text, "something else");
	assert_int_equal(unlink(f.socket), 0);
	config_faults_free(faults);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_health),
		cmocka_unit_test(test_metrics),
		cmocka_unit_test(test_silent_database),
		cmocka_unit_test(test_routes),
		cmocka_unit_test(test_pipeline),
		cmocka_unit_test(test_http_caps),
		cmocka_unit_test(test_commands),
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_cat),
		cmocka_unit_test(test_rights),
		cmocka_unit_test(test_hostile_lines),
		cmocka_unit_test(test_socket),
	};
	return cmocka_run_group_tests_name("admin", tests, NULL, NULL);
}
