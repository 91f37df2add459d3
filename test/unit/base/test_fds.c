/* Descriptors beside octets: none, one, as many as fit, more than are wanted (closed), and none left over behind it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/fds.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t open_now(void)
{
	size_t n = 0;
	DIR *d = opendir("/proc/self/fd");
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Sends n descriptors of one file, takes at most max; returns how many came. */
static size_t pass(int sock[2], int file, size_t n, size_t max, int *fds)
{
	static union fds_room room;
	int out[FDS_MAX];
	char octet = 'x';
	struct iovec v = { &octet, 1 };
	struct msghdr h = { .msg_iov = &v, .msg_iovlen = 1 };
	for (size_t i = 0; i < n; i++)
		out[i] = file;
	memset(&room, 0xff, sizeof room);
	fds_attach(&h, &room, out, n);
	assert_int_equal(sendmsg(sock[0], &h, 0), 1);
	h = (struct msghdr){ .msg_iov = &v, .msg_iovlen = 1 };
	memset(&room, 0xff, sizeof room);
	fds_expect(&h, &room);
	assert_int_equal(recvmsg(sock[1], &h, MSG_CMSG_CLOEXEC), 1);
	assert_false(h.msg_flags & MSG_CTRUNC);
	return fds_take(&h, fds, max);
}

static void test_pass(void **state)
{
	static const size_t counts[] = { 0, 1, 2, 3, FDS_MAX - 1, FDS_MAX };
	int sock[2], file = open("/dev/zero", O_RDONLY | O_CLOEXEC), fds[FDS_MAX];
	struct stat a, b;
	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
	assert_int_equal(fstat(file, &a), 0);
	size_t before = open_now();
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		for (size_t max = 0; max <= FDS_MAX; max += max < 3 ? 1 : FDS_MAX - 3) {
			size_t want = counts[i] < max ? counts[i] : max;
			assert_int_equal(pass(sock, file, counts[i], max, fds), want);
			assert_int_equal(open_now(), before + want);
			for (size_t k = 0; k < want; k++) {
				assert_int_equal(fstat(fds[k], &b), 0);
				assert_true(a.st_rdev == b.st_rdev);
				assert_true(fcntl(fds[k], F_GETFD) & FD_CLOEXEC);
				close(fds[k]);
			}
		}
	assert_int_equal(open_now(), before);
	close(sock[0]);
	close(sock[1]);
	close(file);
}

static void test_one(void **state)
{
	static union fds_room room;
	int sock[2];
	char octet = 'x';
	struct iovec v = { &octet, 1 };
	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), 0);
	for (int there = 0; there < 2; there++) {
		struct msghdr h = { .msg_iov = &v, .msg_iovlen = 1 };
		fds_attach_one(&h, &room, there ? sock[0] : -1);
		assert_int_equal(h.msg_controllen != 0, there);
		assert_int_equal(sendmsg(sock[0], &h, 0), 1);
		h = (struct msghdr){ .msg_iov = &v, .msg_iovlen = 1 };
		fds_expect(&h, &room);
		assert_int_equal(recvmsg(sock[1], &h, 0), 1);
		int fd = fds_take_one(&h);
		assert_int_equal(fd >= 0, there);
		if (fd >= 0)
			close(fd);
	}
	close(sock[0]);
	close(sock[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_pass), cmocka_unit_test(test_one) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
