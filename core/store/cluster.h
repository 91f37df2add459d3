/* The private PostgreSQL cluster of the embedded default: paths, initdb, and the postmaster's command line. Runs
 * programs, opens no database connection. The spawner uses it, after dropping to the cluster's account in a child. */
#ifndef PEPSI_STORE_CLUSTER_H
#define PEPSI_STORE_CLUSTER_H

#include "base/str.h"

struct cluster_paths {
	char data[256];     /* STATE/postgres */
	char socket[256];   /* STATE/run: unix socket folder; short enough for sun_path or cluster_paths_set says no */
	char bin[256];      /* folder with initdb and postgres */
	char log[256];      /* STATE/postgres.log */
};
/* Fills in paths; finds the newest PostgreSQL ≥ 14 (pg_config, /usr/lib/postgresql/N/bin, PATH; $PEPSI_PG_BIN wins).
 * 0, or -1 with a one-line reason in err. No root needed, nothing is created. */
int cluster_paths_set(struct cluster_paths *p, const char *state_dir, char *err, size_t err_size);
/* libpq connection string for a role ("pepsi"): host=SOCKET dbname=pepsi (user is added from store_params.role). */
void cluster_conninfo(const struct cluster_paths *p, char *out, size_t size);

/* In a child that already runs as the cluster's account: makes the cluster if PG_VERSION is missing (in a temporary name, then
 * rename, so that a killed initdb leaves nothing half-made), and (re)writes pg_hba.conf, pg_ident.conf and pepsi.conf
 * settings. accounts: n operating system users that may become database roles, "user role1,role2". 0 or -1, reason in err. */
struct cluster_account {
	const char *user;
	const char *roles; /* comma-separated */
};
int cluster_prepare(const struct cluster_paths *p, const struct cluster_account *accounts, size_t n, unsigned max_connections,
    char *err, size_t err_size);
/* execv()s postgres in the foreground, logging to p->log; sets PDEATHSIG SIGINT first. Returns only on error. */
void cluster_exec(const struct cluster_paths *p, char *err, size_t err_size);
/* 1 ready for connections, 0 not yet, -1 cannot tell. Blocks a second at most; uses PQping. */
int cluster_ready(const struct cluster_paths *p);

#endif
