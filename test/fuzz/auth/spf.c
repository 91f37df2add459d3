/* Fuzz: whole SPF evaluations. First line: the sender; second: the HELO name; behind these each line answers the next question, over and
 * over: "!" fails, an empty one is NXDOMAIN, "-" NODATA; else the words are that many records, for a TXT question the line is one. */
#include "proto/auth/spf_authres.h"

#include "base/check.h"
#include "proto/mail/header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct str line(struct str *rest)
{
	ptrdiff_t end = str_chr(*rest, '\n');
	struct str s = str_n(rest->p, end < 0 ? rest->n : (size_t)end);
	*rest = str_skip(*rest, s.n + 1);
	return s;
}

static struct dns_answer *answer(struct str zone, struct str *rest, struct str name, enum dns_type type)
{
	static const char octets[2][16] = { { (char)192, 0, 2, 1 }, { 0x20, 0x01, 0x0d, (char)0xb8 } };
	struct dns_rr rr[16] = { 0 };
	size_t n = 0;
	if (!rest->n)
		*rest = zone;
	struct str text = line(rest), words = text, word;
	char folded[DNS_NAME_MAX + 1];
	if (str_eq(text, STR("!")))
		return dns_answer_fail(name, type, "fuzz");
	if (!text.n || str_eq(text, STR("-")))
		return dns_answer_new(name, type, text.n ? DNS_NODATA : DNS_NXDOMAIN, NULL, 0, 1, false);
	if (type == DNS_TXT)
		rr[n++].data = text;
	while (type != DNS_TXT && n < 16 && str_word(&words, " ", &word)) {
		rr[n].preference = (uint16_t)n;
		if (type == DNS_A || type == DNS_AAAA)
			rr[n++].data = type == DNS_A ? str_n(octets[word.n % 2], 4) : str_n(octets[word.n % 2], 16);
		else if (dns_name_fold(word, folded) > 0)
			rr[n++].data = word;
	}
	return dns_answer_new(name, type, n ? DNS_OK : DNS_NODATA, rr, n, 1, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned char ip4[] = { 192, 0, 2, 1 }, ip6[16] = { 0x20, 0x01, 0x0d, 0xb8 };
	struct str rest = str_n((const char *)data, size), zone, name;
	if (size > 16384)
		return 0;
	struct str sender = line(&rest), helo = line(&rest);
	zone = rest;
	struct spf_check c = { .ip = size % 2 ? ip4 : ip6, .ip_n = size % 2 ? 4 : 16, .sender = sender, .helo = helo, .explain = true,
		.receiver = STR("mx.example"), .identity = size % 3 ? SPF_MAILFROM : SPF_HELO };
	struct dns_answers *set = dns_answers_new();
	enum dns_type type;
	size_t rounds = 0;
	while (spf_evaluate(&c, set) == DNS_MORE) {
		must(dns_answers_n_missing(set) > 0 && ++rounds <= 3 * SPF_TERMS_MAX + 5);
		while (dns_answers_missing(set, 0, &name, &type))
			must(dns_answers_put(set, answer(zone, &rest, name, type)) == 0);
	}
	must(dns_answers_n(set) <= SPF_QUESTIONS_MAX);
	must(c.reason && c.n_terms <= SPF_TERMS_MAX + 1 && c.n_voids <= SPF_VOIDS_MAX + 1);
	must((c.n_terms <= SPF_TERMS_MAX && c.n_voids <= SPF_VOIDS_MAX) || c.result == SPF_PERMERROR);
	must(!c.explanation[0] || c.result == SPF_FAIL);
	struct spf_authres a;
	struct buf b = BUF_INIT(1 << 16);
	must(spf_text(&c, &b) == 0);
	for (size_t i = 0; i < b.n; i++)
		must(b.p[i] >= 0x20 && b.p[i] < 0x7f);
	buf_reset(&b);
	spf_authres(&c, &a);
	must(authres_write(&b, STR("mx"), &a.result, 1, false) == 0 && mail_headers_sendable(buf_str(&b)));
	buf_reset(&b);
	must(spf_received_write(&b, &c, STR("mx.example")) == 0 && mail_headers_sendable(buf_str(&b)));
	buf_free(&b);
	dns_answers_free(set);
	return 0;
}
