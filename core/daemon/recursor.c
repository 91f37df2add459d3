/* The spawner's part in the resolving child (core/recursor): forks it where [pepsi-dns] BACKEND asks for it, starts it again with growing
 * pauses. It lives beside the reactor, not with it: another reactor finds it, and what it has cached. */
#include "daemon_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "recursor/recursor.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
	PAUSE_MIN_US = 100 * 1000,
	PAUSE_MAX_US = 30 * 1000 * 1000,
	STEADY_US = 60 * 1000 * 1000, /* lived so long: its end was no part of a series */
};

struct becoming {
	const struct account *account;
	pid_t parent;
};

static int become(void *arg)
{
	const struct becoming *b = arg;
	char err[200];
	if (account_become(b->account, SIGKILL, b->parent, err, sizeof err) == 0)
		return 0;
	log_error(NULL, "event=recursor-account reason=%s", log_qz(err));
	return -1;
}

static void child(const struct boot *b, struct str blob, const struct table *t, pid_t parent) __attribute__((noreturn));
static void child(const struct boot *b, struct str blob, const struct table *t, pid_t parent)
{
	static uid_t clients[RECURSOR_CLIENTS_MAX];
	struct becoming of = { &t->recursor, parent };
	struct recursor_params p = { .blob = blob, .state_dir = t->state_dir, .log_level = b->log_level, .clients = clients, .become = become, .arg = &of };
	log_setup((enum log_level)b->log_level, "recursor");
	clients[p.n_clients++] = t->reactor.uid;
	clients[p.n_clients++] = t->cluster.uid;
	for (size_t i = 0; i < t->n_stages && p.n_clients < RECURSOR_CLIENTS_MAX; i++)
		clients[p.n_clients++] = t->stages[i].account.uid;
	/* until it is its account, which sets this anew */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	_exit(getppid() == parent ? recursor_main(&p) : 1);
}

void recursor_spawn(struct recursor_child *s, const struct boot *b, struct str blob, const struct table *t, int (*begin)(int keep))
{
	pid_t parent = getpid(), pid = fork();
	s->at = 0;
	if (pid == 0) {
		begin(-1);
		prctl(PR_SET_NAME, "pepsi-recursor", 0, 0, 0);
		child(b, blob, t, parent);
	}
	if (pid < 0) {
		s->at = clock_mono_us() + PAUSE_MAX_US;
		return;
	}
	s->pid = pid;
	s->born = clock_mono_us();
}

void recursor_died(struct recursor_child *s, int status, bool wanted)
{
	int64_t now = clock_mono_us();
	s->pid = 0;
	if (wanted) {
		s->pause_us = 0;
		return;
	}
	if (now - s->born > STEADY_US)
		s->pause_us = 0;
	s->pause_us = s->pause_us ? s->pause_us * 2 : PAUSE_MIN_US;
	if (s->pause_us > PAUSE_MAX_US)
		s->pause_us = PAUSE_MAX_US;
	s->at = now + s->pause_us;
	log_warn(NULL, "event=recursor-died status=0x%x retry_ms=%lld hint=\"names are not resolved meanwhile\"", status, (long long)(s->pause_us / 1000));
}
