/* Fuzz: the header block of a message that failed, redacted. What is told is bounded, can stand in a message, holds no local part, and a report with it
 * can be written. */
#include "base/check.h"
#include "proto/mail/header.h"
#include "proto/report/arf_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every @ has one of our words before it, or nothing. */
static void nobody(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] != '@')
			continue;
		size_t n = i;
		while (n && s.p[n - 1] >= 'a' && s.p[n - 1] <= 'z')
			n--;
		must(str_eq(str_n(s.p + n, i - n), STR("redacted")) || n == i);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str raw = str_n((const char *)data, size);
	for (int mode = ARF_HASH; mode <= ARF_KEEP; mode++) {
		const struct arf_redaction how = { .local = (enum arf_local)mode };
		struct buf out = BUF_INIT(ARF_TOLD_MAX), one = BUF_INIT(8192), h = BUF_INIT(1 << 16), b = BUF_INIT(1 << 18);
		must(arf_redact(raw, &how, &out) == 0 && out.n <= ARF_TOLD_MAX && mail_headers_sendable(buf_str(&out)) && str_is_ascii(buf_str(&out)));
		if (mode == ARF_DROP)
			nobody(buf_str(&out));
		if (size < 4000)
			must(arf_redact_address(raw, &how, &one) == 0);
		const struct arf_mail m = { .submitter = STR("mx.test"), .id = STR("a1"), .from = STR("a@b.test"), .to = STR("c@d.test"), .domain = STR("d.test"),
			.auth_failure = STR("dmarc"), .source_ip = STR("192.0.2.1"), .headers = buf_str(&out), .auth_results = str_n(raw.p, size < 4000 ? size : 4000) };
		must(arf_write(&m, &h, &b) == 0);
		buf_free(&out);
		buf_free(&one);
		buf_free(&h);
		buf_free(&b);
	}
	return 0;
}
