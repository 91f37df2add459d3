/* KEY_DIR on the disk (dkim_dir.h). */
#include "dkim_dir.h"
#include "proto/address/address.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DOMAINS_MAX = 100000, TWO_DAYS = 2 * 86400, ALARMS_MAX = 64 * 1024 };
#define PROGRAM "pepsi-stage-dkim-sign"
#define RING_FILE "keys"
#define ALARMS_FILE ".alarms" /* no domain begins with a dot */

int dkim_dir_open(struct cli *c, const struct config *conf, bool create, struct dkim_dir *ret)
{
	struct key_dir d;
	int rc = key_dir_open(c, conf, PROGRAM, create, "pepsi-keys dkim add", &d);
	*ret = (struct dkim_dir){ .fd = d.fd, .path = d.path };
	for (size_t i = 0; !rc && config_section(conf, i); i++)
		if (!strncmp(config_section(conf, i), "stage-", 6) && config_int(conf, config_section(conf, i), "MAX_LIFETIME") > ret->retire_s)
			ret->retire_s = config_int(conf, config_section(conf, i), "MAX_LIFETIME");
	ret->retire_s += TWO_DAYS;
	return rc;
}

void dkim_dir_close(struct dkim_dir *d)
{
	if (d->fd >= 0)
		close(d->fd);
	free(d->path);
	*d = (struct dkim_dir){ .fd = -1 };
}

/* Keys that were put there by hand, without a `keys`: they sign, all of them (that is what the stage does). */
static int adopt(struct dkim_domain *d)
{
	int copy = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *f;
	if (!dir)
		return cli_fail("%s: %s", d->name, strerror(errno));
	while ((f = readdir(dir))) {
		struct str s = str_from(f->d_name);
		struct buf pem = BUF_INIT(DKIM_PEM_MAX + 2);
		struct dkim_private *k = NULL;
		const char *why;
		char kind[16] = "unknown";
		if (!str_iends(s, STR(".pem")) || (s.n -= 4, !dkim_selector_ok(s)))
			continue;
		if (!key_dir_read(d->fd, f->d_name, DKIM_PEM_MAX, &pem) && !dkim_private_read(buf_str(&pem), &k, &why))
			dkim_private_kind(k, kind);
		dkim_private_free(k);
		buf_free_secret(&pem);
		if (dkim_ring_add(&d->ring, s, kind, DKIM_KEY_ACTIVE, time(NULL), STR_NULL)) {
			closedir(dir);
			return cli_fail("%s: more keys than there may be", d->name);
		}
	}
	closedir(dir);
	return 0;
}

int dkim_domain_open(const struct cli *c, const struct dkim_dir *dir, const char *text, bool create, struct dkim_domain *ret)
{
	struct buf ascii = BUF_INIT(300), ring = BUF_INIT(DKIM_RING_TEXT_MAX + 2);
	const char *why;
	unsigned line;
	int rc = 0;
	*ret = (struct dkim_domain){ .fd = -1 };
	if (smtp_domain_to_ascii(str_from(text), &ascii) || ascii.n > 253) {
		buf_free(&ascii);
		return cli_usage(c, "\"%s\" is no domain", text);
	}
	snprintf(ret->name, sizeof ret->name, "%s", buf_z(&ascii));
	buf_free(&ascii);
	if (create && mkdirat(dir->fd, ret->name, 0700) && errno != EEXIST)
		return cli_fail("cannot make %s/%s: %s", dir->path, ret->name, strerror(errno));
	ret->fd = openat(dir->fd, ret->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (ret->fd < 0)
		return errno == ENOENT ? cli_fail("there are no keys of %s", ret->name) : cli_fail("%s/%s: %s", dir->path, ret->name, strerror(errno));
	if (flock(ret->fd, LOCK_EX | LOCK_NB))
		rc = cli_fail("another pepsi-keys is at work on %s", ret->name);
	else if (key_dir_read(ret->fd, RING_FILE, DKIM_RING_TEXT_MAX, &ring))
		rc = errno == ENOENT ? adopt(ret) : cli_fail("%s/%s/" RING_FILE ": %s", dir->path, ret->name, strerror(errno));
	else if (dkim_ring_parse(buf_str(&ring), &ret->ring, &why, &line))
		rc = cli_fail("%s/%s/" RING_FILE ":%u: %s", dir->path, ret->name, line, why);
	buf_free(&ring);
	if (rc)
		dkim_domain_close(ret);
	return rc;
}

void dkim_domain_close(struct dkim_domain *d)
{
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int dkim_dir_domains(const struct dkim_dir *d, char ***ret, size_t *ret_n)
{
	int copy = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	char **list = NULL;
	size_t n = 0, cap = 0;
	struct dirent *f;
	if (!dir) {
		cli_fail("%s: %s", d->path, strerror(errno));
		return -1;
	}
	while ((f = readdir(dir)) && n < DOMAINS_MAX) {
		if (f->d_name[0] == '.' || smtp_domain_check(str_from(f->d_name), false))
			continue;
		if (n == cap) {
			char **more = realloc(list, (cap = cap ? cap * 2 : 16) * sizeof *list);
			if (!more)
				break;
			list = more;
		}
		if (!(list[n] = strdup(f->d_name)))
			break;
		n++;
	}
	closedir(dir);
	if (n)
		qsort(list, n, sizeof *list, by_text);
	*ret = list;
	*ret_n = n;
	return 0;
}

static int put(struct dkim_domain *d, const char *name, struct str text, mode_t mode)
{
	return key_dir_put(d->fd, d->name, name, text, mode);
}

int dkim_domain_save(struct dkim_domain *d)
{
	struct buf b = BUF_INIT(DKIM_RING_TEXT_MAX);
	int rc = dkim_ring_write(&d->ring, &b) ? cli_fail("%s: too many keys", d->name) : put(d, RING_FILE, buf_str(&b), 0644);
	buf_free(&b);
	return rc;
}

static void file_of(char out[DKIM_SELECTOR_MAX + 5], const char *selector)
{
	snprintf(out, DKIM_SELECTOR_MAX + 5, "%s.pem", selector);
}

int dkim_domain_write_key(struct dkim_domain *d, const char *selector, const struct dkim_private *k)
{
	char name[DKIM_SELECTOR_MAX + 5];
	struct buf pem = BUF_INIT(DKIM_PEM_MAX);
	file_of(name, selector);
	int rc = buf_room(&pem, DKIM_PEM_MAX - 1) && !dkim_private_pem(k, &pem) ? put(d, name, buf_str(&pem), 0600) : cli_fail("out of memory");
	buf_free_secret(&pem);
	return rc;
}

int dkim_domain_drop_key(struct dkim_domain *d, const char *selector)
{
	char name[DKIM_SELECTOR_MAX + 5];
	file_of(name, selector);
	if (unlinkat(d->fd, name, 0) && errno != ENOENT)
		return cli_fail("%s/%s cannot be removed: %s", d->name, name, strerror(errno));
	fsync(d->fd);
	return 0;
}

int dkim_domain_record(struct dkim_domain *d, const struct dkim_ring_key *key, struct buf *out)
{
	char name[DKIM_SELECTOR_MAX + 5];
	struct buf pem = BUF_INIT(DKIM_PEM_MAX + 2);
	struct dkim_private *k = NULL;
	const char *why;
	int rc = 0;
	if (key->state == DKIM_KEY_REVOKED)
		return buf_addz(out, "v=DKIM1; p=");
	file_of(name, key->selector);
	if (key_dir_read(d->fd, name, DKIM_PEM_MAX, &pem))
		rc = cli_fail("%s/%s: %s", d->name, name, strerror(errno));
	else if (dkim_private_read(buf_str(&pem), &k, &why))
		rc = cli_fail("%s/%s: %s", d->name, name, why);
	else if (dkim_private_record(k, out))
		rc = cli_fail("out of memory");
	dkim_private_free(k);
	buf_free_secret(&pem);
	return rc;
}

int dkim_dir_write_alarms(const struct dkim_dir *d, struct str text)
{
	struct dkim_domain root = { .fd = d->fd, .name = "KEY_DIR" };
	return put(&root, ALARMS_FILE, text, 0644);
}

void dkim_alarms_read(const struct config *conf, struct buf *out, int64_t *ret_when)
{
	*ret_when = 0;
	for (size_t i = 0; config_section(conf, i); i++) {
		const char *s = config_section(conf, i), *program = strncmp(s, "stage-", 6) ? NULL : config_str(conf, s, "PROGRAM");
		const struct config_value *v = program && !strcmp(program, PROGRAM) ? config_get(conf, s, "KEY_DIR") : NULL;
		char *path = v ? config_expand(conf, v->value, NULL) : NULL;
		int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
		struct buf text = BUF_INIT(ALARMS_MAX + 2);
		struct stat st;
		if (fd >= 0 && !fstatat(fd, ALARMS_FILE, &st, AT_SYMLINK_NOFOLLOW) && !key_dir_read(fd, ALARMS_FILE, ALARMS_MAX, &text)) {
			if (!*ret_when || st.st_mtime < *ret_when)
				*ret_when = st.st_mtime;
			buf_adds(out, buf_str(&text));
		}
		buf_free(&text);
		if (fd >= 0)
			close(fd);
		free(path);
	}
}
