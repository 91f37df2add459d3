/* Reading pepsi.queue_rule for a worker; see rule.h. Decides nothing about mail. */
#include "store/rule.h"

#include "store/worker_internal.h"

struct load {
	store_rule_row_fn row;
	void *arg;
};

static struct str column(const PGresult *res, int row, int col)
{
	struct str s = result_str(res, row, col);

	if (PQgetisnull(res, row, col))
		return STR_NULL;
	return s.p ? s : STR("");
}

static void loaded(void *arg, unsigned stmt, const PGresult *res)
{
	struct load *l = arg;

	(void)stmt;
	for (int i = 0; i < PQntuples(res) && i < STORE_RULES_MAX; i++) {
		struct store_rule r = { .id = result_int8(res, i, 0), .hold = str_eq(result_str(res, i, 1), STR("hold")),
			.sender = column(res, i, 2), .recipient = column(res, i, 3), .client = column(res, i, 4), .stage = column(res, i, 5),
			.to_stage = column(res, i, 6), .reason = column(res, i, 7), .created_us = result_int8(res, i, 8),
			.expires_us = result_int8(res, i, 9) };

		l->row(l->arg, &r);
	}
}

enum store_rc store_worker_rules(struct store_worker *w, store_rule_row_fn row, void *arg, char *err, size_t err_size)
{
	struct load l = { row, arg };
	struct stmt_list list = { .v = NULL };
	enum store_rc rc;
	bool again;

	stmt_list_add(&list, STMT_RULE_LOAD);
	rc = worker_run(w, &list, loaded, &l, err, err_size, &again);
	stmt_list_free(&list);
	return rc;
}
