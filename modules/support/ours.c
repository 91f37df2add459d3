/* Networks, and whose mail it is (ours.h). */
#include "ours.h"
#include "say.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

/* 0 and the address with its length in bits, or -1. */
static int network(struct str word, unsigned char out[16], int *family, unsigned *bits)
{
	char text[64];
	ptrdiff_t slash = str_chr(word, '/');
	struct str address = slash < 0 ? word : str_n(word.p, (size_t)slash);
	uint64_t n;
	if (address.n && address.p[0] == '[' && address.p[address.n - 1] == ']')
		address = str_n(address.p + 1, address.n - 2);
	if (!address.n || address.n >= sizeof text)
		return -1;
	snprintf(text, sizeof text, "%.*s", STR_ARG(address));
	*family = strchr(text, ':') ? AF_INET6 : AF_INET;
	if (inet_pton(*family, text, out) != 1)
		return -1;
	*bits = *family == AF_INET6 ? 128 : 32;
	if (slash >= 0 && str_u64(str_skip(word, (size_t)slash + 1), *bits, &n))
		return -1;
	if (slash >= 0)
		*bits = (unsigned)n;
	return 0;
}

static bool within(const unsigned char *a, const unsigned char *net, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;
	return !memcmp(a, net, whole) && (!rest || !((a[whole] ^ net[whole]) >> (8 - rest)));
}

bool ours_network(struct str networks, const char *address)
{
	unsigned char a[16] = { 0 }, n[16] = { 0 };
	int fa, fn;
	unsigned whole, bits;
	struct str word;
	if (network(str_from(address), a, &fa, &whole))
		return false;
	while (str_word(&networks, " \t,", &word))
		if (!network(word, n, &fn, &bits) && fn == fa && within(a, n, bits))
			return true;
	return false;
}

const char *ours_network_wrong(const char *networks, size_t *ret_n)
{
	struct str rest = str_from(networks), word;
	unsigned char a[16];
	int family;
	unsigned bits;
	while (str_word(&rest, " \t,", &word))
		if (!str_ieq(word, STR("unix")) && network(word, a, &family, &bits)) {
			*ret_n = word.n;
			return word.p;
		}
	return NULL;
}

static bool names_unix(struct str networks)
{
	struct str word;
	while (str_word(&networks, " \t,", &word))
		if (str_ieq(word, STR("unix")))
			return true;
	return false;
}

bool ours_signed_in(const struct pepsi_host *host, struct pepsi_msg *msg)
{
	struct pepsi_str s;
	return host->state_get(msg, "origin.account", &s) == PEPSI_OK && s.n;
}

bool ours_sent(const struct pepsi_host *host, struct pepsi_msg *msg, const char *networks)
{
	struct pepsi_str s;
	char ip[64];
	if (ours_signed_in(host, msg))
		return true;
	struct str list = str_from(networks ? networks : "");
	bool has_ip = host->state_get(msg, "origin.ip", &s) == PEPSI_OK && s.n;
	if (!has_ip) /* made here: by the bounce stage, a report, another module */
		return host->state_get(msg, "origin.listener", &s) != PEPSI_OK;
	if (str_eq(str_n(s.p, s.n), STR("unix")))
		return names_unix(list);
	if (s.n >= sizeof ip)
		return false;
	snprintf(ip, sizeof ip, "%.*s", (int)s.n, s.p);
	return ours_network(list, ip);
}
