/* The spawner's part in the children that live beside the reactor, not with it: the resolving child (core/recursor) and the fetching child
 * (core/fetch), which are asked on sockets of their own, and the helper that keeps tokens fresh (core/token), a program. Forks each where the configuration wants it, again with growing pauses when it dies, anew at a
 * reload. */
#include "daemon_internal.h"

#include "base/log.h"
#include "fetch/fetch.h"
#include "recursor/recursor.h"
#include "token/token.h"
#include "worker/confine.h"
#include "worker/resolve.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { DESCRIPTORS = 8192 };

struct becoming {
	const struct account *account;
	pid_t parent;
	const char *part;
	bool confined;
};

static int become(void *arg)
{
	const struct becoming *b = arg;
	if (child_become(b->account, b->parent, b->part))
		return -1;
	if (b->confined && confine(false))
		log_warn(NULL, "event=%s-unconfined reason=%s", b->part, log_qz(strerror(errno)));
	return 0;
}

/* Whoever may ask: reactor, workers, tools of the daemon's account. */
static size_t accounts_of(const struct table *t, uid_t *out, size_t room)
{
	size_t n = 0;
	out[n++] = t->reactor.uid;
	out[n++] = t->cluster.uid;
	for (size_t i = 0; i < t->n_stages && n < room; i++)
		out[n++] = t->stages[i].account.uid;
	return n;
}

static uid_t clients[RECURSOR_CLIENTS_MAX];

static int run_recursor(const struct boot *b, struct str blob, const struct table *t, pid_t parent)
{
	struct becoming of = { &t->recursor, parent, "recursor", false };
	struct recursor_params p = { .blob = blob, .state_dir = t->state_dir, .log_level = b->log_level, .clients = clients,
		.n_clients = accounts_of(t, clients, RECURSOR_CLIENTS_MAX), .become = become, .arg = &of };
	return recursor_main(&p);
}

static int run_fetch(const struct boot *b, struct str blob, const struct table *t, pid_t parent)
{
	static struct net_dns_settings dns;
	char err[256];
	struct becoming of = { &t->fetch, parent, "fetch", true };
	struct fetch_params p = { .blob = blob, .state_dir = t->state_dir, .log_level = b->log_level, .clients = clients,
		.n_clients = accounts_of(t, clients, RECURSOR_CLIENTS_MAX), .dns = &dns, .become = become, .arg = &of };
	struct config *c = config_thaw(blob);
	if (!c)
		return 1;
	int rc = resolve_settings(c, &dns, err, sizeof err);
	config_free(c);
	if (rc)
		log_error(NULL, "event=dns-settings reason=%s", log_qz(err));
	return rc ? 1 : fetch_main(&p);
}

/* A program of its own, under its own account: what it links to does not come into ours. */
static int run_tokens(const struct boot *b, struct str blob, const struct table *t, pid_t parent)
{
	static const char *const levels[] = { "error", "warn", "info", "debug", "trace" };
	char helper[PATH_MAX];
	struct becoming of = { &t->token, parent, "token", false };
	char *argv[] = { helper, (char *)(uintptr_t)"-c", (char *)(uintptr_t)b->config_path, (char *)(uintptr_t)"--state", (char *)(uintptr_t)t->state_dir,
		(char *)(uintptr_t)"-L", (char *)(uintptr_t)levels[b->log_level < 0 || b->log_level > 4 ? 2 : b->log_level], NULL };
	(void)blob; /* it reads the file: secrets as far as its account may */
	if (token_helper_path(helper, sizeof helper) || token_dir_make(t->state_dir, t->token.uid, t->token.gid)) {
		log_error(NULL, "event=token-start path=%s/tokens reason=%s", t->state_dir, log_qz(strerror(errno)));
		return 1;
	}
	if (become(&of))
		return 1;
	execv(helper, argv);
	log_error(NULL, "event=token-start reason=%s", log_qz(strerror(errno)));
	return 1;
}

static bool wants_tokens(const struct table *t)
{
	return t->tokens;
}

static bool wants_recursor(const struct table *t)
{
	return t->resolves;
}

static bool wants_fetch(const struct table *t)
{
	return t->fetches;
}

static const struct service {
	const char *process, *part, *hint;
	bool (*wanted)(const struct table *t);
	int (*run)(const struct boot *b, struct str blob, const struct table *t, pid_t parent);
} services[SERVICES] = {
	{ "pepsi-recursor", "recursor", "names are not resolved meanwhile", wants_recursor, run_recursor },
	{ "pepsi-fetch", "fetch", "policies of MTA-STS are not fetched meanwhile", wants_fetch, run_fetch },
	{ "pepsi-token", "token", "tokens for signing in elsewhere are not refreshed meanwhile", wants_tokens, run_tokens },
};

void services_begin(struct child s[SERVICES], const struct table *t)
{
	for (size_t i = 0; i < SERVICES; i++)
		s[i].at = services[i].wanted(t);
}

void services_start_due(struct child s[SERVICES], const struct boot *b, struct str blob, const struct table *t, int (*begin)(int keep), int64_t now)
{
	for (size_t i = 0; i < SERVICES; i++) {
		pid_t parent = getpid();
		int fd;
		if (s[i].pid || !s[i].at || s[i].at > now)
			continue;
		if (child_fork(&s[i], b, services[i].process, services[i].part, -1, begin, &fd) == 0) {
			child_limits(DESCRIPTORS);
			_exit(services[i].run(b, blob, t, parent));
		}
	}
}

void services_reload(struct child s[SERVICES], const struct table *t, bool stopping)
{
	for (size_t i = 0; i < SERVICES; i++) {
		s[i].at = s[i].pid || stopping ? 0 : services[i].wanted(t);
		child_end(&s[i]);
	}
}

bool services_died(struct child s[SERVICES], const struct table *t, pid_t pid, int status, bool stopping)
{
	for (size_t i = 0; i < SERVICES; i++) {
		bool ended = s[i].ended;
		if (s[i].pid != pid)
			continue;
		child_died(&s[i], services[i].part, status, stopping, services[i].hint);
		if (ended && !stopping)
			s[i].at = services[i].wanted(t);
		return true;
	}
	return false;
}

bool services_left(const struct child s[SERVICES])
{
	for (size_t i = 0; i < SERVICES; i++)
		if (s[i].pid)
			return true;
	return false;
}

bool services_timed(const struct child s[SERVICES])
{
	for (size_t i = 0; i < SERVICES; i++)
		if (s[i].at)
			return true;
	return false;
}
