/* The map in the database: table pepsi.alias_map, read through the stored function pepsi.alias_lookup(). One constant
 * statement with one parameter; nothing of a message ever becomes part of a statement. */
#include "aliases.h"

#include "query.h"

#include <stdlib.h>

static const char lookup[] = "SELECT name, target FROM pepsi.alias_lookup($1::text[])";

/* The text form of a text[]: every element quoted. */
static void put_array(struct buf *b, const struct str *names, size_t n)
{
	buf_addc(b, '{');
	for (size_t i = 0; i < n; i++) {
		buf_addz(b, i ? ",\"" : "\"");
		for (size_t k = 0; k < names[i].n; k++) {
			if (names[i].p[k] == '"' || names[i].p[k] == '\\')
				buf_addc(b, '\\');
			buf_addc(b, names[i].p[k]);
		}
		buf_addc(b, '"');
	}
	buf_addc(b, '}');
}

static struct str cell(const PGresult *res, int row, int col)
{
	return str_n(PQgetvalue(res, row, col), (size_t)PQgetlength(res, row, col));
}

/* Rows come ordered by name: one run of rows is one alias; a NULL target is an alias that goes nowhere. */
static int take_run(const PGresult *res, int from, int to, struct arena *a, const struct str *names, size_t n,
    struct alias_hit *hits)
{
	struct str name = cell(res, from, 0), *t = arena_calloc(a, (size_t)(to - from), sizeof *t);
	size_t k = 0;
	if (!t)
		return -1;
	for (int row = from; row < to; row++) {
		struct str target = str_trim(cell(res, row, 1));
		if (PQgetisnull(res, row, 1) || alias_target_wrong(target))
			continue; /* what could be no address cannot be sent to; the table has no better check */
		if (!(t[k++] = arena_str(a, target)).p)
			return -1;
	}
	for (size_t i = 0; i < n; i++)
		if (str_eq(names[i], name))
			hits[i] = (struct alias_hit){ true, t, k };
	return 0;
}

int alias_table_find(void *table, struct arena *a, const struct str *names, size_t n, struct alias_hit *hits, struct buf *why)
{
	struct alias_table *t = table;
	struct buf array = BUF_INIT(16 * 1024 * 1024);
	PGresult *res;
	int r = 0;
	for (size_t i = 0; i < n; i++)
		hits[i] = (struct alias_hit){ .found = false };
	put_array(&array, names, n);
	if (array.failed) {
		buf_addz(why, "out of memory");
		buf_free(&array);
		return -1;
	}
	const char *value = buf_z(&array);
	res = query_ask(t->db, lookup, 1, &value, why, NULL);
	buf_free(&array);
	if (!res)
		return -1;
	int rows = PQntuples(res);
	for (int from = 0, to; from < rows && !r; from = to) {
		for (to = from + 1; to < rows && str_eq(cell(res, to, 0), cell(res, from, 0)); to++)
			;
		r = take_run(res, from, to, a, names, n, hits);
	}
	if (r)
		buf_addz(why, "out of memory");
	PQclear(res);
	return r;
}
