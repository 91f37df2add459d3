/* schema_check(), names and addresses: host name, networks, listeners, certificates. Looks at text only; whether an
 * address can be bound or a file can be read shows at the start. */
#include "check_internal.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

void check_net_value(struct check *k, const struct config_section *s, const struct config_entry *e,
    const struct pepsi_option *o, bool good)
{
	struct str rest = str_from(e->v.value), w;
	struct config_network net;
	char z[INET6_ADDRSTRLEN];
	if (good && o->flags & SCHEMA_F_HOSTNAME && !strchr(e->v.value, '.'))
		check_fault(k, s, e, true, "%s = %s has no dot: other servers expect a full name such as mx.example.org", o->name, e->v.value);
	while (o->flags & SCHEMA_F_NETWORKS && str_word(&rest, " \t", &w)) {
		if (config_network_parse(w, &net) != 1)
			continue;
		bool v4 = str_chr(w, ':') < 0;
		if (inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? net.addr + 12 : net.addr, z, sizeof z))
			check_fault(k, s, e, true, "%s: %.*s has bits behind its prefix; taken as %s/%u", o->name, STR_ARG(w), z,
			    v4 ? net.bits - 96u : net.bits);
	}
}

/* The first word of an option, or what the table has as default. */
static bool says(const struct config_section *s, const char *option, const char *word)
{
	const struct config_entry *e = check_entry(s, option);
	return e && str_ieq(str_from(e->v.value), str_from(word));
}

static bool loopback(const struct config_bind *b)
{
	return b->kind != CONFIG_BIND_TCP || config_networks_match("127.0.0.0/8 ::1", b->host);
}

static void check_certificates(struct check *k, const struct config_section *s)
{
	const struct config_entry *cert = NULL, *key = NULL, *protocol = check_entry(s, "PROTOCOL"), *ca = check_entry(s, "TLS_CLIENT_CA");
	const struct config_entry *want = check_entry(s, "TLS_CLIENT_CERT"), *versions = check_entry(s, "TLS_PROTOCOLS");
	size_t certs = 0, keys = 0;
	for (size_t i = 0; i < s->n; i++) {
		if (str_ieq(str_from(s->e[i].option), STR("TLS_CERT"))) {
			cert = &s->e[i];
			certs++;
		} else if (str_ieq(str_from(s->e[i].option), STR("TLS_KEY"))) {
			key = &s->e[i];
			keys++;
		}
	}
	if (certs > keys)
		check_fault(k, s, cert, false, "[%s] has a TLS_CERT without its TLS_KEY", s->name);
	else if (keys > certs)
		check_fault(k, s, key, false, "[%s] has a TLS_KEY without its TLS_CERT", s->name);
	else if (!certs && (says(s, "PROTOCOL", "submission") || says(s, "PROTOCOL", "submissions")))
		check_fault(k, s, protocol, false, "[%s] needs TLS_CERT and TLS_KEY: users sign in inside TLS only", s->name);
	bool asks = want && !says(s, "TLS_CLIENT_CERT", "none");
	if (asks && !ca)
		check_fault(k, s, want, false, "TLS_CLIENT_CERT = %s needs TLS_CLIENT_CA: whose certificates are to be believed?", want->v.value);
	else if (ca && !asks)
		check_fault(k, s, ca, true, "TLS_CLIENT_CA has no effect without TLS_CLIENT_CERT = ask or require");
	else if (asks && !certs)
		check_fault(k, s, want, false, "TLS_CLIENT_CERT = %s needs TLS_CERT and TLS_KEY", want->v.value);
	struct str rest = versions ? str_from(versions->v.value) : STR_NULL, w;
	if (versions && !str_word(&rest, " \t", &w))
		check_fault(k, s, versions, false, "TLS_PROTOCOLS is empty: no version of TLS is left");
}

static bool is_set_to(const struct config_section *s, const char *option, const char *value)
{
	const struct config_entry *e = check_entry(s, option);
	return e && str_ieq(str_from(e->v.value), str_from(value));
}

static bool recorded(const struct config_section *s, const char *method)
{
	const struct config_entry *protocol = check_entry(s, "PROTOCOL");
	bool smtp = !protocol || str_ieq(str_from(protocol->v.value), STR("smtp"));
	return check_entry(s, method) ? !is_set_to(s, method, "off") : smtp;
}

/* Options about the author of mail from outside that lead nowhere. */
static void check_authentication(struct check *k, const struct config_section *s)
{
	static const char *const methods[] = { "SPF", "DKIM", "DMARC", "ARC" };
	const struct config_entry *e;
	bool enforced = false, users = is_set_to(s, "PROTOCOL", "submission") || is_set_to(s, "PROTOCOL", "submissions") ||
	    is_set_to(s, "PROTOCOL", "local");
	for (size_t i = 0; i < 4; i++) {
		enforced |= is_set_to(s, methods[i], "enforce");
		if (users && (e = check_entry(s, methods[i])) && !is_set_to(s, methods[i], "off"))
			check_fault(k, s, e, true, "%s has no effect: mail of our own users is not looked at", methods[i]);
	}
	if ((e = check_entry(s, "QUARANTINE_STAGE")) && !is_set_to(s, "DMARC", "enforce"))
		check_fault(k, s, e, true, "QUARANTINE_STAGE has no effect without DMARC = enforce");
	if ((e = check_entry(s, "PUBLIC_SUFFIX_LIST")) && !recorded(s, "DMARC"))
		check_fault(k, s, e, true, "PUBLIC_SUFFIX_LIST has no effect without DMARC");
	if ((e = check_entry(s, "AUTHENTICATION_TEMPERROR")) && !enforced)
		check_fault(k, s, e, true, "AUTHENTICATION_TEMPERROR has no effect: nothing is enforced");
	if ((e = check_entry(s, "ARC_SEALERS")) && (!recorded(s, "ARC") || !recorded(s, "DMARC")))
		check_fault(k, s, e, true, "ARC_SEALERS has no effect without ARC and DMARC");
}

/* What a listener would do to strangers, or they to it. */
static void check_exposure(struct check *k, const struct config_section *s, const struct config_entry *bind)
{
	struct str rest = bind ? str_from(bind->v.value) : STR_NULL, w;
	struct config_bind b;
	bool lmtp = says(s, "PROTOCOL", "lmtp");
	while (str_word(&rest, " \t", &w)) {
		if (config_parse_bind(w, &b))
			continue;
		if (lmtp && b.kind == CONFIG_BIND_TCP && b.port == 25)
			check_fault(k, s, bind, false, "BIND = %.*s: LMTP must not be spoken on port 25 (RFC 2033 5)", STR_ARG(w));
		else if (lmtp && !loopback(&b))
			check_fault(k, s, bind, true, "BIND = %.*s: LMTP beyond this machine; clients outside RELAY_NETWORKS are turned away",
			    STR_ARG(w));
	}
	const struct config_entry *xclient = check_entry(s, "XCLIENT_FROM"), *proxy = check_entry(s, "PROXY_FROM");
	if (xclient && config_networks_match(xclient->v.value, "8.8.8.8"))
		check_fault(k, s, xclient, true, "XCLIENT_FROM covers strangers: any of them may pass for anybody");
	if (proxy && config_networks_match(proxy->v.value, "8.8.8.8"))
		check_fault(k, s, proxy, true, "PROXY_FROM covers strangers: any of them may pass for anybody");
}

void check_listener(struct check *k, const struct config_section *s)
{
	const struct config_entry *bind = check_entry(s, "BIND"), *mode = check_entry(s, "SOCKET_MODE"), *group = check_entry(s, "SOCKET_GROUP");
	check_certificates(k, s);
	struct str rest = bind ? str_from(bind->v.value) : STR_NULL, w;
	bool any = false, sockets = false;
	while (str_word(&rest, " \t", &w)) {
		any = true;
		sockets |= str_istarts(w, STR("unix:"));
	}
	if (bind && !any)
		check_fault(k, s, bind, false, "BIND is empty: nothing to listen on");
	if ((mode || group) && !sockets)
		check_fault(k, s, mode ? mode : group, true, "%s has no effect: BIND names no unix socket", mode ? "SOCKET_MODE" : "SOCKET_GROUP");
	check_exposure(k, s, bind);
	check_before_accept(k, s);
	check_signin_listener(k, s);
	check_authentication(k, s);
}

struct address {
	const struct config_section *s;
	const struct config_entry *e;
	unsigned char addr[16];
	bool v4, any, named; /* named: a unix socket or systemd's, told apart by its text; port is 0 */
	uint16_t port;
	size_t order; /* as they stand in the configuration */
	struct str text;
};

static int by_port(const void *a, const void *b)
{
	const struct address *x = a, *y = b;
	if (x->port != y->port)
		return x->port < y->port ? -1 : 1;
	if (x->named != y->named)
		return x->named ? -1 : 1;
	if (x->v4 != y->v4)
		return x->v4 ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* Two sockets that cannot be bound side by side: the same port, and the same address or a wildcard of its family. */
static bool clash(const struct address *a, const struct address *b)
{
	if (a->named || b->named)
		return a->named && b->named && str_eq(a->text, b->text);
	return a->port == b->port && a->v4 == b->v4 && (a->any || b->any || memcmp(a->addr, b->addr, sizeof a->addr) == 0);
}

static void collect(const struct config_section *s, const struct config_entry *e, struct address *all, size_t *n, size_t max)
{
	struct str rest = str_from(e->v.value), w;
	static const unsigned char zero[16];
	char host[64];
	while (*n < max && str_word(&rest, " \t", &w)) {
		struct address a = { .s = s, .e = e, .v4 = w.p[0] != '[', .text = w };
		struct config_bind b;
		if (!config_parse_bind(w, &b) && b.kind != CONFIG_BIND_TCP) {
			a.named = true;
			a.order = *n;
			all[(*n)++] = a;
			continue;
		}
		if (config_parse_hostport(w, host, sizeof host, &a.port) || inet_pton(a.v4 ? AF_INET : AF_INET6, host, a.addr) != 1)
			continue;
		a.any = memcmp(a.addr, zero, sizeof zero) == 0;
		a.order = *n;
		all[(*n)++] = a;
	}
}

/* a is reported, b shown as the one that has the address; a default gives way in the telling. */
static void report_clash(struct check *k, const struct address *a, const struct address *b)
{
	if (!a->e->v.file[0] && b->e->v.file[0]) {
		const struct address *t = a;
		a = b;
		b = t;
	}
	struct buf where = BUF_INIT(8192);
	if (b->e->v.file[0])
		buf_addf(&where, "at %s:%u", b->e->v.file, b->e->v.line);
	else
		buf_addz(&where, b->s->file ? "by the command line" : "by default");
	check_fault(k, a->s, a->e, false, "BIND = %.*s is taken: [%s] has %.*s %s", STR_ARG(a->text), b->s->name, STR_ARG(b->text),
	    buf_z(&where));
	buf_free(&where);
}

void check_addresses(struct check *k)
{
	enum { MAX = 4096 }; /* more sockets than any process may have by default */
	struct address *all = calloc(MAX, sizeof *all);
	size_t n = 0, listeners = 0;
	const struct schema_section *t_http = schema_find("pepsi-httpd");
	const struct config_section http = { .name = (char *)(uintptr_t)t_http->name };
	const char *http_bind = schema_option("pepsi-httpd", "BIND")->def;
	const struct config_entry http_default = { .v = { .value = http_bind, .file = "" } };
	if (!all) {
		config_fault_add(k->faults, "", 0, false, "memory is out");
		return;
	}
	for (size_t i = 0; i < k->c->n; i++) {
		const struct config_section *s = &k->c->s[i];
		const struct schema_section *t = schema_find(s->name);
		const struct config_entry *e = check_entry(s, "BIND");
		bool listener = t && strcmp(t->name, "listener-*") == 0;
		listeners += listener;
		if (e && t && schema_option(s->name, "BIND"))
			collect(s, e, all, &n, MAX);
	}
	if (!config_get(k->c, "pepsi-httpd", "BIND"))
		collect(&http, &http_default, all, &n, MAX);
	qsort(all, n, sizeof *all, by_port);
	for (size_t i = 1; i < n; i++)
		for (size_t j = i; j-- > 0 && all[j].port == all[i].port && all[j].v4 == all[i].v4;)
			if (clash(&all[j], &all[i])) {
				report_clash(k, &all[i], &all[j]);
				break;
			}
	if (!listeners)
		config_fault_add(k->faults, k->c->n_files ? k->c->files[0] : "", 0, true,
		    "there is no [listener-NAME]: no mail can come in");
	free(all);
}
