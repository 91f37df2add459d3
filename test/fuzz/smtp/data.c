/* The DATA automaton, fed in pieces the first octet chooses, against the plain definition of the unit tests; then what it
 * read is written and read again. */
#include "fuzz.h"

#include "data_reference.h"
#include "proto/smtp/data.h"

static char letter(enum smtp_data_fault f)
{
	return f == SMTP_DATA_BARE_CR ? 'R' : f == SMTP_DATA_BARE_LF ? 'L' : f == SMTP_DATA_NUL ? 'Z' : 0;
}

/* Octets used up to the end, or 0. */
static size_t read_all(struct smtp_data *d, const char *p, size_t n, size_t step, struct buf *out)
{
	size_t at = 0;
	while (at < n && d->state != SMTP_DATA_END) {
		struct str chunk;
		size_t piece = step < n - at ? step : n - at, used = smtp_data_feed(d, p + at, piece, &chunk);
		must(used >= 1 && used <= piece);
		must(!buf_adds(out, chunk));
		at += used;
	}
	must(d->size == out->n);
	return d->state == SMTP_DATA_END ? at : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	size_t n = size - 1, text_n;
	const char *in = (const char *)data + 1;
	char *text = malloc(n + 1), fault;
	struct buf got = BUF_INIT(size), wire = BUF_INIT(3 * size + 8), again = BUF_INIT(3 * size + 8);
	struct smtp_data d = { 0 }, d2 = { 0 };
	struct smtp_data_out w = { 0 };
	must(text);
	size_t end = data_reference(in, n, text, &text_n, &fault);
	must(read_all(&d, in, n, 1 + data[0], &got) == end);
	must(letter(d.fault) == fault);
	if (end && !fault) {
		must(got.n == text_n && (!text_n || !memcmp(got.p, text, text_n)));
		must(!smtp_data_write(&w, got.p, got.n, &wire) && !smtp_data_finish(&w, &wire));
		must(read_all(&d2, wire.p, wire.n, wire.n, &again) == wire.n);
		must(str_eq(buf_str(&again), buf_str(&got)) && !d2.fault);
	}
	free(text);
	buf_free(&got);
	buf_free(&wire);
	buf_free(&again);
	return 0;
}
