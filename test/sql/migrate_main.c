/* sql_migrate [CONNINFO]: runs the migration of core/store on the server of the environment (embedded: makes database `pepsi`)
 * or on the database of CONNINFO (not embedded). For the scripts in this folder. */
#include "store/migrate.h"

#include <stdio.h>

int main(int argc, char **argv)
{
	struct store_params p = { .conninfo = argc > 1 ? argv[1] : "", .name = "pepsi test" };
	char err[600];

	if (migrate_run(&p, argc < 2, err, sizeof(err)) < 0) {
		fprintf(stderr, "migrate: %s\n", err);
		return 1;
	}
	return 0;
}
