/* Shows a configuration. Leans towards hiding: an option whose table is unknown here (a module's) is judged by its
 * name. */
#include "admin/show.h"

#include "config/schema.h"
#include "json.h"

static bool contains(struct str s, struct str part)
{
	for (size_t i = 0; i + part.n <= s.n; i++)
		if (str_istarts(str_skip(s, i), part))
			return true;
	return false;
}

bool admin_option_secret(const char *section, const char *option)
{
	static const struct str words[] = {
		STR_INIT("PASSWORD"), STR_INIT("PASSPHRASE"), STR_INIT("SECRET"), STR_INIT("TOKEN"), STR_INIT("CREDENTIAL"),
	};
	const struct pepsi_option *o = schema_option(section, option);
	if (o)
		return o->type == PEPSI_OPT_SECRET;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (contains(str_from(option), words[i]))
			return true;
	return false;
}

/* Passwords of libpq connection strings: "password=… " and "scheme://user:password@". */
static void add_masked(struct buf *out, const char *value)
{
	struct buf text = BUF_INIT(64 * 1024);
	struct str s = str_from(value), key = STR("password");
	while (s.n) {
		ptrdiff_t at = str_starts(s, STR("://")) ? str_chr(s, '@') : -1;
		ptrdiff_t colon = at > 0 ? str_chr(str_n(s.p + 3, (size_t)at - 3), ':') : -1;
		if (at > 0 && colon >= 0) {
			buf_add(&text, s.p, (size_t)colon + 4);
			buf_addz(&text, "***");
			s = str_skip(s, (size_t)at);
			continue;
		}
		if (str_istarts(s, key)) {
			size_t i = key.n;
			while (i < s.n && (s.p[i] == ' ' || s.p[i] == '='))
				i++;
			buf_addz(&text, "password=***");
			/* libpq: a quoted value goes on to its closing quote, with \ before quotes inside */
			if (i < s.n && s.p[i] == '\'') {
				for (i++; i < s.n && s.p[i] != '\''; i++)
					if (s.p[i] == '\\')
						i++;
				i++;
			} else {
				while (i < s.n && s.p[i] != ' ' && s.p[i] != '&')
					i++;
			}
			s = str_skip(s, i);
			continue;
		}
		buf_addc(&text, s.p[0]);
		s = str_skip(s, 1);
	}
	admin_json_string(out, text.failed ? STR("***") : buf_str(&text));
	buf_free(&text);
}

static void add_option(struct buf *out, const char *section, const char *option, const struct config_value *v, bool def)
{
	bool secret = admin_option_secret(section, option);
	if (out->n && out->p[out->n - 1] != '[')
		buf_addc(out, ',');
	buf_addz(out, "{\"section\":");
	admin_json_stringz(out, section);
	buf_addz(out, ",\"option\":");
	admin_json_stringz(out, option);
	buf_addz(out, ",\"value\":");
	if (secret || !v->value)
		buf_addz(out, "null");
	else
		add_masked(out, v->value);
	buf_addz(out, ",\"file\":");
	admin_json_stringz(out, v->file ? v->file : "");
	buf_addf(out, ",\"line\":%u,\"default\":%s,\"secret\":%s}", v->line, def ? "true" : "false",
	    secret ? "true" : "false");
}

static void add_defaults(const struct config *c, const struct schema_section *s, const char *section, struct buf *out)
{
	for (size_t i = 0; i < s->n_options; i++) {
		const struct pepsi_option *o = &s->options[i];
		struct config_value v = { .value = o->def, .file = "" };
		if (o->def && !config_get(c, section, o->name))
			add_option(out, section, o->name, &v, true);
	}
}

void admin_config_json(const struct config *c, struct buf *out)
{
	const char *section, *option;
	struct config_value v;
	size_t n_tables;
	const struct schema_section *tables = schema_sections(&n_tables);
	buf_addc(out, '[');
	for (size_t i = 0; (section = config_section(c, i)); i++) {
		for (size_t j = 0; (option = config_option(c, section, j, &v)); j++)
			add_option(out, section, option, &v, false);
		if (schema_find(section))
			add_defaults(c, schema_find(section), section, out);
	}
	/* sections that stand in no file hold by default too; patterns ("stage-*") name none */
	for (size_t i = 0; i < n_tables; i++) {
		bool there = str_chr(str_from(tables[i].name), '*') >= 0;
		for (size_t j = 0; !there && (section = config_section(c, j)); j++)
			there = str_ieq(str_from(section), str_from(tables[i].name));
		if (!there)
			add_defaults(c, &tables[i], tables[i].name, out);
	}
	buf_addc(out, ']');
}
