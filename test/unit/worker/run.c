/* The loop over a socketpair and an imaginary table: order of answers, batches, refusals, a database that goes away. */
#include "fixture.h"

#include "worker/run.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* The table: rows 100 and up exist and run at stage "here", with exceptions by number. */
static struct {
	unsigned loads, commits, committed;
	unsigned fail_commits;        /* so many first answers are fail_rc */
	enum store_rc fail_rc;
	int64_t refuse_id;            /* this one is refused, the first time or always */
	bool refuse_always;
	size_t largest;               /* passes in one commit */
	unsigned failed_rows;
	enum store_rc load_rc;
} db;

static enum store_rc fake_load(void *arg, struct arena *a, const int64_t *ids, size_t n, uint32_t load, struct store_row **ret,
    size_t *ret_n)
{
	struct store_row *rows = arena_calloc(a, n, sizeof *rows);
	size_t k = 0;
	(void)arg;
	(void)load;
	db.loads++;
	if (db.load_rc != STORE_OK)
		return db.load_rc;
	for (size_t i = n; i-- > 0;) { /* any order */
		if (ids[i] < 100)
			continue;
		rows[k] = (struct store_row){ .id = ids[i], .stage = ids[i] == 101 ? STR("other") : ids[i] == 103 ? STR("next") : STR("here"),
			.status = ids[i] == 102 ? STR("pending") : STR("running"), .state = STR("{}"), .rcpts = fixture_rcpts,
			.n_rcpts = 1, .body = STR("x\r\n") };
		k++;
	}
	*ret = rows;
	*ret_n = k;
	return STORE_OK;
}

static enum store_rc fake_commit(void *arg, struct store_pass *p, size_t n)
{
	(void)arg;
	db.commits++;
	db.largest = n > db.largest ? n : db.largest;
	if (db.fail_commits) {
		db.fail_commits--;
		return db.fail_rc;
	}
	for (size_t i = 0; i < n; i++) {
		bool fails = p[i].ops[0].kind == STORE_OP_MOVE && p[i].ops[0].status == STORE_FAILED;
		if (p[i].id == db.refuse_id && (db.refuse_always || !fails)) {
			p[i].rc = STORE_REFUSED;
			snprintf(p[i].err, sizeof p[i].err, "no \"such\" thing");
			continue;
		}
		p[i].rc = STORE_OK;
		db.committed++;
		db.failed_rows += fails;
	}
	return STORE_OK;
}

static volatile int stop;
static unsigned ran;
static size_t body_seen;

static int32_t script(const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct pepsi_str s;
	ran++;
	assert_int_equal(h->body(m, &s), PEPSI_OK);
	body_seen = s.n;
	if (h->id(m) == 150)
		stop = 1;
	return h->advance(m);
}

struct rig {
	struct fixture f;
	struct run r;
	int fd, stop_pipe[2];
};

static void rig_init(struct rig *g, uint64_t caps)
{
	static struct {
		script_fn fn;
	} s = { script };
	int sv[2];
	memset(&db, 0, sizeof db);
	stop = 0;
	ran = 0;
	fixture_init(&g->f, PEPSI_LOAD_FULL, caps);
	g->f.env.state = &s;
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
}

static void rig_done(struct rig *g)
{
	close(g->r.in.fd);
	close(g->fd);
	close(g->stop_pipe[0]);
	close(g->stop_pipe[1]);
	run_done(&g->r);
	fixture_done(&g->f);
}

static void give(struct rig *g, const struct wire_item *items, size_t n)
{
	struct buf b = BUF_INIT(WIRE_DATAGRAM_MAX);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(wire_put(&b, &items[i]), 0);
	assert_int_equal(send(g->fd, b.p, b.n, 0), b.n);
	buf_free(&b);
}

static void give_ids(struct rig *g, int64_t from, int64_t to)
{
	for (; from <= to; from++)
		give(g, &(struct wire_item){ .id = from }, 1);
}

/* Everything that came up, as one text. */
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

/* The dispatcher says nothing more after this; the worker answers what it has and goes, as with MAX_MESSAGES. */
static int loop(struct rig *g, uint64_t n)
{
	g->r.max_messages = n;
	return run_loop(&g->r);
}

static const char moved[] = "0 {\"outcome\":\"move\",\"to\":\"next\"}\n";

static void in_order_and_together(void **st)
{
	(void)st;
	struct rig g;
	rig_init(&g, 0);
	struct wire_item full = g.f.row;
	full.id = 200;
	give_ids(&g, 110, 111);
	give(&g, &full, 1);
	give(&g, &(struct wire_item){ .id = 112 }, 1);
	assert_int_equal(loop(&g, 4), 0);
	char want[4 * sizeof moved];
	snprintf(want, sizeof want, "%s%s%s%s", moved, moved, moved, moved);
	assert_string_equal(answers(&g), want);
	assert_int_equal(ran, 4);
	assert_int_equal(db.committed, 4);
	rig_done(&g);
}

static void content_needs_no_select(void **st)
{
	(void)st;
	struct rig g;
	rig_init(&g, 0);
	struct wire_item many[60];
	for (int i = 0; i < 60; i++) {
		many[i] = g.f.row;
		many[i].id = 300 + i;
	}
	give(&g, many, 60);
	assert_int_equal(loop(&g, 60), 0);
	assert_int_equal(db.loads, 0);
	assert_int_equal(db.committed, 60);
	assert_true(db.largest <= RUN_BATCH);
	assert_int_equal(body_seen, 7);
	rig_done(&g);
}

static void refusals(void **st)
{
	(void)st;
	struct rig g;
	rig_init(&g, 0);
	give_ids(&g, 99, 104);
	assert_int_equal(loop(&g, 6), 0);
	const char *a = answers(&g);
	static const char *const want[] = {
		"0 {\"outcome\":\"gone\",\"note\":\"there is no row 99\"}\n", moved,
		"1 {\"error\":\"row 101 is at stage other, whose PROGRAM is pepsi-stage-other, not pepsi-stage-test\"}\n",
		"1 {\"error\":\"row 102 is pending, not running: ",
		"1 {\"error\":\"row 103 is at stage next, and this is a worker of stage here\"}\n", moved,
	};
	for (size_t i = 0; i < 6; i++) {
		if (strncmp(a, want[i], strlen(want[i])) != 0)
			fail_msg("answer %zu: %s", i, a);
		a = strchr(a, '\n') + 1;
	}
	assert_int_equal(ran, 2);
	rig_done(&g);
}

static void a_body_in_a_descriptor(void **st)
{
	(void)st;
	struct rig g;
	rig_init(&g, 0);
	struct wire_item it = g.f.row;
	struct buf b = BUF_INIT(WIRE_DATAGRAM_MAX);
	int fd = memfd_create("body", MFD_CLOEXEC);
	assert_int_equal(write(fd, "a line of the body\r\n", 20), 20);
	it.body = STR_NULL;
	it.body_in_fd = true;
	it.body_size = 20;
	wire_put(&b, &it);
	it.id++;
	it.body_size = 4000; /* a lie: refused, and the next one is served */
	wire_put(&b, &it);
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(2 * sizeof(int))];
	} ctl = { .space = { 0 } };
	struct iovec io = { b.p, b.n };
	struct msghdr h = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = &ctl, .msg_controllen = sizeof ctl };
	struct cmsghdr *c = CMSG_FIRSTHDR(&h);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(2 * sizeof(int));
	int two[] = { fd, fd };
	memcpy(CMSG_DATA(c), two, sizeof two);
	assert_int_equal(sendmsg(g.fd, &h, 0), b.n);
	assert_int_equal(loop(&g, 2), 0);
	assert_int_equal(body_seen, 20);
	assert_int_equal(ran, 1);
	const char *a = answers(&g);
	assert_memory_equal(a, moved, strlen(moved));
	assert_non_null(strstr(a, "1 {\"error\":\"the body that came along is shorter"));
	buf_free(&b);
	close(fd);
	rig_done(&g);
}

static void the_database_goes_away(void **st)
{
	(void)st;
	struct rig g;
	/* a module that delivers: its commit is tried again until it works */
	rig_init(&g, PEPSI_CAP_DELIVER);
	db.fail_commits = 3;
	db.fail_rc = STORE_AWAY;
	give_ids(&g, 110, 110);
	assert_int_equal(loop(&g, 1), 0);
	assert_string_equal(answers(&g), moved);
	assert_int_equal(db.commits, 4);
	rig_done(&g);
	/* one that only moves rows gives them back after patience_s */
	rig_init(&g, 0);
	db.fail_commits = 1000;
	db.fail_rc = STORE_AWAY;
	give_ids(&g, 110, 110);
	assert_int_equal(loop(&g, 1), 0);
	assert_memory_equal(answers(&g), "1 {\"error\":", 11);
	assert_int_equal(db.committed, 0);
	rig_done(&g);
	/* and while loading */
	rig_init(&g, PEPSI_CAP_DELIVER);
	db.load_rc = STORE_AWAY;
	give_ids(&g, 110, 110);
	assert_int_equal(loop(&g, 1), 0);
	assert_string_equal(answers(&g), "1 {\"error\":\"the row could not be loaded: the database is away\"}\n");
	assert_int_equal(ran, 0);
	rig_done(&g);
}

static void a_refused_row_fails_alone(void **st)
{
	(void)st;
	struct rig g;
	rig_init(&g, 0);
	db.refuse_id = 111;
	give_ids(&g, 110, 112);
	assert_int_equal(loop(&g, 3), 0);
	const char *a = answers(&g);
	assert_memory_equal(a, moved, strlen(moved));
	assert_non_null(strstr(a, "\n0 {\"outcome\":\"fail\",\"error\":\"the database refused what this stage decided: no \\\"such\\\" thing\"}\n"));
	assert_int_equal(db.committed, 3);
	assert_int_equal(db.failed_rows, 1);
	rig_done(&g);
	rig_init(&g, 0);
	db.refuse_id = 111;
	db.refuse_always = true;
	give_ids(&g, 111, 111);
	assert_int_equal(loop(&g, 1), 0);
	assert_string_equal(answers(&g), "1 {\"error\":\"no \\\"such\\\" thing\"}\n");
	rig_done(&g);
}

static void stop_answers_what_is_done(void **st)
{
	(void)st;
	struct rig g;
	rig_init(&g, 0);
	give_ids(&g, 149, 155);
	assert_int_equal(loop(&g, 0), 0);
	assert_int_equal(ran, 2);
	char want[2 * sizeof moved];
	snprintf(want, sizeof want, "%s%s", moved, moved);
	assert_string_equal(answers(&g), want);
	rig_done(&g);
}

static void the_dispatcher_dies(void **st)
{
	(void)st;
	struct rig g;
	rig_init(&g, 0);
	give_ids(&g, 110, 112);
	close(g.fd);
	assert_int_equal(loop(&g, 0), 0);
	assert_int_equal(ran, 0); /* its successor hands them out anew */
	g.fd = dup(g.r.in.fd);
	rig_done(&g);
	/* but when it only says that nothing more comes, what came is done */
	rig_init(&g, 0);
	give_ids(&g, 110, 112);
	shutdown(g.fd, SHUT_WR);
	assert_int_equal(loop(&g, 0), 0);
	assert_int_equal(ran, 3);
	char want[3 * sizeof moved];
	snprintf(want, sizeof want, "%s%s%s", moved, moved, moved);
	assert_string_equal(answers(&g), want);
	rig_done(&g);
	rig_init(&g, 0);
	assert_int_equal(send(g.fd, "garbage", 7, 0), 7);
	assert_int_equal(loop(&g, 0), 1);
	rig_done(&g);
}

static void by_hand(void **st)
{
	(void)st;
	struct rig g;
	int in[2], out[2];
	char text[1024];
	rig_init(&g, 0);
	assert_int_equal(pipe(in), 0);
	assert_int_equal(pipe(out), 0);
	input_done(&g.r.in);
	close(g.r.in.fd);
	assert_int_equal(input_init(&g.r.in, in[0], true), 0);
	g.r.out_fd = out[1];
	g.r.by_hand = true;
	static const char ids[] = "110\n\n x\"y \n-3\n0\n 102 \n99\n9223372036854775808\n111";
	assert_int_equal(write(in[1], ids, sizeof ids - 1), sizeof ids - 1);
	close(in[1]);
	assert_int_equal(run_loop(&g.r), 0);
	close(out[1]);
	ssize_t n = read(out[0], text, sizeof text - 1);
	assert_true(n > 0);
	text[n] = 0;
	static const char *const want[] = { "0\n", "1 {\"error\":\"not a queue id: x\\\"y\"}\n", "1 {\"error\":\"not a queue id: -3\"}\n",
		"1 {\"error\":\"not a queue id: 0\"}\n", "1 {\"error\":\"row 102 is pending", "1 {\"error\":\"there is no row 99\"}\n",
		"1 {\"error\":\"not a queue id: 9223372036854775808\"}\n", "0\n" };
	const char *a = text;
	for (size_t i = 0; i < 8; i++) {
		if (strncmp(a, want[i], strlen(want[i])) != 0)
			fail_msg("answer %zu: %s", i, a);
		a = strchr(a, '\n') + 1;
	}
	assert_string_equal(a, "");
	assert_true(g.r.failed_some);
	close(out[0]);
	rig_done(&g);
}

/* --- process_batch */

static unsigned batches;
static size_t batch_max;

static int32_t batch(void *worker, const struct pepsi_host *h, struct pepsi_msg *const *m, int32_t *ret, size_t n)
{
	(void)worker;
	batches++;
	batch_max = n > batch_max ? n : batch_max;
	for (size_t i = 0; i < n; i++) {
		switch (h->id(m[i]) % 10) {
		case 3:
			break; /* no terminal */
		case 4:
			ret[i] = PEPSI_RETRY;
			continue;
		case 5:
			h->finish(m[i]);
			h->finish(m[i]); /* two */
			break;
		case 6:
			continue; /* no status */
		default:
			h->advance(m[i]);
		}
		ret[i] = PEPSI_OK;
	}
	return PEPSI_OK;
}

static int32_t half_a_batch(void *worker, const struct pepsi_host *h, struct pepsi_msg *const *m, int32_t *ret, size_t n)
{
	(void)worker;
	ret[0] = h->advance(m[0]);
	(void)n;
	return PEPSI_RETRY;
}

static void batch_init(struct rig *g, int32_t (*fn)(void *, const struct pepsi_host *, struct pepsi_msg *const *, int32_t *, size_t))
{
	rig_init(g, 0);
	g->f.mod.stage.load_class = PEPSI_LOAD_METADATA;
	g->f.mod.stage.process_batch = fn;
	batches = 0;
	batch_max = 0;
}

static void a_batch_is_one_call_one_select_one_commit(void **st)
{
	(void)st;
	struct rig g;
	batch_init(&g, batch);
	for (int64_t i = 0; i < 50; i++)
		give_ids(&g, 200 + 10 * i, 200 + 10 * i);
	assert_int_equal(loop(&g, 50), 0);
	assert_int_equal(db.loads, 1);
	assert_int_equal(batches, 1);
	assert_int_equal(batch_max, 50);
	assert_int_equal(db.commits, 1);
	assert_int_equal(db.committed, 50);
	assert_int_equal(ran, 0);
	rig_done(&g);
}

static void one_bad_message_costs_no_other(void **st)
{
	(void)st;
	struct rig g;
	static const char *const want[] = { moved, moved, moved,
		"0 {\"outcome\":\"fail\",\"error\":\"pepsi-stage-test broke the stage ABI: process() returned PEPSI_OK without a terminal",
		"0 {\"outcome\":\"pause\",\"secs\":", "0 {\"outcome\":\"fail\",\"error\":\"pepsi-stage-test broke the stage ABI: finish() was called after",
		"0 {\"outcome\":\"fail\",\"error\":\"pepsi-stage-test broke the stage ABI: process_batch() gave no status for a message\"}\n", moved };
	batch_init(&g, batch);
	give_ids(&g, 200, 207);
	assert_int_equal(loop(&g, 8), 0);
	assert_int_equal(batches, 1);
	const char *a = answers(&g);
	for (size_t i = 0; i < 8; i++) {
		if (strncmp(a, want[i], strlen(want[i])) != 0)
			fail_msg("answer %zu: %s", i, a);
		a = strchr(a, '\n') + 1;
	}
	assert_string_equal(a, "");
	rig_done(&g);
	/* rows that cannot be worked on are refused in their turn */
	batch_init(&g, batch);
	give_ids(&g, 99, 102);
	give_ids(&g, 107, 108);
	assert_int_equal(loop(&g, 6), 0);
	assert_int_equal(db.committed, 3);
	assert_non_null(strstr(answers(&g), "1 {\"error\":\"row 101 is at stage other"));
	rig_done(&g);
	/* the call as a whole failed: that goes for those it did not get to */
	batch_init(&g, half_a_batch);
	give_ids(&g, 200, 202);
	assert_int_equal(loop(&g, 3), 0);
	unsigned secs[2]; /* there is chance in them */
	a = answers(&g);
	assert_int_equal(strncmp(a, moved, strlen(moved)), 0);
	assert_int_equal(sscanf(a + strlen(moved), "0 {\"outcome\":\"pause\",\"secs\":%u}\n0 {\"outcome\":\"pause\",\"secs\":%u}\n", &secs[0], &secs[1]), 2);
	assert_true(secs[0] > 0 && secs[1] > 0);
	rig_done(&g);
}

/* --- what a hop could endanger is committed before it begins */

static struct worker_env other_env;
static unsigned commits_seen;

static const struct worker_env *to_other(void *arg, struct pepsi_msg *msg, const char *stage)
{
	(void)msg;
	(void)stage;
	return run_before_hop(arg, &other_env) ? &other_env : NULL;
}

static int32_t delivers(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	(void)worker;
	commits_seen = db.commits;
	return h->finish(m);
}

static void effects_are_committed_before_anothers_hop(void **st)
{
	(void)st;
	struct rig g;
	struct worker_module mod;
	rig_init(&g, 0);
	mod = g.f.mod;
	mod.stage.process = delivers;
	mod.stage.caps = PEPSI_CAP_DELIVER;
	other_env = g.f.env;
	other_env.mod = &mod;
	other_env.stage = "other";
	g.f.env.successor = to_other;
	g.f.env.successor_arg = &g.r;
	give_ids(&g, 110, 113);
	assert_int_equal(loop(&g, 4), 0);
	/* each delivery is on record before the next message runs the first module again */
	assert_int_equal(db.commits, 4);
	assert_int_equal(commits_seen, 3);
	assert_int_equal(db.committed, 4);
	const char *a = answers(&g);
	for (int i = 0; i < 4; i++) {
		assert_memory_equal(a, "0 {\"outcome\":\"finish\",\"fused\":[{\"stage\":\"other\",\"us\":", 52);
		a = strchr(a, '\n') + 1;
	}
	rig_done(&g);
	/* a module's own deliveries share a commit */
	rig_init(&g, PEPSI_CAP_DELIVER);
	give_ids(&g, 110, 113);
	assert_int_equal(loop(&g, 4), 0);
	assert_true(db.commits < 4);
	rig_done(&g);
}

int main(void)
{
	log_setup(LOG_LV_ERROR, "test");
	const struct CMUnitTest tests[] = { cmocka_unit_test(in_order_and_together), cmocka_unit_test(content_needs_no_select),
		cmocka_unit_test(refusals), cmocka_unit_test(a_body_in_a_descriptor), cmocka_unit_test(the_database_goes_away),
		cmocka_unit_test(a_refused_row_fails_alone), cmocka_unit_test(stop_answers_what_is_done),
		cmocka_unit_test(the_dispatcher_dies), cmocka_unit_test(by_hand),
		cmocka_unit_test(a_batch_is_one_call_one_select_one_commit), cmocka_unit_test(one_bad_message_costs_no_other),
		cmocka_unit_test(effects_are_committed_before_anothers_hop) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
