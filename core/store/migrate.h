/* Brings a database to the schema of this program: roles, numbered patches in order, then the procedures file and the grants.
 * Blocking; for a short-lived child at start and for `pepsi db`. The SQL files of db/ are compiled in. */
#ifndef PEPSI_STORE_MIGRATE_H
#define PEPSI_STORE_MIGRATE_H

#include "store/conn.h"

/* conninfo of a user who may create in the database. embedded: also creates database `pepsi` and the roles.
 * 0: up to date now. -1: error, one-line reason in err (a database newer than this program: says both versions and
 * what to do). Applied patches are logged. Two at once wait for each other (advisory lock). */
int migrate_run(const struct store_params *admin, bool embedded, char *err, size_t err_size);
/* The schema version this program knows. */
unsigned migrate_version(void);

#endif
