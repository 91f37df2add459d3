/* A tool and the database (pepsi dmarc, sts, tlsrpt): one connection of role pepsi, asked one question at a time, waited for. */
#ifndef CLI_TOOL_DB_H
#define CLI_TOOL_DB_H

#include "service.h"
#include "store/destinations.h"
#include "store/dmarc.h"

struct tool_db {
	struct event_base *base;
	struct store_conn *conn;
	char conninfo[SERVICE_CONNINFO_SIZE];
	char err[300];
	bool up, down;             /* down: told so */
	/* the question under way */
	bool done;
	enum store_rc rc;
	struct json_object *answer;
	int64_t first;
};

/* Leaves root, connects. CLI_DONE, or CLI_FAILED after a message; tool_db_close() in both cases. */
int tool_db_open(struct tool_db *db, const struct config *conf);
void tool_db_close(struct tool_db *db);
/* args is taken over. The answer is the caller's to put; NULL after a message. */
struct json_object *tool_db_ask(struct tool_db *db, enum store_dmarc_question q, struct json_object *args);
/* The same of what is known of destinations, for pepsi sts, and of TLS reports. */
struct json_object *tool_db_destinations(struct tool_db *db, enum store_destinations_question q, struct json_object *args);
/* The same, of a question that may be answered null: false after a message. */
bool tool_db_ask_null(struct tool_db *db, enum store_destinations_question q, struct json_object *args, struct json_object **ret);
/* Connects, asks, goes. args, which are taken over, may be NULL: a message was given. */
struct json_object *tool_db_once(struct cli *c, enum store_destinations_question q, struct json_object *args);
/* Prints an answer, which is taken over: as JSON, or by fn. NULL: CLI_FAILED. */
int tool_db_print(struct cli *c, struct json_object *o, void (*print)(struct json_object *));
/* The first message's id; 0: another run was faster; -1 after a message. */
int64_t tool_db_enqueue(struct tool_db *db, const struct store_dmarc_report *r);

#endif
