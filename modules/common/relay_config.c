/* Configuration of the relay stages: validate() and the reading in open(). */
#include "relay.h"

#include "hop_socket.h"

#include <stdio.h>
#include <stdlib.h>

bool relay_success_dsn(const struct pepsi_host *host, const struct pepsi_conf *conf)
{
	char section[160];
	snprintf(section, sizeof section, "stage-%s", host->conf_stage_name(conf));
	struct str text = str_from(host->conf_global(conf, section, "ORIGINATE_SUCCESS_DSN"));
	return !str_ieq(text, STR("NO")) && !str_ieq(text, STR("OFF")) && !str_ieq(text, STR("FALSE")) && !str_eq(text, STR("0"));
}

enum smtp_chunking relay_chunking(const struct pepsi_host *host, const struct pepsi_conf *conf)
{
	const char *how = host->conf_str(conf, "CHUNKING");
	return !how || !strcmp(how, "binary") ? SMTP_CHUNKING_BINARY : !strcmp(how, "always") ? SMTP_CHUNKING_ALWAYS : SMTP_CHUNKING_NEVER;
}

bool relay_helo_ok(const char *s)
{
	size_t n = strlen(s);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] <= 32 || (unsigned char)s[i] > 126)
			return false;
	return n && n <= 255;
}

/* What the options say, before it is judged or copied. Strings are the host's. */
struct settings {
	const char *host, *socket, *helo, *tls, *ca, *cert, *key;
	enum hop_loops loops;
	const char *user, *password, *token, *token_file, *mechs;
	bool auth, insecure, verify, mx;
	enum hop_tls_mode mode;
	int port;
};

static void read_settings(struct settings *s, const struct pepsi_host *host, const struct pepsi_conf *conf, bool lmtp)
{
	static const char *const modes[] = { "none", "may", "require", "implicit", "dane" };
	*s = (struct settings){ .host = host->conf_str(conf, "HOST"), .helo = host->conf_str(conf, "HELO"), .tls = host->conf_str(conf, "TLS"),
		.ca = host->conf_str(conf, "TLS_CA_FILE"), .verify = host->conf_int(conf, "TLS_VERIFY"), .port = (int)host->conf_int(conf, "PORT") };
	if (lmtp) {
		s->socket = host->conf_str(conf, "SOCKET");
	} else {
		s->cert = host->conf_str(conf, "TLS_CERT");
		s->key = host->conf_str(conf, "TLS_KEY");
		s->user = host->conf_str(conf, "AUTH_USER");
		s->password = host->conf_str(conf, "AUTH_PASSWORD");
		s->token = host->conf_str(conf, "AUTH_TOKEN");
		s->token_file = host->conf_str(conf, "AUTH_TOKEN_FILE");
		s->mechs = host->conf_str(conf, "AUTH");
		s->insecure = host->conf_int(conf, "AUTH_INSECURE");
		s->mx = host->conf_int(conf, "MX_LOOKUP");
		const char *loops = host->conf_str(conf, "LOOP_DETECT");
		s->loops = !relay_given(loops) || !strcmp(loops, "far") ? HOP_LOOPS_FAR : !strcmp(loops, "no") ? HOP_LOOPS_NEVER : HOP_LOOPS_ALWAYS;
	}
	s->auth = relay_given(s->user) || relay_given(s->password) || relay_given(s->token) || relay_given(s->token_file) || relay_given(s->mechs);
	/* what is not said follows from what is */
	s->mode = lmtp ? HOP_TLS_NONE : s->port == 465 ? HOP_TLS_IMPLICIT : s->auth ? HOP_TLS_REQUIRE : HOP_TLS_MAY;
	for (size_t i = 0; relay_given(s->tls) && i < sizeof modes / sizeof *modes; i++)
		if (!strcmp(s->tls, modes[i]))
			s->mode = (enum hop_tls_mode)i;
	if (!s->port)
		s->port = s->mode == HOP_TLS_IMPLICIT ? 465 : s->auth ? 587 : 25;
}

/* Reads the i-th (from 0) HOST_… in the order of their numbers. Fewer than HOPS_MAX, so they are searched anew each time. 1: there is none. */
static int host_at(const struct pepsi_host *host, const struct pepsi_conf *conf, size_t i, const char **ret_name, const char **ret_value)
{
	const char *name, *value, *best = NULL;
	uint64_t n, lowest = 0, done = 0;
	for (size_t round = 0; round <= i; round++) {
		best = NULL;
		for (size_t k = 0; host->conf_multi(conf, "HOST_*", k, &name, &value) == PEPSI_OK; k++) {
			if (str_u64(str_skip(str_from(name), 5), 999999, &n))
				n = 1000000 + k; /* no number: reported, and last */
			if ((!round || n > done) && (!best || n < lowest)) {
				best = name;
				lowest = n;
				*ret_value = value;
			}
		}
		if (!best)
			return 1;
		done = lowest;
	}
	*ret_name = best;
	return 0;
}

static int mechs_parse(const char *list, unsigned *ret, char bad[64])
{
	struct str rest = str_from(list), word;
	enum sasl_mech m;
	*ret = 0;
	while (str_word(&rest, " \t,", &word)) {
		if (sasl_mech_parse(word, &m)) {
			snprintf(bad, 64, "%.*s", STR_ARG(word));
			return -1;
		}
		*ret |= 1u << m;
	}
	return 0;
}

#define PASSWORD_MECHS (1u << SASL_SCRAM_SHA_256_PLUS | 1u << SASL_SCRAM_SHA_256 | 1u << SASL_PLAIN | 1u << SASL_LOGIN)
#define TOKEN_MECHS (1u << SASL_OAUTHBEARER | 1u << SASL_XOAUTH2)

static void validate_auth(const struct settings *s, const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report)
{
	unsigned mechs = 0, can = relay_given(s->cert) ? 1u << SASL_EXTERNAL : 0;
	bool token = relay_given(s->token) || relay_given(s->token_file);
	char bad[64], text[256];
	if (relay_given(s->cert) != relay_given(s->key))
		host->report(report, relay_given(s->cert) ? "TLS_CERT" : "TLS_KEY", "TLS_CERT and TLS_KEY belong together: both files, PEM");
	if (relay_given(s->cert) && s->mode == HOP_TLS_NONE)
		host->report(report, "TLS_CERT", "with TLS = none no certificate is shown");
	if (!s->auth) {
		if (s->insecure)
			host->report(report, "AUTH_INSECURE", "there is nothing to sign in with: AUTH_USER and AUTH_PASSWORD, or AUTH_TOKEN");
		return;
	}
	can |= relay_given(s->password) ? PASSWORD_MECHS : 0;
	can |= token ? TOKEN_MECHS : 0;
	if (relay_given(s->password) && token)
		host->report(report, "AUTH_PASSWORD", "a password and a token exclude each other");
	if (relay_given(s->token) && relay_given(s->token_file))
		host->report(report, "AUTH_TOKEN_FILE", "AUTH_TOKEN names the file already");
	/* AUTH_USER alone is no fault: the password may be in a file of secrets.d, which only the workers' account can read */
	if (!relay_given(s->user) && (relay_given(s->password) || token))
		host->report(report, relay_given(s->password) ? "AUTH_PASSWORD" : relay_given(s->token) ? "AUTH_TOKEN" : "AUTH_TOKEN_FILE", "AUTH_USER is missing: whose is it?");
	if (relay_given(s->mechs) && mechs_parse(s->mechs, &mechs, bad)) {
		snprintf(text, sizeof text, "%s is no mechanism; there are scram-sha-256-plus, scram-sha-256, oauthbearer, xoauth2, plain, login, external", bad);
		host->report(report, "AUTH", text);
	} else if (relay_given(s->mechs) && can && !(mechs & can)) {
		host->report(report, "AUTH", mechs & 1u << SASL_EXTERNAL ? "external needs TLS_CERT and TLS_KEY" :
		    token ? "a token goes with oauthbearer and xoauth2 only" : "a password goes with scram-sha-256, plain and login only");
	} else if (relay_given(s->mechs) && !can && !relay_given(s->user)) {
		host->report(report, "AUTH", mechs == 1u << SASL_EXTERNAL ? "external needs TLS_CERT and TLS_KEY" : "there is nothing to sign in with: AUTH_USER and AUTH_PASSWORD, "
		    "or AUTH_TOKEN");
	}
	if (!s->insecure && (s->mode == HOP_TLS_NONE || s->mode == HOP_TLS_MAY))
		host->report(report, "TLS", "a sign-in needs TLS = require, implicit or dane: else anybody on the way has the password. AUTH_INSECURE = YES for a "
		    "server on this host");
	if (!s->insecure && !s->verify && (s->mode == HOP_TLS_REQUIRE || s->mode == HOP_TLS_IMPLICIT))
		host->report(report, "TLS_VERIFY", "a sign-in needs a certificate that is checked: TLS_CA_FILE names the authority of a private one");
	if (relay_given(s->token)) {
		char section[128];
		snprintf(section, sizeof section, "token-%s", s->token);
		if (!host->conf_global(conf, section, "CLIENT_ID")) {
			snprintf(text, sizeof text, "there is no section [%s] with a CLIENT_ID", section);
			host->report(report, "AUTH_TOKEN", text);
		}
	}
}

static void validate_hosts(const struct settings *s, const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report, bool lmtp)
{
	const char *name, *value, *why;
	char room[256];
	struct hops_host h;
	size_t n = 0;
	if (relay_given(s->host) && !hops_name_ok(s->host))
		host->report(report, "HOST", lmtp || strchr(s->host, ' ') ? "not a host name or an address in figures (no port, no brackets here)" :
		    "not a host name or an address in figures (no port, no brackets here: PORT, or HOST_1 = NAME:PORT)");
	if (lmtp)
		return;
	for (; host_at(host, conf, n, &name, &value) == 0; n++) {
		uint64_t number;
		if (str_u64(str_skip(str_from(name), 5), 999999, &number))
			host->report(report, name, "HOST_1, HOST_2, … are numbered in the order they are tried");
		else if (hops_host_parse(str_from(value), s->port, room, &h, &why))
			host->report(report, name, why);
		else if ((s->mx || s->mode == HOP_TLS_DANE) && hop_is_numeric(room))
			host->report(report, name, s->mx ? "MX_LOOKUP wants a domain, not an address" : "DANE wants a name, not an address");
		if (n == HOPS_MAX) {
			host->report(report, name, "more than 16 hosts");
			break;
		}
	}
	if (!n && !relay_given(s->host))
		host->report(report, "HOST", "the server that takes the mail is missing: HOST, or HOST_1, HOST_2, … for several");
	if (n && relay_given(s->host))
		host->report(report, "HOST", "HOST and HOST_1, HOST_2, … exclude each other");
	if (!n && relay_given(s->host) && (s->mx || s->mode == HOP_TLS_DANE) && hop_is_numeric(s->host))
		host->report(report, "HOST", s->mx ? "MX_LOOKUP wants a domain, not an address" : "DANE wants a name, not an address");
}

int32_t relay_validate(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report, bool lmtp)
{
	struct settings s;
	struct hop_address a;
	read_settings(&s, host, conf, lmtp);
	validate_hosts(&s, host, conf, report, lmtp);
	if (lmtp && relay_given(s.host) == relay_given(s.socket))
		host->report(report, relay_given(s.host) ? "SOCKET" : NULL,
		    relay_given(s.host) ? "SOCKET and HOST exclude each other" : "one of SOCKET and HOST is needed");
	if (relay_given(s.socket) && hop_unix_address(s.socket, &a))
		host->report(report, "SOCKET", "the path is too long for a socket (107 octets)");
	if (relay_given(s.helo) && !relay_helo_ok(s.helo))
		host->report(report, "HELO", "only printable ASCII without blanks can be sent");
	if (relay_given(s.socket) && s.mode != HOP_TLS_NONE)
		host->report(report, "TLS", "a local socket has no TLS; leave it at none");
	if (!lmtp)
		validate_auth(&s, host, conf, report);
	if (host->conf_int(conf, "RETRY_MIN") > host->conf_int(conf, "RETRY_MAX"))
		host->report(report, "RETRY_MAX", "is shorter than RETRY_MIN");
	return PEPSI_OK;
}

/* NULL when there is nothing, or no memory: r->out_of_memory. */
static const char *keep(struct relay *r, const char *s)
{
	char *copy = relay_given(s) && r->n_strings < sizeof r->strings / sizeof *r->strings ? strdup(s) : NULL;
	if (copy)
		r->strings[r->n_strings++] = copy;
	else
		r->out_of_memory = r->out_of_memory || relay_given(s);
	return copy;
}

static int configure_hosts(struct relay *r, const struct settings *s, const struct pepsi_host *host, const struct pepsi_conf *conf, struct buf *why)
{
	struct hops_conf *c = &r->conf;
	const char *name, *value, *fault;
	char room[256];
	for (size_t i = 0; c->n < HOPS_MAX && host_at(host, conf, i, &name, &value) == 0; i++) {
		struct hops_host *h = &c->host[c->n++];
		if (hops_host_parse(str_from(value), s->port, room, h, &fault)) {
			buf_addf(why, "%s: %s", name, fault);
			return -1;
		}
		h->name = keep(r, room);
	}
	if (!c->n && relay_given(s->host))
		c->host[c->n++] = (struct hops_host){ .name = keep(r, s->host), .port = s->port, .weight = 1 };
	const char *balance = host->conf_str(conf, "BALANCE");
	c->balance = balance && !strcmp(balance, "weight");
	c->mx = s->mx;
	c->backoff_max_ms = host->conf_int(conf, "BACKOFF_MAX") * 1000;
	return 0;
}

static void configure_auth(struct relay *r, const struct settings *s, const struct pepsi_host *host, const struct pepsi_conf *conf)
{
	struct hop_auth *a = &r->auth;
	char bad[64], path[1024];
	if (!s->auth)
		return;
	a->user = keep(r, s->user);
	a->password = keep(r, s->password);
	a->insecure = s->insecure;
	a->external = relay_given(s->cert);
	if (relay_given(s->mechs))
		mechs_parse(s->mechs, &a->mechs, bad);
	if (relay_given(s->token)) {
		const char *dir = host->conf_global(conf, "pepsi", "STATE_DIR");
		snprintf(path, sizeof path, "%s/tokens/%s.access", dir ? dir : "", s->token);
		a->token_file = keep(r, path);
	} else {
		a->token_file = keep(r, s->token_file);
	}
	r->conf.each.auth = a;
}

int relay_configure(struct relay *r, const struct pepsi_host *host, const struct pepsi_conf *conf, bool lmtp, struct buf *why)
{
	struct settings s;
	read_settings(&s, host, conf, lmtp);
	if (!relay_given(s.helo))
		s.helo = host->conf_global(conf, "pepsi", "HOSTNAME");
	if (!relay_given(s.helo))
		s.helo = "localhost";
	if (!relay_helo_ok(s.helo)) {
		buf_addz(why, "HELO: only printable ASCII without blanks can be sent");
		return -1;
	}
	r->conf.each = (struct hop_conf){ .port = s.port, .lmtp = lmtp, .helo = keep(r, s.helo), .loops = s.loops,
		.name = lmtp ? NULL : keep(r, host->conf_global(conf, "pepsi", "HOSTNAME")), .tls = s.mode, .tls_verify = s.verify,
		.connect_ms = host->conf_int(conf, "CONNECT_TIMEOUT") * 1000, .command_ms = host->conf_int(conf, "COMMAND_TIMEOUT") * 1000,
		.data_ms = host->conf_int(conf, "DATA_TIMEOUT") * 1000, .idle_ms = host->conf_int(conf, "IDLE_TIMEOUT") * 1000,
		.socket = keep(r, s.socket), .tls_ca_file = keep(r, s.ca), .tls_cert = keep(r, s.cert), .tls_key = keep(r, s.key) };
	if (lmtp && relay_given(s.host))
		r->conf.host[r->conf.n++] = (struct hops_host){ .name = keep(r, s.host), .port = s.port, .weight = 1 };
	if (!lmtp) {
		if (configure_hosts(r, &s, host, conf, why))
			return -1;
		configure_auth(r, &s, host, conf);
	}
	if (!r->conf.n && !r->conf.each.socket) {
		buf_addz(why, lmtp ? "neither SOCKET nor HOST is set" : "HOST is not set");
		return -1;
	}
	r->policy = (struct relay_policy){ .retry_min = host->conf_int(conf, "RETRY_MIN"),
		.retry_max = host->conf_int(conf, "RETRY_MAX"), .delay_warning = host->conf_int(conf, "DELAY_WARNING"),
		.stage = keep(r, host->conf_stage_name(conf)) };
	if (r->out_of_memory) {
		buf_addz(why, "out of memory");
		return -1;
	}
	return 0;
}

void relay_unconfigure(struct relay *r)
{
	for (size_t i = 0; i < r->n_strings; i++) {
		explicit_bzero(r->strings[i], strlen(r->strings[i])); /* a password is among them */
		free(r->strings[i]);
	}
	r->n_strings = 0;
}
