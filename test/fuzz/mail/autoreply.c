/* Fuzz: an answer to anything can be sent, has each field once, and is never answered itself. Sender and headers are separated by a LF. */
#include "base/check.h"
#include "proto/mail/autoreply.h"
#include "proto/mail/header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct str own = STR_INIT("me@home.example");
	struct str in = str_n((const char *)data, size);
	ptrdiff_t nl = str_chr(in, '\n');
	struct mail_autoreply m = { .mail_from = str_n(in.p, nl < 0 ? 0 : (size_t)nl), .headers = str_skip(in, (size_t)(nl + 1)), .own = &own, .n_own = 1 };
	struct mail_autoreply_how how = { .from = own, .name = STR("Me"), .message_id = STR("1@home.example"), .utf8 = size & 1 };
	struct buf out = BUF_INIT(1 << 20);
	mail_autoreply_is(m.headers);
	if (mail_autoreply_decide(&m) == MAIL_AUTOREPLY_ANSWER && mail_autoreply_write(&m, &how, &out) == 0) {
		struct mail_autoreply back = { .mail_from = STR("you@x.example"), .headers = buf_str(&out), .own = &m.mail_from, .n_own = 1 };
		must(mail_headers_sendable(buf_str(&out)) && mail_field_count(buf_str(&out), STR("To"), 0) == 1 && mail_field_count(buf_str(&out), STR("Bcc"), 0) == 0);
		must(how.utf8 || str_is_ascii(buf_str(&out)));
		must(mail_autoreply_decide(&back) == MAIL_AUTOREPLY_AUTOMATIC && mail_autoreply_is(buf_str(&out)));
	}
	buf_free(&out);
	return 0;
}
