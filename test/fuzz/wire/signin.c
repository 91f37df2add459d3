/* Datagrams between reactor and admin child, each of which must outlive the other's madness: refused, or written back octet for
 * octet. What passes as an account name is a fixed point. */
#include "proto/wire/signin.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char name[WIRE_SIGNIN_NAME_MAX + 1], again[WIRE_SIGNIN_NAME_MAX + 1];
	struct str in = str_n((const char *)data, size);
	struct wire_signin m;
	if (wire_signin_get(in, &m) == 0) {
		struct buf b = BUF_INIT(WIRE_SIGNIN_DATAGRAM_MAX);
		if (wire_signin_put(&b, &m) || !str_eq(buf_str(&b), in))
			abort();
		buf_free(&b);
	}
	int n = wire_signin_name(in, name);
	if (n > WIRE_SIGNIN_NAME_MAX || n == 0 || (n > 0 && (wire_signin_name(str_n(name, (size_t)n), again) != n || strcmp(name, again))))
		abort();
	return 0;
}
