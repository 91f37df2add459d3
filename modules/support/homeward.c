/* See homeward.h. */
#include "homeward.h"
#include "say.h"

#include <stdlib.h>

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int32_t homeward(const struct pepsi_host *h, struct pepsi_msg *m, char *const *home)
{
	size_t n = h->n_rcpt(m), kept = 0;
	const char **rcpts = calloc(n + 1, sizeof *rcpts);
	char **own = calloc(n + 1, sizeof *own);
	int32_t r = rcpts && own ? PEPSI_OK : PEPSI_RETRY;
	for (size_t i = 0; r == PEPSI_OK && i < n; i++) {
		if (!home[i] && !(own[i] = str_dupz(from_host(h->rcpt(m, i)))))
			r = PEPSI_RETRY;
		rcpts[i] = home[i] ? home[i] : own[i];
	}
	if (r == PEPSI_OK) {
		qsort(rcpts, n, sizeof *rcpts, by_text);
		for (size_t i = 0; i < n; i++)
			if (!kept || strcmp(rcpts[kept - 1], rcpts[i]) != 0)
				rcpts[kept++] = rcpts[i];
		r = h->rewrite_recipients(m, rcpts, kept, NULL);
	}
	for (size_t i = 0; own && i < n; i++)
		free(own[i]);
	free(own);
	free(rcpts);
	return r;
}
