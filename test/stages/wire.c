/* A module that speaks on its worker's channel in the host's place, for test/e2e/wild_modules.py: before the host says that it is ready (the option EARLY), and
 * while it has a message (the local part of its recipient). Both name a line of the list below, by its letter. */
#include "channel.h"

#include <pepsi/stage.h>

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MANY = 300000, DESCRIPTORS = 40 };

static const char *const lines[26] = {
	['a' - 'a'] = "2 ids\n", ['b' - 'a'] = "2\n", ['c' - 'a'] = "3\n", ['d' - 'a'] = "0 1\n",
	['e' - 'a'] = "0 {\"outcome\":\"finish\",\"also\":[\"init\",\"x\"],\"fused\":[{\"stage\":\"init\",\"us\":99999999999999},{\"stage\":\"ok\",\"us\":1}],\"worn\":true}\n",
	['f' - 'a'] = "1 {\"error\":\"\x1b[31mred\"}\n", ['g' - 'a'] = "4 4:evil g level - - -9223372036854775807\n", ['h' - 'a'] = "\n", ['i' - 'a'] = "0\n0\n0\n0\n0\n",
	['j' - 'a'] = "4 100:", ['k' - 'a'] = "9\n", ['l' - 'a'] = "0 {\"also\":[\"", ['m' - 'a'] = "0 {\"outcome\":\"pause\",\"to\":\"ok\"}\n",
};

static void say(const char *p, size_t n)
{
	ssize_t k = send(channel(), p, n, MSG_NOSIGNAL); /* it may be closed already */
	(void)k;
}

/* Descriptors that are no page: too small, not sealed, no memory at all. */
static void descriptors(void)
{
	char room[CMSG_SPACE(sizeof(int) * DESCRIPTORS)];
	struct iovec v = { (void *)(uintptr_t) "2 ids\n", 6 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
	int fds[DESCRIPTORS];
	memset(room, 0, sizeof room);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	*c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fds) };
	for (int i = 0; i < DESCRIPTORS; i++) {
		fds[i] = i % 3 ? memfd_create("page", MFD_ALLOW_SEALING) : open("/dev/zero", O_RDWR | O_CLOEXEC);
		if (i % 3 && !ftruncate(fds[i], i % 2 ? 1 : 1 << 20) && i % 4)
			fcntl(fds[i], F_ADD_SEALS, F_SEAL_SHRINK);
	}
	memcpy(CMSG_DATA(c), fds, sizeof fds);
	sendmsg(channel(), &m, MSG_NOSIGNAL);
	for (int i = 0; i < DESCRIPTORS; i++)
		close(fds[i]);
}

static void act(char what)
{
	char junk[5000];
	if (what >= 'a' && what <= 'z' && lines[what - 'a'])
		say(lines[what - 'a'], strlen(lines[what - 'a']));
	for (size_t i = 0; i < sizeof junk; i++)
		junk[i] = (char)(i * 2654435761u >> 13);
	for (int i = 0; (what == 'w' || what == 'x') && i < MANY; i++)
		say(what == 'w' ? "3\n" : "0", what == 'w' ? 2 : 1);
	if (what == 'v')
		say(junk, sizeof junk);
	if (what == 'y')
		descriptors();
	if (what == 'z')
		shutdown(channel(), SHUT_RDWR);
}

static const struct pepsi_option options[] = {
	{ .name = "EARLY", .type = PEPSI_OPT_STRING, .def = "-", .help = "what is said before the worker is ready" },
};

static int32_t open_worker(const struct pepsi_host *h, const struct pepsi_conf *c, void **ret)
{
	*ret = (void *)(uintptr_t)h;
	act(h->conf_str(c, "EARLY")[0]);
	return PEPSI_OK;
}

static int32_t process(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	(void)worker;
	struct pepsi_str to = h->rcpt(m, 0);
	act(to.n ? to.p[0] : '-');
	return h->finish(m);
}

PEPSI_STAGE(.name = "pepsi-stage-wire", .version = "1", .license = "Apache-2.0", .summary = "speaks in the host's place", .load_class = PEPSI_LOAD_METADATA,
    .caps = PEPSI_CAP_DELIVER, PEPSI_OPTIONS(options), .open = open_worker, .process = process);
