/* Connection parameters, session settings and error classes; see connect.h. Opens nothing itself. */
#include "store/connect.h"

#include "base/log.h"

#include <stdio.h>

/* One round trip. enable_*: plans of queue statements may be made while the table is nearly empty and live on when it
 * is not, so scans and joins that read it whole are never taken where an index can serve. A synchronous_commit stronger than "on" is the
 * operator's choice and stays. */
const char connect_setup_sql[] =
    "SELECT set_config('synchronous_commit', CASE WHEN $2::text = 'on' THEN 'off'"
    " WHEN current_setting('synchronous_commit') = 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false),"
    " set_config('statement_timeout', '25000', false), set_config('default_transaction_isolation', 'read committed', false),"
    " set_config('timezone', 'UTC', false), set_config('jit', 'off', false), set_config('client_min_messages', 'warning', false),"
    " set_config('enable_seqscan', 'off', false), set_config('enable_hashjoin', 'off', false),"
    " set_config('enable_mergejoin', 'off', false),"
    " CASE WHEN $1::text <> '' THEN set_config('role', $1::text, false) END";

void connect_words_set(struct connect_words *w, const struct store_params *p, const char *database)
{
	unsigned n = 0;

#define WORD(k, v) (w->keys[n] = (k), w->values[n] = (v), n++)
	/* The later of two wins: what stands before dbname may be overridden by the conninfo. */
	if (p->role)
		WORD("user", p->role);
	WORD("connect_timeout", "10");
	WORD("keepalives_idle", "15");
	WORD("keepalives_interval", "5");
	WORD("keepalives_count", "3");
	WORD("tcp_user_timeout", "30000");
	if (p->conninfo && *p->conninfo)
		WORD("dbname", p->conninfo);
	if (database)
		WORD("dbname", database);
	if (p->name)
		WORD("application_name", p->name);
	WORD("client_encoding", "UTF8");
	WORD(NULL, NULL);
#undef WORD
}

enum store_rc connect_rc(const char *s)
{
	if (!s || !*s)
		return STORE_AWAY;
	if (!strncmp(s, "57P", 3) || !strncmp(s, "08", 2) || !strcmp(s, "25006"))
		return STORE_AWAY;
	/* 26000 and 0A000: statements prepared against another schema; 57014: statement_timeout; 55P03: lock not available. */
	if (!strncmp(s, "40", 2) || !strcmp(s, "26000") || !strcmp(s, "0A000") || !strcmp(s, "57014") || !strcmp(s, "55P03"))
		return STORE_RETRY;
	if (!strncmp(s, "53", 2) || !strncmp(s, "58", 2) || !strncmp(s, "XX", 2))
		return STORE_FULL;
	return STORE_REFUSED;
}

bool connect_rc_session_lost(const char *s)
{
	return s && (!strncmp(s, "57P", 3) || !strcmp(s, "25006") || !strcmp(s, "26000") || !strcmp(s, "0A000"));
}

void connect_one_line(char *out, size_t size, const char *text)
{
	size_t n = 0;

	for (; text && *text && n + 1 < size; text++) {
		char c = (unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text;

		if (c != ' ' || (n > 0 && out[n - 1] != ' '))
			out[n++] = c;
	}
	while (n > 0 && out[n - 1] == ' ')
		n--;
	out[n] = '\0';
}

void connect_result_error(char *out, size_t size, const PGresult *res)
{
	const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	const char *primary = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = PQresultErrorField(res, PG_DIAG_MESSAGE_DETAIL);
	char text[1024];

	if (!primary) {
		connect_one_line(out, size, PQresultErrorMessage(res));
		return;
	}
	if (state && !strncmp(state, "23", 2))
		detail = NULL;
	snprintf(text, sizeof(text), "%s%s%s%s%s%s", primary, detail ? ": " : "", detail ? detail : "", state ? " (" : "",
	    state ? state : "", state ? ")" : "");
	connect_one_line(out, size, text);
}

void connect_notice(void *arg, const PGresult *res)
{
	const char *sev = PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED);
	char line[STORE_ERR_MAX];

	(void)arg;
	if (sev && !strcmp(sev, "WARNING")) {
		connect_result_error(line, sizeof(line), res);
		log_debug(NULL, "database-warning text=%s", log_qz(line));
	}
}
