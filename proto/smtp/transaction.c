/* A mail transaction's memory: sender, recipients and what the caller hangs on, all in one arena that is emptied when the
 * transaction is over. */
#include "server_internal.h"

/* The arena's limit: what one recipient may need (address, ORCPT, its place in the growing array, twice), and room for the
 * rest of the transaction and for the caller. */
enum { PER_RCPT = 2048, REST = 1024 * 1024 };

unsigned smtp_server_max_rcpts(const struct smtp_server *s)
{
	return s->conf->max_recipients ? s->conf->max_recipients : SMTP_SERVER_RCPTS_DEFAULT;
}

int smtp_transaction_begin(struct smtp_server *s)
{
	struct arena *arena = s->tx.arena ? s->tx.arena : arena_new((size_t)smtp_server_max_rcpts(s) * PER_RCPT + REST);
	if (!arena)
		return -1;
	arena_reset(arena);
	s->tx = (struct smtp_transaction){ .arena = arena };
	s->rcpt_replies = NULL;
	s->rcpts_cap = 0;
	s->tx_stale = false;
	return 0;
}

static int keep(struct arena *a, struct str *s)
{
	*s = arena_str(a, *s);
	return s->p ? 0 : -1;
}

int smtp_transaction_keep_rcpt(struct smtp_server *s)
{
	struct smtp_transaction *tx = &s->tx;
	struct smtp_rcpt *r = &s->rcpt;
	if (tx->n_rcpts == s->rcpts_cap) {
		unsigned cap = s->rcpts_cap ? s->rcpts_cap * 2 : 4;
		struct smtp_rcpt *grown = arena_calloc(tx->arena, cap, sizeof *grown);
		if (!grown)
			return -1;
		if (tx->n_rcpts)
			memcpy(grown, tx->rcpts, tx->n_rcpts * sizeof *grown);
		tx->rcpts = grown;
		s->rcpts_cap = cap;
	}
	size_t local = r->local.n, domain = r->domain.n;
	if (keep(tx->arena, &r->address) || (r->orcpt.n && keep(tx->arena, &r->orcpt)))
		return -1;
	r->local = str_n(r->address.p, local);
	r->domain = str_n(r->address.p + r->address.n - domain, domain);
	return 0;
}

void smtp_transaction_add_rcpt(struct smtp_server *s)
{
	if (s->tx.n_rcpts < s->rcpts_cap)
		s->tx.rcpts[s->tx.n_rcpts++] = s->rcpt;
}

void smtp_transaction_clear(struct smtp_server *s)
{
	struct arena *arena = s->tx.arena;
	if (arena)
		arena_reset(arena);
	s->tx = (struct smtp_transaction){ .arena = arena };
	s->rcpt = (struct smtp_rcpt){ 0 };
	s->rcpt_replies = NULL;
	s->rcpts_cap = 0;
	s->tx_stale = false;
}
