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
	{ "SELECTOR", PEPSI_OPT_STRING, PEPSI_OPTF_FILE_ONLY, NULL, 0, 0, NULL, "the one active key of DOMAIN that seals. Default: the first of ALGORITHM" },
	{ "SEALER_*", PEPSI_OPT_MULTI, PEPSI_OPTF_FILE_ONLY, NULL, 0, 0, NULL,
	    "PATTERN… DOMAIN[/SELECTOR]: who seals mail that was sent to these addresses of ours; \"self\" as DOMAIN: the domain it was sent to. The first that matches; default: DOMAIN" },
	{ "ALGORITHM", PEPSI_OPT_CHOICE, 0, "rsa", 0, 0, "rsa ed25519",
	    "which key of the domain seals, where it has both: a set has one signature, and not every verifier knows Ed25519" },
	{ "SENT_TO", PEPSI_OPT_LIST, 0, "*", 0, 0, NULL,
	    "addresses of ours, before aliases, whose mail is sealed: local@domain, local@*, domain, *.domain, *" },
	{ "NOT_SENT_TO", PEPSI_OPT_LIST, 0, NULL, 0, 0, NULL, "addresses out of these whose mail is not" },
	{ "SEAL_FOR", PEPSI_OPT_LIST, 0, "*", 0, 0, NULL, "recipients, behind aliases, whose mail is sealed: the same patterns" },
	{ "NOT_FOR", PEPSI_OPT_LIST, 0, NULL, 0, 0, NULL, "recipients out of these whose mail is not" },
	{ "HEADERS", PEPSI_OPT_LIST, 0, NULL, 0, 0, NULL, "fields that the message signature covers, where they are there, instead of the usual ones" },
	{ "OVERSIGN", PEPSI_OPT_LIST, 0, NULL, 0, 0, NULL, "fields that nobody may add later, instead of the usual ones" },
};

static int fold_domain(struct str text, char out[TERMS_DOMAIN_MAX + 1])
{
	struct buf ascii = BUF_INIT(300);
	int rc = smtp_domain_to_ascii(text, &ascii) || smtp_domain_check(buf_str(&ascii), false) || ascii.n > TERMS_DOMAIN_MAX ? -1 : 0;
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

static int read_patterns(struct str text, struct terms_list *ret)
{
	struct str rest = text, word;
	size_t n = 0;
	while (n < TERMS_PATTERNS_MAX && str_word(&rest, " \t,", &word))
		n++;
	if (n && !(ret->p = calloc(n, sizeof *ret->p)))
		return -1;
	for (size_t i = 0; i < n && str_word(&text, " \t,", &word); i++)
		ret->n += !pattern_parse(word, &ret->p[ret->n]);
	for (size_t i = 0; i < ret->n; i++)
		ret->all |= ret->p[i].kind == PATTERN_ANY;
	return 0;
}

/* "PATTERN… DOMAIN[/SELECTOR]" into ret. 0, 1 and *why: it is none, or -1: memory. */
static int read_rule(const char *value, struct terms_rule *ret, const char **why)
{
	struct str all = str_trim(str_from(value)), rest, word, domain;
	struct pattern p;
	size_t cut = all.n, n = 0;
	*why = NULL;
	memset(ret, 0, sizeof *ret);
	while (cut && all.p[cut - 1] != ' ' && all.p[cut - 1] != '\t' && all.p[cut - 1] != ',')
		cut--;
	domain = str_skip(all, cut);
	ptrdiff_t slash = str_chr(domain, '/');
	struct str selector = slash < 0 ? STR_NULL : str_skip(domain, (size_t)slash + 1);
	domain = slash < 0 ? domain : str_n(domain.p, (size_t)slash);
	ret->by.self = str_ieq(domain, STR("self"));
	for (struct str look = str_n(all.p, cut); str_word(&look, " \t,", &word);)
		n++;
	if (!n)
		*why = "expected patterns of addresses of ours and the domain that seals, such as: example.org *.example.org seal.example.org";
	else if (!ret->by.self && fold_domain(domain, ret->by.domain))
		*why = "what stands last is no domain";
	else if (slash >= 0 && !dkim_selector_ok(selector))
		*why = "what stands behind / is no selector";
	else
		snprintf(ret->by.selector, sizeof ret->by.selector, "%.*s", STR_ARG(selector));
	ret->by.above = ret->by.self;
	rest = str_n(all.p, cut);
	for (struct str look = rest; !*why && str_word(&look, " \t,", &word);)
		if (pattern_parse(word, &p))
			*why = "expected patterns of addresses (local@domain, local@*, domain, *.domain, *) before the domain";
	if (*why)
		return 1;
	return read_patterns(rest, &ret->sent_to);
}

static void check_rules(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report)
{
	const char *name, *value, *why;
	struct terms_rule rule;
	size_t i = 0;
	for (; host->conf_multi(conf, "SEALER_*", i, &name, &value) == PEPSI_OK; i++) {
		if (read_rule(value, &rule, &why) > 0)
			host->report(report, name, why);
		free(rule.sent_to.p);
	}
	if (i > TERMS_SEALERS_MAX)
		fault(host, report, NULL, "more than %d of SEALER_", TERMS_SEALERS_MAX);
}

void terms_check(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report)
{
	const char *domain = host->conf_str(conf, "DOMAIN"), *selector = host->conf_str(conf, "SELECTOR");
	char folded[TERMS_DOMAIN_MAX + 1];
	if (domain && fold_domain(str_from(domain), folded))
		fault(host, report, "DOMAIN", "\"%s\" is no domain", domain);
	if (selector && *selector && !dkim_selector_ok(str_from(selector)))
		fault(host, report, "SELECTOR", "\"%s\" is no selector", selector);
	check_names(host, conf, report, "HEADERS");
	check_names(host, conf, report, "OVERSIGN");
	check_patterns(host, conf, report, "SENT_TO");
	check_patterns(host, conf, report, "NOT_SENT_TO");
	check_patterns(host, conf, report, "SEAL_FOR");
	check_patterns(host, conf, report, "NOT_FOR");
	check_rules(host, conf, report);
	if (!host->conf_str(conf, "NEXT_STAGE"))
		host->report(report, NULL, "NEXT_STAGE is not set: what is sealed has nowhere to go");
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

static int read_list(const struct pepsi_host *host, const struct pepsi_conf *conf, const char *option, struct terms_list *ret)
{
	return read_patterns(str_from(host->conf_str(conf, option)), ret);
}

/* Rules that are none were told of by terms_check(), and are left out. */
static int read_rules(const struct pepsi_host *host, const struct pepsi_conf *conf, struct terms *t)
{
	const char *name, *value, *why;
	size_t n = 0;
	while (n < TERMS_SEALERS_MAX && host->conf_multi(conf, "SEALER_*", n, &name, &value) == PEPSI_OK)
		n++;
	if (n && !(t->rule = calloc(n, sizeof *t->rule)))
		return -1;
	for (size_t i = 0; i < n && host->conf_multi(conf, "SEALER_*", i, &name, &value) == PEPSI_OK; i++) {
		int r = read_rule(value, &t->rule[t->n_rules], &why);
		if (r < 0)
			return -1;
		if (r)
			say(host, NULL, PEPSI_LOG_ERROR, "%s: %s", name, why);
		t->n_rules += !r;
	}
	return 0;
}

int terms_read(const struct pepsi_host *host, const struct pepsi_conf *conf, struct terms *ret)
{
	const char *domain = host->conf_str(conf, "DOMAIN"), *selector = host->conf_str(conf, "SELECTOR"), *algorithm = host->conf_str(conf, "ALGORITHM");
	memset(ret, 0, sizeof *ret);
	ret->usual.above = !domain || !*domain;
	if (ret->usual.above)
		domain = host->conf_global(conf, "pepsi", "HOSTNAME");
	snprintf(ret->usual.selector, sizeof ret->usual.selector, "%s", selector ? selector : "");
	ret->ed25519 = algorithm && !strcmp(algorithm, "ed25519");
	if (!domain || fold_domain(str_from(domain), ret->usual.domain) || read_list(host, conf, "SEAL_FOR", &ret->seal_for) ||
	    read_list(host, conf, "NOT_FOR", &ret->not_for) || read_list(host, conf, "SENT_TO", &ret->sent_to) ||
	    read_list(host, conf, "NOT_SENT_TO", &ret->not_sent_to) || read_rules(host, conf, ret) ||
	    read_names(host->conf_str(conf, "HEADERS"), &ret->text[0], ret->name) || read_names(host->conf_str(conf, "OVERSIGN"), &ret->text[1], ret->oversign))
		return -1;
	return 0;
}

void terms_free(struct terms *t)
{
	for (size_t i = 0; i < t->n_rules; i++)
		free(t->rule[i].sent_to.p);
	free(t->rule);
	free(t->seal_for.p);
	free(t->not_for.p);
	free(t->sent_to.p);
	free(t->not_sent_to.p);
	free(t->text[0]);
	free(t->text[1]);
}

static bool any(const struct terms_list *l, const struct pattern_address *a)
{
	for (size_t i = 0; i < l->n; i++)
		if (pattern_match(&l->p[i], a))
			return true;
	return false;
}

static bool chosen(const struct terms_list *yes, const struct terms_list *no, struct str address)
{
	struct pattern_address a;
	if (yes->all && !no->n)
		return true;
	return !pattern_address(address, &a) && any(yes, &a) && !any(no, &a);
}

bool terms_wanted(const struct terms *t, struct str address, struct str sent_to)
{
	return chosen(&t->seal_for, &t->not_for, address) && chosen(&t->sent_to, &t->not_sent_to, sent_to);
}

void terms_by(const struct terms *t, struct str sent_to, struct terms_sealer *ret)
{
	struct pattern_address a;
	*ret = t->usual;
	if (pattern_address(sent_to, &a))
		return;
	for (size_t i = 0; i < t->n_rules; i++)
		if (any(&t->rule[i].sent_to, &a)) {
			*ret = t->rule[i].by;
			if (ret->self && strlen(a.domain) <= TERMS_DOMAIN_MAX)
				snprintf(ret->domain, sizeof ret->domain, "%.*s", TERMS_DOMAIN_MAX, a.domain);
			else if (ret->self)
				*ret = t->usual;
			return;
		}
}
