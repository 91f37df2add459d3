/* The one executable: `pepsid` and `pepsi daemon` are the daemon, everything else is a tool. */
#include "cli/cli.h"

#ifdef PEPSI_HAVE_DAEMON
#include "daemon/daemon.h"
#endif

#include <string.h>

int main(int argc, char **argv)
{
#ifdef PEPSI_HAVE_DAEMON
	const char *base = argc > 0 ? strrchr(argv[0], '/') : NULL;
	base = base ? base + 1 : argc > 0 ? argv[0] : "";
	if (!strcmp(base, "pepsid"))
		return daemon_main(argc, argv);
	if (argc > 1 && !strcmp(argv[1], "daemon"))
		return daemon_main(argc - 1, argv + 1);
#endif
	return cli_main(argc, argv);
}
