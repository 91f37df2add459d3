/* An admin over real sockets with a fake daemon and a fake database, in a folder of its own. */
#ifndef TEST_ADMIN_FIXTURE_H
#define TEST_ADMIN_FIXTURE_H

#include "admin/admin_internal.h"
#include "fake_store.h"

struct fixture {
	char dir[64], socket[128];
	struct event_base *base;
	struct config *conf;
	struct admin *a;
	struct store_conn db;
	uint16_t port;
	bool healthy;
	unsigned woken, stopped;
	const char *reload_faults;
};

/* db false: there is no database connection at all. */
void fixture_open(struct fixture *f, bool db);
void fixture_close(struct fixture *f);
/* Configuration from text, as if it stood in a file. */
struct config *fixture_config(const char *dir, const char *text);

#endif
