/* Status lines from a worker that may have lost its mind: each is read and written back unchanged, or refused. */
#include "proto/wire/wire.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf in = BUF_INIT(size), again = BUF_INIT(size);
	struct wire_status st;
	size_t pos = 0;
	buf_add(&in, data, size);
	while (wire_status_get(&in, &pos, &st) == 1)
		if (wire_status_put(&again, &st))
			abort();
	if (pos > in.n || again.n != pos || (pos && memcmp(again.p, in.p, pos) != 0))
		abort();
	buf_free(&in);
	buf_free(&again);
	return 0;
}
