/* The operator's way to what the admin child keeps (accounts, recipients): its socket, which is root's or the account's that runs
 * pepsid, never the reactor's. Looks at who listens there before anything is sent. */
#ifndef CLI_ACCOUNT_CLIENT_H
#define CLI_ACCOUNT_CLIENT_H

#include "cli_internal.h"
#include "proto/wire/account.h"

#include <sys/un.h>

struct account_client {
	struct cli *c;
	int fd;
	char path[sizeof ((struct sockaddr_un *)0)->sun_path];
	char datagram[WIRE_ACCOUNT_DATAGRAM_MAX]; /* the last answer */
};

/* NULL after a message. */
struct account_client *cli_account_client(struct cli *c);
/* For what can do without: 0, or why pepsid cannot be asked (static text); no message. */
const char *cli_account_try(struct account_client *a);
/* CLI_DONE, or CLI_FAILED after a message. Waits a little for an admin child that is being started. */
int cli_account_connect(struct account_client *a);
/* One question, one answer; its strings live until the next. CLI_FAILED after a message, also where the answer is a refusal. */
int cli_account_ask(struct account_client *a, const struct wire_account_request *r, struct wire_account_answer *ret);
/* All rows of a table, a page at a time: as a JSON array with --json, else by print(). Exit status. */
int cli_account_list(struct cli *c, enum wire_account_op op, struct json_object *(*json)(const struct wire_account_row *),
    void (*print)(const struct wire_account_row *));
/* Frees it; returns rc. */
int cli_account_done(struct account_client *a, int rc);

#endif
