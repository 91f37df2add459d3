/* What a module counts on its way out: over the run loop's channel, with results and from an idle worker; and calls that break a rule. */
#include "fixture.h"

#include "worker/measure.h"
#include "worker/run.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

static volatile int stop;
static struct pepsi_metric *hits, *took;

static enum store_rc load_nothing(void *arg, struct arena *a, const int64_t *ids, size_t n, uint32_t load, struct store_row **ret, size_t *ret_n)
{
	(void)arg;
	(void)a;
	(void)ids;
	(void)n;
	(void)load;
	(void)ret;
	*ret_n = 0;
	return STORE_OK;
}

static enum store_rc commit_all(void *arg, struct store_pass *p, size_t n)
{
	(void)arg;
	for (size_t i = 0; i < n; i++)
		p[i].rc = STORE_OK;
	return STORE_OK;
}

static int32_t script(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->measure(hits, h->id(m) % 2 ? "odd" : "even", 1);
	h->measure(took, NULL, 20000);
	return h->advance(m);
}

struct rig {
	struct fixture f;
	struct run r;
	int fd, stop_pipe[2];
};

static void *loop(void *arg)
{
	struct rig *g = arg;
	assert_int_equal(run_loop(&g->r), 0);
	return NULL;
}

/* Reads up to a line that is `what`; false: it did not come within ten seconds. Other lines are put into all. */
static bool comes(int fd, const char *what, struct buf *all)
{
	char data[65536];
	struct pollfd p = { .fd = fd, .events = POLLIN };
	while (!all->p || !strstr(all->p, what)) {
		if (poll(&p, 1, 10000) <= 0)
			return false;
		ssize_t n = recv(fd, data, sizeof data, 0);
		if (n <= 0)
			return false;
		buf_add(all, data, (size_t)n);
	}
	return true;
}

/* The numbers behind all that begins so, together: what is counted within a second goes in one line, on a busy machine in several. */
static long total(const struct buf *all, const char *what)
{
	long n = 0;
	for (const char *p = all->p; p && (p = strstr(p, what)); p += strlen(what))
		n += strtol(p + strlen(what), NULL, 10);
	return n;
}

/* Reads until it is as much; as comes(). */
static bool counted(int fd, const char *what, long want, struct buf *all)
{
	while (total(all, what) < want) {
		struct buf more = BUF_INIT(1 << 20);
		bool got = comes(fd, what, &more);
		buf_adds(all, buf_str(&more));
		buf_free(&more);
		if (!got)
			return false;
	}
	return total(all, what) == want;
}

static void over_the_channel(void **state)
{
	static struct rig g;
	static struct {
		script_fn fn;
	} s = { script };
	struct buf all = BUF_INIT(1 << 20), b = BUF_INIT(WIRE_DATAGRAM_MAX);
	pthread_t t;
	int sv[2];
	(void)state;
	fixture_init(&g.f, PEPSI_LOAD_FULL, 0);
	g.f.env.state = &s;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	assert_int_equal(pipe(g.stop_pipe), 0);
	assert_int_equal(input_init(&g.r.in, sv[1], false), 0);
	g.r.env = &g.f.env;
	g.r.c = g.f.c;
	g.r.store = (struct run_store){ NULL, load_nothing, commit_all, NULL };
	g.r.out_fd = sv[1];
	g.r.stop = &stop;
	g.r.stop_fd = g.stop_pipe[0];
	measure_reports();
	hits = worker_host.metric(&g.f.conf, PEPSI_METRIC_COUNTER, "hits", "kind", "Hits.");
	took = worker_host.metric(&g.f.conf, PEPSI_METRIC_TIMING, "took", NULL, NULL);
	assert_non_null(hits);
	assert_non_null(took);
	assert_ptr_equal(worker_host.metric(&g.f.conf, PEPSI_METRIC_COUNTER, "hits", "kind", NULL), hits);
	assert_int_equal(worker_host.status_report(&g.f.conf, "{\n\"a\": 1}"), PEPSI_OK);
	for (int i = 0; i < 3; i++) {
		g.f.row.id = 100 + i;
		assert_int_equal(wire_put(&b, &g.f.row), 0);
	}
	assert_int_equal(send(sv[0], b.p, b.n, 0), b.n);
	assert_int_equal(pthread_create(&t, NULL, loop, &g), 0);
	/* the third answer need not come before the first counts, nor they before it; all come, without a further message */
	assert_true(counted(sv[0], "4 4:here c hits kind even ", 2, &all) && counted(sv[0], "4 4:here c hits kind odd ", 1, &all));
	assert_true(counted(sv[0], "4 4:here t took - - ", 60000, &all));
	assert_int_equal(total(&all, "4 4:here t took - - 20000 0 ") + total(&all, "4 4:here t took - - 40000 0 ") + total(&all, "4 4:here t took - - 60000 0 "), 3);
	assert_true(comes(sv[0], "5 4:here { \"a\": 1}\n", &all));
	assert_non_null(strstr(all.p, "4 4:here c? hits kind Hits.\n"));
	assert_non_null(strstr(all.p, "4 4:here t? took - -\n"));
	/* more, without another message in between */
	buf_reset(&all);
	assert_int_equal(send(sv[0], b.p, b.n, 0), b.n);
	assert_true(counted(sv[0], "4 4:here c hits kind even ", 2, &all) && counted(sv[0], "4 4:here t took - - ", 60000, &all));
	shutdown(sv[0], SHUT_WR);
	pthread_join(t, NULL);
	assert_null(strstr(all.p, "c? hits")); /* what is known is not said again */
	assert_false(measure_set("here")->changed);
	/* a channel that is full or gone loses nothing and stops nobody */
	close(sv[0]);
	worker_host.measure(hits, "late", 1);
	measure_tell(g.r.out_fd, true);
	assert_true(measure_set("here")->changed);
	assert_true(measure_due_ms() >= 0);
	close(sv[1]);
	close(g.stop_pipe[0]);
	close(g.stop_pipe[1]);
	measure_done();
	assert_int_equal(measure_due_ms(), -1);
	run_done(&g.r);
	fixture_done(&g.f);
	buf_free(&all);
	buf_free(&b);
}

static void misuse(void **state)
{
	struct fixture f;
	(void)state;
	fixture_init(&f, PEPSI_LOAD_METADATA, 0);
	assert_null(worker_host.metric(&f.conf, PEPSI_METRIC_COUNTER, "Bad-Name", NULL, NULL));
	assert_null(worker_host.metric(&f.conf, PEPSI_METRIC_COUNTER, NULL, NULL, NULL));
	assert_null(worker_host.metric(&f.conf, PEPSI_METRIC_COUNTER, "good", "stage", NULL));
	assert_non_null(worker_host.metric(&f.conf, PEPSI_METRIC_GAUGE, "unexplained", NULL, "two\nlines"));
	assert_string_equal(measure_set("here")->first->help, "");
	assert_null(worker_host.metric(&f.conf, 9, "good", NULL, NULL));
	worker_host.measure(NULL, "x", 1);
	struct pepsi_metric *m = worker_host.metric(&f.conf, PEPSI_METRIC_COUNTER, "good", "", "");
	assert_non_null(m);
	worker_host.measure(m, NULL, -1);
	assert_null(measure_set("here")->last->first);
	assert_int_equal(worker_host.status_report(&f.conf, "{"), PEPSI_MISUSE);
	assert_int_equal(worker_host.status_report(&f.conf, "[]"), PEPSI_MISUSE);
	static char big[WIRE_REPORT_MAX + 2];
	memset(big, ' ', sizeof big - 1);
	big[0] = '{';
	big[sizeof big - 2] = '}';
	assert_int_equal(worker_host.status_report(&f.conf, big), PEPSI_MISUSE);
	assert_int_equal(worker_host.status_report(&f.conf, big + 1), PEPSI_MISUSE);
	big[1] = '{';
	assert_int_equal(worker_host.status_report(&f.conf, big + 1), PEPSI_OK);
	assert_int_equal(measure_report("here").n, WIRE_REPORT_MAX);
	assert_int_equal(worker_host.status_report(&f.conf, NULL), PEPSI_OK);
	assert_true(str_eq(measure_report("here"), STR("{}")));
	measure_done();
	fixture_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(over_the_channel), cmocka_unit_test(misuse) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
