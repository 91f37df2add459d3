/* See addressees.h. Sorted to find them and sorted back: there may be as many as MAX_RECIPIENTS, all of them the same. */
#include "addressees.h"

#include <stdlib.h>
#include <strings.h>

static int by_address(const struct addressee *x, const struct addressee *y)
{
	struct str a = x->rcpt->address, b = y->rcpt->address;
	size_t n = a.n < b.n ? a.n : b.n;
	int r = n ? strncasecmp(a.p, b.p, n) : 0;
	return r ? r : a.n < b.n ? -1 : a.n > b.n;
}

static int by_place(const void *a, const void *b)
{
	const struct smtp_rcpt *x = ((const struct addressee *)a)->rcpt, *y = ((const struct addressee *)b)->rcpt;
	return (x > y) - (x < y);
}

static int by_address_and_place(const void *a, const void *b)
{
	int r = by_address(a, b);
	return r ? r : by_place(a, b);
}

/* RFC 3461 §4.1: who says nothing hears of failures and of delays. */
static unsigned both(unsigned a, unsigned b)
{
	unsigned never = SMTP_NOTIFY_NEVER, silent = SMTP_NOTIFY_FAILURE | SMTP_NOTIFY_DELAY, sum;
	if (a == b)
		return a;
	sum = (a ? a & ~never : silent) | (b ? b & ~never : silent);
	return sum ? sum : never;
}

size_t addressees_once(const struct smtp_transaction *tx, struct addressee *out)
{
	size_t n = 0;
	for (size_t i = 0; i < tx->n_rcpts; i++)
		out[i] = (struct addressee){ &tx->rcpts[i], tx->rcpts[i].notify };
	if (tx->n_rcpts < 2)
		return tx->n_rcpts;
	qsort(out, tx->n_rcpts, sizeof *out, by_address_and_place);
	for (size_t i = 0; i < tx->n_rcpts; i++)
		if (n && !by_address(&out[n - 1], &out[i]))
			out[n - 1].notify = both(out[n - 1].notify, out[i].notify);
		else
			out[n++] = out[i];
	qsort(out, n, sizeof *out, by_place);
	return n;
}
