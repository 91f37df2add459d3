/* What a worker tells while it cannot speak: a few KiB of memory that it shares with the dispatcher, a sealed memfd which comes
 * with the first line up. The worker writes which message it has in hand, at which stage of a fused pass and since when, what it
 * has asked the database for, and, from a signal handler, where it died. The dispatcher reads it when it asks itself how long a
 * worker has been busy, and when the worker is dead. Its own part are the stages that are not to be fused for now. It runs in a process with code that is not ours, so a reader believes
 * nothing in it: numbers are hints, texts are cut and cleaned by wire_page_read(). Pure: no mapping, no clock. */
#ifndef PROTO_WIRE_PAGE_H
#define PROTO_WIRE_PAGE_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	WIRE_PAGE_SIZE = 8192,
	WIRE_PAGE_TRACE = 1024,      /* offset of the backtrace: lines, up to the first NUL */
	WIRE_PAGE_TRACE_MAX = 6144,
	WIRE_PAGE_FRAMES = 24,       /* lines at most */
	WIRE_PAGE_AVOID = WIRE_PAGE_TRACE + WIRE_PAGE_TRACE_MAX, /* offset of the dispatcher's part */
	WIRE_PAGE_AVOID_MAX = 8,     /* stages */
	WIRE_PAGE_NAME = 104,        /* octets of one, its NUL included */
	WIRE_PAGE_MAGIC = 0x70657031,
};

struct wire_page {
	uint32_t magic;
	uint32_t seq;                /* odd while id … version are being written */
	int64_t id;                  /* the message in hand; 0: none, or several at once */
	int64_t since;               /* this hop began then (CLOCK_MONOTONIC, microseconds) */
	uint32_t hop;                /* 0: the worker's own stage */
	int32_t signal;              /* what killed it; 0: nothing did that can be caught */
	uint64_t selects, writes, trips; /* statements that load, that change, and round trips, so far */
	uint64_t retries;            /* serialization failures and deadlocks, each tried again */
	uint64_t put_off;            /* rows put off with another one of their destination */
	char stage[104], module[128], version[64];
};

/* A reader's copy. */
struct wire_page_copy {
	bool steady;                 /* id … version belong together */
	int64_t id, since;
	uint32_t hop;
	int32_t signal;
	uint64_t selects, writes, trips, retries, put_off;
	char stage[104], module[128], version[64];
};

/* Writer: the numbers of one hop. stage, module and version only when they changed since the last call (stage not NULL). */
void wire_page_hop(struct wire_page *p, int64_t id, uint32_t hop, int64_t since, const char *stage, const char *module,
    const char *version);
/* Reader: copies what is there, texts NUL-terminated and free of anything but printable ASCII. */
void wire_page_read(const struct wire_page *p, struct wire_page_copy *ret);
/* The i-th line of the backtrace into out (cleaned likewise); false: there are no more. page has WIRE_PAGE_SIZE octets. */
bool wire_page_frame(const void *page, unsigned i, char *out, size_t size);
/* Dispatcher: the n-th stage to be avoided ("": none, "*": every one). Worker: is it one of them? */
void wire_page_avoid(void *page, unsigned n, const char *stage);
bool wire_page_avoids(const void *page, const char *stage);

#endif
