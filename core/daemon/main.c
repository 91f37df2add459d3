/* pepsid's command line. Reads nothing but its arguments; the rest is the spawner's. */
#include "daemon/daemon.h"
#include "daemon_internal.h"

#include "base/log.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef PEPSI_VERSION
#define PEPSI_VERSION "unknown"
#endif

static const char usage[] =
    "usage: pepsid [-c FILE] [--state DIR] [-L LEVEL]\n"
    "  -c, --config FILE  configuration (default: $PEPSI_CONFIG, else /etc/pepsi/pepsi.conf)\n"
    "      --state DIR    state folder, instead of [pepsi] STATE_DIR\n"
    "  -L, --log LEVEL    error, warn, info, debug or trace (default info)\n"
    "  -v, --verbose      the same as -L debug\n"
    "  -h, --help         this text\n"
    "  -V, --version      the version\n"
    "Runs in the foreground and logs to standard error. SIGTERM drains and stops, SIGHUP reloads.\n";

int daemon_main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "config", required_argument, NULL, 'c' }, { "state", required_argument, NULL, 's' },
		{ "log", required_argument, NULL, 'L' }, { "verbose", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' }, { "version", no_argument, NULL, 'V' }, { NULL, 0, NULL, 0 },
	};
	static struct table t;
	static struct boot b;
	b = (struct boot){ .config_path = getenv("PEPSI_CONFIG"), .log_level = LOG_LV_INFO };
	struct buf blob = BUF_INIT(CONFIG_BLOB_MAX), faults = BUF_INIT(CONFIG_FAULTS_MAX);
	enum log_level level = LOG_LV_INFO;
	int o;

	optind = 1;
	while ((o = getopt_long(argc, argv, "c:L:vhV", options, NULL)) != -1) {
		switch (o) {
		case 'c':
			b.config_path = optarg;
			break;
		case 's':
			b.state_dir = optarg;
			break;
		case 'L':
			if (log_level_parse(str_from(optarg), &level)) {
				fprintf(stderr, "pepsid: unknown log level '%s' (error, warn, info, debug, trace)\n", optarg);
				return 2;
			}
			break;
		case 'v':
			level = LOG_LV_DEBUG;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		case 'V':
			puts("pepsid " PEPSI_VERSION);
			return 0;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "pepsid: unexpected argument '%s'\n%s", argv[optind], usage);
		return 2;
	}
	if (!b.config_path || !*b.config_path)
		b.config_path = "/etc/pepsi/pepsi.conf";
	b.log_level = (int)level;
	log_setup(level, "pepsid");

	/* 0..2 must exist, or the first descriptors opened would pass for them */
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_WRONLY : O_RDONLY) != fd)
			return 1;

	if (inherited_take(&b.inherited))
		return 1;
	int r = boot_configure(&b, &blob, &t, &faults);
	if (faults.n)
		fwrite(faults.p, 1, faults.n, stderr);
	if (r) {
		log_error(NULL, "event=configuration-refused file=%s", log_qz(b.config_path));
		return 1;
	}
	r = spawner_run(&b, &blob, &t);
	buf_free_secret(&blob);
	buf_free(&faults);
	return r;
}
