/* Canonicalisation against a slow reference that follows the words of RFC 6376 §3.4 one after the other, over whole strings. The first octet
 * says how the body is cut into pieces. */
#include "base/buf.h"
#include "proto/dkim/canon.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void to_buf(void *arg, const char *p, size_t n)
{
	if (buf_add(arg, p, n))
		abort();
}

/* "Ignores all whitespace at the end of lines; reduces all sequences of WSP within a line to a single SP." */
static void squeeze(struct str line, struct buf *out)
{
	while (line.n && (line.p[line.n - 1] == ' ' || line.p[line.n - 1] == '\t'))
		line.n--;
	for (size_t i = 0; i < line.n; i++) {
		bool blank = line.p[i] == ' ' || line.p[i] == '\t';
		if (!blank)
			buf_addc(out, line.p[i]);
		else if (i + 1 == line.n || (line.p[i + 1] != ' ' && line.p[i + 1] != '\t'))
			buf_addc(out, ' ');
	}
}

static void slow_body(enum dkim_canon c, struct str s, struct buf *out)
{
	size_t i = 0;
	while (i < s.n) {
		const char *at = memmem(s.p + i, s.n - i, "\r\n", 2);
		size_t end = at ? (size_t)(at - s.p) : s.n;
		struct str line = str_n(s.p + i, end - i);
		if (c == DKIM_RELAXED)
			squeeze(line, out);
		else
			buf_adds(out, line);
		if (at)
			buf_addz(out, "\r\n");
		i = at ? end + 2 : end;
	}
	/* "If the body is non-empty but does not end with a CRLF, a CRLF is added"; "ignores all empty lines at the end" */
	if (out->n && (out->n < 2 || memcmp(out->p + out->n - 2, "\r\n", 2) != 0))
		buf_addz(out, "\r\n");
	while (out->n >= 4 && memcmp(out->p + out->n - 4, "\r\n\r\n", 4) == 0)
		out->n -= 2;
	if (out->n == 2 && memcmp(out->p, "\r\n", 2) == 0)
		out->n = 0;
	if (!out->n && c == DKIM_SIMPLE)
		buf_addz(out, "\r\n");
}

static void slow_field(struct str s, struct buf *out)
{
	struct buf unfolded = BUF_INIT(1 << 24);
	ptrdiff_t colon = str_chr(s, ':');
	for (size_t i = (size_t)colon + 1; i < s.n; i++)
		if (i + 1 < s.n && s.p[i] == '\r' && s.p[i + 1] == '\n')
			i++;
		else
			buf_addc(&unfolded, s.p[i]);
	struct str name = str_n(s.p, (size_t)colon), value = buf_str(&unfolded);
	while (name.n && (name.p[name.n - 1] == ' ' || name.p[name.n - 1] == '\t'))
		name.n--;
	for (size_t i = 0; i < name.n; i++)
		buf_addc(out, name.p[i] >= 'A' && name.p[i] <= 'Z' ? (char)(name.p[i] | 32) : name.p[i]);
	buf_addc(out, ':');
	while (value.n && (value.p[0] == ' ' || value.p[0] == '\t'))
		value = str_skip(value, 1);
	squeeze(value, out);
	buf_addz(out, "\r\n");
	buf_free(&unfolded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	size_t piece = (size_t)data[0] % 17 + 1;
	struct str s = str_n((const char *)data + 1, size - 1);
	for (int relaxed = 0; relaxed < 2; relaxed++) {
		struct buf want = BUF_INIT(1 << 24), got = BUF_INIT(1 << 24);
		struct dkim_canon_body b = { .canon = relaxed ? DKIM_RELAXED : DKIM_SIMPLE, .out = { .sink = to_buf, .arg = &got } };
		for (size_t i = 0; i < s.n; i += piece)
			dkim_canon_body_add(&b, s.p + i, piece < s.n - i ? piece : s.n - i);
		dkim_canon_body_end(&b);
		slow_body(b.canon, s, &want);
		if (!str_eq(buf_str(&want), buf_str(&got)))
			abort();
		buf_free(&want);
		buf_free(&got);
	}
	if (str_chr(s, ':') < 0)
		return 0;
	struct buf want = BUF_INIT(1 << 24), got = BUF_INIT(1 << 24), cut = BUF_INIT(1 << 24);
	struct dkim_out o = { .sink = to_buf, .arg = &got };
	slow_field(s, &want);
	dkim_canon_field(DKIM_RELAXED, s, 0, 0, false, &o);
	dkim_out_flush(&o);
	if (!str_eq(buf_str(&want), buf_str(&got)))
		abort();
	/* a value that is cut out: the same as a field that never had it */
	size_t from = (size_t)str_chr(s, ':') + 1 + data[0] % 7, to = from + data[0] % 31;
	if (to < s.n && from < to && memchr(s.p + from, '\r', to - from + 1) == NULL && s.p[from - 1] != '\r') {
		buf_reset(&want);
		buf_reset(&got);
		buf_add(&cut, s.p, from);
		buf_adds(&cut, str_skip(s, to));
		slow_field(buf_str(&cut), &want);
		dkim_canon_field(DKIM_RELAXED, s, from, to, false, &o);
		dkim_out_flush(&o);
		if (!str_eq(buf_str(&want), buf_str(&got)))
			abort();
	}
	buf_free(&want);
	buf_free(&got);
	buf_free(&cut);
	return 0;
}
