/* The stage's options: how they are validated, and read once per worker. No I/O but a look at our own interfaces. The table is in internet.c. */
#include "internet.h"

#include "proto/address/address.h"
#include "say.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAMES_MAX = 16 }; /* of a "verify=" */

/* "require", "verify=mail.example.org,.example.net": 0, and what stands behind the = in names, folded; or -1 with the reason. */
static int read_policy(struct str word, enum tls_operator *ret, struct buf *names, struct buf *why)
{
	ptrdiff_t eq = str_chr(word, '=');
	struct str rest = eq < 0 ? STR_NULL : str_skip(word, (size_t)eq + 1), name;
	if (tls_operator_parse(eq < 0 ? word : str_n(word.p, (size_t)eq), ret) || (eq >= 0 && *ret != TLS_VERIFY)) {
		buf_addf(why, "\"%.*s\" is no policy: none, may, require, verify, verify=NAME,… or dane", STR_ARG(word));
		return -1;
	}
	bool ok = eq < 0 || rest.n;
	for (size_t n = 0; ok && str_word(&rest, ",", &name); n++) {
		char folded[DNS_NAME_MAX + 1];
		bool below = name.n > 1 && name.p[0] == '.';
		ok = n < NAMES_MAX && dns_name_fold(below ? str_skip(name, 1) : name, folded) > 0 &&
		    buf_addf(names, "%s%s%s", n ? "," : "", below ? "." : "", folded) == 0;
	}
	if (!ok)
		buf_addf(why, "\"%.*s\": behind verify= stand host names, or .example.org for all below it, %d at most", STR_ARG(word), NAMES_MAX);
	return ok ? 0 : -1;
}

/* "example.org *.example.org require" into sites (NULL: only checked). 0, or -1 with the reason. */
static int add_policy(struct settings *s, const char *value, struct buf *why)
{
	struct str all = str_trim(str_from(value)), rest, word;
	struct buf names = BUF_INIT(NAMES_MAX * (DNS_NAME_MAX + 2));
	size_t cut = all.n, n = 0;
	enum tls_operator policy;
	while (cut && all.p[cut - 1] != ' ' && all.p[cut - 1] != '\t')
		cut--;
	if (read_policy(str_skip(all, cut), &policy, &names, why))
		goto bad;
	rest = str_n(all.p, cut);
	while (str_word(&rest, " \t", &word)) {
		struct pattern p;
		if (pattern_parse(word, &p) || p.kind == PATTERN_ADDRESS || p.kind == PATTERN_LOCAL) {
			buf_addf(why, "\"%.*s\" is none of domain, *.domain and *", STR_ARG(word));
			goto bad;
		}
		n++;
		if (!s)
			continue;
		struct tls_site *more = s->n_site < POLICIES_MAX ? realloc(s->site, (s->n_site + 1) * sizeof *more) : NULL;
		char *copy = more && names.n ? str_dupz(buf_str(&names)) : NULL;
		if (more)
			s->site = more;
		if (!more || (names.n && !copy)) {
			buf_addz(why, "too many domains, or out of memory");
			goto bad;
		}
		more[s->n_site++] = (struct tls_site){ p, policy, copy };
	}
	buf_free(&names);
	if (!n)
		buf_addz(why, "no domain stands before the policy");
	return n ? 0 : -1;
bad:
	buf_free(&names);
	return -1;
}

static int add_address(struct settings *s, struct str word)
{
	struct route_own o = { .n = 4 };
	char text[64];
	if (word.n >= sizeof text)
		return -1;
	snprintf(text, sizeof text, "%.*s", STR_ARG(word));
	if (inet_pton(AF_INET, text, o.ip) != 1) {
		o.n = 16;
		if (inet_pton(AF_INET6, text, o.ip) != 1)
			return -1;
	}
	if (s && s->n_own_ip < OWN_MAX)
		s->own_ip[s->n_own_ip++] = o;
	return 0;
}

/* A word of ALLOW_NETWORKS: a network, or "private". 0, -1: it is none, or there are too many. s NULL: only looked at. */
static int add_network(struct settings *s, struct str word)
{
	static const char *const private[] = { "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7" };
	bool all = str_ieq(word, STR("private"));
	size_t n = all ? sizeof private / sizeof *private : 1;
	struct outside_net *more = s ? realloc(s->allow, (s->n_allow + n) * sizeof *more) : NULL, net;
	if (s && (!more || s->n_allow + n > NETWORKS_MAX)) {
		s->allow = more ? more : s->allow;
		return -1;
	}
	if (s)
		s->allow = more;
	for (size_t i = 0; i < n; i++) {
		if (outside_net_parse(all ? str_from(private[i]) : word, &net))
			return -1;
		if (s)
			s->allow[s->n_allow++] = net;
	}
	return 0;
}

/* Every address with a plan must be one that mail can leave from, or the plan is of no use. */
static unsigned plans_without_source(const struct settings *s, void (*fn)(void *arg, const char *option, const char *text), void *arg)
{
	const char *option, *pool;
	const unsigned char *ip;
	const struct source *source;
	unsigned n, faults = 0;
	for (size_t i = 0; warmups_at(s->warmups, i, &option, &ip, &n); i++) {
		bool there = false;
		char text[INET6_ADDRSTRLEN + 80], shown[INET6_ADDRSTRLEN];
		for (size_t k = 0; !there && sources_at(s->sources, k, &pool, &source); k++)
			there = source->n == n && !memcmp(source->ip, ip, n);
		if (there)
			continue;
		inet_ntop(n == 4 ? AF_INET : AF_INET6, ip, shown, sizeof shown);
		snprintf(text, sizeof text, "%s stands in no SOURCES_n line and not in SOURCE_ADDRESSES", shown);
		fn(arg, option, text);
		faults++;
	}
	return faults;
}

/* SHAPE_n, SOURCES_n, SOURCE_ADDRESSES and WARMUP_n, each fault told through fn. False: a fault, or no memory. */
static bool read_traffic(struct settings *s, const struct pepsi_host *host, const struct pepsi_conf *conf,
    void (*fn)(void *arg, const char *option, const char *text), void *arg)
{
	const char *name, *value, *pool, *all = host->conf_str(conf, "SOURCE_ADDRESSES");
	struct buf why = BUF_INIT(2048);
	unsigned faults = 0;
	if (!(s->shapes = shapes_new()) || !(s->sources = sources_new()) || !(s->warmups = warmups_new())) {
		fn(arg, NULL, "out of memory");
		return false;
	}
	for (int kind = 0; kind < 2; kind++)
		for (size_t i = 0; host->conf_multi(conf, kind ? "SOURCES_*" : "SHAPE_*", i, &name, &value) == PEPSI_OK; i++, buf_reset(&why))
			if (kind ? sources_add(s->sources, name, str_from(value), &why) : shapes_add(s->shapes, name, str_from(value), &why)) {
				fn(arg, name, why.n ? why.p : "out of memory");
				faults++;
			}
	if (relay_given(all) && sources_add(s->sources, "SOURCES_999999", str_from(all), &why)) { /* behind all others */
		fn(arg, "SOURCE_ADDRESSES", why.n ? why.p : "out of memory");
		faults++;
	}
	buf_reset(&why);
	for (size_t i = 0; host->conf_multi(conf, "WARMUP_*", i, &name, &value) == PEPSI_OK; i++, buf_reset(&why))
		if (warmups_add(s->warmups, name, str_from(value), &why)) {
			fn(arg, name, why.n ? why.p : "out of memory");
			faults++;
		}
	for (size_t i = 0; shapes_doubt(s->shapes, 1, i, &name, &why); i++, buf_reset(&why), faults++)
		fn(arg, name, buf_z(&why));
	/* a line that could not be read may be the pool that is missed */
	bool sound = !faults;
	for (size_t i = 0; sound && shapes_pool(s->shapes, i, &name, &pool); i++)
		if (!sources_has(s->sources, pool)) {
			buf_reset(&why);
			buf_addf(&why, "sources=%s: no SOURCES_n line has pool=%s", pool, pool);
			fn(arg, name, buf_z(&why));
			faults++;
		}
	if (sound)
		faults += plans_without_source(s, fn, arg);
	buf_free(&why);
	return !faults;
}

struct reporting {
	const struct pepsi_host *host;
	struct pepsi_report *report;
};

static void tell(void *arg, const char *option, const char *text)
{
	const struct reporting *r = arg;
	r->host->report(r->report, option, text);
}

static void append(void *arg, const char *option, const char *text)
{
	buf_addf(arg, "%s%s%s ", option ? option : "", option ? ": " : "", text);
}

int32_t settings_validate(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report)
{
	const char *helo = host->conf_str(conf, "HELO"), *name, *value;
	struct str rest = str_from(host->conf_str(conf, "OWN_ADDRESSES")), word;
	if (relay_given(helo) && !relay_helo_ok(helo))
		host->report(report, "HELO", "only printable ASCII without blanks can be sent");
	for (size_t i = 0; host->conf_multi(conf, "TLS_POLICY_*", i, &name, &value) == PEPSI_OK; i++) {
		struct buf why = BUF_INIT(1024);
		if (add_policy(NULL, value, &why))
			host->report(report, name, buf_z(&why));
		buf_free(&why);
	}
	while (str_word(&rest, " \t", &word))
		if (add_address(NULL, word))
			fault(host, report, "OWN_ADDRESSES", "\"%.*s\" is no IPv4 or IPv6 address", STR_ARG(word));
	rest = str_from(host->conf_str(conf, "ALLOW_NETWORKS"));
	for (size_t n = 0; str_word(&rest, " \t", &word); n++)
		if (add_network(NULL, word) || n >= NETWORKS_MAX / 4)
			fault(host, report, "ALLOW_NETWORKS", "\"%.*s\" is no network (10.0.0.0/8, fd00::/8, private), or one too many", STR_ARG(word));
	struct settings s = { 0 };
	struct reporting r = { host, report };
	read_traffic(&s, host, conf, tell, &r);
	settings_done(&s);
	if (host->conf_int(conf, "RETRY_MIN") > host->conf_int(conf, "RETRY_MAX"))
		host->report(report, "RETRY_MAX", "is shorter than RETRY_MIN");
	return PEPSI_OK;
}

static int add_name(struct settings *s, struct str name)
{
	if (!name.n || s->n_own == OWN_MAX)
		return 0;
	char *copy = str_dupz(name);
	if (!copy)
		return -1;
	s->own[s->n_own++] = str_from(copy);
	return 0;
}

bool settings_own(const struct settings *s, struct str name)
{
	for (size_t i = 0; i < s->n_own; i++)
		if (smtp_domain_equal(s->own[i], name))
			return true;
	return false;
}

/* Loopback is not ours in this sense: where ALLOW_LOOPBACK is on, next hops are there. */
static void own_interfaces(struct settings *s)
{
	struct ifaddrs *list = NULL;
	if (getifaddrs(&list))
		return;
	for (struct ifaddrs *i = list; i && s->n_own_ip < OWN_MAX; i = i->ifa_next) {
		struct route_own o = { 0 };
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET) {
			struct sockaddr_in in;
			memcpy(&in, i->ifa_addr, sizeof in);
			memcpy(o.ip, &in.sin_addr, o.n = 4);
		} else if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET6) {
			struct sockaddr_in6 in;
			memcpy(&in, i->ifa_addr, sizeof in);
			memcpy(o.ip, &in.sin6_addr, o.n = 16);
		}
		if (o.n && route_address_ok(o.ip, o.n))
			s->own_ip[s->n_own_ip++] = o;
	}
	freeifaddrs(list);
}

static int64_t ms(const struct pepsi_host *host, const struct pepsi_conf *conf, const char *option)
{
	return host->conf_int(conf, option) * 1000;
}

int settings_read(struct settings *s, const struct pepsi_host *host, const struct pepsi_conf *conf, struct buf *why)
{
	const char *helo = host->conf_str(conf, "HELO"), *global = host->conf_global(conf, "pepsi", "HOSTNAME");
	const char *family = host->conf_str(conf, "FAMILY"), *ca, *name, *value;
	struct str rest, word;
	if (!relay_given(helo))
		helo = relay_given(global) ? global : "localhost";
	if (!relay_helo_ok(helo)) {
		buf_addz(why, "HELO: only printable ASCII without blanks can be sent");
		return -1;
	}
	snprintf(s->helo, sizeof s->helo, "%s", helo);
	bool memory = add_name(s, str_from(s->helo)) == 0 && (!relay_given(global) || add_name(s, str_from(global)) == 0);
	rest = str_from(host->conf_str(conf, "OWN_NAMES"));
	while (memory && str_word(&rest, " \t", &word))
		memory = add_name(s, word) == 0;
	rest = str_from(host->conf_str(conf, "OWN_ADDRESSES"));
	while (str_word(&rest, " \t", &word))
		if (add_address(s, word)) {
			buf_addf(why, "OWN_ADDRESSES: \"%.*s\" is no IPv4 or IPv6 address", STR_ARG(word));
			return -1;
		}
	rest = str_from(host->conf_str(conf, "ALLOW_NETWORKS"));
	while (str_word(&rest, " \t", &word))
		if (add_network(s, word)) {
			buf_addf(why, "ALLOW_NETWORKS: \"%.*s\" is no network, or one too many", STR_ARG(word));
			return -1;
		}
	own_interfaces(s);
	s->ipv4 = !family || strcmp(family, "ipv6") != 0;
	s->ipv6 = !family || strcmp(family, "ipv4") != 0;
	s->port = (unsigned)host->conf_int(conf, "PORT");
	s->local_ok = host->conf_int(conf, "ALLOW_LOOPBACK");
	s->dane = host->conf_int(conf, "DANE");
	s->sts = host->conf_int(conf, "MTA_STS");
	s->tlsrpt = host->conf_int(conf, "TLSRPT");
	s->health = host->conf_int(conf, "ADDRESS_HEALTH");
	s->loops = host->conf_int(conf, "LOOP_DETECT");
	s->tls.policy = TLS_MAY;
	if ((value = host->conf_str(conf, "TLS")) && tls_operator_parse(str_from(value), &s->tls.policy)) {
		buf_addf(why, "TLS = %s is not available", value);
		return -1;
	}
	for (size_t i = 0; host->conf_multi(conf, "TLS_POLICY_*", i, &name, &value) == PEPSI_OK; i++)
		if (add_policy(s, value, why))
			return -1;
	if (!read_traffic(s, host, conf, append, why))
		return -1;
	ca = host->conf_str(conf, "TLS_CA_FILE");
	if (relay_given(ca) && !(s->ca_file = strdup(ca)))
		memory = false;
	s->times = (struct session_times){ .connect = ms(host, conf, "CONNECT_TIMEOUT"), .greeting = ms(host, conf, "GREETING_TIMEOUT"),
		.command = ms(host, conf, "COMMAND_TIMEOUT"), .block = ms(host, conf, "DATA_TIMEOUT"), .dot = ms(host, conf, "DOT_TIMEOUT"),
		.idle = ms(host, conf, "IDLE_TIMEOUT"), .whole = ms(host, conf, "WHOLE_TIMEOUT") };
	if (!memory || !(s->stage = strdup(host->conf_stage_name(conf)))) {
		buf_addz(why, "out of memory");
		return -1;
	}
	relay_downgrade_open(&s->downgrade, host, conf);
	s->chunking = relay_chunking(host, conf);
	s->policy = (struct relay_policy){ .retry_min = host->conf_int(conf, "RETRY_MIN"), .retry_max = host->conf_int(conf, "RETRY_MAX"),
		.delay_warning = host->conf_int(conf, "DELAY_WARNING"), .stage = s->stage, .success_dsn = relay_success_dsn(host, conf) };
	return 0;
}

void settings_done(struct settings *s)
{
	for (size_t i = 0; i < s->n_own; i++)
		free((void *)(uintptr_t)s->own[i].p);
	s->n_own = 0;
	shapes_free(s->shapes);
	sources_free(s->sources);
	warmups_free(s->warmups);
	s->shapes = NULL;
	s->sources = NULL;
	s->warmups = NULL;
	for (size_t i = 0; i < s->n_site; i++)
		free(s->site[i].names);
	free(s->site);
	s->n_site = 0;
	free(s->allow);
	free(s->ca_file);
	free(s->stage);
	s->site = NULL;
	s->allow = NULL;
	s->ca_file = s->stage = NULL;
}

const struct tls_site *settings_tls(const struct settings *s, const char *domain)
{
	struct pattern_address a = { .local = "" };
	snprintf(a.domain, sizeof a.domain, "%s", domain);
	for (size_t i = 0; i < s->n_site; i++)
		if (pattern_match(&s->site[i].p, &a))
			return &s->site[i];
	return &s->tls;
}
