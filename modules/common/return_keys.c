/* KEY_DIR, read and watched (return_keys.h). Opens nothing through a symbolic link; what others can read is no secret any more, and is not used. */
#include "return_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void keys_init(struct keys *k, const char *dir)
{
	memset(k, 0, sizeof *k);
	k->dir = dir;
}

void keys_done(struct keys *k)
{
	srs_ring_wipe(&k->ring);
}

static bool unchanged(const struct keys *k, const struct stat *st)
{
	return k->good && k->seen.dev == st->st_dev && k->seen.ino == st->st_ino && k->seen.size == st->st_size && k->seen.mtime.tv_sec == st->st_mtim.tv_sec &&
	    k->seen.mtime.tv_nsec == st->st_mtim.tv_nsec && k->seen.ctime.tv_sec == st->st_ctim.tv_sec && k->seen.ctime.tv_nsec == st->st_ctim.tv_nsec;
}

/* NULL, or why the file may not be used. */
static const char *fault_of(const struct stat *st, size_t most)
{
	if (!S_ISREG(st->st_mode))
		return "not a regular file";
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return "it belongs to another account than the stage's";
	if (st->st_mode & (S_IRWXG | S_IRWXO))
		return "others may read it: keys that are no secret are not used (chmod 600)";
	return st->st_size < 0 || (size_t)st->st_size > most ? "too long" : NULL;
}

/* Octets read, at most size; -1: errno. */
static ssize_t read_all(int fd, char *text, size_t size)
{
	size_t n = 0;
	ssize_t got = 0;
	while (n < size && (got = read(fd, text + n, size - n)) > 0)
		n += (size_t)got;
	return got < 0 ? -1 : (ssize_t)n;
}

static int read_ring(struct keys *k, int fd, struct buf *why)
{
	char text[SRS_RING_TEXT_MAX + 1];
	const char *wrong = NULL;
	unsigned line = 0;
	ssize_t n = read_all(fd, text, sizeof text);
	srs_ring_wipe(&k->ring);
	int r = n < 0 ? -1 : srs_ring_parse(str_n(text, (size_t)n), &k->ring, &wrong, &line);
	if (n < 0)
		buf_addz(why, strerror(errno));
	else if (r)
		buf_addf(why, "line %u: %s", line, wrong);
	explicit_bzero(text, sizeof text);
	return r;
}

int keys_file(const char *path, char *text, size_t size, size_t *ret_n, struct buf *why)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	bool there = fd >= 0 && !fstat(fd, &st);
	const char *wrong = there ? fault_of(&st, size) : strerror(errno);
	ssize_t n = wrong ? -1 : read_all(fd, text, size);
	if (!wrong && n < 0)
		wrong = strerror(errno);
	if (wrong) {
		buf_addf(why, "%s: %s", path, wrong);
		explicit_bzero(text, size);
	} else {
		*ret_n = (size_t)n;
	}
	if (fd >= 0)
		close(fd);
	return wrong ? -1 : 0;
}

int keys_use(struct keys *k, struct srs *s, struct buf *why)
{
	struct stat st;
	int dir = open(k->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = dir < 0 ? -1 : openat(dir, SRS_RING_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	const char *wrong = NULL;
	buf_addf(why, "%s/" SRS_RING_FILE ": ", k->dir);
	if (fd < 0 || fstat(fd, &st)) {
		k->good = false;
		buf_addf(why, "%s%s", strerror(errno), errno == ENOENT ? " (pepsi-keys srs add makes it)" : "");
	} else if (!unchanged(k, &st)) {
		wrong = fault_of(&st, SRS_RING_TEXT_MAX);
		if (wrong)
			buf_addz(why, wrong);
		k->good = !wrong && !read_ring(k, fd, why);
		k->seen.dev = st.st_dev;
		k->seen.ino = st.st_ino;
		k->seen.size = st.st_size;
		k->seen.mtime = st.st_mtim;
		k->seen.ctime = st.st_ctim;
		if (k->good && !srs_ring_active(&k->ring)) {
			k->good = false;
			buf_addz(why, "there is no active key (pepsi-keys srs add)");
		}
	}
	if (fd >= 0)
		close(fd);
	if (dir >= 0)
		close(dir);
	if (!k->good) {
		srs_ring_wipe(&k->ring);
		return -1;
	}
	buf_reset(why);
	const struct srs_ring_key *old = srs_ring_retired(&k->ring);
	s->keys[0] = str_n((const char *)srs_ring_active(&k->ring)->key, SRS_RING_KEY);
	s->keys[1] = old ? str_n((const char *)old->key, SRS_RING_KEY) : STR_NULL;
	return 0;
}
