/* The form of a message in the drop folder, and putting it there. What is read here another user wrote: it is checked as a whole
 * before anything of it is used. */
#include "submit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MAGIC "pepsi-drop 1\n"

enum { DROP_LINE_MAX = 2048 };

int submit_drop_compose(struct buf *out, const struct smtp_client_msg *msg)
{
	buf_addz(out, MAGIC);
	buf_addf(out, "once %.*s\n", STR_ARG(msg->once));
	buf_addf(out, "from %.*s\n", STR_ARG(msg->mail_from));
	if (msg->ret.n)
		buf_addf(out, "ret %.*s\n", STR_ARG(msg->ret));
	if (msg->envid.n)
		buf_addf(out, "envid %.*s\n", STR_ARG(msg->envid));
	if (msg->body_8bit)
		buf_addz(out, "body 8BITMIME\n");
	if (msg->smtputf8)
		buf_addz(out, "utf8\n");
	for (size_t i = 0; i < msg->n_rcpts; i++) {
		if (msg->rcpts[i].notify.n)
			buf_addf(out, "notify %.*s\n", STR_ARG(msg->rcpts[i].notify));
		buf_addf(out, "to %.*s\n", STR_ARG(msg->rcpts[i].address));
	}
	buf_addf(out, "content %zu %zu\n", msg->headers.n, msg->body.n);
	buf_adds(out, msg->headers);
	buf_adds(out, msg->body);
	return out->failed ? -1 : 0;
}

static int bad(char *err, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int bad(char *err, size_t size, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(err, size, fmt, ap);
	va_end(ap);
	return -1;
}

static int take_content(struct str value, struct str rest, struct smtp_client_msg *msg, char *err, size_t size)
{
	uint64_t n[2];
	ptrdiff_t gap = str_chr(value, ' ');
	if (gap < 0 || str_u64(str_n(value.p, (size_t)gap), UINT32_MAX, &n[0]) || str_u64(str_skip(value, (size_t)gap + 1), UINT32_MAX, &n[1]))
		return bad(err, size, "the line \"content\" has no two lengths");
	if (n[0] + n[1] != rest.n)
		return bad(err, size, "it promises %llu octets of content and has %zu", (unsigned long long)(n[0] + n[1]), rest.n);
	msg->headers = str_n(rest.p, n[0]);
	msg->body = str_skip(rest, n[0]);
	msg->content = smtp_content_scan(msg->headers, msg->body);
	if (msg->content & SMTP_CONTENT_BAD)
		return bad(err, size, "its content has bare CR, bare LF or NUL, or header lines that are not whole");
	return 0;
}

static bool is_key(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
			return false;
	return s.n == SUBMIT_KEY - 1;
}

/* A line "name value". */
static int take_line(struct str name, struct str value, struct str *notify, struct smtp_client_msg *msg, size_t *room, char *err, size_t size)
{
	if (str_eq(name, STR("once"))) {
		msg->once = value;
	} else if (str_eq(name, STR("from"))) {
		msg->mail_from = value;
	} else if (str_eq(name, STR("ret"))) {
		msg->ret = value;
	} else if (str_eq(name, STR("envid"))) {
		msg->envid = value;
	} else if (str_eq(name, STR("body")) && str_eq(value, STR("8BITMIME"))) {
		msg->body_8bit = true;
	} else if (str_eq(name, STR("utf8")) && !value.n) {
		msg->smtputf8 = true;
	} else if (str_eq(name, STR("notify"))) {
		*notify = value;
	} else if (str_eq(name, STR("to"))) {
		if (msg->n_rcpts == SUBMIT_RCPTS_MAX)
			return bad(err, size, "it has more than %d recipients", SUBMIT_RCPTS_MAX);
		if (msg->n_rcpts == *room) {
			size_t n = *room ? *room * 2 : 16;
			struct smtp_client_rcpt *more = realloc(msg->rcpts, n * sizeof *more);
			if (!more)
				return bad(err, size, "out of memory");
			msg->rcpts = more;
			*room = n;
		}
		msg->rcpts[msg->n_rcpts++] = (struct smtp_client_rcpt){ .address = value, .notify = *notify };
		*notify = STR_NULL;
	} else {
		return bad(err, size, "a line begins with \"%.*s\"", name.n > 40 ? 40 : (int)name.n, name.p ? name.p : "");
	}
	return 0;
}

int submit_drop_parse(struct str text, struct smtp_client_msg *msg, char *err, size_t err_size)
{
	struct str rest = text, notify = STR_NULL;
	size_t room = 0;
	*msg = (struct smtp_client_msg){ .once = STR_NULL };
	if (!str_starts(text, STR(MAGIC)))
		return bad(err, err_size, "it does not begin with \"pepsi-drop 1\"");
	rest = str_skip(rest, sizeof MAGIC - 1);
	for (;;) {
		ptrdiff_t lf = str_chr(str_n(rest.p, rest.n < DROP_LINE_MAX ? rest.n : DROP_LINE_MAX), '\n');
		if (lf < 0)
			return bad(err, err_size, "it ends within its envelope, or a line of that is too long");
		struct str line = str_n(rest.p, (size_t)lf);
		rest = str_skip(rest, (size_t)lf + 1);
		if (str_chr(line, 0) >= 0 || str_chr(line, '\r') >= 0)
			return bad(err, err_size, "a line of its envelope has a NUL or CR");
		ptrdiff_t gap = str_chr(line, ' ');
		struct str name = gap < 0 ? line : str_n(line.p, (size_t)gap), value = gap < 0 ? STR_NULL : str_skip(line, (size_t)gap + 1);
		if (str_eq(name, STR("content"))) {
			if (!is_key(msg->once) || !msg->n_rcpts)
				return bad(err, err_size, msg->n_rcpts ? "it has no key" : "it has no recipient");
			return take_content(value, rest, msg, err, err_size);
		}
		if (take_line(name, value, &notify, msg, &room, err, err_size))
			return -1;
	}
}

static bool has_name(const char *name, char first)
{
	return name[0] == first && is_key(str_from(name + 1));
}

bool submit_drop_name_done(const char *name)
{
	return has_name(name, 'm');
}

bool submit_drop_name_begun(const char *name)
{
	return has_name(name, 't');
}

static int write_all(int fd, struct str s)
{
	while (s.n) {
		ssize_t n = write(fd, s.p, s.n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		s = str_skip(s, (size_t)n);
	}
	return fsync(fd);
}

int submit_drop_write(const char *folder, struct str text, const char *key)
{
	char begun[SUBMIT_NAME], done[SUBMIT_NAME];
	/* the folder cannot be opened for reading, nor need it be */
	int dir = open(folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), fd = -1, e;
	if (dir < 0)
		return -1;
	snprintf(begun, sizeof begun, "t%s", key);
	snprintf(done, sizeof done, "m%s", key);
	fd = openat(dir, begun, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = fd < 0 ? -1 : write_all(fd, text);
	e = errno;
	if (fd >= 0 && close(fd) && !r) {
		r = -1;
		e = errno;
	}
	/* not over a file of somebody else's that may have this name */
	if (!r && renameat2(dir, begun, dir, done, RENAME_NOREPLACE)) {
		r = -1;
		e = errno;
	}
	if (r && fd >= 0)
		unlinkat(dir, begun, 0);
	/* the name must last, too: fsync of the folder needs the right to read it, syncfs of its file system only some file in it */
	if (!r) {
		fd = openat(dir, done, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0) {
			syncfs(fd);
			close(fd);
		}
	}
	close(dir);
	errno = e;
	return r;
}
