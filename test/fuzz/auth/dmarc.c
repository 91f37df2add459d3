/* Fuzz: whole DMARC evaluations. The first lines of the input are a header block; behind the empty line, each line is the TXT answer to the
 * next question ("!": none in time, empty: NXDOMAIN), over and over. */
#include "proto/auth/dmarc_authres.h"

#include "base/check.h"
#include "proto/mail/header.h"
#include "proto/mail/split.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct dns_answer *answer(struct str zone, struct str *rest, struct str name, enum dns_type type)
{
	struct dns_rr rr[2] = { 0 };
	ptrdiff_t end;
	if (!rest->n)
		*rest = zone;
	end = str_chr(*rest, '\n');
	rr[0].data = str_n(rest->p, end < 0 ? rest->n : (size_t)end);
	*rest = str_skip(*rest, end < 0 ? rest->n : (size_t)end + 1);
	if (str_eq(rr[0].data, STR("!")))
		return dns_answer_fail(name, type, "fuzz");
	rr[1].data = STR("v=spf1 -all");
	if (type != DNS_TXT || !rr[0].data.n)
		return dns_answer_new(name, type, rr[0].data.n ? DNS_NODATA : DNS_NXDOMAIN, NULL, 0, 1, false);
	return dns_answer_new(name, type, DNS_OK, rr, 2, 1, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mail_split s;
	struct dmarc_author author;
	struct dmarc_id id[3] = { { .domain = STR("example.org"), .spf = true, .pass = true },
		{ .domain = STR("a.b.example.org"), .pass = true }, { .domain = STR("x.example.org"), .temperror = true } };
	struct dmarc_check c = { .author = &author, .id = id, .n_ids = 3 };
	if (size > 16384)
		return 0;
	mail_split(str_n((const char *)data, size), &s);
	dmarc_author(s.headers, &author);
	must(author.n <= DMARC_DOMAINS_MAX && (author.state == DMARC_AUTHOR_OK) == !author.why);
	must(author.state != DMARC_AUTHOR_OK || (author.n == 1 && author.fields == 1));
	struct dns_answers *set = dns_answers_new();
	struct str rest = s.body, name;
	enum dns_type type;
	size_t rounds = 0;
	while (dmarc_evaluate(&c, set) == DNS_MORE) {
		must(dns_answers_n_missing(set) > 0 && ++rounds <= 2 * DMARC_WALK_MAX + 2);
		while (dns_answers_missing(set, 0, &name, &type))
			must(dns_answers_put(set, answer(s.body, &rest, name, type)) == 0);
	}
	must(dns_answers_n(set) <= (DMARC_DOMAINS_MAX + 3) * (DMARC_WALK_MAX + 1));
	must(c.reason && c.walk.n_queries <= DMARC_WALK_MAX);
	must(c.disposition == DMARC_NONE || c.result == DMARC_RESULT_FAIL || c.result == DMARC_RESULT_PERMERROR);
	must((c.result == DMARC_RESULT_PASS) == (c.spf_aligned || c.dkim_aligned));
	must(c.result != DMARC_RESULT_PASS || author.state == DMARC_AUTHOR_OK);
	struct dmarc_authres a;
	struct buf b = BUF_INIT(1 << 16);
	dmarc_authres(&c, &a);
	must(authres_write(&b, STR("mx"), &a.result, 1, false) == 0 && mail_headers_sendable(buf_str(&b)));
	buf_free(&b);
	dns_answers_free(set);
	return 0;
}
