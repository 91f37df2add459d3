/* Binary encoding of parameters and decoding of results; see params.h. Pure: no connection is touched. */
#include "store/params.h"

#include <endian.h>
#include <limits.h>

/* 2000-01-01 in Unix time: PostgreSQL's epoch. */
#define PG_EPOCH_US (INT64_C(946684800) * 1000000)

void params_init(struct params *p)
{
	memset(p, 0, sizeof(*p));
	p->b = BUF_INIT(PARAMS_OCTETS);
}

void params_free(struct params *p)
{
	buf_free(&p->b);
	p->n = 0;
	p->referred = 0;
}

/* Opens a parameter; its length is set by whoever fills it. Returns its number or -1. */
static int next(struct params *p)
{
	if (p->failed || p->n == PARAMS_MAX) {
		p->failed = true;
		return -1;
	}
	p->off[p->n] = p->b.n;
	p->len[p->n] = 0;
	p->ref[p->n] = NULL;
	return (int)p->n++;
}

static void value(struct params *p, const void *v, size_t n)
{
	int i = next(p);

	if (i < 0)
		return;
	if (n > INT_MAX || buf_add(&p->b, v, n) < 0) {
		p->failed = true;
		return;
	}
	p->len[i] = (int)n;
}

void params_null(struct params *p)
{
	int i = next(p);

	if (i >= 0)
		p->len[i] = -1;
}

void params_bool(struct params *p, bool v)
{
	value(p, v ? "\1" : "\0", 1);
}

void params_int4(struct params *p, int32_t v)
{
	uint32_t be = htobe32((uint32_t)v);

	value(p, &be, sizeof(be));
}

void params_int8(struct params *p, int64_t v)
{
	uint64_t be = htobe64((uint64_t)v);

	value(p, &be, sizeof(be));
}

static int64_t pg_time(int64_t us)
{
	return us < INT64_MIN + PG_EPOCH_US ? INT64_MIN + 1 : us - PG_EPOCH_US;
}

void params_time(struct params *p, int64_t us)
{
	params_int8(p, pg_time(us));
}

void params_octets(struct params *p, struct str s)
{
	value(p, s.n ? s.p : "", s.n);
}

void params_octets_ref(struct params *p, struct str s)
{
	int i = s.n > PARAMS_OCTETS ? -1 : next(p);

	if (i < 0) {
		p->failed = true;
		return;
	}
	p->ref[i] = s.n ? s.p : "";
	p->len[i] = (int)s.n;
	p->referred += s.n;
}

void params_text(struct params *p, const char *z)
{
	if (z)
		params_octets(p, str_from(z));
	else
		params_null(p);
}

/* Array: dimensions, "has NULLs", element type, length, lower bound; then each element as length and octets. */
void params_array(struct params *p, enum params_type type)
{
	uint32_t head[5] = { htobe32(1), htobe32(0), htobe32((uint32_t)type), 0, htobe32(1) };

	if (next(p) < 0)
		return;
	p->array_at = p->b.n + 3 * sizeof(uint32_t);
	p->array_n = 0;
	if (buf_add(&p->b, head, sizeof(head)) < 0)
		p->failed = true;
}

static void element(struct params *p, const void *v, size_t n)
{
	uint32_t be = htobe32((uint32_t)n);

	if (p->failed)
		return;
	if (n > INT_MAX || p->array_n == PARAMS_ARRAY_MAX || buf_add(&p->b, &be, sizeof(be)) < 0 || buf_add(&p->b, v, n) < 0)
		p->failed = true;
	p->array_n++;
}

void params_el_null(struct params *p)
{
	uint32_t minus_one = UINT32_MAX, one = htobe32(1);

	if (p->failed || p->array_n == PARAMS_ARRAY_MAX || buf_add(&p->b, &minus_one, sizeof(minus_one)) < 0) {
		p->failed = true;
		return;
	}
	memcpy(p->b.p + p->array_at - 2 * sizeof(uint32_t), &one, sizeof(one));
	p->array_n++;
}

void params_el_bool(struct params *p, bool v)
{
	element(p, v ? "\1" : "\0", 1);
}

void params_el_int4(struct params *p, int32_t v)
{
	uint32_t be = htobe32((uint32_t)v);

	element(p, &be, sizeof(be));
}

void params_el_int8(struct params *p, int64_t v)
{
	uint64_t be = htobe64((uint64_t)v);

	element(p, &be, sizeof(be));
}

void params_el_time(struct params *p, int64_t us)
{
	params_el_int8(p, pg_time(us));
}

void params_el_octets(struct params *p, struct str s)
{
	element(p, s.n ? s.p : "", s.n);
}

void params_array_end(struct params *p)
{
	uint32_t be = htobe32((uint32_t)p->array_n);
	size_t size;

	if (p->failed || p->n == 0)
		return;
	size = p->b.n - p->off[p->n - 1];
	if (size > INT_MAX) {
		p->failed = true;
		return;
	}
	memcpy(p->b.p + p->array_at, &be, sizeof(be));
	p->len[p->n - 1] = (int)size;
}

void params_int8s(struct params *p, const int64_t *v, size_t n)
{
	params_array(p, PARAMS_INT8);
	for (size_t i = 0; i < n; i++)
		params_el_int8(p, v[i]);
	params_array_end(p);
}

void params_texts(struct params *p, const struct str *v, size_t n)
{
	params_array(p, PARAMS_TEXT);
	for (size_t i = 0; i < n; i++)
		params_el_octets(p, v[i]);
	params_array_end(p);
}

bool params_get(const struct params *p, struct params_libpq *ret)
{
	if (p->failed || p->b.failed)
		return false;
	for (unsigned i = 0; i < p->n; i++) {
		ret->values[i] = p->len[i] < 0 ? NULL : p->ref[i] ? p->ref[i] : p->b.p ? p->b.p + p->off[i] : "";
		ret->lengths[i] = p->len[i] < 0 ? 0 : p->len[i];
		ret->formats[i] = 1;
	}
	return true;
}

int64_t result_int8(const PGresult *res, int row, int col)
{
	uint64_t be;

	if (PQgetisnull(res, row, col) || PQgetlength(res, row, col) != (int)sizeof(be))
		return 0;
	memcpy(&be, PQgetvalue(res, row, col), sizeof(be));
	return (int64_t)be64toh(be);
}

int32_t result_int4(const PGresult *res, int row, int col)
{
	uint32_t be;

	if (PQgetisnull(res, row, col) || PQgetlength(res, row, col) != (int)sizeof(be))
		return 0;
	memcpy(&be, PQgetvalue(res, row, col), sizeof(be));
	return (int32_t)be32toh(be);
}

bool result_bool(const PGresult *res, int row, int col)
{
	return !PQgetisnull(res, row, col) && PQgetlength(res, row, col) == 1 && PQgetvalue(res, row, col)[0];
}

int64_t result_time(const PGresult *res, int row, int col)
{
	int64_t v = result_int8(res, row, col);

	if (PQgetisnull(res, row, col))
		return 0;
	return v > INT64_MAX - PG_EPOCH_US ? INT64_MAX : v + PG_EPOCH_US; /* 'infinity' stays far away */
}

struct str result_str(const PGresult *res, int row, int col)
{
	if (PQgetisnull(res, row, col))
		return STR_NULL;
	return str_n(PQgetvalue(res, row, col), (size_t)PQgetlength(res, row, col));
}

static bool take32(struct str *s, uint32_t *ret)
{
	if (s->n < sizeof(*ret))
		return false;
	memcpy(ret, s->p, sizeof(*ret));
	*ret = be32toh(*ret);
	*s = str_skip(*s, sizeof(*ret));
	return true;
}

ptrdiff_t result_texts_begin(struct str a, struct str *ret_rest)
{
	uint32_t dims, nulls, type, n, lower;

	if (!take32(&a, &dims) || !take32(&a, &nulls) || !take32(&a, &type) || dims > 1 || nulls)
		return -1;
	*ret_rest = a;
	if (dims == 0)
		return 0;
	if (!take32(&a, &n) || !take32(&a, &lower) || n > a.n / sizeof(uint32_t))
		return -1;
	*ret_rest = a;
	return (ptrdiff_t)n;
}

bool result_texts_next(struct str *rest, struct str *ret)
{
	uint32_t n;

	if (!take32(rest, &n) || n > rest->n)
		return false;
	*ret = str_n(rest->p, n);
	*rest = str_skip(*rest, n);
	return true;
}
