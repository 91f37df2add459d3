/* See list.h. */
#include "list.h"
#include "proto/mail/charset.h"

#include "query.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { ARRAY_MAX = 64 * 1024 * 1024 };

static const char lookup[] = "SELECT nth, class, status, reply, since FROM pepsi.suppression_lookup($1::text[])";
static const char learn[] = "SELECT pepsi.suppression_learn($1::text[], $2::text[], $3::text[], $4::bigint, $5::bigint, $6::bigint)";

/* One element of the text form of a text[], quoted. */
static void put(struct buf *b, struct str s)
{
	buf_addz(b, b->n > 1 ? ",\"" : "\"");
	for (size_t k = 0; k < s.n; k++) {
		if (s.p[k] == '"' || s.p[k] == '\\')
			buf_addc(b, '\\');
		buf_addc(b, s.p[k]);
	}
	buf_addc(b, '"');
}

static void take(const PGresult *res, int row, int col, char *out, size_t size)
{
	snprintf(out, size, "%s", PQgetvalue(res, row, col));
}

int list_lookup(struct pg_conn *db, const struct str *rcpts, size_t n, struct list_hit *hits, struct buf *why)
{
	struct buf array = BUF_INIT(ARRAY_MAX);
	PGresult *res = NULL;
	buf_addc(&array, '{');
	for (size_t i = 0; i < n; i++) {
		hits[i].found = false;
		put(&array, rcpts[i]);
	}
	buf_addc(&array, '}');
	const char *value = buf_z(&array);
	if (array.failed)
		buf_addz(why, "out of memory");
	else
		res = query_ask(db, lookup, 1, &value, why, NULL);
	buf_free(&array);
	for (int row = 0; res && row < PQntuples(res); row++) {
		uint64_t nth;
		if (str_u64(str_from(PQgetvalue(res, row, 0)), n, &nth) || !nth)
			continue;
		struct list_hit *h = &hits[nth - 1];
		h->found = true;
		take(res, row, 1, h->class, sizeof h->class);
		take(res, row, 2, h->status, sizeof h->status);
		take(res, row, 3, h->reply, sizeof h->reply);
		take(res, row, 4, h->since, sizeof h->since);
	}
	PQclear(res);
	return res ? 0 : -1;
}

int list_learn(struct pg_conn *db, const struct list_lesson *l, size_t n, int64_t source_id, int64_t seconds, int64_t most, int *ret_new, struct buf *why)
{
	struct buf array[3] = { BUF_INIT(ARRAY_MAX), BUF_INIT(ARRAY_MAX), BUF_INIT(ARRAY_MAX) };
	char numbers[3][24];
	const char *values[6];
	PGresult *res = NULL;
	bool failed = false;
	for (int k = 0; k < 3; k++) {
		buf_addc(&array[k], '{');
		for (size_t i = 0; i < n; i++) {
			struct buf clean = BUF_INIT(ARRAY_MAX);
			/* a bounce is in any charset, and a text[] in one: what is none would cost the whole lesson, and keep the bounce from going home */
			failed |= k == 2 && mail_charset_clean(l[i].reply, &clean);
			put(&array[k], k == 0 ? l[i].recipient : k == 1 ? l[i].status : buf_str(&clean));
			buf_free(&clean);
		}
		buf_addc(&array[k], '}');
		values[k] = buf_z(&array[k]);
		failed |= array[k].failed;
		snprintf(numbers[k], sizeof numbers[k], "%" PRId64, k == 0 ? source_id : k == 1 ? seconds : most);
		values[3 + k] = numbers[k];
	}
	if (failed)
		buf_addz(why, "out of memory");
	else
		res = query_ask(db, learn, 6, values, why, NULL);
	for (int k = 0; k < 3; k++)
		buf_free(&array[k]);
	uint64_t made = 0;
	if (res && PQntuples(res) == 1 && !str_u64(str_from(PQgetvalue(res, 0, 0)), INT32_MAX, &made))
		*ret_new = (int)made;
	PQclear(res);
	return res ? 0 : -1;
}
