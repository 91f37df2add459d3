/* The statements' way; see known.h. */
#include "known.h"

#include "base/log.h"
#include "say.h"

PGresult *known_ask(struct known_db *k, const char *sql, int n, const char *const *values)
{
	enum { AGAIN_MS = 60 * 1000 };
	PGconn *db = k->host->database(k->conf);
	PGresult *res = db ? PQexecParams(db, sql, n, NULL, values, NULL, NULL, 0) : NULL;
	ExecStatusType s = res ? PQresultStatus(res) : PGRES_FATAL_ERROR;
	if (s == PGRES_TUPLES_OK || s == PGRES_COMMAND_OK)
		return res;
	int64_t now = k->host->mono_ms();
	if (!k->told_ms || now - k->told_ms > AGAIN_MS) {
		struct str why = str_trim(str_from(res ? PQresultErrorMessage(res) : "no connection"));
		ptrdiff_t nl = str_chr(why, '\n');
		k->told_ms = now;
		if (nl >= 0)
			why.n = (size_t)nl;
		say(k->host, NULL, PEPSI_LOG_WARN, "event=destinations-database reason=%s hint=\"what is known of destinations is neither read nor kept meanwhile\"", log_q(why));
	}
	PQclear(res);
	return NULL;
}

int64_t known_number(const PGresult *res, int row, int column)
{
	int64_t n = 0;
	bool minus = false;
	for (const char *p = PQgetvalue(res, row, column); *p; p++)
		if (*p == '-')
			minus = true;
		else if (*p >= '0' && *p <= '9' && n < INT64_MAX / 10 - 10)
			n = n * 10 + (*p - '0');
	return minus ? -n : n;
}

void known_add(struct buf *b, struct str s)
{
	buf_addz(b, b->n ? ",\"" : "{\"");
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '"' || s.p[i] == '\\')
			buf_addc(b, '\\');
		/* text columns take no NUL, and what is no UTF-8 would cost the whole batch */
		buf_addc(b, (unsigned char)s.p[i] >= ' ' && (unsigned char)s.p[i] < 0x7f ? s.p[i] : '?');
	}
	buf_addc(b, '"');
}

void known_add_number(struct buf *b, int64_t n)
{
	buf_addf(b, "%s%lld", b->n ? "," : "{", (long long)n);
}

const char *known_end(struct buf *b)
{
	buf_addz(b, b->n ? "}" : "{}");
	return b->failed ? NULL : buf_z(b);
}
