/* Fuzz: any text as a sender comes back as itself, by the letter, and in a chain of two; no text that was not made with the key is taken back. The same for
 * return addresses bound to a recipient (verp.h). */
#include "base/check.h"
#include "proto/address/address.h"
#include "proto/srs/verp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Return addresses bound to a recipient: a line each for sender and recipient. */
static void bound(const struct srs *s, struct str in, int64_t now)
{
	ptrdiff_t nl = str_chr(in, '\n');
	struct str sender = nl < 0 ? in : str_n(in.p, (size_t)nl), recipient = nl < 0 ? STR("bob@far.example") : str_skip(in, (size_t)nl + 1);
	struct buf out = BUF_INIT(4096), home = BUF_INIT(4096);
	struct verp v;
	must(verp_read(s, in, now, &home, &v) < 0 && !home.n);
	if (verp_make(s, sender, recipient, now, &out) == SRS_OK) {
		must(verp_read(s, buf_str(&out), now + 86400, &home, &v) == SRS_OK);
		must(home.n && verp_fits(s, &v, recipient) && !verp_fits(s, &v, STR("somebody@else.example")));
	} else
		must(!out.n);
	buf_free(&out);
	buf_free(&home);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int64_t now = 1700000000;
	struct srs a = { .domain = STR_INIT("a.example"), .keys = { STR_INIT("0123456789abcdef") } };
	struct srs b = { .domain = STR_INIT("b.example"), .keys = { STR_INIT("fedcba9876543210") }, .separator = '+' };
	struct buf one = BUF_INIT(4096), two = BUF_INIT(4096), back = BUF_INIT(4096);
	struct smtp_address x, y;
	struct str in = str_n((const char *)data, size);
	/* what is read: never something of ours, unless it is a tag found by chance */
	int r = srs_reverse(&a, in, now, &back);
	must(r < 0 && !back.n);
	bound(&a, in, now);
	if (srs_forward(&a, in, now, &one) == SRS_OK) {
		must(srs_is(buf_str(&one), a.domain) && !smtp_address_parse(buf_str(&one), true, &y));
		must(srs_reverse(&a, buf_str(&one), now + 86400, &back) == SRS_OK);
		must(!smtp_address_parse(in, true, &x) && !smtp_address_parse(buf_str(&back), true, &y));
		struct buf p = BUF_INIT(4096), q = BUF_INIT(4096);
		must(!smtp_local_unquote(x.local, &p) && !smtp_local_unquote(y.local, &q));
		bool link = str_istarts(buf_str(&p), STR("SRS1")); /* goes back to the first of its chain */
		must(link || (x.literal ? str_ieq(x.domain, y.domain) : smtp_domain_equal(x.domain, y.domain)));
		must(link || str_eq(buf_str(&p), buf_str(&q)) || str_istarts(buf_str(&p), STR("SRS0")));
		if (srs_forward(&b, buf_str(&one), now, &two) == SRS_OK) {
			buf_reset(&back);
			must(srs_reverse(&b, buf_str(&two), now, &back) == SRS_OK);
			must(str_istarts(buf_str(&one), STR("SRS1")) || str_istarts(buf_str(&one), STR("\"SRS1")) || str_eq(buf_str(&back), buf_str(&one)));
		}
		buf_free(&p);
		buf_free(&q);
	}
	buf_free(&one);
	buf_free(&two);
	buf_free(&back);
	return 0;
}
