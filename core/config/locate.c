/* Notes that lead from a configuration file to the state folder of the pepsid that runs with it. Small files, replaced by
 * rename; what others could have written is not believed. */
#include "config/locate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOTE_PATH = 512 };

/* The folder of notes of an account. */
static void folder(uid_t uid, char *out, size_t size)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	if (uid == 0)
		snprintf(out, size, "/run/pepsi");
	else if (run && run[0] == '/' && uid == geteuid() && strlen(run) < 200)
		snprintf(out, size, "%s/pepsi", run);
	else
		snprintf(out, size, "/tmp/pepsi-%u", (unsigned)uid);
}

/* FNV-1a over the file's real path: a name for a file, no secret. */
static int note_path(uid_t uid, const char *config_path, char *out, size_t size)
{
	char real[PATH_MAX], dir[256];
	uint64_t h = UINT64_C(14695981039346656037);
	if (!realpath(config_path, real))
		return -1;
	for (const char *p = real; *p; p++)
		h = (h ^ (unsigned char)*p) * UINT64_C(1099511628211);
	folder(uid, dir, sizeof dir);
	snprintf(out, size, "%s/by-config/%016llx", dir, (unsigned long long)h);
	return 0;
}

/* Makes a folder that is ours and that nobody else writes to; an existing one must be just so. */
static int own_folder(const char *path)
{
	struct stat st;
	if (mkdir(path, 0755) && errno != EEXIST)
		return -1;
	if (lstat(path, &st))
		return -1;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH)) {
		errno = EPERM;
		return -1;
	}
	return 0;
}

int config_locate_note(const char *config_path, const char *state_dir)
{
	char dir[256], sub[300], note[NOTE_PATH], next[NOTE_PATH + 32];
	folder(geteuid(), dir, sizeof dir);
	snprintf(sub, sizeof sub, "%s/by-config", dir);
	if (own_folder(dir) || own_folder(sub) || note_path(geteuid(), config_path, note, sizeof note))
		return -1;
	snprintf(next, sizeof next, "%s.%ld", note, (long)getpid());
	int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -1;
	size_t n = strlen(state_dir);
	int bad = write(fd, state_dir, n) != (ssize_t)n;
	bad |= close(fd) != 0;
	if (bad || rename(next, note)) {
		unlink(next);
		return -1;
	}
	return 0;
}

static int read_note(uid_t uid, const char *config_path, char *out, size_t size)
{
	char note[NOTE_PATH];
	struct stat st;
	if (note_path(uid, config_path, note, sizeof note))
		return -1;
	int fd = open(note, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = fstat(fd, &st) || st.st_uid != uid || !S_ISREG(st.st_mode) || st.st_mode & (S_IWGRP | S_IWOTH)
	                ? -1
	                : read(fd, out, size - 1);
	close(fd);
	if (n <= 0 || n == (ssize_t)size - 1 || out[0] != '/' || memchr(out, 0, (size_t)n))
		return -1;
	out[n] = 0;
	return 0;
}

int config_locate_find(const char *config_path, char *out, size_t size)
{
	char found[PATH_MAX];
	/* one's own first: a pepsid started by hand is nearer than the machine's */
	if (read_note(geteuid(), config_path, found, sizeof found) && read_note(0, config_path, found, sizeof found))
		return -1;
	if (strlen(found) >= size)
		return -1;
	snprintf(out, size, "%s", found);
	return 0;
}

void config_locate_forget(const char *config_path, const char *state_dir)
{
	char found[PATH_MAX], note[NOTE_PATH];
	if (read_note(geteuid(), config_path, found, sizeof found) == 0 && strcmp(found, state_dir) == 0 &&
	    note_path(geteuid(), config_path, note, sizeof note) == 0)
		unlink(note);
}
