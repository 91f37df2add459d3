/* The configuration that is laid over the file: pepsi.config_override, scope global. The admin child writes and lists it (role
 * pepsi-config), a worker reads it when it starts. Strings handed in are copied; those of a callback live during it. */
#ifndef PEPSI_STORE_OVERLAY_H
#define PEPSI_STORE_OVERLAY_H

#include "store/worker.h"

enum { STORE_OVERLAY_PAGE = 500 };

typedef void (*store_overlay_row_fn)(void *arg, struct str section, struct str option, struct str value);
/* n: rows written, removed, or told. err is one line unless rc is STORE_OK. */
typedef void (*store_overlay_done_fn)(void *arg, enum store_rc rc, unsigned n, const char *err);
void store_overlay_set(struct store_conn *c, struct str section, struct str option, struct str value, store_overlay_done_fn done, void *arg);
void store_overlay_unset(struct store_conn *c, struct str section, struct str option, store_overlay_done_fn done, void *arg);
/* Those behind (section, option), in order, STORE_OVERLAY_PAGE at most. */
void store_overlay_list(struct store_conn *c, struct str section, struct str option, store_overlay_row_fn row, store_overlay_done_fn done,
    void *arg);

/* Blocks, on the worker's connection: all rows of stages, max at most. err: one line. */
enum store_rc store_worker_overlay(struct store_worker *w, unsigned max, store_overlay_row_fn row, void *arg, char *err, size_t err_size);

#endif
