/* The page that this process shares with the dispatcher (proto/wire/page.h), and the handler that writes into it where the
 * process died. One per process, hence no object. Everything here does nothing until page_open() was called, so passes run
 * without it as well (tests, trials). */
#ifndef PEPSI_WORKER_PAGE_H
#define PEPSI_WORKER_PAGE_H

#include "pass.h"

struct store_worker_counts;

/* Makes the page and installs the handler (not under sanitizers, which have their own). Returns the descriptor to be sent to
 * the dispatcher, or -1: go on without. by_hand: nobody reads it, so the handler writes to standard error. */
int page_open(bool by_hand);
/* This message is in hand now, the hop-th of its pass (from 0) at env's stage. */
void page_hop(int64_t id, uint32_t hop, const struct worker_env *env, int64_t now_us);
/* Does the dispatcher say that this stage is to run in its own workers for now? */
bool page_avoids(const char *stage);
/* Nothing is in hand. */
void page_idle(void);
/* What the database was asked for so far. */
void page_counts(const struct store_worker_counts *n);

#endif
