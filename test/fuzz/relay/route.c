/* Fuzz: the choice of mail exchangers. First octet: options; first line: the domain; behind it each line answers the next question, over
 * and over: "!" fails, an empty one is NXDOMAIN, "-" NODATA; else its words are records: of MX "PREFERENCE:NAME", of addresses the octets. */
#include "proto/relay/route.h"

#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct str line(struct str *rest)
{
	ptrdiff_t end = str_chr(*rest, '\n');
	struct str s = str_n(rest->p, end < 0 ? rest->n : (size_t)end);
	*rest = str_skip(*rest, s.n + 1);
	return s;
}

static struct dns_answer *answer(struct str zone, struct str *rest, struct str name, enum dns_type type, bool secure)
{
	struct dns_rr rr[40] = { 0 };
	unsigned char octets[40][16] = { 0 };
	size_t n = 0;
	if (!rest->n)
		*rest = zone;
	struct str text = line(rest), words = text, word;
	char folded[DNS_NAME_MAX + 1];
	if (str_eq(text, STR("!")))
		return dns_answer_fail(name, type, "fuzz");
	if (!text.n || str_eq(text, STR("-")))
		return dns_answer_new(name, type, text.n ? DNS_NODATA : DNS_NXDOMAIN, NULL, 0, 1, secure);
	while (n < 40 && str_word(&words, " ", &word)) {
		uint64_t preference = 0;
		ptrdiff_t colon = str_chr(word, ':');
		if (type == DNS_MX) {
			if (colon >= 0)
				(void)str_u64(str_n(word.p, (size_t)colon), 65535, &preference);
			rr[n].preference = (uint16_t)preference;
			rr[n].data = str_skip(word, (size_t)(colon + 1));
			if (rr[n].data.n && dns_name_fold(rr[n].data, folded) < 0)
				continue;
		} else {
			memcpy(octets[n], word.p, word.n < 16 ? word.n : 16);
			rr[n].data = str_n((char *)octets[n], type == DNS_A ? 4 : 16);
		}
		n++;
	}
	return dns_answer_new(name, type, n ? DNS_OK : DNS_NODATA, rr, n, 1, secure);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct str own[] = { STR_INIT("us.example") };
	static const struct route_own ips[] = { { "usus", 4 } };
	struct str rest = str_n((const char *)data, size), zone, name;
	enum dns_type type;
	size_t rounds = 0;
	if (size < 2 || size > 16384)
		return 0;
	unsigned char options = data[0];
	rest = str_skip(rest, 1);
	struct str domain = line(&rest);
	zone = rest;
	struct route r = { .domain = domain, .no_mx = options & 1, .ipv4 = !(options & 2), .ipv6 = options & 2 || options & 4,
		.local_ok = options & 8, .public_only = options & 32, .own = own, .n_own = 1, .own_ip = ips, .n_own_ip = 1, .seed = size };
	struct dns_answers *set = dns_answers_new();
	while (route_evaluate(&r, set) == DNS_MORE) {
		must(dns_answers_n_missing(set) > 0 && ++rounds <= 3);
		while (dns_answers_missing(set, 0, &name, &type))
			must(dns_answers_put(set, answer(zone, &rest, name, type, options & 16)) == 0);
	}
	must(dns_answers_n(set) <= ROUTE_QUERIES);
	must((r.state == ROUTE_FOUND) == (r.n_addresses > 0) && (r.state == ROUTE_FOUND) == (r.status == NULL));
	must(r.n_hosts <= ROUTE_HOSTS_MAX && r.n_addresses <= ROUTE_ADDRESSES_MAX);
	for (size_t i = 0; i < r.n_addresses; i++) {
		const struct route_host *h = &r.host[r.address[i].host];
		must(h->state == ROUTE_HOST_USED && i >= h->first && i < h->first + h->n && h->n <= ROUTE_HOST_ADDRESSES_MAX);
		must(r.local_ok || route_address_ok(r.address[i].ip, r.address[i].n));
		must(r.local_ok || !r.public_only || !outside_mail_refused(r.address[i].ip, r.address[i].n));
		must(!i || r.host[r.address[i - 1].host].preference <= h->preference);
	}
	struct buf b = BUF_INIT(1 << 16);
	must(route_text(&r, &b) == 0);
	for (size_t i = 0; i < b.n; i++)
		must(b.p[i] >= 0x20 && b.p[i] < 0x7f);
	buf_free(&b);
	dns_answers_free(set);
	return 0;
}
