/* The folder of tokens: whole files, replaced at once and on disk before the call returns. Opens nothing that is not below it, follows no
 * links. */
#include "token.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 2 * TOKEN_MAX, PATH_SIZE = 4200, FAILS_S = 3600 };

int token_helper_path(char *out, size_t size)
{
	char self[PATH_SIZE];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = 0;
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(self, '/');
		if (!slash)
			return -1;
		*slash = 0;
	}
	return (size_t)snprintf(out, size, "%s/libexec/pepsi/pepsi-helper-token-refresh", self) < size && access(out, X_OK) == 0 ? 0 : -1;
}

int token_dir_make(const char *state_dir, uid_t uid, gid_t gid)
{
	char path[PATH_SIZE];
	struct stat st;
	snprintf(path, sizeof path, "%s/tokens", state_dir);
	if (mkdir(path, 0751) && errno != EEXIST)
		return -1;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? -1 : fstat(fd, &st);
	if (r == 0 && geteuid() == 0 && (st.st_uid != uid || st.st_gid != gid))
		r = fchown(fd, uid, gid);
	if (r == 0 && (st.st_mode & 07777) != 0751 && (geteuid() == 0 || geteuid() == st.st_uid))
		r = fchmod(fd, 0751); /* whatever the umask was */
	if (fd >= 0)
		close(fd);
	return r;
}

int token_dir_open(struct token_dir *d, const char *state_dir, const char *name, bool wait)
{
	char path[PATH_SIZE];
	*d = (struct token_dir){ -1, -1 };
	snprintf(path, sizeof path, "%s/tokens", state_dir);
	d->fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (d->fd < 0)
		return -1;
	snprintf(path, sizeof path, "%s.lock", name);
	d->lock = openat(d->fd, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (d->lock < 0 || flock(d->lock, LOCK_EX | (wait ? 0 : LOCK_NB))) {
		int e = errno;
		token_dir_close(d);
		errno = e;
		return e == EWOULDBLOCK && !wait ? 1 : -1;
	}
	return 0;
}

void token_dir_close(struct token_dir *d)
{
	if (d->lock >= 0)
		close(d->lock);
	if (d->fd >= 0)
		close(d->fd);
	*d = (struct token_dir){ -1, -1 };
}

static bool write_all(int fd, struct str text)
{
	while (text.n) {
		ssize_t n = write(fd, text.p, text.n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		text = str_skip(text, (size_t)n);
	}
	return true;
}

int token_file_write(const struct token_dir *d, const char *name, const char *kind, mode_t mode, struct str text)
{
	char path[TOKEN_NAME_MAX + 32], fresh[TOKEN_NAME_MAX + 40];
	snprintf(path, sizeof path, "%s.%s", name, kind);
	snprintf(fresh, sizeof fresh, "%s.%s.new", name, kind);
	unlinkat(d->fd, fresh, 0); /* of a run that was cut short; we hold the lock */
	int fd = openat(d->fd, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	bool ok = write_all(fd, text) && fchmod(fd, mode) == 0 && fsync(fd) == 0;
	int e = errno;
	ok = close(fd) == 0 && ok;
	if (ok && renameat(d->fd, fresh, d->fd, path) == 0 && fsync(d->fd) == 0)
		return 0;
	errno = ok ? errno : e;
	unlinkat(d->fd, fresh, 0);
	return -1;
}

static int read_at(int dir, const char *path, struct buf *out)
{
	struct stat st;
	ssize_t n = -1;
	int fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -1;
	char *at = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= FILE_MAX ? buf_room(out, (size_t)st.st_size + 1) : NULL;
	errno = EINVAL;
	if (at)
		do
			n = read(fd, at, (size_t)st.st_size);
		while (n < 0 && errno == EINTR);
	if (n >= 0) {
		out->n += (size_t)n;
		out->p[out->n] = 0;
	}
	int e = errno;
	close(fd);
	errno = e;
	return n < 0 ? -1 : 0;
}

int token_file_read(const struct token_dir *d, const char *name, const char *kind, struct buf *out)
{
	char path[TOKEN_NAME_MAX + 32];
	snprintf(path, sizeof path, "%s.%s", name, kind);
	return read_at(d->fd, path, out);
}

int token_file_remove(const struct token_dir *d, const char *name, const char *kind)
{
	char path[TOKEN_NAME_MAX + 32];
	snprintf(path, sizeof path, "%s.%s", name, kind);
	return unlinkat(d->fd, path, 0);
}

int token_state_write(const struct token_dir *d, const char *name, const struct token_state *s)
{
	struct json_object *o = json_object_new_object();
	json_object_object_add(o, "access_expires", json_object_new_int64(s->access_expires));
	json_object_object_add(o, "refreshed_at", json_object_new_int64(s->refreshed_at));
	json_object_object_add(o, "refresh_obtained", json_object_new_int64(s->refresh_obtained));
	json_object_object_add(o, "refresh_expires", json_object_new_int64(s->refresh_expires));
	json_object_object_add(o, "error_at", json_object_new_int64(s->error_at));
	json_object_object_add(o, "failures", json_object_new_int64(s->failures));
	json_object_object_add(o, "refused", json_object_new_boolean(s->refused));
	json_object_object_add(o, "error", json_object_new_string(s->error));
	const char *text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	int r = token_file_write(d, name, "state", 0644, str_from(text));
	json_object_put(o);
	return r;
}

static int64_t number(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;
	int64_t n = json_object_object_get_ex(o, key, &v) && json_object_is_type(v, json_type_int) ? json_object_get_int64(v) : 0;
	return n > 0 && n < INT64_MAX / 4 ? n : 0;
}

int token_state_read(const char *state_dir, const char *name, struct token_state *ret)
{
	char path[PATH_SIZE];
	struct buf b = BUF_INIT(FILE_MAX + 1);
	struct json_object *o = NULL, *v = NULL;
	*ret = (struct token_state){ .failures = 0 };
	if (!token_name_ok(name))
		return -1;
	snprintf(path, sizeof path, "%s/tokens/%s.state", state_dir, name);
	int r = read_at(AT_FDCWD, path, &b) ? (errno == ENOENT ? 1 : -1) : 0;
	if (r == 0 && !((o = json_tokener_parse(buf_z(&b))) && json_object_is_type(o, json_type_object)))
		r = -1;
	if (r == 0) {
		*ret = (struct token_state){ .access_expires = number(o, "access_expires"), .refreshed_at = number(o, "refreshed_at"),
			.refresh_obtained = number(o, "refresh_obtained"), .refresh_expires = number(o, "refresh_expires"), .error_at = number(o, "error_at"),
			.failures = number(o, "failures") };
		ret->refused = json_object_object_get_ex(o, "refused", &v) && json_object_get_boolean(v);
		if (json_object_object_get_ex(o, "error", &v) && json_object_is_type(v, json_type_string))
			snprintf(ret->error, sizeof ret->error, "%s", json_object_get_string(v));
	}
	json_object_put(o);
	buf_free(&b);
	return r;
}

const char *token_alarm(const struct token_state *s, int64_t now)
{
	if (s->refused)
		return "the provider refuses it: sign in anew (pepsi token sign-in)";
	if (s->refresh_expires && s->refresh_expires <= now)
		return "it has expired: sign in anew (pepsi token sign-in)";
	if (s->refresh_expires && s->refresh_expires - now <= TOKEN_ALARM_S)
		return "it expires soon: sign in anew (pepsi token sign-in)";
	if (s->error_at && s->access_expires <= now)
		return "there is no valid access token, and it cannot be refreshed";
	if (s->error_at && s->refreshed_at && now - s->refreshed_at > FAILS_S && s->failures > 2)
		return "it cannot be refreshed";
	return NULL;
}
