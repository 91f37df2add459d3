/* A program's message through -t: whatever it is, what comes out can be sent, and every recipient is one address. The first octet
 * decides about -t. */
#include "proto/address/address.h"
#include "submit/submit.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct submit_message m = { .headers = BUF_INIT(SUBMIT_HEADER_MAX + 65536), .body = BUF_INIT(1 << 20) };
	struct submit_addresses rcpts;
	struct smtp_address a;
	if (!size)
		return 0;
	const struct submit_options o = { .host = "host.test", .from = STR("me@host.test"), .full_name = str_n((const char *)data, size > 40 ? 40 : size),
		.extract = data[0] & 1, .unique = "k" };
	submit_addresses_init(&rcpts);
	if (submit_prepare(&m, &rcpts, str_n((const char *)data + 1, size - 1), &o) == SUBMIT_OK) {
		unsigned scan = smtp_content_scan(buf_str(&m.headers), buf_str(&m.body));
		if (scan & (SMTP_CONTENT_BAD | SMTP_CONTENT_OPEN))
			abort();
	}
	const char *p = rcpts.text.p;
	for (size_t i = 0; i < rcpts.n; i++, p += strlen(p) + 1)
		if (smtp_address_parse(str_from(p), true, &a))
			abort();
	submit_addresses_done(&rcpts);
	buf_free(&m.headers);
	buf_free(&m.body);
	return 0;
}
