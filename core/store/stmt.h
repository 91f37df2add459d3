/* Every statement that the program issues, by name. Prepared on a connection when first used there; all parameters and
 * results are binary. Inside core/store only. */
#ifndef PEPSI_STORE_STMT_H
#define PEPSI_STORE_STMT_H

enum stmt_id {
	STMT_RESERVE_IDS,
	STMT_ADD,
	STMT_ADD_BATCH,
	STMT_CLAIM,
	STMT_DUE,
	STMT_RELEASE,
	STMT_RELEASE_ALL,
	STMT_STILL_RUNNING,
	STMT_BLAME,
	STMT_FLUSH_STAGES,
	STMT_FLUSH_TOTALS,
	STMT_NOTIFY,
	STMT_BODY_GC,
	STMT_COUNTS,
	STMT_LIST,
	STMT_SHOW,
	STMT_CAT,
	STMT_DELETE,
	STMT_RETRY,
	STMT_SET_STAGE,
	STMT_STATS,
	STMT_LISTEN_WORKQUEUE,
	STMT_LISTEN_CONFIG,
	STMT_LISTEN_FAILED,
	STMT_LOAD_METADATA,
	STMT_LOAD_HEADERS,
	STMT_LOAD_FULL,
	STMT_MOVE,
	STMT_MOVE_STATE,
	STMT_MOVE_FULL,
	STMT_PAUSE,
	STMT_FINISH,
	STMT_FINISH_CLONES,
	STMT_SPLIT,
	STMT_INJECT,
	STMT_N
};

struct stmt {
	const char *name, *sql;
};
extern const struct stmt stmts[STMT_N];

#endif
