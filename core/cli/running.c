/* Finding the state folder of a pepsid that was started with `-c FILE --state DIR`, for tools that are given only -c FILE:
 * DIR stands in its command line, which /proc shows. Reads /proc, opens nothing else; the control socket's own checks
 * decide what may be asked there. */
#include "cli_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CMDLINE_MAX = 16 * 1024, ARGS_MAX = 32 };

/* The value of an option in argv: "-c X", "-cX", "--config X", "--config=X"; the last one counts. */
static const char *option(char *const *argv, size_t argc, const char *shorter, const char *longer)
{
	const char *found = NULL;
	size_t n = strlen(longer);
	for (size_t i = 1; i < argc; i++) {
		if (shorter && !strncmp(argv[i], shorter, 2) && argv[i][2])
			found = argv[i] + 2;
		else if (!strncmp(argv[i], longer, n) && argv[i][n] == '=')
			found = argv[i] + n + 1;
		else if (i + 1 < argc && (!strcmp(argv[i], longer) || (shorter && !strcmp(argv[i], shorter))))
			found = argv[++i];
	}
	return found;
}

/* An absolute path is itself; others are taken from the process' working directory, where that may be read. */
static bool absolute(int proc, const char *path, char *out, size_t size)
{
	char cwd[PATH_MAX];
	if (path[0] == '/')
		return snprintf(out, size, "%s", path) < (int)size;
	ssize_t n = readlinkat(proc, "cwd", cwd, sizeof cwd - 1);
	if (n <= 0)
		return false;
	cwd[n] = 0;
	return snprintf(out, size, "%s/%s", cwd, path) < (int)size;
}

/* Is it a pepsid with this configuration and a --state of its own? */
static bool looks_right(int proc, const struct stat *file, char *out, size_t size)
{
	char line[CMDLINE_MAX], path[PATH_MAX], *argv[ARGS_MAX];
	struct stat st;
	size_t argc = 0;
	int fd = openat(proc, "cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, line, sizeof line - 1) : -1;
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	line[n] = 0;
	for (char *p = line; p < line + n && argc < ARGS_MAX; p += strlen(p) + 1)
		argv[argc++] = p;
	const char *base = strrchr(argv[0], '/');
	if (strcmp(base ? base + 1 : argv[0], "pepsid") && (argc < 2 || strcmp(argv[1], "daemon")))
		return false;
	const char *config = option(argv, argc, "-c", "--config"), *state = option(argv, argc, NULL, "--state");
	return config && state && absolute(proc, config, path, sizeof path) && !stat(path, &st) && st.st_dev == file->st_dev &&
	    st.st_ino == file->st_ino && absolute(proc, state, out, size);
}

bool cli_running_state(const struct cli *c, char *out, size_t size)
{
	struct stat file, owner;
	struct dirent *e;
	bool found = false;
	DIR *dir;
	if (stat(cli_config_file(c), &file) || !(dir = opendir("/proc")))
		return false;
	while (!found && (e = readdir(dir))) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		int proc = openat(dirfd(dir), e->d_name, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
		/* root's, or our own: nobody else's is to be talked to in this way */
		if (proc >= 0 && !fstat(proc, &owner) && (owner.st_uid == 0 || owner.st_uid == geteuid()))
			found = looks_right(proc, &file, out, size);
		if (proc >= 0)
			close(proc);
	}
	closedir(dir);
	return found;
}
