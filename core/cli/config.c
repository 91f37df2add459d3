/* Finding and loading the configuration for a tool. */
#include "cli_internal.h"

#include "config/locate.h"

#include <stdlib.h>

const char *cli_config_file(const struct cli *c)
{
	const char *env = getenv("PEPSI_CONFIG");
	if (c->args.value[CLI_CONFIG])
		return c->args.value[CLI_CONFIG];
	return env && env[0] ? env : CLI_CONFIG_DEFAULT;
}

struct config *cli_config_load(const struct cli *c, struct config_faults *faults)
{
	const char *state = c->args.value[CLI_STATE];
	char noted[4096];
	struct config *conf = config_load(cli_config_file(c), faults);
	if (!conf) {
		cli_fail("out of memory");
		return NULL;
	}
	config_load_secrets(conf, faults);
	/* without --state: where the pepsid that runs with this file says it is, else what the file says */
	if (!state && config_locate_find(cli_config_file(c), noted, sizeof noted) == 0)
		state = noted;
	if (state && config_set(conf, "pepsi", "STATE_DIR", state)) {
		cli_fail("--state: \"%s\" cannot be a folder's name", state);
		config_free(conf);
		return NULL;
	}
	return conf;
}

void cli_faults_print(const struct config_faults *faults, FILE *f)
{
	struct buf line = BUF_INIT(64 * 1024);
	for (size_t i = 0; i < config_faults_n(faults, true); i++) {
		config_fault_print(config_faults_at(faults, i), &line);
		cli_text_print(f, str_trim(buf_str(&line)));
		putc('\n', f);
		buf_reset(&line);
	}
	buf_free(&line);
}

struct config *cli_config_need(const struct cli *c)
{
	struct config_faults *faults = config_faults_new();
	struct config *conf = faults ? cli_config_load(c, faults) : NULL;
	if (conf && config_faults_n(faults, false)) {
		cli_faults_print(faults, stderr);
		config_free(conf);
		conf = NULL;
	}
	config_faults_free(faults);
	return conf;
}
