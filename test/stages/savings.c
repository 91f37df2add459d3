/* What fusion and batching save, counted on a real server: the worker's loop, modules loaded from their files, the
 * worker's connection. The counts are those of core/store, held against what the server itself says happened to rows. */
#include "worker/fuse.h"
#include "worker/page.h"
#include "worker/run.h"

#include "../sql/live.h"
#include "store/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { N = 50 };

static struct {
	struct config *c;
	struct store_worker *sw;
	struct worker_module mod;
	struct pepsi_conf conf;
	struct worker_env env;
	struct run *r;
	int fd;
	struct store_worker_counts before;
	long long updates, deletes;
	char path[64];
} w;

static enum store_rc load(void *arg, struct arena *a, const int64_t *ids, size_t n, uint32_t what, struct store_row **rows, size_t *n_rows)
{
	return store_worker_load(arg, a, ids, n, what, rows, n_rows);
}

static enum store_rc commit(void *arg, struct store_pass *p, size_t n)
{
	return store_worker_commit(arg, p, n);
}

static struct pg_conn *no_database(void *arg)
{
	(void)arg;
	return NULL;
}

static void fault(void *arg, const char *option, const char *text)
{
	(void)arg;
	fail_msg("%s: %s", option, text);
}

/* What the server did to rows of the queue, all sessions, flushed or not. */
static long long rows_changed(const char *how)
{
	char sql[200];
	live_sql("SELECT pg_stat_clear_snapshot()");
	snprintf(sql, sizeof sql, "SELECT n_tup_%s FROM pg_stat_user_tables WHERE schemaname = 'pepsi' AND relname = 'workqueue'", how);
	return live_sql_int(sql);
}

/* Since play(). The session that did it has to be gone, and its counters to have arrived. */
static void server_says(long long updates, long long deletes)
{
	long long u = 0, d = 0;
	for (int i = 0; i < 200; i++) {
		if (live_sql_int("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pepsi test' AND usename = 'pepsi'") == 0) {
			u = rows_changed("upd") - w.updates;
			d = rows_changed("del") - w.deletes;
			if (u == updates && d == deletes)
				return;
		}
		usleep(10000);
	}
	fail_msg("the server changed %lld rows and deleted %lld", u, d);
}

static void begin(const char *conf, const char *stage)
{
	static const volatile int stop = 0;
	struct store_params p = live_params("pepsi");
	struct config_faults *faults = config_faults_new();
	struct buf why = BUF_INIT(1000);
	char file[600], section[100];
	int sv[2];
	memset(&w, 0, sizeof w);
	snprintf(w.path, sizeof w.path, "/tmp/pepsi-unit-XXXXXX");
	FILE *f = fdopen(mkstemp(w.path), "w");
	assert_non_null(f);
	fprintf(f, "[pepsi]\nHOSTNAME = mx.example.test\nMODULE_PATH = %s\n%s", STAGES, conf);
	fclose(f);
	assert_non_null(w.c = config_load(w.path, faults));
	assert_int_equal(config_faults_n(faults, true), 0);
	config_faults_free(faults);
	snprintf(section, sizeof section, "stage-%s", stage);
	snprintf(file, sizeof file, "%s/%s.so", STAGES, config_str(w.c, section, "PROGRAM"));
	if (module_load(&w.mod, file, &why))
		fail_msg("%s", buf_z(&why));
	assert_int_equal(conf_init(&w.conf, w.c, stage, &w.mod, fault, NULL), 0);
	fuse_env(&w.env, w.c, &w.mod, &w.conf);
	w.sw = store_worker_new(&p, false);
	w.r = calloc(1, sizeof *w.r);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	assert_int_equal(input_init(&w.r->in, sv[1], false), 0);
	w.fd = sv[0];
	w.r->env = &w.env;
	w.r->c = w.c;
	w.r->store = (struct run_store){ w.sw, load, commit, NULL };
	w.r->out_fd = sv[1];
	w.r->stop = &stop;
	w.r->stop_fd = -1;
	w.r->fuse = fuse_new(&w.env, &(struct fuse_setup){ w.c, no_database, NULL, &stop, run_before_hop, w.r, NULL, NULL });
	live_sql("DELETE FROM pepsi.workqueue");
	if (w.mod.stage.open)
		assert_int_equal(w.mod.stage.open(&worker_host, &w.conf, &w.env.state), PEPSI_OK);
}

static void end(void)
{
	if (w.mod.stage.close)
		w.mod.stage.close(w.env.state);
	fuse_free(w.r->fuse);
	close(w.r->in.fd);
	close(w.fd);
	run_done(w.r);
	free(w.r);
	store_worker_free(w.sw); /* its session ends, and the server's counters with it are complete */
	conf_done(&w.conf);
	module_done(&w.mod);
	config_free(w.c);
	unlink(w.path);
}

static int64_t add(const char *stage)
{
	char sql[300];
	snprintf(sql, sizeof sql, "SELECT pepsi.workqueue_add(nextval('pepsi.workqueue_id_seq'), '%s', true, now(), 'from@x', '{r0@x,r1@x}', '{}',"
		" E'H: 1\\r\\n', 'body')", stage);
	return live_sql_int(sql);
}

/* n rows at `stage` through the worker, all pipelined; with_content: as the ingress hands them over. */
static void play(const char *stage, int n, bool with_content)
{
	struct str rcpts[] = { STR_INIT("r0@x"), STR_INIT("r1@x") };
	for (int i = 0; i < n; i++) {
		struct buf b = BUF_INIT(WIRE_DATAGRAM_MAX);
		struct wire_item it = { .id = add(stage), .has_content = with_content, .mail_from = STR("from@x"), .rcpts = rcpts, .n_rcpts = 2,
			.state = STR("{}"), .headers = STR("H: 1\r\n"), .body = STR("body"), .body_size = 4 };
		assert_int_equal(wire_put(&b, &it), 0);
		assert_int_equal(send(w.fd, b.p, b.n, 0), b.n);
		buf_free(&b);
	}
	w.updates = rows_changed("upd");
	w.deletes = rows_changed("del");
	w.before = store_worker_count(w.sw);
	w.r->max_messages = (uint64_t)n;
	assert_int_equal(run_loop(w.r), 0);
}

static void cost_is(uint64_t selects, uint64_t writes, uint64_t trips)
{
	struct store_worker_counts now = store_worker_count(w.sw);
	if (now.selects - w.before.selects != selects || now.writes - w.before.writes != writes || now.trips - w.before.trips != trips)
		fail_msg("%llu SELECTs, %llu UPDATEs or DELETEs, %llu round trips; expected %llu, %llu, %llu",
		    (unsigned long long)(now.selects - w.before.selects), (unsigned long long)(now.writes - w.before.writes),
		    (unsigned long long)(now.trips - w.before.trips), (unsigned long long)selects, (unsigned long long)writes, (unsigned long long)trips);
}

static const char five[] =
    "[stage-init]\nPROGRAM = pepsi-stage-step\nNEXT_STAGE = two\n[stage-two]\nPROGRAM = pepsi-stage-step-headers\nWRITE = headers state\n"
    "NEXT_STAGE = three\n[stage-three]\nPROGRAM = pepsi-stage-step\nWRITE = sender\nNEXT_STAGE = four\n"
    "[stage-four]\nPROGRAM = pepsi-stage-step-headers\nWRITE = state\nNEXT_STAGE = five\n[stage-five]\nPROGRAM = pepsi-stage-step-full\n";

static void a_chain_of_five_is_one_delete(void **st)
{
	(void)st;
	begin(five, "init");
	play("init", 1, true); /* as it comes from the ingress: not even a SELECT */
	cost_is(0, 1, 1);
	end();
	server_says(0, 1);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue"), 0);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue_body"), 0);
	live_check_books();
}

static void from_the_table_one_select_and_one_delete(void **st)
{
	(void)st;
	/* a row that is read is read by the first stage's class; this one loads all */
	char conf[sizeof five + 100];
	snprintf(conf, sizeof conf, "[stage-init]\nPROGRAM = pepsi-stage-step-full\nNEXT_STAGE = two\n%s", strstr(five, "[stage-two]"));
	begin(conf, "init");
	play("init", 1, false);
	cost_is(1, 1, 2);
	end();
	server_says(0, 1);
	live_check_books();
}

static void a_chain_that_goes_on_is_one_update(void **st)
{
	(void)st;
	char conf[sizeof five + 200];
	/* the last stage needs the body, which a METADATA stage's SELECT did not bring: it is left to its own workers */
	snprintf(conf, sizeof conf, "%sNEXT_STAGE = init\n", five);
	begin(conf, "init");
	play("init", 1, false);
	cost_is(1, 1, 2);
	end();
	/* init is METADATA, two is HEADERS: not loaded either */
	assert_string_equal(live_sql("SELECT stage || ' ' || status FROM pepsi.workqueue"), "two pending");
	server_says(1, 0);
	live_check_books();
	/* off: the same by configuration, content or not */
	snprintf(conf, sizeof conf, "ALLOW_FUSION = NO\n%s", five);
	begin(conf, "init");
	play("init", 1, true);
	cost_is(0, 1, 1);
	end();
	assert_string_equal(live_sql("SELECT stage || ' ' || status FROM pepsi.workqueue"), "two pending");
	/* a stage that says no for itself, one under another account, and one whose can_fuse() declines */
	static const char *const no[] = { "ALLOW_FUSION = NO\n", "USER = nobody\n", "GROUPS = mail\n", "MEMORY_LIMIT = 2 GiB\n", "FUSE = NO\n" };
	for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
		const char *three = strstr(five, "[stage-three]\n");
		snprintf(conf, sizeof conf, "%.*s%s%s", (int)(three - five), five, no[i], three);
		begin(conf, "init");
		play("init", 1, true);
		cost_is(0, 1, 1);
		end();
		assert_string_equal(live_sql("SELECT stage || ' ' || status FROM pepsi.workqueue"), "two pending");
	}
}

/* Everything that the chain wrote is in the row it ends in. */
static void what_the_chain_wrote(void **st)
{
	(void)st;
	char conf[sizeof five + 200];
	snprintf(conf, sizeof conf, "%sWRITE = body\nNEXT_STAGE = last\n[stage-last]\nPROGRAM = pepsi-stage-step\nALLOW_FUSION = NO\n", five);
	begin(conf, "init");
	play("init", 1, true);
	cost_is(0, 1, 1);
	end();
	assert_string_equal(live_sql("SELECT stage || ' ' || status || ' ' || mail_from || ' ' || (state ->> 'two') || (state ->> 'four') FROM pepsi.workqueue"),
	    "last pending three@x yesyes");
	assert_string_equal(live_sql("SELECT convert_from(headers, 'UTF8') FROM pepsi.workqueue"), "X-Stage: two\r\n");
	assert_string_equal(live_sql("SELECT convert_from(body, 'UTF8') FROM pepsi.workqueue_body"), "five\r\n");
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue_body"), 1);
	live_check_books();
}

/* N messages of a METADATA stage: one SELECT, and one UPDATE per kind of outcome, in two round trips. */
static void a_batch_is_two_round_trips(void **st)
{
	(void)st;
	begin("[stage-init]\nPROGRAM = pepsi-stage-step\nNEXT_STAGE = next\n[stage-next]\nPROGRAM = pepsi-stage-step\nALLOW_FUSION = NO\n", "init");
	play("init", N, false);
	cost_is(1, 1, 2);
	end();
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue WHERE stage = 'next' AND status = 'pending'"), N);
	assert_int_equal(live_sql_int("SELECT count(DISTINCT xmin::text) FROM pepsi.workqueue"), 1);
	/* by process_batch(), to divergent targets and with divergent outcomes: moves, pauses with state, a new sender, deletes */
	begin("[stage-init]\nPROGRAM = pepsi-stage-step-batch\nNEXT_STAGE = next\n[stage-next]\nPROGRAM = pepsi-stage-step\nALLOW_FUSION = NO\n"
	      "[stage-other]\nPROGRAM = pepsi-stage-step\nALLOW_FUSION = NO\n", "init");
	play("init", N, false);
	cost_is(1, 4, 2);
	end();
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue WHERE stage = 'next' AND status = 'pending'"), N / 5 * 2);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue WHERE stage = 'other' AND status = 'pending'"), N / 5);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue WHERE stage = 'init' AND status = 'paused' AND state ->> 'attempts' = '1'"), N / 5);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue WHERE mail_from = 'batch@x'"), N / 5);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue"), N / 5 * 4);
	live_check_books();
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_chain_of_five_is_one_delete), cmocka_unit_test(from_the_table_one_select_and_one_delete),
		cmocka_unit_test(a_chain_that_goes_on_is_one_update), cmocka_unit_test(what_the_chain_wrote), cmocka_unit_test(a_batch_is_two_round_trips) };
	return cmocka_run_group_tests(tests, live_setup, live_teardown);
}
