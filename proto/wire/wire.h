/* What travels between the dispatcher and a worker, besides descriptors: queue ids in, status lines out.
 *
 * Down (dispatcher → worker, SOCK_SEQPACKET): a datagram holds one or more records, each a queue id and, when the
 * content travels along, the row itself; a body larger than WIRE_INLINE_MAX comes as a memfd in SCM_RIGHTS, in record
 * order. By hand (`echo ID | pepsi worker STAGE`) the same ids come as decimal lines on standard input.
 *
 * Up (worker → dispatcher): first, once the module is loaded and opened, "2\n": from here on what goes wrong is a message's doing,
 * before it the stage's. Then exactly one line per id, in the order the ids were given: "STATUS[ SP JSON]\n". STATUS 0: the worker
 * wrote the row's outcome itself; 1: it could not, and says why in JSON {"error":"…"}. JSON may carry
 * {"outcome":"finish","to":"stage","also":["stage",…],"fused":[…]}: where the row went, and at which stages rows were made out
 * of it (split recipients, reports, side messages), so that the dispatcher claims there at once. outcome is finish, move,
 * pause ("secs":N for so long, unless an operator holds it), fail, or gone (there was no such row any more).
 *
 * A worker that drives many messages at once says "2 ids\n" instead of the first line; its lines then carry the id, "STATUS SP ID
 * [ SP JSON]\n", and may come in any order. At any time it may say "3\n": it is to leave, and begins nothing more. It ends with
 * WIRE_EXIT_LEFT when it leaves ids unanswered that nobody is to blame for, and with WIRE_EXIT_OVERRUN when the message that its page
 * (page.h) names has had its time.
 *
 * What its modules count is told in lines of their own, at any time behind the first line and about once a second while something changes: "4 SP TEXT\n",
 * a metric (proto/metrics), and "5 SP TEXT\n", a report, which alone may be longer than WIRE_LINE_MAX. They answer nothing.
 *
 * Pure encoding and decoding; hostile input on either side gives an error, never an overrun. */
#ifndef PROTO_WIRE_WIRE_H
#define PROTO_WIRE_WIRE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

enum {
	WIRE_DATAGRAM_MAX = 160 * 1024, /* octets of one datagram; below the default socket buffer */
	WIRE_INLINE_MAX = 64 * 1024,    /* larger bodies travel as a memfd (measured: no difference at 100 KiB) */
	WIRE_FDS_MAX = 64,              /* descriptors in one datagram */
	WIRE_LINE_MAX = 4096,           /* octets of a status line */
	WIRE_RCPTS_MAX = 100000,
	WIRE_READY = 2,                 /* wire_status.status of the first line up */
	WIRE_LEAVING = 3,               /* … and of the one that says so */
	WIRE_METRIC = 4,                /* … and of those that tell what is counted */
	WIRE_REPORT = 5,
	WIRE_REPORT_MAX = 48 * 1024,    /* octets of a report; with its line it fits into one read of the dispatcher */
	WIRE_REPORT_LINE_MAX = WIRE_REPORT_MAX + 256,
	WIRE_EXIT_OVERRUN = 10,         /* exit statuses of a worker that answers by id */
	WIRE_EXIT_LEFT = 11,
};

struct wire_item {
	int64_t id;
	bool has_content; /* the rest is valid only then */
	int64_t received_at; /* microseconds */
	int64_t body_id;
	struct str mail_from;
	struct str *rcpts;
	size_t n_rcpts;
	struct str state;   /* JSON text */
	struct str headers; /* CRLF lines, without the empty line */
	struct str body;    /* inline, or empty with body_in_fd */
	bool body_in_fd;
	uint64_t body_size;
};

/* Appends one record. Returns 0, or -1 (buffer limit: send what there is and begin anew). */
int wire_put(struct buf *out, const struct wire_item *item);
/* Octets wire_put() would append. */
size_t wire_size(const struct wire_item *item);
/* Takes the next record off *in; strings point into it, rcpts into the arena. 1: got one, 0: at the end, -1: malformed. */
int wire_get(struct str *in, struct arena *a, struct wire_item *ret);

struct wire_status {
	int status;        /* 0, 1, or WIRE_READY, WIRE_LEAVING (no json), WIRE_METRIC, WIRE_REPORT (json: their text, never empty) */
	struct str json;   /* empty: none */
	int64_t id;        /* of answers by id; 0: none stands in the line */
	bool by_id;        /* WIRE_READY: the answers will have one */
};
/* Appends a line; json may be empty and must not hold a line end. */
int wire_status_put(struct buf *out, const struct wire_status *st);
/* Takes the next whole line off the front of b's content from *pos on. 1, 0: no whole line yet, -1: malformed or too long. */
int wire_status_get(const struct buf *b, size_t *pos, struct wire_status *ret);

#endif
