/* Output for people. Everything that came out of a message passes cli_text_safe() before it reaches a terminal. */
#include "text.h"

#include <inttypes.h>
#include <stdarg.h>

enum { TABLE_MAX = 64 * 1024 * 1024 };

/* The character at the front of s: its length, or 0 when it is not UTF-8. */
static size_t decode(struct str s, uint32_t *ret)
{
	unsigned char c = (unsigned char)s.p[0];
	size_t n = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 0;
	if (!n || n > s.n || !str_is_utf8(str_n(s.p, n)))
		return 0;
	uint32_t v = n == 1 ? c : c & (0x7fu >> n);
	for (size_t i = 1; i < n; i++)
		v = v << 6 | ((unsigned char)s.p[i] & 0x3fu);
	*ret = v;
	return n;
}

/* Characters that move, hide or reorder what stands around them. */
static bool harmful(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
	       (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe007f);
}

size_t cli_text_safe(struct buf *out, struct str s, size_t max)
{
	size_t columns = 0;
	while (s.n) {
		char text[16];
		uint32_t c = 0;
		size_t n = decode(s, &c), w;
		if (!n)
			w = (size_t)snprintf(text, sizeof text, "\\x%02x", (unsigned char)s.p[0]);
		else if (c == '\\')
			w = (size_t)snprintf(text, sizeof text, "\\\\");
		else if (harmful(c))
			w = (size_t)snprintf(text, sizeof text, c < 0x80 ? "\\x%02x" : "\\u{%x}", (unsigned)c);
		else
			w = 0;
		/* room for the "…" must stay unless this is the end */
		if (max && columns + (w ? w : 1) > max - (s.n > (n ? n : 1))) {
			buf_addz(out, "…");
			return columns + 1;
		}
		if (w)
			buf_add(out, text, w);
		else
			buf_add(out, s.p, n);
		columns += w ? w : 1;
		s = str_skip(s, n ? n : 1);
	}
	return columns;
}

void cli_text_print(FILE *f, struct str s)
{
	struct buf b = BUF_INIT(TABLE_MAX);
	cli_text_safe(&b, s, 0);
	fwrite(buf_z(&b), 1, b.n, f);
	buf_free(&b);
}

void cli_text_print_json(FILE *f, const char *json)
{
	/* both stand only inside strings, where an escape means the same */
	for (const unsigned char *p = (const unsigned char *)json; *p; p++) {
		if (*p == 0x7f)
			fputs("\\u007f", f);
		else if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
			fprintf(f, "\\u%04x", *++p);
		else
			putc(*p, f);
	}
	putc('\n', f);
}

void cli_table_cell(struct cli_table *t, struct str s)
{
	size_t column = t->at++ % t->n;
	if (!t->cells.max)
		t->cells = BUF_INIT(TABLE_MAX);
	size_t w = cli_text_safe(&t->cells, s, t->max[column]);
	buf_addc(&t->cells, 0);
	if (w > t->width[column])
		t->width[column] = w;
}

void cli_table_cellf(struct cli_table *t, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	cli_table_cell(t, str_from(text));
}

static size_t columns_of(const char *z)
{
	size_t n = 0;
	for (; *z; z++)
		n += ((unsigned char)*z & 0xc0) != 0x80;
	return n;
}

static void print_cell(const struct cli_table *t, FILE *f, size_t column, const char *text)
{
	size_t w = columns_of(text), pad = t->width[column] > w ? t->width[column] - w : 0;
	bool last = column + 1 == t->n;
	if (t->right[column])
		fprintf(f, "%*s", (int)pad, "");
	fputs(text, f);
	if (!t->right[column] && !last)
		fprintf(f, "%*s", (int)pad, "");
	fputs(last ? "\n" : "  ", f);
}

void cli_table_print(struct cli_table *t, FILE *f)
{
	const char *p = buf_z(&t->cells), *end = p + t->cells.n;
	for (size_t i = 0; i < t->n; i++)
		if (columns_of(t->heads[i]) > t->width[i])
			t->width[i] = columns_of(t->heads[i]);
	for (size_t i = 0; i < t->n; i++)
		print_cell(t, f, i, t->heads[i]);
	for (size_t i = 0; p < end; i++, p += strlen(p) + 1)
		print_cell(t, f, i % t->n, p);
	buf_free(&t->cells);
	t->at = 0;
}

void cli_text_duration(char *out, size_t size, int64_t s)
{
	if (s < 0)
		s = 0;
	if (s < 60)
		snprintf(out, size, "%" PRId64 " s", s);
	else if (s < 3600)
		snprintf(out, size, "%" PRId64 " min %" PRId64 " s", s / 60, s % 60);
	else if (s < 86400)
		snprintf(out, size, "%" PRId64 " h %" PRId64 " min", s / 3600, s % 3600 / 60);
	else
		snprintf(out, size, "%" PRId64 " d %" PRId64 " h", s / 86400, s % 86400 / 3600);
}

void cli_text_octets(char *out, size_t size, int64_t n)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
	double v = (double)n / 1024;
	unsigned u = 0;
	if (n < 1024) {
		snprintf(out, size, "%" PRId64 " B", n);
		return;
	}
	while (v >= 1024 && u < 3) {
		v /= 1024;
		u++;
	}
	snprintf(out, size, "%.1f %s", v, units[u]);
}

void cli_text_time(char *out, size_t size, struct str s)
{
	bool stamp = s.n >= 19 && (s.p[10] == 'T' || s.p[10] == ' ') && s.p[4] == '-' && s.p[13] == ':';
	snprintf(out, size, "%.*s", stamp ? 19 : (int)(s.n < 64 ? s.n : 64), s.p ? s.p : "");
	if (stamp && size > 10)
		out[10] = ' ';
}
