/* Domain names as text: folding to the one form in which they are asked, compared and cached, and the reverse trees. Only
 * text here; the wire form is message.c's. */
#include "proto/dns/answers.h"

#include <idn2.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

static const struct {
	enum dns_type type;
	const char *name;
} types[] = { { DNS_A, "A" }, { DNS_NS, "NS" }, { DNS_CNAME, "CNAME" }, { DNS_SOA, "SOA" }, { DNS_PTR, "PTR" }, { DNS_MX, "MX" },
	{ DNS_TXT, "TXT" }, { DNS_AAAA, "AAAA" }, { DNS_TLSA, "TLSA" } };

const char *dns_type_name(enum dns_type t)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].type == t)
			return types[i].name;
	return NULL;
}

int dns_type_parse(struct str s, enum dns_type *ret)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (str_ieq(s, str_from(types[i].name))) {
			*ret = types[i].type;
			return 0;
		}
	return -1;
}

const char *dns_status_name(enum dns_status s)
{
	static const char *const names[] = { "ok", "nodata", "nxdomain", "tempfail" };
	return (unsigned)s < sizeof names / sizeof *names ? names[s] : "tempfail";
}

/* One label to out (room octets left): its length, or -1. */
static int fold_ascii(struct str label, char *out, size_t room)
{
	if (!label.n || label.n > DNS_LABEL_MAX || label.n > room)
		return -1;
	for (size_t i = 0; i < label.n; i++) {
		char c = label.p[i];
		if (c < ' ' || c > '~')
			return -1;
		out[i] = ascii_lower(c);
	}
	return (int)label.n;
}

/* Label by label, so that "_dmarc." before an internationalized domain stays as it is. */
static int fold_label(struct str label, char *out, size_t room)
{
	char in[4 * DNS_LABEL_MAX + 1], *ace = NULL;
	if (str_is_ascii(label))
		return fold_ascii(label, out, room);
	if (label.n >= sizeof in || memchr(label.p, 0, label.n) || !str_is_utf8(label))
		return -1;
	memcpy(in, label.p, label.n);
	in[label.n] = 0;
	if (idn2_lookup_u8((const uint8_t *)in, (uint8_t **)&ace, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL) != IDN2_OK)
		return -1;
	/* a full-width dot makes more than one label of it: no label */
	int n = strchr(ace, '.') ? -1 : fold_ascii(str_from(ace), out, room);
	idn2_free(ace);
	return n;
}

int dns_name_fold(struct str name, char *out)
{
	size_t used = 0;
	if (name.n && name.p[name.n - 1] == '.')
		name.n--;
	if (!name.n || name.n > 4 * DNS_NAME_MAX) /* of UTF-8, at most four octets a character */
		return -1;
	for (;;) {
		ptrdiff_t dot = str_chr(name, '.');
		struct str label = str_n(name.p, dot < 0 ? name.n : (size_t)dot);
		int n = fold_label(label, out + used, DNS_NAME_MAX - used);
		if (n < 0)
			return -1;
		used += (size_t)n;
		if (dot < 0)
			break;
		if (used >= DNS_NAME_MAX)
			return -1;
		out[used++] = '.';
		name = str_skip(name, (size_t)dot + 1);
	}
	out[used] = 0;
	return (int)used;
}

int dns_name_reverse(const unsigned char *ip, size_t n, const char *suffix, char *out)
{
	char text[DNS_NAME_MAX + 200];
	size_t used = 0;
	if (n != 4 && n != 16)
		return -1;
	for (size_t i = n; i--;)
		used += (size_t)(n == 4 ? snprintf(text + used, sizeof text - used, "%u.", ip[i])
					: snprintf(text + used, sizeof text - used, "%x.%x.", ip[i] & 15u, ip[i] >> 4u));
	int len = snprintf(text + used, sizeof text - used, "%s", suffix ? suffix : n == 4 ? "in-addr.arpa" : "ip6.arpa");
	if (len <= 0 || (size_t)len >= sizeof text - used)
		return -1;
	return dns_name_fold(str_n(text, used + (size_t)len), out);
}
