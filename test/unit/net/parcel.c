/* Parcels: what is sent comes as it was, of every size around the border between datagram and memfd; what is none is refused, and no
 * descriptor is lost on the way. */
#include "net/parcel.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { BORDER = 128 * 1024, MOST = 1 << 20 };

static int sv[2];

static unsigned open_files(void)
{
	unsigned n = 0;
	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static int begin(void **st)
{
	(void)st;
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv);
}

static int end(void **st)
{
	(void)st;
	close(sv[0]);
	close(sv[1]);
	return 0;
}

static void there(void **st)
{
	static const size_t sizes[] = { 0, 1, 1000, BORDER - 1, BORDER, BORDER + 1, MOST };
	struct buf in = BUF_INIT(MOST), out = BUF_INIT(MOST);
	unsigned files = open_files();
	int body;
	(void)st;
	char *p = buf_room(&in, MOST);
	for (size_t i = 0; i < MOST; i++)
		p[i] = (char)(i * 31 + i / 251);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (unsigned with = 0; with < 2; with++) {
			int fd = with ? net_sealed_new("body", STR("the body")) : -1;
			assert_int_equal(net_parcel_send(sv[0], str_n(p, sizes[i]), fd), 1);
			if (fd >= 0)
				close(fd); /* it was borrowed, and travels on */
			buf_reset(&out);
			buf_addz(&out, "what was in it before");
			assert_int_equal(net_parcel_recv(sv[1], &out, &body), 1);
			assert_true(str_eq(buf_str(&out), str_n(p, sizes[i])));
			assert_int_equal(body >= 0, with);
			if (with) {
				assert_true(net_sealed(body, 8) && !net_sealed(body, 7) && !net_sealed(body, 9));
				assert_true(fcntl(body, F_GETFD) & FD_CLOEXEC);
				close(body);
			}
			assert_int_equal(net_parcel_recv(sv[1], &out, &body), 0); /* and nothing more */
			assert_int_equal(body, -1);
		}
	/* the receiver's limit counts, in both forms */
	struct buf small = BUF_INIT(BORDER + 1);
	assert_int_equal(net_parcel_send(sv[0], str_n(p, BORDER + 2), -1), 1);
	assert_int_equal(net_parcel_recv(sv[1], &small, &body), -1);
	assert_int_equal(open_files(), files);
	buf_free(&small);
	buf_free(&in);
	buf_free(&out);
}

/* A full socket is no error, and a closed one is. */
static void no_way(void **st)
{
	struct buf out = BUF_INIT(MOST);
	int body, r = 1, n = 0;
	static char block[100000];
	(void)st;
	while ((r = net_parcel_send(sv[0], str_n(block, sizeof block), -1)) == 1)
		n++;
	assert_true(r == 0 && n > 0);
	for (int i = 0; i < n; i++)
		assert_int_equal(net_parcel_recv(sv[1], &out, &body), 1);
	assert_int_equal(net_parcel_recv(sv[1], &out, &body), 0);
	assert_int_equal(net_parcel_send(sv[0], STR("x"), -1), 1);
	close(sv[0]);
	assert_int_equal(net_parcel_recv(sv[1], &out, &body), 1); /* what was sent before the end still comes */
	assert_int_equal(net_parcel_recv(sv[1], &out, &body), -1);
	assert_int_equal(net_parcel_send(sv[1], STR("x"), -1), -1);
	sv[0] = -1;
	buf_free(&out);
}

/* A datagram as somebody writes it who has no good intentions. */
static void raw(const void *p, size_t n, const int *fds, size_t n_fds)
{
	char ctl[CMSG_SPACE(8 * sizeof(int))] __attribute__((aligned(16))) = { 0 };
	struct iovec iov = { (void *)(uintptr_t)p, n };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
	if (n_fds) {
		h.msg_control = ctl;
		h.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&h);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	assert_int_equal(sendmsg(sv[0], &h, 0), n);
}

static int get(struct buf *out, int *body)
{
	int r = net_parcel_recv(sv[1], out, body);
	if (r < 0)
		assert_int_equal(*body, -1);
	return r;
}

static void none(void **st)
{
	struct buf out = BUF_INIT(MOST);
	unsigned files = open_files();
	int body, sealed = net_sealed_new("x", STR("hello")), open_one = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING), pipes[2];
	(void)st;
	assert_int_equal(write(open_one, "hello", 5), 5);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	char path[] = "/tmp/unit-parcel-XXXXXX";
	int file = mkstemp(path);
	unlink(path);
	assert_int_equal(write(file, "hello", 5), 5);
	char f[9] = { 'F', 5 };
	raw("X", 1, NULL, 0); /* neither form */
	assert_int_equal(get(&out, &body), -1);
	raw(f, 9, NULL, 0); /* no descriptor */
	assert_int_equal(get(&out, &body), -1);
	raw(f, 8, &sealed, 1); /* cut short */
	assert_int_equal(get(&out, &body), -1);
	/* descriptors that can still be changed, or are no memfd */
	const int bad[] = { open_one, pipes[0], file };
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		raw(f, 9, &bad[i], 1);
		assert_int_equal(get(&out, &body), -1);
		assert_false(net_sealed(bad[i], 5));
	}
	/* sizes that are not its own */
	const char sizes[][9] = { { 'F', 4 }, { 'F', 6 }, { 'F', 0 }, { 'F', 5, 0, 0, 0, 0, 0, 0, 1 },
		{ 'F', (char)255, (char)255, (char)255, (char)255, (char)255, (char)255, (char)255, (char)255 } };
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		raw(sizes[i], 9, &sealed, 1);
		assert_int_equal(get(&out, &body), -1);
	}
	/* more descriptors than there is use for: all are let go of */
	const int three[] = { sealed, sealed, sealed };
	raw("Ix", 2, three, 2);
	assert_int_equal(get(&out, &body), -1);
	raw(f, 9, three, 3);
	assert_int_equal(get(&out, &body), -1);
	/* longer than any of ours */
	static char longer[BORDER + 2] = "I";
	raw(longer, sizeof longer, NULL, 0);
	assert_int_equal(get(&out, &body), -1);
	/* the socket is still good */
	raw(f, 9, three, 2);
	assert_int_equal(get(&out, &body), 1);
	assert_true(str_eq(buf_str(&out), STR("hello")) && body >= 0);
	close(body);
	/* partly sealed: it could grow under a mapping */
	assert_int_equal(fcntl(open_one, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK), 0);
	assert_false(net_sealed(open_one, 5));
	assert_int_equal(fcntl(open_one, F_ADD_SEALS, F_SEAL_GROW), 0);
	assert_true(net_sealed(open_one, 5));
	assert_false(net_sealed(-1, 0));
	const int mine[] = { sealed, open_one, file, pipes[0], pipes[1] };
	for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
		close(mine[i]);
	assert_int_equal(open_files(), files);
	buf_free(&out);
}

/* What was sealed by us nobody can write, cut or let grow. */
static void sealed(void **st)
{
	(void)st;
	int fd = net_sealed_new("x", STR("hello"));
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "J", 1, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(fd, 4), -1);
	assert_int_equal(ftruncate(fd, 6), -1);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	close(fd);
	fd = net_sealed_new("empty", STR(""));
	assert_true(fd >= 0 && net_sealed(fd, 0));
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(there, begin, end), cmocka_unit_test_setup_teardown(no_way, begin, end),
		cmocka_unit_test_setup_teardown(none, begin, end), cmocka_unit_test(sealed) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
