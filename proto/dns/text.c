/* Records as text. */
#include "proto/dns/text.h"

#include <arpa/inet.h>

static void put_name(struct buf *out, struct str name)
{
	for (size_t i = 0; i < name.n; i++) /* printable already; but a blank would end the name */
		buf_addf(out, name.p[i] == ' ' ? "\\032" : "%c", name.p[i]);
	if (!name.n)
		buf_addc(out, '.');
}

static void put_string(struct buf *out, struct str s)
{
	buf_addc(out, '"');
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (c < ' ' || c > '~')
			buf_addf(out, "\\%03u", c);
		else if (c == '"' || c == '\\')
			buf_addf(out, "\\%c", c);
		else
			buf_addc(out, (char)c);
	}
	buf_addc(out, '"');
}

static void put_hex(struct buf *out, struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		buf_addf(out, "%02x", (unsigned char)s.p[i]);
}

int dns_rr_text(enum dns_type type, const struct dns_rr *rr, struct buf *out)
{
	char ip[INET6_ADDRSTRLEN];
	switch (type) {
	case DNS_A:
	case DNS_AAAA:
		buf_addz(out, inet_ntop(type == DNS_A ? AF_INET : AF_INET6, rr->data.p, ip, sizeof ip) ? ip : "?");
		break;
	case DNS_TXT:
		put_string(out, rr->data);
		break;
	case DNS_TLSA:
		buf_addf(out, "%u %u %u ", rr->usage, rr->selector, rr->matching);
		put_hex(out, rr->data);
		break;
	case DNS_MX:
		buf_addf(out, "%u ", rr->preference);
		/* fall through */
	default:
		put_name(out, rr->data);
	}
	return out->failed ? -1 : 0;
}
