/* pepsi config: check and show, from the file; set and unset, which lay values over it in the database, through the admin child of the
 * running pepsid. Modules are asked through describe children, so nothing a module does can harm this process. */
#include "account_client.h"
#include "config/overlay.h"
#include "ingress/settings.h"
#include "worker/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { MODULES_MAX = 256 };

struct modules {
	const struct config *conf;
	size_t n;
	struct {
		char *program, *path;
		struct module_info info;
	} known[MODULES_MAX];
};

/* schema_module_fn: each program is described once. */
static const struct module_info *describe(void *arg, const char *program)
{
	struct modules *m = arg;
	for (size_t i = 0; i < m->n; i++)
		if (!strcmp(m->known[i].program, program))
			return &m->known[i].info;
	char *name = m->n < MODULES_MAX ? str_dupz(str_from(program)) : NULL;
	if (!name)
		return NULL;
	/* NULL: not there; describing says so */
	char *path = worker_module_path(m->conf, program);
	worker_describe(program, path, NULL, NULL, &m->known[m->n].info);
	m->known[m->n].program = name;
	m->known[m->n].path = path;
	return &m->known[m->n++].info;
}

static void modules_free(struct modules *m)
{
	for (size_t i = 0; i < m->n; i++) {
		free(m->known[i].program);
		free(m->known[i].path);
		module_info_free(&m->known[i].info);
	}
	free(m);
}

static struct modules *modules_new(const struct config *conf)
{
	struct modules *m = calloc(1, sizeof *m);
	if (m)
		m->conf = conf;
	return m;
}

/* What the modules themselves say about their sections. */
static void validate(struct modules *m, struct config_faults *faults)
{
	const char *section;
	for (size_t i = 0; (section = config_section(m->conf, i)); i++) {
		const struct config_value *program = config_get(m->conf, section, "PROGRAM");
		if (!program || !str_istarts(str_from(section), STR("stage-")))
			continue;
		const struct module_info *info = describe(m, program->value);
		if (!info || info->error)
			continue; /* schema_check() said so */
		for (size_t j = 0; j < m->n; j++)
			if (&m->known[j].info == info)
				worker_validate(m->conf, section + sizeof "stage-" - 1, m->known[j].path, NULL, NULL, faults);
	}
}

struct unreadable {
	char path[512];
};

static void look(void *arg, const char *path)
{
	struct unreadable *u = arg;
	if (!u->path[0] && access(path, R_OK) && errno == EACCES)
		snprintf(u->path, sizeof u->path, "%s", path);
}

/* The files of TLS, as pepsid will read them at its start: as root. A key that this account may not read is no mistake. */
static void certificates(const struct config *conf, struct config_faults *faults)
{
	const struct ingress_supply files = ingress_supply_direct(NULL);
	const char *section;
	for (size_t i = 0; (section = config_section(conf, i)); i++) {
		struct unreadable u = { "" };
		if (!ingress_is_listener(section))
			continue;
		ingress_files(conf, section, look, &u);
		const struct config_value *at = config_get(conf, section, "TLS_KEY");
		if (u.path[0])
			config_fault_add(faults, at ? at->file : "", at ? at->line : 0, true,
			    "[%s]: %s cannot be read by this account, so the certificates are not checked", section, u.path);
		else
			terms_check_tls(conf, section, &files, faults);
	}
}

static void print_json(const struct config_faults *faults)
{
	struct json_object *list = json_object_new_array();
	for (size_t i = 0; i < config_faults_n(faults, true); i++) {
		const struct config_fault *f = config_faults_at(faults, i);
		struct json_object *o = json_object_new_object();
		json_object_object_add(o, "file", json_object_new_string(f->file ? f->file : ""));
		json_object_object_add(o, "line", json_object_new_int64(f->line));
		json_object_object_add(o, "severity", json_object_new_string(f->warning ? "warning" : "error"));
		json_object_object_add(o, "text", json_object_new_string(f->text));
		json_object_array_add(list, o);
	}
	cli_json_print(list);
	json_object_put(list);
}

int tool_config_check(struct cli *c)
{
	struct config_faults *faults = config_faults_new();
	struct config *conf = faults ? cli_config_load(c, faults) : NULL;
	struct modules *m = conf ? modules_new(conf) : NULL;
	int rc = CLI_FAILED;
	if (m) {
		schema_check(conf, describe, m, faults);
		validate(m, faults);
		certificates(conf, faults);
		size_t errors = config_faults_n(faults, false), all = config_faults_n(faults, true);
		if (c->json) {
			print_json(faults);
		} else {
			cli_faults_print(faults, stdout);
			printf("%zu error%s, %zu warning%s\n", errors, errors == 1 ? "" : "s", all - errors,
			    all - errors == 1 ? "" : "s");
		}
		rc = errors ? CLI_FAILED : CLI_DONE;
		modules_free(m);
	}
	config_free(conf);
	config_faults_free(faults);
	return rc;
}

/* --- what is laid over the file */

static const struct module_info *module_of(struct modules *m, const char *section)
{
	const struct config_value *program = config_get(m->conf, section, "PROGRAM");
	const struct module_info *info = program ? describe(m, program->value) : NULL;
	return info && !info->error ? info : NULL;
}

static int fetch(struct account_client *a, struct config_overlay *ret)
{
	struct wire_account_answer an = { .more = true };
	char section[WIRE_OVERLAY_NAME_MAX + 1] = "", option[WIRE_OVERLAY_NAME_MAX + 1] = "";
	while (an.more) {
		struct wire_account_request r = { .op = WIRE_OVERLAY_LIST, .section = str_from(section), .option = str_from(option) };
		struct wire_overlay_row row;
		size_t n = 0;
		int got;
		if (cli_account_ask(a, &r, &an))
			return CLI_FAILED;
		char last_section[sizeof section] = "", last_option[sizeof option] = "";
		for (; (got = wire_overlay_row_get(&an.rows, &row)) == 1; n++) {
			if (config_overlay_add(ret, row.section, row.option, row.value))
				return cli_fail("out of memory");
			snprintf(last_section, sizeof last_section, "%.*s", STR_ARG(row.section));
			snprintf(last_option, sizeof last_option, "%.*s", STR_ARG(row.option));
		}
		if (got < 0 || (an.more && !n))
			return cli_fail("pepsid at %s gave an answer that cannot be read", a->path);
		memcpy(section, last_section, sizeof section);
		memcpy(option, last_option, sizeof option);
	}
	return CLI_DONE;
}

static void refused(void *arg, const struct config_overlay_row *row, const char *why)
{
	(void)arg;
	fputs("pepsi: not in force: [", stderr);
	cli_text_print(stderr, str_from(row->section));
	fputs("] ", stderr);
	cli_text_print(stderr, str_from(row->option));
	fputs(": ", stderr);
	cli_text_print(stderr, str_from(why));
	fputc('\n', stderr);
}

/* As the workers will. */
static void lay(struct config *conf, struct modules *m, const struct config_overlay *o)
{
	const char *section;
	for (size_t i = 0; (section = config_section(conf, i)); i++)
		if (str_istarts(str_from(section), STR("stage-")))
			config_overlay_lay(conf, o, module_of(m, section), section, refused, NULL);
	for (size_t i = 0; i < o->n; i++) {
		size_t j = 0;
		while ((section = config_section(conf, j)) && !str_ieq(str_from(section), str_from(o->rows[i].section)))
			j++;
		if (!section)
			refused(NULL, &o->rows[i], "there is no such section in the configuration");
	}
}

/* "stage-x" of "x" or "stage-x", "KEY" of "key". */
static int names(const char *stage, const char *option, char *section, char *upper)
{
	const char *prefix = str_istarts(str_from(stage), STR("stage-")) ? "" : "stage-";
	if (strlen(stage) + strlen(prefix) > WIRE_OVERLAY_NAME_MAX || strlen(option) > WIRE_OVERLAY_NAME_MAX)
		return cli_fail("a name is too long");
	snprintf(section, WIRE_OVERLAY_NAME_MAX + 1, "%s%s", prefix, stage);
	snprintf(upper, WIRE_OVERLAY_NAME_MAX + 1, "%s", option);
	ascii_lower_z(section);
	for (char *z = upper; *z; z++)
		*z = *z >= 'a' && *z <= 'z' ? (char)(*z - 32) : *z;
	return CLI_DONE;
}

/* With the value laid over it the configuration must be as good as without: its tables, the stages' ways, the module's own check. */
static int try_out(struct config *conf, struct modules *m, const char *section, const char *option, const char *value)
{
	struct buf why = BUF_INIT(4096);
	struct config_faults *faults = config_faults_new();
	struct config_overlay one = { .n = 0 };
	int rc = CLI_FAILED;
	if (!faults || config_overlay_add(&one, str_from(section), str_from(option), str_from(value))) {
		cli_fail("out of memory");
	} else if (config_overlay_check(conf, module_of(m, section), section, option, value, NULL, &why)) {
		cli_fail("[%s] %s: %s", section, option, buf_z(&why));
	} else {
		config_overlay_lay(conf, &one, module_of(m, section), section, refused, NULL);
		schema_check(conf, describe, m, faults);
		validate(m, faults);
		rc = config_faults_n(faults, false) ? cli_fail("not set: with it the configuration would have these faults") : CLI_DONE;
		if (rc)
			cli_faults_print(faults, stderr);
	}
	config_overlay_free(&one);
	config_faults_free(faults);
	buf_free(&why);
	return rc;
}

static int change(struct cli *c, enum wire_account_op op)
{
	char section[WIRE_OVERLAY_NAME_MAX + 1], option[WIRE_OVERLAY_NAME_MAX + 1];
	const char *value = op == WIRE_OVERLAY_SET ? c->args.pos[2] : "";
	if (names(c->args.pos[0], c->args.pos[1], section, option))
		return CLI_FAILED;
	if (strlen(value) > WIRE_OVERLAY_VALUE_MAX)
		return cli_fail("the value is longer than %d octets", WIRE_OVERLAY_VALUE_MAX);
	struct config *conf = cli_config_need(c);
	struct modules *m = conf ? modules_new(conf) : NULL;
	struct account_client *a = m ? cli_account_client(c) : NULL;
	struct config_overlay o = { .n = 0 };
	struct wire_account_answer an;
	int rc = a ? cli_account_connect(a) : CLI_FAILED;
	if (!rc && op == WIRE_OVERLAY_SET && !(rc = fetch(a, &o))) {
		lay(conf, m, &o);
		rc = try_out(conf, m, section, option, value);
	}
	if (!rc) {
		struct wire_account_request r = { .op = op, .section = str_from(section), .option = str_from(option), .value = str_from(value) };
		rc = cli_account_ask(a, &r, &an);
	}
	if (!rc && c->json)
		puts("{\"ok\":true}");
	config_overlay_free(&o);
	if (m)
		modules_free(m);
	config_free(conf);
	return a ? cli_account_done(a, rc) : rc;
}

int tool_config_set(struct cli *c)
{
	return change(c, WIRE_OVERLAY_SET);
}

int tool_config_unset(struct cli *c)
{
	return change(c, WIRE_OVERLAY_UNSET);
}

/* What is laid over it, where a running pepsid can be asked; says when not. */
static void show_overlay(struct cli *c, struct config *conf, struct modules *m)
{
	struct account_client *a = cli_account_client(c);
	struct config_overlay o = { .n = 0 };
	const char *why = a ? cli_account_try(a) : "out of memory";
	if (!why && !fetch(a, &o))
		lay(conf, m, &o);
	else if (why && strcmp(why, "pepsid is not running"))
		fprintf(stderr, "pepsi: without what pepsi config set has laid over it: %s\n", why);
	config_overlay_free(&o);
	if (a)
		cli_account_done(a, 0);
}

int tool_config_show(struct cli *c)
{
	if (c->args.set & CLI_BIT(CLI_RUNNING)) {
		struct json_object *o = cli_ask(c, "config.show", NULL, CLI_ANSWER_MS, false);
		if (!o)
			return CLI_FAILED;
		cli_json_print(o);
		json_object_put(o);
		return CLI_DONE;
	}
	struct config *conf = cli_config_need(c);
	struct modules *m = conf ? modules_new(conf) : NULL;
	struct buf out = BUF_INIT(64 * 1024 * 1024);
	int rc = CLI_FAILED;
	if (m)
		show_overlay(c, conf, m);
	if (m && config_show(conf, describe, m, c->json, &out)) {
		rc = cli_fail("out of memory");
	} else if (m) {
		rc = CLI_DONE;
		struct str rest = buf_str(&out);
		/* line by line: an option's value may hold what a terminal obeys */
		while (rest.n) {
			ptrdiff_t end = str_chr(rest, '\n');
			struct str line = end < 0 ? rest : str_n(rest.p, (size_t)end);
			if (c->json)
				fwrite(line.p, 1, line.n, stdout);
			else
				cli_text_print(stdout, line);
			putchar('\n');
			rest = end < 0 ? STR_NULL : str_skip(rest, (size_t)end + 1);
		}
	}
	buf_free(&out);
	if (m)
		modules_free(m);
	config_free(conf);
	return rc;
}

int tool_worker(struct cli *c)
{
	struct config *conf = cli_config_need(c);
	if (!conf)
		return CLI_FAILED;
	int rc = worker_main(conf, c->args.pos[0], -1);
	config_free(conf);
	return rc ? CLI_FAILED : CLI_DONE;
}
