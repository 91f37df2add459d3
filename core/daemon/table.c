/* The spawner's table: state folder, accounts, stages. Made by the configuration child out of the configuration; the
 * spawner only reads it. Says which accounts are missing. */
#include "daemon_internal.h"

#include "fetch/fetch.h"
#include "recursor/recursor.h"
#include "token/token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct table_stage *table_stage(const struct table *t, const char *name)
{
	for (size_t i = 0; i < t->n_stages; i++)
		if (strcmp(t->stages[i].name, name) == 0)
			return &t->stages[i];
	return NULL;
}

/* An account named in the configuration must exist. Without one: the built-in name, else (with a default) that account,
 * else nobody. */
static int choose(struct account *ret, const struct config *c, const char *section, const char *option, const char *built_in,
    const struct account *other, struct config_faults *faults)
{
	const struct config_value *v = config_get(c, section, option);
	const char *names[] = { v ? v->value : built_in, v || other ? NULL : "nobody" };
	if (geteuid() != 0)
		return account_current(ret);
	if (account_find(ret, names, 2) == 0)
		return 0;
	if (v) {
		config_fault_add(faults, v->file, v->line, false, "[%s] %s: there is no account %s", section, option, v->value);
		return -1;
	}
	if (!other) {
		config_fault_add(faults, "", 0, false, "neither of the accounts %s and nobody exists", built_in);
		return -1;
	}
	*ret = *other;
	return 0;
}

static bool has_word(const char *list, const char *word)
{
	struct str rest = str_from(list), w;
	while (str_word(&rest, " \t,", &w))
		if (str_ieq(w, str_from(word)))
			return true;
	return false;
}

/* Policies are fetched where a stage delivers to strangers, or an operator says so. */
static bool wants_fetch(const struct config *c)
{
	const char *section, *word = config_str(c, "pepsi-mta-sts", "FETCH");
	if (word && strcmp(word, "auto") != 0)
		return strcmp(word, "yes") == 0;
	for (size_t i = 0; (section = config_section(c, i)); i++) {
		const char *program = strncasecmp(section, "stage-", 6) ? NULL : config_str(c, section, "PROGRAM");
		if (program && strcmp(program, "pepsi-stage-relay-to-internet") == 0)
			return true;
	}
	return false;
}

int table_make(struct table *t, const struct config *c, struct config_faults *faults)
{
	const char *section, *pg = config_str(c, "pepsi-postgres", "CONFIG");
	int bad = 0;

	memset(t, 0, sizeof *t);
	char *dir = config_path(c, "pepsi", "STATE_DIR");
	if (!dir || !*dir || strlen(dir) >= sizeof t->state_dir) {
		config_fault_add(faults, "", 0, false, "[pepsi] STATE_DIR: no usable path");
		bad = -1;
	} else {
		snprintf(t->state_dir, sizeof t->state_dir, "%s", dir);
	}
	free(dir);
	t->embedded = !pg || !*pg;
	t->drop = config_int(c, "pepsi-sendmail", "DROP");
	bad |= choose(&t->cluster, c, "pepsi", "USER", "pepsi", NULL, faults);
	bad |= choose(&t->reactor, c, "pepsi", "REACTOR_USER", "pepsi-reactor", &t->cluster, faults);
	bad |= choose(&t->signin, c, "pepsi-signin", "USER", "pepsi-config", &t->cluster, faults);
	t->pam = has_word(config_str(c, "pepsi-signin", "BACKENDS"), "pam");
	if (t->pam)
		bad |= choose(&t->pam_account, c, "pepsi-signin", "PAM_USER", "root", &t->cluster, faults);
	const char *backend = config_str(c, "pepsi-dns", "BACKEND");
	t->resolves = backend && strcmp(backend, "libunbound") == 0;
	if (t->resolves && recursor_missing()) {
		config_fault_add(faults, "", 0, false, "[pepsi-dns] BACKEND = libunbound: %s", recursor_missing());
		bad = -1;
	}
	if (t->resolves)
		bad |= choose(&t->recursor, c, "pepsi-dns", "USER", "pepsi-dns", NULL, faults);
	t->fetches = wants_fetch(c);
	if (t->fetches && fetch_missing()) {
		bool asked = config_get(c, "pepsi-mta-sts", "FETCH"); /* else mail goes without policies of MTA-STS */
		config_fault_add(faults, "", 0, !asked, "[pepsi-mta-sts] FETCH: %s", fetch_missing());
		bad |= asked ? -1 : 0;
		t->fetches = false;
	}
	if (t->fetches)
		bad |= choose(&t->fetch, c, "pepsi-mta-sts", "USER", "pepsi-fetch", NULL, faults);
	t->tokens = token_name(c, 0) != NULL;
	char helper[PATH_MAX];
	if (t->tokens && token_helper_path(helper, sizeof helper)) {
		config_fault_add(faults, "", 0, false, "[token-%s]: pepsi-helper-token-refresh is not there (it needs libcurl when it is built)", token_name(c, 0));
		bad = -1;
	}
	if (t->tokens)
		bad |= choose(&t->token, c, "pepsi-token", "USER", "pepsi-token", &t->cluster, faults);
	t->max_connections = 20;
	for (size_t i = 0; (section = config_section(c, i)); i++) {
		if (strncasecmp(section, "stage-", 6) || !section[6])
			continue;
		struct table_stage *st = &t->stages[t->n_stages];
		if (t->n_stages == TABLE_STAGES_MAX || strlen(section + 6) >= sizeof st->name) {
			config_fault_add(faults, "", 0, false, "[%s]: more than %d stages, or a name of more than %zu octets", section,
			    TABLE_STAGES_MAX, sizeof st->name - 1);
			return -1;
		}
		snprintf(st->name, sizeof st->name, "%s", section + 6);
		bad |= choose(&st->account, c, section, "USER", NULL, &t->cluster, faults);
		const struct config_value *g = config_get(c, section, "GROUPS");
		char err[128];
		if (g && geteuid() == 0 && account_add_groups(&st->account, g->value, err, sizeof err)) {
			config_fault_add(faults, g->file, g->line, false, "[%s] GROUPS: %s", section, err);
			bad = -1;
		}
		struct account *a = &st->account;
		if (t->tokens && config_get(c, section, "AUTH_TOKEN") && geteuid() == 0 && a->n_groups < (int)(sizeof a->groups / sizeof *a->groups))
			a->groups[a->n_groups++] = t->token.gid; /* who may read the access tokens */
		/* queue and module connection of each worker */
		t->max_connections += 2 * (unsigned)config_int(c, section, "PARALLELISM") + 2; /* two beside them: dispatch/many.c */
		t->n_stages++;
	}
	if (t->max_connections < 100)
		t->max_connections = 100;
	return bad ? -1 : 0;
}
