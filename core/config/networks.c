/* Lists of networks and of domains: parsed once, asked often (each session, each recipient). Addresses are compared as
 * 128 bits, IPv4 inside ::ffff:0:0/96; domains as lower-case A-labels in a sorted array. */
#include "config_internal.h"

#include <arpa/inet.h>
#include <idn2.h>
#include <stdlib.h>

/* An address in text to 16 octets. *ret_v4: it was written as IPv4. */
static int address_parse(struct str s, uint8_t out[16], bool *ret_v4)
{
	char z[64];
	ptrdiff_t scope = str_chr(s, '%'); /* fe80::1%eth0: the interface is no part of the address */
	if (scope > 0)
		s.n = (size_t)scope;
	if (s.n && s.p[0] == '[' && s.p[s.n - 1] == ']')
		s = str_n(s.p + 1, s.n - 2);
	if (!s.n || s.n >= sizeof z)
		return -1;
	memcpy(z, s.p, s.n);
	z[s.n] = 0;
	memset(out, 0, 10);
	out[10] = out[11] = 0xff;
	*ret_v4 = inet_pton(AF_INET, z, out + 12) == 1;
	return *ret_v4 || inet_pton(AF_INET6, z, out) == 1 ? 0 : -1;
}

int config_network_parse(struct str word, struct config_network *ret)
{
	struct config_network n;
	ptrdiff_t slash = str_chr(word, '/');
	uint64_t bits;
	bool v4, loose = false;
	if (str_ieq(word, STR("unix"))) {
		*ret = (struct config_network){ .bits = CONFIG_NETWORK_UNIX };
		return 0;
	}
	if (address_parse(slash < 0 ? word : str_n(word.p, (size_t)slash), n.addr, &v4))
		return -1;
	bits = v4 ? 32 : 128;
	if (slash >= 0 && str_u64(str_skip(word, (size_t)slash + 1), bits, &bits))
		return -1;
	n.bits = (uint8_t)(v4 ? bits + 96 : bits);
	for (unsigned i = n.bits; i < 128; i++) {
		uint8_t bit = (uint8_t)(0x80 >> (i % 8));
		loose |= (n.addr[i / 8] & bit) != 0;
		n.addr[i / 8] &= (uint8_t)~bit;
	}
	*ret = n;
	return loose;
}

/* The address as networks are compared: unix ("unix" is none of the internet's) or 16 octets. */
struct place {
	uint8_t addr[16];
	bool local;
};

static int place_parse(const char *address, struct place *ret)
{
	bool v4;
	ret->local = address && strcmp(address, "unix") == 0;
	return !address || (!ret->local && address_parse(str_from(address), ret->addr, &v4)) ? -1 : 0;
}

static bool inside(const struct config_network *n, const struct place *p)
{
	if (p->local || n->bits == CONFIG_NETWORK_UNIX)
		return p->local && n->bits == CONFIG_NETWORK_UNIX;
	const uint8_t *addr = p->addr;
	unsigned octets = n->bits / 8, rest = n->bits % 8;
	if (memcmp(n->addr, addr, octets) != 0)
		return false;
	return !rest || ((n->addr[octets] ^ addr[octets]) & (uint8_t)(0xff00 >> rest)) == 0;
}

struct config_networks {
	size_t n;
	struct config_network net[];
};

static size_t count_words(struct str s)
{
	struct str w;
	size_t n = 0;
	while (str_word(&s, " \t", &w))
		n++;
	return n;
}

struct config_networks *config_networks_new(const char *networks)
{
	struct str rest = str_from(networks), w;
	size_t n = count_words(rest);
	struct config_networks *ret = calloc(1, sizeof *ret + n * sizeof *ret->net);
	while (ret && str_word(&rest, " \t", &w))
		if (config_network_parse(w, &ret->net[ret->n]) >= 0)
			ret->n++;
	return ret;
}

void config_networks_free(struct config_networks *n)
{
	free(n);
}

bool config_networks_has(const struct config_networks *n, const char *address)
{
	struct place p;
	if (!n || place_parse(address, &p))
		return false;
	for (size_t i = 0; i < n->n; i++)
		if (inside(&n->net[i], &p))
			return true;
	return false;
}

bool config_networks_match(const char *networks, const char *address)
{
	struct str rest = str_from(networks), w;
	struct config_network n;
	struct place p;
	if (place_parse(address, &p))
		return false;
	while (str_word(&rest, " \t", &w))
		if (config_network_parse(w, &n) >= 0 && inside(&n, &p))
			return true;
	return false;
}

int config_domain_fold(struct str domain, char *out, size_t size)
{
	char *ace = NULL;
	if (domain.n && domain.p[domain.n - 1] == '.')
		domain.n--;
	if (!domain.n || domain.n > CONFIG_DOMAIN_MAX * 4 || memchr(domain.p, 0, domain.n))
		return -1;
	if (!str_is_ascii(domain)) {
		char *z = str_dupz(domain);
		int err = z ? idn2_lookup_u8((const uint8_t *)z, (uint8_t **)&ace, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL) : -1;
		free(z);
		if (err)
			return -1;
		domain = str_from(ace);
	}
	bool good = domain.n && domain.n <= CONFIG_DOMAIN_MAX && domain.n < size;
	for (size_t i = 0; good && i < domain.n; i++) {
		char c = domain.p[i];
		good = c > ' ' && c != 127;
		out[i] = ascii_lower(c);
	}
	if (good)
		out[domain.n] = 0;
	if (ace)
		idn2_free(ace);
	return good ? 0 : -1;
}

int config_domain_pattern(struct str word, char *out, size_t size)
{
	bool wild = str_starts(word, STR("*."));
	if (size < 3 || config_domain_fold(wild ? str_skip(word, 2) : word, wild ? out + 1 : out, size - 1))
		return -1;
	char *name = wild ? out + 1 : out;
	if (wild)
		out[0] = '.'; /* ".example.org": a suffix to look for */
	if (name[0] == '[') /* an address literal, RFC 5321 §4.1.3 */
		return wild || strchr(name, ']') != name + strlen(name) - 1 ? -1 : 0;
	for (const char *p = name; *p; p++) {
		bool in_label = (*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || *p == '-' || *p == '_';
		if (!in_label && (*p != '.' || p == name || p[1] == '.' || !p[1]))
			return -1;
	}
	return 0;
}

struct config_domains {
	size_t n;
	char *name[]; /* sorted; with a leading '.': subdomains of it */
};

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

struct config_domains *config_domains_new(const char *domains)
{
	char one[CONFIG_DOMAIN_MAX + 2];
	struct str rest = str_from(domains), w;
	struct config_domains *d = calloc(1, sizeof *d + count_words(rest) * sizeof *d->name);
	while (d && str_word(&rest, " \t", &w)) {
		if (config_domain_pattern(w, one, sizeof one))
			continue;
		if (!(d->name[d->n] = str_dupz(str_from(one)))) {
			config_domains_free(d);
			return NULL;
		}
		d->n++;
	}
	if (d)
		qsort(d->name, d->n, sizeof *d->name, compare);
	return d;
}

void config_domains_free(struct config_domains *d)
{
	for (size_t i = 0; d && i < d->n; i++)
		free(d->name[i]);
	free(d);
}

bool config_domains_has(const struct config_domains *d, struct str domain)
{
	char folded[CONFIG_DOMAIN_MAX + 1], *key = folded;
	if (!d || !d->n || config_domain_fold(domain, folded, sizeof folded) || folded[0] == '.')
		return false;
	if (bsearch(&key, d->name, d->n, sizeof *d->name, compare))
		return true;
	for (char *dot = strchr(folded, '.'); dot; dot = strchr(dot + 1, '.'))
		if (bsearch(&dot, d->name, d->n, sizeof *d->name, compare))
			return true;
	return false;
}

bool config_domains_match(const char *domains, struct str domain)
{
	char folded[CONFIG_DOMAIN_MAX + 1], one[CONFIG_DOMAIN_MAX + 2];
	struct str rest = str_from(domains), w;
	if (config_domain_fold(domain, folded, sizeof folded) || folded[0] == '.')
		return false;
	while (str_word(&rest, " \t", &w)) {
		if (config_domain_pattern(w, one, sizeof one))
			continue;
		if (one[0] == '.' ? str_iends(str_from(folded), str_from(one)) : strcmp(one, folded) == 0)
			return true;
	}
	return false;
}
