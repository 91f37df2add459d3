/* Parameters of one statement in PostgreSQL's binary format, collected in one buffer, and the reading of binary results.
 * Errors are sticky as in struct buf. Inside core/store only. */
#ifndef PEPSI_STORE_PARAMS_H
#define PEPSI_STORE_PARAMS_H

#include "base/buf.h"

#include <libpq-fe.h>

enum {
	PARAMS_MAX = 16,                     /* parameters of one statement */
	PARAMS_OCTETS = 1024 * 1024 * 1024 - 1024, /* PostgreSQL's limit of one value is 1 GiB */
	PARAMS_ARRAY_MAX = 1000000,          /* elements of one array */
};

struct params {
	struct buf b;
	unsigned n;
	size_t off[PARAMS_MAX];
	int len[PARAMS_MAX]; /* -1: NULL */
	const char *ref[PARAMS_MAX]; /* not NULL: the value lies there, not in b */
	size_t referred;     /* octets of those */
	bool failed;         /* too many, too long, or out of memory */
	size_t array_at;     /* of the array being written: where its element count stands */
	size_t array_n;
};

void params_init(struct params *p);
void params_free(struct params *p);
void params_null(struct params *p);
void params_bool(struct params *p, bool v);
void params_int4(struct params *p, int32_t v);
void params_int8(struct params *p, int64_t v);
/* Microseconds since the Unix epoch. */
void params_time(struct params *p, int64_t us);
/* text, bytea; s.p NULL with n 0 is the empty value. */
void params_octets(struct params *p, struct str s);
/* The same for large values: not copied; what s points to must live until the parameters are freed. */
void params_octets_ref(struct params *p, struct str s);
void params_text(struct params *p, const char *z); /* NULL: NULL */

/* A one-dimensional array: begin with the type of the elements, then the elements, then end. */
enum params_type { PARAMS_BOOL = 16, PARAMS_BYTEA = 17, PARAMS_INT8 = 20, PARAMS_INT4 = 23, PARAMS_TEXT = 25, PARAMS_TIME = 1184 };
void params_array(struct params *p, enum params_type type);
void params_el_null(struct params *p);
void params_el_bool(struct params *p, bool v);
void params_el_int4(struct params *p, int32_t v);
void params_el_int8(struct params *p, int64_t v);
void params_el_time(struct params *p, int64_t us);
void params_el_octets(struct params *p, struct str s);
void params_array_end(struct params *p);
/* One of n elements, each put by an expression that may use the index i. */
#define PARAMS_EACH(p, type, n, put)                                                                                   \
	do {                                                                                                             \
		params_array((p), (type));                                                                                   \
		for (size_t i = 0; i < (n); i++)                                                                             \
			put;                                                                                                     \
		params_array_end(p);                                                                                         \
	} while (0)
/* Whole arrays in one go. */
void params_int8s(struct params *p, const int64_t *v, size_t n);
void params_texts(struct params *p, const struct str *v, size_t n);

/* Pointers for libpq; false when anything failed. Valid until p changes. */
struct params_libpq {
	const char *values[PARAMS_MAX];
	int lengths[PARAMS_MAX], formats[PARAMS_MAX];
};
bool params_get(const struct params *p, struct params_libpq *ret);

/* Binary results. NULL or a wrong length read as 0 / empty / false. */
int64_t result_int8(const PGresult *res, int row, int col);
int32_t result_int4(const PGresult *res, int row, int col);
bool result_bool(const PGresult *res, int row, int col);
/* Microseconds since the Unix epoch. */
int64_t result_time(const PGresult *res, int row, int col);
struct str result_str(const PGresult *res, int row, int col); /* points into res */
/* text[]: walks its elements. begin: number of elements or -1 (malformed, more than one dimension, NULL elements). */
ptrdiff_t result_texts_begin(struct str array, struct str *ret_rest);
bool result_texts_next(struct str *rest, struct str *ret);

#endif
