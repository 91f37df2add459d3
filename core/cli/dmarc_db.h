/* pepsi dmarc and the database: one connection of role pepsi, asked one question at a time, waited for. */
#ifndef CLI_DMARC_DB_H
#define CLI_DMARC_DB_H

#include "service.h"
#include "store/destinations.h"
#include "store/dmarc.h"

struct dmarc_db {
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

/* Leaves root, connects. CLI_DONE, or CLI_FAILED after a message; dmarc_db_close() in both cases. */
int dmarc_db_open(struct dmarc_db *db, const struct config *conf);
void dmarc_db_close(struct dmarc_db *db);
/* args is taken over. The answer is the caller's to put; NULL after a message. */
struct json_object *dmarc_db_ask(struct dmarc_db *db, enum store_dmarc_question q, struct json_object *args);
/* The same of what is known of destinations, for pepsi sts. */
struct json_object *dmarc_db_destinations(struct dmarc_db *db, enum store_destinations_question q, struct json_object *args);
/* The first message's id; 0: another run was faster; -1 after a message. */
int64_t dmarc_db_enqueue(struct dmarc_db *db, const struct store_dmarc_report *r);

#endif
