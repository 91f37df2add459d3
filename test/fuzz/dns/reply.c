/* Any reply to a query of ours, its header and question made to fit when the first octet says so: judged without harm, and what
 * comes out keeps the promises of answers.h. */
#include "proto/dns/message.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(struct str name, bool root)
{
	char folded[DNS_NAME_MAX + 1];
	if (root && !name.n)
		return;
	if (dns_name_fold(name, folded) != (int)name.n || memcmp(folded, name.p, name.n) != 0)
		abort();
}

static void check(const struct dns_answer *a, enum dns_type type)
{
	if (a->type != type || a->status == DNS_TEMPFAIL || (a->status == DNS_OK) != (a->n_rr > 0) || a->n_rr > DNS_RR_MAX ||
	    a->n_chain > DNS_CHAIN_MAX || a->ttl > INT32_MAX || a->octets > (1 << 20) || a->refs != 1)
		abort();
	for (size_t i = 0; i < a->n_chain; i++)
		check_name(a->chain[i], false);
	for (size_t i = 0; i < a->n_rr; i++) {
		if ((type == DNS_A && a->rr[i].data.n != 4) || (type == DNS_AAAA && a->rr[i].data.n != 16))
			abort();
		if (type == DNS_MX || type == DNS_NS || type == DNS_PTR || type == DNS_CNAME || type == DNS_SOA)
			check_name(a->rr[i].data, true);
		if (i && a->rr[i].preference < a->rr[i - 1].preference)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum dns_type types[] = { DNS_A, DNS_AAAA, DNS_MX, DNS_TXT, DNS_PTR, DNS_NS, DNS_CNAME, DNS_TLSA, DNS_SOA };
	struct dns_query q;
	struct dns_answer *a = NULL;
	const char *why = NULL;
	if (size < 1 || size > DNS_MESSAGE_MAX)
		return 0;
	unsigned how = data[0];
	if (dns_query_make(&q, STR("example.org"), types[how % 9], 0x1234, how & 0x40 ? DNS_QUERY_EDNS : 0, NULL))
		abort();
	size_t n = size - 1;
	unsigned char *p = malloc(n ? n : 1);
	if (!p)
		return 0;
	memcpy(p, data + 1, n);
	if (how & 0x80 && n >= 12 + q.name_n + 4) {
		memcpy(p, q.wire, 2);
		p[2] = (unsigned char)((p[2] & 0x07) | 0x80);
		p[4] = 0;
		p[5] = 1;
		memcpy(p + 12, q.wire + 12, q.name_n + 4);
	}
	enum dns_reply rc = dns_reply_read(&q, p, n, how & 0x20, true, &a, &why);
	if ((rc == DNS_REPLY_OK) != (a != NULL) || (rc != DNS_REPLY_OK && !why))
		abort();
	if (a)
		check(a, types[how % 9]);
	dns_answer_unref(a);
	free(p);
	return 0;
}
