/* Shared by cluster.c and cluster_conf.c. */
#ifndef PEPSI_STORE_CLUSTER_INTERNAL_H
#define PEPSI_STORE_CLUSTER_INTERNAL_H

#include "store/cluster.h"

/* Writes postgresql.conf, pg_hba.conf and pg_ident.conf of the cluster. 0 or -1, reason in err. */
int cluster_conf_write(const struct cluster_paths *p, const struct cluster_account *accounts, size_t n,
    unsigned max_connections, char *err, size_t err_size);

#endif
