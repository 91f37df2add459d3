/* What a confined process can still do. Each case is a child, since a filter is for good; it reports by its exit status. */
#include "worker/confine.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { NO_FILTERS = 99 };

static int in_child(bool helpers, int (*fn)(void))
{
	int st = -1;
	pid_t pid = fork();
	if (pid == 0) {
		alarm(60);
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || confine(helpers))
			_exit(NO_FILTERS);
		_exit(fn());
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_true(WIFEXITED(st));
	if (WEXITSTATUS(st) == NO_FILTERS)
		skip();
	return WEXITSTATUS(st);
}

/* 0: refused, as it ought to be; else a number that tells which was not. */
static int hurts_others(void)
{
	if (kill(getppid(), 0) == 0 || errno != EPERM)
		return 1;
	if (kill(-1, 0) == 0 || kill(0, 0) == 0)
		return 2;
	if (setsid() >= 0 || setpgid(0, 0) == 0)
		return 3;
	if (kill(getpid(), 0) || raise(0))
		return 4; /* itself it may */
	return 0;
}

static void *nothing(void *arg)
{
	return arg;
}

static int threads(void)
{
	pthread_t t;
	void *got = NULL;
	int token = 0;
	return pthread_create(&t, NULL, nothing, &token) || pthread_join(t, &got) || got != &token;
}

static int child_of_its_own(void)
{
	int st = 0;
	pid_t pid = fork();
	if (pid == 0)
		for (;;)
			pause();
	return pid < 0 ? 1 : kill(pid, SIGKILL) ? 2 : waitpid(pid, &st, 0) != pid;
}

static int executes(void)
{
	static char *const argv[] = { "true", NULL }, *const envp[] = { NULL };
	execve("/bin/true", argv, envp);
	return errno == EPERM ? 7 : 8;
}

static void test_alone(void **state)
{
	(void)state;
	assert_int_equal(in_child(false, hurts_others), 0);
	assert_int_equal(in_child(false, threads), 0);
#ifndef PEPSI_SANITIZED
	assert_int_equal(in_child(false, child_of_its_own), 1);
	assert_int_equal(in_child(false, executes), 7);
#endif
}

static void test_with_helpers(void **state)
{
	(void)state;
	assert_int_equal(in_child(true, child_of_its_own), 0);
	assert_int_equal(in_child(true, executes), 0);
	assert_int_equal(in_child(true, threads), 0);
}

#ifndef PEPSI_SANITIZED
static int traces(void)
{
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
}

static void test_no_tracing(void **state)
{
	(void)state;
	assert_int_equal(in_child(true, traces), 0);
	assert_int_equal(in_child(false, traces), 0);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_with_helpers),
#ifndef PEPSI_SANITIZED
		cmocka_unit_test(test_no_tracing),
#endif
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
