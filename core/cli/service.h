/* For tools that work on the queue's database themselves, beside pepsid or without it: the configuration as a whole, the account that owns the
 * queue, how the database is reached. */
#ifndef CLI_SERVICE_H
#define CLI_SERVICE_H

#include "cli_internal.h"

enum { SERVICE_CONNINFO_SIZE = 1024 };

/* The configuration, held against all tables; NULL after messages about what is wrong: a value that does not parse must not become the
 * default. */
struct config *service_config(const struct cli *c);
/* Words of a list, in *ret (n of them, from malloc), pointing into the copy that is returned (from malloc). NULL: no memory. */
char *service_words(const char *text, const struct str **ret, size_t *ret_n);
/* root has no role in the database: on as this account, without a way back. CLI_DONE, or CLI_FAILED after a message. */
int service_leave_root(const char *account);
/* The connection string of [pepsi-postgres] or of the private database. CLI_DONE, or CLI_FAILED after a message. */
int service_conninfo(const struct config *conf, char out[SERVICE_CONNINFO_SIZE]);

#endif
