/* Accounts: which one a process runs under, and the one-way step into it. Names come from the configuration file alone. */
#include "daemon_internal.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void fill(struct account *a, const struct passwd *pw)
{
	*a = (struct account){ .uid = pw->pw_uid, .gid = pw->pw_gid };
	snprintf(a->name, sizeof a->name, "%s", pw->pw_name);
	a->n_groups = (int)(sizeof a->groups / sizeof *a->groups);
	if (getgrouplist(pw->pw_name, pw->pw_gid, a->groups, &a->n_groups) < 0)
		a->n_groups = (int)(sizeof a->groups / sizeof *a->groups); /* more groups than we carry: the first ones */
}

int account_find(struct account *ret, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct passwd *pw = names[i] ? getpwnam(names[i]) : NULL;
		if (pw) {
			fill(ret, pw);
			return 0;
		}
	}
	return -1;
}

int account_current(struct account *ret)
{
	struct passwd *pw = getpwuid(geteuid());
	if (pw) {
		fill(ret, pw);
		return 0;
	}
	*ret = (struct account){ .uid = geteuid(), .gid = getegid(), .groups = { getegid() }, .n_groups = 1 };
	snprintf(ret->name, sizeof ret->name, "%u", (unsigned)geteuid());
	return 0;
}

int account_add_groups(struct account *a, const char *groups, char *err, size_t err_size)
{
	struct str rest = str_from(groups), word;
	while (str_word(&rest, " \t,", &word)) {
		char name[64];
		snprintf(name, sizeof name, "%.*s", STR_ARG(word));
		struct group *gr = getgrnam(name);
		if (!gr || a->n_groups == (int)(sizeof a->groups / sizeof *a->groups)) {
			snprintf(err, err_size, gr ? "too many groups" : "there is no group %s", name);
			return -1;
		}
		a->groups[a->n_groups++] = gr->gr_gid;
	}
	return 0;
}

int account_become(const struct account *a, int death_signal, pid_t parent, char *err, size_t err_size)
{
	uid_t r, e, s;
	if (geteuid() == 0 && a->uid != 0) {
		if (setgroups((size_t)a->n_groups, a->groups) || setresgid(a->gid, a->gid, a->gid) ||
		    setresuid(a->uid, a->uid, a->uid)) {
			snprintf(err, err_size, "cannot become %s: %s", a->name, strerror(errno));
			return -1;
		}
		if (getresuid(&r, &e, &s) || r != a->uid || e != a->uid || s != a->uid || setuid(0) == 0) {
			snprintf(err, err_size, "cannot give up root for %s", a->name);
			return -1;
		}
	}
	/* changing credentials clears the death signal, so it comes after; the parent may have died before it was set */
	if (prctl(PR_SET_PDEATHSIG, death_signal) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
		snprintf(err, err_size, "prctl: %s", strerror(errno));
		return -1;
	}
	if (getppid() != parent) {
		snprintf(err, err_size, "the parent is gone");
		return -1;
	}
	return 0;
}
