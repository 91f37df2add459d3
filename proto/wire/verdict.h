/* Pre-acceptance: what travels between the ingress and a worker that judges messages before they are taken. Both ways a
 * parcel (net/parcel.h) holds one record.
 *
 * Down: a job, that is how long it may take (u32, milliseconds) and a row as wire_put() writes it; its id is a number of the
 * ingress's own, for there is no queue id yet. Up: first WIRE_BEFORE_READY alone, once the module is open; then exactly one
 * verdict for each job; and records that begin with WIRE_BEFORE_METRICS.
 *
 * A verdict: what is to become of the message, and, where it passes, what the stage changed of it. The worker runs code that
 * is not ours, so what it says is input from outside: the structure is checked here, the meaning by the ingress.
 * Pure encoding and decoding; hostile input gives an error, never an overrun. */
#ifndef PROTO_WIRE_VERDICT_H
#define PROTO_WIRE_VERDICT_H

#include "wire.h"

#define WIRE_BEFORE_READY "R"
/* At any time behind the first one, in the place of a job's id one that no job has (-1), and then lines as wire.h has them with WIRE_METRIC: what the
 * module counts. */
#define WIRE_BEFORE_METRICS "ÿÿÿÿÿÿÿÿ"

enum {
	WIRE_BEFORE_MAX = 64 * 1024 * 1024, /* octets of a job or verdict without a body that has a descriptor */
	WIRE_STAGE_MAX = 63,                /* octets of a stage's name */
	WIRE_TEXT_MAX = 1000,               /* of a text for people */
	WIRE_ENHANCED_MAX = 11,             /* "5.123.123" and some */
};

enum wire_judgement {
	WIRE_PASS = 1,  /* on with the list; or, with `stage`, there */
	WIRE_REJECT,    /* 5xx */
	WIRE_DEFER,     /* 4xx */
	WIRE_DISCARD,   /* 250, and nothing is kept */
	WIRE_FAULT,     /* the stage did what cannot be done here, or broke the ABI: detail says what */
};

#define WIRE_CHANGED_SENDER 1u
#define WIRE_CHANGED_RCPTS 2u
#define WIRE_CHANGED_STATE 4u
#define WIRE_CHANGED_HEADERS 8u
#define WIRE_CHANGED_BODY 16u
#define WIRE_CHANGED_ALL 31u

struct wire_verdict {
	int64_t id;                /* of the job */
	enum wire_judgement what;
	struct str stage;          /* WIRE_PASS: a stage the module named, or empty */
	struct str enhanced;       /* REJECT, DEFER: "5.7.1", or empty */
	struct str text;           /* REJECT, DEFER: what the client is told, or empty */
	struct str detail;         /* for the log alone: why; or empty */
	unsigned changed;          /* PASS: WIRE_CHANGED_*; the members below count as far as it names them */
	struct str mail_from;
	struct str *rcpts;
	size_t n_rcpts;
	struct str state;          /* JSON, the whole */
	struct str headers, body;
	bool body_in_fd;           /* the body came as a descriptor, `body` is empty */
	uint64_t body_size;
};

/* Appends it. 0, or -1: a limit, or no memory. */
int wire_verdict_put(struct buf *out, const struct wire_verdict *v);
/* Reads the one verdict that `in` is; strings point into it, rcpts into the arena. 0, or -1: malformed. */
int wire_verdict_get(struct str in, struct arena *a, struct wire_verdict *ret);

/* The time in front of a job. Appends it; takes it off: 0, or -1. */
int wire_job_put(struct buf *out, uint32_t ms, const struct wire_item *item);
int wire_job_get(struct str in, struct arena *a, uint32_t *ret_ms, struct wire_item *ret);

#endif
