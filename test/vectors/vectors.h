/* The conformance vectors program, bin/pepsi-vectors TOPIC FILE…: runs the engines of proto/ against the JSON files of the
 * public suites. A topic is one row of the table in vectors.c and one function in topic_<name>.c; it judges one case. */
#ifndef TEST_VECTORS_VECTORS_H
#define TEST_VECTORS_VECTORS_H

#include "base/buf.h"

#include <json-c/json.h>
#include <stdlib.h>

/* What a topic says of one case. */
struct verdict {
	bool ok;
	struct buf expected, got; /* one line of text each, printed when not ok */
	const char *note;         /* why another result than the suite's is right, or NULL */
	bool report;              /* nothing is judged: the line is the id and `got`, whatever it holds */
};

/* file: the base name of the file the case is from; a topic whose files differ in form looks at it or at the case's keys. */
typedef void vectors_topic_fn(const char *file, struct json_object *one, struct verdict *v);

vectors_topic_fn topic_smtp_data, topic_address, topic_proxy_protocol, topic_eai, topic_mail;
vectors_topic_fn topic_dmarc, topic_authres, topic_psl;
vectors_topic_fn topic_dkim, topic_arc, topic_spf;
vectors_topic_fn topic_srs, topic_mime, topic_headers, topic_dmarc_reports, topic_arf;
vectors_topic_fn topic_dane, topic_mta_sts, topic_tlsrpt;
vectors_topic_fn topic_bounce, topic_autoreply, topic_identity;
/* Prints the agreement of all cases. False: too little. */
bool topic_bounce_end(void);
/* The part of topic address that judges header fields: {"header", "expected"}. */
void topic_address_list(struct json_object *one, struct verdict *v);

/* The file at hand: its folder with the last "/" (suites name message files beside it), and its root, for what a suite says once
 * for all cases. */
struct str vectors_folder(void);
struct json_object *vectors_root(void);

/* Helpers for topics. A string member with its length (NUL octets allowed); .p is NULL when there is none. */
struct str vectors_str(struct json_object *o, const char *key);
/* A boolean member; *ret untouched and false when there is none. */
bool vectors_bool(struct json_object *o, const char *key, bool *ret);
/* Octets of a hex string appended to out. Returns 0, or -1. */
int vectors_unhex(struct str hex, struct buf *out);
/* A mailbox as it stands in a header field (RFC 5322 §3.4), "Name <addr>" or an address with comments and blanks around it: the
 * address within, appended to ret, as proto/mail/addrlist.h reads it. False: not one mailbox. A bare address is. */
bool vectors_mailbox(struct str s, struct buf *ret);
/* Appends s with everything but printable ASCII as \xNN. */
void vectors_escape(struct str s, struct buf *out);

#endif
