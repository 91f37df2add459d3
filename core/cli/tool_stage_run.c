/* pepsi stage run: messages through one module, without daemon and database. The module runs in a child with a deadline
 * (worker/trial.h); here its configuration is put together, the messages are read, and the trial is begun. What came of it:
 * stage_result.c. */
#include "base/clock.h"
#include "cli_internal.h"
#include "config/schema.h"
#include "proto/mail/split.h"
#include "stage_outcome.h"
#include "stage_result.h"
#include "worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE_MAX = 128 * 1024 * 1024, RUNTIME_S = 60, RCPTS_MAX = 1000, MESSAGES_MAX = 10000 };

/* The stage a module runs as when no configuration says another name. */
#define STAGE_NAME "run"

/* --- the configuration */

/* --set NAME=VALUE or SECTION.NAME=VALUE. */
static int set_option(struct cli *c, struct config *conf, const char *section, const char *text)
{
	struct str s = str_from(text), name;
	ptrdiff_t eq = str_chr(s, '=');
	char sec[160], opt[160];
	if (eq <= 0)
		return cli_usage(c, "--set: \"%s\" is not NAME=VALUE", text);
	name = str_trim(str_n(s.p, (size_t)eq));
	ptrdiff_t dot = str_chr(name, '.');
	if (dot > 0)
		section = NULL;
	snprintf(sec, sizeof sec, "%.*s", dot > 0 ? (int)dot : 0, name.p);
	name = dot > 0 ? str_skip(name, (size_t)dot + 1) : name;
	snprintf(opt, sizeof opt, "%.*s", STR_ARG(name));
	char *value = str_dupz(str_trim(str_skip(s, (size_t)eq + 1)));
	int rc = value ? config_set(conf, section ? section : sec, opt, value) : -1;
	free(value);
	return rc ? cli_fail("--set: \"%s\" could not stand in a configuration file", text) : CLI_DONE;
}

/* Every option of the section is either the module's or one of every stage. */
static int check_names(const struct config *conf, const char *section, const struct module_info *m)
{
	struct config_value v;
	const char *option;
	int rc = CLI_DONE;
	for (size_t i = 0; (option = config_option(conf, section, i, &v)); i++) {
		const char *names[200];
		size_t n = 0;
		bool known = schema_option(section, option) != NULL;
		for (size_t k = 0; k < m->n_options && !known; k++) {
			known = schema_covers(&m->options[k], option);
			if (n < sizeof names / sizeof *names)
				names[n++] = m->options[k].name;
		}
		if (known)
			continue;
		const char *near = str_nearest(str_from(option), names, n);
		rc = near ? cli_fail("%s has no option %s (did you mean %s?)", m->name, option, near) :
			    cli_fail("%s has no option %s", m->name, option);
	}
	return rc;
}

static int stage_there(struct config *conf, const char *name)
{
	char section[160];
	if (!name || !name[0] || snprintf(section, sizeof section, "stage-%s", name) >= (int)sizeof section)
		return 0;
	return config_get(conf, section, "PROGRAM") ? 0 : config_set(conf, section, "PROGRAM", "pepsi-stage-unknown");
}

/* Without a configuration every stage that an option names exists, and there is a next and a bounce stage. */
static int make_up(struct config *conf, const char *section, const struct module_info *m)
{
	static const char *const general[][2] = { { "NEXT_STAGE", "next" }, { "BOUNCE_STAGE", "bounce" } };
	int rc = config_set(conf, section, "PROGRAM", m->name);
	for (unsigned i = 0; i < 2 && !rc; i++) {
		const struct config_value *v = config_get(conf, section, general[i][0]);
		if (!v)
			rc = config_set(conf, section, general[i][0], general[i][1]);
		if (!rc)
			rc = stage_there(conf, config_str(conf, section, general[i][0]));
	}
	for (size_t i = 0; i < m->n_options && !rc; i++) {
		const struct pepsi_option *o = &m->options[i];
		const struct config_value *v = o->type == PEPSI_OPT_STAGE ? config_get(conf, section, o->name) : NULL;
		if (o->type == PEPSI_OPT_STAGE && (v || o->def)) {
			char *name = str_dupz(str_from(v ? v->value : o->def));
			if (name)
				schema_value_fold(o, name);
			rc = name ? stage_there(conf, name) : -1;
			free(name);
		}
	}
	return rc ? cli_fail("out of memory") : CLI_DONE;
}

/* NULL after a message; *ret_rc is the exit status then. */
static struct config *configure(struct cli *c, const char *section, const struct module_info *m, int *ret_rc)
{
	bool given = c->args.set & CLI_BIT(CLI_CONFIG);
	struct config_faults *faults = config_faults_new();
	struct config *conf = NULL;
	int rc = CLI_DONE;
	*ret_rc = CLI_FAILED;
	if (given)
		conf = cli_config_need(c);
	else if (!faults || !(conf = config_load("/dev/null", faults)))
		cli_fail("out of memory");
	config_faults_free(faults);
	for (size_t i = 0; conf && rc == CLI_DONE && i < c->args.n_each; i++)
		if (c->args.each[i].opt == CLI_SET)
			rc = set_option(c, conf, section, c->args.each[i].value);
	if (conf && rc == CLI_DONE && !given)
		rc = make_up(conf, section, m);
	if (conf && rc == CLI_DONE)
		rc = check_names(conf, section, m);
	if (rc != CLI_DONE) {
		*ret_rc = rc;
		config_free(conf);
		conf = NULL;
	}
	return conf;
}

/* --- the message */

/* Reads it and makes every line end CRLF: files are mostly written with LF. */
static int read_message(const char *file, struct buf *raw)
{
	bool in = !strcmp(file, "-");
	int fd = in ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
	char block[65536];
	ssize_t n = 0;
	char before = 0;
	if (fd < 0)
		return cli_fail("%s: %s", file, strerror(errno));
	while (!raw->failed && ((n = read(fd, block, sizeof block)) > 0 || (n < 0 && errno == EINTR)))
		for (ssize_t i = 0; i < n; i++) {
			if (block[i] == '\n' && before != '\r')
				buf_addc(raw, '\r');
			buf_addc(raw, block[i]);
			before = block[i];
		}
	int err = n < 0 ? errno : 0;
	if (!in)
		close(fd);
	if (err)
		return cli_fail("%s: %s", file, strerror(err));
	return raw->failed ? cli_fail("%s: larger than %d MiB, or out of memory", file, MESSAGE_MAX >> 20) : CLI_DONE;
}

/* What all messages have in common. */
static int make_envelope(struct cli *c, struct str *rcpts, struct wire_item *it)
{
	const char *from = c->args.value[CLI_FROM], *state = c->args.value[CLI_STATE], *wrong;
	*it = (struct wire_item){ .has_content = true, .received_at = clock_wall_us(), .rcpts = rcpts,
		.mail_from = str_from(from ? from : "sender@example.test"), .state = str_from(state ? state : "{}") };
	for (size_t i = 0; i < c->args.n_each; i++) {
		if (c->args.each[i].opt != CLI_TO)
			continue;
		if (it->n_rcpts == RCPTS_MAX)
			return cli_usage(c, "more than %d recipients", RCPTS_MAX);
		rcpts[it->n_rcpts++] = str_from(c->args.each[i].value);
	}
	if (!it->n_rcpts)
		rcpts[it->n_rcpts++] = STR("recipient@example.test");
	for (size_t i = 0; i <= it->n_rcpts; i++) {
		struct str *s = i ? &rcpts[i - 1] : &it->mail_from;
		if (s->n >= 2 && s->p[0] == '<' && s->p[s->n - 1] == '>')
			*s = str_n(s->p + 1, s->n - 2);
		if ((wrong = pass_address_wrong(*s, i == 0)))
			return cli_usage(c, "%s: the address %s", i ? "--to" : "--from", wrong);
	}
	struct json_object *o = json_tokener_parse(state ? state : "{}");
	bool object = json_object_is_type(o, json_type_object);
	json_object_put(o);
	return object ? CLI_DONE : cli_usage(c, "--state: here it is the state of the message, a JSON object such as '{\"dsn\":{}}'");
}

static int make_item(const char *file, struct buf *raw, const struct wire_item *envelope, struct wire_item *it)
{
	struct mail_split part;
	const char *wrong;
	int rc = read_message(file, raw);
	if (rc != CLI_DONE)
		return rc;
	mail_split(buf_str(raw), &part);
	if (part.unterminated) {
		buf_addz(raw, "\r\n");
		mail_split(buf_str(raw), &part);
	}
	if (pass_headers_wrong(part.headers, &wrong) || pass_body_wrong(part.body, &wrong))
		return cli_fail("%s: the message holds %s, which no listener lets in", file, wrong);
	*it = *envelope;
	it->headers = part.headers;
	it->body = part.body;
	it->body_size = part.body.n;
	return CLI_DONE;
}

/* The messages in the order of the command line, that as often as --repeat says. */
static int make_items(struct cli *c, struct stage_messages *m)
{
	static struct str rcpts[RCPTS_MAX];
	struct wire_item envelope;
	const char *repeat = c->args.value[CLI_REPEAT];
	int64_t times = repeat ? cli_number(c, "--repeat", repeat, 1, MESSAGES_MAX) : 1;
	int rc = times < 0 ? CLI_USAGE : make_envelope(c, rcpts, &envelope);
	if (rc != CLI_DONE)
		return rc;
	size_t n_stdin = 0;
	for (size_t i = 0; i < c->args.n_each; i++) {
		m->n_files += c->args.each[i].opt == CLI_MESSAGE;
		n_stdin += c->args.each[i].opt == CLI_MESSAGE && !strcmp(c->args.each[i].value, "-");
	}
	if (n_stdin > 1)
		return cli_usage(c, "--message -: standard input can be read once");
	if ((int64_t)m->n_files * times > MESSAGES_MAX)
		return cli_usage(c, "more than %d messages", MESSAGES_MAX);
	m->n = m->n_files * (size_t)times;
	m->files = calloc(m->n_files, sizeof *m->files);
	m->raw = calloc(m->n_files, sizeof *m->raw);
	m->items = calloc(m->n, sizeof *m->items);
	if (!m->files || !m->raw || !m->items)
		return cli_fail("out of memory");
	for (size_t i = 0, k = 0; i < c->args.n_each && rc == CLI_DONE; i++) {
		if (c->args.each[i].opt != CLI_MESSAGE)
			continue;
		m->files[k] = c->args.each[i].value;
		m->raw[k] = BUF_INIT(MESSAGE_MAX);
		rc = make_item(m->files[k], &m->raw[k], &envelope, &m->items[k]);
		k++;
	}
	for (size_t i = 0; i < m->n && rc == CLI_DONE; i++) {
		m->items[i] = m->items[i % m->n_files];
		m->items[i].id = (int64_t)i + 1;
	}
	return rc;
}

static void free_items(struct stage_messages *m)
{
	for (size_t i = 0; i < m->n_files && m->raw; i++)
		buf_free(&m->raw[i]);
	free(m->raw);
	free(m->files);
	free(m->items);
}

static int run(struct cli *c, const struct config *conf, const char *path, const char *stage, const struct module_info *info,
    struct stage_messages *m)
{
	struct trial t = { .path = path, .c = conf, .stage = stage, .any_stage = !(c->args.set & CLI_BIT(CLI_CONFIG)),
		.fused = c->args.set & CLI_BIT(CLI_FUSED), .report = stage_outcome_report, .arg = &t };
	struct trial_result r;
	char section[160];
	snprintf(section, sizeof section, "stage-%s", stage);
	const struct config_value *v = config_get(conf, section, "MAX_RUNTIME");
	t.runtime_ms = (v ? config_int(conf, section, "MAX_RUNTIME") : RUNTIME_S) * 1000;
	int rc = make_items(c, m);
	if (rc != CLI_DONE)
		return rc;
	t.items = m->items;
	t.n_items = m->n;
	fflush(stdout);
	trial_run(&t, &r);
	rc = stage_result_print(c, info, &t, m, &r);
	trial_result_free(&r);
	return rc;
}

int tool_stage_run(struct cli *c)
{
	struct module_info info = { .name = NULL };
	struct stage_messages m = { .n = 0 };
	char program[256], section[160];
	const char *stage = c->args.value[CLI_STAGE] ? c->args.value[CLI_STAGE] : STAGE_NAME;
	if (!c->args.value[CLI_MESSAGE])
		return cli_usage(c, "which message? --message FILE, or --message - for standard input");
	if (snprintf(section, sizeof section, "stage-%s", stage) >= (int)sizeof section || !stage[0])
		return cli_usage(c, "--stage: \"%s\" cannot be a stage's name", stage);
	char *path = cli_module_path(c, c->args.pos[0], program, sizeof program);
	if (!path)
		return CLI_FAILED;
	int rc = CLI_FAILED;
	worker_describe(program, path, NULL, NULL, &info);
	if (info.error) {
		cli_fail("%s: %s", path, info.error);
	} else {
		const char *state = c->args.value[CLI_STATE]; /* the message's here, not the daemon's folder */
		c->args.value[CLI_STATE] = NULL;
		struct config *conf = configure(c, section, &info, &rc);
		c->args.value[CLI_STATE] = state;
		if (conf)
			rc = run(c, conf, path, stage, &info, &m);
		config_free(conf);
	}
	free_items(&m);
	module_info_free(&info);
	free(path);
	return rc;
}
