/* The text map, in the form of aliases(5): parsed into a hash table once, looked up without allocation. */
#include "aliases.h"

#include "proto/smtp/address.h"

#include <stdlib.h>

struct entry {
	struct entry *next; /* same hash */
	struct str name;
	struct str *targets;
	size_t n;
};

struct alias_file {
	struct arena *a;
	struct map names;
	size_t n;
};

/* FNV-1a; the map is the operator's own, so nobody chooses the names to collide. */
static uint64_t hash(struct str s)
{
	uint64_t h = UINT64_C(14695981039346656037);
	for (size_t i = 0; i < s.n; i++)
		h = (h ^ (unsigned char)s.p[i]) * UINT64_C(1099511628211);
	return h;
}

static struct entry *find(const struct alias_file *f, struct str name)
{
	struct entry *e = map_get(&f->names, hash(name));
	while (e && !str_eq(e->name, name))
		e = e->next;
	return e;
}

const char *alias_target_wrong(struct str t)
{
	struct smtp_address ignore;
	if (!t.n)
		return "an empty target";
	if (t.n > ALIAS_ADDRESS_MAX)
		return "a target longer than an address may be";
	if (t.p[0] == '|' || t.p[0] == '/' || t.p[0] == ':' || (t.n > 1 && t.p[0] == '"' && (t.p[1] == '|' || t.p[1] == '/')))
		return "programs, files and :include: are no targets here";
	if (memchr(t.p, '@', t.n))
		return smtp_address_parse(t, true, &ignore) ? "a target that is no address" : NULL;
	for (size_t i = 0; i < t.n; i++)
		if ((unsigned char)t.p[i] <= ' ' || memchr("()<>,;:\\\"[]", t.p[i], 11) || t.p[i] == 0x7f)
			return "a target that is no address";
	return NULL;
}

/* One logical line. 0, -1: memory. */
static int take(struct alias_file *f, struct str line, unsigned at, alias_fault_fn fn, void *arg)
{
	size_t cut = 0, n = 0;
	bool quoted = false;
	while (cut < line.n && (quoted || line.p[cut] != ':')) {
		if (line.p[cut] == '"')
			quoted = !quoted;
		cut++;
	}
	struct str name = str_trim(str_n(line.p, cut)), rest = str_skip(line, cut + 1), word;
	if (cut == line.n || !name.n || name.n > ALIAS_ADDRESS_MAX) {
		fn(arg, at, "expected NAME: TARGET, TARGET");
		return 0;
	}
	for (struct str count = rest; str_word(&count, ",", &word);)
		n++;
	if (n > ALIAS_TARGETS_MAX) {
		fn(arg, at, "more targets than a message may have");
		return 0;
	}
	struct entry *e = arena_alloc(f->a, sizeof *e);
	if (!e || !(e->targets = arena_calloc(f->a, n + 1, sizeof *e->targets)))
		return -1;
	while (str_word(&rest, ",", &word)) {
		word = str_trim(word);
		const char *wrong = word.n ? alias_target_wrong(word) : NULL;
		if (wrong) {
			fn(arg, at, wrong);
			return 0;
		}
		if (word.n && !(e->targets[e->n++] = arena_str(f->a, word)).p)
			return -1;
	}
	e->name = arena_lower(f->a, name);
	if (!e->name.p)
		return -1;
	if (find(f, e->name)) {
		fn(arg, at, "this name stood before; the first one counts");
		return 0;
	}
	e->next = map_get(&f->names, hash(e->name));
	f->n++;
	return map_put(&f->names, hash(e->name), e);
}

struct alias_file *alias_file_parse(struct str text, alias_fault_fn fn, void *arg)
{
	struct alias_file *f = calloc(1, sizeof *f);
	struct buf line = BUF_INIT(1024 * 1024);
	unsigned at = 0, first = 0;
	bool bad = !f || !(f->a = arena_new(8 * (size_t)ALIAS_FILE_MAX));
	while (!bad && text.n) {
		ptrdiff_t nl = str_chr(text, '\n');
		struct str l = str_n(text.p, nl < 0 ? text.n : (size_t)nl);
		text = str_skip(text, l.n + 1);
		at++;
		struct str body = str_trim(l);
		if (!body.n || body.p[0] == '#')
			continue;
		bool more = l.p[0] == ' ' || l.p[0] == '\t';
		if (!more) {
			bad = line.n && take(f, buf_str(&line), first, fn, arg);
			buf_reset(&line);
			first = at;
		}
		if (more && !line.n)
			fn(arg, at, "a continuation of nothing");
		else if (buf_addc(&line, ' ') || buf_adds(&line, body)) {
			fn(arg, first, "a line longer than 1 MiB");
			buf_reset(&line);
		}
	}
	if (!bad && line.n)
		bad = take(f, buf_str(&line), first, fn, arg);
	buf_free(&line);
	if (bad) {
		alias_file_free(f);
		return NULL;
	}
	return f;
}

void alias_file_free(struct alias_file *f)
{
	if (!f)
		return;
	map_done(&f->names);
	arena_free(f->a);
	free(f);
}

size_t alias_file_names(const struct alias_file *f)
{
	return f->n;
}

int alias_file_find(void *file, struct arena *a, const struct str *names, size_t n, struct alias_hit *hits, struct buf *why)
{
	(void)a;
	(void)why;
	for (size_t i = 0; i < n; i++) {
		const struct entry *e = find(file, names[i]);
		hits[i] = e ? (struct alias_hit){ true, e->targets, e->n } : (struct alias_hit){ .found = false };
	}
	return 0;
}
