/* Any octets as the reply of a filter command: refused with a reason, or a reply whose texts are harmless and whose changes leave a
 * header block that can be stored and sent. */
#include "proto/mail/header.h"
#include "reply.h"

#include <stdlib.h>

static void check_line(const char *z, size_t max)
{
	if (!z)
		return;
	if (strlen(z) > max || !str_is_utf8(str_from(z)))
		abort();
	for (; *z; z++)
		if (((unsigned char)*z < 0x20 && *z != '\t') || *z == 0x7f)
			abort();
}

static void check_edit(const struct reply *r)
{
	static const char before[] = "Received: from a\r\n\tby b\r\nSubject: x\r\nX-A: 1\r\nx-a: 2\r\nno field\r\n";
	struct buf out = BUF_INIT(4 * 1024 * 1024);
	if (reply_edit(r, str_from(before), &out) || !mail_headers_sendable(buf_str(&out)))
		abort();
	if (!str_starts(buf_str(&out), STR("Received: from a\r\n\tby b\r\n"))) /* the trace stays */
		abort();
	buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena *a = arena_new(4 * 1024 * 1024);
	struct buf why = BUF_INIT(1024);
	struct reply r;
	if (!a)
		return 0;
	int rc = reply_parse(a, str_n((const char *)data, size), &r, &why);
	if (rc ? !why.n : why.n != 0)
		abort();
	if (!rc) {
		check_line(r.text, REPLY_TEXT_MAX);
		check_line(r.status, 16);
		check_line(r.stage, 100);
		if (r.seconds > REPLY_DEFER_MAX_S || r.n_headers > REPLY_HEADERS_MAX || (r.action == REPLY_REROUTE && !r.stage))
			abort();
		check_edit(&r);
	}
	buf_free(&why);
	arena_free(a);
	return 0;
}
