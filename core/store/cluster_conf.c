/* The configuration files of the private cluster: sizes taken from the machine, who may connect as whom. Writes files
 * in the data folder only, each aside and renamed. */
#include "store/cluster_internal.h"

#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const unsigned mib_min = 64; /* shared_buffers of the smallest machine */

static int conf_put(const struct cluster_paths *p, const char *name, const struct buf *b, char *err, size_t err_size)
{
	char path[512], tmp[520];
	int fd;
	size_t at = 0;

	if (b->failed) {
		snprintf(err, err_size, "%s: too long", name);
		return -1;
	}
	snprintf(path, sizeof(path), "%s/%s", p->data, name);
	snprintf(tmp, sizeof(tmp), "%s.new", path);
	fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		snprintf(err, err_size, "%s: %s", tmp, strerror(errno));
		return -1;
	}
	while (at < b->n) {
		ssize_t w = write(fd, b->p + at, b->n - at);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0) {
			snprintf(err, err_size, "%s: %s", tmp, strerror(errno));
			close(fd);
			unlink(tmp);
			return -1;
		}
		at += (size_t)w;
	}
	if (fsync(fd) < 0 || close(fd) < 0 || rename(tmp, path) < 0) {
		snprintf(err, err_size, "%s: %s", path, strerror(errno));
		unlink(tmp);
		return -1;
	}
	return 0;
}

/* Memory this process may use, in MiB: the machine's, or less by a control group. */
static uint64_t memory_mib(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	uint64_t mib = pages > 0 && page > 0 ? (uint64_t)pages / (1024 * 1024 / (uint64_t)page) : 1024;
	static const char *const files[] = { "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes" };
	char text[64];
	uint64_t limit;

	for (size_t i = 0; i < 2; i++) {
		int fd = open(files[i], O_RDONLY | O_CLOEXEC);
		ssize_t n;

		if (fd < 0)
			continue;
		n = read(fd, text, sizeof(text));
		close(fd);
		if (n > 0 && str_u64(str_trim(str_n(text, (size_t)n)), UINT64_MAX, &limit) == 0 && limit / (1024 * 1024) < mib)
			mib = limit / (1024 * 1024);
	}
	return mib;
}

static int conf_main(const struct cluster_paths *p, unsigned max_connections, char *err, size_t err_size)
{
	struct buf b = BUF_INIT(16384);
	uint64_t mem = memory_mib();
	uint64_t buffers = mem >= 2048 ? 256 : mem >= 1024 ? 128 : mib_min;
	struct statvfs vfs;
	char local[300];
	/* WAL files kept ready make admission faster; not on a disk that is too small for them. */
	bool roomy = statvfs(p->data, &vfs) != 0 || (uint64_t)vfs.f_bavail * vfs.f_frsize > UINT64_C(8) << 30;
	int rc;

	buf_addf(&b,
	    "# Written by pepsid at each start. Put your own settings into local.conf; those below its include are not yours to\n"
	    "# change: mail that was accepted depends on them.\n"
	    "shared_buffers = %uMB\nmin_wal_size = %s\nmax_wal_size = %s\n",
	    (unsigned)buffers, roomy ? "1GB" : "80MB", roomy ? "4GB" : "1GB");
	buf_addz(&b,
	    "wal_buffers = 16MB\nwal_compression = off\ncheckpoint_timeout = 10min\ncheckpoint_completion_target = 0.9\n"
	    "max_wal_senders = 2\nmax_replication_slots = 2\n"
	    "jit = off\nmax_parallel_workers_per_gather = 0\nwork_mem = 8MB\nmaintenance_work_mem = 64MB\n"
	    "autovacuum = on\nautovacuum_naptime = 10s\nautovacuum_max_workers = 3\n"
	    "logging_collector = off\nlog_destination = 'stderr'\nlog_line_prefix = '%m [%p] %q%u %a '\n"
	    "log_min_messages = warning\nlog_checkpoints = off\nlog_connections = off\nlog_statement = 'none'\nlog_error_verbosity = terse\n"
	    "log_timezone = 'UTC'\nidle_in_transaction_session_timeout = 10min\n"
	    "datestyle = 'iso, ymd'\ndefault_text_search_config = 'pg_catalog.simple'\n"
	    "include_if_exists 'local.conf'\n");
	buf_addf(&b,
	    "listen_addresses = ''\nport = 5432\nunix_socket_directories = '%s'\nunix_socket_permissions = 0777\n"
	    "max_connections = %u\nfsync = on\nfull_page_writes = on\nsynchronous_commit = on\ntimezone = 'UTC'\n"
	    "restart_after_crash = on\n",
	    p->socket, max_connections);
	rc = conf_put(p, "postgresql.conf", &b, err, err_size);
	snprintf(local, sizeof(local), "%s/local.conf", p->data);
	if (rc == 0 && access(local, F_OK) < 0) {
		buf_reset(&b);
		buf_addz(&b, "# Settings of yours for the private PostgreSQL; never overwritten. In effect after a restart of pepsid.\n");
		rc = conf_put(p, "local.conf", &b, err, err_size);
	}
	buf_free(&b);
	return rc;
}

/* A name that may stand in quotes in pg_ident.conf, and does not mean a pattern there. */
static bool ident_ok(const char *s, size_t n)
{
	if (n == 0 || n > 63 || s[0] == '/')
		return false;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] <= ' ' || s[i] == '"' || s[i] == '#' || s[i] == 0x7f)
			return false;
	return true;
}

static int conf_access(const struct cluster_paths *p, const struct cluster_account *accounts, size_t n, char *err, size_t err_size)
{
	struct buf b = BUF_INIT(65536);
	struct passwd *pw = getpwuid(geteuid());
	int rc = -1;

	if (!pw || !ident_ok(pw->pw_name, strlen(pw->pw_name))) {
		snprintf(err, err_size, "user id %u has no usable account name, which the database needs to know its clients",
		    (unsigned)geteuid());
		return -1;
	}
	buf_addz(&b, "# Written by pepsid at each start: whoever the kernel says a client is, may be what pg_ident.conf says.\n"
		     "local all all peer map=pepsi\n");
	if (conf_put(p, "pg_hba.conf", &b, err, err_size) < 0)
		goto out;
	buf_reset(&b);
	buf_addz(&b, "# Written by pepsid at each start. MAP ACCOUNT ROLE\n");
	buf_addf(&b, "pepsi \"%s\" \"postgres\"\n", pw->pw_name);
	for (size_t i = 0; i < n; i++) {
		struct str rest = str_from(accounts[i].roles), role;

		if (!ident_ok(accounts[i].user, strlen(accounts[i].user))) {
			snprintf(err, err_size, "account name %.64s cannot be used for the database", accounts[i].user);
			goto out;
		}
		while (str_word(&rest, ", ", &role)) {
			if (!ident_ok(role.p, role.n)) {
				snprintf(err, err_size, "role name %.*s cannot be used", STR_ARG(role));
				goto out;
			}
			buf_addf(&b, "pepsi \"%s\" \"%.*s\"\n", accounts[i].user, STR_ARG(role));
		}
	}
	rc = conf_put(p, "pg_ident.conf", &b, err, err_size);
out:
	buf_free(&b);
	return rc;
}

int cluster_conf_write(const struct cluster_paths *p, const struct cluster_account *accounts, size_t n,
    unsigned max_connections, char *err, size_t err_size)
{
	if (max_connections < 10 || max_connections > 10000) {
		snprintf(err, err_size, "max_connections %u is not between 10 and 10000", max_connections);
		return -1;
	}
	if (conf_main(p, max_connections, err, err_size) < 0 || conf_access(p, accounts, n, err, err_size) < 0)
		return -1;
	return 0;
}
