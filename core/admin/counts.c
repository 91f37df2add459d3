/* One snapshot of the queue's counts for everybody who asks at the same time. At most one query is on its way; who comes
 * while it runs waits for the next, since the snapshot may be older than what the asker has seen happen. */
#include "admin_internal.h"

#include <stdlib.h>

static void start(struct admin *a);

static void answer_all(struct admin *a, struct admin_waiter **list, const struct store_counts *counts)
{
	struct admin_waiter *w;
	while ((w = *list)) {
		struct admin_peer *p = map_get(&a->peers, w->peer);
		admin_counts_fn fn = w->fn;
		*list = w->next;
		free(w);
		if (p && !p->dead)
			fn(p, counts);
	}
}

static void on_counts(void *arg, enum store_rc rc, const struct store_counts *counts)
{
	struct admin_ticket *t = arg;
	struct admin *a = t->a;
	admin_ticket_redeem(t);
	if (!a)
		return;
	/* `counting` still holds: an asker inside the loop must not start a query over the list being walked */
	answer_all(a, &a->counted, rc == STORE_OK ? counts : NULL);
	if (!admin_db_up(a))
		answer_all(a, &a->to_count, NULL); /* it went away: nobody to ask for those who came later */
	a->counting = false;
	if (a->to_count)
		start(a);
}

static void start(struct admin *a)
{
	/* a ticket without a peer: it only says whether the admin is still there */
	struct admin_peer nobody = { .a = a };
	struct admin_ticket *t = admin_ticket_new(&nobody);
	if (!t)
		return; /* the askers' deadlines answer them; the next asker tries again */
	a->counted = a->to_count;
	a->to_count = NULL;
	a->counting = true;
	store_counts(a->db, on_counts, t);
}

int admin_counts_ask(struct admin_peer *p, admin_counts_fn fn)
{
	struct admin *a = p->a;
	if (!admin_db_up(a))
		return -1;
	struct admin_waiter *w = calloc(1, sizeof *w);
	if (!w)
		return -1;
	*w = (struct admin_waiter){ .next = a->to_count, .peer = p->id, .fn = fn };
	a->to_count = w;
	if (!a->counting)
		start(a);
	return 0;
}

static void forget(struct admin_waiter **at, uint64_t peer)
{
	while (*at) {
		struct admin_waiter *w = *at;
		if (w->peer == peer) {
			*at = w->next;
			free(w);
		} else {
			at = &w->next;
		}
	}
}

void admin_counts_forget(struct admin_peer *p)
{
	forget(&p->a->counted, p->id);
	forget(&p->a->to_count, p->id);
}
