/* Fuzz: the authentication of a whole message. The first line is HELO name, blank, sender; then a message; behind a line "." each line is the
 * TXT answer to the next question ("!": none in time, empty: NXDOMAIN), over and over. */
#include "proto/auth/verify.h"

#include "base/check.h"
#include "proto/mail/header.h"
#include "proto/mail/split.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct str line_of(struct str *rest)
{
	ptrdiff_t end = str_chr(*rest, '\n');
	struct str line = str_n(rest->p, end < 0 ? rest->n : (size_t)end);
	*rest = str_skip(*rest, end < 0 ? rest->n : (size_t)end + 1);
	return line;
}

static struct dns_answer *answer(struct str zone, struct str *rest, struct str name, enum dns_type type)
{
	struct dns_rr rr = { 0 };
	if (!rest->n)
		*rest = zone;
	rr.data = line_of(rest);
	if (str_eq(rr.data, STR("!")))
		return dns_answer_fail(name, type, "fuzz");
	if (type == DNS_A && rr.data.n >= 4)
		rr.data.n = 4;
	else if (type != DNS_TXT || !rr.data.n)
		return dns_answer_new(name, type, rr.data.n ? DNS_NODATA : DNS_NXDOMAIN, NULL, 0, 1, false);
	return dns_answer_new(name, type, DNS_OK, &rr, 1, 1, false);
}

static void resolve(struct verify *v, struct dns_answers *set, struct str zone, struct str *rest)
{
	struct str name;
	enum dns_type type;
	size_t rounds = 0;
	while (verify_evaluate(v, set) == DNS_MORE) {
		must(dns_answers_n_missing(set) > 0 && ++rounds <= DNS_ANSWERS_MAX);
		while (dns_answers_missing(set, 0, &name, &type)) {
			struct dns_answer *a = answer(zone, rest, name, type);
			must(dns_answers_put(set, a ? a : dns_answer_fail(name, type, "fuzz")) == 0);
		}
	}
}

static void hear(void *arg, const struct verify_step *s)
{
	size_t *n = arg;
	must(!s->text || str_is_ascii(str_from(s->text)));
	++*n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct str sealers[] = { STR_INIT("list.example") };
	struct verify_policy p = { .spf = true, .dkim = true, .arc = true, .dmarc = true, .dkim_policy = { .now = 1700000000 }, .sealers = sealers,
		.n_sealers = 1 };
	struct str rest = str_n((const char *)data, size), first = line_of(&rest), text = rest, zone = STR_NULL;
	struct mail_split cut;
	size_t steps = 0;
	if (size > 32768)
		return 0;
	for (size_t i = 0; i + 3 <= rest.n; i++)
		if (!memcmp(rest.p + i, "\n.\n", 3)) {
			text.n = i + 1;
			zone = str_skip(rest, i + 3);
			break;
		}
	struct verify_envelope e = { .ip = { 192, 0, 2, 7 }, .ip_n = 4, .receiver = STR("mx") };
	ptrdiff_t blank = str_chr(first, ' ');
	e.helo = str_n(first.p, blank < 0 ? first.n : (size_t)blank);
	e.mail_from = blank < 0 ? STR_NULL : str_skip(first, (size_t)blank + 1);
	struct verify *v = verify_new(&p);
	struct dns_answers *set = dns_answers_new();
	struct str left = zone;
	must(v && set);
	verify_trace(v, hear, &steps);
	must(verify_envelope(v, &e) == 0);
	if (size & 1)
		resolve(v, set, zone, &left);
	mail_split(text, &cut);
	must(verify_headers(v, cut.headers) == 0);
	if (size & 2)
		resolve(v, set, zone, &left);
	verify_body(v, cut.body.p, cut.body.n);
	verify_body_end(v);
	resolve(v, set, zone, &left);
	dns_answers_free(set);
	const struct verify_verdict *r = verify_verdict(v);
	struct buf b = BUF_INIT(1 << 20);
	must(verify_done(v) && r->spf && r->dmarc && r->arc && steps > 4);
	must(r->disposition <= r->dmarc->disposition);
	must(r->disposition == DMARC_NONE || r->dmarc->result != DMARC_RESULT_PASS);
	must((r->override == VERIFY_TRUSTED_SEALER) == (r->sealer > 0) && (!r->sealer || r->arc->result == DKIM_PASS));
	must(verify_authres(v, &b, STR("mx"), NULL, 0, size & 4) == 0 && mail_headers_sendable(buf_str(&b)));
	buf_reset(&b);
	must(verify_json(v, &b) == 0 && str_is_utf8(buf_str(&b)));
	buf_reset(&b);
	must(verify_log(v, &b) == 0 && str_is_ascii(buf_str(&b)) && str_chr(buf_str(&b), '\n') < 0);
	buf_free(&b);
	verify_free(v);
	return 0;
}
