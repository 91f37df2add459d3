/* Who lives here, and what greylisting remembers: the calls of the ingress (role pepsi-ingress, through functions of
 * db/procedures.sql) and of the admin child (role pepsi-config, on pepsi.recipient). Strings handed in are copied; those of a
 * callback live during it. */
#ifndef PEPSI_STORE_RECIPIENT_H
#define PEPSI_STORE_RECIPIENT_H

#include "store/conn.h"

enum { STORE_RECIPIENT_NAMES_MAX = 4096, STORE_RECIPIENT_PAGE = 1000, STORE_GREYLIST_KEY = 16, STORE_GREYLIST_MAX = 1024 };

/* --- the ingress */

/* Which of these are there: names in pepsi.recipient, aliases in pepsi.alias_map; STORE_RECIPIENT_NAMES_MAX of each at most. row()
 * for each that is, then done(). */
typedef void (*store_recipient_row_fn)(void *arg, struct str name, bool alias);
typedef void (*store_recipient_done_fn)(void *arg, enum store_rc rc, unsigned n, const char *err);
void store_recipient_lookup(struct store_conn *c, const struct str *names, size_t n, const struct str *aliases, size_t n_aliases,
    store_recipient_row_fn row, store_recipient_done_fn done, void *arg);

struct store_greylist_terms {
	int32_t delay_s, window_s, life_s, auto_passes;
};
/* A triplet and its network, hashed. */
struct store_greylist_key {
	unsigned char triplet[STORE_GREYLIST_KEY], net[STORE_GREYLIST_KEY];
};
/* wait_s[i]: how long the i-th still has to wait, 0: it may pass. NULL unless rc is STORE_OK. n <= STORE_GREYLIST_MAX. */
typedef void (*store_greylist_fn)(void *arg, enum store_rc rc, const int32_t *wait_s, size_t n);
void store_greylist_ask(struct store_conn *c, const struct store_greylist_key *keys, size_t n, const struct store_greylist_terms *t,
    store_greylist_fn fn, void *arg);
/* Forgets what has expired, 10,000 at most. */
typedef void (*store_number_fn)(void *arg, enum store_rc rc, int64_t n);
void store_greylist_sweep(struct store_conn *c, store_number_fn fn, void *arg);
/* Rows in the queue. */
void store_queue_rows(struct store_conn *c, store_number_fn fn, void *arg);

/* --- the admin child. n: 1 when it was done, 0: it was there already, or was not. */
void store_recipient_add(struct store_conn *c, struct str address, store_recipient_done_fn done, void *arg);
void store_recipient_remove(struct store_conn *c, struct str address, store_recipient_done_fn done, void *arg);
/* Addresses behind `after`, in order, STORE_RECIPIENT_PAGE at most. */
void store_recipient_list(struct store_conn *c, struct str after, store_recipient_row_fn row, store_recipient_done_fn done, void *arg);

#endif
