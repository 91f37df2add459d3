/* A worker process with a module that misbehaves: the harm ends with its own pass, what was done before it stands, and
 * nothing that looks like an answer is ever given for a pass that did not happen. */
#include "worker/run.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static enum store_rc commit(void *arg, struct store_pass *p, size_t n)
{
	(void)arg;
	for (size_t i = 0; i < n; i++)
		p[i].rc = STORE_OK;
	return STORE_OK;
}

static enum store_rc load(void *arg, struct arena *a, const int64_t *ids, size_t n, uint32_t what, struct store_row **rows,
    size_t *n_rows)
{
	(void)arg;
	(void)a;
	(void)ids;
	(void)n;
	(void)what;
	(void)rows;
	(void)n_rows;
	return STORE_REFUSED; /* content travels along in these tests */
}

static void no_fault(void *arg, const char *option, const char *text)
{
	(void)arg;
	(void)option;
	(void)text;
}

static int worker(const char *variant, int channel)
{
	static const volatile int stop = 0;
	char path[600];
	struct worker_module mod;
	struct pepsi_conf conf;
	struct buf why = BUF_INIT(1024);
	struct config *c = config_thaw(STR_NULL);
	static struct run r;
	snprintf(path, sizeof path, "%s/pepsi-stage-bad-%s.so", STAGES, variant);
	if (!c) { /* an empty configuration has a frozen form of its own */
		struct config_faults *f = config_faults_new();
		c = config_load("/dev/null", f);
	}
	if (!c || module_load(&mod, path, &why) || conf_init(&conf, c, "here", &mod, no_fault, NULL) < 0 ||
	    input_init(&r.in, channel, false))
		return 99;
	struct worker_env env = { .mod = &mod, .conf = &conf, .stage = "here", .any_stage = true, .lifetime_s = 1 };
	r.env = &env;
	r.store = (struct run_store){ NULL, load, commit, NULL };
	r.out_fd = channel;
	r.stop = &stop;
	r.stop_fd = -1;
	dup2(2, 1); /* as worker_main() does */
	return run_loop(&r);
}

/* Starts a worker that finds n messages, and collects what it says until it is gone or has given as many answers as are
 * expected and is quiet. Returns its wait status, or -1 when it still ran and was killed. */
static int play(const char *variant, int n, int answers, char *out, size_t size)
{
	int sv[2], st = 0;
	size_t got = 0;
	bool over = false;
	struct str rcpt = STR("a@b.test");
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	/* before it runs: one that dies of the first would take the others' way with it */
	for (int i = 0; i < n; i++) {
		struct buf b = BUF_INIT(WIRE_DATAGRAM_MAX);
		struct wire_item it = { .id = i + 1, .has_content = true, .rcpts = &rcpt, .n_rcpts = 1, .state = STR("{}") };
		assert_int_equal(wire_put(&b, &it), 0);
		assert_int_equal(send(sv[0], b.p, b.n, MSG_NOSIGNAL), b.n);
		buf_free(&b);
	}
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 64, 64 });
		signal(SIGSEGV, SIG_DFL);
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		dup2(null, 2);
		close(sv[0]);
		_exit(worker(variant, sv[1]));
	}
	close(sv[1]);
	for (;;) {
		struct pollfd p = { .fd = sv[0], .events = POLLIN };
		/* answers that are due get the time that a busy machine takes; that none comes is seen soon */
		if (poll(&p, 1, answers > 0 ? 30000 : 2500) <= 0)
			break;
		ssize_t k = recv(sv[0], out + got, size - got - 1, 0);
		if ((over = k <= 0))
			break;
		for (ssize_t i = 0; i < k; i++) /* one datagram may hold several */
			answers -= out[got + (size_t)i] == '\n';
		got += (size_t)k;
	}
	out[got] = 0;
	if (waitpid(pid, &st, WNOHANG) == 0) {
		/* give a dying one the time to be dead, however busy the machine is */
		for (int i = 0; i < (over ? 1000 : 50) && waitpid(pid, &st, WNOHANG) == 0; i++)
			poll(NULL, 0, 10);
		if (kill(pid, SIGKILL) == 0 && waitpid(pid, &st, 0) == pid)
			st = -1;
	}
	close(sv[0]);
	return st;
}

static void it_dies(void **st)
{
	(void)st;
	char out[4096];
	int w = play("crash", 3, 1, out, sizeof out);
	assert_string_equal(out, "");
	assert_true(w != -1 && (WIFSIGNALED(w) ? WTERMSIG(w) == SIGSEGV : WEXITSTATUS(w) != 0)); /* a sanitizer exits */
	/* an exit in the middle of a pass looks orderly, but answers nothing: the dispatcher counts the answers */
	w = play("exit", 3, 1, out, sizeof out);
	assert_string_equal(out, "");
	assert_true(w != -1 && WIFEXITED(w));
}

static void it_hangs(void **st)
{
	(void)st;
	char out[4096];
	assert_int_equal(play("hang", 2, 0, out, sizeof out), -1); /* killed from outside, as MAX_RUNTIME does */
	assert_string_equal(out, "");
}

static void it_prints_answers_of_its_own(void **st)
{
	(void)st;
	char out[4096];
	assert_int_equal(play("stdout", 2, 2, out, sizeof out), -1);
	assert_string_equal(out, "0 {\"outcome\":\"finish\"}\n0 {\"outcome\":\"finish\"}\n"); /* the host's, not the module's */
}

static void it_leaks_descriptors(void **st)
{
	(void)st;
	char out[8192];
	/* 64 descriptors: the fourth pass finds none; it is paused, and the worker goes on answering */
	assert_int_equal(play("leak", 6, 6, out, sizeof out), -1);
	assert_string_equal(out, "0 {\"outcome\":\"finish\"}\n0 {\"outcome\":\"finish\"}\n0 {\"outcome\":\"fail\",\"error\":\"no more "
	    "descriptors\"}\n0 {\"outcome\":\"fail\",\"error\":\"no more descriptors\"}\n0 {\"outcome\":\"fail\",\"error\":\"no more "
	    "descriptors\"}\n0 {\"outcome\":\"fail\",\"error\":\"no more descriptors\"}\n");
}

static void it_breaks_the_rules(void **st)
{
	(void)st;
	char out[4096];
	assert_int_equal(play("none", 1, 1, out, sizeof out), -1);
	assert_non_null(strstr(out, "0 {\"outcome\":\"fail\",\"error\":\"pepsi-stage-bad-none broke the stage ABI: process() returned PEPSI_OK "
	    "without a terminal"));
	assert_int_equal(play("two-terminals", 1, 1, out, sizeof out), -1);
	assert_non_null(strstr(out, "finish() was called after a terminal"));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(it_dies), cmocka_unit_test(it_hangs),
		cmocka_unit_test(it_prints_answers_of_its_own), cmocka_unit_test(it_leaks_descriptors),
		cmocka_unit_test(it_breaks_the_rules) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
