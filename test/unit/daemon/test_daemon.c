/* The spawner's pieces that need no process: its channel and its table. */
#include "daemon/daemon_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void test_channel(void **state)
{
	struct channel_msg m = { .op = CH_STARTED, .token = 7, .pid = 42 }, got;
	int sv[2], fd;
	struct buf b = BUF_INIT(100);
	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	assert_int_equal(channel_recv(sv[1], &got, &fd), 0);
	int memfd = channel_memfd("test", STR("hello"));
	assert_true(memfd >= 0);
	assert_int_equal(channel_send(sv[0], &m, memfd, -1), 0);
	close(memfd);
	m.op = CH_EXITED;
	memset(m.stage, 'x', sizeof m.stage); /* no NUL: the receiver makes one */
	assert_int_equal(channel_send(sv[0], &m, -1, -1), 0);

	assert_int_equal(channel_recv(sv[1], &got, &fd), 1);
	assert_int_equal(got.op, CH_STARTED);
	assert_int_equal(got.token, 7);
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(channel_slurp(fd, &b), 0);
	assert_string_equal(buf_z(&b), "hello");
	close(fd);
	assert_int_equal(channel_recv(sv[1], &got, &fd), 1);
	assert_int_equal(fd, -1);
	assert_int_equal(strlen(got.stage), sizeof got.stage - 1);

	/* a message of another size is a peer out of step */
	assert_int_equal(send(sv[0], "short", 5, 0), 5);
	assert_int_equal(channel_recv(sv[1], &got, &fd), -1);
	close(sv[0]);
	assert_int_equal(channel_recv(sv[1], &got, &fd), -1);
	close(sv[1]);
	buf_free(&b);
}

static void test_slurp_is_bounded(void **state)
{
	char big[200] = { 0 };
	struct buf b = BUF_INIT(100);
	(void)state;
	int fd = channel_memfd("big", str_n(big, sizeof big));
	assert_int_equal(channel_slurp(fd, &b), -1);
	close(fd);
	buf_free(&b);
}

static struct config *configuration(void)
{
	struct config_faults *f = config_faults_new();
	struct config *c = config_load("/dev/null", f);
	config_faults_free(f);
	assert_non_null(c);
	config_set(c, "pepsi", "STATE_DIR", "/tmp/somewhere");
	config_set(c, "stage-init", "PROGRAM", "pepsi-stage-x");
	config_set(c, "stage-init", "PARALLELISM", "100");
	config_set(c, "stage-out", "PROGRAM", "pepsi-stage-y");
	return c;
}

static void test_table(void **state)
{
	static struct table t;
	struct config *c = configuration();
	struct config_faults *f = config_faults_new();
	(void)state;
	assert_int_equal(table_make(&t, c, f), 0);
	assert_true(t.embedded);
	assert_string_equal(t.state_dir, "/tmp/somewhere");
	assert_int_equal(t.n_stages, 2);
	assert_non_null(table_stage(&t, "out"));
	assert_null(table_stage(&t, "nowhere"));
	assert_true(t.max_connections >= 2 * 100); /* a queue and a module connection each */
	if (geteuid() == 0) { /* nothing but the spawner stays root */
		assert_int_not_equal(t.reactor.uid, 0);
		assert_int_not_equal(t.cluster.uid, 0);
		assert_int_not_equal(table_stage(&t, "init")->account.uid, 0);
	} else {
		assert_int_equal(t.reactor.uid, geteuid());
	}
	config_set(c, "pepsi-postgres", "CONFIG", "postgres:///elsewhere");
	assert_int_equal(table_make(&t, c, f), 0);
	assert_false(t.embedded);
	config_faults_free(f);
	config_free(c);
}

static void test_missing_account(void **state)
{
	static struct table t;
	struct config *c = configuration();
	struct config_faults *f = config_faults_new();
	(void)state;
	config_set(c, "stage-out", "USER", "no-such-account-here");
	if (geteuid() != 0) { /* without root there is one account, whatever is written */
		assert_int_equal(table_make(&t, c, f), 0);
	} else {
		assert_int_equal(table_make(&t, c, f), -1);
		assert_int_equal(config_faults_n(f, false), 1);
		assert_non_null(strstr(config_faults_at(f, 0)->text, "no-such-account-here"));
	}
	config_faults_free(f);
	config_free(c);
}

/* Nobody reads at the other end: the spawner, which the reactor may be waiting for, gives up. */
static void test_channel_full(void **state)
{
	struct channel_msg m = { .op = CH_STARTED, .pid = 7 };
	int sv[2], n = 0, fd;
	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	while (n < 100000 && channel_send(sv[0], &m, -1, 0) == 0)
		n++;
	assert_int_equal(errno, ETIMEDOUT);
	assert_in_range(n, 64, 99999); /* the dispatcher's STARTING_MAX relies on it */
	assert_int_equal(channel_recv(sv[1], &m, &fd), 1);
	assert_int_equal(channel_send(sv[0], &m, -1, 0), 0);
	close(sv[0]);
	close(sv[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_channel_full),
		cmocka_unit_test(test_channel),
		cmocka_unit_test(test_slurp_is_bounded),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_missing_account),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
