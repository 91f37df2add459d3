/* Tag lists from anywhere: what is accepted, written again in its plainest form, reads the same; and the readers of values stay within
 * their room. */
#include "base/buf.h"
#include "proto/dkim/tags.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void readers(struct str v)
{
	unsigned char few[16], *all = malloc(v.n + 1);
	char *text = malloc(v.n + 1);
	uint64_t number;
	struct str rest = v, item;
	bool more = true;
	size_t octets = 0, items = 0;
	if (!all || !text)
		abort();
	long n = dkim_base64(v, all, v.n), m = dkim_base64(v, few, sizeof few);
	if (n > (long)v.n || m > 16 || (n >= 0 && n <= 16 && m != n) || (n > 16 && m != -1) || dkim_unquote(v, text) > (long)v.n)
		abort();
	(void)dkim_number(v, &number);
	while (dkim_tags_item(&rest, &more, &item)) {
		octets += item.n;
		items++;
	}
	if (!items || octets + items - 1 > v.n)
		abort();
	free(all);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = str_n((const char *)data, size);
	struct dkim_tags a, b;
	const char *why = NULL;
	readers(text);
	if (dkim_tags_parse(text, &a, &why)) {
		if (!why)
			abort();
		return 0;
	}
	struct buf plain = BUF_INIT(1 << 24);
	for (size_t i = 0; i < a.n; i++) {
		const struct dkim_tag *t = &a.tag[i];
		if (t->begin > t->end || t->end > size || t->value.p < text.p + t->begin || t->value.p + t->value.n > text.p + t->end ||
		    text.p[t->begin - 1] != '=' || (t->end < size && text.p[t->end] != ';'))
			abort();
		readers(t->value);
		buf_adds(&plain, t->name);
		buf_addc(&plain, '=');
		buf_adds(&plain, t->value);
		buf_addc(&plain, ';');
	}
	if (plain.failed || dkim_tags_parse(buf_str(&plain), &b, &why) || a.n != b.n)
		abort();
	for (size_t i = 0; i < a.n; i++)
		if (!str_eq(a.tag[i].name, b.tag[i].name) || !str_eq(a.tag[i].value, b.tag[i].value))
			abort();
	buf_free(&plain);
	return 0;
}
