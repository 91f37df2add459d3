/* Where a worker's work comes from: datagrams of the dispatcher (proto/wire), or decimal ids on standard input. Both give
 * the same items, in the order they came, each of which owns its memory. */
#ifndef PEPSI_WORKER_INPUT_H
#define PEPSI_WORKER_INPUT_H

#include "base/buf.h"
#include "proto/wire/wire.h"

enum item_state {
	ITEM_BARE,    /* an id; the row has to be loaded */
	ITEM_READY,   /* the row is here */
	ITEM_REFUSED, /* why says so */
	ITEM_GONE,    /* there is no such row any more */
};

struct item {
	struct item *next;
	struct wire_item w;
	enum item_state st;
	struct input_block *block; /* what w points into */
	int fd;                    /* body, or -1 */
	void *map;
	size_t map_n;
	char why[256];
};

/* Memory that several items point into. */
struct input_block {
	unsigned refs;
	char *data;
	struct arena *a;
};
struct input_block *input_block_new(size_t arena_max); /* one reference, the caller's */
void input_block_unref(struct input_block *b);         /* accepts NULL */

struct input {
	int fd;
	bool lines;
	bool ended;        /* nothing more will come */
	struct item *head, *tail;
	size_t n, octets;  /* waiting; content */
	uint64_t taken;    /* items read in all */
	struct buf line;
	char *room;        /* for one datagram */
};

/* 0 or -1: memory. */
int input_init(struct input *in, int fd, bool lines);
/* Reads what is there, once; block_ms as poll() has it (0: do not wait). stop_fd: readable ends the waiting. 1: got
 * something, 0: nothing (or ended), -1: malformed or broken (why in err). */
int input_fill(struct input *in, int block_ms, int stop_fd, char *err, size_t err_size);
/* Is there something unread on the descriptor? */
bool input_readable(const struct input *in);
/* The first item, now the caller's; NULL: none. */
struct item *input_take(struct input *in);
/* Maps a body that came as a descriptor. 0; -1: it is not what was promised (item becomes ITEM_REFUSED). */
int item_map(struct item *it);
/* What it points into is its own from here on, so that it keeps no others' memory while it waits for minutes. 0; -1: memory, nothing
 * has changed. */
int item_own(struct item *it);
void item_free(struct item *it);
void input_done(struct input *in);

#endif
