/* Whatever a worker before acceptance says: a verdict or refused; and what was read is written back octet for octet. */
#include "proto/wire/verdict.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = str_n((const char *)data, size);
	struct arena *a = arena_new(4 << 20);
	struct buf again = BUF_INIT(size);
	struct wire_verdict v;
	struct wire_item it;
	uint32_t ms;
	if (a && wire_verdict_get(in, a, &v) == 0) {
		/* strings that `changed` does not name may stand there and mean nothing: then it is shorter now */
		if (wire_verdict_put(&again, &v) && !again.failed)
			abort();
		if (again.n == size && memcmp(again.p, data, size) != 0)
			abort();
	}
	if (a)
		wire_job_get(in, a, &ms, &it);
	buf_free(&again);
	arena_free(a);
	return 0;
}
