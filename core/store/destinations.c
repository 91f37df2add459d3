/* The calls of destinations.h. */
#include "store/destinations.h"

#include "store/conn_internal.h"

#include <stdlib.h>

struct asked {
	struct call call;
	store_json_fn fn;
	void *arg;
	char *json;
};

static void on_result(struct call *call, unsigned stmt, const PGresult *res)
{
	struct asked *a = (struct asked *)call;

	(void)stmt;
	free(a->json);
	a->json = PQntuples(res) == 1 ? str_dupz(result_str(res, 0, 0)) : NULL;
}

static void on_done(struct call *call, enum store_rc rc, const char *err)
{
	struct asked *a = (struct asked *)call;
	bool lost = rc == STORE_OK && !a->json;

	a->fn(a->arg, lost ? STORE_FULL : rc, rc == STORE_OK ? a->json : NULL, lost ? "out of memory" : err);
	free(a->json);
}

void store_destinations_ask(struct store_conn *c, enum store_destinations_question q, const char *args, store_json_fn fn, void *arg)
{
	static const enum stmt_id ids[STORE_DESTINATIONS_QUESTIONS] = { STMT_STS_LIST, STMT_STS_PUT, STMT_STS_FAILED, STMT_STS_DUE, STMT_STS_FORGET, STMT_ADDRESS_LIST,
		STMT_SECURITY_LIST, STMT_SECURITY_FORGET, STMT_TLSRPT_DUE, STMT_TLSRPT_ROWS, STMT_TLSRPT_BEGIN, STMT_TLSRPT_POSTED, STMT_TLSRPT_DONE,
		STMT_TLSRPT_LIST, STMT_TLSRPT_MUTE, STMT_TLSRPT_UNMUTE, STMT_TLSRPT_SWEEP, STMT_TLSRPT_SUMMARY, STMT_SUPPRESSION_LIST, STMT_SUPPRESSION_ADD,
		STMT_SUPPRESSION_REMOVE };
	struct asked *a = call_new(sizeof(*a), on_done);

	if (!a) {
		fn(arg, STORE_FULL, NULL, "out of memory");
		return;
	}
	a->call.result = on_result;
	a->fn = fn;
	a->arg = arg;
	params_text(call_add(&a->call, ids[q]), args);
	call_send(c, &a->call);
}
