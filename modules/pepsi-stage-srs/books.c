/* Statements of the stage (books.h). */
#include "books.h"

#include "query.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

enum { ARRAY_MAX = 64 * 1024 * 1024 };

static const char keep[] = "SELECT pepsi.srs_keep($1::text, $2::text, $3::bigint, $4::bigint)";
static const char kept[] = "SELECT pepsi.srs_kept($1::text)";
static const char take[] = "SELECT pepsi.srs_take($1::text[], $2::bigint, $3::bigint, $4::boolean)";

int books_reference(struct str sender, char out[BOOKS_REFERENCE + 1])
{
	static const char base32[] = "abcdefghijklmnopqrstuvwxyz234567";
	unsigned char md[EVP_MAX_MD_SIZE];
	unsigned have = 0, acc = 0, at = 0;
	if (!EVP_Digest(sender.p, sender.n, md, NULL, EVP_sha256(), NULL))
		return -1;
	for (unsigned k = 0; k < BOOKS_REFERENCE; k++) {
		if (have < 5) {
			acc = (acc << 8 | md[at++]) & 0xffff;
			have += 8;
		}
		have -= 5;
		out[k] = base32[acc >> have & 31];
	}
	out[BOOKS_REFERENCE] = 0;
	return 0;
}

/* The one value of one row, or NULL with the reason in why. */
static PGresult *ask(struct pg_conn *db, const char *sql, int n, const char *const *values, struct buf *why)
{
	PGresult *res = query_ask(db, sql, n, values, why, NULL);
	if (!res || PQntuples(res) == 1)
		return res;
	buf_addz(why, "the database gave no answer");
	PQclear(res);
	return NULL;
}

int books_keep(struct pg_conn *db, const char *reference, struct str sender, int64_t seconds, int64_t most, struct buf *why)
{
	char numbers[2][24], *text = str_dupz(sender);
	const char *values[] = { reference, text, numbers[0], numbers[1] };
	snprintf(numbers[0], sizeof numbers[0], "%" PRId64, seconds);
	snprintf(numbers[1], sizeof numbers[1], "%" PRId64, most);
	PGresult *res = text ? ask(db, keep, 4, values, why) : NULL;
	int r = res ? PQgetvalue(res, 0, 0)[0] == 't' : -1;
	PQclear(res);
	free(text);
	return r;
}

int books_kept(struct pg_conn *db, struct str reference, struct buf *out, struct buf *why)
{
	char *text = str_dupz(reference);
	const char *values[] = { text };
	PGresult *res = text ? ask(db, kept, 1, values, why) : NULL;
	int r = res ? !PQgetisnull(res, 0, 0) : -1;
	if (r > 0 && buf_addz(out, PQgetvalue(res, 0, 0)))
		r = -1;
	PQclear(res);
	free(text);
	return r;
}

int books_take(struct pg_conn *db, const struct str *targets, size_t n, int64_t each, int64_t all, bool count, int *ret_wait, struct buf *why)
{
	struct buf array = BUF_INIT(ARRAY_MAX);
	char numbers[2][24];
	uint64_t wait = 0;
	int r = -1;
	snprintf(numbers[0], sizeof numbers[0], "%" PRId64, each);
	snprintf(numbers[1], sizeof numbers[1], "%" PRId64, all);
	buf_addc(&array, '{');
	for (size_t i = 0; i < n; i++) {
		buf_addz(&array, i ? ",\"" : "\"");
		for (size_t k = 0; k < targets[i].n; k++) {
			if (targets[i].p[k] == '"' || targets[i].p[k] == '\\')
				buf_addc(&array, '\\');
			buf_addc(&array, targets[i].p[k]);
		}
		buf_addc(&array, '"');
	}
	buf_addc(&array, '}');
	const char *values[] = { buf_z(&array), numbers[0], numbers[1], count ? "t" : "f" };
	PGresult *res = array.failed ? NULL : ask(db, take, 4, values, why);
	if (res && !str_u64(str_from(PQgetvalue(res, 0, 0)), 86400, &wait)) {
		*ret_wait = (int)wait;
		r = 0;
	}
	PQclear(res);
	buf_free(&array);
	return r;
}
