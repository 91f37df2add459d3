/* The private cluster: where it lies, how it is made and started; see cluster.h. */
#include "store/cluster_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PG_MAJOR_MIN = 14, LOG_ROTATE = 10 * 1024 * 1024 };
/* Stands in the data folder while it is being made; whatever else is there then may be thrown away. */
static const char partial[] = "initdb.partial", fresh[] = "initdb.new";

static int put_path(char *out, size_t size, char *err, size_t err_size, const char *a, const char *b)
{
	int n = snprintf(out, size, "%s%s", a, b);

	if (n < 0 || (size_t)n >= size) {
		snprintf(err, err_size, "path too long (%zu octets at most): %.100s…%s", size - 1, a, b);
		return -1;
	}
	return 0;
}

static bool has_programs(const char *dir)
{
	char a[PATH_MAX], b[PATH_MAX];

	return snprintf(a, sizeof(a), "%s/initdb", dir) < (int)sizeof(a) &&
	    snprintf(b, sizeof(b), "%s/postgres", dir) < (int)sizeof(b) && access(a, X_OK) == 0 && access(b, X_OK) == 0;
}

/* Major version of a cluster that exists, 0: there is none (or it may not be read, which looks the same to strangers). */
static uint64_t data_major(const char *data)
{
	char path[512], text[16];
	uint64_t major = 0;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/PG_VERSION", data);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text));
	close(fd);
	if (n <= 0 || str_u64(str_trim(str_n(text, (size_t)n)), 1000, &major) < 0)
		return 0;
	return major;
}

static int find_bin(struct cluster_paths *p, char *err, size_t err_size)
{
	const char *env = getenv("PEPSI_PG_BIN"), *path = getenv("PATH");
	uint64_t want = data_major(p->data);
	struct str rest, dir;

	if (env && *env) {
		if (!has_programs(env)) {
			snprintf(err, err_size, "PEPSI_PG_BIN: no initdb and postgres in %.200s", env);
			return -1;
		}
		return put_path(p->bin, sizeof(p->bin), err, err_size, env, "");
	}
	for (unsigned major = want ? (unsigned)want : 40; major >= PG_MAJOR_MIN; major--) {
		snprintf(p->bin, sizeof(p->bin), "/usr/lib/postgresql/%u/bin", major);
		if (has_programs(p->bin))
			return 0;
		snprintf(p->bin, sizeof(p->bin), "/usr/pgsql-%u/bin", major);
		if (has_programs(p->bin))
			return 0;
		if (want)
			break;
	}
	for (rest = str_from(path ? path : "/usr/local/bin:/usr/bin"); str_word(&rest, ":", &dir);) {
		if (dir.n >= sizeof(p->bin))
			continue;
		snprintf(p->bin, sizeof(p->bin), "%.*s", STR_ARG(dir));
		if (has_programs(p->bin))
			return 0;
	}
	p->bin[0] = '\0';
	if (want)
		snprintf(err, err_size, "%.200s was made by PostgreSQL %u, whose server programs are not here: install "
		    "postgresql-%u, or set PEPSI_PG_BIN", p->data, (unsigned)want, (unsigned)want);
	else
		snprintf(err, err_size, "no PostgreSQL server programs (initdb, postgres) of version %u or newer: install "
		    "postgresql, or set PEPSI_PG_BIN, or name a server in [pepsi-postgres] CONFIG", PG_MAJOR_MIN);
	return -1;
}

int cluster_paths_set(struct cluster_paths *p, const char *state_dir, char *err, size_t err_size)
{
	char *real = realpath(state_dir, NULL), cwd[PATH_MAX], joined[2 * PATH_MAX];
	const char *state = real;
	struct cluster_paths out = { .data = "" };
	size_t room = sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof("/.s.PGSQL.5432");
	int rc = -1;

	if (!state) {
		state = state_dir;
		if (*state_dir != '/') {
			if (!getcwd(cwd, sizeof(cwd))) {
				snprintf(err, err_size, "current folder: %s", strerror(errno));
				return -1;
			}
			snprintf(joined, sizeof(joined), "%s/%s", cwd, state_dir);
			state = joined;
		}
	}
	if (strpbrk(state, "'\n\\")) {
		snprintf(err, err_size, "STATE_DIR must not have a quote, backslash or line end in its name");
		goto out;
	}
	if (put_path(out.data, sizeof(out.data), err, err_size, state, "/postgres") < 0 ||
	    put_path(out.log, sizeof(out.log), err, err_size, state, "/postgres/server.log") < 0)
		goto out;
	if (strlen(state) + sizeof("/run") - 1 <= room) {
		if (put_path(out.socket, sizeof(out.socket), err, err_size, state, "/run") < 0)
			goto out;
	} else {
		uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a: the same name for every process that asks */

		for (const char *s = state; *s; s++)
			h = (h ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
		snprintf(out.socket, sizeof(out.socket), "/tmp/pepsi-%016llx", (unsigned long long)h);
	}
	if (find_bin(&out, err, err_size) < 0)
		goto out;
	*p = out;
	rc = 0;
out:
	free(real);
	return rc;
}

void cluster_conninfo(const struct cluster_paths *p, char *out, size_t size)
{
	struct stat st;
	struct passwd *pw = stat(p->data, &st) == 0 ? getpwuid(st.st_uid) : NULL;
	int n = snprintf(out, size, "host='%s' port=5432 dbname=pepsi", p->socket);

	if (pw && !strpbrk(pw->pw_name, "'\\ ") && n > 0 && (size_t)n < size)
		snprintf(out + n, size - (size_t)n, " requirepeer='%s'", pw->pw_name);
}

/* --- folders --- */

/* Removes what is in the folder dir_fd (closed), but for `keep`. Never follows links, never leaves the file system tree
 * it was given; depth is bounded by what initdb makes. */
static int empty_folder(int dir_fd, const char *keep, unsigned depth)
{
	DIR *d = fdopendir(dir_fd);
	struct dirent *e;
	int rc = 0;

	if (!d) {
		close(dir_fd);
		return -1;
	}
	while (rc == 0 && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || (keep && !strcmp(e->d_name, keep)))
			continue;
		if (unlinkat(dirfd(d), e->d_name, 0) == 0)
			continue;
		if (errno == EISDIR || errno == EPERM) {
			int sub = depth < 8 ? openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;

			if (sub < 0 || empty_folder(sub, NULL, depth + 1) < 0 || unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR) < 0)
				rc = -1;
		} else {
			rc = -1;
		}
	}
	closedir(d);
	return rc;
}

/* A folder of ours: made if missing, else checked. Returns an open descriptor or -1. */
static int own_folder(const char *path, mode_t mode, bool owner, char *err, size_t err_size)
{
	struct stat st;
	bool made = mkdir(path, mode) == 0;
	int fd;

	if (!made && errno != EEXIST) {
		snprintf(err, err_size, "cannot make %.200s: %s (it must exist and belong to user id %u, or its parent let that "
		    "account make it)", path, strerror(errno), (unsigned)geteuid());
		return -1;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0) {
		snprintf(err, err_size, "%.200s: %s", path, errno == ELOOP || errno == ENOTDIR ? "is not a folder" : strerror(errno));
		goto bad;
	}
	if (owner && st.st_uid != geteuid()) {
		snprintf(err, err_size, "%.200s belongs to user id %u, not to %u", path, (unsigned)st.st_uid, (unsigned)geteuid());
		goto bad;
	}
	/* The umask may have taken away what other accounts need. */
	if ((owner || made) && (st.st_mode & 07777) != mode && fchmod(fd, mode) < 0) {
		snprintf(err, err_size, "%.200s: cannot set mode %o: %s", path, (unsigned)mode, strerror(errno));
		goto bad;
	}
	return fd;
bad:
	if (fd >= 0)
		close(fd);
	return -1;
}

static int socket_folder(const struct cluster_paths *p, char *err, size_t err_size)
{
	size_t state = strlen(p->data) - strlen("/postgres");
	bool shared = strncmp(p->socket, p->data, state) != 0 || strcmp(p->socket + state, "/run") != 0;
	struct stat st;
	/* In /tmp it must be ours: whoever owns it could put another server's socket there. 0711: nobody can list or write. */
	int fd = own_folder(p->socket, shared ? 0711 : 0755, shared, err, err_size);

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && (st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX)) {
		snprintf(err, err_size, "%.200s can be written by everybody", p->socket);
		close(fd);
		return -1;
	}
	close(fd);
	if (access(p->socket, W_OK | X_OK) < 0) {
		snprintf(err, err_size, "%.200s: user id %u cannot make its socket there: %s", p->socket, (unsigned)geteuid(),
		    strerror(errno));
		return -1;
	}
	return 0;
}

/* --- making a cluster --- */

static int run_initdb(const struct cluster_paths *p, const char *target, char *err, size_t err_size)
{
	char prog[300], said[4096];
	size_t n = 0;
	int out[2], status;
	pid_t pid;

	snprintf(prog, sizeof(prog), "%s/initdb", p->bin);
	if (pipe2(out, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		snprintf(err, err_size, "initdb: %s", strerror(errno));
		return -1;
	}
	if (pid == 0) {
		int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (null < 0 || dup2(null, 0) < 0 || dup2(out[1], 1) < 0 || dup2(out[1], 2) < 0 || chdir("/") < 0)
			_exit(127);
		execl(prog, prog, "-D", target, "-U", "postgres", "-A", "peer", "-E", "UTF8", "--locale=C.UTF-8",
		    "--data-checksums", (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	for (;;) { /* the last words matter; read all, keep the end */
		ssize_t r;

		if (n > sizeof(said) / 2) {
			memmove(said, said + n - sizeof(said) / 2, sizeof(said) / 2);
			n = sizeof(said) / 2;
		}
		r = read(out[0], said + n, sizeof(said) - 1 - n);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			break;
		n += (size_t)r;
	}
	close(out[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	said[n] = '\0';
	for (char *s = said; *s; s++)
		if ((unsigned char)*s < 0x20)
			*s = ' ';
	snprintf(err, err_size, "%.200s failed: %.400s", prog, n > 400 ? said + n - 400 : said);
	return -1;
}

/* Moves what initdb made up into the data folder, PG_VERSION last: that file is what makes it a cluster. */
static int move_up(int data_fd)
{
	int sub = openat(data_fd, fresh, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = sub >= 0 ? fdopendir(sub) : NULL;
	struct dirent *e;
	int rc = 0;

	if (!d) {
		if (sub >= 0)
			close(sub);
		return -1;
	}
	while (rc == 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && strcmp(e->d_name, "PG_VERSION"))
			rc = renameat(dirfd(d), e->d_name, data_fd, e->d_name);
	if (rc == 0 && (fsync(data_fd) < 0 || renameat(dirfd(d), "PG_VERSION", data_fd, "PG_VERSION") < 0 || fsync(data_fd) < 0))
		rc = -1;
	closedir(d);
	return rc;
}

static int make_cluster(const struct cluster_paths *p, int data_fd, char *err, size_t err_size)
{
	char target[300];
	bool begun = faccessat(data_fd, partial, F_OK, 0) == 0;
	int fd = dup(data_fd), n = 0;
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *e;

	if (!d) {
		snprintf(err, err_size, "%.200s: %s", p->data, strerror(errno));
		return -1;
	}
	rewinddir(d);
	while ((e = readdir(d)))
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	closedir(d);
	if (n > 0 && !begun) {
		snprintf(err, err_size, "%.200s is not empty and no PostgreSQL data folder (PG_VERSION is missing): move it away, "
		    "or restore it from a backup", p->data);
		return -1;
	}
	fd = openat(data_fd, partial, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || fsync(fd) < 0 || fsync(data_fd) < 0) {
		snprintf(err, err_size, "%.200s/%s: %s", p->data, partial, strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	close(fd);
	fd = open(p->data, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || empty_folder(fd, partial, 0) < 0) {
		snprintf(err, err_size, "%.200s: cannot clear away a half-made cluster: %s", p->data, strerror(errno));
		return -1;
	}
	snprintf(target, sizeof(target), "%s/%s", p->data, fresh);
	if (run_initdb(p, target, err, err_size) < 0)
		return -1;
	if (move_up(data_fd) < 0) {
		snprintf(err, err_size, "%.200s: cannot move the new cluster into place: %s", p->data, strerror(errno));
		return -1;
	}
	return 0;
}

int cluster_prepare(const struct cluster_paths *p, const struct cluster_account *accounts, size_t n, unsigned max_connections,
    char *err, size_t err_size)
{
	int data_fd, rc = -1;

	if (geteuid() == 0) {
		snprintf(err, err_size, "PostgreSQL does not run as root: become the cluster's account first");
		return -1;
	}
	data_fd = own_folder(p->data, 0700, true, err, err_size);
	if (data_fd < 0)
		return -1;
	if (faccessat(data_fd, "PG_VERSION", F_OK, 0) < 0) {
		if (make_cluster(p, data_fd, err, err_size) < 0)
			goto out;
	}
	unlinkat(data_fd, fresh, AT_REMOVEDIR);
	unlinkat(data_fd, partial, 0);
	if (socket_folder(p, err, err_size) == 0 && cluster_conf_write(p, accounts, n, max_connections, err, err_size) == 0)
		rc = 0;
out:
	close(data_fd);
	return rc;
}

void cluster_exec(const struct cluster_paths *p, char *err, size_t err_size)
{
	static const char *const forget[] = { "PGDATA", "PGPORT", "PGHOST", "PGUSER", "PGDATABASE", "PGOPTIONS", "PGTZ", "PGSERVICE" };
	char prog[300], data[256];
	char *argv[] = { prog, (char *)"-D", data, NULL };
	struct stat st;
	int log_fd, null;

	snprintf(prog, sizeof(prog), "%s/postgres", p->bin);
	snprintf(data, sizeof(data), "%s", p->data);
	if (stat(p->log, &st) == 0 && st.st_size > LOG_ROTATE) {
		char old[300];

		snprintf(old, sizeof(old), "%s.1", p->log);
		(void)rename(p->log, old);
	}
	log_fd = open(p->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (log_fd < 0 || null < 0 || dup2(null, 0) < 0 || dup2(log_fd, 1) < 0 || dup2(log_fd, 2) < 0) {
		snprintf(err, err_size, "%.200s: %s", p->log, strerror(errno));
		return;
	}
	for (size_t i = 0; i < sizeof(forget) / sizeof(*forget); i++)
		unsetenv(forget[i]);
	/* Backends keep the memory of large values instead of giving it back and faulting it in again, page by page, for each. */
	setenv("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=8388608:glibc.malloc.trim_threshold=16777216:"
	    "glibc.malloc.top_pad=1048576", 0);
	prctl(PR_SET_PDEATHSIG, SIGINT);
	execv(prog, argv);
	snprintf(err, err_size, "%.200s: %s", prog, strerror(errno));
}

int cluster_ready(const struct cluster_paths *p)
{
	const char *keys[] = { "host", "port", "user", "dbname", "connect_timeout", NULL };
	const char *values[] = { p->socket, "5432", "postgres", "postgres", "1", NULL };

	switch (PQpingParams(keys, values, 0)) {
	case PQPING_OK:
		return 1;
	case PQPING_REJECT:
	case PQPING_NO_RESPONSE:
		return 0;
	default:
		return -1;
	}
}
