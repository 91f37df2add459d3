/* See homeward.h. */
#include "homeward.h"
#include "say.h"

#include <stdlib.h>

struct one {
	const char *address;
	size_t at;
};

static int by_place(const void *a, const void *b)
{
	size_t x = ((const struct one *)a)->at, y = ((const struct one *)b)->at;
	return (x > y) - (x < y);
}

static int by_text(const void *a, const void *b)
{
	int r = strcmp(((const struct one *)a)->address, ((const struct one *)b)->address);
	return r ? r : by_place(a, b);
}

/* The first of each, in their order. */
static size_t once(struct one *v, size_t n)
{
	size_t kept = 0;
	qsort(v, n, sizeof *v, by_text);
	for (size_t i = 0; i < n; i++)
		if (!kept || strcmp(v[kept - 1].address, v[i].address) != 0)
			v[kept++] = v[i];
	qsort(v, kept, sizeof *v, by_place);
	return kept;
}

int32_t homeward(const struct pepsi_host *h, struct pepsi_msg *m, char *const *home)
{
	size_t n = h->n_rcpt(m), kept = 0;
	struct one *v = calloc(n + 1, sizeof *v);
	const char **rcpts = calloc(n + 1, sizeof *rcpts);
	char **own = calloc(n + 1, sizeof *own);
	int32_t r = v && rcpts && own ? PEPSI_OK : PEPSI_RETRY;
	for (size_t i = 0; r == PEPSI_OK && i < n; i++) {
		if (!home[i] && !(own[i] = str_dupz(from_host(h->rcpt(m, i)))))
			r = PEPSI_RETRY;
		v[i] = (struct one){ home[i] ? home[i] : own[i], i };
	}
	if (r == PEPSI_OK) {
		kept = once(v, n);
		for (size_t i = 0; i < kept; i++)
			rcpts[i] = v[i].address;
		r = h->rewrite_recipients(m, rcpts, kept, NULL);
	}
	for (size_t i = 0; own && i < n; i++)
		free(own[i]);
	free(own);
	free(rcpts);
	free(v);
	return r;
}
