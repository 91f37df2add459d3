/* The loop of a worker that drives many messages at once, over a socketpair and an imaginary table: answers in the order of the commits, a
 * database that goes away, leaving in time, and the rules of the block "Concurrency" of <pepsi/stage.h>. */
#include "fixture.h"

#include "base/clock.h"
#include "proto/wire/page.h"
#include "worker/concurrent.h"
#include "worker/page.h"
#include "worker/run.h"

#include <netinet/in.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the table */
static struct {
	unsigned loads, commits, committed, fail_commits, fail_loads;
	size_t largest;
	unsigned failed_rows;
	int64_t order[64];
} db;

static enum store_rc fake_load(void *arg, struct arena *a, const int64_t *ids, size_t n, uint32_t load, struct store_row **ret, size_t *ret_n)
{
	struct store_row *rows = arena_calloc(a, n, sizeof *rows);
	(void)arg;
	(void)load;
	db.loads++;
	if (db.fail_loads && db.fail_loads--)
		return STORE_AWAY;
	*ret_n = 0;
	for (size_t i = 0; i < n; i++)
		if (ids[i] >= 100)
			rows[(*ret_n)++] = (struct store_row){ .id = ids[i], .stage = STR("here"), .status = STR("running"), .state = STR("{}"),
				.rcpts = fixture_rcpts, .n_rcpts = 1, .body = STR("x\r\n") };
	*ret = rows;
	return STORE_OK;
}

static enum store_rc fake_commit(void *arg, struct store_pass *p, size_t n)
{
	(void)arg;
	db.commits++;
	db.largest = n > db.largest ? n : db.largest;
	if (db.fail_commits && db.fail_commits--)
		return STORE_AWAY;
	for (size_t i = 0; i < n; i++) {
		p[i].rc = STORE_OK;
		if (db.committed < 64)
			db.order[db.committed] = p[i].id;
		db.committed++;
		db.failed_rows += p[i].ops[0].kind == STORE_OP_MOVE && p[i].ops[0].status == STORE_FAILED;
	}
	return STORE_OK;
}

/* ---- the module: what a message does, its id says. The hundreds: 1 a timer of (id % 100) ms; 2 done at once; 3 waits for stop(); 4 hears nothing;
 * 5 asks the DNS and waits; 6 as 1, and SIGTERM comes with it; 7 as 1, completed twice, and used behind its end; 8 completes the one before it. */
static struct {
	const struct pepsi_host *h;
	const struct pepsi_conf *conf;
	unsigned ran, pending, most, stops[8], callbacks, inside, answers;
	uint32_t last_status;
	int sigterm_fd;
	bool arm_twice, yields;
} mod;
static struct wire_page *page;

struct job {
	struct pepsi_msg *m;
	struct pepsi_event *e;
};
static struct job *jobs[4096];

static void done(struct job *j, int32_t rc)
{
	int64_t id = mod.h->id(j->m);
	struct pepsi_msg *m = j->m;
	mod.h->event_free(j->e);
	jobs[id] = NULL;
	free(j);
	mod.pending--;
	assert_int_equal(mod.h->complete(m, rc), PEPSI_OK);
	if (id / 100 == 7) { /* all of this is refused, and harms nobody */
		assert_int_equal(mod.h->complete(m, rc), PEPSI_MISUSE);
		assert_int_equal(mod.h->finish(m), PEPSI_MISUSE);
		assert_int_equal(mod.h->rcpt(m, 0).n, 0);
		assert_int_equal(mod.h->id(m), 0);
		assert_null(mod.h->ask(mod.conf, m, "a.test", PEPSI_DNS_A, NULL, NULL));
		mod.h->in_hand(m);
	}
}

static void on_event(void *arg, uint32_t what)
{
	struct job *j = arg;
	assert_int_equal(mod.inside++, 0); /* never from within another call */
	assert_int_equal(what, PEPSI_IO_TIMEOUT);
	mod.callbacks++;
	if (page)
		assert_true(page->id == 0 && page->since > 0);
	mod.h->in_hand(j->m);
	if (page)
		assert_true(page->id == mod.h->id(j->m) && page->since > 0);
	if (mod.h->id(j->m) / 100 == 6)
		assert_int_equal(write(mod.sigterm_fd, "", 1), 1);
	int32_t rc = mod.h->advance(j->m);
	done(j, rc);
	if (page)
		assert_int_equal(page->id, 0);
	mod.inside--;
}

static void on_answer(void *arg, const struct pepsi_dns *a)
{
	struct job *j = arg;
	assert_int_equal(mod.inside++, 0);
	mod.answers++;
	mod.last_status = a->status;
	assert_true(a->abi.size == sizeof *a && a->canonical);
	if (page)
		assert_int_equal(page->id, mod.h->id(j->m)); /* a message's own answer: in hand without saying so */
	done(j, mod.h->advance(j->m));
	mod.inside--;
}

static void on_nobodys(void *arg, const struct pepsi_dns *a)
{
	(void)a;
	++*(unsigned *)arg;
}

static int32_t process(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	int64_t id = h->id(m), ms = id % 100;
	(void)worker;
	assert_int_equal(mod.inside++, 0);
	mod.ran++;
	mod.h = h;
	if (id / 100 == 2) {
		mod.inside--;
		return h->advance(m);
	}
	if (id / 100 == 8 && jobs[id - 1]) {
		h->advance(jobs[id - 1]->m);
		done(jobs[id - 1], PEPSI_OK);
	}
	struct job *j = calloc(1, sizeof *j);
	j->m = m;
	jobs[id] = j;
	if (id / 100 == 5) {
		assert_non_null(h->ask(mod.conf, m, ms ? "a..test" : "slow.test", PEPSI_DNS_A, on_answer, j));
	} else if (id / 100 != 3 && id / 100 != 4) {
		j->e = h->event_new(mod.conf, -1, on_event, j);
		if (mod.arm_twice) /* the second replaces the first */
			assert_int_equal(h->event_arm(j->e, 0, 60000), PEPSI_OK);
		assert_int_equal(h->event_arm(j->e, 0, ms), PEPSI_OK);
	}
	mod.most = ++mod.pending > mod.most ? mod.pending : mod.most;
	mod.inside--;
	return PEPSI_PENDING;
}

static void stop_hook(void *worker, const struct pepsi_host *h, struct pepsi_msg *m, uint32_t why)
{
	(void)worker;
	assert_int_equal(mod.inside++, 0);
	int64_t id = h->id(m);
	mod.stops[why]++;
	if (why == PEPSI_STOP_YIELD ? mod.yields : id / 100 != 4) {
		h->pause(m, NULL, 5);
		done(jobs[id], PEPSI_OK);
	}
	mod.inside--;
}

/* ---- the rig */
static volatile int stop;

struct rig {
	struct fixture f;
	struct run r;
	struct serve *s;
	struct concurrent *c;
	int fd, stop_pipe[2], dns; /* a name server that says nothing */
	bool left;
};

static void rig_init(struct rig *g, int64_t runtime_ms, unsigned queue_limit)
{
	struct buf why = BUF_INIT(1024);
	char text[32];
	int sv[2];
	memset(&db, 0, sizeof db);
	memset(&mod, 0, sizeof mod);
	memset(jobs, 0, sizeof jobs);
	stop = 0;
	fixture_init(&g->f, PEPSI_LOAD_METADATA, PEPSI_CAP_DELIVER | PEPSI_CAP_NET);
	module_done(&g->f.mod);
	g->f.desc.caps |= PEPSI_CAP_CONCURRENT;
	assert_int_equal(module_adopt(&g->f.mod, &g->f.desc, NULL, &why), -1); /* without stop() */
	assert_non_null(strstr(buf_z(&why), "no stop() hook"));
	buf_free(&why);
	g->f.desc.process = process;
	g->f.desc.stop = stop_hook;
	assert_int_equal(module_adopt(&g->f.mod, &g->f.desc, NULL, &why), 0);
	g->f.env.runtime_ms = runtime_ms;
	snprintf(text, sizeof text, "%u", queue_limit);
	config_set(g->f.c, "stage-here", "QUEUE_LIMIT", text);
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t here_n = sizeof here;
	g->dns = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(g->dns, (struct sockaddr *)&here, sizeof here), 0);
	assert_int_equal(getsockname(g->dns, (struct sockaddr *)&here, &here_n), 0);
	snprintf(text, sizeof text, "127.0.0.1:%u", ntohs(here.sin_port));
	config_set(g->f.c, "pepsi-dns", "SERVERS", text);
	config_set(g->f.c, "pepsi-dns", "MESSAGE_DEADLINE", "300 ms");
	memset(&g->r, 0, sizeof g->r);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	assert_int_equal(pipe(g->stop_pipe), 0);
	g->fd = sv[0];
	assert_int_equal(input_init(&g->r.in, sv[1], false), 0);
	g->r.env = &g->f.env;
	g->r.c = g->f.c;
	g->r.store = (struct run_store){ NULL, fake_load, fake_commit, NULL };
	g->r.out_fd = sv[1];
	g->r.stop = &stop;
	g->r.stop_fd = g->stop_pipe[0];
	g->r.patience_s = 10;
	assert_non_null(g->s = serve_new(&g->r));
	struct concurrent_owner owner = serve_owner(g->s);
	assert_non_null(g->c = concurrent_new(&g->f.env, &owner, &worker_host));
	assert_null(concurrent_new(&g->f.env, &owner, &worker_host)); /* one per process */
	mod.h = concurrent_table();
	mod.conf = &g->f.conf;
}

static void rig_done(struct rig *g)
{
	concurrent_free(g->c);
	serve_free(g->s);
	for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) /* its event went with the loop */
		free(jobs[i]);
	close(g->r.in.fd);
	close(g->dns);
	if (g->fd >= 0)
		close(g->fd);
	close(g->stop_pipe[0]);
	close(g->stop_pipe[1]);
	run_done(&g->r);
	fixture_done(&g->f);
}

static void give(struct rig *g, const int64_t *ids, size_t n, bool content)
{
	struct buf b = BUF_INIT(WIRE_DATAGRAM_MAX);
	for (size_t i = 0; i < n; i++) {
		struct wire_item it = g->f.row;
		it.id = ids[i];
		it.has_content = content;
		assert_int_equal(wire_put(&b, &it), 0);
	}
	assert_int_equal(send(g->fd, b.p, b.n, 0), b.n);
	buf_free(&b);
}

static const char *answers(struct rig *g)
{
	static char text[65536];
	size_t n = 0;
	ssize_t k;
	while ((k = recv(g->fd, text + n, sizeof text - n - 1, MSG_DONTWAIT)) > 0)
		n += (size_t)k;
	text[n] = 0;
	return text;
}

static int loop(struct rig *g)
{
	return serve_loop(g->s, g->c, &g->left);
}

/* ---- cases */

static void in_any_order(void **st)
{
	static const int64_t ids[] = { 190, 110, 201, 150 };
	struct rig g;
	(void)st;
	rig_init(&g, 60000, 100);
	mod.arm_twice = true;
	give(&g, ids, 4, true);
	shutdown(g.fd, SHUT_WR);
	assert_int_equal(loop(&g), 0);
	assert_false(g.left);
	assert_int_equal(mod.most, 3);
	assert_int_equal(db.loads, 0);
	assert_string_equal(answers(&g), "0 201 {\"outcome\":\"move\",\"to\":\"next\"}\n0 110 {\"outcome\":\"move\",\"to\":\"next\"}\n"
		"0 150 {\"outcome\":\"move\",\"to\":\"next\"}\n0 190 {\"outcome\":\"move\",\"to\":\"next\"}\n");
	rig_done(&g);
}

/* Those that end within a moment are one commit; what did not come along is loaded some at a time; what is not there is answered so. */
static void together(void **st)
{
	struct rig g;
	int64_t ids[101];
	(void)st;
	rig_init(&g, 60000, 1000);
	for (int i = 0; i < 100; i++)
		ids[i] = 100 + i / 2 + 600 * (i % 2); /* 100 … 149 and 700 … 749: 0 to 49 ms */
	ids[100] = 5;
	give(&g, ids, 101, false);
	shutdown(g.fd, SHUT_WR);
	assert_int_equal(loop(&g), 0);
	assert_int_equal(db.committed, 100);
	assert_in_range(db.loads, 2, 10);
	assert_in_range(db.commits, 2, 40);
	assert_true(db.largest <= RUN_BATCH);
	assert_non_null(strstr(answers(&g), "0 5 {\"outcome\":\"gone\""));
	rig_done(&g);
}

static void no_more_than_queue_limit(void **st)
{
	struct rig g;
	int64_t ids[40];
	(void)st;
	rig_init(&g, 60000, 7);
	for (int i = 0; i < 40; i++)
		ids[i] = 100 + i % 20 + 600 * (i / 20);
	for (int i = 0; i < 40; i++)
		give(&g, &ids[i], 1, true);
	shutdown(g.fd, SHUT_WR);
	assert_int_equal(loop(&g), 0);
	assert_int_equal(db.committed, 40);
	assert_in_range(mod.most, 2, 7);
	rig_done(&g);
}

static void the_database_goes_away(void **st)
{
	static const int64_t ids[] = { 101, 102, 160, 195 };
	struct rig g;
	(void)st;
	rig_init(&g, 60000, 100);
	db.fail_commits = 3;
	db.fail_loads = 2;
	give(&g, ids, 4, false);
	shutdown(g.fd, SHUT_WR);
	assert_int_equal(loop(&g), 0);
	assert_int_equal(mod.callbacks, 4);
	assert_int_equal(db.committed, 4);
	assert_int_equal(db.fail_commits, 0);
	assert_int_equal(db.loads, 3);
	assert_int_equal(db.failed_rows, 0);
	rig_done(&g);
}

static void rules(void **st)
{
	static const int64_t ids[] = { 710, 711, 820, 150 };
	struct rig g;
	int sv[2];
	(void)st;
	rig_init(&g, 60000, 100);
	const struct pepsi_host *h = concurrent_table();
	assert_int_equal(h->abi.size, sizeof *h);
	assert_null(h->event_new(NULL, -1, on_event, NULL));
	assert_null(h->event_new(mod.conf, -1, NULL, NULL));
	struct pepsi_event *e = h->event_new(mod.conf, -1, on_event, NULL);
	assert_int_equal(h->event_arm(e, PEPSI_IO_READ, 5), PEPSI_MISUSE); /* a timer */
	assert_int_equal(h->event_arm(e, 64, 5), PEPSI_MISUSE);
	assert_int_equal(h->event_arm(e, 0, -1), PEPSI_OK); /* disarmed */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	struct pepsi_event *never = h->event_new(mod.conf, sv[0], on_event, NULL); /* armed, freed by the host in the end */
	assert_int_equal(h->event_arm(never, PEPSI_IO_READ, -1), PEPSI_OK);
	h->event_free(e);
	h->event_free(NULL);
	h->ask_cancel(NULL);
	assert_null(h->ask(mod.conf, NULL, NULL, PEPSI_DNS_A, on_answer, NULL));
	assert_null(h->ask(mod.conf, NULL, "a.test", 6, on_answer, NULL));
	assert_int_equal(h->complete(NULL, PEPSI_OK), PEPSI_MISUSE);
	h->in_hand(NULL);
	int64_t t = h->mono_ms();
	assert_true(t > 0 && t <= h->mono_ms());
	give(&g, ids, 4, true);
	shutdown(g.fd, SHUT_WR);
	assert_int_equal(loop(&g), 0);
	assert_int_equal(db.committed, 4);
	assert_int_equal(db.failed_rows, 0);
	rig_done(&g);
	close(sv[0]);
	close(sv[1]);
}

static void questions(void **st)
{
	static const int64_t ids[] = { 500, 501, 300, 699 };
	struct rig g;
	unsigned nobodys = 0;
	(void)st;
	rig_init(&g, 60000, 100);
	struct pepsi_query *q = concurrent_table()->ask(mod.conf, NULL, "x.test", PEPSI_DNS_MX, on_nobodys, &nobodys);
	assert_non_null(q);
	concurrent_table()->ask_cancel(q);
	assert_non_null(concurrent_table()->ask(mod.conf, NULL, "a..test", PEPSI_DNS_MX, on_nobodys, &nobodys));
	assert_int_equal(nobodys, 0); /* from the loop, not from within */
	int64_t began = clock_mono_us();
	give(&g, ids, 1, true);
	shutdown(g.fd, SHUT_WR);
	assert_int_equal(loop(&g), 0);
	assert_int_equal(nobodys, 1);
	assert_int_equal(mod.answers, 1);
	assert_int_equal(mod.last_status, PEPSI_DNS_TEMPFAIL);
	assert_true(clock_mono_us() - began >= 250 * 1000); /* MESSAGE_DEADLINE */
	rig_done(&g);
	/* no name: an answer, too. complete() cancels the question of the other, which stop() brings it to; and one of nobody's is left over */
	rig_init(&g, 60000, 100);
	config_set(g.f.c, "pepsi-dns", "MESSAGE_DEADLINE", "100 s");
	assert_non_null(concurrent_table()->ask(mod.conf, NULL, "y.test", PEPSI_DNS_MX, on_nobodys, &nobodys));
	mod.sigterm_fd = g.stop_pipe[1];
	give(&g, ids, 4, true);
	assert_int_equal(loop(&g), 0);
	assert_int_equal(mod.answers, 1);
	assert_int_equal(mod.last_status, PEPSI_DNS_NXDOMAIN);
	assert_int_equal(mod.stops[PEPSI_STOP_LEAVE], 2);
	assert_int_equal(db.committed, 4);
	rig_done(&g);
}

static void leaves_at_once(void **st)
{
	static const int64_t ids[] = { 300, 301, 302, 650 };
	struct rig g;
	(void)st;
	rig_init(&g, 600000, 100);
	mod.sigterm_fd = g.stop_pipe[1];
	give(&g, ids, 4, true);
	int64_t began = clock_mono_us();
	assert_int_equal(loop(&g), 0);
	assert_true(clock_mono_us() - began < 8 * US_PER_S);
	assert_false(g.left);
	assert_int_equal(mod.stops[PEPSI_STOP_LEAVE], 3);
	assert_int_equal(db.committed, 4);
	assert_non_null(strstr(answers(&g), "3\n"));
	rig_done(&g);
}

/* Nothing new comes: who has done nothing yet is given back, long before the time to drain is over; others go on to their end. */
static void yields(void **st)
{
	static const int64_t ids[] = { 300, 301, 150, 302 };
	struct rig g;
	(void)st;
	rig_init(&g, 600000, 100);
	mod.yields = true;
	give(&g, ids, 4, true);
	shutdown(g.fd, SHUT_WR);
	int64_t began = clock_mono_us();
	assert_int_equal(loop(&g), 0);
	assert_true(clock_mono_us() - began < 8 * US_PER_S);
	assert_false(g.left);
	assert_int_equal(mod.stops[PEPSI_STOP_YIELD], 3);
	assert_int_equal(mod.stops[PEPSI_STOP_LEAVE], 0);
	assert_int_equal(db.committed, 4);
	assert_non_null(strstr(answers(&g), "0 301 {\"outcome\":\"pause\""));
	rig_done(&g);
}

static void has_had_its_time(void **st)
{
	static const int64_t ids[] = { 400, 300, 150 };
	struct rig g;
	(void)st;
	int fd = page_open(false);
	page = mmap(NULL, WIRE_PAGE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
	rig_init(&g, 1000, 100);
	give(&g, ids, 3, true);
	int64_t began = clock_mono_us();
	assert_int_equal(loop(&g), WIRE_EXIT_OVERRUN);
	assert_in_range(clock_mono_us() - began, 10 * US_PER_S, 25 * US_PER_S); /* ten seconds more for the neighbours */
	assert_true(g.left);
	assert_int_equal(page->id, 400);
	assert_int_equal(mod.stops[PEPSI_STOP_RUNTIME], 2);
	assert_int_equal(mod.stops[PEPSI_STOP_LEAVE], 1);
	assert_int_equal(db.committed, 2);
	assert_non_null(strstr(answers(&g), "3\n"));
	munmap((void *)page, WIRE_PAGE_SIZE);
	page = NULL;
	rig_done(&g);
}

static void the_dispatcher_dies(void **st)
{
	static const int64_t ids[] = { 300, 201 };
	struct rig g;
	(void)st;
	rig_init(&g, 600000, 100);
	give(&g, ids, 2, true);
	close(g.fd);
	g.fd = -1;
	loop(&g);
	assert_int_equal(mod.stops[PEPSI_STOP_LEAVE], 0);
	assert_true(g.left);
	rig_done(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(in_any_order), cmocka_unit_test(together), cmocka_unit_test(no_more_than_queue_limit),
		cmocka_unit_test(the_database_goes_away), cmocka_unit_test(rules), cmocka_unit_test(questions), cmocka_unit_test(leaves_at_once),
		cmocka_unit_test(yields), cmocka_unit_test(has_had_its_time), cmocka_unit_test(the_dispatcher_dies) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
