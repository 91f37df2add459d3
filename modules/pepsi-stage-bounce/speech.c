/* Languages of reports; see speech.h. Files are read when a worker starts, and by `pepsi config check`. */
#include "speech.h"
#include "pattern.h"
#include "say.h"

#include "proto/mail/header.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LANGUAGES_MAX = 64, RULES_MAX = 1000, FIELD_MAX = 1000, TAGS_MAX = 20, TOLD_MAX = 50, WHOLE = 1000 };

struct language {
	char tag[DSN_LANGUAGE_MAX + 1];
	struct dsn_words *words, *own; /* own: an operator's, on top of words */
};

struct rule {
	struct pattern p;
	const struct language *l;
};

struct speech {
	struct language l[LANGUAGES_MAX]; /* [0] is English, the base of all others */
	size_t n;
	struct rule *rules;
	size_t n_rules;
	const struct language *by_default;
	bool follow;
};

/* Where faults go. */
struct told {
	const struct pepsi_host *host;
	struct pepsi_report *report;
	const char *path;
	unsigned n;
};

static void tell(struct told *t, const char *option, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void tell(struct told *t, const char *option, const char *fmt, ...)
{
	struct buf b = BUF_INIT(2000);
	va_list ap;
	va_start(ap, fmt);
	buf_vaddf(&b, fmt, ap);
	va_end(ap);
	if (++t->n > TOLD_MAX)
		;
	else if (t->report)
		t->host->report(t->report, option, buf_z(&b));
	else
		say(t->host, NULL, PEPSI_LOG_ERROR, "%s: %s", option, buf_z(&b));
	buf_free(&b);
}

static void tell_line(void *arg, unsigned line, const char *text)
{
	struct told *t = arg;
	tell(t, "TEMPLATES", "%s:%u: %s", t->path, line, text);
}

static struct language *language_of(struct speech *s, struct str tag)
{
	for (size_t i = 0; i < s->n; i++)
		if (str_ieq(tag, str_from(s->l[i].tag)))
			return &s->l[i];
	return NULL;
}

/* The language of that tag, or of the longest beginning of it: de-CH, de. */
static const struct language *nearest(const struct speech *s, struct str tag)
{
	while (tag.n) {
		for (size_t i = 0; i < s->n; i++)
			if (str_ieq(tag, str_from(s->l[i].tag)))
				return &s->l[i];
		while (tag.n && tag.p[--tag.n] != '-')
			;
	}
	return NULL;
}

/* 0, or -1: memory. */
static int builtin(struct speech *s)
{
	struct str tag, file;
	for (size_t i = 0; dsn_words_builtin(i, &tag, &file) && s->n < LANGUAGES_MAX; i++) {
		struct language *l = &s->l[s->n];
		l->words = dsn_words_parse(file, s->n ? s->l[0].words : NULL, NULL, NULL);
		if (!l->words)
			return -1;
		snprintf(l->tag, sizeof l->tag, "%.*s", STR_ARG(tag));
		s->n++;
	}
	return s->n ? 0 : -1;
}

/* One file of the folder. 0, or -1: memory. */
static int own(struct speech *s, struct told *t, int folder, const char *name, struct str tag)
{
	struct buf text = BUF_INIT(DSN_WORDS_FILE_MAX + 1);
	struct stat st;
	ssize_t k = 0;
	char *room;
	int r = 0, fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		tell(t, "TEMPLATES", "%s: %s", t->path, fd < 0 ? strerror(errno) : "not a regular file");
		goto out;
	}
	while ((room = buf_room(&text, 16384)) && (k = read(fd, room, 16384)) > 0)
		text.n += (size_t)k;
	if (!room || k < 0) {
		tell(t, "TEMPLATES", "%s: %s", t->path, k < 0 ? strerror(errno) : "larger than 256 KiB");
		goto out;
	}
	struct language *l = language_of(s, tag);
	if (!l && s->n == LANGUAGES_MAX) {
		tell(t, "TEMPLATES", "%s: more than %d languages", t->path, LANGUAGES_MAX);
		goto out;
	}
	if (!l) {
		l = &s->l[s->n++];
		snprintf(l->tag, sizeof l->tag, "%.*s", STR_ARG(tag));
	}
	if (!l->own && !(l->own = dsn_words_parse(buf_str(&text), l->words ? l->words : s->l[0].own ? s->l[0].own : s->l[0].words, tell_line, t)))
		r = -1;
out:
	if (fd >= 0)
		close(fd);
	buf_free(&text);
	return r;
}

/* The folder's *.dsn, English first: others may lean on it. 0, or -1: memory. */
static int folder(struct speech *s, struct told *t, const char *path)
{
	int r = 0, fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	char file[4096];
	if (!d) {
		tell(t, "TEMPLATES", "%s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return 0;
	}
	t->path = file;
	for (int english = 1; english >= 0 && !r; english--) {
		const struct dirent *e;
		rewinddir(d);
		while (!r && (e = readdir(d))) {
			struct str name = str_from(e->d_name), tag = str_n(name.p, name.n > 4 ? name.n - 4 : 0);
			if (!str_iends(name, STR(".dsn")) || name.p[0] == '.' || str_ieq(tag, STR("en")) != english)
				continue;
			snprintf(file, sizeof file, "%s/%s", path, e->d_name);
			if (dsn_language_ok(tag))
				r = own(s, t, fd, e->d_name, tag);
			else
				tell(t, "TEMPLATES", "%s: expected a language tag in front of .dsn, such as de or pt-BR", file);
		}
	}
	closedir(d);
	return r;
}

/* "PATTERN… LANGUAGE". 0, or -1: memory. */
static int add_rule(struct speech *s, struct told *t, const char *option, const char *value)
{
	struct str rest = str_from(value), word, last = STR_NULL;
	struct language *l;
	size_t n = 0;
	while (str_word(&rest, " \t", &word)) {
		last = word;
		n++;
	}
	if (n < 2) {
		tell(t, option, "expected patterns of sender addresses and a language, such as: *.de example.at de");
		return 0;
	}
	if (!(l = language_of(s, last))) {
		tell(t, option, "there are no texts in the language %.*s", STR_ARG(last));
		return 0;
	}
	rest = str_from(value);
	for (size_t i = 0; i + 1 < n && str_word(&rest, " \t", &word); i++) {
		struct rule *more = realloc(s->rules, (s->n_rules + 1) * sizeof *more);
		if (!more)
			return -1;
		s->rules = more;
		if (s->n_rules == RULES_MAX || pattern_parse(word, &more[s->n_rules].p)) {
			if (s->n_rules == RULES_MAX)
				tell(t, option, "more than %d patterns in all", RULES_MAX);
			else
				tell(t, option, "%.*s is no address pattern (local@domain, local@*, domain, *.domain, *)", STR_ARG(word));
			return 0;
		}
		more[s->n_rules++].l = l;
	}
	return 0;
}

int32_t speech_open(struct speech **ret, const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report)
{
	struct told t = { .host = host, .report = report };
	struct speech *s = calloc(1, sizeof *s);
	const char *path = host->conf_str(conf, "TEMPLATES"), *name, *value;
	int bad = !s || builtin(s) || (path && *path && folder(s, &t, path));
	for (size_t i = 0; !bad && host->conf_multi(conf, "SENDER_LANGUAGE_*", i, &name, &value) == PEPSI_OK; i++)
		bad = add_rule(s, &t, name, value);
	if (bad) {
		speech_free(s);
		return PEPSI_RETRY;
	}
	value = host->conf_str(conf, "LANGUAGE");
	s->by_default = value ? language_of(s, str_from(value)) : NULL;
	if (value && !s->by_default)
		tell(&t, "LANGUAGE", "there are no texts in the language %s", value);
	if (!s->by_default)
		s->by_default = &s->l[0];
	s->follow = host->conf_int(conf, "FOLLOW_MESSAGE_LANGUAGE") != 0;
	if (t.n > TOLD_MAX)
		say(host, NULL, PEPSI_LOG_WARN, "TEMPLATES: %u more faults like these", t.n - TOLD_MAX);
	*ret = s;
	return PEPSI_OK;
}

void speech_free(struct speech *s)
{
	if (!s)
		return;
	for (size_t i = s->n; i-- > 0;) { /* [0] last: it is the base of others */
		dsn_words_free(s->l[i].own);
		dsn_words_free(s->l[i].words);
	}
	free(s->rules);
	free(s);
}

/* ";q=0.7" as thousandths; 1000 where there is none. */
static unsigned weight(struct str params)
{
	struct str one;
	while (str_word(&params, ";", &one)) {
		one = str_trim(one);
		if (!str_istarts(one, STR("q=")))
			continue;
		struct str v = str_skip(one, 2);
		if (v.n && v.p[0] == '1')
			return WHOLE;
		unsigned w = 0, unit = 100;
		for (size_t i = 2; i < v.n && i < 5 && v.p[i] >= '0' && v.p[i] <= '9'; i++, unit /= 10)
			w += (unsigned)(v.p[i] - '0') * unit;
		return w;
	}
	return WHOLE;
}

/* The best of a list of tags (RFC 3282 §3) that we have words in. */
static const struct language *listed(const struct speech *s, struct str headers, struct str field)
{
	struct mail_field f;
	const struct language *best = NULL;
	unsigned best_w = 0;
	struct str item;
	if (mail_field_find(headers, field, 0, &f) || f.value.n > FIELD_MAX)
		return NULL;
	struct str rest = f.value;
	for (int i = 0; i < TAGS_MAX && str_word(&rest, ",", &item); i++) {
		ptrdiff_t semi = str_chr(item, ';');
		struct str tag = str_trim(semi < 0 ? item : str_n(item.p, (size_t)semi));
		unsigned w = weight(semi < 0 ? STR_NULL : str_skip(item, (size_t)semi + 1));
		const struct language *l = dsn_language_ok(tag) ? nearest(s, tag) : NULL;
		if (l && w > best_w) {
			best = l;
			best_w = w;
		}
	}
	return best;
}

const struct dsn_words *speech_for(const struct speech *s, struct str sender, struct str headers, struct str *ret_tag)
{
	const struct language *l = NULL;
	struct pattern_address a;
	if (!pattern_address(sender, &a))
		for (size_t i = 0; i < s->n_rules && !l; i++)
			if (pattern_match(&s->rules[i].p, &a))
				l = s->rules[i].l;
	if (!l && s->follow)
		l = listed(s, headers, STR("Accept-Language"));
	if (!l && s->follow)
		l = listed(s, headers, STR("Content-Language"));
	if (!l)
		l = s->by_default;
	*ret_tag = str_from(l->tag);
	return l->own ? l->own : l->words;
}
