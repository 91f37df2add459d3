/* See terms.h. */
#include "terms.h"
#include "say.h"
#include "proto/smtp/address.h"

#include <stdio.h>
#include <stdlib.h>

const struct pepsi_option terms_options[TERMS_OPTIONS] = {
	{ "KEY_DIR", PEPSI_OPT_PATH, PEPSI_OPTF_REQUIRED, NULL, 0, 0, NULL,
	    "folder of the keys, as pepsi-keys dkim makes it: DOMAIN/SELECTOR.pem, readable by the stage's account alone; the one of pepsi-stage-dkim-sign will do" },
	{ "DOMAIN", PEPSI_OPT_STRING, PEPSI_OPTF_FILE_ONLY, NULL, 0, 0, NULL, "who seals (d=). Default: HOSTNAME of [pepsi], or the nearest domain above it that has keys" },
	{ "ALGORITHM", PEPSI_OPT_CHOICE, 0, "rsa", 0, 0, "rsa ed25519",
	    "which key of the domain seals, where it has both: a set has one signature, and not every verifier knows Ed25519" },
	{ "SEAL_FOR", PEPSI_OPT_LIST, 0, "*", 0, 0, NULL, "recipients whose mail is sealed: local@domain, local@*, domain, *.domain, *" },
	{ "NOT_FOR", PEPSI_OPT_LIST, 0, NULL, 0, 0, NULL, "recipients out of these whose mail is not" },
	{ "HEADERS", PEPSI_OPT_LIST, 0, NULL, 0, 0, NULL, "fields that the message signature covers, where they are there, instead of the usual ones" },
	{ "OVERSIGN", PEPSI_OPT_LIST, 0, NULL, 0, 0, NULL, "fields that nobody may add later, instead of the usual ones" },
};

static int fold_domain(const char *text, char out[TERMS_DOMAIN_MAX + 1])
{
	struct buf ascii = BUF_INIT(300);
	int rc = smtp_domain_to_ascii(str_from(text), &ascii) || smtp_domain_check(buf_str(&ascii), false) || ascii.n > TERMS_DOMAIN_MAX ? -1 : 0;
	if (!rc)
		snprintf(out, TERMS_DOMAIN_MAX + 1, "%s", buf_z(&ascii));
	buf_free(&ascii);
	return rc;
}

static void check_names(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report, const char *option)
{
	const char *text = host->conf_str(conf, option);
	struct str rest = str_from(text ? text : ""), word;
	size_t n = 0;
	while (str_word(&rest, " \t,:", &word)) {
		if (!arc_name_ok(word))
			fault(host, report, option, "\"%.*s\" is no field to cover: no name, or one that servers on the way write or change", STR_ARG(word));
		if (++n == ARC_SEAL_NAMES_MAX)
			fault(host, report, option, "more than %d names", ARC_SEAL_NAMES_MAX - 1);
	}
}

static void check_patterns(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report, const char *option)
{
	const char *text = host->conf_str(conf, option);
	struct str rest = str_from(text ? text : ""), word;
	struct pattern p;
	size_t n = 0;
	while (str_word(&rest, " \t,", &word)) {
		if (pattern_parse(word, &p))
			fault(host, report, option, "\"%.*s\" is no pattern of addresses", STR_ARG(word));
		if (++n == TERMS_PATTERNS_MAX + 1)
			fault(host, report, option, "more than %d patterns", TERMS_PATTERNS_MAX);
	}
}

void terms_check(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report)
{
	const char *domain = host->conf_str(conf, "DOMAIN");
	char folded[TERMS_DOMAIN_MAX + 1];
	if (domain && fold_domain(domain, folded))
		fault(host, report, "DOMAIN", "\"%s\" is no domain", domain);
	check_names(host, conf, report, "HEADERS");
	check_names(host, conf, report, "OVERSIGN");
	check_patterns(host, conf, report, "SEAL_FOR");
	check_patterns(host, conf, report, "NOT_FOR");
	if (!host->conf_str(conf, "NEXT_STAGE"))
		host->report(report, NULL, "NEXT_STAGE is not set: what is sealed has nowhere to go");
}

static int read_patterns(const char *text, struct pattern **ret, size_t *ret_n)
{
	struct str rest = str_from(text ? text : ""), word, all = rest;
	size_t n = 0;
	while (n < TERMS_PATTERNS_MAX && str_word(&rest, " \t,", &word))
		n++;
	if (n && !(*ret = calloc(n, sizeof **ret)))
		return -1;
	for (size_t i = 0; i < n && str_word(&all, " \t,", &word); i++)
		*ret_n += !pattern_parse(word, &(*ret)[*ret_n]);
	return 0;
}

static int read_names(const char *text, char **copy, const char **names)
{
	size_t n = 0;
	if (!text || !*text)
		return 0;
	if (!(*copy = strdup(text)))
		return -1;
	char *save = NULL;
	for (char *w = strtok_r(*copy, " \t,:", &save); w && n < ARC_SEAL_NAMES_MAX; w = strtok_r(NULL, " \t,:", &save))
		if (arc_name_ok(str_from(w)))
			names[n++] = w;
	return 0;
}

int terms_read(const struct pepsi_host *host, const struct pepsi_conf *conf, struct terms *ret)
{
	const char *domain = host->conf_str(conf, "DOMAIN"), *algorithm = host->conf_str(conf, "ALGORITHM");
	memset(ret, 0, sizeof *ret);
	ret->above = !domain || !*domain;
	if (ret->above)
		domain = host->conf_global(conf, "pepsi", "HOSTNAME");
	ret->ed25519 = algorithm && !strcmp(algorithm, "ed25519");
	if (!domain || fold_domain(domain, ret->domain) || read_patterns(host->conf_str(conf, "SEAL_FOR"), &ret->seal_for, &ret->n_for) ||
	    read_patterns(host->conf_str(conf, "NOT_FOR"), &ret->not_for, &ret->n_not) || read_names(host->conf_str(conf, "HEADERS"), &ret->text[0], ret->name) ||
	    read_names(host->conf_str(conf, "OVERSIGN"), &ret->text[1], ret->oversign))
		return -1;
	for (size_t i = 0; i < ret->n_for; i++)
		ret->for_all |= ret->seal_for[i].kind == PATTERN_ANY;
	return 0;
}

void terms_free(struct terms *t)
{
	free(t->seal_for);
	free(t->not_for);
	free(t->text[0]);
	free(t->text[1]);
}

static bool any(const struct pattern *p, size_t n, const struct pattern_address *a)
{
	for (size_t i = 0; i < n; i++)
		if (pattern_match(&p[i], a))
			return true;
	return false;
}

bool terms_wanted(const struct terms *t, struct str address)
{
	struct pattern_address a;
	if (t->for_all && !t->n_not)
		return true;
	return !pattern_address(address, &a) && any(t->seal_for, t->n_for, &a) && !any(t->not_for, t->n_not, &a);
}
