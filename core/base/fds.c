/* Control messages of fds.h. */
#include "fds.h"

#include "check.h"

#include <string.h>
#include <unistd.h>

void fds_attach(struct msghdr *h, union fds_room *room, const int *fds, size_t n)
{
	h->msg_control = NULL;
	h->msg_controllen = 0;
	if (!n)
		return;
	must(n <= FDS_MAX);
	memset(room->octets, 0, CMSG_SPACE(n * sizeof(int)));
	h->msg_control = room;
	h->msg_controllen = CMSG_SPACE(n * sizeof(int));
	struct cmsghdr *c = CMSG_FIRSTHDR(h);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(c), fds, n * sizeof(int));
}

void fds_attach_one(struct msghdr *h, union fds_room *room, int fd)
{
	fds_attach(h, room, &fd, fd >= 0);
}

void fds_expect(struct msghdr *h, union fds_room *room)
{
	h->msg_control = room;
	h->msg_controllen = sizeof *room;
}

size_t fds_take(struct msghdr *h, int *fds, size_t max)
{
	size_t n = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
			if (n < max)
				fds[n++] = fd;
			else
				close(fd);
		}
	}
	return n;
}

int fds_take_one(struct msghdr *h)
{
	int fd = -1;
	fds_take(h, &fd, 1);
	return fd;
}
