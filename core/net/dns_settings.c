/* Settings of the resolver: addresses of servers, resolv.conf, and the options of [pepsi-dns] through whoever can see them. */
#include "dns_internal.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	DNS_PORT = 53,
	RESOLV_MAX = 64 * 1024,
	TIMEOUT_US = 2 * 1000 * 1000,
	ATTEMPTS = 2,
	/* resolv.conf is written for programs that may wait; more than this no session waits for one attempt */
	RESOLV_TIMEOUT_MAX_S = 10,
	RESOLV_ATTEMPTS_MAX = 5,
};

static bool set_v4(struct net_dns_server *s, const char *host, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	if (inet_pton(AF_INET, host, &in.sin_addr) != 1)
		return false;
	memcpy(&s->ss, &in, sizeof in);
	s->n = sizeof in;
	s->loopback = (ntohl(in.sin_addr.s_addr) >> 24) == 127;
	snprintf(s->text, sizeof s->text, "%s:%u", host, port);
	return true;
}

static bool set_v6(struct net_dns_server *s, const char *host, uint16_t port)
{
	struct sockaddr_in6 in = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	char z[INET6_ADDRSTRLEN];
	if (inet_pton(AF_INET6, host, &in.sin6_addr) != 1 || !inet_ntop(AF_INET6, &in.sin6_addr, z, sizeof z))
		return false;
	memcpy(&s->ss, &in, sizeof in);
	s->n = sizeof in;
	s->loopback = IN6_IS_ADDR_LOOPBACK(&in.sin6_addr);
	snprintf(s->text, sizeof s->text, "[%s]:%u", z, port);
	return true;
}

int net_dns_server_parse(struct str word, struct net_dns_server *ret)
{
	char host[INET6_ADDRSTRLEN + 1];
	struct net_dns_server s = { .n = 0 };
	uint64_t port = DNS_PORT;
	struct str address = word;
	bool bracket = word.n && word.p[0] == '[';
	ptrdiff_t colon = str_chr(word, ':'), close = str_chr(word, ']');
	if (bracket) {
		if (close < 0)
			return -1;
		address = str_n(word.p + 1, (size_t)close - 1);
		struct str rest = str_skip(word, (size_t)close + 1);
		if (rest.n && (rest.p[0] != ':' || str_u64(str_skip(rest, 1), 65535, &port)))
			return -1;
	} else if (colon >= 0 && str_chr(str_skip(word, (size_t)colon + 1), ':') < 0) { /* just one: a port */
		address = str_n(word.p, (size_t)colon);
		if (str_u64(str_skip(word, (size_t)colon + 1), 65535, &port))
			return -1;
	}
	if (!port || !address.n || address.n >= sizeof host || memchr(address.p, 0, address.n))
		return -1;
	memcpy(host, address.p, address.n);
	host[address.n] = 0;
	if (!(!bracket && set_v4(&s, host, (uint16_t)port)) && !set_v6(&s, host, (uint16_t)port))
		return -1;
	*ret = s;
	return 0;
}

static void add_server(struct net_dns_settings *s, struct str word)
{
	struct net_dns_server one;
	if (s->n_servers == NET_DNS_SERVERS_MAX || net_dns_server_parse(word, &one)) /* a zone ("fe80::1%eth0") is not taken */
		return;
	for (unsigned i = 0; i < s->n_servers; i++)
		if (strcmp(s->server[i].text, one.text) == 0)
			return;
	s->server[s->n_servers++] = one;
}

static void option(struct net_dns_settings *s, struct str word)
{
	uint64_t v;
	if (str_starts(word, STR("timeout:")) && !str_u64(str_skip(word, 8), 1000, &v) && v && !s->timeout_us)
		s->timeout_us = (int64_t)(v < RESOLV_TIMEOUT_MAX_S ? v : RESOLV_TIMEOUT_MAX_S) * US_PER_S;
	else if (str_starts(word, STR("attempts:")) && !str_u64(str_skip(word, 9), 1000, &v) && v && !s->attempts)
		s->attempts = (unsigned)(v < RESOLV_ATTEMPTS_MAX ? v : RESOLV_ATTEMPTS_MAX);
}

void net_dns_resolv_parse(struct str text, struct net_dns_settings *s)
{
	struct str line, word;
	while (str_word(&text, "\n", &line)) {
		if (line.p[0] == '#' || line.p[0] == ';' || !str_word(&line, " \t\r", &word))
			continue;
		if (str_eq(word, STR("nameserver")) && str_word(&line, " \t\r", &word))
			add_server(s, word);
		else if (str_eq(word, STR("options")))
			while (str_word(&line, " \t\r", &word))
				option(s, word);
	}
}

int dns_resolv_load(struct net_dns_settings *s, struct timespec *ret_time, uint64_t *ret_inode)
{
	static char text[RESOLV_MAX];
	struct stat st = { .st_size = 0 };
	size_t n = 0;
	int fd = open(s->resolv_conf, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool good = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	for (ssize_t got = 1; good && got > 0 && n < sizeof text; n += got > 0 ? (size_t)got : 0)
		got = read(fd, text + n, sizeof text - n);
	if (fd >= 0)
		close(fd);
	*ret_time = st.st_mtim;
	*ret_inode = st.st_ino;
	s->n_servers = 0;
	net_dns_resolv_parse(str_n(text, n), s);
	if (!s->n_servers)
		add_server(s, STR("127.0.0.1"));
	return good ? 0 : -1;
}

static int read_servers(struct net_dns_settings *s, const char *servers, char *err, size_t err_size)
{
	struct str rest = str_from(servers), w;
	struct net_dns_server one;
	while (str_word(&rest, " \t,", &w)) {
		if (net_dns_server_parse(w, &one)) {
			snprintf(err, err_size, "SERVERS: %.*s is no address of a server: expected 192.0.2.1, 192.0.2.1:5353 or [2001:db8::1]:53",
			    STR_ARG(w));
			return -1;
		}
		if (s->n_servers == NET_DNS_SERVERS_MAX) {
			snprintf(err, err_size, "SERVERS: more than %d", NET_DNS_SERVERS_MAX);
			return -1;
		}
		add_server(s, w);
	}
	return 0;
}

/* The resolving child is the one server there is: it forwards to the others, if there are any. */
static int read_child(struct net_dns_settings *s, const char *path, char *err, size_t err_size)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct net_dns_server child = { .n = sizeof sun, .loopback = true, .local = true, .text = "libunbound" };
	if (!path || strlen(path) >= sizeof sun.sun_path) {
		snprintf(err, err_size, "BACKEND = libunbound: the state folder's name is too long for a socket");
		return -1;
	}
	memcpy(sun.sun_path, path, strlen(path));
	memcpy(&child.ss, &sun, sizeof sun);
	s->server[s->n_servers++] = child;
	return 0;
}

int net_dns_settings_read(struct net_dns_settings *ret, const struct net_dns_source *src, char *err, size_t err_size)
{
	struct timespec when;
	uint64_t inode;
	struct net_dns_settings s = { .trust_ad = src->number(src->arg, "TRUST_AD"), .random_case = src->number(src->arg, "RANDOM_CASE"),
		.timeout_us = src->number(src->arg, "TIMEOUT"), .attempts = (unsigned)src->number(src->arg, "ATTEMPTS"),
		.lookup_us = src->number(src->arg, "LOOKUP_DEADLINE"), .message_us = src->number(src->arg, "MESSAGE_DEADLINE"),
		.max_queries = (unsigned)src->number(src->arg, "MAX_QUERIES"), .max_in_flight = (unsigned)src->number(src->arg, "MAX_IN_FLIGHT"),
		.cache_octets = (size_t)src->number(src->arg, "CACHE_SIZE"), .cache_entries = (size_t)src->number(src->arg, "CACHE_ENTRIES"),
		.max_ttl = (uint32_t)(src->number(src->arg, "MAX_TTL") / US_PER_S),
		.max_negative_ttl = (uint32_t)(src->number(src->arg, "MAX_NEGATIVE_TTL") / US_PER_S) };
	const char *servers = src->text(src->arg, "SERVERS"), *file = src->text(src->arg, "RESOLV_CONF"), *backend = src->text(src->arg, "BACKEND");
	bool child = backend && strcmp(backend, "libunbound") == 0;
	if (child && read_child(&s, src->text(src->arg, "SOCKET"), err, err_size))
		return -1;
	if (servers && !child && read_servers(&s, servers, err, err_size))
		return -1;
	if (!s.n_servers) {
		int n = snprintf(s.resolv_conf, sizeof s.resolv_conf, "%s", file ? file : "/etc/resolv.conf");
		if (n < 0 || (size_t)n >= sizeof s.resolv_conf) {
			snprintf(err, err_size, "RESOLV_CONF: the path is too long");
			return -1;
		}
		dns_resolv_load(&s, &when, &inode);
	}
	if (!s.timeout_us)
		s.timeout_us = TIMEOUT_US;
	if (!s.attempts)
		s.attempts = ATTEMPTS;
	*ret = s;
	return 0;
}
