/* Reading and asking one file of recipients; see recipient_file.h. A hash that two names share would let a stranger's name through to
 * delivery, where it bounces as it would have without all this: with 64 bits that is no concern. */
#include "recipient_file.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 256 * 1024, NAME_MAX_OCTETS = 512, SMALLEST = 64 };

struct set {
	uint64_t *slot; /* 0: free */
	size_t n, cap;  /* cap: a power of two, at least twice n */
};

/* A reading under way. */
struct reading {
	int fd;         /* -1: none */
	struct set set;
	struct stat st;
	size_t lines, skipped;
	char name[NAME_MAX_OCTETS]; /* the word at the beginning of the line, so far */
	size_t name_n;
	bool word_over, too_long;
};

struct recipient_file {
	char *path;
	struct event *turn;
	uint64_t salt[2];
	struct set set;
	struct stat st;
	bool ready, failed; /* failed: it was said */
	unsigned reads;
	struct reading now;
};

static uint64_t hash(const struct recipient_file *f, struct str s)
{
	uint64_t h = f->salt[0] ^ s.n;
	for (size_t i = 0; i < s.n; i++) {
		h = (h ^ (unsigned char)s.p[i]) * UINT64_C(0x100000001b3);
		h ^= h >> 29;
	}
	h = (h ^ f->salt[1]) * UINT64_C(0xff51afd7ed558ccd);
	h ^= h >> 33;
	return h ? h : 1;
}

static size_t place(const struct set *s, uint64_t h)
{
	size_t i = h & (s->cap - 1);
	while (s->slot[i] && s->slot[i] != h)
		i = (i + 1) & (s->cap - 1);
	return i;
}

static int grow(struct set *s, size_t cap)
{
	struct set bigger = { calloc(cap, sizeof *bigger.slot), s->n, cap };
	if (!bigger.slot)
		return -1;
	for (size_t i = 0; i < s->cap; i++)
		if (s->slot[i])
			bigger.slot[place(&bigger, s->slot[i])] = s->slot[i];
	free(s->slot);
	*s = bigger;
	return 0;
}

static int add(struct set *s, uint64_t h)
{
	if (2 * (s->n + 1) > s->cap && grow(s, s->cap ? 2 * s->cap : SMALLEST))
		return -1;
	size_t i = place(s, h);
	s->n += !s->slot[i];
	s->slot[i] = h;
	return 0;
}

static void end_reading(struct recipient_file *f)
{
	if (f->now.fd >= 0)
		close(f->now.fd);
	free(f->now.set.slot);
	f->now.set = (struct set){ 0 };
	f->now.fd = -1;
}

static void fail(struct recipient_file *f, const char *why)
{
	if (!f->failed)
		log_error(NULL, "event=recipients-file file=%s error=%s effect=%s", log_qz(f->path), log_qz(why),
		    f->ready ? "\"what was read before goes on\"" : "\"recipients that may be in it get 451\"");
	f->failed = true;
	end_reading(f);
}

static int end_of_line(struct recipient_file *f)
{
	struct reading *r = &f->now;
	struct str name = str_n(r->name, r->name_n);
	int rc = 0;
	if (r->too_long)
		r->skipped++;
	else if (name.n && name.p[0] != '#')
		rc = add(&r->set, hash(f, name));
	r->name_n = 0;
	r->word_over = r->too_long = false;
	r->lines++;
	return rc;
}

static int take(struct recipient_file *f, const char *p, size_t n)
{
	struct reading *r = &f->now;
	for (size_t i = 0; i < n; i++) {
		char c = p[i];
		if (c == '\n') {
			if (end_of_line(f))
				return -1;
		} else if (r->word_over || c == '\r') {
			continue;
		} else if (c == ' ' || c == '\t') {
			r->word_over = r->name_n > 0;
		} else if (r->name_n == sizeof r->name) {
			r->too_long = r->word_over = true;
		} else {
			r->name[r->name_n++] = ascii_lower(c);
		}
	}
	return 0;
}

static void finish(struct recipient_file *f)
{
	struct reading *r = &f->now;
	if (r->name_n && end_of_line(f)) {
		fail(f, "out of memory");
		return;
	}
	free(f->set.slot);
	f->set = r->set;
	f->st = r->st;
	r->set = (struct set){ 0 };
	f->ready = true;
	f->failed = false;
	f->reads++;
	log_info(NULL, "event=recipients-read file=%s names=%zu skipped=%zu", log_qz(f->path), f->set.n, r->skipped);
	end_reading(f);
}

/* The next piece; true: there may be more. */
static bool go_on(struct recipient_file *f)
{
	static char piece[PIECE];
	ssize_t n = read(f->now.fd, piece, sizeof piece);
	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0)
		fail(f, strerror(errno));
	else if (n == 0)
		finish(f);
	else if (take(f, piece, (size_t)n))
		fail(f, "out of memory");
	return f->now.fd >= 0;
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
	struct recipient_file *f = arg;
	struct timeval now = { 0, 0 };
	(void)fd;
	(void)what;
	if (f->now.fd >= 0 && go_on(f))
		event_add(f->turn, &now); /* behind those who wait for input */
}

static bool same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	    a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

void recipient_file_look(struct recipient_file *f, bool whole)
{
	struct reading *r = &f->now;
	struct stat st;
	struct timeval now = { 0, 0 };
	if (r->fd >= 0 && !whole)
		return;
	if (r->fd < 0) {
		if (stat(f->path, &st)) {
			fail(f, strerror(errno));
			return;
		}
		if (f->ready && same(&st, &f->st))
			return;
		/* O_NONBLOCK: a pipe in its place must not stop everything */
		r->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
		if (r->fd < 0 || fstat(r->fd, &r->st)) {
			fail(f, strerror(errno));
			return;
		}
		if (!S_ISREG(r->st.st_mode)) {
			fail(f, "not a regular file");
			return;
		}
		r->lines = r->skipped = r->name_n = 0;
		r->word_over = r->too_long = false;
	}
	if (whole || !f->ready) {
		while (go_on(f))
			;
		return;
	}
	event_add(f->turn, &now);
}

struct recipient_file *recipient_file_new(struct event_base *base, const char *path)
{
	struct recipient_file *f = calloc(1, sizeof *f);
	if (!f)
		return NULL;
	f->now.fd = -1;
	if (getrandom(f->salt, sizeof f->salt, GRND_NONBLOCK) != (ssize_t)sizeof f->salt)
		f->salt[0] = f->salt[1] = UINT64_C(0x9e3779b97f4a7c15);
	f->path = str_dupz(str_from(path));
	f->turn = evtimer_new(base, on_turn, f);
	if (!f->path || !f->turn) {
		recipient_file_free(f);
		return NULL;
	}
	return f;
}

void recipient_file_free(struct recipient_file *f)
{
	if (!f)
		return;
	end_reading(f);
	if (f->turn)
		event_free(f->turn);
	free(f->set.slot);
	free(f->path);
	free(f);
}

const char *recipient_file_path(const struct recipient_file *f)
{
	return f->path;
}

bool recipient_file_ready(const struct recipient_file *f)
{
	return f->ready;
}

bool recipient_file_has(const struct recipient_file *f, struct str name)
{
	return name.n && f->set.cap && f->set.slot[place(&f->set, hash(f, name))];
}

size_t recipient_file_names(const struct recipient_file *f)
{
	return f->set.n;
}

unsigned recipient_file_reads(const struct recipient_file *f)
{
	return f->reads;
}
