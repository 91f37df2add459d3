/* Fuzz: the structure of anything. Its pieces are the message again, with CR LF and with bare LF, and cost stays linear. */
#include "base/check.h"

#include "../../unit/proto/mail/mime_pieces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int never(void *arg, const struct mail_mime *m, size_t part, struct buf *out)
{
	(void)arg;
	(void)m;
	buf_addz(out, "not this"); /* what is appended beside a 0 must not stay */
	return part == SIZE_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mail_mime m;
	for (int lf = 0; lf < 2; lf++) {
		if (mail_mime_parse(&m, str_n((const char *)data, size), lf) == 0) {
			struct buf b = BUF_INIT(size + 64);
			must(mime_whole(&m));
			must(m.steps <= (uint64_t)(size + 1) * (MAIL_MIME_DEPTH_MAX * 4 + 8));
			must(mail_mime_write(&m, never, NULL, &b) == 0 && str_eq(buf_str(&b), m.raw));
			buf_free(&b);
		} else {
			must(m.limit && !m.n);
		}
		mail_mime_free(&m);
	}
	return 0;
}
