/* A database connection that is not there: answers what a test has laid in, from the event loop, or keeps silent. */
#ifndef TEST_FAKE_STORE_H
#define TEST_FAKE_STORE_H

#include "store/queue.h"

struct store_conn {
	struct event_base *base;
	bool up;
	bool silent;            /* questions wait in `held` until fake_store_release() */
	enum store_rc rc;       /* of every answer */
	struct store_counts counts;
	const char *list, *show;
	struct str message;     /* of every id up to 100 */
	unsigned asked;
	/* what came last */
	struct store_filter filter;
	char last[32], to[64], stage[64], rule[512];
	bool dry;
	unsigned rows;          /* that match, for commands in batches; 0: seven */
	struct fake_call *held;
};

void fake_store_release(struct store_conn *c);

#endif
