/* Authors of a message (authors.h). */
#include "authors.h"
#include "proto/mail/addrlist.h"
#include "proto/mail/header.h"
#include "proto/smtp/address.h"

#include <arpa/inet.h>
#include <stdio.h>

static void add(struct authors *a, struct str domain)
{
	struct buf ascii = BUF_INIT(300);
	/* checked, too: it becomes the name of a folder, and a dot-atom may hold a '/' */
	if (smtp_domain_to_ascii(domain, &ascii) || smtp_domain_check(buf_str(&ascii), false) || ascii.n >= sizeof a->domain[0]) {
		a->why = "an author's domain is none";
		buf_free(&ascii);
		return;
	}
	bool known = false;
	for (size_t i = 0; i < a->n; i++)
		known |= !strcmp(a->domain[i], buf_z(&ascii));
	if (!known && a->n == AUTHORS_MAX)
		a->why = "its From names too many domains";
	else if (!known)
		snprintf(a->domain[a->n++], sizeof a->domain[0], "%s", buf_z(&ascii));
	buf_free(&ascii);
}

static void field(struct authors *a, struct str value)
{
	struct mail_addrlist l;
	if (mail_addrlist_parse(&l, value)) {
		a->why = "its From field is beyond all limits";
		mail_addrlist_free(&l);
		return;
	}
	if (l.bad)
		a->why = "its From field is none that a grammar allows";
	for (size_t i = 0; i < l.n; i++) {
		if (l.item[i].kind != MAIL_ADDR_MAILBOX)
			continue;
		if (!l.item[i].valid || l.item[i].literal)
			a->why = l.item[i].valid ? "an author has no domain" : "an author's address is none";
		else
			add(a, l.item[i].domain);
	}
	mail_addrlist_free(&l);
}

void authors_read(struct str headers, struct authors *ret)
{
	struct mail_field f;
	size_t n = 0;
	memset(ret, 0, sizeof *ret);
	for (int r; (r = mail_field_next(&headers, &f)) != 0;)
		if (r > 0 && str_ieq(f.name, STR("From"))) {
			if (++n > AUTHORS_MAX)
				break;
			field(ret, f.value);
		}
	if (n > 1)
		ret->why = "it has several From fields";
	else if (!n)
		ret->why = "it has no From field";
	else if (!ret->n && !ret->why)
		ret->why = "its From field names nobody";
}

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

bool authors_network(struct str networks, const char *address)
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

const char *authors_network_wrong(const char *networks, size_t *ret_n)
{
	struct str rest = str_from(networks), word;
	unsigned char a[16];
	int family;
	unsigned bits;
	while (str_word(&rest, " \t,", &word))
		if (network(word, a, &family, &bits)) {
			*ret_n = word.n;
			return word.p;
		}
	return NULL;
}

bool authors_ours(const struct pepsi_host *host, struct pepsi_msg *msg, const char *networks)
{
	struct pepsi_str s;
	char ip[64];
	if (host->state_get(msg, "origin.account", &s) == PEPSI_OK && s.n)
		return true;
	bool has_ip = host->state_get(msg, "origin.ip", &s) == PEPSI_OK && s.n;
	if (!has_ip) /* made here: by the bounce stage, a report, another module */
		return host->state_get(msg, "origin.listener", &s) != PEPSI_OK;
	if (s.n >= sizeof ip)
		return false;
	snprintf(ip, sizeof ip, "%.*s", (int)s.n, s.p);
	return authors_network(str_from(networks ? networks : ""), ip);
}
