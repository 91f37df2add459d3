/* Reading ids and rows. Knows the channel and standard input, nothing of stages or databases. */
#include "input.h"

#include "base/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_SIZE = 4096, BLOCK_ARENA_MAX = 4 * 1024 * 1024 };

struct input_block *input_block_new(size_t arena_max)
{
	struct input_block *b = calloc(1, sizeof *b);
	if (b && !(b->a = arena_new(arena_max))) {
		free(b);
		return NULL;
	}
	if (b)
		b->refs = 1;
	return b;
}

void input_block_unref(struct input_block *b)
{
	if (!b || --b->refs)
		return;
	arena_free(b->a);
	free(b->data);
	free(b);
}

int input_init(struct input *in, int fd, bool lines)
{
	*in = (struct input){ .fd = fd, .lines = lines, .line = BUF_INIT(READ_SIZE * 4) };
	in->room = malloc(lines ? READ_SIZE : WIRE_DATAGRAM_MAX);
	return in->room ? 0 : -1;
}

static int copy_str(struct arena *a, struct str *s)
{
	if (!s->n)
		return 0;
	*s = arena_str(a, *s);
	return s->p ? 0 : -1;
}

int item_own(struct item *it)
{
	struct wire_item w = it->w;
	struct input_block *b;
	if (!it->block || it->block->refs == 1)
		return 0;
	if (!(b = input_block_new(SIZE_MAX / 2)))
		return -1;
	bool bad = !(w.rcpts = arena_calloc(b->a, w.n_rcpts + 1, sizeof *w.rcpts));
	for (size_t i = 0; i < w.n_rcpts && !bad; i++) {
		w.rcpts[i] = it->w.rcpts[i];
		bad = copy_str(b->a, &w.rcpts[i]);
	}
	if (bad || copy_str(b->a, &w.mail_from) || copy_str(b->a, &w.state) || copy_str(b->a, &w.headers) || (!it->map && copy_str(b->a, &w.body))) {
		input_block_unref(b);
		return -1;
	}
	it->w = w;
	input_block_unref(it->block);
	it->block = b;
	return 0;
}

void item_free(struct item *it)
{
	if (!it)
		return;
	if (it->map)
		munmap(it->map, it->map_n);
	if (it->fd >= 0)
		close(it->fd);
	input_block_unref(it->block);
	free(it);
}

void input_done(struct input *in)
{
	struct item *it;
	while ((it = input_take(in)))
		item_free(it);
	free(in->room);
	in->room = NULL;
	buf_free(&in->line);
}

static struct item *append(struct input *in)
{
	struct item *it = calloc(1, sizeof *it);
	if (!it)
		return NULL;
	it->fd = -1;
	if (in->tail)
		in->tail->next = it;
	else
		in->head = it;
	in->tail = it;
	in->n++;
	in->taken++;
	return it;
}

struct item *input_take(struct input *in)
{
	struct item *it = in->head;
	if (!it)
		return NULL;
	in->head = it->next;
	if (!in->head)
		in->tail = NULL;
	it->next = NULL;
	in->n--;
	in->octets -= it->w.has_content ? it->w.headers.n + it->w.body_size : 0;
	return it;
}

bool input_readable(const struct input *in)
{
	struct pollfd p = { .fd = in->fd, .events = POLLIN };
	return !in->ended && poll(&p, 1, 0) > 0 && p.revents & POLLIN;
}

/* --- lines, by hand */

static int take_line(struct input *in, struct str line)
{
	uint64_t id;
	line = str_trim(line);
	if (!line.n)
		return 0;
	struct item *it = append(in);
	if (!it)
		return -1;
	if (str_u64(line, INT64_MAX, &id) || !id) {
		it->st = ITEM_REFUSED;
		snprintf(it->why, sizeof it->why, "not a queue id: %.*s", (int)(line.n > 60 ? 60 : line.n), line.p);
	} else {
		it->w.id = (int64_t)id;
	}
	return 0;
}

static int fill_lines(struct input *in, char *err, size_t err_size)
{
	ssize_t k = read(in->fd, in->room, READ_SIZE);
	if (k < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (k < 0) {
		snprintf(err, err_size, "reading ids: %m");
		return -1;
	}
	if (k == 0) {
		in->ended = true;
		if (in->line.n && take_line(in, buf_str(&in->line)))
			return -1;
		buf_reset(&in->line);
		return in->head != NULL;
	}
	if (buf_add(&in->line, in->room, (size_t)k)) {
		snprintf(err, err_size, "a line of ids is too long");
		return -1;
	}
	ptrdiff_t nl;
	size_t from = 0;
	while ((nl = str_chr(str_skip(buf_str(&in->line), from), '\n')) >= 0) {
		if (take_line(in, str_n(in->line.p + from, (size_t)nl))) {
			snprintf(err, err_size, "out of memory");
			return -1;
		}
		from += (size_t)nl + 1;
	}
	buf_consume(&in->line, from);
	return 1;
}

/* --- datagrams */

struct fds {
	int fd[WIRE_FDS_MAX];
	size_t n, used;
};

static int take_records(struct input *in, struct input_block *b, size_t n, struct fds *fds)
{
	struct str rest = str_n(b->data, n);
	struct wire_item w;
	int r;
	while ((r = wire_get(&rest, b->a, &w)) == 1) {
		if (w.body_in_fd && fds->used == fds->n)
			return -1;
		struct item *it = append(in);
		if (!it)
			return -1;
		it->w = w;
		it->st = w.has_content ? ITEM_READY : ITEM_BARE;
		it->block = b;
		b->refs++;
		if (w.body_in_fd)
			it->fd = fds->fd[fds->used++];
		in->octets += w.has_content ? w.headers.n + w.body_size : 0;
	}
	return r;
}

static int fill_datagram(struct input *in, char *err, size_t err_size)
{
	union fds_room ctl;
	struct iovec io = { .iov_base = in->room, .iov_len = WIRE_DATAGRAM_MAX };
	struct msghdr h = { .msg_iov = &io, .msg_iovlen = 1 };
	struct fds fds = { .n = 0 };
	fds_expect(&h, &ctl);
	ssize_t k = recvmsg(in->fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (k < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (k < 0) {
		snprintf(err, err_size, "reading the dispatcher's channel: %m");
		return -1;
	}
	if (k == 0) {
		in->ended = true;
		return 0;
	}
	fds.n = fds_take(&h, fds.fd, WIRE_FDS_MAX);
	int r = -1;
	struct input_block *b = input_block_new(BLOCK_ARENA_MAX);
	if (h.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		snprintf(err, err_size, "a datagram of the dispatcher was cut off");
	else if (!b || !(b->data = malloc((size_t)k)))
		snprintf(err, err_size, "out of memory");
	else {
		memcpy(b->data, in->room, (size_t)k);
		r = take_records(in, b, (size_t)k, &fds);
		if (r)
			snprintf(err, err_size, "a datagram of the dispatcher is malformed");
	}
	while (fds.used < fds.n)
		close(fds.fd[fds.used++]);
	input_block_unref(b);
	return r ? -1 : 1;
}

int input_fill(struct input *in, int block_ms, int stop_fd, char *err, size_t err_size)
{
	struct pollfd p[2] = { { .fd = in->fd, .events = POLLIN }, { .fd = stop_fd, .events = POLLIN } };
	if (in->ended)
		return 0;
	int k = poll(p, 2, block_ms);
	if (k <= 0 || !p[0].revents)
		return 0;
	return in->lines ? fill_lines(in, err, err_size) : fill_datagram(in, err, err_size);
}

int item_map(struct item *it)
{
	struct stat st;
	if (it->fd < 0 || it->map || !it->w.body_size)
		return 0;
	if (fstat(it->fd, &st) || st.st_size < 0 || (uint64_t)st.st_size < it->w.body_size || it->w.body_size > SIZE_MAX / 2) {
		it->st = ITEM_REFUSED;
		snprintf(it->why, sizeof it->why, "the body that came along is shorter than announced");
		return -1;
	}
	void *p = mmap(NULL, (size_t)it->w.body_size, PROT_READ, MAP_PRIVATE, it->fd, 0);
	if (p == MAP_FAILED) {
		it->st = ITEM_REFUSED;
		snprintf(it->why, sizeof it->why, "the body cannot be mapped: %m");
		return -1;
	}
	it->map = p;
	it->map_n = (size_t)it->w.body_size;
	it->w.body = str_n(p, it->map_n);
	return 0;
}
