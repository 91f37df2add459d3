/* Reading the ingress's part of the configuration. Values that do not parse were faults at load; here faults
 * are what only trying shows: a certificate that cannot be read. */
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TLS_PAIRS_MAX = 64 };

static char *own_hostname(const struct config *c)
{
	char host[256];
	const char *set = config_str(c, "pepsi", "HOSTNAME");
	if (set)
		return strdup(set);
	if (gethostname(host, sizeof host))
		return strdup("localhost");
	host[sizeof host - 1] = 0;
	return strdup(host);
}

/* postmaster without a domain (RFC 5321 §4.5.1) means ours: the first local one that is a name, else the host. */
static char *postmaster_address(const struct terms *t, const char *domains)
{
	struct str rest = str_from(domains), word, domain = str_from(t->hostname);
	char *ret = NULL;
	while (str_word(&rest, " \t,", &word))
		if (word.p[0] != '*') {
			domain = word;
			break;
		}
	return asprintf(&ret, "postmaster@%.*s", STR_ARG(domain)) < 0 ? NULL : ret;
}

/* The check of the configuration has refused unknown words: none is left here. */
static unsigned extensions(const struct config *c, const char *section)
{
	const char *set = config_str(c, section, "EXTENSIONS");
	unsigned ret = 0;
	if (smtp_extensions_parse(str_from(set && *set ? set : SMTP_EXT_DEFAULT_NAMES), &ret, NULL))
		return 0;
	return ret;
}

/* The values of an option that may stand several times, in file order, paths expanded. */
static size_t values(const struct config *c, const char *section, const char *option, char **ret, size_t max)
{
	struct config_value v;
	const char *name;
	size_t n = 0;
	for (size_t i = 0; (name = config_option(c, section, i, &v)); i++)
		if (str_ieq(str_from(name), str_from(option)) && n < max &&
		    (ret[n] = config_expand(c, v.value, NULL)))
			n++;
	return n;
}

static int read_tls(struct terms *t, const struct config *c, const struct terms *old, struct config_faults *faults)
{
	char *cert[TLS_PAIRS_MAX], *key[TLS_PAIRS_MAX], err[512];
	size_t n = values(c, t->section, "TLS_CERT", cert, TLS_PAIRS_MAX);
	size_t k = values(c, t->section, "TLS_KEY", key, TLS_PAIRS_MAX);
	const struct config_value *at = config_get(c, t->section, n ? "TLS_CERT" : "TLS_KEY");
	const char *file = at ? at->file : "";
	unsigned line = at ? at->line : 0;
	int ret = 0;
	if (n != k) {
		config_fault_add(faults, file, line, false,
		    "[%s]: %zu TLS_CERT but %zu TLS_KEY; they belong together in pairs", t->section, n, k);
		ret = -1;
	} else if (n) {
		t->tls = net_tls_new((const char *const *)cert, (const char *const *)key, n, err, sizeof err);
		if (!t->tls && old && old->tls) {
			t->tls = net_tls_ref(old->tls);
			config_fault_add(faults, file, line, true,
			    "[%s]: %s; the certificates read at start stay in use", t->section, err);
		} else if (!t->tls) {
			config_fault_add(faults, file, line, false, "[%s]: %s", t->section, err);
			ret = -1;
		}
	}
	while (n)
		free(cert[--n]);
	while (k)
		free(key[--k]);
	return ret;
}

static unsigned small_int(const struct config *c, const char *section, const char *option)
{
	int64_t v = config_int(c, section, option);
	return v < 0 ? 0 : v > INT32_MAX ? INT32_MAX : (unsigned)v;
}

struct terms *terms_new(
    const struct config *c, const char *section, const struct terms *old, struct config_faults *faults)
{
	struct terms *t = calloc(1, sizeof *t);
	const char *domains = config_str(c, "pepsi", "LOCAL_DOMAINS"), *dash = strchr(section, '-');
	if (!t)
		return NULL;
	t->refs = 1;
	t->section = strdup(section);
	t->name = strdup(dash ? dash + 1 : section);
	t->hostname = own_hostname(c);
	t->local = config_domains_new(domains);
	t->relay = config_networks_new(config_str(c, "pepsi", "RELAY_NETWORKS"));
	t->postmaster = t->hostname ? postmaster_address(t, domains) : NULL;
	if (!t->section || !t->name || !t->local || !t->relay || !t->postmaster) {
		config_fault_add(faults, "", 0, false, "[%s]: out of memory", section);
		terms_unref(t);
		return NULL;
	}
	t->has_local = str_trim(str_from(domains)).n > 0;
	t->command_us = config_int(c, section, "COMMAND_TIMEOUT") * INT64_C(1000000);
	t->session_us = config_int(c, section, "SESSION_TIMEOUT") * INT64_C(1000000);
	t->max_connections = small_int(c, section, "MAX_CONNECTIONS");
	t->max_per_address = small_int(c, section, "MAX_CONNECTIONS_PER_ADDRESS");
	t->max_hops = small_int(c, section, "MAX_HOPS");
	if (read_tls(t, c, old, faults)) {
		terms_unref(t);
		return NULL;
	}
	t->smtp = (struct smtp_server_conf){
		.hostname = str_from(t->hostname),
		.extensions = extensions(c, section) & ~(t->tls ? 0 : SMTP_EXT_STARTTLS),
		.size_limit = (uint64_t)config_int(c, section, "MESSAGE_SIZE_LIMIT"),
		.max_recipients = small_int(c, section, "MAX_RECIPIENTS"),
		.max_errors = small_int(c, section, "MAX_ERRORS"),
		.max_hops = t->max_hops,
	};
	return t;
}

struct terms *terms_ref(struct terms *t)
{
	t->refs++;
	return t;
}

void terms_unref(struct terms *t)
{
	if (!t || --t->refs)
		return;
	net_tls_unref(t->tls);
	free(t->section);
	free(t->name);
	free(t->hostname);
	config_domains_free(t->local);
	config_networks_free(t->relay);
	free(t->postmaster);
	free(t);
}

int shared_settings_read(struct shared_settings *ret, const struct config *c, struct config_faults *faults)
{
	static const char sec[] = "pepsi-ingress";
	const struct config_value *at = config_get(c, sec, "SPOOL_DIR");
	struct shared_settings s = {
		.spool_dir = config_path(c, sec, "SPOOL_DIR"),
		.spool_threshold = (size_t)config_int(c, sec, "SPOOL_THRESHOLD"),
		.message_memory = (size_t)config_int(c, sec, "MESSAGE_MEMORY"),
		.batch_rows = small_int(c, sec, "ADMISSION_BATCH"),
		.batch_octets = (size_t)config_int(c, sec, "ADMISSION_BATCH_BYTES"),
		.wake_us = config_int(c, sec, "DISPATCH_WAKE_INTERVAL"),
		.min_free = (uint64_t)config_int(c, sec, "MIN_FREE_SPACE"),
	};
	if (!s.spool_dir) {
		config_fault_add(faults, at ? at->file : "", at ? at->line : 0, false,
		    "[pepsi-ingress] SPOOL_DIR: cannot be expanded to a path");
		return -1;
	}
	*ret = s;
	return 0;
}

void shared_settings_done(struct shared_settings *s)
{
	free(s->spool_dir);
	s->spool_dir = NULL;
}
