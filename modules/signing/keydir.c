/* KEY_DIR, read and watched (keydir.h). Opens nothing through a symbolic link. */
#include "keydir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_AGAIN_US = 1000000, NAMES_MAX = 256, FAULTS_MAX = 2000, PARENTS_MAX = 10 };
#define RING_NAME "keys"

/* What tells that a file is not the one that was read. */
struct seen {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime, ctime;
	mode_t mode;
	bool there;
};

struct entry {
	struct keydir_domain d; /* name "": free */
	struct seen folder, ring, pem[KEYDIR_KEYS_MAX];
	bool faulty; /* some file could not be used: it is tried again each time, for what helps it may leave no trace here */
	enum keydir_found found;
	struct buf why;
	int64_t looked_us, used;
};

struct keydir {
	char *path;
	struct entry e[KEYDIR_DOMAINS_MAX];
	int64_t clock; /* counts uses */
};

struct keydir *keydir_new(const char *path)
{
	struct keydir *d = calloc(1, sizeof *d);
	if (d && !(d->path = strdup(path))) {
		free(d);
		return NULL;
	}
	return d;
}

static void forget(struct entry *e)
{
	for (size_t i = 0; i < e->d.n; i++) {
		buf_free_secret(&e->d.key[i].pem);
		dkim_private_free(e->d.key[i].key);
		buf_free(&e->d.key[i].record);
	}
	buf_free(&e->why);
	memset(e, 0, sizeof *e);
}

void keydir_free(struct keydir *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < KEYDIR_DOMAINS_MAX; i++)
		forget(&d->e[i]);
	free(d->path);
	free(d);
}

static struct seen seen_of(const struct stat *st)
{
	return (struct seen){ .dev = st->st_dev, .ino = st->st_ino, .size = st->st_size, .mtime = st->st_mtim, .ctime = st->st_ctim, .mode = st->st_mode, .there = true };
}

static struct seen look(int folder, const char *name)
{
	struct stat st;
	return fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) ? (struct seen){ .there = false } : seen_of(&st);
}

static bool same(const struct seen *a, const struct seen *b)
{
	return a->there == b->there && (!a->there || (a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->mode == b->mode && a->mtime.tv_sec == b->mtime.tv_sec &&
	    a->mtime.tv_nsec == b->mtime.tv_nsec && a->ctime.tv_sec == b->ctime.tv_sec && a->ctime.tv_nsec == b->ctime.tv_nsec));
}

/* A folder that nobody but this account and root may change. Its descriptor, or -1: errno, or EPERM and *what. */
static int open_folder(int at, const char *name, struct stat *st, const char **what)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	*what = NULL;
	if (fd < 0)
		return -1;
	if (fstat(fd, st))
		*what = "cannot be looked at";
	else if (st->st_uid != geteuid() && st->st_uid != 0)
		*what = "belongs to another account";
	else if (st->st_mode & 022)
		*what = "may be changed by others (chmod 700)";
	if (!*what)
		return fd;
	close(fd);
	errno = EPERM;
	return -1;
}

/* A small file of this account's. secret: that nobody else may read. 0, or -1 and *what. */
static int read_file(int folder, const char *name, bool secret, size_t most, struct buf *out, struct seen *seen, const char **what)
{
	struct stat st;
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	*what = NULL;
	if (fd < 0) {
		*what = errno == ELOOP ? "is a symbolic link" : errno == ENOENT ? "is not there" : errno == EACCES ? "may not be read by the stage's account" : strerror(errno);
		*seen = look(folder, name);
		return -1;
	}
	if (fstat(fd, &st)) {
		*what = "cannot be looked at";
	} else {
		*seen = seen_of(&st);
		if (!S_ISREG(st.st_mode))
			*what = "is no file";
		else if (st.st_uid != geteuid() && (secret || st.st_uid != 0))
			*what = "belongs to another account than the stage's";
		else if (secret && st.st_mode & 077)
			*what = "may be read or changed by others than the stage's account (chmod 600)";
		else if (st.st_mode & 022)
			*what = "may be changed by others than the stage's account";
		else if ((size_t)st.st_size > most)
			*what = "is too long";
	}
	while (!*what) {
		char *room = buf_room(out, 1024);
		ssize_t n = room ? read(fd, room, 1024) : -1;
		if (n < 0 && room && errno == EINTR)
			continue;
		if (n < 0)
			*what = room ? "cannot be read" : "is too long";
		if (n <= 0)
			break;
		out->n += (size_t)n;
	}
	close(fd);
	return *what ? -1 : 0;
}

static void wrong(struct entry *e, const char *name, const char *what)
{
	e->faulty = true;
	buf_addf(&e->why, "%s%s/%s %s", e->why.n ? "; " : "", e->d.name, name, what);
}

/* One key, of the file SELECTOR.pem. */
static void take(struct entry *e, int folder, const char *selector)
{
	char name[DKIM_SELECTOR_MAX + 5];
	struct dkim_private *key = NULL;
	const char *what = NULL;
	struct seen seen;
	snprintf(name, sizeof name, "%s.pem", selector);
	if (e->d.n == KEYDIR_KEYS_MAX) {
		wrong(e, name, "is one too many to sign with");
		return;
	}
	struct keydir_key *k = &e->d.key[e->d.n];
	*k = (struct keydir_key){ .pem = BUF_INIT(DKIM_PEM_MAX + 1024), .record = BUF_INIT(2048) };
	/* room for all of it at once: what grows leaves copies behind */
	bool good = buf_room(&k->pem, DKIM_PEM_MAX + 1) && !read_file(folder, name, true, DKIM_PEM_MAX, &k->pem, &seen, &what) &&
	    !dkim_private_read(buf_str(&k->pem), &key, &what) && !dkim_private_record(key, &k->record);
	if (good) {
		k->pem.p[k->pem.n] = 0;
		good = strlen(k->pem.p) == k->pem.n;
		what = good ? NULL : "has a NUL in it";
	}
	if (good) {
		snprintf(k->selector, sizeof k->selector, "%s", selector);
		k->algorithm = dkim_private_algorithm(key);
		dkim_private_kind(key, k->kind);
		k->key = key;
		key = NULL;
		e->pem[e->d.n++] = seen;
	} else {
		char text[200];
		bool file = what && (!strncmp(what, "is ", 3) || !strncmp(what, "may ", 4) || !strncmp(what, "belongs ", 8) || !strncmp(what, "cannot ", 7) || !strncmp(what, "has ", 4));
		snprintf(text, sizeof text, "%s%s", !what || file ? "" : "holds no key to sign with: ", what ? what : "cannot be kept: out of memory");
		wrong(e, name, text);
		buf_free_secret(&k->pem);
		buf_free(&k->record);
	}
	dkim_private_free(key);
}

/* With a ring: its active keys. *any: there are some. */
static void take_ring(struct entry *e, int folder, const struct buf *text, bool *any)
{
	struct dkim_ring r;
	const char *why;
	unsigned line;
	if (dkim_ring_parse(buf_str(text), &r, &why, &line)) {
		char what[160];
		snprintf(what, sizeof what, "line %u: %s", line, why);
		wrong(e, RING_NAME, what);
		*any = true;
		return;
	}
	for (size_t i = 0; i < r.n; i++)
		if (r.key[i].state == DKIM_KEY_ACTIVE) {
			*any = true;
			take(e, folder, r.key[i].selector);
		}
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Without one: every SELECTOR.pem, in the order of their names. */
static void take_all(struct entry *e, int folder, bool *any)
{
	char name[KEYDIR_KEYS_MAX * 4][DKIM_SELECTOR_MAX + 1];
	size_t n = 0, looked = 0;
	int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *f;
	if (!d) {
		if (copy >= 0)
			close(copy);
		wrong(e, "", "cannot be listed");
		*any = true;
		return;
	}
	while ((f = readdir(d)) && looked++ < NAMES_MAX) {
		struct str s = str_from(f->d_name);
		if (!str_iends(s, STR(".pem")) || n == sizeof name / sizeof *name)
			continue;
		s.n -= 4;
		if (!dkim_selector_ok(s))
			continue;
		snprintf(name[n++], sizeof *name, "%.*s", STR_ARG(s));
	}
	closedir(d);
	qsort(name, n, sizeof *name, by_name);
	*any = n > 0;
	for (size_t i = 0; i < n; i++)
		take(e, folder, name[i]);
}

static void load(struct entry *e, int folder, const struct stat *st)
{
	struct buf text = BUF_INIT(DKIM_RING_TEXT_MAX + 1024);
	const char *what;
	bool any = false;
	e->folder = seen_of(st);
	if (!read_file(folder, RING_NAME, false, DKIM_RING_TEXT_MAX, &text, &e->ring, &what)) {
		take_ring(e, folder, &text, &any);
	} else if (!e->ring.there) {
		take_all(e, folder, &any);
	} else {
		wrong(e, RING_NAME, what);
		any = true;
	}
	e->found = e->d.n ? KEYDIR_OK : any ? KEYDIR_BAD : KEYDIR_NONE;
	buf_free(&text);
}

static bool unchanged(const struct entry *e, int folder, const struct stat *st)
{
	struct seen now = seen_of(st);
	if (!same(&e->folder, &now))
		return false;
	now = look(folder, RING_NAME);
	if (!same(&e->ring, &now))
		return false;
	for (size_t i = 0; i < e->d.n; i++) {
		char name[DKIM_SELECTOR_MAX + 5];
		snprintf(name, sizeof name, "%s.pem", e->d.key[i].selector);
		now = look(folder, name);
		if (!same(&e->pem[i], &now))
			return false;
	}
	return !e->faulty;
}

static struct entry *entry_of(struct keydir *d, const char *domain)
{
	struct entry *old = &d->e[0];
	for (size_t i = 0; i < KEYDIR_DOMAINS_MAX; i++) {
		if (!strcmp(d->e[i].d.name, domain))
			return &d->e[i];
		if (d->e[i].used < old->used)
			old = &d->e[i];
	}
	return old;
}

enum keydir_found keydir_get(struct keydir *d, const char *domain, int64_t now_us, const struct keydir_domain **ret, struct buf *faults)
{
	struct entry *e = entry_of(d, domain);
	bool mine = !strcmp(e->d.name, domain);
	const char *what;
	struct stat st;
	if (strchr(domain, '/') || domain[0] == '.') /* no domain; whoever asks has seen to that */
		return KEYDIR_NONE;
	if (mine && now_us >= e->looked_us && now_us - e->looked_us < LOOK_AGAIN_US) {
		e->used = ++d->clock;
		*ret = &e->d;
		if (e->found == KEYDIR_BAD)
			buf_adds(faults, buf_str(&e->why));
		return e->found;
	}
	int root = open_folder(AT_FDCWD, d->path, &st, &what);
	if (root < 0) {
		buf_addf(faults, "KEY_DIR %s %s", d->path, what ? what : strerror(errno));
		return KEYDIR_BAD;
	}
	int folder = open_folder(root, domain, &st, &what), err = errno;
	close(root);
	if (folder < 0) {
		if (mine)
			forget(e);
		if (!what && (err == ENOENT || err == ENAMETOOLONG))
			return KEYDIR_NONE;
		buf_addf(faults, "%s %s", domain, what ? what : err == ELOOP || err == ENOTDIR ? "is no folder" : strerror(err));
		return KEYDIR_BAD;
	}
	if (!mine || !unchanged(e, folder, &st)) {
		forget(e);
		snprintf(e->d.name, sizeof e->d.name, "%s", domain);
		e->why = BUF_INIT(FAULTS_MAX);
		load(e, folder, &st);
		buf_adds(faults, buf_str(&e->why));
	} else if (e->found == KEYDIR_BAD) {
		buf_adds(faults, buf_str(&e->why));
	}
	close(folder);
	e->looked_us = now_us;
	e->used = ++d->clock;
	*ret = &e->d;
	return e->found;
}

enum keydir_found keydir_nearest(struct keydir *d, const char *domain, bool above, int64_t now_us, const struct keydir_domain **ret, struct buf *faults)
{
	enum keydir_found found = KEYDIR_NONE;
	for (unsigned up = 0; domain && up < PARENTS_MAX; up++) {
		found = keydir_get(d, domain, now_us, ret, faults);
		domain = found == KEYDIR_NONE && above ? strchr(domain, '.') : NULL;
		domain = domain && strchr(domain + 1, '.') ? domain + 1 : NULL; /* nobody signs for a top level */
	}
	return found;
}
