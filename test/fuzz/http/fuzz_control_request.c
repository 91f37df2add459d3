/* Any octets as a control request: parsed or refused, and what was taken keeps its promises. */
#include "control_request.h"

#include <stdlib.h>

static void check_text(const char *z)
{
	if (z && (!z[0] || strlen(z) > CONTROL_TEXT_MAX || !str_is_utf8(str_from(z))))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct control_request r;
	char err[256], hint[64], text[300];
	int rc = control_request_parse(str_n((const char *)data, size), &r, err, sizeof err, hint, sizeof hint);
	if (rc ? !err[0] : !r.name[0])
		abort();
	if (!rc) {
		check_text(r.stage);
		check_text(r.status);
		check_text(r.sender);
		check_text(r.recipient);
		check_text(r.to);
		if (r.n_ids > CONTROL_IDS_MAX || r.limit > CONTROL_LIMIT_MAX || r.after_id < 0)
			abort();
		for (size_t i = 0; i < r.n_ids; i++)
			if (r.ids[i] < 1 || r.ids[i] == INT64_MAX)
				abort();
		if ((r.flags & CONTROL_SELECTS) && !r.n_ids && !r.stage && !r.status && !r.sender && !r.recipient && !r.all)
			abort();
		control_request_describe(&r, text, sizeof text);
	}
	control_request_done(&r);
	return 0;
}
