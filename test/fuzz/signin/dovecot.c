/* Lines of a program that says it is Dovecot; and whatever a client or a name may put into ours, it stays one line. */
#include "signin/dovecot.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = str_n((const char *)data, size), line;
	struct str rest = in;
	struct dovecot_line l;
	while (str_word(&rest, "\n", &line)) {
		struct buf text = BUF_INIT(4096);
		if (dovecot_parse(line, &l) == 0) {
			if (l.kind == DOVECOT_OK && !l.user.n)
				abort();
			dovecot_unescape(l.user, &text);
			dovecot_unescape(l.reason, &text);
		}
		buf_free(&text);
	}
	if (size > 4096)
		return 0;
	struct buf out = BUF_INIT(128 * 1024);
	struct dovecot_request r = { .id = 1, .mechanism = STR("PLAIN"), .service = in, .client = in, .has_initial = true, .initial = in };
	if (dovecot_request_put(&out, &r) || str_chr(buf_str(&out), '\n') != (ptrdiff_t)out.n - 1 || str_chr(buf_str(&out), 0) >= 0)
		abort();
	size_t tabs = 0;
	for (size_t i = 0; i < out.n; i++)
		tabs += out.p[i] == '\t';
	if (tabs != 2 + (size ? 2u : 0u) + 2)
		abort();
	buf_free(&out);
	return 0;
}
