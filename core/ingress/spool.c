/* Message content in memory, in memfds and in unlinked files. Writes block at most as long as the page cache does. */
#include "spool.h"

#include "proto/mail/split.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

enum {
	WRITE_BEHIND = 64 * 1024,
	FIRST_BODY = 4095,
	SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL,
};

void spool_init(struct spool *s, struct spool_house *house)
{
	*s = (struct spool){ .house = house, .fd = -1 };
	s->head = BUF_INIT(SPOOL_HEADER_OCTETS + 4);
	s->body = BUF_INIT(SPOOL_HEAP + SPOOL_HEADER_OCTETS);
}

static void settle(struct spool *s)
{
	size_t now = s->head.cap + s->body.cap + (s->fd >= 0 && !s->on_disk ? (size_t)s->file_size : 0);
	s->house->used += now - s->charged; /* modular: also when it shrinks */
	s->charged = now;
}

void spool_done(struct spool *s)
{
	if (!s->house)
		return;
	buf_free(&s->head);
	buf_free(&s->body);
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	settle(s);
}

static enum spool_fault fail(struct spool *s, enum spool_fault f)
{
	s->spool_errno = errno;
	spool_done(s);
	return s->fault = f;
}

/* Would the buffer grow by this much within the budget? Mirrors the doubling of base/buf. */
static bool affordable(const struct spool *s, const struct buf *b, size_t n)
{
	size_t cap = b->cap < 256 ? 256 : b->cap;
	if (b->n + n + 1 <= b->cap)
		return true;
	while (cap < b->n + n + 1)
		cap *= 2;
	return cap - b->cap <= s->house->max && s->house->used <= s->house->max - (cap - b->cap);
}

static enum spool_fault put(struct spool *s, struct buf *b, struct str part)
{
	if (!affordable(s, b, part.n))
		return fail(s, SPOOL_FULL);
	if (buf_adds(b, part))
		return fail(s, SPOOL_FULL);
	settle(s);
	return SPOOL_OK;
}

static enum spool_fault write_all(struct spool *s, struct str part)
{
	while (part.n) {
		ssize_t n = write(s->fd, part.p, part.n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fail(s, SPOOL_DISK);
		part = str_skip(part, (size_t)n);
		s->file_size += (size_t)n;
	}
	return SPOOL_OK;
}

static int open_file(const char *dir)
{
	char path[4096];
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
		return fd;
	/* a file system without O_TMPFILE (overlay on old kernels, NFS) */
	if (snprintf(path, sizeof path, "%s/spool-XXXXXX", dir) >= (int)sizeof path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	return fd;
}

/* May a large body of n octets be in memory? Half of the budget is left to others. */
static bool in_memory(const struct spool *s, uint64_t n)
{
	const struct spool_house *h = s->house;
	size_t others = h->used - (s->on_disk || s->fd < 0 ? 0 : (size_t)s->file_size);
	return n <= h->threshold && others <= h->max / 2 && n <= h->max / 2 - others;
}

/* The memfd has become too large: on to a file, with what it holds. */
static enum spool_fault to_disk(struct spool *s)
{
	int mem = s->fd, file = open_file(s->house->dir);
	off_t at = 0;
	if (file < 0)
		return fail(s, SPOOL_DISK);
	while ((uint64_t)at < s->file_size) {
		ssize_t n = sendfile(file, mem, &at, (size_t)(s->file_size - (uint64_t)at));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			enum spool_fault f = fail(s, SPOOL_DISK);
			close(file);
			return f;
		}
	}
	close(mem);
	s->fd = file;
	s->on_disk = true;
	settle(s);
	return SPOOL_OK;
}

/* Writes the octets behind what the descriptor has. */
static enum spool_fault append(struct spool *s, struct str part)
{
	enum spool_fault f;
	if (s->fd < 0) {
		s->on_disk = !in_memory(s, part.n);
		s->fd = s->on_disk ? open_file(s->house->dir) : memfd_create("pepsi-body", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (s->fd < 0)
			return fail(s, SPOOL_DISK);
	} else if (!s->on_disk && !in_memory(s, s->file_size + part.n) && (f = to_disk(s))) {
		return f;
	}
	f = write_all(s, part);
	if (!f)
		settle(s);
	return f;
}

static enum spool_fault add_body(struct spool *s, struct str part)
{
	enum spool_fault f;
	if (!part.n)
		return SPOOL_OK;
	if (s->fd < 0 && s->body.n + part.n <= (s->house->threshold < SPOOL_HEAP ? s->house->threshold : SPOOL_HEAP)) {
		if (!s->body.cap && affordable(s, &s->body, FIRST_BODY))
			buf_room(&s->body, FIRST_BODY);
		return put(s, &s->body, part);
	}
	if (s->fd >= 0 && part.n + s->body.n < WRITE_BEHIND)
		return put(s, &s->body, part);
	if (s->body.n && (f = append(s, buf_str(&s->body))))
		return f;
	buf_reset(&s->body);
	return append(s, part);
}

/* How much of the chunk still belongs to the headers, the empty line included; *ret_found: that line is in it. The
 * session's engine lets only CR LF end a line, so a line of two octets is the empty one. */
static size_t scan_head(struct spool *s, struct str chunk, bool *ret_found)
{
	size_t i = 0;
	*ret_found = false;
	while (i < chunk.n) {
		const char *nl = memchr(chunk.p + i, '\n', chunk.n - i);
		size_t n = nl ? (size_t)(nl - (chunk.p + i)) + 1 : chunk.n - i;
		i += n;
		s->line_n += n;
		if (!nl)
			break;
		if (s->line_n == 2) {
			*ret_found = true;
			break;
		}
		s->line_n = 0;
		s->lines++;
	}
	return i;
}

enum spool_fault spool_add(struct spool *s, struct str chunk)
{
	s->size += chunk.n;
	if (s->fault || !chunk.n)
		return s->fault;
	if (s->size == chunk.n && mail_headless(chunk))
		s->in_body = true;
	if (s->in_body)
		return add_body(s, chunk);
	bool found;
	size_t n = scan_head(s, chunk, &found);
	if (s->head.n + n > SPOOL_HEADER_OCTETS + (found ? 2u : 0u))
		return fail(s, SPOOL_HEADERS_LONG);
	if (s->lines > SPOOL_HEADER_LINES)
		return fail(s, SPOOL_HEADERS_MANY);
	enum spool_fault f = put(s, &s->head, str_n(chunk.p, n));
	if (f || !found)
		return f;
	s->in_body = true;
	s->head.n -= 2; /* the empty line itself is not stored */
	s->head.p[s->head.n] = 0;
	return add_body(s, str_skip(chunk, n));
}

enum spool_fault spool_finish(struct spool *s)
{
	enum spool_fault f;
	if (s->fault)
		return s->fault;
	if (!s->in_body && s->head.n) {
		struct mail_split cut;
		mail_split(buf_str(&s->head), &cut);
		s->in_body = true;
		f = add_body(s, cut.body);
		if (f)
			return f;
		s->head.n = cut.headers.n;
		if (cut.unterminated && buf_addz(&s->head, "\r\n"))
			return fail(s, SPOOL_FULL);
	}
	if (s->fd >= 0) {
		if (s->body.n && (f = append(s, buf_str(&s->body))))
			return f;
		buf_free(&s->body);
		settle(s);
		if (!s->on_disk)
			fcntl(s->fd, F_ADD_SEALS, SEALS);
	}
	return SPOOL_OK;
}

/* The new body in the old one's place; the spool is settled by the caller. */
static void swap_body(struct spool *s, struct buf *body, int fd, bool on_disk, uint64_t size, uint64_t old)
{
	buf_free(&s->body);
	if (s->fd >= 0)
		close(s->fd);
	s->body = *body;
	s->fd = fd;
	s->on_disk = on_disk;
	s->file_size = fd >= 0 ? size : 0;
	s->size += size - old; /* modular */
	settle(s);
}

enum spool_fault spool_set_head(struct spool *s, struct str head)
{
	struct buf now = BUF_INIT(SPOOL_HEADER_OCTETS + 4);
	unsigned lines = 0;
	if (head.n > SPOOL_HEADER_OCTETS)
		return SPOOL_HEADERS_LONG;
	for (const char *p = head.p, *end = head.p + head.n; p < end && (p = memchr(p, '\n', (size_t)(end - p))); p++)
		lines++;
	if (lines > SPOOL_HEADER_LINES)
		return SPOOL_HEADERS_MANY;
	if (!affordable(s, &now, head.n) || buf_adds(&now, head)) {
		buf_free(&now);
		return SPOOL_FULL;
	}
	s->size += head.n - s->head.n; /* modular */
	buf_free(&s->head);
	s->head = now;
	s->lines = lines;
	settle(s);
	return SPOOL_OK;
}

enum spool_fault spool_set_body(struct spool *s, struct str body)
{
	struct buf now = BUF_INIT(SPOOL_HEAP + SPOOL_HEADER_OCTETS);
	uint64_t old = spool_body_size(s);
	if (!affordable(s, &now, body.n) || buf_adds(&now, body)) {
		buf_free(&now);
		return SPOOL_FULL;
	}
	swap_body(s, &now, -1, false, body.n, old);
	return SPOOL_OK;
}

enum spool_fault spool_set_body_fd(struct spool *s, int fd, uint64_t size)
{
	struct buf none = BUF_INIT(SPOOL_HEAP + SPOOL_HEADER_OCTETS);
	struct spool outside = { .house = s->house, .fd = -1 }, trial = { .house = s->house, .fd = fd, .file_size = size };
	uint64_t old = spool_body_size(s);
	bool large = !in_memory(&outside, size);
	if (large) { /* charged to nobody: only its way to a file is wanted */
		enum spool_fault f = to_disk(&trial);
		if (f)
			return f;
		fd = trial.fd;
	}
	swap_body(s, &none, fd, large, size, old);
	return SPOOL_OK;
}

uint64_t spool_body_size(const struct spool *s)
{
	return s->file_size + s->body.n;
}

int spool_map(const struct spool *s, struct str *ret)
{
	if (s->fd < 0) {
		*ret = buf_str(&s->body);
		return 0;
	}
	if (s->file_size > SIZE_MAX) {
		errno = EFBIG;
		return -1;
	}
	/* private, for a sealed memfd cannot be shared; its pages are there, those of a file may have to be read */
	void *p = mmap(NULL, (size_t)s->file_size, PROT_READ, MAP_PRIVATE | (s->on_disk ? 0 : MAP_POPULATE), s->fd, 0);
	if (p == MAP_FAILED)
		return -1;
	*ret = str_n(p, (size_t)s->file_size);
	return 0;
}

void spool_unmap(const struct spool *s, struct str body)
{
	if (s->fd >= 0 && body.n)
		munmap((void *)(uintptr_t)body.p, body.n);
}

static int memory_fd(struct str body)
{
	int fd = memfd_create("pepsi-body", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -1;
	while (body.n) {
		ssize_t n = write(fd, body.p, body.n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			close(fd);
			return -1;
		}
		body = str_skip(body, (size_t)n);
	}
	fcntl(fd, F_ADD_SEALS, SEALS);
	return fd;
}

int spool_body_fd(const struct spool *s)
{
	char path[64];
	if (s->fd < 0)
		return memory_fd(buf_str(&s->body));
	/* opened anew: its own offset, and no way to write */
	snprintf(path, sizeof path, "/proc/self/fd/%d", s->fd);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	fd = fcntl(s->fd, F_DUPFD_CLOEXEC, 3);
	if (fd >= 0)
		lseek(fd, 0, SEEK_SET);
	return fd;
}
