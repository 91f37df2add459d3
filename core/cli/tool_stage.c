/* pepsi stage list and describe: what the modules on this machine are. Each is looked at in a describe child. */
#include "cli_internal.h"
#include "config/schema.h"
#include "worker/worker.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

static const char *load_name(uint32_t load)
{
	static const char *const names[] = { "metadata", "headers", "full" };
	return load < 3 ? names[load] : "?";
}

static void caps_text(uint64_t caps, struct buf *out)
{
	static const struct {
		uint64_t bit;
		const char *name;
	} names[] = {
		{ PEPSI_CAP_DELIVER, "deliver" }, { PEPSI_CAP_NET, "net" }, { PEPSI_CAP_DB, "db" },
		{ PEPSI_CAP_HELPER, "helper" }, { PEPSI_CAP_FILES, "files" }, { PEPSI_CAP_CONCURRENT, "concurrent" },
		{ PEPSI_CAP_BOUNCE, "bounce" }, { PEPSI_CAP_REWRITES, "rewrites" }, { PEPSI_CAP_SIGNS, "signs" },
	};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (caps & names[i].bit)
			buf_addf(out, "%s%s", out->n ? " " : "", names[i].name);
}

static const char *type_name(uint32_t type)
{
	static const char *const names[] = { "text", "number", "YES/NO", "duration", "size", "choice", "path", "stage",
		"list", "secret", "several" };
	return type < sizeof names / sizeof *names ? names[type] : "?";
}

/* A number as the configuration writes it: seconds and octets are numbers there, too. */
void cli_option_type(const struct pepsi_option *o, char *out, size_t size)
{
	bool ranged = o->type == PEPSI_OPT_INT || o->type == PEPSI_OPT_DURATION || o->type == PEPSI_OPT_SIZE;
	const char *unit = o->type == PEPSI_OPT_DURATION ? " s" : o->type == PEPSI_OPT_SIZE ? " octets" : "";
	if (o->type == PEPSI_OPT_CHOICE && o->choices)
		snprintf(out, size, "%s", o->choices);
	else if (ranged && (o->min || o->max))
		snprintf(out, size, "%s %" PRId64 "..%" PRId64 "%s", type_name(o->type), o->min, o->max, unit);
	else
		snprintf(out, size, "%s", type_name(o->type));
}

static void add_text(struct json_object *o, const char *key, const char *text)
{
	/* a module's text is not ours: what is not UTF-8 must not make the whole answer unreadable */
	bool good = text && str_is_utf8(str_from(text));
	json_object_object_add(o, key, good ? json_object_new_string(text) : NULL);
}

static struct json_object *to_json(const struct module_info *m)
{
	struct json_object *o = json_object_new_object(), *options = json_object_new_array();
	struct buf caps = BUF_INIT(256);
	caps_text(m->caps, &caps);
	add_text(o, "name", m->name);
	add_text(o, "path", m->path);
	add_text(o, "error", m->error);
	add_text(o, "version", m->version);
	add_text(o, "license", m->license);
	add_text(o, "summary", m->summary);
	json_object_object_add(o, "abi_major", json_object_new_int64(m->abi_major));
	json_object_object_add(o, "abi_minor", json_object_new_int64(m->abi_minor));
	add_text(o, "load", load_name(m->load_class));
	add_text(o, "caps", buf_z(&caps));
	for (size_t i = 0; i < m->n_options; i++) {
		const struct pepsi_option *p = &m->options[i];
		struct json_object *opt = json_object_new_object();
		add_text(opt, "name", p->name);
		add_text(opt, "type", type_name(p->type));
		json_object_object_add(opt, "required", json_object_new_boolean(p->flags & PEPSI_OPTF_REQUIRED));
		add_text(opt, "default", p->def);
		if (p->min || p->max) {
			json_object_object_add(opt, "min", json_object_new_int64(p->min));
			json_object_object_add(opt, "max", json_object_new_int64(p->max));
		}
		add_text(opt, "choices", p->choices);
		add_text(opt, "help", p->help);
		json_object_array_add(options, opt);
	}
	json_object_object_add(o, "options", options);
	buf_free(&caps);
	return o;
}

static void field(const char *head, const char *text)
{
	printf("%-10s", head);
	cli_text_print(stdout, str_from(text ? text : "-"));
	putchar('\n');
}

static void print_module(const struct module_info *m)
{
	struct buf caps = BUF_INIT(256);
	struct cli_table t = { .heads = { "OPTION", "TYPE", "DEFAULT", "MEANING" }, .max = { 40, 60, 40, 100 }, .n = 4 };
	char abi[32];
	caps_text(m->caps, &caps);
	snprintf(abi, sizeof abi, "%u.%u", m->abi_major, m->abi_minor);
	field("name", m->name);
	field("version", m->version);
	field("license", m->license);
	field("summary", m->summary);
	field("abi", abi);
	field("load", load_name(m->load_class));
	field("caps", caps.n ? buf_z(&caps) : "-");
	buf_free(&caps);
	for (size_t i = 0; i < m->n_options; i++) {
		const struct pepsi_option *p = &m->options[i];
		char type[200];
		cli_option_type(p, type, sizeof type);
		cli_table_cell(&t, str_from(p->name));
		cli_table_cell(&t, str_from(type));
		cli_table_cell(&t, str_from(p->def ? p->def : p->flags & PEPSI_OPTF_REQUIRED ? "(required)" : "-"));
		cli_table_cell(&t, str_from(p->help ? p->help : ""));
	}
	if (m->n_options) {
		putchar('\n');
		cli_table_print(&t, stdout);
	}
}

/* The file's name without folder and ".so": what the module must call itself. */
static void program_of(const char *path, char *out, size_t size)
{
	const char *base = strrchr(path, '/');
	struct str s = str_from(base ? base + 1 : path);
	if (str_iends(s, STR(".so")))
		s.n -= 3;
	snprintf(out, size, "%.*s", STR_ARG(s));
}

char *cli_module_path(struct cli *c, const char *module, char *program, size_t size)
{
	char *path;
	program_of(module, program, size);
	if (strchr(module, '/') || str_iends(str_from(module), STR(".so"))) {
		path = realpath(module, NULL);
		if (!path)
			cli_fail("%s: %s", module, strerror(errno));
		return path;
	}
	/* by name, as PROGRAM does it; a configuration that is not there means the defaults */
	struct config_faults *faults = config_faults_new();
	struct config *conf = faults ? cli_config_load(c, faults) : NULL;
	path = conf ? worker_module_path(conf, module) : NULL;
	if (conf && !path) {
		char *along = config_path(conf, "pepsi", "MODULE_PATH");
		cli_fail("no %s.so along MODULE_PATH %s; a file is named with its folder: ./%s.so", module, along ? along : "", module);
		free(along);
	}
	config_free(conf);
	config_faults_free(faults);
	return path;
}

int tool_stage_describe(struct cli *c)
{
	struct module_info m = { .name = NULL };
	char program[NAME_MAX + 1], *path = cli_module_path(c, c->args.pos[0], program, sizeof program);
	if (!path)
		return CLI_FAILED;
	worker_describe(program, path, NULL, NULL, &m);
	int rc = m.error ? CLI_FAILED : CLI_DONE;
	if (c->json) {
		struct json_object *o = to_json(&m);
		cli_json_print(o);
		json_object_put(o);
	} else if (m.error) {
		cli_fail("%s: %s", path, m.error);
	} else {
		print_module(&m);
	}
	module_info_free(&m);
	free(path);
	return rc;
}

/* --- list --- */

struct list {
	struct cli_table table;
	struct json_object *json;
	char **seen; /* the first folder of a name wins, as it does for PROGRAM */
	size_t n_seen;
};

enum { LIST_MAX = 1000 };

static bool seen(struct list *l, const char *program)
{
	for (size_t i = 0; i < l->n_seen; i++)
		if (!strcmp(l->seen[i], program))
			return true;
	char **more = l->n_seen < LIST_MAX ? realloc(l->seen, (l->n_seen + 1) * sizeof *more) : NULL;
	if (!more)
		return true;
	l->seen = more;
	l->seen[l->n_seen] = str_dupz(str_from(program));
	return !l->seen[l->n_seen++];
}

static void list_file(struct list *l, const char *folder, const char *file)
{
	struct module_info m = { .name = NULL };
	char path[PATH_MAX], program[NAME_MAX + 1];
	program_of(file, program, sizeof program);
	if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path || seen(l, program))
		return;
	worker_describe(program, path, NULL, NULL, &m);
	if (l->json) {
		json_object_array_add(l->json, to_json(&m));
	} else {
		cli_table_cell(&l->table, str_from(program));
		cli_table_cell(&l->table, str_from(m.version ? m.version : "-"));
		if (m.error)
			cli_table_cell(&l->table, STR("-"));
		else
			cli_table_cellf(&l->table, "%u.%u", m.abi_major, m.abi_minor);
		cli_table_cell(&l->table, str_from(m.error ? "broken" : load_name(m.load_class)));
		cli_table_cell(&l->table, str_from(m.error ? m.error : m.summary ? m.summary : ""));
	}
	module_info_free(&m);
}

static int is_module(const struct dirent *e)
{
	return e->d_name[0] != '.' && str_iends(str_from(e->d_name), STR(".so"));
}

static void list_folder(struct list *l, const char *folder)
{
	struct dirent **names = NULL;
	int n = scandir(folder, &names, is_module, alphasort);
	for (int i = 0; i < n; i++) {
		list_file(l, folder, names[i]->d_name);
		free(names[i]);
	}
	free(names);
}

/* As for PROGRAM: without MODULE_PATH, modules beside the running program come first (build tree, moved installation). */
static void list_beside(struct list *l)
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 64);
	for (unsigned up = 0; up < 2 && n > 0; up++) {
		exe[n] = 0;
		char *slash = strrchr(exe, '/');
		n = slash ? slash - exe : 0;
	}
	if (n <= 0)
		return;
	snprintf(exe + n, sizeof exe - (size_t)n, "/lib/pepsi/modules");
	list_folder(l, exe);
}

int tool_stage_list(struct cli *c)
{
	struct list l = { .table = { .heads = { "MODULE", "VERSION", "ABI", "LOAD", "SUMMARY" }, .max = { 60, 20, 0, 0, 120 }, .n = 5 } };
	struct config_faults *faults = config_faults_new();
	struct config *conf = faults ? cli_config_load(c, faults) : NULL;
	char *path = conf ? config_path(conf, "pepsi", "MODULE_PATH") : NULL;
	struct str rest = str_from(path), word;
	if (c->json)
		l.json = json_object_new_array();
	if (conf && !config_get(conf, "pepsi", "MODULE_PATH"))
		list_beside(&l);
	while (str_word(&rest, ":", &word)) {
		char *folder = str_dupz(word);
		if (folder)
			list_folder(&l, folder);
		free(folder);
	}
	int rc = conf ? CLI_DONE : CLI_FAILED;
	if (c->json)
		cli_json_print(l.json);
	else if (l.n_seen)
		cli_table_print(&l.table, stdout);
	else if (conf)
		rc = cli_fail("no modules along MODULE_PATH %s", path ? path : "");
	buf_free(&l.table.cells);
	json_object_put(l.json);
	for (size_t i = 0; i < l.n_seen; i++)
		free(l.seen[i]);
	free(l.seen);
	free(path);
	config_free(conf);
	config_faults_free(faults);
	return rc;
}
