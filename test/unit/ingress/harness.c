#include "harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TURNS = 50000 };

static void reserve_ids(void *ctx, unsigned n, store_ids_fn fn, void *arg)
{
	struct fake *f = &((struct world *)ctx)->fake;
	assert_null(f->ids_fn);
	if (f->no_memory) {
		fn(arg, STORE_FULL, NULL, 0);
		return;
	}
	f->ids_fn = fn;
	f->ids_arg = arg;
	f->ids_n = n;
	f->ids_asked++;
}

void fake_give_ids(struct world *w, enum store_rc rc)
{
	struct fake *f = &w->fake;
	store_ids_fn fn = f->ids_fn;
	assert_non_null(fn);
	int64_t *ids = calloc(f->ids_n, sizeof *ids);
	for (unsigned i = 0; i < f->ids_n; i++)
		ids[i] = ++f->next_id;
	f->ids_fn = NULL;
	fn(f->ids_arg, rc, rc == STORE_OK ? ids : NULL, rc == STORE_OK ? f->ids_n : 0);
	free(ids);
}

static void take_rows(struct fake *f, const struct store_message *msgs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct buf rcpts = BUF_INIT(65536);
		assert_true(f->n_rows < FAKE_ROWS);
		struct fake_row *r = &f->rows[f->n_rows++];
		assert_string_equal(msgs[i].stage, "init");
		r->id = msgs[i].id;
		r->running = msgs[i].running;
		r->mail_from = str_dupz(msgs[i].mail_from);
		r->state = str_dupz(msgs[i].state);
		for (size_t k = 0; k < msgs[i].n_rcpts; k++) {
			buf_addz(&rcpts, k ? " " : "");
			buf_adds(&rcpts, msgs[i].rcpts[k]);
		}
		r->rcpts = strdup(buf_z(&rcpts));
		buf_free(&rcpts);
		r->headers = BUF_INIT(SIZE_MAX / 2);
		r->body = BUF_INIT(SIZE_MAX / 2);
		buf_adds(&r->headers, msgs[i].headers);
		buf_adds(&r->body, msgs[i].body);
	}
}

static void admit(void *ctx, const struct store_message *msgs, size_t n, store_admit_fn fn, void *arg)
{
	struct fake *f = &((struct world *)ctx)->fake;
	assert_null(f->admit_fn); /* one commit at a time */
	assert_true(n > 0);
	if (f->no_memory) {
		enum store_rc full[FAKE_ROWS];
		for (size_t i = 0; i < n; i++)
			full[i] = STORE_FULL;
		fn(arg, full, n);
		return;
	}
	f->admit_fn = fn;
	f->admit_arg = arg;
	f->n_batch = n;
	f->batches++;
	take_rows(f, msgs, n);
}

static void admit_large(void *ctx, unsigned way, const struct store_message *msgs, size_t n, store_admit_fn fn, void *arg)
{
	struct fake *f = &((struct world *)ctx)->fake;
	assert_true(way < ADMIT_LARGE_MAX);
	assert_null(f->large[way].fn);
	f->large[way].fn = fn;
	f->large[way].arg = arg;
	f->large[way].n = n;
	take_rows(f, msgs, n);
}

void fake_commit(struct world *w, const enum store_rc *rcs)
{
	struct fake *f = &w->fake;
	enum store_rc ok[FAKE_ROWS] = { STORE_OK };
	store_admit_fn fn = f->admit_fn;
	assert_non_null(fn);
	f->admit_fn = NULL;
	fn(f->admit_arg, rcs ? rcs : ok, f->n_batch);
}

void fake_commit_large(struct world *w, unsigned way)
{
	struct fake *f = &w->fake;
	enum store_rc ok[FAKE_ROWS] = { STORE_OK };
	store_admit_fn fn = f->large[way].fn;
	assert_non_null(fn);
	f->large[way].fn = NULL;
	fn(f->large[way].arg, ok, f->large[way].n);
}

void fake_commit_all(struct world *w, enum store_rc rc)
{
	enum store_rc rcs[FAKE_ROWS];
	for (size_t i = 0; i < FAKE_ROWS; i++)
		rcs[i] = rc;
	fake_commit(w, rcs);
}

static bool sink_reserve(void *arg, const char *stage, const char *key, size_t octets)
{
	struct fake *f = &((struct world *)arg)->fake;
	assert_string_equal(stage, "init");
	assert_string_equal(key, f->sender ? f->sender : "127.0.0.1");
	assert_true(octets > 0);
	if (!f->places)
		return false;
	f->places--;
	f->reserved++;
	return true;
}

static void sink_unreserve(void *arg, const char *stage, const char *key, size_t octets)
{
	(void)stage;
	(void)key;
	(void)octets;
	((struct world *)arg)->fake.unreserved++;
}

static void sink_hand_off(void *arg, const char *stage, const char *key, const struct wire_item *item, int fd)
{
	struct fake *f = &((struct world *)arg)->fake;
	(void)stage;
	(void)key;
	assert_true(f->n_handed < FAKE_HANDED);
	assert_int_equal(item->body_in_fd, fd >= 0);
	struct buf *b = &f->handed[f->n_handed].body;
	*b = BUF_INIT(SIZE_MAX / 2);
	f->handed[f->n_handed].id = item->id;
	f->handed[f->n_handed].has_content = item->has_content;
	f->handed[f->n_handed].in_fd = item->body_in_fd;
	if (fd >= 0) {
		off_t size = lseek(fd, 0, SEEK_END);
		assert_int_equal(size, item->body_size);
		assert_int_equal(pread(fd, buf_room(b, (size_t)size), (size_t)size, 0), size);
		b->n = (size_t)size;
		f->handed[f->n_handed].writable_fd = pwrite(fd, "x", 1, 0) == 1;
		close(fd);
	} else {
		buf_adds(b, item->body);
	}
	f->n_handed++;
}

static void sink_measure(void *arg, const char *stage, struct str text)
{
	struct world *w = arg;
	snprintf(w->measured, sizeof w->measured, "%s: %.*s", stage, STR_ARG(text));
}

static void sink_due(void *arg)
{
	struct world *w = arg;
	w->fake.dues++;
}

static void sink_wake(void *arg, const char *stage)
{
	(void)stage;
	((struct world *)arg)->fake.wakes++;
}

static struct world *make(const char *const *options, unsigned ways)
{
	struct world *w = calloc(1, sizeof *w);
	struct config_faults *faults = config_faults_new();
	snprintf(w->dir, sizeof w->dir, "/tmp/pepsi-unit-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	char path[96];
	snprintf(path, sizeof path, "%s/empty.conf", w->dir);
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	w->conf = config_load(path, faults);
	unlink(path);
	assert_non_null(w->conf);
	static const char *const own[] = { "pepsi", "HOSTNAME", "mx.example.test", "pepsi", "LOCAL_DOMAINS",
		"example.test *.sub.test", "pepsi", "RELAY_NETWORKS", "192.0.2.0/24",
		/* tests of other things send a lot from one address */
		"listener-mx", "MESSAGES_PER_MINUTE", "0", "listener-mx", "CONNECTIONS_PER_MINUTE", "0", NULL };
	for (const char *const *o = own; *o; o += 3)
		assert_int_equal(config_set(w->conf, o[0], o[1], o[2]), 0);
	assert_int_equal(config_set(w->conf, "pepsi", "STATE_DIR", w->dir), 0);
	/* a port the kernel says is free; 0 is no port in a configuration */
	int fd = net_listen("127.0.0.1", 0, path, sizeof path);
	assert_true(fd >= 0);
	snprintf(path, sizeof path, "127.0.0.1:%u", net_listen_port(fd));
	close(fd);
	assert_int_equal(config_set(w->conf, "listener-mx", "BIND", path), 0);
	for (const char *const *o = options; o && *o; o += 3)
		assert_int_equal(config_set(w->conf, o[0], o[1], o[2]), 0);
	w->base = event_base_new();
	w->in = ingress_new(w->conf, NULL, faults);
	for (size_t i = 0; i < config_faults_n(faults, true); i++)
		print_error("fault: %s\n", config_faults_at(faults, i)->text);
	assert_non_null(w->in);
	config_faults_free(faults);
	struct admission_backend be = { reserve_ids, admit, w, admit_large, ways };
	struct ingress_sink sink = { w, sink_reserve, sink_unreserve, sink_hand_off, sink_wake, sink_due, sink_measure };
	assert_int_equal(ingress_start_with(w->in, w->base, &be, &sink), 0);
	ingress_database(w->in, true);
	world_turn(w);
	return w;
}

struct world *world_new(const char *const *options)
{
	return make(options, 0);
}

struct world *world_new_ways(const char *const *options, unsigned ways)
{
	return make(options, ways);
}

void world_turn(struct world *w)
{
	event_base_loop(w->base, EVLOOP_NONBLOCK);
	if (w->fake.ids_fn && !w->fake.hold_ids) {
		fake_give_ids(w, STORE_OK);
		event_base_loop(w->base, EVLOOP_NONBLOCK);
	}
}

void fake_forget_rows(struct world *w)
{
	struct fake *f = &w->fake;
	for (size_t i = 0; i < f->n_rows; i++) {
		free(f->rows[i].mail_from);
		free(f->rows[i].rcpts);
		free(f->rows[i].state);
		buf_free(&f->rows[i].headers);
		buf_free(&f->rows[i].body);
	}
	f->n_rows = 0;
}

void world_free(struct world *w)
{
	struct fake *f = &w->fake;
	char path[96];
	ingress_free(w->in);
	/* late answers find nobody */
	if (f->admit_fn)
		fake_commit(w, NULL);
	for (unsigned i = 0; i < ADMIT_LARGE_MAX; i++)
		if (f->large[i].fn)
			fake_commit_large(w, i);
	if (f->ids_fn)
		fake_give_ids(w, STORE_OK);
	event_base_free(w->base);
	config_free(w->conf);
	fake_forget_rows(w);
	for (size_t i = 0; i < f->n_handed; i++)
		buf_free(&f->handed[i].body);
	snprintf(path, sizeof path, "%s/spool", w->dir);
	rmdir(path);
	assert_int_equal(rmdir(w->dir), 0); /* nothing is left lying about */
	free(w);
}

struct client client_new(struct world *w)
{
	return client_new_at(w, w->in->listening->port);
}

struct client client_new_at(struct world *w, unsigned port)
{
	struct client c = { .w = w, .in = BUF_INIT(1 << 20) };
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	c.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(c.fd, (struct sockaddr *)&sa, sizeof sa), 0);
	fcntl(c.fd, F_SETFL, O_NONBLOCK);
	const int one = 1;
	setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* what is sent is there */
	return c;
}

void client_free(struct client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	buf_free(&c->in);
}

void client_send_n(struct client *c, const char *p, size_t n)
{
	for (unsigned i = 0; n && i < TURNS; i++) {
		ssize_t k = send(c->fd, p, n, MSG_NOSIGNAL);
		if (k < 0 && errno != EAGAIN)
			return; /* the server is gone: the test sees it by what is not answered */
		if (k > 0) {
			p += k;
			n -= (size_t)k;
		}
		world_turn(c->w);
	}
	assert_int_equal(n, 0);
}

void client_send(struct client *c, const char *text)
{
	client_send_n(c, text, strlen(text));
}

void client_pull(struct client *c)
{
	char tmp[16384];
	ssize_t n;
	world_turn(c->w);
	while (!c->closed && (n = recv(c->fd, tmp, sizeof tmp, 0)) >= 0) {
		if (n == 0)
			c->closed = true;
		else
			buf_add(&c->in, tmp, (size_t)n);
	}
	if (!c->closed && errno != EAGAIN)
		c->closed = true;
}

/* Length of the first whole reply, 0: none yet. */
static size_t whole(const struct buf *b)
{
	size_t at = 0;
	while (at < b->n) {
		const char *nl = memchr(b->p + at, '\n', b->n - at);
		if (!nl)
			return 0;
		bool last = b->p[at + 3] != '-';
		at = (size_t)(nl - b->p) + 1;
		if (last)
			return at;
	}
	return 0;
}

const char *client_reply(struct client *c)
{
	static char text[8192];
	size_t n = 0;
	for (unsigned i = 0; i < TURNS && !(n = whole(&c->in)) && !c->closed; i++)
		client_pull(c);
	if (!n)
		n = whole(&c->in);
	if (!n)
		fail_msg("no reply (closed: %d, so far: %s)", c->closed, buf_z(&c->in));
	snprintf(text, sizeof text, "%.*s", (int)n, c->in.p);
	buf_consume(&c->in, n);
	return text;
}

void client_expect(struct client *c, const char *begin)
{
	const char *got = client_reply(c);
	if (strncmp(got, begin, strlen(begin)) != 0)
		fail_msg("expected \"%s…\", got \"%s\"", begin, got);
}

void client_quiet(struct client *c)
{
	for (unsigned i = 0; i < 20; i++)
		client_pull(c);
	if (c->in.n || c->closed)
		fail_msg("not quiet (closed: %d): %s", c->closed, buf_z(&c->in));
}

void client_closed(struct client *c)
{
	for (unsigned i = 0; i < TURNS && !c->closed; i++)
		client_pull(c);
	assert_true(c->closed);
	if (c->in.n)
		fail_msg("unread: %s", c->in.p);
}

void client_hello(struct client *c)
{
	client_expect(c, "220 mx.example.test ");
	client_send(c, "EHLO client.example.test\r\n");
	client_expect(c, "250-mx.example.test");
}

void client_envelope(struct client *c)
{
	client_send(c, "MAIL FROM:<a@example.org>\r\nRCPT TO:<b@example.test>\r\nDATA\r\n");
	client_expect(c, "250 2.1.0");
	client_expect(c, "250 2.1.5");
	client_expect(c, "354 ");
}
