/* What a child opens for a reload, and sockets that systemd passes: the real processes, without a daemon around them. */
#include "daemon/daemon_internal.h"

#include "net/listener.h"

#include <event2/event.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/pepsi-grant-XXXXXX";

static void over(void *arg)
{
	event_base_loopbreak(arg);
}

static void put(const char *name, const char *text)
{
	char path[128];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static struct config *configuration(struct buf *blob)
{
	char path[128];
	snprintf(path, sizeof path, "%s/t.conf", dir);
	struct config *c = config_load(path, NULL);
	assert_non_null(c);
	assert_int_equal(config_freeze(c, blob), 0);
	return c;
}

static void test_grants(void **state)
{
	(void)state;
	static const struct boot boot = { .log_level = 0 };
	struct buf blob = BUF_INIT(1 << 20), text = BUF_INIT(1 << 20);
	struct event_base *base = event_base_new();
	char conf[1024], path[128], err[256], here[32];
	int fd[4];
	fd[0] = net_listen("127.0.0.1", 0, err, sizeof err);
	snprintf(here, sizeof here, "127.0.0.1:%u", net_listen_port(fd[0]));
	close(fd[0]);
	snprintf(conf, sizeof conf,
	    "[listener-a]\nBIND = %s 192.0.2.77:25 unix:%s/sock systemd:none\nTLS_CERT = %s/cert\nTLS_KEY = %s/key\n"
	    "[listener-b]\nBIND = [::ffff]:x\nTLS_CERT = %s/cert\n[stage-init]\nTLS_CERT = %s/secret\n",
	    here, dir, dir, dir, dir, dir);
	put("t.conf", conf);
	put("cert", "a certificate");
	put("secret", "not asked for by a listener");
	struct config *c = configuration(&blob);
	int sock = grant_start(&boot, buf_str(&blob));
	assert_true(sock >= 0);
	struct grants *g = grants_new(base, sock, over, base);
	assert_non_null(g);
	event_base_dispatch(base);
	while (waitpid(-1, NULL, 0) > 0)
		;
	struct ingress_supply s = grants_supply(g);
	snprintf(path, sizeof path, "%s/cert", dir);
	for (unsigned i = 0; i < 2; i++) { /* as often as it is wanted */
		buf_reset(&text);
		assert_int_equal(s.file(s.arg, path, &text, err, sizeof err), 0);
		assert_string_equal(buf_z(&text), "a certificate");
	}
	snprintf(path, sizeof path, "%s/key", dir);
	assert_int_equal(s.file(s.arg, path, &text, err, sizeof err), -1);
	assert_non_null(strstr(err, "No such file"));
	snprintf(path, sizeof path, "%s/secret", dir);
	assert_int_equal(s.file(s.arg, path, &text, err, sizeof err), -1);
	struct ingress_bind b = { .word = str_from(here) };
	if (s.sockets(s.arg, &b, fd, 4, err, sizeof err) != 1)
		fail_msg("%s", err);
	assert_int_equal(net_listen_adopt(fd[0], err, sizeof err), 0);
	assert_true(fcntl(fd[0], F_GETFD) & FD_CLOEXEC);
	close(fd[0]);
	assert_int_equal(s.sockets(s.arg, &b, fd, 4, err, sizeof err), -1); /* given once */
	b.word = STR("192.0.2.77:25");
	assert_int_equal(s.sockets(s.arg, &b, fd, 4, err, sizeof err), -1);
	assert_true(strlen(err) > 0);
	b.word = STR("systemd:none");
	assert_int_equal(s.sockets(s.arg, &b, fd, 4, err, sizeof err), -1);
	assert_non_null(strstr(err, "systemd passed no sockets"));
	grants_release(g);
	snprintf(path, sizeof path, "unix:%s/sock", dir);
	b.word = str_from(path);
	assert_int_equal(s.sockets(s.arg, &b, fd, 4, err, sizeof err), -1); /* closed with the rest */
	assert_int_equal(unlink(path + 5), 0);
	grants_free(g);
	config_free(c);
	buf_free(&blob);
	buf_free(&text);
	event_base_free(base);
}

/* A child that dies in the middle is an end, too. */
static void test_grants_cut(void **state)
{
	(void)state;
	struct event_base *base = event_base_new();
	int sv[2], fd[1];
	char err[256];
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	struct grants *g = grants_new(base, sv[0], over, base);
	assert_int_equal(send(sv[1], "?", 1, 0), 1);
	close(sv[1]);
	event_base_dispatch(base);
	struct ingress_supply s = grants_supply(g);
	const struct ingress_bind b = { .word = STR("127.0.0.1:25") };
	assert_int_equal(s.sockets(s.arg, &b, fd, 1, err, sizeof err), -1);
	grants_free(g);
	event_base_free(base);
}

/* In a child of its own: it takes descriptors from 3 on. */
static int passed(const char *fds, const char *names, bool for_us, struct ingress_inherited *in)
{
	char pid[32];
	int s[2];
	close_range(3, ~0u, 0);
	for (int i = 0; i < 2; i++)
		if ((s[i] = net_listen("127.0.0.1", 0, pid, sizeof pid)) != 3 + i)
			return -2;
	snprintf(pid, sizeof pid, "%d", (int)(for_us ? getpid() : getppid()));
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", fds, 1);
	if (names)
		setenv("LISTEN_FDNAMES", names, 1);
	int r = inherited_take(in);
	return getenv("LISTEN_FDS") || getenv("LISTEN_PID") || getenv("LISTEN_FDNAMES") ? -2 : r;
}

static bool holds(const struct ingress_inherited *in, size_t n, const char *first, const char *second)
{
	char err[200];
	if (in->n != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (in->of[i].fd != INHERITED_FIRST + (int)i || !(fcntl(in->of[i].fd, F_GETFD) & FD_CLOEXEC) ||
		    net_listen_adopt(in->of[i].fd, err, sizeof err))
			return false;
	return n == 0 || (strcmp(in->of[0].name, first) == 0 && strcmp(in->of[1].name, second) == 0);
}

static void test_inherited(void **state)
{
	(void)state;
	static const struct {
		const char *fds, *names;
		bool for_us;
		int r;
		size_t n;
		const char *first, *second;
	} cases[] = {
		{ "2", "smtp:lmtp", true, 0, 2, "smtp", "lmtp" },
		{ "2", "smtp", true, 0, 2, "smtp", "unknown" },
		{ "2", NULL, true, 0, 2, "unknown", "unknown" },
		{ "2", "smtp:lmtp", false, 0, 0, "", "" },
		{ "0", "", true, 0, 0, "", "" },
		{ "65", "", true, -1, 0, "", "" },
		{ "x", "", true, -1, 0, "", "" },
		{ "3", "", true, -1, 2, NULL, NULL }, /* fewer than told */
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		pid_t pid = fork();
		if (!pid) {
			static struct ingress_inherited in;
			int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
			dup2(null, 2); /* what it logs is not the test's */
			int r = passed(cases[i].fds, cases[i].names, cases[i].for_us, &in);
			_exit(r == cases[i].r && (r || holds(&in, cases[i].n, cases[i].first, cases[i].second)) ? 0 : 1);
		}
		int status = -1;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (status)
			fail_msg("case %zu: status 0x%x", i, status);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_grants), cmocka_unit_test(test_grants_cut), cmocka_unit_test(test_inherited) };
	if (!mkdtemp(dir))
		return 1;
	int r = cmocka_run_group_tests(tests, NULL, NULL);
	static const char *const files[] = { "t.conf", "cert", "secret" };
	for (unsigned i = 0; i < 3; i++) {
		char path[128];
		snprintf(path, sizeof path, "%s/%s", dir, files[i]);
		unlink(path);
	}
	rmdir(dir);
	return r;
}
