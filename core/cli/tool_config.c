/* pepsi config: check and show, from the file, without a daemon or a database. Modules are asked through describe
 * children, so nothing a module does can harm this process. */
#include "cli_internal.h"
#include "config/schema.h"
#include "worker/worker.h"

#include <stdlib.h>

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
