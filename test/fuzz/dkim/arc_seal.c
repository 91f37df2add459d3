/* A header block of any octets, sealed. Where it can be, what is made holds, stands in a header, and the block has a place for the next set; where it
 * cannot be, nothing was written. The first octet says what was found on arrival. */
#include "proto/auth/authres.h"
#include "proto/dkim/arc_seal.h"
#include "proto/mail/header.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char pem[] = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIDqB5N1n2YBH0bzk+/6HMJ9Y366Q4vp7S7JmXz9COPXG\n-----END PRIVATE KEY-----\n";

static void must(bool ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dkim_private *key;
	const char *why;
	if (!size || dkim_private_read(STR(pem), &key, &why))
		return 0;
	static const enum dkim_result found[] = { DKIM_NONE, DKIM_PASS, DKIM_FAIL };
	struct str headers = str_n((const char *)data + 1, size - 1);
	struct buf results = BUF_INIT(64 << 10), set = BUF_INIT(1 << 20), record = BUF_INIT(2048);
	struct arc_place at = arc_place(headers);
	size_t n;
	must(!dkim_private_record(key, &record));
	must(at.instance <= ARC_SETS_MAX && !at.instance == !!at.why && (at.any || at.instance == 1));
	/* a block that no message has (bare line ends within) may hold results that cannot be written */
	if (at.instance && !authres_arc(&results, at.instance, STR("mx.test"), headers, &n)) {
		struct arc_seal how = { .domain = STR("a.test"), .selector = STR("s"), .key = key, .now = 1796072400, .instance = at.instance, .cv = found[data[0] % 3],
			.results = buf_str(&results) };
		must(mail_headers_sendable(buf_str(&results)));
		if (arc_seal(&how, headers, STR("hello\r\n"), &set, &why)) {
			must(why && !set.n);
		} else {
			must(mail_headers_sendable(buf_str(&set)));
			/* "pass" is its caller's word: sets that cannot hold together are the verifier's to find */
			must(!mail_headers_sendable(headers) || how.cv == DKIM_PASS || arc_seal_holds(&how, buf_str(&record), buf_str(&set), headers, STR("hello\r\n")));
			must(!arc_seal_holds(&how, buf_str(&record), buf_str(&set), headers, STR("other\r\n")));
			must(!buf_adds(&set, headers));
			struct arc_place next = arc_place(buf_str(&set));
			must(next.any && (next.instance == at.instance + 1 || next.why));
		}
	}
	buf_free(&results);
	buf_free(&set);
	buf_free(&record);
	dkim_private_free(key);
	return 0;
}
