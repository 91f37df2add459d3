/* The client's side of the local socket: connect, one message, QUIT. Blocking, with deadlines of its own. */
#include "submit.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

enum { REPLY_S = 10 * 60, /* the answer to a final dot may take so long (RFC 5321 §4.5.3.2.6) */
	QUIT_S = 2 };

int submit_connect(const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof sun.sun_path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(sun.sun_path, path, strlen(path) + 1);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&sun, sizeof sun)) {
		int e = errno;
		close(fd);
		errno = e;
		return -1;
	}
	return fd;
}

int submit_key(char key[SUBMIT_KEY])
{
	unsigned char r[(SUBMIT_KEY - 1) / 2];
	if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r)
		return -1;
	for (size_t i = 0; i < sizeof r; i++)
		snprintf(key + 2 * i, 3, "%02x", r[i]);
	return 0;
}

/* Writes what there is, reads what comes. 0; -1: the connection is over. */
static int move(int fd, struct smtp_client *c, int64_t deadline)
{
	struct str seg[SMTP_CLIENT_SEGMENTS];
	struct iovec v[SMTP_CLIENT_SEGMENTS];
	char in[8192];
	size_t n = smtp_client_out(c, seg);
	int64_t left = (deadline - clock_mono_us()) / 1000;
	struct pollfd p = { .fd = fd, .events = (short)(n ? POLLIN | POLLOUT : POLLIN) };
	int r = poll(&p, 1, left > 0 ? (int)(left < 60000 ? left : 60000) : 0);
	if (r < 0 && errno == EINTR)
		return 0;
	if (r <= 0 && left <= 0) {
		smtp_client_lost(c, "timed out");
		return -1;
	}
	if (p.revents & (POLLIN | POLLHUP | POLLERR)) {
		ssize_t got = recv(fd, in, sizeof in, MSG_DONTWAIT);
		if (got > 0) {
			smtp_client_feed(c, in, (size_t)got);
		} else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
			smtp_client_lost(c, NULL);
			return -1;
		}
	}
	if (p.revents & POLLOUT && n) {
		struct msghdr h = { .msg_iov = v };
		n = smtp_client_out(c, seg); /* what was fed may have changed it */
		for (size_t i = 0; i < n; i++)
			v[i] = (struct iovec){ (void *)(uintptr_t)seg[i].p, seg[i].n };
		h.msg_iovlen = n;
		ssize_t put = n ? sendmsg(fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
		if (put > 0)
			smtp_client_sent(c, (size_t)put);
		/* an error shows itself at the next read: a reply may have come before it */
	}
	return 0;
}

static void all_lost(struct smtp_client_msg *msg, const char *why)
{
	for (size_t i = 0; i < msg->n_rcpts; i++)
		if (msg->rcpts[i].result.outcome == SMTP_OUT_NONE)
			msg->rcpts[i].result = (struct smtp_result){ .outcome = SMTP_OUT_LOST, .phase = SMTP_PHASE_CONNECT, .text = str_from(why) };
}

static void note_reply(const struct smtp_client_msg *msg, char *reply)
{
	for (size_t i = 0; i < msg->n_rcpts; i++)
		if (msg->rcpts[i].result.outcome == SMTP_OUT_OK) {
			snprintf(reply, SUBMIT_REPLY, "%.*s", STR_ARG(msg->rcpts[i].result.text));
			return;
		}
}

/* The texts of results live in the engine: those who ask later get copies. */
static void keep_texts(struct smtp_client_msg *msg)
{
	for (size_t i = 0; i < msg->n_rcpts; i++) {
		struct smtp_result *r = &msg->rcpts[i].result;
		char *copy = r->outcome == SMTP_OUT_OK ? NULL : str_dupz(r->text);
		r->text = copy ? str_from(copy) : STR_NULL;
	}
}

void submit_send(int fd, const char *helo, struct smtp_client_msg *msg, char *reply)
{
	struct smtp_client_conf conf = { .helo = str_from(helo) };
	struct smtp_client *c = smtp_client_new(&conf);
	uint64_t replies = 0;
	bool sent = false, done = false;
	int64_t deadline = clock_mono_us() + REPLY_S * US_PER_S;
	reply[0] = 0;
	for (size_t i = 0; i < msg->n_rcpts; i++)
		msg->rcpts[i].result = (struct smtp_result){ .outcome = SMTP_OUT_NONE };
	for (bool over = !c; !over;) {
		switch (smtp_client_next(c)) {
		case SMTP_CEV_READY:
			if (!sent) {
				sent = true;
				if (smtp_client_send(c, msg))
					over = true;
			} else if (smtp_client_quit(c)) {
				over = true;
			} else {
				deadline = clock_mono_us() + QUIT_S * US_PER_S;
			}
			continue;
		case SMTP_CEV_DONE:
			done = true;
			note_reply(msg, reply);
			keep_texts(msg);
			continue;
		case SMTP_CEV_CLOSED:
			over = true;
			continue;
		case SMTP_CEV_NONE:
		case SMTP_CEV_STARTTLS:
		case SMTP_CEV_TLS_REFUSED:
		case SMTP_CEV_SIGNED_IN:
		case SMTP_CEV_AUTH_FAILED:
			break;
		}
		if (!done && smtp_client_replies(c) != replies) {
			replies = smtp_client_replies(c);
			deadline = clock_mono_us() + REPLY_S * US_PER_S;
		}
		move(fd, c, deadline); /* an end shows as an event */
	}
	if (!done && c && smtp_client_failure(c)->outcome == SMTP_OUT_PERMANENT) /* told off at the banner or EHLO */
		for (size_t i = 0; i < msg->n_rcpts; i++) {
			msg->rcpts[i].result = *smtp_client_failure(c);
			msg->rcpts[i].result.outcome = SMTP_OUT_TRANSIENT; /* not about this message */
			msg->rcpts[i].result.text = STR("the server does not talk to us");
		}
	all_lost(msg, "no answer from pepsid");
	smtp_client_free(c);
	close(fd);
}
