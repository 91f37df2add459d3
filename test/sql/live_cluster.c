/* The private cluster as the spawner uses it: made, started, migrated; who may become which role; kill -9 of the postmaster and
 * of a backend; stopped with its parent; all in a state folder whose path is too long for a socket. As root the server runs as
 * `nobody` and the test plays a second account. */
#include "store/cluster.h"
#include "store/migrate.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <libpq-fe.h>
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

static char top[64], state_dir[200], conninfo[600];
static struct cluster_paths paths;
static bool root;

static void become_cluster(void)
{
	struct passwd *pw = getpwnam("nobody");

	if (root && (!pw || setgid(pw->pw_gid) < 0 || setuid(pw->pw_uid) < 0))
		_exit(9);
}

static pid_t launch(void)
{
	char me[64], err[600] = "";
	struct cluster_account accounts[1];
	struct passwd *pw = getpwuid(geteuid());
	pid_t pid;

	assert_non_null(pw);
	snprintf(me, sizeof(me), "%s", pw->pw_name);
	accounts[0] = (struct cluster_account){ me, "pepsi,pepsi-ingress" };
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		become_cluster();
		if (cluster_prepare(&paths, accounts, 1, 40, err, sizeof(err)) == 0)
			cluster_exec(&paths, err, sizeof(err));
		fprintf(stderr, "cluster: %s\n", err);
		_exit(1);
	}
	return pid;
}

/* Launches until it answers, as the spawner does: right after a crash the old backends may still be there. */
static pid_t start(void)
{
	int64_t end = clock_mono_us() + 30 * US_PER_S;
	pid_t pid = launch();

	while (cluster_ready(&paths) != 1) {
		assert_true(clock_mono_us() < end);
		usleep(20000);
		if (waitpid(pid, NULL, WNOHANG) == pid) {
			usleep(100000);
			pid = launch();
		}
	}
	return pid;
}

static void stop(pid_t pid, int sig)
{
	int status;

	assert_int_equal(kill(pid, sig), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

static int setup(void **state)
{
	char err[600];
	int n;

	(void)state;
	root = geteuid() == 0;
	log_setup(LOG_LV_ERROR, "test");
	snprintf(top, sizeof(top), "/tmp/pepsi-cluster-XXXXXX");
	if (!mkdtemp(top) || chmod(top, 0755) < 0)
		return -1;
	n = snprintf(state_dir, sizeof(state_dir), "%s/%090d", top, 7);
	if (n < 0 || mkdir(state_dir, 0777) < 0 || chmod(state_dir, 0777) < 0)
		return -1;
	if (cluster_paths_set(&paths, state_dir, err, sizeof(err)) < 0) {
		print_error("%s\n", err);
		return -1;
	}
	return 0;
}

static int teardown(void **state)
{
	char command[400];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s' '%s'", top, paths.socket);
	return system(command);
}

/* As which user can this process (or, as root, the cluster's account) connect? */
static bool can_connect(const char *user, bool as_cluster)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		const char *keys[] = { "dbname", "user", NULL }, *values[] = { conninfo, user, NULL };
		PGconn *pg;

		if (as_cluster)
			become_cluster();
		pg = PQconnectdbParams(keys, values, 1);
		_exit(PQstatus(pg) == CONNECTION_OK ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void migrate(void)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		struct store_params p = { .conninfo = conninfo, .role = "postgres", .name = "pepsi migrate" };
		char err[600] = "";

		become_cluster();
		if (migrate_run(&p, true, err, sizeof(err)) < 0) {
			fprintf(stderr, "%s\n", err);
			_exit(1);
		}
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_life(void **state)
{
	static const char *const settings[] = { "fsync", "full_page_writes", "synchronous_commit", "data_checksums" };
	struct stat st;
	PGresult *res;
	PGconn *pg;
	int64_t begun;
	pid_t pid, guard;
	int status;

	(void)state;
	assert_int_equal(cluster_ready(&paths), 0);
	pid = start();
	cluster_conninfo(&paths, conninfo, sizeof(conninfo));
	assert_non_null(strstr(conninfo, "requirepeer"));
	assert_int_equal(stat(paths.socket, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0711);
	migrate();
	assert_true(can_connect("pepsi", false));
	assert_true(can_connect("pepsi-ingress", false));
	assert_false(can_connect("pepsi-config", false));
	assert_false(can_connect("pepsi-owner", false));
	assert_int_equal(can_connect("postgres", false), !root); /* the superuser is the cluster's account alone */
	assert_true(can_connect("postgres", true));
	assert_int_equal(can_connect("pepsi", true), !root);

	const char *keys[] = { "dbname", "user", NULL }, *values[] = { conninfo, "pepsi", NULL };
	pg = PQconnectdbParams(keys, values, 1);
	assert_int_equal(PQstatus(pg), CONNECTION_OK);
	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
		res = PQexecParams(pg, "SELECT current_setting($1)", 1, NULL, &settings[i], NULL, NULL, 0);
		assert_string_equal(PQgetvalue(res, 0, 0), "on");
		PQclear(res);
	}
	res = PQexec(pg, "SELECT current_setting('listen_addresses') || pg_encoding_to_char(encoding) || current_setting('timezone')"
		" || current_setting('max_connections') FROM pg_database WHERE datname = 'pepsi'");
	assert_string_equal(PQgetvalue(res, 0, 0), "UTF8UTC40");
	PQclear(res);
	res = PQexec(pg, "SELECT pepsi.workqueue_inject('init', '', '{a@b}', 'H: x', 'kept')");
	assert_int_equal(PQresultStatus(res), PGRES_TUPLES_OK);
	PQclear(res);

	/* kill -9 of the postmaster under a session that stays: the next one waits for it, then is there again, with the mail. */
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	pid = start();
	PQfinish(pg);
	migrate();
	pg = PQconnectdbParams(keys, values, 1);
	res = PQexec(pg, "SELECT convert_from(body, 'UTF8') FROM pepsi.workqueue JOIN pepsi.workqueue_body b ON b.id = body_id");
	assert_string_equal(PQgetvalue(res, 0, 0), "kept");
	PQclear(res);

	/* kill -9 of a backend: the server comes back by itself. */
	assert_int_equal(kill((pid_t)PQbackendPID(pg), SIGKILL), 0);
	PQfinish(pg);
	begun = clock_mono_us();
	while (!can_connect("pepsi", false)) {
		assert_true(clock_mono_us() - begun < 30 * US_PER_S);
		usleep(50000);
	}
	stop(pid, SIGINT);
	assert_int_equal(cluster_ready(&paths), 0);

	/* With its parent gone, it goes. */
	guard = fork();
	assert_true(guard >= 0);
	if (guard == 0) {
		start();
		pause();
		_exit(0);
	}
	begun = clock_mono_us();
	while (cluster_ready(&paths) != 1) {
		assert_true(clock_mono_us() - begun < 30 * US_PER_S);
		usleep(20000);
	}
	stop(guard, SIGKILL);
	begun = clock_mono_us();
	while (access(paths.socket, F_OK) == 0 && cluster_ready(&paths) != 0) {
		assert_true(clock_mono_us() - begun < 30 * US_PER_S);
		usleep(20000);
	}
	char pidfile[300];
	snprintf(pidfile, sizeof(pidfile), "%s/postmaster.pid", paths.data);
	while (access(pidfile, F_OK) == 0) {
		assert_true(clock_mono_us() - begun < 30 * US_PER_S);
		usleep(20000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_life) };

	return cmocka_run_group_tests(tests, setup, teardown);
}
