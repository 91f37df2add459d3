/* Fuzz: a message to the report address: its parts, what is packed in it, and the report in that. */
#include "base/check.h"
#include "proto/mail/split.h"
#include "proto/report/dmarc.h"
#include "proto/report/mail.h"
#include "proto/report/pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX = 4 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str raw = str_n((const char *)data, size);
	struct mail_split s;
	struct report_mail_read m;
	struct buf xml = BUF_INIT(MAX);
	const char *why = NULL;
	mail_split(raw, &s);
	report_mail_read(s.headers, s.body, MAX, &m);
	must(m.kind != REPORT_MAIL_OTHER || m.why);
	must(m.data.n <= size);
	/* the same unpackers on the octets as they are: a fuzzer makes no base64 */
	for (int i = 0; i < 2; i++) {
		struct str packed = i ? raw : buf_str(&m.data);
		buf_reset(&xml);
		if (report_unpack(packed, &xml, &why) == 0) {
			struct arena *a = arena_new(REPORT_MEMORY_MAX);
			struct report r;
			must(a && (xml.n <= REPORT_RATIO_FREE || xml.n / REPORT_RATIO_MAX <= packed.n));
			if (report_read(buf_str(&xml), a, &r, &why))
				must(why);
			arena_free(a);
		} else {
			must(why);
		}
	}
	report_mail_done(&m);
	buf_free(&xml);
	return 0;
}
