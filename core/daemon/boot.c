/* Short-lived children of the spawner: one that reads and checks the configuration (so that no parser of files runs in
 * the spawner), those that make and start the private cluster, and one that brings the schema up to date. Each does one
 * thing and exits. */
#include "daemon_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "config/schema.h"
#include "ingress/ingress.h"
#include "store/migrate.h"
#include "submit/submit.h"
#include "worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROGRAMS_MAX = TABLE_STAGES_MAX };

/* ---- configuration */

struct result_head {
	int32_t ok;
	uint32_t faults, table, blob; /* octets that follow, in this order */
};

/* Modules are described once each, however many stages use them. */
struct modules {
	const struct config *c;
	size_t n;
	struct {
		char *program;
		struct module_info info;
	} of[PROGRAMS_MAX];
};

static void drop(void *arg)
{
	char err[160];
	if (account_become(arg, SIGKILL, getppid(), err, sizeof err)) {
		log_error(NULL, "event=describe-child reason=%s", log_qz(err));
		_exit(1);
	}
}

static void plain_account(struct account *a)
{
	static const char *const names[] = { "pepsi", "nobody" };
	if (geteuid() != 0 || account_find(a, names, 2))
		account_current(a);
}

static const struct module_info *describe(void *arg, const char *program)
{
	struct modules *m = arg;
	struct account account;
	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->of[i].program, program) == 0)
			return &m->of[i].info;
	if (m->n == PROGRAMS_MAX)
		return NULL;
	char *copy = strdup(program), *path = worker_module_path(m->c, program);
	if (!copy) {
		free(path);
		return NULL;
	}
	struct module_info *info = &m->of[m->n].info;
	m->of[m->n++].program = copy;
	plain_account(&account);
	if (path) {
		worker_describe(program, path, drop, &account, info);
	} else {
		const char *dirs = config_str(m->c, "pepsi", "MODULE_PATH");
		size_t size = strlen(program) + strlen(dirs ? dirs : "") + 64;
		if ((info->error = malloc(size)))
			snprintf(info->error, size, "there is no %s.so in MODULE_PATH (%s)", program, dirs ? dirs : "");
	}
	free(path);
	return info;
}

static void validate_stages(const struct config *c, struct modules *m, struct config_faults *faults)
{
	const char *section;
	struct account account;
	plain_account(&account);
	for (size_t i = 0; (section = config_section(c, i)); i++) {
		if (strncasecmp(section, "stage-", 6) || !section[6])
			continue;
		const char *program = config_str(c, section, "PROGRAM");
		const struct module_info *info = program ? describe(m, program) : NULL;
		if (info && !info->error && info->path)
			worker_validate(c, section + 6, info->path, drop, &account, faults);
	}
}

static void absolute_state_dir(struct config *c, const char *from_option)
{
	char *dir = from_option ? strdup(from_option) : config_path(c, "pepsi", "STATE_DIR");
	char cwd[PATH_MAX], all[2 * PATH_MAX + 2];
	if (dir && *dir && *dir != '/' && getcwd(cwd, sizeof cwd)) {
		snprintf(all, sizeof all, "%s/%s", cwd, dir);
		config_set(c, "pepsi", "STATE_DIR", all);
	} else if (dir && from_option) {
		config_set(c, "pepsi", "STATE_DIR", dir);
	}
	free(dir);
}

/* [listener-sendmail] is there unless it is switched off; what the file says of it stands. */
static void local_listener(struct config *c)
{
	static const char section[] = "listener-sendmail";
	char rcpts[24];
	snprintf(rcpts, sizeof rcpts, "%d", SUBMIT_RCPTS_MAX);
	if (!config_int(c, "pepsi-sendmail", "LISTENER"))
		return;
	const char *defaults[][2] = { { "BIND", "unix:$STATE_DIR/" SUBMIT_SOCKET }, { "PROTOCOL", "local" }, { "MAX_RECIPIENTS", rcpts } };
	for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
		if (!config_get(c, section, defaults[i][0]))
			config_set(c, section, defaults[i][0], defaults[i][1]);
}

static int put_all(int fd, const void *p, size_t n)
{
	for (const char *at = p; n;) {
		ssize_t w = write(fd, at, n);
		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return -1;
		at += w;
		n -= (size_t)w;
	}
	return 0;
}

static int configure_child(const struct boot *b, int fd)
{
	static struct table t;
	static struct modules m;
	struct config_faults *faults = config_faults_new();
	struct config *c = faults ? config_load(b->config_path, faults) : NULL;
	struct buf text = BUF_INIT(CONFIG_FAULTS_MAX), blob = BUF_INIT(CONFIG_BLOB_MAX);
	struct result_head h = { 0 };

	log_setup((enum log_level)b->log_level, "config");
	inherited_close(&b->inherited); /* it forks children that load modules */
	if (!c)
		return 1;
	absolute_state_dir(c, b->state_dir);
	local_listener(c);
	m.c = c;
	schema_check(c, describe, &m, faults);
	validate_stages(c, &m, faults);
	table_make(&t, c, faults);
	if (config_faults_n(faults, false) == 0)
		ingress_check(c, faults);
	for (size_t i = 0; i < config_faults_n(faults, true); i++) {
		const struct config_fault *f = config_faults_at(faults, i);
		if (f->file && *f->file)
			buf_addf(&text, "%s:", f->file);
		if (f->line)
			buf_addf(&text, "%u:", f->line);
		buf_addf(&text, "%s%s%s\n", f->file && *f->file ? " " : "", f->warning ? "warning: " : "", f->text);
	}
	h.ok = config_faults_n(faults, false) == 0 && config_freeze(c, &blob) == 0;
	h.faults = (uint32_t)text.n;
	h.table = sizeof t;
	h.blob = (uint32_t)blob.n;
	return put_all(fd, &h, sizeof h) || put_all(fd, text.p, text.n) || put_all(fd, &t, sizeof t) || put_all(fd, blob.p, blob.n);
}

static int read_all(int fd, struct buf *out)
{
	for (;;) {
		char *room = buf_room(out, 65536);
		ssize_t n = room ? read(fd, room, 65536) : -1;
		if (n < 0 && room && errno == EINTR)
			continue;
		if (n <= 0)
			return (int)n;
		out->n += (size_t)n;
	}
}

int boot_configure_begin(const struct boot *b, struct boot_configuring *c)
{
	int p[2];
	*c = (struct boot_configuring){ .fd = -1, .got = BUF_INIT(CONFIG_BLOB_MAX + CONFIG_FAULTS_MAX + sizeof(struct table) + 4096) };
	if (pipe2(p, O_CLOEXEC))
		return -1;
	pid_t parent = getpid();
	c->pid = fork();
	if (c->pid == 0) {
		close(p[0]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(getppid() == parent ? configure_child(b, p[1]) : 1);
	}
	close(p[1]);
	if (c->pid < 0) {
		close(p[0]);
		c->pid = 0;
		return -1;
	}
	c->fd = p[0];
	return 0;
}

int boot_configure_read(struct boot_configuring *c)
{
	int r = read_all(c->fd, &c->got);
	if (r < 0 && errno == EAGAIN && !c->got.failed)
		return 0;
	c->bad = r < 0;
	close(c->fd);
	c->fd = -1;
	return 1;
}

int boot_configure_end(struct boot_configuring *c, int status, struct buf *blob, struct table *t, struct buf *faults)
{
	const struct buf *got = &c->got;
	struct result_head h = { 0 };
	bool whole = !c->bad && !status && got->n >= sizeof h;
	if (whole)
		memcpy(&h, got->p, sizeof h);
	if (!whole) {
		buf_addf(faults, "the configuration could not be read (child status 0x%x)\n", status);
	} else if (h.table != sizeof *t || got->n != sizeof h + (size_t)h.faults + h.table + h.blob) {
		buf_addz(faults, "the configuration child answered out of step\n");
		h.ok = 0;
	} else {
		buf_add(faults, got->p + sizeof h, h.faults);
		if (h.ok) {
			memcpy(t, got->p + sizeof h + h.faults, sizeof *t);
			buf_reset(blob);
			buf_add(blob, got->p + sizeof h + h.faults + h.table, h.blob);
		}
	}
	buf_free_secret(&c->got);
	*c = (struct boot_configuring){ .fd = -1 };
	return h.ok && !blob->failed ? 0 : -1;
}

int boot_configure(const struct boot *b, struct buf *blob, struct table *t, struct buf *faults)
{
	struct boot_configuring c;
	int status = 1;
	if (boot_configure_begin(b, &c))
		return -1;
	while (!boot_configure_read(&c))
		;
	while (waitpid(c.pid, &status, 0) < 0 && errno == EINTR)
		;
	return boot_configure_end(&c, status, blob, t, faults);
}

/* ---- the state folder */

static int make_dir(const char *path, mode_t mode, const struct account *owner)
{
	struct stat st;
	int fd, bad;
	if (mkdir(path, mode) && errno != EEXIST) {
		log_error(NULL, "event=state-folder path=%s reason=%s", log_qz(path), log_qz(strerror(errno)));
		return -1;
	}
	/* looked at and changed through one descriptor: its parent may be another account's, who could put a link there */
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) {
		log_error(NULL, "event=state-folder path=%s reason=\"not a folder\"", log_qz(path));
		return -1;
	}
	bad = fd < 0 || fstat(fd, &st);
	if (!bad && geteuid() == 0 && (st.st_uid != owner->uid || st.st_gid != owner->gid))
		bad = fchown(fd, owner->uid, owner->gid) || fchmod(fd, mode);
	if (bad)
		log_error(NULL, "event=state-folder path=%s reason=%s", log_qz(path), log_qz(strerror(errno)));
	if (fd >= 0)
		close(fd);
	return bad ? -1 : 0;
}

/* Can the account walk down to the folder? A clear word here saves a riddle later. */
static int check_reach(const char *path, const struct account *a)
{
	char part[PATH_MAX];
	struct stat st;
	if (geteuid() != 0)
		return 0;
	for (size_t i = 1; i <= strlen(path); i++) {
		if (path[i] != '/' && path[i])
			continue;
		snprintf(part, sizeof part, "%.*s", (int)i, path);
		if (stat(part, &st))
			return 0; /* not made yet */
		if ((st.st_uid == a->uid && st.st_mode & S_IXUSR) || (st.st_gid == a->gid && st.st_mode & S_IXGRP) ||
		    st.st_mode & S_IXOTH)
			continue;
		log_error(NULL, "event=state-folder path=%s reason=\"the account %s cannot pass through %s\" "
				"hint=\"choose another STATE_DIR, or chmod o+x that folder\"", log_qz(path), a->name, part);
		return -1;
	}
	return 0;
}

int boot_state_dir(const struct table *t)
{
	char path[PATH_MAX + 32];
	struct stat st;

	for (size_t i = 1; t->state_dir[i]; i++) /* parents, as mkdir -p */
		if (t->state_dir[i] == '/') {
			snprintf(path, sizeof path, "%.*s", (int)i, t->state_dir);
			if (mkdir(path, 0755) && errno != EEXIST) {
				log_error(NULL, "event=state-folder path=%s reason=%s", log_qz(path), log_qz(strerror(errno)));
				return -1;
			}
		}
	if (stat(t->state_dir, &st) == 0 && (st.st_mode & S_ISVTX || strchr(t->state_dir + 1, '/') == NULL)) {
		log_error(NULL, "event=state-folder path=%s reason=\"this folder belongs to everybody; name one of pepsid's own\"",
		    log_qz(t->state_dir));
		return -1;
	}
	/* accounts that were made, or named, later: PostgreSQL would only say that it is not allowed to */
	snprintf(path, sizeof path, "%s/postgres", t->state_dir);
	if (geteuid() == 0 && t->embedded && !lstat(path, &st) && st.st_uid != t->cluster.uid) {
		log_error(NULL, "event=state-folder path=%s reason=\"it belongs to uid %u, not to %s, which runs the database\" "
				"hint=\"hand it over with chown -R, and the Maildirs too; or name the former account in [pepsi] USER\"",
		    log_qz(path), (unsigned)st.st_uid, t->cluster.name);
		return -1;
	}
	/* As root the folder itself stays root's: the configuration may lie in it, and whoever could replace that would
	 * be root at the next start. Only what is below belongs to the accounts. */
	const struct account root = { .name = "root" }, *top = geteuid() == 0 ? &root : &t->cluster;
	if (make_dir(t->state_dir, 0755, top) || check_reach(t->state_dir, &t->cluster) || check_reach(t->state_dir, &t->reactor))
		return -1;
	if (t->embedded && make_dir(path, 0700, &t->cluster))
		return -1;
	if (pickup_folders(t, top))
		return -1;
	snprintf(path, sizeof path, "%s/run", t->state_dir);
	if (make_dir(path, 0755, &t->cluster))
		return -1;
	snprintf(path, sizeof path, "%s/spool", t->state_dir);
	return make_dir(path, 0700, &t->reactor);
}

/* ---- the private cluster */

static pid_t as_account(const struct account *a, int death_signal)
{
	pid_t parent = getpid(), pid = fork();
	char err[160];
	if (pid != 0)
		return pid;
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGINT, SIG_IGN);
	close_range(3, ~0u, 0); /* nothing of the spawner's is theirs: its lock, sockets that systemd passed */
	setsid(); /* an interrupt typed at the terminal is for the spawner alone */
	if (account_become(a, death_signal, parent, err, sizeof err)) {
		log_error(NULL, "event=child-account reason=%s", log_qz(err));
		_exit(1);
	}
	return 0;
}

static size_t roles(const struct table *t, struct cluster_account *out, size_t max)
{
	static const char all[] = "postgres,pepsi,pepsi-ingress,pepsi-httpd,pepsi-config,pepsi-crypto,pepsi-telemetry";
	size_t n = 0;
	out[n++] = (struct cluster_account){ t->cluster.name, all };
	if (geteuid() == 0)
		out[n++] = (struct cluster_account){ "root", all };
	if (strcmp(t->reactor.name, t->cluster.name))
		out[n++] = (struct cluster_account){ t->reactor.name, strcmp(t->signin.name, t->reactor.name) ? "pepsi,pepsi-ingress,pepsi-httpd" :
			"pepsi,pepsi-ingress,pepsi-httpd,pepsi-config" };
	if (strcmp(t->signin.name, t->cluster.name) && strcmp(t->signin.name, t->reactor.name) && strcmp(t->signin.name, "root"))
		out[n++] = (struct cluster_account){ t->signin.name, "pepsi-config" };
	for (size_t i = 0; i < t->n_stages && n < max; i++) {
		const char *name = t->stages[i].account.name;
		bool known = false;
		for (size_t j = 0; j < n && !known; j++)
			known = strcmp(out[j].user, name) == 0;
		if (!known)
			out[n++] = (struct cluster_account){ name, strcmp(name, "pepsi-crypto") ? "pepsi" : "pepsi,pepsi-crypto" };
	}
	return n;
}

pid_t boot_prepare_cluster(const struct table *t, const struct cluster_paths *paths)
{
	struct cluster_account accounts[TABLE_STAGES_MAX + 4];
	char err[400];
	size_t n = roles(t, accounts, TABLE_STAGES_MAX + 4); /* knows root by its euid: before the step down */
	pid_t pid = as_account(&t->cluster, SIGKILL);
	if (pid)
		return pid;
	log_setup(log_max(), "cluster");
	if (cluster_prepare(paths, accounts, n, t->max_connections, err, sizeof err)) {
		log_error(NULL, "event=cluster-prepare reason=%s", log_qz(err));
		_exit(1);
	}
	_exit(0);
}

pid_t boot_start_cluster(const struct table *t, const struct cluster_paths *paths)
{
	char err[400];
	pid_t pid = as_account(&t->cluster, SIGINT);
	if (pid)
		return pid;
	signal(SIGINT, SIG_DFL);
	cluster_exec(paths, err, sizeof err);
	log_error(NULL, "event=cluster-start reason=%s", log_qz(err));
	_exit(1);
}

int boot_conninfo(const struct config *c, const struct table *t, char *out, size_t size)
{
	struct cluster_paths paths;
	char err[300];
	if (!t->embedded) {
		snprintf(out, size, "%s", config_str(c, "pepsi-postgres", "CONFIG"));
		return 0;
	}
	if (cluster_paths_set(&paths, t->state_dir, err, sizeof err)) {
		log_error(NULL, "event=cluster-paths reason=%s", log_qz(err));
		return -1;
	}
	cluster_conninfo(&paths, out, size);
	return 0;
}

pid_t boot_schema(const struct table *t, const struct cluster_paths *paths, struct str blob)
{
	char conninfo[1024], err[400] = "";
	struct store_params params = { .conninfo = conninfo, .name = "pepsi schema" };
	int64_t deadline = clock_mono_us() + 60 * US_PER_S;
	pid_t pid = as_account(t->embedded ? &t->cluster : &t->reactor, SIGKILL);
	if (pid)
		return pid;
	log_setup(log_max(), "schema");
	if (t->embedded) {
		while (cluster_ready(paths) != 1) {
			if (clock_mono_us() > deadline)
				_exit(2);
			poll(NULL, 0, 20);
		}
		params.role = "postgres";
	}
	struct config *c = config_thaw(blob);
	if (!c)
		_exit(1);
	config_load_secrets(c, NULL);
	if (boot_conninfo(c, t, conninfo, sizeof conninfo))
		_exit(1);
	if (migrate_run(&params, t->embedded, err, sizeof err)) {
		/* a server that cannot be asked is a matter of time, one that says no is not */
		bool away = strstr(err, "connect") != NULL || strstr(err, "starting up") != NULL || strstr(err, "shutting down") != NULL;
		log_line(away ? LOG_LV_WARN : LOG_LV_ERROR, NULL, "event=schema reason=%s", log_qz(err));
		_exit(away ? 2 : 1);
	}
	_exit(0);
}
