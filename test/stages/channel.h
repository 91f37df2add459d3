/* For stages of tests that speak on the worker's channel to the dispatcher, which is none of a module's business: how one finds it. */
#ifndef TEST_STAGES_CHANNEL_H
#define TEST_STAGES_CHANNEL_H

#include <sys/socket.h>

/* The descriptor of the channel, -1 where there is none. Stays the worker's. */
static inline int channel(void)
{
	for (int fd = 0; fd < 20; fd++) {
		int type = 0;
		socklen_t n = sizeof type;
		if (!getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) && type == SOCK_SEQPACKET)
			return fd;
	}
	return -1;
}

#endif
