/* The flat form of a configuration: how it travels to workers and children. Little-endian lengths before texts, nothing
 * else; read back with every length checked, since the blob crosses a process border. */
#include "config_internal.h"

#include <stdlib.h>

/* magic; files: n, each text; sections: n, each name, file index, line, n options, each option, value, file index,
 * line, secret; secrets: n, each section, path, file index, line. A file index 0 is "", others the file before + 1. */
static const char magic[8] = "PEPSICF1";

static void put_u32(struct buf *out, size_t v)
{
	unsigned char b[4] = { (unsigned char)v, (unsigned char)(v >> 8), (unsigned char)(v >> 16), (unsigned char)(v >> 24) };
	buf_add(out, b, sizeof b);
}

static void put_text(struct buf *out, const char *z)
{
	size_t n = strlen(z);
	put_u32(out, n);
	buf_add(out, z, n);
}

static void put_file(const struct config *c, struct buf *out, const char *file)
{
	size_t i = 0;
	while (i < c->n_files && c->files[i] != file)
		i++;
	put_u32(out, i < c->n_files ? i + 1 : 0);
}

int config_freeze(const struct config *c, struct buf *out)
{
	buf_add(out, magic, sizeof magic);
	put_u32(out, c->n_files);
	for (size_t i = 0; i < c->n_files; i++)
		put_text(out, c->files[i]);
	put_u32(out, c->n);
	for (size_t i = 0; i < c->n; i++) {
		const struct config_section *s = &c->s[i];
		put_text(out, s->name);
		put_file(c, out, s->file);
		put_u32(out, s->line);
		put_u32(out, s->n);
		for (size_t j = 0; j < s->n; j++) {
			put_text(out, s->e[j].option);
			put_text(out, s->e[j].value);
			put_file(c, out, s->e[j].v.file);
			put_u32(out, s->e[j].v.line);
			put_u32(out, s->e[j].secret);
		}
	}
	put_u32(out, c->n_secrets);
	for (size_t i = 0; i < c->n_secrets; i++) {
		put_text(out, c->secrets[i].section);
		put_text(out, c->secrets[i].path);
		put_file(c, out, c->secrets[i].file);
		put_u32(out, c->secrets[i].line);
	}
	return out->failed ? -1 : 0;
}

/* The rest of a blob; `bad` sticks. */
struct in {
	struct str s;
	bool bad;
};

static uint32_t get_u32(struct in *in, uint32_t max)
{
	const unsigned char *p = (const unsigned char *)in->s.p;
	uint32_t v = 0;
	if (!in->bad && in->s.n >= 4)
		v = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
	else
		in->bad = true;
	if (v > max)
		in->bad = true;
	if (in->bad)
		return 0;
	in->s = str_skip(in->s, 4);
	return v;
}

static struct str get_text(struct in *in, size_t max)
{
	size_t n = get_u32(in, (uint32_t)max);
	struct str t = str_n(in->s.p, n);
	if (in->bad || n > in->s.n || (n && memchr(t.p, 0, n))) {
		in->bad = true;
		return STR_NULL;
	}
	in->s = str_skip(in->s, n);
	return t;
}

static const char *get_file(struct config *c, struct in *in)
{
	uint32_t i = get_u32(in, (uint32_t)c->n_files);
	return i ? c->files[i - 1] : "";
}

static void get_files(struct config *c, struct in *in)
{
	size_t n = get_u32(in, CONFIG_FILES_MAX);
	for (size_t i = 0; i < n && !in->bad; i++) {
		char *z = str_dupz(get_text(in, 8192));
		/* each name once, or the indices behind would mean other files */
		if (!z || !config_file_name(c, z) || c->n_files != i + 1)
			in->bad = true;
		free(z);
	}
}

static void get_section(struct config *c, struct in *in)
{
	struct str name = get_text(in, CONFIG_NAME_MAX);
	const char *file = get_file(c, in);
	unsigned line = get_u32(in, UINT32_MAX);
	size_t n = get_u32(in, CONFIG_OPTIONS_MAX), before = c->n;
	if (in->bad || config_section_name_wrong(name)) {
		in->bad = true;
		return;
	}
	struct config_section *s = config_section_add(c, name, file, line);
	if (!s || c->n == before)
		in->bad = true;
	for (size_t i = 0; i < n && !in->bad; i++) {
		struct str option = get_text(in, (size_t)CONFIG_NAME_MAX * 2), value = get_text(in, CONFIG_LINE_MAX);
		file = get_file(c, in);
		line = get_u32(in, UINT32_MAX);
		bool secret = get_u32(in, 1) != 0;
		if (in->bad || config_option_name_wrong(option) || config_entry_add(c, s, option, value, file, line, secret))
			in->bad = true;
	}
}

struct config *config_thaw(struct str blob)
{
	struct in in = { blob, false };
	struct config *c;
	if (!str_starts(blob, str_n(magic, sizeof magic)) || !(c = config_new()))
		return NULL;
	in.s = str_skip(in.s, sizeof magic);
	get_files(c, &in);
	size_t n = in.bad ? 0 : get_u32(&in, CONFIG_SECTIONS_MAX);
	for (size_t i = 0; i < n && !in.bad; i++)
		get_section(c, &in);
	n = in.bad ? 0 : get_u32(&in, CONFIG_SECRETS_MAX);
	for (size_t i = 0; i < n && !in.bad; i++) {
		struct str section = get_text(&in, CONFIG_NAME_MAX);
		char *path = str_dupz(get_text(&in, 8192));
		const char *file = get_file(c, &in);
		unsigned line = get_u32(&in, UINT32_MAX);
		if (in.bad || !path || config_section_name_wrong(section) || config_secret_add(c, section, path, file, line))
			in.bad = true;
		free(path);
	}
	if (in.bad || in.s.n) {
		config_free(c);
		return NULL;
	}
	return c;
}
