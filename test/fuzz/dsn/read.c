/* Fuzz: anything as a bounce. Results are bounded and consistent: nothing is hard that did not fail, no recipient stands there twice, texts are
 * UTF-8, and where nothing is encoded, each address occurs in the message. */
#include "base/check.h"
#include "proto/dsn/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str raw = str_n((const char *)data, size);
	struct dsn_read r;
	/* an encoding, a charset, an escape of JSON or a tag in between may hide what an address looks like */
	bool hidden = size && (memmem(data, size, "=", 1) || memmem(data, size, "base64", 6) || memmem(data, size, "BASE64", 6) || memmem(data, size, "<", 1) ||
	    memmem(data, size, "ncoding", 7) || memmem(data, size, "\\", 1) || memmem(data, size, "\x1b", 1) || !str_is_utf8(raw));
	for (int lf = 0; lf < 2; lf++) {
		if (dsn_read(raw, lf, &r)) {
			must(!r.n && !r.rcpt);
			continue;
		}
		must(r.n <= DSN_READ_RCPTS_MAX && (r.report || !r.n));
		for (size_t i = 0; i < r.n; i++) {
			const struct dsn_read_rcpt *one = &r.rcpt[i];
			must(one->reason < DSN_REASONS && one->hard == (one->action == DSN_READ_FAILED && dsn_reason_hard(one->reason)));
			must(one->diagnostic.n <= DSN_READ_DIAGNOSTIC_MAX && one->code < 600);
			must(str_is_utf8(one->diagnostic) && str_is_utf8(one->address) && str_is_utf8(one->original));
			must(hidden || !one->address.n || memmem(raw.p, raw.n, one->address.p, one->address.n));
			for (size_t k = 0; k < i; k++)
				must(!str_ieq(one->address, r.rcpt[k].address));
		}
		dsn_read_free(&r);
	}
	return 0;
}
