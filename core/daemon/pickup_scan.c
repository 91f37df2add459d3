/* What lies in the drop folder: which files are messages whose turn it is, what is put aside, and how much of it one user may leave
 * there. Looks at names and at what lstat() says, opens and reads nothing. Everything here is written by users, any number of it. */
#include "pickup_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What one user has there, as far as a look has come. */
struct user {
	uid_t uid;
	bool known;
	unsigned taken, begun, swept;
	uint64_t files, octets, over, over_octets;
};

struct users {
	size_t n;
	struct user of[2 * SCAN_USERS_MAX]; /* open addressing */
};

/* NULL: there are too many of them; these wait until others' files are gone. */
static struct user *user_of(struct users *u, uid_t uid)
{
	enum { SLOTS = 2 * SCAN_USERS_MAX };
	size_t i = (uint32_t)uid * 2654435761u % SLOTS;
	while (u->of[i].known && u->of[i].uid != uid)
		i = (i + 1) % SLOTS;
	if (!u->of[i].known) {
		if (u->n == SCAN_USERS_MAX)
			return NULL;
		u->n++;
		u->of[i].known = true;
		u->of[i].uid = uid;
	}
	return &u->of[i];
}

static DIR *open_again(int folder)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	if (!d && fd >= 0)
		close(fd);
	return d;
}

void pickup_aside(struct run *r, const char *name, const struct stat *st, const char *why)
{
	char to[128];
	bool removed = r->n_bad >= r->keep_bad;
	snprintf(to, sizeof to, "%u-%lld-%u", (unsigned)st->st_uid, (long long)clock_wall_us(), r->n_bad);
	int rc = removed ? unlinkat(r->drop, name, S_ISDIR(st->st_mode) ? AT_REMOVEDIR : 0) : -1;
	if (rc && removed && errno == ENOTEMPTY)
		removed = false;
	if (!removed)
		rc = renameat2(r->drop, name, r->bad, to, RENAME_NOREPLACE);
	r->n_bad += !removed && !rc;
	log_warn(NULL, "event=drop-aside uid=%u file=%s reason=%s %s=%s", (unsigned)st->st_uid, log_qz(name), log_qz(why),
	    rc ? "error" : removed ? "removed" : "to", rc ? log_qz(strerror(errno)) : removed ? "yes" : to);
}

static int by_turn(const void *x, const void *y)
{
	const struct entry *a = x, *b = y;
	if (a->turn != b->turn)
		return a->turn < b->turn ? -1 : 1;
	return a->mtime_ns < b->mtime_ns ? -1 : a->mtime_ns > b->mtime_ns;
}

static int by_user(const void *x, const void *y)
{
	const struct entry *a = x, *b = y;
	if (a->uid != b->uid)
		return a->uid < b->uid ? -1 : 1;
	return a->mtime_ns < b->mtime_ns ? -1 : a->mtime_ns > b->mtime_ns;
}

/* Each user's first, then each one's second, …; beyond `round` of one user the next run has them. */
static size_t in_turns(const struct run *r, struct entry *e, size_t n)
{
	size_t kept = 0;
	qsort(e, n, sizeof *e, by_user);
	for (size_t i = 0; i < n; i++)
		e[i].turn = i && e[i].uid == e[i - 1].uid ? e[i - 1].turn + 1 : 0;
	qsort(e, n, sizeof *e, by_turn);
	while (kept < n && e[kept].turn < r->round)
		kept++;
	return kept;
}

/* Of a user who has that many unfinished files they are no messages on their way: the programs that write them, if there are any, see
 * that theirs is gone and say that it was not sent. */
static void begun(struct run *r, struct user *u, const char *name, const struct stat *st, time_t now)
{
	if (now - st->st_ctim.tv_sec > BEGUN_S || (uint64_t)st->st_size > r->size_max)
		pickup_aside(r, name, st, "never finished, or too large");
	else if (++u->begun > BEGUN_USER_MAX && unlinkat(r->drop, name, 0) == 0)
		u->swept++;
}

size_t pickup_scan(struct run *r, struct entry *out)
{
	DIR *d = open_again(r->drop);
	struct users *users = d ? calloc(1, sizeof *users) : NULL;
	const struct dirent *de;
	size_t n = 0, seen = 0;
	time_t now = time(NULL);
	int64_t began = clock_mono_us();
	unsigned most = r->round < SCAN_USER_MAX ? r->round : SCAN_USER_MAX;
	r->cut = false;
	while (users && (de = readdir(d))) {
		struct stat st;
		if (n == SCAN_MAX || (n && ++seen % 1024 == 0 && clock_mono_us() - began > SCAN_US)) {
			r->cut = true;
			break;
		}
		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0 || fstatat(r->drop, de->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (!S_ISREG(st.st_mode)) {
			pickup_aside(r, de->d_name, &st, "no plain file");
			continue;
		}
		if (st.st_nlink > 1) { /* whose it is says nothing about who put it there */
			pickup_aside(r, de->d_name, &st, "it has several names");
			continue;
		}
		struct user *u = user_of(users, st.st_uid);
		if (!u) {
			r->cut = true;
		} else if (submit_drop_name_done(de->d_name)) {
			if (u->taken++ >= most)
				continue;
			struct entry *e = &out[n++];
			snprintf(e->name, sizeof e->name, "%s", de->d_name);
			e->uid = st.st_uid;
			e->mtime_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
		} else if (submit_drop_name_begun(de->d_name)) {
			begun(r, u, de->d_name, &st, now);
		} else {
			pickup_aside(r, de->d_name, &st, "no name of a message");
		}
	}
	for (size_t i = 0; users && i < sizeof users->of / sizeof *users->of; i++)
		if (users->of[i].swept)
			log_warn(NULL, "event=drop-begun uid=%u removed=%u limit=%d", (unsigned)users->of[i].uid, users->of[i].swept, BEGUN_USER_MAX);
	free(users);
	if (d)
		closedir(d);
	return in_turns(r, out, n);
}

void pickup_quota(struct run *r)
{
	DIR *d = r->user_files || r->user_octets ? open_again(r->drop) : NULL;
	struct users *users = d ? calloc(1, sizeof *users) : NULL;
	const struct dirent *de;
	while (users && (de = readdir(d))) {
		struct stat st;
		struct user *u;
		if (fstatat(r->drop, de->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode) || st.st_nlink > 1 || !st.st_uid ||
		    !(u = user_of(users, st.st_uid)))
			continue;
		/* what it takes of the disk, not what it says: a file of nothing but a hole costs little */
		uint64_t octets = (uint64_t)st.st_blocks * 512;
		if ((!r->user_files || u->files < r->user_files) && (!r->user_octets || u->octets + octets <= r->user_octets)) {
			u->files++;
			u->octets += octets;
		} else if (unlinkat(r->drop, de->d_name, 0) == 0) {
			u->over++;
			u->over_octets += octets;
		}
	}
	for (size_t i = 0; users && i < sizeof users->of / sizeof *users->of; i++)
		if (users->of[i].over)
			log_error(NULL, "event=drop-over-quota uid=%u removed=%llu octets=%llu left=%llu hint=\"DROP_USER_FILES, DROP_USER_SIZE\"",
			    (unsigned)users->of[i].uid, (unsigned long long)users->of[i].over, (unsigned long long)users->of[i].over_octets,
			    (unsigned long long)users->of[i].files);
	free(users);
	if (d)
		closedir(d);
}

unsigned pickup_count(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *de;
	unsigned n = 0;
	while (d && (de = readdir(d)))
		n += de->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}
