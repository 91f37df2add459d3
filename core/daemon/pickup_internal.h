/* Shared by pickup.c and pickup_scan.c alone. */
#ifndef DAEMON_PICKUP_INTERNAL_H
#define DAEMON_PICKUP_INTERNAL_H

#include "daemon_internal.h"
#include "submit/submit.h"

#include <sys/stat.h>

enum {
	SCAN_MAX = 8192,         /* messages taken up in one look at the folder */
	SCAN_USER_MAX = 1024,    /* … of one user: what one leaves there must not hide what others leave */
	SCAN_USERS_MAX = 512,
	BEGUN_S = 24 * 3600,     /* a file that is not finished after that never will be */
	BEGUN_USER_MAX = 1000,   /* unfinished files of one user: more programs than that do not write at once */
	SCAN_US = 5 * 1000 * 1000, /* a look that has found something to do goes no further after that */
};

struct run {
	const struct table *t;
	const struct config *c;
	char socket[PATH_MAX + 32], drop_path[PATH_MAX + 32];
	char host[256];
	int drop, bad;
	uint64_t size_max;
	uint64_t user_files, user_octets; /* DROP_USER_FILES, DROP_USER_SIZE; 0: no limit */
	unsigned round, keep_bad, n_bad, taken, later;
	bool left, cut;          /* left: something has to wait; cut: the last look did not see all */
};

struct entry {
	char name[SUBMIT_NAME];
	uid_t uid;
	unsigned turn; /* the how-manieth of its user */
	int64_t mtime_ns;
};

/* Messages that are to be taken, SCAN_MAX at most, in the order in which they are; their number. Whatever else lies in the folder is put
 * aside, unfinished files of who has too many of them are removed. */
size_t pickup_scan(struct run *r, struct entry *out);
/* What a user has left there beyond DROP_USER_FILES and DROP_USER_SIZE is removed, which of his files is chance; root's is not. Called
 * when what could be taken has been. */
void pickup_quota(struct run *r);
/* Away from the folder, for the operator to look at; the name says whose it was. Renaming follows nothing and opens nothing. */
void pickup_aside(struct run *r, const char *name, const struct stat *st, const char *why);
unsigned pickup_count(int dir);

#endif
