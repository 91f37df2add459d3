/* The files of db/, compiled in by embed.cmake. */
#ifndef PEPSI_STORE_SQL_H
#define PEPSI_STORE_SQL_H

extern const char sql_roles[], sql_procedures[], sql_grants[];
/* pepsi-0001.sql is sql_patches[0], and so on. */
extern const char *const sql_patches[];
extern const unsigned sql_patches_n;

#endif
