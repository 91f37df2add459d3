/* Looking things up in the option tables, and the one parser of single values by their type: used for our sections,
 * for the overlay and for modules' options alike. */
#include "schema.h"
#include "config_internal.h"
#include "proto/dns/dnsbl.h"
#include "proto/smtp/address.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdlib.h>

/* "listener-*" takes listener-mx, but neither "listener-" nor "listener". */
static bool pattern_covers(const char *pattern, const char *name)
{
	struct str p = str_from(pattern), n = str_from(name);
	if (!p.n || p.p[p.n - 1] != '*')
		return str_ieq(p, n);
	return n.n >= p.n && str_istarts(n, str_n(p.p, p.n - 1));
}

const struct schema_section *schema_find(const char *section)
{
	size_t n;
	const struct schema_section *s = schema_sections(&n);
	for (size_t i = 0; i < n; i++)
		if (pattern_covers(s[i].name, section))
			return &s[i];
	return NULL;
}

bool schema_covers(const struct pepsi_option *o, const char *name)
{
	struct str p = str_from(o->name), n = str_from(name);
	if (o->type == PEPSI_OPT_MULTI && p.n && p.p[p.n - 1] == '*')
		return str_istarts(n, str_n(p.p, p.n - 1));
	return str_ieq(p, n);
}

const struct pepsi_option *schema_option(const char *section, const char *option)
{
	const struct schema_section *s = schema_find(section);
	for (size_t i = 0; s && i < s->n_options; i++)
		if (schema_covers(&s->options[i], option))
			return &s->options[i];
	return NULL;
}

void module_info_free(struct module_info *m)
{
	if (!m)
		return;
	for (size_t i = 0; m->options && i < m->n_options; i++) {
		free((char *)(uintptr_t)m->options[i].name);
		free((char *)(uintptr_t)m->options[i].def);
		free((char *)(uintptr_t)m->options[i].choices);
		free((char *)(uintptr_t)m->options[i].help);
	}
	free(m->options);
	free(m->name);
	free(m->version);
	free(m->license);
	free(m->summary);
	free(m->path);
	free(m->error);
	*m = (struct module_info){ 0 };
}

void schema_value_fold(const struct pepsi_option *o, char *value)
{
	if (o->type == PEPSI_OPT_CHOICE || o->type == PEPSI_OPT_STAGE)
		ascii_lower_z(value);
}

/* The flags of our tables; what a module wrote into the same bits means nothing. */
static uint32_t own_flags(const struct pepsi_option *o)
{
	size_t n;
	const struct schema_section *s = schema_sections(&n);
	for (size_t i = 0; i < n; i++)
		if (o >= s[i].options && o < s[i].options + s[i].n_options)
			return o->flags;
	return 0;
}

static void say(struct buf *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(struct buf *why, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (why)
		buf_vaddf(why, fmt, ap);
	va_end(ap);
}

static void amount(struct buf *why, const struct pepsi_option *o, int64_t v)
{
	static const struct {
		const char *name;
		int64_t factor;
	} time[] = { { " d", 86400000000 }, { " h", 3600000000 }, { " min", 60000000 }, { " s", 1000000 }, { " ms", 1000 }, { " us", 1 } },
	  size[] = { { " GiB", 1 << 30 }, { " MiB", 1 << 20 }, { " KiB", 1 << 10 }, { " B", 1 } };
	if (o->type == PEPSI_OPT_DURATION && v) {
		unsigned i = 0;
		v *= own_flags(o) & SCHEMA_F_US ? 1 : 1000000;
		while (v % time[i].factor)
			i++;
		say(why, "%" PRId64 "%s", v / time[i].factor, time[i].name);
	} else if (o->type == PEPSI_OPT_SIZE && v) {
		unsigned i = 0;
		while (v % size[i].factor)
			i++;
		say(why, "%" PRId64 "%s", v / size[i].factor, size[i].name);
	} else {
		say(why, "%" PRId64, v);
	}
}

static int number(const struct pepsi_option *o, struct str s, int64_t *ret, struct buf *why)
{
	int64_t v = 0;
	uint64_t u;
	int err;
	bool minus = s.n > 1 && s.p[0] == '-';
	switch (o->type) {
	case PEPSI_OPT_BOOL:
		if ((err = config_parse_bool(s, &v)))
			say(why, "expected YES or NO, found \"%.*s\"", STR_ARG(s));
		break;
	case PEPSI_OPT_DURATION:
		err = own_flags(o) & SCHEMA_F_US ? config_parse_duration_us(s, &v) : config_parse_duration(s, &v);
		if (err)
			say(why, "expected a duration such as %s, found \"%.*s\"",
			    own_flags(o) & SCHEMA_F_US ? "\"5 ms\" or \"2 s\"" : "\"30 s\", \"5 min\", \"1 h\" or \"2 d\"", STR_ARG(s));
		break;
	case PEPSI_OPT_SIZE:
		if ((err = config_parse_size(s, &v)))
			say(why, "expected a size such as \"64 KiB\", \"50 MiB\" or \"1 GiB\", found \"%.*s\"", STR_ARG(s));
		break;
	default:
		if ((err = str_u64(minus ? str_skip(s, 1) : s, INT64_MAX, &u)))
			say(why, "expected a number, found \"%.*s\"", STR_ARG(s));
		else
			v = minus ? -(int64_t)u : (int64_t)u;
		break;
	}
	if (err)
		return -1;
	if (o->type != PEPSI_OPT_BOOL && (o->min || o->max) && (v < o->min || v > o->max)) {
		say(why, "%.*s is out of range: ", STR_ARG(s));
		amount(why, o, o->min);
		say(why, " to ");
		amount(why, o, o->max);
		return -1;
	}
	*ret = v;
	return 0;
}

static bool among(const char *choices, struct str s)
{
	struct str rest = str_from(choices), w;
	while (str_word(&rest, " ", &w))
		if (str_ieq(w, s))
			return true;
	return false;
}

static int choice(const struct pepsi_option *o, struct str s, struct buf *why)
{
	const char *names[32], *near;
	char words[1024];
	size_t n = 0;
	if (!o->choices || among(o->choices, s))
		return 0;
	say(why, "\"%.*s\" is none of: %s", STR_ARG(s), o->choices);
	/* names for str_nearest are NUL-terminated */
	struct str rest = str_from(o->choices), w;
	if (rest.n >= sizeof words)
		return -1;
	memcpy(words, rest.p, rest.n + 1);
	rest.p = words;
	while (n < 32 && str_word(&rest, " ", &w)) {
		words[w.p + w.n - words] = 0;
		names[n++] = w.p;
		rest = str_skip(rest, 1);
	}
	if ((near = str_nearest(s, names, n)))
		say(why, "; did you mean %s?", near);
	return -1;
}

static int bind_word(const struct pepsi_option *o, struct str w, struct buf *why)
{
	unsigned char addr[16];
	struct config_bind b;
	bool sockets = own_flags(o) & SCHEMA_F_SOCKETS;
	if (config_parse_bind(w, &b) || (b.kind == CONFIG_BIND_TCP ? !b.port : !sockets)) {
		say(why, "expected ADDRESS:PORT such as 127.0.0.1:25 or [::1]:25%s, found \"%.*s\"",
		    sockets ? ", unix:/PATH or systemd:NAME" : "", STR_ARG(w));
		return -1;
	}
	if (b.kind == CONFIG_BIND_TCP && inet_pton(w.p[0] == '[' ? AF_INET6 : AF_INET, b.host, addr) != 1) {
		say(why, "\"%s\" is no numeric address", b.host);
		return -1;
	}
	return 0;
}

/* 192.0.2.1, 192.0.2.1:5353, 2001:db8::1, [2001:db8::1] or [2001:db8::1]:53 */
static int server_word(struct str w, struct buf *why)
{
	unsigned char addr[16];
	char host[INET6_ADDRSTRLEN + 8];
	struct str address = w;
	uint64_t port = 53;
	ptrdiff_t colon = str_chr(w, ':'), close = str_chr(w, ']');
	bool bracket = w.n && w.p[0] == '[', good = true;
	if (bracket) {
		struct str rest = str_skip(w, (size_t)close + 1);
		good = close > 0 && (!rest.n || (rest.p[0] == ':' && !str_u64(str_skip(rest, 1), 65535, &port)));
		address = str_n(w.p + 1, good ? (size_t)close - 1 : 0);
	} else if (colon >= 0 && str_chr(str_skip(w, (size_t)colon + 1), ':') < 0) {
		address = str_n(w.p, (size_t)colon);
		good = !str_u64(str_skip(w, (size_t)colon + 1), 65535, &port);
	}
	good = good && port && address.n && address.n < sizeof host && !memchr(address.p, 0, address.n);
	if (good) {
		memcpy(host, address.p, address.n);
		host[address.n] = 0;
		good = inet_pton(str_chr(address, ':') >= 0 ? AF_INET6 : AF_INET, host, addr) == 1 && (!bracket || str_chr(address, ':') >= 0);
	}
	if (!good)
		say(why, "\"%.*s\" is no address of a server; write 192.0.2.1, 192.0.2.1:5353, 2001:db8::1 or [2001:db8::1]:5353", STR_ARG(w));
	return good ? 0 : -1;
}

static int recipients_word(struct str w, struct buf *why)
{
	static const char *const words[] = { "any", "table", "aliases", "system" };
	if (str_istarts(w, STR("file:")) && w.n > 5)
		return 0;
	if (str_istarts(w, STR("stage:")) && w.n > 6)
		return 0; /* check_recipients() looks at the stage */
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (str_ieq(w, str_from(words[i])))
			return 0;
	say(why, "\"%.*s\" is no source of recipients; write any, table, aliases, system, file:/PATH or stage:NAME", STR_ARG(w));
	return -1;
}

static int dns_list_word(struct str w, bool allow, struct buf *why)
{
	struct dnsbl_list l;
	const char *bad;
	if (dnsbl_parse(w, allow, &l, &bad) == 0)
		return 0;
	say(why, "\"%.*s\": %s", STR_ARG(w), bad);
	return -1;
}

static int list_word(const struct pepsi_option *o, struct str w, struct buf *why)
{
	char domain[CONFIG_DOMAIN_MAX + 2];
	struct config_network net;
	if (own_flags(o) & SCHEMA_F_NETWORKS && config_network_parse(w, &net) < 0) {
		say(why, "\"%.*s\" is no network; write 192.0.2.0/24, 2001:db8::/32, an address or unix", STR_ARG(w));
		return -1;
	}
	if (own_flags(o) & SCHEMA_F_DOMAINS && str_eq(w, STR("*"))) {
		say(why, "\"*\" would take mail for the whole world from anyone; name the domains");
		return -1;
	}
	if (own_flags(o) & SCHEMA_F_DOMAINS && config_domain_pattern(w, domain, sizeof domain)) {
		say(why, "\"%.*s\" is no domain; write example.org or *.example.org", STR_ARG(w));
		return -1;
	}
	if (own_flags(o) & SCHEMA_F_BIND)
		return bind_word(o, w, why);
	if (own_flags(o) & SCHEMA_F_SERVERS)
		return server_word(w, why);
	if (own_flags(o) & SCHEMA_F_RECIPIENTS)
		return recipients_word(w, why);
	if (own_flags(o) & (SCHEMA_F_DNSBL | SCHEMA_F_DNSWL))
		return dns_list_word(w, own_flags(o) & SCHEMA_F_DNSWL, why);
	return choice(o, w, why);
}

/* All words are looked at, and all that are wrong are named. */
static int list(const struct pepsi_option *o, struct str rest, struct buf *why)
{
	struct str w;
	int ret = 0;
	while (str_word(&rest, " \t", &w)) {
		struct buf one = BUF_INIT(1024);
		if (list_word(o, w, why ? &one : NULL)) {
			say(why, "%s%s", ret ? "; " : "", buf_z(&one));
			ret = -1;
		}
		buf_free(&one);
	}
	return ret;
}

/* RFC 5321 §4.1.2 Domain: letters, digits and inner hyphens; IDNs by their A-labels. */
static int mailbox(struct str s, struct buf *why)
{
	struct smtp_address a;
	int fault = smtp_address_parse(s, false, &a);
	if (!fault && a.domain.n && !a.literal)
		return 0;
	say(why, "expected an address such as postmaster@example.org");
	return -1;
}

static int hostname(struct str s, struct buf *why)
{
	char z[CONFIG_DOMAIN_MAX + 1];
	bool good = config_domain_fold(s, z, sizeof z) == 0;
	struct str rest = good ? str_from(z) : STR_NULL;
	while (good) {
		ptrdiff_t dot = str_chr(rest, '.');
		struct str label = dot < 0 ? rest : str_n(rest.p, (size_t)dot);
		good = label.n && label.n <= 63 && label.p[0] != '-' && label.p[label.n - 1] != '-';
		for (size_t i = 0; good && i < label.n; i++)
			good = (label.p[i] >= 'a' && label.p[i] <= 'z') || (label.p[i] >= '0' && label.p[i] <= '9') || label.p[i] == '-';
		if (dot < 0)
			break;
		rest = str_skip(rest, (size_t)dot + 1);
	}
	if (!good)
		say(why, "\"%.*s\" is no host name; expected something like mx.example.org", STR_ARG(s));
	return good ? 0 : -1;
}

int schema_value(const struct config *c, const struct pepsi_option *o, const char *value, int64_t *ret, struct buf *why)
{
	struct str s = str_from(value);
	char *path;
	if (!s.n && o->type != PEPSI_OPT_STRING && o->type != PEPSI_OPT_LIST && o->type != PEPSI_OPT_MULTI) {
		say(why, "the value is empty");
		return -1;
	}
	switch (o->type) {
	case PEPSI_OPT_INT:
	case PEPSI_OPT_BOOL:
	case PEPSI_OPT_DURATION:
	case PEPSI_OPT_SIZE:
		return number(o, s, ret, why);
	case PEPSI_OPT_CHOICE:
		return choice(o, s, why);
	case PEPSI_OPT_PATH:
		path = config_expand(c, value, why);
		free(path);
		return path ? 0 : -1;
	case PEPSI_OPT_LIST:
		/* the way to say that a service is not wanted */
		if (own_flags(o) & SCHEMA_F_BIND && !(o->flags & PEPSI_OPTF_REQUIRED) && str_ieq(s, STR("none")))
			return 0;
		return list(o, s, why);
	case PEPSI_OPT_STRING:
		return own_flags(o) & SCHEMA_F_HOSTNAME ? hostname(s, why) : own_flags(o) & SCHEMA_F_MAILBOX ? mailbox(s, why) : 0;
	default: /* STAGE, SECRET, MULTI: any text; references are followed by the check */
		return 0;
	}
}
