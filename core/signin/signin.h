/* The admin child: the process beside the reactor that knows who may sign in. It runs as account pepsi-config, holds the digests
 * of passwords and nothing of mail. The reactor gives it SASL messages over a socketpair (proto/wire/signin.h) and gets verdicts; the
 * tool `pepsi account` gives it accounts over a unix socket of its own (proto/wire/account.h). It never blocks: what takes long is
 * done by keepers (keeper.h).
 *
 * Started by the spawner with the reactor; ends with its end of the channel, with the spawner, or with a keeper, and is started
 * anew then. What was under way fails temporarily. */
#ifndef SIGNIN_SIGNIN_H
#define SIGNIN_SIGNIN_H

#include "config/config.h"

struct signin_params {
	struct str blob;         /* the flat configuration */
	const char *state_dir;
	const char *conninfo;
	bool embedded;           /* the private cluster: its roles are users */
	int channel;             /* the reactor's other end is there */
	int log_level;
	bool pam;                /* [pepsi-signin] BACKENDS has pam: keep a process for it */
	/* Each becomes an account for good, in this order: PAM's keeper (in its own process), then the child. 0 or -1 (logged). */
	int (*become_pam)(void *arg);
	int (*become)(void *arg);
	void *arg;
};

/* In the forked child, as root when the daemon is: binds the account socket, forks the keepers, becomes its account, runs.
 * Returns the exit status. */
int signin_main(const struct signin_params *p);

#endif
