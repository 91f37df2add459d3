/* A message in pieces of any size: the spool cuts it where mail_split() cuts the whole. The first octet chooses the
 * pieces. Only what the engine lets through comes here: no bare CR or LF (they are taken out first). */
#include "ingress/spool.h"
#include "proto/mail/split.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input with LF as its line end, as the engine would give it. */
static void lines(struct buf *out, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\n')
			buf_add(out, "\r\n", 2);
		else if (p[i] != '\r')
			buf_addc(out, (char)p[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char dir[] = "/tmp";
	struct spool_house h = { .dir = dir, .threshold = SIZE_MAX / 4, .max = SIZE_MAX / 4 };
	struct buf raw = BUF_INIT(2 * size + 16);
	struct mail_split want;
	struct spool s;
	if (size < 2 || size > 512 * 1024)
		return 0;
	lines(&raw, data + 1, size - 1);
	if (!raw.n) {
		buf_free(&raw);
		return 0;
	}
	mail_split(buf_str(&raw), &want);
	spool_init(&s, &h);
	unsigned seed = data[0];
	for (size_t i = 0; i < raw.n;) {
		size_t n = 1 + seed % 97;
		seed = seed * 1103515245u + 12345u;
		if (n > raw.n - i)
			n = raw.n - i;
		spool_add(&s, str_n(raw.p + i, n));
		i += n;
	}
	if (spool_finish(&s) == SPOOL_OK) {
		struct str head = buf_str(&s.head);
		if (want.unterminated)
			head.n -= 2; /* it gives the last header line the CRLF it lacked */
		struct str body;
		if (spool_map(&s, &body))
			abort();
		if (!str_eq(head, want.headers) || !str_eq(body, want.body) || s.size != raw.n)
			abort();
		spool_unmap(&s, body);
	}
	spool_done(&s);
	if (h.used)
		abort();
	buf_free(&raw);
	return 0;
}
