/* Authentication-Results (RFC 8601; RFC 8616 for UTF-8): reading foreign fields, taking out forged ones, writing ours. */
#ifndef PROTO_AUTH_AUTHRES_H
#define PROTO_AUTH_AUTHRES_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

enum {
	AUTHRES_RESULTS_MAX = 100, /* of one field; more makes it bad, and they are not read */
	AUTHRES_PROPS_MAX = 20,    /* of one result; likewise */
	AUTHRES_DEPTH_MAX = 50,    /* comments within comments */
	AUTHRES_VALUE_MAX = 500,   /* octets of a value that is written; a longer one is left out */
};

struct authres_prop {
	struct str ptype, name; /* "smtp", "mailfrom" */
	struct str value;       /* without quotes; an address keeps those of its local part */
};

struct authres_result {
	struct str method, result; /* "spf", "pass" */
	unsigned version;          /* 1 unless it says otherwise */
	struct str reason;         /* .p is NULL: none */
	struct str comment;        /* writing only: stands behind the result; .p is NULL: none */
	struct authres_prop prop[AUTHRES_PROPS_MAX];
	size_t n_props;
};

struct authres {
	struct str id;      /* authserv-id without quotes; empty if it could not be read */
	unsigned version;   /* 1 unless it says otherwise */
	struct authres_result *result;
	size_t n;
	bool none;          /* it says that nothing was done */
	bool bad;           /* not by the grammar; what could be read is there */
	struct arena *mem;  /* not yours */
};

/* Reads the value of a field (behind the colon). Everything is copied; work is linear. Values may hold octets that should have been
 * quoted ("/", ":", "="), as many write them. Returns 0, or -1: memory; *ret is empty then. */
int authres_parse(struct authres *ret, struct str value);
void authres_free(struct authres *a);

/* May someone take the field for one of that server? Compares as liberally as any reader could: any case, final dots, U- and A-labels,
 * quotes, comments, encoded words; and a field whose start cannot be read is taken for ours if the id occurs in it. */
bool authres_claims(struct str value, struct str id);

/* Appends the header block without the Authentication-Results fields that claim one of the n ids (RFC 8601 §5). Lines that are no fields
 * stay. *ret_removed (may be NULL): how many were left out. Returns 0, or -1: the buffer is full. */
int authres_strip(struct buf *out, struct str headers, const struct str *ids, size_t n, size_t *ret_removed);

/* Appends ARC-Authentication-Results (RFC 8617 §4.1.1) with its CRLF: "i=INSTANCE; id; …" with the results of all Authentication-Results fields of the
 * block that are by the grammar and of that id, word for word in their order; "none" where they have none. *ret_n: how many such fields had results. As
 * far as 20 fields and 16 KiB go. Only for a block out of which forged fields were taken (authres_strip). Returns 0, or -1: full, memory. */
int authres_arc(struct buf *out, unsigned instance, struct str id, struct str headers, size_t *ret_n);

/* Appends a whole field, folded, with CRLF, through the one encoder (mail/header.h): one line for each result. No results: "none". Values
 * are quoted where they must be; controls, and octets above 127 unless utf8, become "?". Returns 0, or -1: full, or an id, method,
 * result or name that is none; the buffer is as before then. */
int authres_write(struct buf *out, struct str id, const struct authres_result *result, size_t n, bool utf8);

#endif
