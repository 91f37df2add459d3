/* One message into one Maildir: tmp/, write, sync, link to new/, sync the folder. Below the fixed prefix every step is an
 * openat() with O_NOFOLLOW from the folder before, so a link planted there leads nowhere; nothing is ever overwritten. */
#include "maildir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { NAME_TRIES = 5, CHUNK = 256 * 1024 };

static enum maildir_result trouble(char *err, size_t size, const char *what, const char *name, int e)
{
	snprintf(err, size, "%s %.200s: %s", what, name, strerror(e));
	/* a link (ELOOP) or a file (ENOTDIR) where a folder should be */
	return e == ELOOP || e == ENOTDIR ? MAILDIR_UNSAFE : MAILDIR_LATER;
}

/* Enters (making it, if allowed) the folder `name` in dir; dir is closed. *made: it is new. */
static int enter(int dir, const char *name, bool create, bool *made, int *ret_errno)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	*made = false;
	if (fd < 0 && errno == ENOENT && create) {
		if (mkdirat(dir, name, 0700) == 0)
			*made = true;
		else if (errno != EEXIST) /* another worker was quicker: fine */
			goto out;
		fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && *made && fsync(dir)) { /* a new mailbox must outlive a crash like the mail in it */
			int e = errno;
			close(fd);
			errno = e;
			fd = -1;
		}
	}
out:
	*ret_errno = errno;
	if (fd < 0 && errno == ENOTDIR) { /* O_NOFOLLOW|O_DIRECTORY on a link gives ENOTDIR as well */
		*ret_errno = ENOTDIR;
	}
	close(dir);
	return fd;
}

/* The Maildir itself, with tmp, new and cur. */
static enum maildir_result open_maildir(const char *fixed, const char *below, bool create, int *ret_dir, char *err, size_t size)
{
	struct str rest = str_from(below), word;
	bool made;
	int e, dir = open(fixed, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 && errno == ENOENT && create && !mkdir(fixed, 0700))
		dir = open(fixed, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return trouble(err, size, "cannot open", fixed, errno);
	while (str_word(&rest, "/", &word)) {
		char name[2 * MAILDIR_NAME_MAX + 64];
		if (snprintf(name, sizeof name, "%.*s", (int)word.n, word.p) >= (int)sizeof name) {
			close(dir);
			return trouble(err, size, "cannot open", below, ENAMETOOLONG);
		}
		dir = enter(dir, name, create, &made, &e);
		if (dir < 0) {
			char path[2 * MAILDIR_PATH_MAX];
			snprintf(path, sizeof path, "%s%.*s", fixed, (int)(word.p + word.n - below), below);
			enum maildir_result r = trouble(err, size, create ? "cannot open or make" : "cannot open", path, e);
			return e == ENOENT ? MAILDIR_NO_MAILBOX : e == ENAMETOOLONG ? MAILDIR_NO_MAILBOX : r;
		}
	}
	*ret_dir = dir;
	return MAILDIR_OK;
}

/* tmp, new or cur below an existing Maildir; made when missing (RFC-less custom: a Maildir with a part missing is repaired). */
static int sub(int maildir, const char *name, int *ret_errno)
{
	bool made;
	int keep = fcntl(maildir, F_DUPFD_CLOEXEC, 0);
	if (keep < 0) {
		*ret_errno = errno;
		return -1;
	}
	return enter(keep, name, true, &made, ret_errno);
}

static int write_all(int fd, struct str s)
{
	while (s.n) {
		ssize_t k = write(fd, s.p, s.n);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -1;
		s = str_skip(s, (size_t)k);
	}
	return 0;
}

/* CRLF becomes LF; through a bounded buffer. A CR at the end of a chunk is looked at with the next one. */
static int write_lf(int fd, struct str s, char *room)
{
	size_t n = 0;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\r' && i + 1 < s.n && s.p[i + 1] == '\n')
			continue;
		room[n++] = s.p[i];
		if (n == CHUNK) {
			if (write_all(fd, str_n(room, n)))
				return -1;
			n = 0;
		}
	}
	return write_all(fd, str_n(room, n));
}

static int write_message(int fd, const struct maildir_message *m)
{
	const struct str parts[] = { m->trace, m->headers, STR_INIT("\r\n"), m->body };
	struct iovec io[4];
	size_t all = 0;
	if (m->lf) {
		char *room = malloc(CHUNK);
		int r = room ? 0 : (errno = ENOMEM, -1);
		for (int i = 0; i < 4 && !r; i++)
			r = write_lf(fd, parts[i], room);
		int e = errno;
		free(room);
		errno = e;
		return r;
	}
	for (int i = 0; i < 4; i++) {
		io[i] = (struct iovec){ (void *)(uintptr_t)parts[i].p, parts[i].n };
		all += parts[i].n;
	}
	ssize_t k = writev(fd, io, 4);
	if (k < 0 && errno != EINTR)
		return -1;
	size_t done = k < 0 ? 0 : (size_t)k;
	for (int i = 0; i < 4 && done < all; i++) { /* a short write: the rest piece by piece */
		if (k > 0 && (size_t)k >= parts[i].n) {
			k -= (ssize_t)parts[i].n;
			continue;
		}
		if (write_all(fd, str_skip(parts[i], k > 0 ? (size_t)k : 0)))
			return -1;
		k = 0;
	}
	return 0;
}

/* "1700000000.M123456P42Q7R0123456789abcdef.host": the usual parts (time, microseconds, pid, counter), and chance, so
 * that nobody who may write there can foretell it. */
static int make_name(char *out, size_t size, unsigned counter, const char *host)
{
	struct timespec t;
	uint64_t rnd;
	char h[64];
	size_t n = 0;
	if (getrandom(&rnd, sizeof rnd, 0) != sizeof rnd)
		return -1;
	clock_gettime(CLOCK_REALTIME, &t);
	for (const char *p = host; *p && n + 1 < sizeof h; p++) {
		char c = *p;
		bool ok = ascii_is_alnum(c) || c == '.' || c == '-' || c == '_';
		h[n++] = ok ? c : '_';
	}
	h[n] = 0;
	snprintf(out, size, "%lld.M%06ldP%ldQ%uR%016llx.%s", (long long)t.tv_sec, t.tv_nsec / 1000, (long)getpid(), counter,
	    (unsigned long long)rnd, h[0] ? h : "localhost");
	return 0;
}

static enum maildir_result put(int tmp, int new, const struct maildir_message *m, unsigned counter, const char *host, char *err,
    size_t size)
{
	char name[192];
	int fd = -1;
	for (int i = 0; i < NAME_TRIES && fd < 0; i++) {
		if (make_name(name, sizeof name, counter, host))
			return trouble(err, size, "no random numbers for", "a file name", errno);
		fd = openat(tmp, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	if (fd < 0)
		return trouble(err, size, "cannot create", "a file in tmp", errno);
	const char *what = write_message(fd, m) ? "cannot write" : fdatasync(fd) ? "cannot sync" : NULL;
	int e = errno;
	if (close(fd) && !what) {
		what = "cannot close";
		e = errno;
	}
	/* link() refuses an existing name, which rename() would replace; some file systems know no links */
	if (!what && linkat(tmp, name, new, name, 0)) {
		e = errno;
		if ((e != EPERM && e != EOPNOTSUPP && e != ENOSYS) || renameat2(tmp, name, new, name, RENAME_NOREPLACE)) {
			what = "cannot move";
			e = errno;
		}
	}
	unlinkat(tmp, name, 0);
	if (!what && fsync(new)) {
		what = "cannot sync";
		e = errno;
		unlinkat(new, name, 0); /* not known to be there: it will be tried again */
	}
	return what ? trouble(err, size, what, "the message", e) : MAILDIR_OK;
}

enum maildir_result maildir_write(const char *fixed, const char *below, bool create, const struct maildir_message *m,
    unsigned counter, const char *host, char *err, size_t size)
{
	int dir = -1, tmp = -1, new = -1, cur = -1, e = 0;
	enum maildir_result r = open_maildir(fixed, below, create, &dir, err, size);
	if (r != MAILDIR_OK)
		return r;
	if ((tmp = sub(dir, "tmp", &e)) < 0)
		r = trouble(err, size, "cannot open", "tmp", e);
	else if ((cur = sub(dir, "cur", &e)) < 0)
		r = trouble(err, size, "cannot open", "cur", e);
	else if ((new = sub(dir, "new", &e)) < 0)
		r = trouble(err, size, "cannot open", "new", e);
	else
		r = put(tmp, new, m, counter, host, err, size);
	close(dir);
	if (tmp >= 0)
		close(tmp);
	if (cur >= 0)
		close(cur);
	if (new >= 0)
		close(new);
	return r;
}
