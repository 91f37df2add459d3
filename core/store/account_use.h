/* What accounts have used of their caps, kept over restarts: pepsi.mail_account_use, over a connection of role pepsi-ingress.
 * Strings handed in are copied; those of a callback live during it. */
#ifndef PEPSI_STORE_ACCOUNT_USE_H
#define PEPSI_STORE_ACCOUNT_USE_H

#include "store/queue.h"

enum { STORE_ACCOUNT_USE_MAX = 10000 }; /* lines of one call */

struct store_account_use {
	struct str name;
	int64_t hour_at, day_at, told_at; /* microseconds */
	int64_t messages_hour, messages_day, recipients_hour, recipients_day;
};

void store_account_use_put(struct store_conn *c, const struct store_account_use *lines, size_t n, store_done_fn fn, void *arg);
/* The latest used first, as many as fit into one call. */
typedef void (*store_account_use_fn)(void *arg, enum store_rc rc, const struct store_account_use *lines, size_t n);
void store_account_use_get(struct store_conn *c, store_account_use_fn fn, void *arg);

#endif
