/* Descriptors that travel beside octets over a local socket (SCM_RIGHTS, unix(7)). Nothing is sent or received here: the message header is prepared for
 * sendmsg() and taken apart after recvmsg(). */
#ifndef BASE_FDS_H
#define BASE_FDS_H

#include <stddef.h>
#include <sys/socket.h>

enum { FDS_MAX = 64 };

/* Room for FDS_MAX descriptors; lives as long as the header is used. */
union fds_room {
	struct cmsghdr align;
	char octets[CMSG_SPACE(FDS_MAX * sizeof(int))];
};

/* h will send these descriptors (n ≤ FDS_MAX; 0: none). They stay the caller's. */
void fds_attach(struct msghdr *h, union fds_room *room, const int *fds, size_t n);
/* The same for one that may not be there (-1). */
void fds_attach_one(struct msghdr *h, union fds_room *room, int fd);

/* h will receive up to FDS_MAX; give recvmsg() MSG_CMSG_CLOEXEC. */
void fds_expect(struct msghdr *h, union fds_room *room);
/* After recvmsg(): those that came, the caller's now, at most max; any more are closed. Returns how many. */
size_t fds_take(struct msghdr *h, int *fds, size_t max);
/* The same where one is expected: it, or -1. */
int fds_take_one(struct msghdr *h);

#endif
