/* Brings a database to the schema of this program: roles, numbered patches in order, then the procedures file and the grants.
 * Blocking; for a short-lived child at start and for `pepsi db`. The SQL files of db/ are compiled in. */
#ifndef PEPSI_STORE_MIGRATE_H
#define PEPSI_STORE_MIGRATE_H

#include "store/conn.h"

/* admin: conninfo of a user who may create in the database. embedded (connect as role "postgres"): also creates database
 * `pepsi`, and a role `pepsi-owner` that nobody can log in as and that owns the schema, so that nothing runs with a superuser's rights.
 * 0: up to date now. -1: error, one-line reason in err (600 octets are enough). Errors besides a server that cannot be reached: a
 * database newer than this program, a server older than PostgreSQL 14 or not in UTF8, and one whose fsync or full_page_writes is
 * off, since it can lose accepted mail; synchronous_commit = off is a warning, sessions set their own. Applied
 * patches are logged, and so are the server's warnings (roles that could not be made). All of it is one
 * transaction; two at once wait for each other. */
int migrate_run(const struct store_params *admin, bool embedded, char *err, size_t err_size);
/* The schema version this program knows. */
unsigned migrate_version(void);

#endif
