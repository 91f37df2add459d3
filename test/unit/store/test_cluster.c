/* Where the private cluster lies, and what cluster_prepare() makes of folders it finds; initdb is a script here, so that the
 * dangerous half (never to wipe what may be somebody's mail) is tested without a server. */
#include "store/cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char top[64], bin[100], state_dir[100];

static void put(const char *path, const char *text, int mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, (mode_t)mode), 0);
	close(fd);
}

static const char *path(const char *name)
{
	static char out[4][300];
	static unsigned n;
	char *p = out[n++ % 4];

	snprintf(p, sizeof(out[0]), "%s/%s", state_dir, name);
	return p;
}

static bool exists(const char *name)
{
	struct stat st;

	return lstat(path(name), &st) == 0;
}

static void run(const char *format)
{
	char command[400];

	snprintf(command, sizeof(command), "cd '%s' && %s", state_dir, format);
	assert_int_equal(system(command), 0);
}

static int setup(void **state)
{
	char script[160];

	(void)state;
	snprintf(top, sizeof(top), "/tmp/pepsi-unit-XXXXXX");
	if (!mkdtemp(top) || chmod(top, 0755) < 0)
		return -1;
	snprintf(bin, sizeof(bin), "%s/bin", top);
	snprintf(state_dir, sizeof(state_dir), "%s/state", top);
	if (mkdir(bin, 0755) < 0 || mkdir(state_dir, 0777) < 0 || chmod(state_dir, 0777) < 0)
		return -1;
	snprintf(script, sizeof(script), "%s/postgres", bin);
	put(script, "#!/bin/sh\n", 0755);
	snprintf(script, sizeof(script), "%s/initdb", bin);
	/* Dies half-way when told so. */
	put(script, "#!/bin/sh\nmkdir -p \"$2/base/1\" && echo x >\"$2/base/1/f\" || exit 1\necho 15 >\"$2/PG_VERSION\"\n"
		"[ ! -e \"$2/../../die\" ] || { echo 'no more room' >&2; exit 1; }\n[ ! -e \"$2/../../hang\" ] || kill -9 $$\n", 0755);
	setenv("PEPSI_PG_BIN", bin, 1);
	return 0;
}

static int teardown(void **state)
{
	char command[200];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", top);
	return system(command);
}

static void fresh(void)
{
	run("rm -rf postgres run die hang");
}

/* In a child that is not root, as always. Its text comes back by a pipe. */
static int prepare(const struct cluster_account *accounts, size_t n, unsigned max_connections, char *err)
{
	struct cluster_paths p;
	int fds[2], status;
	pid_t pid;
	ssize_t r;

	if (cluster_paths_set(&p, state_dir, err, 600) < 0)
		return -1;
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		char text[600] = "";
		int rc;

		if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
			_exit(3);
		rc = cluster_prepare(&p, accounts, n, max_connections, text, sizeof(text));
		(void)!write(fds[1], text, strlen(text));
		_exit(rc == 0 ? 0 : 1);
	}
	close(fds[1]);
	r = read(fds[0], err, 599);
	err[r > 0 ? r : 0] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
	return WEXITSTATUS(status) == 0 ? 0 : -1;
}

static void test_paths(void **state)
{
	struct cluster_paths p, q;
	char err[600], conninfo[600], deep[300];

	(void)state;
	assert_int_equal(cluster_paths_set(&p, state_dir, err, sizeof(err)), 0);
	assert_string_equal(p.socket, path("run"));
	assert_string_equal(p.data, path("postgres"));
	assert_string_equal(p.bin, bin);
	cluster_conninfo(&p, conninfo, sizeof(conninfo));
	assert_non_null(strstr(conninfo, "dbname=pepsi"));
	/* Too long for a socket: a short folder, the same each time, another one for another state folder. */
	snprintf(deep, sizeof(deep), "%s/%090d", state_dir, 1);
	assert_int_equal(mkdir(deep, 0755), 0);
	assert_int_equal(cluster_paths_set(&p, deep, err, sizeof(err)), 0);
	assert_true(strlen(p.socket) + sizeof("/.s.PGSQL.5432") <= 108 && !strncmp(p.socket, "/tmp/pepsi-", 11));
	assert_int_equal(cluster_paths_set(&q, deep, err, sizeof(err)), 0);
	assert_string_equal(p.socket, q.socket);
	snprintf(deep, sizeof(deep), "%s/%090d", state_dir, 2);
	assert_int_equal(cluster_paths_set(&q, deep, err, sizeof(err)), 0);
	assert_string_not_equal(p.socket, q.socket);
	snprintf(deep, sizeof(deep), "/%0255d", 1);
	assert_int_equal(cluster_paths_set(&p, deep, err, sizeof(err)), -1);
	assert_non_null(strstr(err, "too long"));
	assert_int_equal(cluster_paths_set(&p, "/tmp/it's", err, sizeof(err)), -1);
	setenv("PEPSI_PG_BIN", "/nonexistent", 1);
	assert_int_equal(cluster_paths_set(&p, state_dir, err, sizeof(err)), -1);
	assert_non_null(strstr(err, "PEPSI_PG_BIN"));
	setenv("PEPSI_PG_BIN", bin, 1);
}

static void test_make(void **state)
{
	const struct cluster_account a[] = { { "alice", "pepsi,pepsi-ingress" }, { "root", "pepsi" } };
	struct stat st;
	char err[600];

	(void)state;
	fresh();
	if (prepare(a, 2, 50, err) < 0)
		fail_msg("%s", err);
	assert_true(exists("postgres/PG_VERSION") && exists("postgres/base/1/f"));
	assert_false(exists("postgres/initdb.partial") || exists("postgres/initdb.new"));
	assert_int_equal(stat(path("postgres"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(stat(path("run"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	run("grep -qx 'local all all peer map=pepsi' postgres/pg_hba.conf && [ $(grep -c ^local postgres/pg_hba.conf) = 1 ]");
	run("grep -qx 'pepsi \"alice\" \"pepsi-ingress\"' postgres/pg_ident.conf && grep -qx 'pepsi \"root\" \"pepsi\"' postgres/pg_ident.conf");
	run("! grep -q 'alice.*postgres' postgres/pg_ident.conf");
	run("for s in 'fsync = on' 'full_page_writes = on' 'synchronous_commit = on' \"listen_addresses = ''\" 'max_connections = 50'; do"
	    " sed -n '/include_if_exists/,$p' postgres/postgresql.conf | grep -qx \"$s\" || exit 1; done");
	/* Again: the data stays, the operator's file stays, ours is written anew. */
	run("echo mine >postgres/local.conf; echo mail >postgres/base/1/f; echo broken >postgres/pg_hba.conf");
	assert_int_equal(prepare(a, 1, 60, err), 0);
	run("grep -q mine postgres/local.conf && grep -q mail postgres/base/1/f && grep -q peer postgres/pg_hba.conf && ! grep -q root postgres/pg_ident.conf");
}

/* A killed or failed initdb is made good; a data folder that lost PG_VERSION is never touched. */
static void test_half_made(void **state)
{
	char err[600];

	(void)state;
	fresh();
	run("touch die");
	assert_int_equal(prepare(NULL, 0, 50, err), -1);
	assert_non_null(strstr(err, "no more room"));
	run("rm die; touch hang");
	assert_int_equal(prepare(NULL, 0, 50, err), -1);
	assert_false(exists("postgres/PG_VERSION"));
	assert_true(exists("postgres/initdb.partial"));
	run("rm hang; mkdir -p postgres/base/2 && chown -R --reference=postgres postgres/base"); /* as if killed while moving up */
	if (prepare(NULL, 0, 50, err) < 0)
		fail_msg("%s", err);
	assert_true(exists("postgres/PG_VERSION") && !exists("postgres/base/2") && !exists("postgres/initdb.partial"));
	run("rm postgres/PG_VERSION");
	assert_int_equal(prepare(NULL, 0, 50, err), -1);
	assert_non_null(strstr(err, "PG_VERSION is missing"));
	assert_true(exists("postgres/base/1/f"));
}

static void test_refused(void **state)
{
	const struct cluster_account evil[] = { { "a\" \"postgres", "pepsi" } }, pattern[] = { { "/^.*$", "pepsi" } }, role[] = { { "a", "pe\"psi" } };
	struct cluster_paths p;
	char err[600];

	(void)state;
	fresh();
	assert_int_equal(prepare(evil, 1, 50, err), -1);
	assert_int_equal(prepare(pattern, 1, 50, err), -1);
	assert_int_equal(prepare(role, 1, 50, err), -1);
	assert_int_equal(prepare(NULL, 0, 0, err), -1);
	fresh();
	run("mkdir elsewhere && chmod 777 elsewhere && ln -s elsewhere postgres");
	assert_int_equal(prepare(NULL, 0, 50, err), -1);
	fresh();
	run("mkdir run && chmod 777 run");
	assert_int_equal(prepare(NULL, 0, 50, err), -1);
	assert_non_null(strstr(err, "everybody"));
	fresh();
	if (geteuid() == 0) {
		assert_int_equal(cluster_paths_set(&p, state_dir, err, sizeof(err)), 0);
		assert_int_equal(cluster_prepare(&p, NULL, 0, 50, err, sizeof(err)), -1);
		assert_non_null(strstr(err, "root"));
		run("mkdir postgres"); /* somebody else's */
		assert_int_equal(prepare(NULL, 0, 50, err), -1);
		assert_non_null(strstr(err, "belongs to"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_paths), cmocka_unit_test(test_make), cmocka_unit_test(test_half_made),
		cmocka_unit_test(test_refused) };

	return cmocka_run_group_tests(tests, setup, teardown);
}
