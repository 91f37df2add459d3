/* Hundreds of mail exchangers on loopback addresses in one process, for tests of what sends to many: quick ones, slow ones, and some at which
 * connections time out. Takes what it is given, counts it, tells on standard output. SMTP as far as a client of ours needs it; no test by itself.
 *
 *     many_hosts PORT FAST SLOW DEAD FAST_MS SLOW_MS
 *
 * Host i, from 0, listens on 127.30.(i / 250).(i % 250 + 1): the first FAST answer each command after FAST_MS, the next SLOW after SLOW_MS, the rest
 * do not answer a connection at all (their accept queue is full, so that the kernel drops SYNs). "ready" when all listen. Each line read from standard input
 * is answered by one: JSON of counts and of the connections open. Messages are known by a header X-Token: tN, N below TOKENS_MAX. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TOKENS_MAX = 1 << 20, INPUT_MAX = 16384, KINDS = 3 };
enum kind { FAST, SLOW, DEAD };

struct peer { /* a listener, a connection, or standard input */
	int fd;
	bool listener, pending, data, quit;
	enum kind kind;
	char in[INPUT_MAX];
	size_t n;
	struct peer *next;   /* in the line of replies that are due */
	int64_t due;
	const char *reply;

};
static struct {
	struct peer *first, *last; /* replies wait as long each, so the line is in order */
	int64_t delay;
	uint64_t messages, connections, open, open_most;
	int64_t last_ms;
} kinds[KINDS];
static unsigned char seen[TOKENS_MAX];
static uint64_t twice, tokens;
static int ep;

static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

static void die(const char *what)
{
	fprintf(stderr, "many_hosts: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void later(struct peer *p, const char *reply)
{
	p->reply = reply;
	p->pending = true;
	p->next = NULL;
	p->due = now_ms() + kinds[p->kind].delay;
	*(kinds[p->kind].last ? &kinds[p->kind].last->next : &kinds[p->kind].first) = p;
	kinds[p->kind].last = p;
}

static void gone(struct peer *p)
{
	close(p->fd);
	p->fd = -1;
	kinds[p->kind].open--;
	if (!p->pending)
		free(p);
}

static void token(const char *data, size_t n)
{
	const char *t = memmem(data, n, "X-Token: t", 10);
	unsigned long i = t ? strtoul(t + 10, NULL, 10) : TOKENS_MAX; /* the input is NUL-terminated */
	if (i >= TOKENS_MAX)
		return;
	tokens++;
	twice += seen[i] != 0;
	seen[i] = 1;
}

/* The next command or the end of the content, if it is there: its reply is due later. */
static void look(struct peer *p)
{
	if (p->pending || p->fd < 0)
		return;
	const char *end = memmem(p->in, p->n, p->data ? "\r\n.\r\n" : "\r\n", p->data ? 5 : 2);
	if (!end) {
		if (p->n == INPUT_MAX - 1) /* content: only its beginning matters, and how it ends */
			memmove(p->in + 4096, p->in + p->n - 8, 8), p->n = 4104;
		return;
	}
	size_t used = (size_t)(end - p->in) + (p->data ? 5 : 2);
	if (p->data) {
		token(p->in, used);
		p->data = false;
		kinds[p->kind].messages++;
		kinds[p->kind].last_ms = now_ms();
		later(p, "250 2.0.0 taken\r\n");
	} else if (!strncasecmp(p->in, "EHLO", 4)) {
		later(p, "250-sink\r\n250-PIPELINING\r\n250 8BITMIME\r\n");
	} else if (!strncasecmp(p->in, "DATA", 4)) {
		p->data = true;
		later(p, "354 go on\r\n");
	} else if (!strncasecmp(p->in, "QUIT", 4)) {
		p->quit = true;
		later(p, "221 2.0.0 bye\r\n");
	} else {
		later(p, "250 2.0.0 fine\r\n");
	}
	memmove(p->in, p->in + used, p->n - used);
	p->n -= used;
	p->in[p->n] = 0;
}

static void answer_due(void)
{
	int64_t now = now_ms();
	for (int k = 0; k < KINDS; k++)
		for (struct peer *p; (p = kinds[k].first) && p->due <= now;) {
			kinds[k].first = p->next;
			if (!p->next)
				kinds[k].last = NULL;
			p->pending = false;
			if (p->fd < 0) {
				free(p);
				continue;
			}
			if (send(p->fd, p->reply, strlen(p->reply), MSG_NOSIGNAL) < 0 || p->quit)
				gone(p);
			else
				look(p);
		}
}

static struct peer *add(int fd, enum kind kind, bool listener)
{
	struct peer *p = calloc(1, sizeof *p);
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = p };
	if (!p)
		die("memory");
	*p = (struct peer){ .fd = fd, .kind = kind, .listener = listener };
	if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e))
		die("epoll");
	return p;
}

static void on_readable(struct peer *p)
{
	ssize_t n;
	if (p->fd == 0) {
		char line[256];
		if (read(0, line, sizeof line) <= 0)
			exit(0);
		printf("{");
		static const char *const names[] = { "fast", "slow", "dead" };
		for (int k = 0; k < KINDS; k++)
			printf("\"%s\": {\"messages\": %llu, \"connections\": %llu, \"open\": %llu, \"open_most\": %llu, \"last\": %.3f}, ", names[k],
			    (unsigned long long)kinds[k].messages, (unsigned long long)kinds[k].connections, (unsigned long long)kinds[k].open,
			    (unsigned long long)kinds[k].open_most, (double)kinds[k].last_ms / 1000);
		printf("\"tokens\": %llu, \"twice\": %llu}\n", (unsigned long long)tokens, (unsigned long long)twice);
		fflush(stdout);
	} else if (p->listener) {
		for (int fd; (fd = accept4(p->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
			struct peer *c = add(fd, p->kind, false);
			kinds[p->kind].connections++;
			if (++kinds[p->kind].open > kinds[p->kind].open_most)
				kinds[p->kind].open_most = kinds[p->kind].open;
			later(c, "220 sink ESMTP\r\n");
		}
	} else if ((n = recv(p->fd, p->in + p->n, INPUT_MAX - 1 - p->n, 0)) > 0) {
		p->n += (size_t)n;
		p->in[p->n] = 0;
		look(p);
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		gone(p);
	}
}

int main(int argc, char **argv)
{
	struct rlimit files = { 65536, 65536 };
	if (argc != 7) {
		fprintf(stderr, "many_hosts PORT FAST SLOW DEAD FAST_MS SLOW_MS\n");
		return 2;
	}
	if (setrlimit(RLIMIT_NOFILE, &files) && !getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	int fast = atoi(argv[2]), slow = atoi(argv[3]), all = fast + slow + atoi(argv[4]);
	kinds[FAST].delay = atoi(argv[5]);
	kinds[SLOW].delay = atoi(argv[6]);
	ep = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < all; i++) {
		enum kind kind = i < fast ? FAST : i < fast + slow ? SLOW : DEAD;
		struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1])),
			.sin_addr.s_addr = htonl(UINT32_C(0x7f1e0000) + (uint32_t)(i / 250) * 256 + (uint32_t)(i % 250) + 1) };
		int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
		if (fd < 0 || bind(fd, (void *)&a, sizeof a) || listen(fd, kind == DEAD ? 0 : 256))
			die("listen");
		if (kind != DEAD) {
			add(fd, kind, true);
			continue;
		}
		for (int k = 0; k < 3; k++) { /* what nobody accepts: the queue is full, and stays so */
			int c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
			if (c < 0 || (connect(c, (void *)&a, sizeof a) && errno != EINPROGRESS))
				die("connect");
		}
	}
	add(0, FAST, false);
	puts("ready");
	fflush(stdout);
	for (;;) {
		struct epoll_event e[256];
		int64_t wait = 1000, now = now_ms();
		for (int k = 0; k < KINDS; k++)
			if (kinds[k].first && kinds[k].first->due - now < wait)
				wait = kinds[k].first->due > now ? kinds[k].first->due - now : 0;
		int n = epoll_wait(ep, e, 256, (int)wait);
		for (int i = 0; i < n; i++)
			on_readable(e[i].data.ptr);
		answer_due();
	}
}
