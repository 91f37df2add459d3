/* pepsi-failure-bouncer from argument vector to exit status, against a database that follows a script: one letter per
 * event, taken by whichever call comes. The account it runs under, its patience and its log are real. */
#include "base/buf.h"
#include "cli/cli.h"
#include "store/bounce.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the database */

struct store_conn {
	struct event_base *base;
	bool up;
	store_state_fn state;
	store_notify_fn notify;
	void *arg, *notify_arg;
};

struct batch {
	enum store_rc rc;
	unsigned n, n_rows;                /* what it says, and how many rows it really tells of */
	struct store_bounce_row rows[3];
	int64_t last_id;
	const char *err;
	int raise;                         /* a signal that comes while it is under way */
};

static struct {
	/* script */
	struct batch batch[4];
	enum store_rc wait_rc;
	int64_t waiting, next_us;
	bool refuse;                       /* connections fail */
	unsigned refuse_first;             /* so many do, then they come up */
	unsigned notify_after, stop_after; /* sweeps; 0: never */
	/* what was seen */
	unsigned opened, listened, batches, waits;
	int64_t after[8];
	char rule[400], conninfo[400], role[32];
	uid_t uid;
	struct store_conn *ears;
} db;

struct turn {
	void (*fn)(struct turn *t);
	struct store_conn *c;
	store_bounce_row_fn row;
	store_bounce_done_fn done;
	store_bounce_wait_fn wait;
	void *arg;
	unsigned at;
};

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
	struct turn *t = arg;
	(void)fd;
	(void)what;
	t->fn(t);
	free(t);
}

static void later(struct turn from)
{
	struct turn *t = malloc(sizeof *t);
	const struct timeval now = { .tv_usec = 1000 };
	assert_non_null(t);
	*t = from;
	event_base_once(t->c->base, -1, EV_TIMEOUT, on_turn, t, &now);
}

static void come_up(struct turn *t)
{
	if (db.refuse || db.refuse_first) {
		bool first = !t->at;
		db.refuse_first -= db.refuse_first > 0;
		if (first)
			t->c->state(t->c->arg, t->c, false, "connection refused");
		if (!db.refuse)
			later((struct turn){ .fn = come_up, .c = t->c, .at = 1 });
		return;
	}
	t->c->up = true;
	t->c->state(t->c->arg, t->c, true, "");
}

struct store_conn *store_conn_open(struct event_base *base, const struct store_params *p, store_state_fn state, void *arg)
{
	struct store_conn *c = calloc(1, sizeof *c);
	assert_non_null(c);
	*c = (struct store_conn){ .base = base, .state = state, .arg = arg };
	db.opened++;
	db.uid = geteuid();
	snprintf(db.conninfo, sizeof db.conninfo, "%s", p->conninfo);
	snprintf(db.role, sizeof db.role, "%s", p->role);
	later((struct turn){ .fn = come_up, .c = c });
	return c;
}

void store_conn_close(struct store_conn *c)
{
	free(c);
}

bool store_conn_up(const struct store_conn *c)
{
	return c->up;
}

int store_conn_listen(struct store_conn *c, const char *const *channels, size_t n, store_notify_fn fn, void *arg)
{
	assert_int_equal(n, 1);
	assert_string_equal(channels[0], "workqueue_failed");
	db.listened++;
	db.ears = c;
	c->notify = fn;
	c->notify_arg = arg;
	return 0;
}

static void answer_batch(struct turn *t)
{
	const struct batch *b = &db.batch[t->at];
	for (unsigned i = 0; i < b->n_rows; i++)
		t->row(t->arg, &b->rows[i]);
	t->done(t->arg, b->rc, b->n, b->last_id, b->err);
}

void store_failure_bounce(struct store_conn *c, const struct store_bounce_rule *r, int64_t after, unsigned limit,
    store_bounce_row_fn row, store_bounce_done_fn done, void *arg)
{
	size_t at = (size_t)snprintf(db.rule, sizeof db.rule, "%s %s%s %lld %d", r->stage, r->failed ? "f" : "", r->timeout ? "t" : "",
	    (long long)r->min_age_us, r->unauthenticated);
	for (size_t i = 0; i < r->n_networks; i++)
		at += (size_t)snprintf(db.rule + at, sizeof db.rule - at, " %.*s", STR_ARG(r->networks[i]));
	assert_int_equal(limit, 500);
	assert_true(c->up && (!db.listened || db.ears->up));
	if (db.batches < 8)
		db.after[db.batches] = after;
	later((struct turn){ .fn = answer_batch, .c = c, .row = row, .done = done, .arg = arg,
	    .at = db.batches < 4 ? db.batches : 3 });
	if (db.batches < 4 && db.batch[db.batches].raise)
		raise(db.batch[db.batches].raise);
	db.batches++;
}

static void answer_wait(struct turn *t)
{
	t->wait(t->arg, db.wait_rc, db.waiting, db.next_us, db.wait_rc ? "said no" : NULL);
	if (db.notify_after == db.waits)
		db.ears->notify(db.ears->notify_arg, "workqueue_failed", "17");
	if (db.stop_after == db.waits)
		raise(SIGTERM);
}

void store_failure_wait(struct store_conn *c, const struct store_bounce_rule *r, store_bounce_wait_fn fn, void *arg)
{
	(void)r;
	db.waits++;
	later((struct turn){ .fn = answer_wait, .c = c, .wait = fn, .arg = arg });
}

/* ---- running it */

#define STAGES "[stage-init]\nPROGRAM = pepsi-stage-discard\n[stage-bounce]\nPROGRAM = pepsi-stage-bounce\nNEXT_STAGE = init\n"
#define MX "[listener-mx]\nBIND = 127.0.0.1:2525\n"
/* as root: stay root, so that what one case gives up does not stop the next */
#define PLAIN "[pepsi]\nHOSTNAME = mx.example.test\nUSER = root\n[pepsi-postgres]\nCONFIG = host=/nowhere\n" MX STAGES
#define RIGHT PLAIN "[pepsi-failure-bouncer]\nBOUNCE_STAGE = bounce\n"

static char dir[] = "/tmp/pepsi-bouncer-XXXXXX", path[64];

static char *caught(FILE *f)
{
	struct buf b = BUF_INIT(1 << 20);
	char *at = buf_room(&b, 1 << 19);
	rewind(f);
	b.n = fread(at, 1, 1 << 19, f);
	b.p[b.n] = 0;
	fclose(f);
	return b.p;
}

/* args: one string, words divided by blanks. Returns the exit status; what was written goes to *out and *err. */
static int run(const char *config, const char *args, char **out, char **err)
{
	char *argv[16] = { (char[]){ "pepsi-failure-bouncer" }, (char[]){ "-c" }, path }, *words = strdup(args), *rest = words, *w;
	int argc = 3, keep_out = dup(1), keep_err = dup(2);
	FILE *fo = tmpfile(), *fe = tmpfile(), *f = fopen(path, "w");
	assert_true(fo && fe && f && words);
	fputs(config, f);
	fclose(f);
	while ((w = strsep(&rest, " ")) && argc < 15)
		if (*w)
			argv[argc++] = w;
	fflush(stdout);
	fflush(stderr);
	dup2(fileno(fo), 1);
	dup2(fileno(fe), 2);
	alarm(20);
	int rc = cli_main(argc, argv);
	alarm(0);
	fflush(stdout);
	fflush(stderr);
	dup2(keep_out, 1);
	dup2(keep_err, 2);
	close(keep_out);
	close(keep_err);
	*out = caught(fo);
	*err = caught(fe);
	free(words);
	return rc;
}

static void expect(const char *config, const char *args, int want, const char *in_out, const char *in_err)
{
	char *out, *err;
	int rc = run(config, args, &out, &err);
	if (rc != want || !strstr(out, in_out) || !strstr(err, in_err))
		fail_msg("\"%s\": status %d, wanted %d; out: %s; err: %s; wanted \"%s\" and \"%s\"", args, rc, want, out, err, in_out,
		    in_err);
	free(out);
	free(err);
}

static int clean(void **state)
{
	(void)state;
	memset(&db, 0, sizeof db);
	db.notify_after = db.stop_after = UINT_MAX;
	return 0;
}

static int begin(void **state)
{
	(void)state;
	if (!mkdtemp(dir) || chmod(dir, 0755))
		return -1;
	snprintf(path, sizeof path, "%s/pepsi.conf", dir);
	return 0;
}

static int finish(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

/* ---- the cases */

static void test_refused(void **state)
{
	(void)state;
	expect(RIGHT, "--once --failed-only --timeout-only", 2, "", "--failed-only and --timeout-only exclude each other");
	expect(RIGHT, "--timeout-only --failed-only", 2, "", "exclude each other");
	expect(RIGHT, "--once now", 2, "", "takes no operand");
	expect(RIGHT, "--all", 2, "", "takes no option --all");
	expect(RIGHT, "--help", 0, "--timeout-only", "");
	expect(RIGHT, "-V", 0, "pepsi ", "");
	expect(PLAIN, "--once", 1, "", "[pepsi-failure-bouncer] BOUNCE_STAGE is not set");
	expect(PLAIN "[pepsi-failure-bouncer]\nMIN_AGE = 5 min\n", "", 1, "", "BOUNCE_STAGE is not set");
	expect(PLAIN "[pepsi-failure-bouncer]\nBOUNCE_STAGE = bounced\n", "--once", 1, "", "there is no [stage-bounced]");
	expect(RIGHT "MIN_AGE = soon\n", "--once", 1, "", "pepsi.conf:15: MIN_AGE");
	expect(RIGHT "MIN_AGE = -1\n", "--once", 1, "", "MIN_AGE");
	expect(RIGHT "BOUNCE_UNAUTHENTICATED = perhaps\n", "--once", 1, "", "BOUNCE_UNAUTHENTICATED");
	expect(RIGHT "no sense\n", "--once", 1, "", "pepsi.conf:15");
	expect(RIGHT, "--once -c /nowhere/pepsi.conf", 1, "", "/nowhere/pepsi.conf");
	assert_int_equal(db.opened, 0);
}

static void test_rule(void **state)
{
	static const struct {
		const char *more, *args, *rule;
	} cases[] = {
		{ "", "--once", "bounce ft 3600000000 0 127.0.0.0/8 ::1" },
		{ "", "--once --failed-only", "bounce f 3600000000 0 127.0.0.0/8 ::1" },
		{ "", "--timeout-only --once", "bounce t 3600000000 0 127.0.0.0/8 ::1" },
		{ "MIN_AGE = 0\nBOUNCE_UNAUTHENTICATED = YES\n", "--once", "bounce ft 0 1 127.0.0.0/8 ::1" },
		{ "MIN_AGE = 90\n[pepsi]\nRELAY_NETWORKS =  10.0.0.0/8\t192.0.2.1  \n", "-L error --once",
		    "bounce ft 90000000 0 10.0.0.0/8 192.0.2.1" },
		{ "[pepsi]\nRELAY_NETWORKS =\n", "--once", "bounce ft 3600000000 0" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char config[2000];
		clean(state);
		snprintf(config, sizeof config, RIGHT "%s", cases[i].more);
		expect(config, cases[i].args, 0, "", "");
		assert_string_equal(db.rule, cases[i].rule);
		assert_int_equal(db.opened, 1);
		assert_int_equal(db.listened, 0);
		assert_string_equal(db.conninfo, "host=/nowhere");
		assert_string_equal(db.role, "pepsi");
	}
}

#define NO_ERROR { NULL, 0 }
#define ROW(I, A, FROM, ERR)                                                                                           \
	{ .id = I, .action = A, .mail_from = STR_INIT(FROM), .stage = STR_INIT("out"), .status = STR_INIT("failed"),      \
		.failed_at = STR_INIT("2026-11-30T11:26:28.123456Z"), .error = ERR }

static void test_once(void **state)
{
	static const struct batch first = { .n = 500, .n_rows = 1, .last_id = 700,
		.rows = { ROW(7, STORE_BOUNCE_MOVED, "ann@example.org", STR_INIT("worker crash at stage out")) } };
	static const struct batch second = { .n = 2, .n_rows = 2, .last_id = 702,
		.rows = { ROW(701, STORE_BOUNCE_DELETED, "list-bounces@example.org", NO_ERROR),
		    ROW(702, STORE_BOUNCE_DROPPED, "a\n\x1b[31m@b", STR_INIT("450 \"later\"")) } };
	char *out, *err;
	(void)state;
	db.batch[0] = first;
	db.batch[1] = second;
	db.waiting = 4;
	assert_int_equal(run(RIGHT, "--json --once", &out, &err), 0);
	assert_string_equal(out, "{\"bounced\":1,\"deleted\":1,\"dropped\":1,\"waiting\":4}\n");
	assert_int_equal(db.batches, 2);
	assert_int_equal(db.after[0], 0);
	assert_int_equal(db.after[1], 700);
	assert_non_null(strstr(err, "id=7 event=failure-bounced sender=\"ann@example.org\" stage=\"out\" status=failed "
				    "failed_at=\"2026-11-30T11:26:28.123456Z\" error=\"worker crash at stage out\""));
	assert_non_null(strstr(err, "id=701 event=list-copy-deleted sender=\"list-bounces@example.org\" stage=\"out\""));
	assert_non_null(strstr(err, "error=\"none was recorded\""));
	assert_non_null(strstr(err, "id=702 event=unauthenticated-dropped sender=\"a\\x0a\\x1b[31m@b\""));
	assert_non_null(strstr(err, "event=sweep bounced=1 deleted=1 dropped=1 waiting=4"));
	free(out);
	free(err);
	/* the lines are warnings: they are there with -L warn, and the summary is not */
	clean(state);
	db.batch[0] = second;
	assert_int_equal(run(RIGHT, "--once -L warn", &out, &err), 0);
	assert_non_null(strstr(err, "event=list-copy-deleted"));
	assert_null(strstr(err, "event=sweep"));
	assert_string_equal(out, "");
	free(out);
	free(err);
}

static void test_once_fails(void **state)
{
	db.refuse = true;
	expect(RIGHT, "--once", 1, "", "no connection to the database: connection refused");
	clean(state);
	db.batch[0] = (struct batch){ .rc = STORE_REFUSED, .err = "permission denied" };
	expect(RIGHT, "--once", 1, "", "the sweep was not finished: permission denied");
	clean(state);
	db.wait_rc = STORE_AWAY;
	expect(RIGHT, "--once", 1, "", "the sweep was not finished: said no");
	clean(state);
	db.batch[0] = (struct batch){ .n = 500, .last_id = 500, .raise = SIGTERM };
	expect(RIGHT, "--once", 1, "", "stopped by a signal before the sweep was finished");
	assert_int_equal(db.batches, 1);
}

static void test_service(void **state)
{
	/* a sweep at the start; the alarm for the oldest failure (long over: at once, but not at full speed); stopped */
	db.waiting = 3;
	db.next_us = 1000;
	db.stop_after = 2;
	expect(RIGHT, "", 0, "", "event=listening channel=workqueue_failed");
	assert_int_equal(db.opened, 2);
	assert_int_equal(db.listened, 1);
	assert_int_equal(db.batches, 2);
	assert_int_equal(db.after[1], 0);

	/* nothing waits: it sleeps until a failure is notified, and then for MIN_AGE */
	clean(state);
	db.notify_after = 1;
	db.stop_after = 2;
	expect(RIGHT "MIN_AGE = 0\n", "", 0, "", "event=stop signal=15");
	assert_int_equal(db.batches, 2);

	/* in the middle of a batch: the batch is finished, the next one does not begin */
	clean(state);
	db.batch[0] = (struct batch){ .n = 500, .last_id = 500, .raise = SIGINT };
	expect(RIGHT, "", 0, "", "event=stop signal=2");
	assert_int_equal(db.batches, 1);

	/* no database at the start is no reason to end; what is stuck is swept when it is there */
	clean(state);
	db.refuse_first = 3;
	db.stop_after = 1;
	expect(RIGHT, "", 0, "", "event=database-away err=\"connection refused\"");
	assert_int_equal(db.batches, 1);

	/* nor is a sweep that the database refuses */
	clean(state);
	db.batch[0] = (struct batch){ .rc = STORE_FULL, .err = "disk full" };
	db.stop_after = 1;
	expect(RIGHT, "", 0, "", "event=sweep-failed err=\"disk full\"");
	assert_int_equal(db.batches, 2);
}

#define AS(USER) "[pepsi]\nHOSTNAME = mx.example.test\n" USER "[pepsi-postgres]\nCONFIG = host=/nowhere\n" MX STAGES \
		 "[pepsi-failure-bouncer]\nBOUNCE_STAGE = bounce\n"

/* In a child, for there is no way back: the user id under which the database was reached for. */
static void as(const char *config, uid_t want, const char *said)
{
	int status;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		char *out, *err;
		int rc = run(config, "--once", &out, &err);
		uid_t r, e, s;
		gid_t rg, eg, sg;
		bool ok = rc == 0 && db.opened == 1 && db.uid == want && !getresuid(&r, &e, &s) && r == want && e == want && s == want &&
			  strstr(err, said) && !getresgid(&rg, &eg, &sg) && (!want || (rg && eg && sg && setuid(0) < 0));
		if (!ok)
			fprintf(stderr, "status %d, uid %u: %s\n", rc, (unsigned)db.uid, err);
		_exit(!ok);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_account(void **state)
{
	struct passwd *pw = getpwnam("pepsi"), *nobody;
	(void)state;
	if (geteuid() != 0) {
		as(AS(""), geteuid(), "event=sweep");
		return;
	}
	if (pw)
		as(AS(""), pw->pw_uid, "event=sweep");
	else
		as(AS(""), 0, "event=no-account account=\"pepsi\"");
	as(AS("USER = no-such-account\n"), 0, "event=no-account account=\"no-such-account\"");
	nobody = getpwnam("nobody");
	if (nobody)
		as(AS("USER = nobody\n"), nobody->pw_uid, "event=sweep");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_refused, clean), cmocka_unit_test_setup(test_rule, clean),
		cmocka_unit_test_setup(test_once, clean), cmocka_unit_test_setup(test_once_fails, clean),
		cmocka_unit_test_setup(test_service, clean), cmocka_unit_test_setup(test_account, clean),
	};
	return cmocka_run_group_tests_name("cli/failure-bouncer", tests, begin, finish);
}
