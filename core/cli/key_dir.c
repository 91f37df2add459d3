/* The folder on the disk (key_dir.h). */
#include "key_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "pepsi-stage-srs or pepsi-stage-verp": is the program one of them? */
static bool one_of(const char *program, const char *run)
{
	struct str rest = str_from(run), word;
	while (str_word(&rest, " ", &word))
		if (str_eq(word, str_from(program)))
			return true;
	return false;
}

/* The section of the stage; NULL after a message. */
static const char *find_stage(const struct cli *c, const struct config *conf, const char *run)
{
	const char *want = c->args.value[CLI_STAGE], *found = NULL;
	for (size_t i = 0; config_section(conf, i); i++) {
		const char *s = config_section(conf, i), *program = strncmp(s, "stage-", 6) ? NULL : config_str(conf, s, "PROGRAM");
		if (!program || !one_of(program, run) || (want && !str_ieq(str_from(want), str_from(s + 6))))
			continue;
		if (found && strcmp(config_get(conf, found, "KEY_DIR") ? config_get(conf, found, "KEY_DIR")->value : "",
		    config_get(conf, s, "KEY_DIR") ? config_get(conf, s, "KEY_DIR")->value : "")) {
			cli_fail("several stages run %s, with several folders of keys: say which one with --stage", run);
			return NULL;
		}
		found = s;
	}
	if (!found)
		cli_fail("no %s%s%s runs %s: there is no KEY_DIR to work on", want ? "[stage-" : "stage", want ? want : "", want ? "]" : "", run);
	return found;
}

/* Root becomes who owns the keys; whatever that account puts in the way, root does not fall over it. */
static int become(uid_t uid, gid_t gid)
{
	if (geteuid() != 0 || uid == 0)
		return 0;
	if (setgroups(1, &gid) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
		return cli_fail("cannot become the account that owns the keys: %s", strerror(errno));
	return 0;
}

static int make(const struct config *conf, const char *path)
{
	const char *names[] = { config_str(conf, "pepsi", "USER"), "nobody" };
	struct passwd *pw = NULL;
	for (size_t i = 0; geteuid() == 0 && i < 2 && !pw; i++)
		pw = names[i] ? getpwnam(names[i]) : NULL;
	if (mkdir(path, 0700))
		return errno == EEXIST ? 0 : cli_fail("cannot make %s: %s%s", path, strerror(errno), errno == ENOENT ? "; the folder above it must be there" : "");
	if (pw && lchown(path, pw->pw_uid, pw->pw_gid))
		return cli_fail("cannot give %s to %s: %s", path, pw->pw_name, strerror(errno));
	return 0;
}

int key_dir_open(const struct cli *c, const struct config *conf, const char *program, bool create, const char *maker, struct key_dir *ret)
{
	const char *s = find_stage(c, conf, program);
	const struct config_value *v = s ? config_get(conf, s, "KEY_DIR") : NULL;
	struct buf why = BUF_INIT(500);
	struct stat st;
	int rc = 0;
	*ret = (struct key_dir){ .fd = -1, .section = s };
	if (!s)
		return CLI_FAILED;
	ret->path = v ? config_expand(conf, v->value, &why) : NULL;
	if (!ret->path)
		rc = cli_fail("[%s] KEY_DIR: %s", s, why.n ? buf_z(&why) : "not set");
	buf_free(&why);
	if (!rc && create)
		rc = make(conf, ret->path);
	if (!rc && ((ret->fd = open(ret->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 || fstat(ret->fd, &st)))
		rc = cli_fail("%s: %s%s%s%s", ret->path, strerror(errno), errno == ENOENT ? " (" : "", errno == ENOENT ? maker : "", errno == ENOENT ? " makes it)" : "");
	return rc ? rc : become(st.st_uid, st.st_gid);
}

int key_dir_read(int at, const char *name, size_t most, struct buf *out)
{
	int fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = -1;
	char *room = fd < 0 ? NULL : buf_room(out, most + 1); /* all at once: what grows leaves copies behind */
	while (room && (n = read(fd, out->p + out->n, most + 1 - out->n)) > 0)
		out->n += (size_t)n;
	int err = n ? errno : out->n > most ? EFBIG : 0;
	if (fd >= 0)
		close(fd);
	errno = err;
	return err ? -1 : 0;
}

/* Whole or not at all, and still there after a power cut. */
int key_dir_put(int at, const char *where, const char *name, struct str text, mode_t mode)
{
	char temporary[] = ".new";
	unlinkat(at, temporary, 0); /* of one that was cut off; we hold the lock */
	int fd = openat(at, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	bool ok = fd >= 0 && fchmod(fd, mode) == 0;
	for (size_t done = 0; ok && done < text.n;) {
		ssize_t n = write(fd, text.p + done, text.n - done);
		if (n < 0 && errno == EINTR)
			continue;
		ok = n > 0;
		done += ok ? (size_t)n : 0;
	}
	ok = ok && fsync(fd) == 0 && renameat(at, temporary, at, name) == 0 && fsync(at) == 0;
	int err = errno;
	if (fd >= 0)
		close(fd);
	if (!ok)
		unlinkat(at, temporary, 0);
	return ok ? 0 : cli_fail("%s/%s cannot be written: %s", where, name, strerror(err));
}
