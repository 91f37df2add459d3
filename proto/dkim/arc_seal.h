/* Making one ARC set (RFC 8617 §5.1): the three fields that a host which passes mail on puts on top of it. No I/O, no clock; the message as it
 * leaves, the key and the verdict as it came in go in, fields come out.
 *
 *     struct arc_place at = arc_place(headers);                  // which instance; none, if the chain is closed
 *     authres_arc(&results, at.instance, id, headers, &n);       // proto/auth: what we found on arrival
 *     struct arc_seal how = { .instance = at.instance, .cv = …, .results = buf_str(&results), … };
 *     if (!arc_seal(&how, headers, body, &set, &why) && arc_seal_holds(&how, record, buf_str(&set), headers, body))
 *             send(set, headers, body);
 *
 * All changes of the message must be made before (§5.1). Work is linear in the message, n log n in its fields. */
#ifndef PROTO_DKIM_ARC_SEAL_H
#define PROTO_DKIM_ARC_SEAL_H

#include "dkim.h"
#include "private.h"

enum {
	ARC_SEAL_NAMES_MAX = 64,   /* names of fields that a message signature covers */
	ARC_SEAL_FIELDS_MAX = 200, /* fields of a message that it would cover; more: no message that people write */
	ARC_SEAL_SET_MAX = 128 << 10, /* octets of a set: what we saw, and a signature that names all those fields */
};

/* Where a new set would go. */
struct arc_place {
	unsigned instance; /* one more than the highest that any field names; 0: there is no room, or a chain that is closed */
	bool any;          /* there are ARC fields */
	const char *why;   /* of instance 0: our own words, a constant */
};
/* A chain whose newest seal says cv=fail has ended, nothing is added to it (§5.1.2); nor behind instance 50 (§4.2.1). Fields that cannot be
 * read count as having no instance. */
struct arc_place arc_place(struct str headers);

struct arc_seal {
	struct str domain, selector;     /* A-labels, lower case */
	const struct dkim_private *key;
	int64_t now;                     /* t=, seconds since 1970 */
	unsigned instance;
	enum dkim_result cv;             /* of the chain as it was received: DKIM_NONE, DKIM_PASS, DKIM_FAIL */
	struct str results;              /* the whole ARC-Authentication-Results field of this instance, with its CRLF */
	/* Names of the fields that are covered where they are there, as many as there are, and of those that nobody may add (covered once more
	 * than they are there); NULL-terminated; NULL: the usual ones. arc_name_ok() of each. */
	const char *const *names, *const *oversign;
	bool whole; /* no fold within b= and h=: lines beyond 78 octets, as the suite of ARC has them */
};

/* May a message signature cover fields of this name? Not those that every hop writes or takes away, nor ARC's own (§4.1.2). */
bool arc_name_ok(struct str name);

/* Appends ARC-Seal, ARC-Message-Signature and ARC-Authentication-Results. Returns 0, or -1 and *why (a constant): the message cannot be sealed (too
 * many fields, the older sets are not whole although cv is not "fail"), or memory. out is as before then. */
int arc_seal(const struct arc_seal *s, struct str headers, struct str body, struct buf *out, const char **why);

/* Does the set hold, by our verifier and the record of its key? Of the older sets only the structure is looked at: their keys are known to others. With
 * cv "fail", what verifiers never do is done: both signatures are tried on their own. False also when memory is out. */
bool arc_seal_holds(const struct arc_seal *s, struct str record, struct str set, struct str headers, struct str body);

#endif
