/* process_batch(): a METADATA stage's module gets what is pipelined at once (requirement C9). It says what became of each
 * message; one that it gets wrong costs no other. What follows, fusion and outcome, is each message's own again. */
#include "base/clock.h"
#include "page.h"
#include "run.h"

/* No module gives this: it stands for "said nothing". */
enum { UNSAID = INT32_MIN };

static int32_t status_of(struct pepsi_msg *m, int32_t rc, int32_t said)
{
	if (said != UNSAID)
		return said;
	if (rc != PEPSI_OK) /* the whole call failed: that is the answer for those it did not get to */
		return rc;
	pass_misuse(m, "process_batch() gave no status for a message");
	return PEPSI_MISUSE;
}

void run_batch(struct run *r)
{
	struct item *items[RUN_BATCH];
	struct pepsi_msg *msgs[RUN_BATCH];
	int32_t status[RUN_BATCH];
	size_t n = 0;
	while (n < RUN_BATCH - r->n_slots && r->in.head && r->in.head->st == ITEM_READY) {
		struct item *it = r->in.head;
		if (item_map(it) || !(msgs[n] = run_begin(r, it)))
			break; /* refused in its turn: it is not ready any more */
		items[n] = input_take(&r->in);
		status[n++] = UNSAID;
	}
	if (!n)
		return;
	const struct pepsi_stage *st = &r->env->mod->stage;
	int64_t began = clock_mono_us();
	page_hop(n == 1 ? msgs[0]->id : 0, 0, r->env, began);
	int32_t rc = st->process_batch(r->env->state, &worker_host, msgs, status, n);
	int64_t each = (clock_mono_us() - began) / (int64_t)n;
	for (size_t i = 0; i < n; i++) {
		msgs[i]->began_us = msgs[i]->hop_began_us = clock_mono_us() - each;
		pass_go_on(msgs[i], status_of(msgs[i], rc, status[i]));
		run_over(r, items[i], msgs[i]);
	}
	for (size_t i = 0; i < n; i++)
		item_free(items[i]);
	page_idle();
}
