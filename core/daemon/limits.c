/* What the kernel lets the reactor have: descriptors for as many sessions as its listeners may take, and no core file. Called
 * while it is still root where it began so. */
#include "daemon_internal.h"

#include "base/log.h"
#include "ingress/supply.h"

#include <stdio.h>
#include <sys/resource.h>

enum { OWN_DESCRIPTORS = 1024 }; /* databases, workers, spool files, bodies on their way, lookups */

/* The kernel's own end of RLIMIT_NOFILE, even for root (proc(5)). */
static rlim_t kernel_limit(void)
{
	unsigned long n = 0;
	FILE *f = fopen("/proc/sys/fs/nr_open", "re");
	if (f && fscanf(f, "%lu", &n) != 1)
		n = 0;
	if (f)
		fclose(f);
	return n ? n : 1024 * 1024;
}

static rlim_t wanted(const struct config *c)
{
	rlim_t ret = 0, all = (rlim_t)config_int(c, "pepsi-ingress", "MAX_SESSIONS");
	const char *section;
	for (size_t i = 0; (section = config_section(c, i)); i++)
		if (ingress_is_listener(section))
			ret += (rlim_t)config_int(c, section, "MAX_CONNECTIONS");
	return (ret < all ? ret : all) + OWN_DESCRIPTORS;
}

void limits_raise(const struct config *c)
{
	rlim_t want = wanted(c), most = kernel_limit();
	struct rlimit rl;
	if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
		rlim_t target = want < most ? want : most;
		/* beyond the hard limit only with CAP_SYS_RESOURCE; else as far as that goes */
		if (rl.rlim_max >= target || setrlimit(RLIMIT_NOFILE, &(struct rlimit){ target, target })) {
			rl.rlim_cur = rl.rlim_max;
			setrlimit(RLIMIT_NOFILE, &rl);
		}
		if (getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur < want)
			log_warn(NULL, "event=descriptors-short have=%llu wanted=%llu effect=\"clients get 421 before MAX_CONNECTIONS is reached\" "
			    "hint=\"LimitNOFILE of the unit, or lower MAX_CONNECTIONS\"", (unsigned long long)rl.rlim_cur, (unsigned long long)want);
	}
	rl = (struct rlimit){ 0, 0 };
	setrlimit(RLIMIT_CORE, &rl); /* memory may hold keys and mail */
}
