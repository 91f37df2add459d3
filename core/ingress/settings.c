/* Reading the ingress's part of the configuration. Values that do not parse were faults at load; here faults
 * are what only trying shows: a certificate that cannot be read. */
#include "settings.h"

#include "local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TLS_PAIRS_MAX = 64 };

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

/* Words of a LIST to OpenSSL's form: upper case, ':' between. tls13: those that begin with tls_, else the others. */
static char *joined(const struct config *c, const char *section, const char *option, bool split, bool tls13)
{
	struct str rest = str_from(config_str(c, section, option)), word;
	char *ret = calloc(1, rest.n + 1), *at = ret;
	while (ret && str_word(&rest, " \t,", &word)) {
		if (split && str_istarts(word, STR("tls_")) != tls13)
			continue;
		if (at != ret)
			*at++ = ':';
		for (size_t i = 0; i < word.n; i++)
			*at++ = word.p[i] >= 'a' && word.p[i] <= 'z' ? (char)(word.p[i] - 32) : word.p[i];
	}
	return ret;
}

static bool lists(const struct config *c, const char *section, const char *option, struct str wanted)
{
	struct str rest = str_from(config_str(c, section, option)), word;
	while (str_word(&rest, " \t,", &word))
		if (str_ieq(word, wanted))
			return true;
	return false;
}

/* The contents of the certificate files while a set is made of them. */
struct pem {
	char *cert[TLS_PAIRS_MAX], *key[TLS_PAIRS_MAX], *ca;
	size_t n, n_keys;
	struct buf cert_text[TLS_PAIRS_MAX], key_text[TLS_PAIRS_MAX], ca_text;
	struct net_tls_pair pair[TLS_PAIRS_MAX];
	char *ciphers, *suites, *groups;
};

static void pem_free(struct pem *p)
{
	for (size_t i = 0; i < TLS_PAIRS_MAX; i++) {
		free(p->cert[i]);
		free(p->key[i]);
		buf_free(&p->cert_text[i]);
		buf_free_secret(&p->key_text[i]);
	}
	buf_free(&p->ca_text);
	free(p->ca);
	free(p->ciphers);
	free(p->suites);
	free(p->groups);
	free(p);
}

static int read_file(const struct ingress_supply *files, const char *path, struct buf *out, char *err, size_t size)
{
	*out = BUF_INIT(INGRESS_PEM_MAX + 16384);
	return files->file(files->arg, path, out, err, size);
}

static struct net_tls *make_tls(struct terms *t, const struct config *c, struct pem *p, const struct ingress_supply *files,
    struct net_tickets *tickets, char *err, size_t size)
{
	const char *client = config_str(c, t->section, "TLS_CLIENT_CERT");
	for (size_t i = 0; i < p->n; i++) {
		if (read_file(files, p->cert[i], &p->cert_text[i], err, size) || read_file(files, p->key[i], &p->key_text[i], err, size))
			return NULL;
		p->pair[i] = (struct net_tls_pair){ p->cert[i], p->key[i], buf_str(&p->cert_text[i]), buf_str(&p->key_text[i]) };
	}
	struct net_tls_conf conf = {
		.pairs = p->pair,
		.n = p->n,
		.no_tls12 = !lists(c, t->section, "TLS_PROTOCOLS", STR("tls1.2")),
		.no_tls13 = !lists(c, t->section, "TLS_PROTOCOLS", STR("tls1.3")),
		.ciphers = p->ciphers,
		.suites = p->suites,
		.groups = p->groups,
		.tickets = config_int(c, t->section, "TLS_TICKETS") ? tickets : NULL,
		.context = t->name,
		.client_ca_name = p->ca,
	};
	if (client && strcmp(client, "none") != 0) {
		conf.client = strcmp(client, "require") == 0 ? NET_TLS_CLIENT_REQUIRE : NET_TLS_CLIENT_ASK;
		if (!p->ca) {
			snprintf(err, size, "TLS_CLIENT_CERT needs TLS_CLIENT_CA");
			return NULL;
		}
		if (read_file(files, p->ca, &p->ca_text, err, size))
			return NULL;
		conf.client_ca = buf_str(&p->ca_text);
	}
	return net_tls_new(&conf, err, size);
}

static int read_tls(struct terms *t, const struct config *c, const struct ingress_supply *files, struct net_tickets *tickets,
    const struct terms *old, struct config_faults *faults)
{
	struct pem *p = calloc(1, sizeof *p);
	char err[512] = "out of memory";
	if (!p)
		return -1;
	p->n = values(c, t->section, "TLS_CERT", p->cert, TLS_PAIRS_MAX);
	p->n_keys = values(c, t->section, "TLS_KEY", p->key, TLS_PAIRS_MAX);
	p->ca = config_path(c, t->section, "TLS_CLIENT_CA");
	p->ciphers = joined(c, t->section, "TLS_CIPHERS", true, false);
	p->suites = joined(c, t->section, "TLS_CIPHERS", true, true);
	p->groups = joined(c, t->section, "TLS_GROUPS", false, false);
	const struct config_value *at = config_get(c, t->section, p->n ? "TLS_CERT" : p->n_keys ? "TLS_KEY" : "PROTOCOL");
	const char *file = at ? at->file : "";
	unsigned line = at ? at->line : 0;
	int ret = 0;
	if (p->n != p->n_keys) {
		config_fault_add(faults, file, line, false,
		    "[%s]: %zu TLS_CERT but %zu TLS_KEY; they belong together in pairs", t->section, p->n, p->n_keys);
		ret = -1;
	} else if (p->n) {
		t->tls = p->ciphers && p->suites && p->groups ? make_tls(t, c, p, files, tickets, err, sizeof err) : NULL;
		if (!t->tls && old && old->tls) {
			t->tls = net_tls_ref(old->tls);
			config_fault_add(faults, file, line, true,
			    "[%s]: %s; the certificates in use stay in use", t->section, err);
		} else if (!t->tls) {
			config_fault_add(faults, file, line, false, "[%s]: %s", t->section, err);
			ret = -1;
		}
	} else if (t->need_auth) {
		config_fault_add(faults, file, line, false, "[%s]: users sign in inside TLS only: TLS_CERT and TLS_KEY are needed", t->section);
		ret = -1;
	}
	pem_free(p);
	return ret;
}

void terms_check_tls(const struct config *c, const char *section, const struct ingress_supply *files, struct config_faults *faults)
{
	struct terms t = { .section = (char *)(uintptr_t)section, .name = (char *)(uintptr_t)section };
	struct config_value v;
	size_t certs = 0, keys = 0;
	const char *name, *client = config_str(c, section, "TLS_CLIENT_CERT");
	for (size_t i = 0; (name = config_option(c, section, i, &v)); i++) {
		certs += str_ieq(str_from(name), STR("TLS_CERT"));
		keys += str_ieq(str_from(name), STR("TLS_KEY"));
	}
	/* what is wrong with the options themselves schema_check() has said */
	if (certs != keys || (client && strcmp(client, "none") != 0 && !config_str(c, section, "TLS_CLIENT_CA")))
		return;
	if (!read_tls(&t, c, files, NULL, NULL, faults))
		net_tls_unref(t.tls);
}

static void read_protocol(struct terms *t, const struct config *c)
{
	static const char *const names[] = { "smtp", "submission", "submissions", "lmtp", "local" };
	const char *set = config_str(c, t->section, "PROTOCOL"), *auth = config_str(c, t->section, "AUTH");
	for (unsigned i = 0; i < 5; i++)
		if (set && str_ieq(str_from(set), str_from(names[i])))
			t->protocol = (enum protocol)i;
	t->lmtp = t->protocol == PROTOCOL_LMTP;
	t->user_known = t->protocol == PROTOCOL_LOCAL;
	t->implicit_tls = t->protocol == PROTOCOL_SUBMISSIONS;
	t->need_auth = t->implicit_tls || t->protocol == PROTOCOL_SUBMISSION;
	const char *own = config_str(c, t->section, "SENDER_OWNERSHIP");
	t->own_envelope = !own || !strcmp(own, "both") || !strcmp(own, "envelope");
	t->own_header = !own || !strcmp(own, "both") || !strcmp(own, "header");
	t->hide_client = config_int(c, t->section, "HIDE_CLIENT");
	t->remove_bcc = config_int(c, t->section, "REMOVE_BCC");
	t->auth_text = strdup(auth ? auth : t->need_auth ? "plain login scram-sha-256 scram-sha-256-plus" : "");
	for (char *p = t->auth_text; p && *p; p++)
		*p = *p == ',' || *p == '\t' ? ' ' : ascii_lower(*p);
	t->auth = t->auth_text;
	const char *backends = config_str(c, t->section, "BACKENDS");
	t->backends = strdup(backends ? backends : "");
}

/* 0, or -1: no memory. */
static int read_before(struct terms *t, const struct config *c)
{
	const char *list = config_str(c, t->section, "BEFORE_ACCEPT"), *policy = config_str(c, t->section, "BEFORE_ACCEPT_FAILURE");
	struct str rest = str_from(list), word;
	unsigned n = 0;
	while (str_word(&rest, " \t,", &word))
		n++;
	t->before = calloc(n ? n : 1, sizeof *t->before);
	if (!t->before)
		return -1;
	rest = str_from(list);
	while (t->n_before < n && str_word(&rest, " \t,", &word)) {
		char *name = str_dupz(word);
		if (!name)
			return -1;
		ascii_lower_z(name);
		t->before[t->n_before++] = name;
	}
	t->before_us = config_int(c, t->section, "BEFORE_ACCEPT_TIMEOUT") * INT64_C(1000000);
	t->before_policy = policy && str_ieq(str_from(policy), STR("accept")) ? BEFORE_ACCEPTS :
	    policy && str_ieq(str_from(policy), STR("reject"))               ? BEFORE_REJECTS :
									       BEFORE_TEMPFAILS;
	t->before_spares = !config_int(c, t->section, "BEFORE_ACCEPT_AUTHENTICATED");
	return 0;
}

static unsigned small_int(const struct config *c, const char *section, const char *option)
{
	int64_t v = config_int(c, section, option);
	return v < 0 ? 0 : v > INT32_MAX ? INT32_MAX : (unsigned)v;
}

struct terms *terms_new(const struct config *c, const char *section, const struct ingress_supply *files,
    struct net_tickets *tickets, const struct terms *old, struct config_faults *faults)
{
	struct terms *t = calloc(1, sizeof *t);
	const char *domains = config_str(c, "pepsi", "LOCAL_DOMAINS"), *dash = strchr(section, '-');
	if (!t)
		return NULL;
	t->refs = 1;
	t->section = strdup(section);
	t->name = strdup(dash ? dash + 1 : section);
	t->hostname = config_hostname(c);
	t->local = config_domains_new(domains);
	t->relay = config_networks_new(config_str(c, "pepsi", "RELAY_NETWORKS"));
	t->proxy = config_networks_new(config_str(c, section, "PROXY_FROM"));
	t->xclient = config_networks_new(config_str(c, section, "XCLIENT_FROM"));
	t->postmaster = t->hostname ? postmaster_address(t, domains) : NULL;
	if (t->section)
		read_protocol(t, c);
	if (!t->section || !t->name || !t->local || !t->relay || !t->postmaster || !t->proxy || !t->xclient || !t->auth || !t->backends ||
	    read_before(t, c)) {
		config_fault_add(faults, "", 0, false, "[%s]: out of memory", section);
		terms_unref(t);
		return NULL;
	}
	if (t->user_known && local_senders_read(t, c, faults)) {
		terms_unref(t);
		return NULL;
	}
	t->has_local = str_trim(str_from(domains)).n > 0;
	t->command_us = config_int(c, section, "COMMAND_TIMEOUT") * INT64_C(1000000);
	t->session_us = config_int(c, section, "SESSION_TIMEOUT") * INT64_C(1000000);
	t->max_connections = small_int(c, section, "MAX_CONNECTIONS");
	t->max_per_address = small_int(c, section, "MAX_CONNECTIONS_PER_ADDRESS");
	t->max_hops = small_int(c, section, "MAX_HOPS");
	t->data_rate = (uint64_t)config_int(c, section, "MIN_DATA_RATE");
	t->reverse = config_int(c, section, "REVERSE_DNS");
	t->reverse_wait_us = config_int(c, section, "REVERSE_DNS_WAIT");
	const char *why = "out of memory";
	if (abuse_terms_read(&t->abuse, c, section, t->user_known) || vet_terms_read(&t->vet, c, section, t->protocol == PROTOCOL_SMTP, &why)) {
		config_fault_add(faults, "", 0, false, "[%s]: %s", section, why);
		terms_unref(t);
		return NULL;
	}
	if (read_tls(t, c, files, tickets, old, faults)) {
		terms_unref(t);
		return NULL;
	}
	t->smtp = (struct smtp_server_conf){
		.hostname = str_from(t->hostname),
		.lmtp = t->lmtp,
		.extensions = (extensions(c, section) & ~(t->tls && !t->implicit_tls ? 0 : SMTP_EXT_STARTTLS)) |
		    (*t->auth ? SMTP_EXT_AUTH : 0),
		.size_limit = (uint64_t)config_int(c, section, "MESSAGE_SIZE_LIMIT"),
		.max_recipients = small_int(c, section, "MAX_RECIPIENTS"),
		.max_errors = small_int(c, section, "MAX_ERRORS"),
		.max_hops = t->max_hops,
		.max_transactions = small_int(c, section, "MAX_TRANSACTIONS"),
		.hold_max = small_int(c, section, "MAX_HOLD"),
		.hold_all = t->need_auth,
		.deliver_by_min = small_int(c, section, "MIN_DELIVER_BY"),
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
	local_senders_free(t->senders);
	config_networks_free(t->relay);
	config_networks_free(t->proxy);
	config_networks_free(t->xclient);
	free(t->postmaster);
	free(t->backends);
	free(t->auth_text);
	for (unsigned i = 0; i < t->n_before; i++)
		free(t->before[i]);
	free(t->before);
	abuse_terms_done(&t->abuse);
	vet_terms_done(&t->vet);
	free(t);
}

int shared_settings_read(struct shared_settings *ret, const struct config *c, struct config_faults *faults)
{
	static const char sec[] = "pepsi-ingress";
	const struct config_value *at = config_get(c, sec, "SPOOL_DIR");
	struct str tell = str_from(config_str(c, "pepsi-signin", "CAP_NOTICES"));
	struct shared_settings s = {
		.spool_dir = config_path(c, sec, "SPOOL_DIR"),
		.spool_threshold = (size_t)config_int(c, sec, "SPOOL_THRESHOLD"),
		.message_memory = (size_t)config_int(c, sec, "MESSAGE_MEMORY"),
		.batch_rows = small_int(c, sec, "ADMISSION_BATCH"),
		.batch_octets = (size_t)config_int(c, sec, "ADMISSION_BATCH_BYTES"),
		.wake_us = config_int(c, sec, "DISPATCH_WAKE_INTERVAL"),
		.counted = small_int(c, "pepsi-signin", "COUNTED"),
		.tell_owner = str_ieq(tell, STR("both")) || str_ieq(tell, STR("owner")),
		.tell_postmaster = str_ieq(tell, STR("both")) || str_ieq(tell, STR("postmaster")),
		.min_free = (uint64_t)config_int(c, sec, "MIN_FREE_SPACE"),
		.auth = {
			.concurrency = small_int(c, "pepsi-signin", "IN_FLIGHT_LIMIT"),
			.queue = small_int(c, "pepsi-signin", "WAITING_LIMIT"),
			.timeout_us = config_int(c, "pepsi-signin", "ANSWER_TIMEOUT") * INT64_C(1000000),
			.delay_us = config_int(c, "pepsi-signin", "FAIL_DELAY"),
			.tries = small_int(c, "pepsi-signin", "TRIES"),
			.guess = {
				.account_tries = small_int(c, "pepsi-signin", "ACCOUNT_TRIES"),
				.network_tries = small_int(c, "pepsi-signin", "NETWORK_TRIES"),
				.account_refill_us = config_int(c, "pepsi-signin", "ACCOUNT_REFILL") * INT64_C(1000000),
				.network_refill_us = config_int(c, "pepsi-signin", "NETWORK_REFILL") * INT64_C(1000000),
				.remembered = small_int(c, "pepsi-signin", "REMEMBERED"),
			},
		},
	};
	if (!s.spool_dir) {
		config_fault_add(faults, at ? at->file : "", at ? at->line : 0, false,
		    "[pepsi-ingress] SPOOL_DIR: cannot be expanded to a path");
		return -1;
	}
	abuse_settings_read(&s.abuse, c);
	s.tally = (struct tally_settings){ .on = config_int(c, "pepsi-dmarc", "REPORTS"), .interval_s = config_int(c, "pepsi-dmarc", "INTERVAL"),
		.max_rows = (int32_t)config_int(c, "pepsi-dmarc", "MAX_ROWS"), .max_periods = (int32_t)config_int(c, "pepsi-dmarc", "MAX_DOMAINS") };
	snprintf(s.tally.address, sizeof s.tally.address, "%s", config_str(c, "pepsi-dmarc", "REPORT_ADDRESS") ? config_str(c, "pepsi-dmarc", "REPORT_ADDRESS") : "");
	const char *addresses = config_str(c, "pepsi-dmarc", "FAILURE_ADDRESSES");
	s.failures = (struct failures_settings){ .on = config_int(c, "pepsi-dmarc", "FAILURE_REPORTS"),
		.local = addresses && !strcmp(addresses, "keep") ? ARF_KEEP : addresses && !strcmp(addresses, "drop") ? ARF_DROP : ARF_HASH,
		.most_org = (int32_t)config_int(c, "pepsi-dmarc", "MAX_FAILURES_DOMAIN"), .most = (int32_t)config_int(c, "pepsi-dmarc", "MAX_FAILURES") };
	memcpy(s.failures.address, s.tally.address, sizeof s.failures.address);
	*ret = s;
	return 0;
}

void shared_settings_done(struct shared_settings *s)
{
	free(s->spool_dir);
	s->spool_dir = NULL;
}
