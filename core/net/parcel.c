/* See parcel.h. A datagram is 'I' and the octets themselves, or 'F', the size as eight octets and the memfd that holds them;
 * the body's descriptor comes behind that one. Never blocks. */
#include "parcel.h"

#include "base/fds.h"
#include "proto/wire/octets.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { INLINE_MAX = 128 * 1024, SPILL_HEAD = 1 + 8, FDS = 2, SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };

int net_sealed_new(const char *name, struct str s)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -1;
	while (s.n) {
		ssize_t n = write(fd, s.p, s.n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			close(fd);
			return -1;
		}
		s = str_skip(s, (size_t)n);
	}
	if (fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL)) {
		close(fd);
		return -1;
	}
	return fd;
}

bool net_sealed(int fd, uint64_t size)
{
	struct stat st;
	struct statfs fs;
	int seals = fcntl(fd, F_GET_SEALS);
	/* tmpfs alone: memfds of huge pages have seals, too, but their pages may be missing when they are touched */
	return seals >= 0 && (seals & SEALS) == SEALS && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= 0 &&
	    (uint64_t)st.st_size == size && fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

static int send_datagram(int sock, const struct iovec *iov, size_t n_iov, const int *fds, size_t n_fds)
{
	union fds_room ctl;
	struct msghdr h = { .msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = n_iov };
	fds_attach(&h, &ctl, fds, n_fds);
	for (;;) {
		if (sendmsg(sock, &h, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return 1;
		if (errno != EINTR)
			return errno == EAGAIN || errno == ENOBUFS ? 0 : -1;
	}
}

int net_parcel_send(int sock, struct str record, int body_fd)
{
	char head[SPILL_HEAD] = { 'I' };
	int fds[FDS] = { body_fd, -1 };
	size_t n_fds = body_fd >= 0;
	struct iovec iov[2] = { { head, 1 }, { (void *)(uintptr_t)record.p, record.n } };
	if (record.n <= INLINE_MAX)
		return send_datagram(sock, iov, 2, fds, n_fds);
	int fd = net_sealed_new("pepsi-parcel", record);
	if (fd < 0)
		return -1;
	head[0] = 'F';
	octets_put(head + 1, record.n, 8);
	iov[0].iov_len = sizeof head;
	fds[0] = fd;
	fds[1] = body_fd;
	int r = send_datagram(sock, iov, 1, fds, n_fds + 1);
	int keep = errno;
	close(fd);
	errno = keep;
	return r;
}

/* The octets of a memfd in out's place. */
static int slurp(int fd, uint64_t size, struct buf *out)
{
	if (size > out->max || !net_sealed(fd, size))
		return -1;
	buf_reset(out);
	char *room = buf_room(out, (size_t)size);
	if (!room)
		return -1;
	for (size_t at = 0; at < size;) {
		ssize_t n = pread(fd, room + at, (size_t)size - at, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		at += (size_t)n;
	}
	out->n = (size_t)size;
	out->p[out->n] = 0;
	return 0;
}

/* What came, taken apart. *ret_used: descriptors that the octets themselves took. */
static int unpack(struct buf *out, const int *fds, size_t n_fds, size_t *ret_used)
{
	*ret_used = 0;
	if (out->n && out->p[0] == 'I') {
		buf_consume(out, 1);
		return 0;
	}
	if (out->n != SPILL_HEAD || out->p[0] != 'F' || !n_fds)
		return -1;
	*ret_used = 1;
	return slurp(fds[0], octets_get(out->p + 1, 8), out);
}

int net_parcel_recv(int sock, struct buf *out, int *ret_body_fd)
{
	union fds_room ctl;
	int fds[FDS + 1]; /* one more than there is use for, to know of it */
	size_t used = 0;
	*ret_body_fd = -1;
	buf_reset(out);
	char *room = buf_room(out, INLINE_MAX + 1);
	if (!room)
		return -1;
	struct iovec iov = { room, INLINE_MAX + 1 };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t k;
	fds_expect(&h, &ctl);
	while ((k = recvmsg(sock, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
		;
	if (k < 0)
		return errno == EAGAIN ? 0 : -1;
	size_t n_fds = fds_take(&h, fds, FDS + 1);
	out->n = (size_t)k;
	out->p[out->n] = 0;
	int r = k == 0 || h.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || unpack(out, fds, n_fds, &used) || n_fds > used + 1 ? -1 : 1;
	if (r == 1 && n_fds == used + 1) {
		*ret_body_fd = fds[used];
		n_fds--;
	}
	for (size_t i = 0; i < n_fds; i++)
		close(fds[i]);
	return r;
}
