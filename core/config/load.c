/* Files: reading one whole within limits, @inline@ with patterns, depth and loop detection, @inline-secret@ as a
 * reference, and the loading of those secrets later, by the account that may read them. Syntax is in ini.c. */
#include "base/log.h"
#include "config_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* What one config_load() carries through its files. */
struct load {
	struct config_file_id stack[CONFIG_DEPTH_MAX + 1]; /* files being read: an @inline@ of one of them is a loop */
	size_t octets, files;
};

int config_file_read(const char *path, struct buf *out, unsigned *ret_mode, struct config_file_id *ret_id,
    const char **ret_why)
{
	struct stat st;
	*ret_why = NULL;
	/* O_NONBLOCK: a FIFO in its place must not stop the daemon */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return errno;
	int err = fstat(fd, &st) ? errno : 0;
	if (!err && !S_ISREG(st.st_mode)) {
		*ret_why = S_ISDIR(st.st_mode) ? "it is a folder; write FOLDER/*.conf for the files in it" : "it is not a regular file";
		err = EINVAL;
	}
	while (!err) {
		char *at = buf_room(out, 16 * 1024);
		if (!at) {
			*ret_why = out->n + 16 * 1024 > out->max ? "it is larger than 4 MiB" : "memory is out";
			err = EFBIG;
			break;
		}
		ssize_t n = read(fd, at, 16 * 1024);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			err = n < 0 ? errno : 0;
			break;
		}
		out->n += (size_t)n;
	}
	if (!err && ret_mode)
		*ret_mode = (unsigned)st.st_mode;
	if (!err && ret_id)
		*ret_id = (struct config_file_id){ (uint64_t)st.st_dev, (uint64_t)st.st_ino };
	close(fd);
	return err;
}

static void load_file(struct config_reader *parent, const char *path);

/* Appends the folder of `file` with its slash; with glob, characters that mean something in a pattern get a backslash. */
static void add_folder(struct buf *b, const char *file, bool pattern)
{
	const char *slash = strrchr(file, '/');
	for (const char *p = file; slash && p <= slash; p++) {
		if (pattern && strchr("*?[]\\", *p))
			buf_addc(b, '\\');
		buf_addc(b, *p);
	}
}

char *config_path_beside(const struct config *c, const char *file, const char *value, bool pattern, struct buf *why)
{
	char *expanded = config_expand(c, value, why), *ret = NULL;
	struct buf b = BUF_INIT(8192);
	if (!expanded)
		return NULL;
	if (expanded[0] != '/')
		add_folder(&b, file, pattern);
	buf_addz(&b, expanded);
	if (!expanded[0])
		buf_addz(why, "the name of the file is missing");
	else if (b.failed)
		buf_addz(why, "the path is too long");
	else if (!(ret = str_dupz(buf_str(&b))))
		buf_addz(why, "memory is out");
	free(expanded);
	buf_free(&b);
	return ret;
}

/* A folder that is not there has no files; one that may not be read might have. */
static int glob_stops(const char *path, int err)
{
	(void)path;
	return err != ENOENT && err != ENOTDIR;
}

static void read_inline(struct config_reader *r, const char *pattern)
{
	glob_t g = { 0 };
	/* names as they are where nothing is a pattern, so that what cannot be opened is reported by its name */
	bool magic = strpbrk(pattern, "*?[") != NULL;
	int err = glob(pattern, magic ? 0 : GLOB_NOCHECK, glob_stops, &g);
	if (err && err != GLOB_NOMATCH)
		config_reader_fault(r, false, "cannot look for %s: %s", pattern,
		    err == GLOB_NOSPACE ? "memory is out" : "a folder cannot be read");
	for (size_t i = 0; !err && i < g.gl_pathc; i++)
		load_file(r, g.gl_pathv[i]);
	globfree(&g);
}

static void read_inline_secret(struct config_reader *r, struct str section, const char *value)
{
	struct buf why = BUF_INIT(1024), abs = BUF_INIT(8192);
	char *path = config_path_beside(r->c, r->file, value, false, &why);
	const char *wrong = config_section_name_wrong(section);
	if (wrong || !path) {
		config_reader_fault(r, false, "@inline-secret@: %s", wrong ? wrong : buf_z(&why));
	} else {
		/* whoever reads it later may stand in another folder */
		char *cwd = path[0] == '/' ? NULL : getcwd(NULL, 0);
		if (cwd)
			buf_addf(&abs, "%s/", cwd);
		buf_addz(&abs, path);
		free(cwd);
		if (abs.failed || config_secret_add(r->c, section, buf_z(&abs), r->file, r->line))
			config_reader_fault(r, false, "no room for another @inline-secret@ (at most %d)", CONFIG_SECRETS_MAX);
	}
	free(path);
	buf_free(&why);
	buf_free(&abs);
}

static void directive(struct config_reader *r, struct str word, struct str rest)
{
	struct buf value = BUF_INIT(CONFIG_LINE_MAX), why = BUF_INIT(1024);
	struct str section = STR_NULL;
	const char *wrong = NULL;
	bool secret = str_eq(word, STR("@inline-secret@"));
	if (secret && !str_word(&rest, " \t", &section))
		wrong = "the section is missing: @inline-secret@ SECTION FILE";
	else if (config_value_unquote(str_trim(rest), &value, &wrong) == 0)
		wrong = value.n ? NULL : secret ? "the file is missing: @inline-secret@ SECTION FILE" : "the name of the file is missing";
	if (wrong) {
		config_reader_fault(r, false, "%.*s: %s", STR_ARG(word), wrong);
	} else if (secret) {
		read_inline_secret(r, section, buf_z(&value));
	} else {
		char *pattern = config_path_beside(r->c, r->file, buf_z(&value), true, &why);
		if (pattern)
			read_inline(r, pattern);
		else
			config_reader_fault(r, false, "@inline@: %s", buf_z(&why));
		free(pattern);
	}
	buf_free(&value);
	buf_free(&why);
}

/* Where a file that cannot be read is reported: at the line that asked for it, or as the file itself. */
static void unreadable(struct config_reader *parent, const char *path, const char *what)
{
	if (parent->file) {
		config_reader_fault(parent, false, "cannot read %s: %s", path, what);
		return;
	}
	parent->c->unread = true;
	config_fault_add(parent->faults, path, 0, false, "cannot be read: %s", what);
}

static void load_file(struct config_reader *parent, const char *path)
{
	struct load *l = parent->arg;
	struct buf text = BUF_INIT(CONFIG_FILE_MAX);
	struct config_file_id id;
	const char *why, *name = config_file_name(parent->c, path);
	unsigned depth = parent->file ? parent->depth + 1 : 0;
	if (!name || ++l->files > CONFIG_FILES_MAX) {
		unreadable(parent, path, name ? "too many files" : "too many files, or memory is out");
		return;
	}
	if (depth > CONFIG_DEPTH_MAX) {
		unreadable(parent, path, "@inline@ goes too deep (at most 10 files one inside the other)");
		return;
	}
	int err = config_file_read(path, &text, NULL, &id, &why);
	if (!err && (l->octets += text.n) > CONFIG_TOTAL_MAX) {
		why = "all files together are larger than 32 MiB";
		err = EFBIG;
	}
	for (unsigned i = 0; !err && i < depth; i++)
		if (l->stack[i].dev == id.dev && l->stack[i].ino == id.ino) {
			why = "it is being read already: the files include each other in a loop";
			err = ELOOP;
		}
	if (err) {
		unreadable(parent, path, why ? why : strerror(err));
	} else {
		l->stack[depth] = id;
		struct config_reader r = { .c = parent->c, .faults = parent->faults, .file = name, .depth = depth, .arg = l,
			.directive = directive };
		config_read_text(&r, buf_str(&text));
	}
	buf_free_secret(&text);
}

struct config *config_load(const char *path, struct config_faults *faults)
{
	struct load l = { 0 };
	struct config *c = config_new();
	if (!c)
		return NULL;
	struct config_reader top = { .c = c, .faults = faults, .arg = &l };
	load_file(&top, path);
	return c;
}

void config_load_secrets(struct config *c, struct config_faults *faults)
{
	for (size_t i = 0; i < c->n_secrets; i++) {
		struct config_secret *s = &c->secrets[i];
		struct buf text = BUF_INIT(CONFIG_FILE_MAX);
		const char *why, *name;
		unsigned mode = 0;
		if (s->loaded)
			continue;
		int err = config_file_read(s->path, &text, &mode, NULL, &why);
		if (err == EACCES || err == EPERM) {
			log_debug(NULL, "config secret=%s section=%s: not for this account", log_qz(s->path), log_qz(s->section));
		} else if (err || !(name = config_file_name(c, s->path))) {
			config_fault_add(faults, s->file, s->line, false, "cannot read %s: %s", s->path,
			    why ? why : err ? strerror(err) : "too many files, or memory is out");
		} else {
			if (mode & (S_IROTH | S_IWOTH))
				config_fault_add(faults, name, 0, true,
				    "holds secrets, but everybody may %s it: run chmod o-rwx on it", mode & S_IROTH ? "read" : "change");
			struct config_section *section = config_section_add(c, str_from(s->section), name, 0);
			struct config_reader r = { .c = c, .faults = faults, .file = name, .only = s->section };
			if (section) {
				r.section = (size_t)(section - c->s) + 1;
				config_read_text(&r, buf_str(&text));
			} else {
				config_fault_add(faults, name, 0, false, "no room for another section");
			}
			s->loaded = true;
		}
		buf_free_secret(&text);
	}
}
