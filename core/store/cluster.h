/* The private PostgreSQL cluster of the embedded default: paths, initdb, and the postmaster's command line. Runs
 * programs, opens no database connection (but for PQping). The spawner uses it, after dropping to the cluster's account in
 * a child.
 *
 * One start, told: the spawner makes STATE, calls cluster_paths_set(), forks; the child becomes the cluster's account,
 * calls cluster_prepare() (0.6 s the first time), then cluster_exec() and is the postmaster. The spawner asks cluster_ready()
 * every 50 ms. It stops the server with SIGINT ("fast") to that child; SIGQUIT is "immediate". After a crash of the
 * postmaster the next one refuses to start until the old backends are gone: retry with backoff, never delete
 * postmaster.pid. */
#ifndef PEPSI_STORE_CLUSTER_H
#define PEPSI_STORE_CLUSTER_H

#include "base/str.h"

struct cluster_paths {
	char data[256];     /* STATE/postgres */
	char socket[256];   /* unix socket folder: STATE/run, or /tmp/pepsi-HASH where that is too long for a socket's name */
	char bin[256];      /* folder with initdb and postgres */
	char log[256];      /* STATE/postgres/server.log: inside, for the cluster's account may own nothing else */
};
/* Fills in paths; finds the newest PostgreSQL ≥ 14 ($PEPSI_PG_BIN wins; else /usr/lib/postgresql/N/bin, PATH), or for a
 * cluster that exists the one of its version. 0, or -1 with a one-line reason in err. No root needed, nothing is
 * created. The state folder should exist: its real path is what the socket folder's name is derived from. */
int cluster_paths_set(struct cluster_paths *p, const char *state_dir, char *err, size_t err_size);
/* libpq connection string (user is added from store_params.role); host, port, database pepsi, and requirepeer once the
 * data folder exists, so that nobody else's server is talked to. 512 octets are enough. */
void cluster_conninfo(const struct cluster_paths *p, char *out, size_t size);

/* In a child that already runs as the cluster's account: makes the cluster if there is none (a killed initdb leaves nothing
 * that would be taken for one), and (re)writes postgresql.conf, pg_hba.conf and pg_ident.conf; an operator's additions
 * belong into STATE/postgres/local.conf. The data folder and the socket folder are made when missing and their parent lets this
 * account; else they must exist: data owned by it, the socket folder writable by it and by no stranger. accounts: n operating
 * system users that may become database roles; this account itself may also become `postgres`. 0 or -1, reason in err. */
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
