/* The text beside keys, from any hand. What is taken is within its bounds, reads back the same as it is written, and its steps keep it so. */
#include "proto/dkim/ring.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* Written, read, the same. */
static void same(const struct dkim_ring *r)
{
	struct buf text = BUF_INIT(DKIM_RING_TEXT_MAX * 2);
	struct dkim_ring back;
	const char *why;
	unsigned line;
	must(!dkim_ring_write(r, &text));
	must(!dkim_ring_parse(buf_str(&text), &back, &why, &line) || text.n > DKIM_RING_TEXT_MAX);
	for (size_t i = 0; text.n <= DKIM_RING_TEXT_MAX && i < r->n; i++) {
		const struct dkim_ring_key *a = &r->key[i], *b = &back.key[i];
		must(back.n == r->n && !strcmp(a->selector, b->selector) && !strcmp(a->kind, b->kind) && a->state == b->state && a->since == b->since && !strcmp(a->replaces, b->replaces));
	}
	buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dkim_ring r = { .n = 99 };
	const char *why = NULL;
	unsigned line = 0;
	if (dkim_ring_parse(str_n((const char *)data, size), &r, &why, &line)) {
		must(why && r.n == 99);
		return 0;
	}
	must(r.n <= DKIM_RING_MAX);
	for (size_t i = 0; i < r.n; i++) {
		must(dkim_selector_ok(str_from(r.key[i].selector)) && r.key[i].state <= DKIM_KEY_REVOKED);
		must(dkim_ring_find(&r, str_from(r.key[i].selector)) == &r.key[i]);
	}
	same(&r);
	for (size_t i = 0; i < r.n; i++) {
		bool waited = r.key[i].state == DKIM_KEY_WAITING;
		must(dkim_ring_switch(&r, str_from(r.key[i].selector), 5000000000) == waited);
	}
	same(&r);
	dkim_ring_expire(&r, INT64_C(253402300800), 0);
	for (size_t i = 0; i < r.n; i++)
		must(r.key[i].state != DKIM_KEY_RETIRED);
	same(&r);
	while (r.n)
		dkim_ring_remove(&r, str_from(r.key[r.n / 2].selector));
	return 0;
}
