/* Sections and options in memory: who holds them, how they are found, set and wiped. Knows nothing of files; asks the
 * option tables only for the form in which a value is kept (lower case choices and stage names). */
#include "config_internal.h"
#include "schema.h"

#include <stdlib.h>

struct config *config_new(void)
{
	return calloc(1, sizeof(struct config));
}

static void wipe(char *z)
{
	if (z)
		explicit_bzero(z, strlen(z));
	free(z);
}

static void entry_done(struct config_entry *e)
{
	free(e->option);
	wipe(e->value);
}

void config_free(struct config *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n; i++) {
		for (size_t j = 0; j < c->s[i].n; j++)
			entry_done(&c->s[i].e[j]);
		free(c->s[i].e);
		free(c->s[i].name);
	}
	free(c->s);
	for (size_t i = 0; i < c->n_secrets; i++) {
		free(c->secrets[i].section);
		free(c->secrets[i].path);
	}
	free(c->secrets);
	for (size_t i = 0; i < c->n_files; i++)
		free(c->files[i]);
	free(c->files);
	free(c);
}

const char *config_file_name(struct config *c, const char *file)
{
	for (size_t i = 0; i < c->n_files; i++)
		if (strcmp(c->files[i], file) == 0)
			return c->files[i];
	if (c->n_files >= CONFIG_FILES_MAX)
		return NULL;
	if (!c->files && !(c->files = calloc(CONFIG_FILES_MAX, sizeof *c->files)))
		return NULL;
	char *copy = str_dupz(str_from(file));
	if (copy)
		c->files[c->n_files++] = copy;
	return copy;
}

const struct config_section *config_section_find(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->n; i++)
		if (str_ieq(str_from(c->s[i].name), str_from(name)))
			return &c->s[i];
	return NULL;
}

struct config_section *config_section_add(struct config *c, struct str name, const char *file, unsigned line)
{
	for (size_t i = 0; i < c->n; i++)
		if (str_ieq(str_from(c->s[i].name), name))
			return &c->s[i];
	if (c->n >= CONFIG_SECTIONS_MAX)
		return NULL;
	if (c->n == c->cap) {
		size_t cap = c->cap ? c->cap * 2 : 16;
		struct config_section *p = realloc(c->s, cap * sizeof *p);
		if (!p)
			return NULL;
		c->s = p;
		c->cap = cap;
	}
	char *z = str_dupz(name);
	if (!z)
		return NULL;
	ascii_lower_z(z);
	c->s[c->n] = (struct config_section){ .name = z, .file = file, .line = line };
	return &c->s[c->n++];
}

int config_entry_add(struct config *c, struct config_section *s, struct str option, struct str value, const char *file,
    unsigned line, bool secret)
{
	if (c->n_options >= CONFIG_OPTIONS_MAX)
		return -1;
	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 8;
		struct config_entry *p = realloc(s->e, cap * sizeof *p);
		if (!p)
			return -1;
		s->e = p;
		s->cap = cap;
	}
	char *name = str_dupz(option), *z = str_dupz(value);
	if (!name || !z) {
		free(name);
		wipe(z);
		return -1;
	}
	const struct pepsi_option *o = schema_option(s->name, name);
	if (o)
		schema_value_fold(o, z);
	s->e[s->n++] = (struct config_entry){
		.option = name, .value = z, .v = { .value = z, .file = file, .line = line }, .secret = secret
	};
	c->n_options++;
	return 0;
}

int config_secret_add(struct config *c, struct str section, const char *path, const char *file, unsigned line)
{
	if (c->n_secrets >= CONFIG_SECRETS_MAX)
		return -1;
	struct config_secret *p = realloc(c->secrets, (c->n_secrets + 1) * sizeof *p);
	if (!p)
		return -1;
	c->secrets = p;
	char *name = str_dupz(section), *copy = str_dupz(str_from(path));
	if (!name || !copy) {
		free(name);
		free(copy);
		return -1;
	}
	c->secrets[c->n_secrets++] = (struct config_secret){ .section = name, .path = copy, .file = file, .line = line };
	return 0;
}

static const struct config_entry *entry_find(const struct config *c, const char *section, const char *option)
{
	const struct config_section *s = config_section_find(c, section);
	for (size_t i = 0; s && i < s->n; i++)
		if (str_ieq(str_from(s->e[i].option), str_from(option)))
			return &s->e[i];
	return NULL;
}

const struct config_value *config_get(const struct config *c, const char *section, const char *option)
{
	const struct config_entry *e = entry_find(c, section, option);
	return e ? &e->v : NULL;
}

bool config_is_secret(const struct config *c, const char *section, const char *option)
{
	const struct config_entry *e = entry_find(c, section, option);
	return e && e->secret;
}

const char *config_section(const struct config *c, size_t i)
{
	return i < c->n ? c->s[i].name : NULL;
}

const char *config_option(const struct config *c, const char *section, size_t i, struct config_value *ret)
{
	const struct config_section *s = config_section_find(c, section);
	if (!s || i >= s->n)
		return NULL;
	if (ret)
		*ret = s->e[i].v;
	return s->e[i].option;
}

int config_set(struct config *c, const char *section, const char *option, const char *value)
{
	return config_set_from(c, section, option, value, "");
}

int config_set_from(struct config *c, const char *section, const char *option, const char *value, const char *file)
{
	size_t at;
	if (config_section_name_wrong(str_from(section)) || config_option_name_wrong(str_from(option)) ||
	    config_text_wrong(str_from(value), &at) || strlen(value) > CONFIG_LINE_MAX)
		return -1;
	struct config_section *s = config_section_add(c, str_from(section), "", 0);
	if (!s || config_entry_add(c, s, str_from(option), str_from(value), file, 0, false))
		return -1;
	/* the new one takes the place of the first, the others go */
	size_t last = s->n - 1, kept = 0;
	bool placed = false;
	struct config_entry fresh = s->e[last];
	for (size_t i = 0; i < last; i++) {
		if (!str_ieq(str_from(s->e[i].option), str_from(option))) {
			s->e[kept++] = s->e[i];
			continue;
		}
		entry_done(&s->e[i]);
		c->n_options--;
		if (!placed)
			s->e[kept++] = fresh;
		placed = true;
	}
	if (!placed)
		s->e[kept++] = fresh;
	s->n = kept;
	return 0;
}
