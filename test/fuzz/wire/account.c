/* What comes to the socket of `pepsi account`, and what comes back: refused, or written back octet for octet. */
#include "proto/wire/account.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = str_n((const char *)data, size), rest;
	struct buf b = BUF_INIT(WIRE_ACCOUNT_DATAGRAM_MAX);
	struct wire_account_request r;
	struct wire_account_answer a;
	struct wire_account_row row;
	if (wire_account_request_get(in, &r) == 0 && size <= WIRE_ACCOUNT_DATAGRAM_MAX && (wire_account_request_put(&b, &r) || !str_eq(buf_str(&b), in)))
		abort();
	buf_free(&b);
	b = BUF_INIT(WIRE_ACCOUNT_DATAGRAM_MAX);
	if (wire_account_answer_get(in, &a) == 0) {
		if (wire_account_answer_put(&b, &a) || !str_eq(buf_str(&b), in))
			abort();
		rest = a.rows;
		while (wire_account_row_get(&rest, &row) == 1)
			;
	}
	buf_free(&b);
	return 0;
}
