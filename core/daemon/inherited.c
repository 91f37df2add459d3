/* Sockets passed by systemd (sd_listen_fds(3)): recognised, named, and put where every child knows to find or close them. Done
 * without libsystemd: the protocol is three environment variables. */
#include "daemon_internal.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST = 3, HIGH = 512 };

static int number(const char *z, uint64_t max, uint64_t *ret)
{
	return z ? str_u64(str_from(z), max, ret) : -1;
}

/* "a:b:c"; what is missing is "unknown", as sd_listen_fds_with_names() has it. */
static void name_all(struct ingress_inherited *in, const char *names)
{
	struct str rest = str_from(names);
	for (size_t i = 0; i < in->n; i++) {
		ptrdiff_t colon = str_chr(rest, ':');
		struct str one = colon < 0 ? rest : str_n(rest.p, (size_t)colon);
		if (!one.n || one.n >= sizeof in->of[i].name)
			one = STR("unknown");
		snprintf(in->of[i].name, sizeof in->of[i].name, "%.*s", STR_ARG(one));
		rest = colon < 0 ? STR_NULL : str_skip(rest, (size_t)colon + 1);
	}
}

int inherited_take(struct ingress_inherited *in)
{
	uint64_t pid, n;
	int high[INGRESS_INHERITED_MAX], bad = 0;
	const char *fds = getenv("LISTEN_FDS"), *names = getenv("LISTEN_FDNAMES");
	in->n = 0;
	/* for somebody else: a variable that a shell of ours handed down */
	if (!fds || number(getenv("LISTEN_PID"), INT32_MAX, &pid) || (pid_t)pid != getpid())
		goto done;
	if (number(fds, INGRESS_INHERITED_MAX, &n)) {
		log_error(NULL, "event=inherited-sockets reason=\"LISTEN_FDS is %s; at most %d sockets are taken\"", fds, INGRESS_INHERITED_MAX);
		bad = -1;
		goto done;
	}
	for (in->n = 0; in->n < n; in->n++) {
		int fd = FIRST + (int)in->n;
		high[in->n] = fcntl(fd, F_DUPFD_CLOEXEC, HIGH);
		if (high[in->n] < 0) {
			log_error(NULL, "event=inherited-sockets fd=%d reason=%s", fd, log_qz(strerror(errno)));
			bad = -1;
			break;
		}
		close(fd);
	}
	for (size_t i = 0; i < in->n; i++) {
		in->of[i].fd = INHERITED_FIRST + (int)i;
		if (dup3(high[i], in->of[i].fd, O_CLOEXEC) < 0)
			bad = -1;
		close(high[i]);
	}
	name_all(in, names);
done:
	unsetenv("LISTEN_PID"); /* not for our children */
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return bad;
}

void inherited_close(const struct ingress_inherited *in)
{
	for (size_t i = 0; i < in->n; i++)
		close(in->of[i].fd);
}
