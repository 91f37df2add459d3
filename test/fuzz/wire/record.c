/* Whatever comes down the channel: read to the end or refused; and what was read is written back octet for octet. */
#include "proto/wire/wire.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = str_n((const char *)data, size);
	struct arena *a = arena_new(4 << 20);
	struct buf again = BUF_INIT(size);
	struct wire_item it;
	int r = 0;
	while (a && (r = wire_get(&in, a, &it)) == 1)
		if (wire_put(&again, &it))
			abort();
	if (again.n > size || (again.n && memcmp(again.p, data, again.n) != 0) || (r == 0 && again.n != size))
		abort();
	buf_free(&again);
	arena_free(a);
	return 0;
}
