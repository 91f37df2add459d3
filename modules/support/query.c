/* See query.h. */
#include "query.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

/* Waits until a result can be taken, writing what is still to be written. 0; -1: the connection is gone; 1: the time is over. */
static int await(PGconn *db, int64_t until)
{
	for (;;) {
		int unsent = PQflush(db);
		if (unsent < 0)
			return PQconsumeInput(db) && !PQisBusy(db) ? 0 : -1;
		if (!PQisBusy(db))
			return 0;
		int64_t left = (until - clock_mono_us()) / 1000;
		struct pollfd p = { .fd = PQsocket(db), .events = unsent ? POLLIN | POLLOUT : POLLIN };
		int k = left > 0 ? poll(&p, 1, (int)left + 1) : 0;
		if (!k)
			return 1;
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0 || (!PQconsumeInput(db) && PQisBusy(db)))
			return -1;
	}
}

/* The last result, as PQexecParams() would give it. */
static PGresult *run(PGconn *db, const char *sql, int n, const char *const *values, bool *ret_silent)
{
	int64_t until = clock_mono_us() + QUERY_ANSWER_MS * INT64_C(1000);
	PGresult *last = NULL, *res = NULL;
	int k;
	if (PQsetnonblocking(db, 1) || !PQsendQueryParams(db, sql, n, NULL, values, NULL, NULL, 0))
		return NULL;
	while (!(k = await(db, until)) && (res = PQgetResult(db))) {
		PQclear(last);
		last = res;
	}
	if (k > 0) {
		/* the connection is the host's, which sees that it is at its end */
		shutdown(PQsocket(db), SHUT_RDWR);
		PQconsumeInput(db);
		*ret_silent = true;
	} else if (!k) {
		PQsetnonblocking(db, 0);
		return last;
	}
	PQclear(last);
	return NULL;
}

PGresult *query_ask(PGconn *db, const char *sql, int n, const char *const *values, struct buf *why, char *state)
{
	bool silent = false;
	PGresult *res = db ? run(db, sql, n, values, &silent) : NULL;
	if (res && PQresultStatus(res) == PGRES_TUPLES_OK)
		return res;
	const char *code = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	if (state)
		snprintf(state, 6, "%s", code ? code : "");
	struct str text = str_trim(str_from(!db ? "the database is away" : silent ? "the database does not answer" : res ? PQresultErrorMessage(res) : PQerrorMessage(db)));
	ptrdiff_t nl = str_chr(text, '\n');
	buf_adds(why, nl < 0 ? text : str_n(text.p, (size_t)nl));
	PQclear(res);
	return NULL;
}
