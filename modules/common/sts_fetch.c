/* The question's way through its socket; see sts_fetch.h. */
#include "sts_fetch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { AGAIN_MS = 250 };

struct sts_fetch {
	const struct pepsi_host *host;
	const struct pepsi_conf *conf;
	struct sockaddr_un at;
	struct buf question;
	struct pepsi_event *timer, *io; /* io: of fd */
	int fd;
	int64_t since_ms;
	sts_fetch_fn fn;
	void *arg;
};

static void close_socket(struct sts_fetch *f)
{
	f->host->event_free(f->io);
	f->io = NULL;
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}

void sts_fetch_cancel(struct sts_fetch *f)
{
	if (!f)
		return;
	close_socket(f);
	f->host->event_free(f->timer);
	buf_free(&f->question);
	free(f);
}

static void end(struct sts_fetch *f, const struct sts_wire_answer *a)
{
	f->fn(f->arg, a);
	sts_fetch_cancel(f);
}

static void end_busy(struct sts_fetch *f, const char *why)
{
	struct sts_wire_answer a = { STS_WIRE_BUSY, str_from(why) };
	end(f, &a);
}

static void on_io(void *arg, uint32_t what)
{
	static char p[STS_WIRE_ANSWER_MAX + 1]; /* one datagram at a time, used up before this returns */
	struct sts_fetch *f = arg;
	struct sts_wire_answer a;
	if (what & PEPSI_IO_TIMEOUT) {
		end_busy(f, "the fetching child did not answer in time");
		return;
	}
	ssize_t n = recv(f->fd, p, sizeof p, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR) && f->host->event_arm(f->io, PEPSI_IO_READ, STS_FETCH_WAIT_MS) == PEPSI_OK)
		return;
	if (n <= 0 || sts_wire_answer_get(str_n(p, (size_t)n), &a))
		end_busy(f, n > 0 ? "the fetching child's answer cannot be read" : "the fetching child ended");
	else
		end(f, &a);
}

/* Whoever listens there must be pepsid's: root's, or of our own account where there is no root. */
static bool is_ours(int fd)
{
	struct ucred who;
	socklen_t n = sizeof who;
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && (who.uid == 0 || who.uid == geteuid());
}

static void on_timer(void *arg, uint32_t what)
{
	struct sts_fetch *f = arg;
	(void)what;
	f->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool up = f->fd >= 0 && connect(f->fd, (const struct sockaddr *)&f->at, sizeof f->at) == 0;
	if (up && !is_ours(f->fd)) {
		end_busy(f, "who listens in place of the fetching child is none of ours");
		return;
	}
	if (up && send(f->fd, f->question.p, f->question.n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)f->question.n &&
	    (f->io = f->host->event_new(f->conf, f->fd, on_io, f)) &&
	    f->host->event_arm(f->io, PEPSI_IO_READ, STS_FETCH_WAIT_MS) == PEPSI_OK)
		return;
	close_socket(f);
	/* it is being started again, or has no room in its queue */
	if (f->host->mono_ms() - f->since_ms > STS_FETCH_AWAY_MS || f->host->event_arm(f->timer, 0, AGAIN_MS) != PEPSI_OK)
		end_busy(f, "there is no fetching child ([pepsi-mta-sts] FETCH)");
}

struct sts_fetch *sts_fetch_new(const struct pepsi_host *host, const struct pepsi_conf *conf, const char *socket, struct str domain, sts_fetch_fn fn, void *arg)
{
	struct sts_fetch *f = strlen(socket) < sizeof f->at.sun_path ? calloc(1, sizeof *f) : NULL;
	if (!f)
		return NULL;
	f->host = host;
	f->conf = conf;
	f->fd = -1;
	f->at.sun_family = AF_UNIX;
	memcpy(f->at.sun_path, socket, strlen(socket));
	f->question = BUF_INIT(STS_WIRE_REQUEST_MAX);
	f->since_ms = host->mono_ms();
	f->fn = fn;
	f->arg = arg;
	f->timer = host->event_new(conf, -1, on_timer, f);
	if (!f->timer || sts_wire_request_put(&f->question, domain, false) || host->event_arm(f->timer, 0, 0) != PEPSI_OK) {
		sts_fetch_cancel(f);
		return NULL;
	}
	return f;
}
