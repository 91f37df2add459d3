/* The secret from which SCRAM answers for names that nobody has are made. It lasts in a file of the state folder: were it made anew with
 * each start, the salt of a name without account would change at each reload, while those of accounts stay, and so tell who has one.
 * May not do anything else with the file system. */
#include "internal.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "signin.key"

static const char *take(int fd, char *out, size_t n)
{
	struct stat st;
	if (fstat(fd, &st))
		return strerror(errno);
	if (!S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid != geteuid() || st.st_mode & 077)
		return "it is not a file that only its owner, who starts pepsid, can read";
	if (pread(fd, out, n, 0) == (ssize_t)n)
		return NULL;
	/* new, or never finished */
	if (getrandom(out, n, 0) != (ssize_t)n)
		return "no random octets";
	if (pwrite(fd, out, n, 0) != (ssize_t)n || fsync(fd))
		return strerror(errno);
	return NULL;
}

int lasting_key(const char *state_dir, char *out, size_t n)
{
	char path[PATH_MAX + sizeof NAME + 1];
	const char *bad;
	snprintf(path, sizeof path, "%s/" NAME, state_dir);
	int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	bad = fd < 0 ? strerror(errno) : take(fd, out, n);
	if (fd >= 0)
		close(fd);
	if (!bad)
		return 0;
	log_warn(NULL, "event=signin-key path=%s reason=%s hint=\"a new one is used until the next start\"", log_qz(path), log_qz(bad));
	return getrandom(out, n, 0) == (ssize_t)n ? 0 : -1;
}
