/* A file of the drop folder, written by somebody hostile: taken means that all of it can be composed again and is the same. */
#include "submit/submit.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct smtp_client_msg m, again;
	struct buf text = BUF_INIT(4 * size + 65536);
	char err[200];
	if (submit_drop_parse(str_n((const char *)data, size), &m, err, sizeof err) == 0) {
		again = (struct smtp_client_msg){ .n_rcpts = 0 };
		if (submit_drop_compose(&text, &m) || submit_drop_parse(buf_str(&text), &again, err, sizeof err) || again.n_rcpts != m.n_rcpts ||
		    !str_eq(again.headers, m.headers) || !str_eq(again.body, m.body) || !str_eq(again.once, m.once))
			abort();
		free(again.rcpts);
	}
	free(m.rcpts);
	buf_free(&text);
	return 0;
}
