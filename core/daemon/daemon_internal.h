/* Shared inside core/daemon.
 *   main.c      arguments
 *   boot.c      short-lived children before and beside the reactor: configuration, cluster, schema
 *   spawner.c   the parent of all: forks, signals, restarts
 *   accounts.c  which account each process runs under, and becoming it
 *   table.c     the spawner's own table: the little it must know of the configuration
 *   inherited.c sockets that systemd passed
 *   grant.c     what a reload needs root for: new sockets, renewed keys
 *   reactor.c   wires ingress, dispatcher and admin to one event loop (reactor_internal.h: and reactor_reload.c, reactor_source.c)
 *   memory.c    free memory back to the kernel
 *   signin.c    the admin child beside the reactor
 *   child.c     children that are started again: the fork, the pauses
 *   services.c  the resolving and the fetching child, where they are wanted
 *   pickup.c    the drop folder of local submission, taken message by message; pickup_scan.c: what lies there, and how much may
 *   channel.c   the messages between spawner and reactor */
#ifndef PEPSI_DAEMON_INTERNAL_H
#define PEPSI_DAEMON_INTERNAL_H

#include "base/buf.h"
#include "config/config.h"
#include "ingress/supply.h"
#include "store/cluster.h"

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	CONFIG_BLOB_MAX = 16 << 20,   /* octets of a configuration in the flat form */
	CONFIG_FAULTS_MAX = 1 << 20,  /* octets of the text about its faults */
	EXIT_CONFIG_REFUSED = 78,     /* of the reactor: it cannot take its configuration (a port in use); no use trying again */
};

/* ---- channel.c: SOCK_SEQPACKET, fixed-size messages, at most one descriptor with each */
enum channel_op {
	/* reactor → spawner */
	CH_START = 1,   /* token, stage, status = CH_START_*: a worker, please */
	CH_KILL,        /* pid, status = signal */
	CH_READY,       /* mail is accepted: tell the service manager */
	CH_RELOAD,      /* an operator asks */
	CH_STOP_ASKED,  /* an operator asks */
	/* spawner → reactor */
	CH_STARTED,     /* token, pid, descriptor: the worker's channel */
	CH_FAILED,      /* token */
	CH_EXITED,      /* pid, status as of waitpid() */
	CH_CONFIG,      /* descriptor: memfd of a new configuration (the flat form); CH_GRANT follows */
	CH_GRANT,       /* descriptor: where the sockets and files of that configuration come from (grant.c), or none */
	CH_FAULTS,      /* descriptor: memfd with the faults of a configuration that was refused */
	CH_STOP,        /* drain and leave */
	CH_SIGNIN,      /* descriptor: the reactor's end of a (new) admin child's channel */
};
enum { CH_START_PIPELINE, CH_START_BEFORE }; /* before: one that judges messages which are not accepted yet */
struct channel_msg {
	uint32_t op, token;
	int32_t pid, status;
	char stage[64];
};
/* 0 or -1 (errno). fd -1: none. Blocks while the socket is full, about patience_ms at most (then ETIMEDOUT; -1: for ever). */
int channel_send(int sock, const struct channel_msg *m, int fd, int patience_ms);
/* 1: got one (*ret_fd -1 or a descriptor the caller owns). 0: nothing now (EAGAIN). -1: the other side is gone. */
int channel_recv(int sock, struct channel_msg *ret, int *ret_fd);
/* A sealed memfd holding s; -1. */
int channel_memfd(const char *name, struct str s);
/* All of it, at most max octets; NUL-terminated, for buf_z(). 0 or -1. */
int channel_slurp(int fd, struct buf *out);

/* ---- accounts.c */
struct account {
	char name[64];
	uid_t uid;
	gid_t gid;
	gid_t groups[32];
	int n_groups;
};
enum { ACCOUNTS_AS_ROOT = 1 };
/* The first of the names that exists. 0 or -1. */
int account_find(struct account *ret, const char *const *names, size_t n);
int account_current(struct account *ret);
/* Extra groups by name, blank-separated; unknown ones are an error (reason). */
int account_add_groups(struct account *a, const char *groups, char *err, size_t err_size);
/* Becomes it for good: groups, gid, uid, checked; then PDEATHSIG, NO_NEW_PRIVS. parent: the pid that must still be the parent,
 * else the process leaves. Does nothing but the last part when not root. Returns 0 or -1 with the reason. */
int account_become(const struct account *a, int death_signal, pid_t parent, char *err, size_t err_size);

/* ---- table.c */
enum { TABLE_STAGES_MAX = 256 };
struct table_stage {
	char name[64];
	struct account account;
};
struct table {
	char state_dir[PATH_MAX];
	bool embedded, drop;            /* drop: users may leave messages in STATE/submit/drop */
	unsigned max_connections;       /* of the private cluster */
	struct account reactor, cluster;
	struct account signin, pam_account; /* of the admin child, and of the process that asks PAM for it */
	bool pam;                       /* there is one */
	bool resolves;                  /* there is a resolving child */
	struct account recursor;        /* of it */
	bool fetches;                   /* there is a fetching child */
	struct account fetch;           /* of it */
	bool tokens;                    /* there is a helper that keeps tokens fresh */
	struct account token;           /* of it */
	struct table_stage stages[TABLE_STAGES_MAX];
	size_t n_stages;
};
/* Made by the configuration child; flat, so that it travels through a pipe as it is. Faults: unknown accounts. */
int table_make(struct table *t, const struct config *c, struct config_faults *faults);
const struct table_stage *table_stage(const struct table *t, const char *name);

/* ---- boot.c */
struct boot {
	const char *config_path, *state_dir; /* state_dir: from --state, or NULL */
	int log_level;
	struct ingress_inherited inherited;
};
/* In a child: reads and checks the configuration, prints or returns its faults. Waits. On success *blob is the flat
 * configuration and *t the table; 0. With faults: -1, text in *faults (to be shown). */
int boot_configure(const struct boot *b, struct buf *blob, struct table *t, struct buf *faults);
/* The same without waiting: begin (0, or -1 with errno), read when fd is readable until it says 1 (all is there; fd is -1 then), end when
 * the child has been waited for, too, with its status. */
struct boot_configuring {
	pid_t pid;
	int fd;
	struct buf got;
	bool bad;
};
int boot_configure_begin(const struct boot *b, struct boot_configuring *c);
int boot_configure_read(struct boot_configuring *c);
int boot_configure_end(struct boot_configuring *c, int status, struct buf *blob, struct table *t, struct buf *faults);
/* Makes STATE and what is below it, with owners. 0, or -1 (logged). */
int boot_state_dir(const struct table *t);
/* Forks a child that makes the cluster ready to start. The caller waits for it. */
pid_t boot_prepare_cluster(const struct table *t, const struct cluster_paths *paths);
pid_t boot_start_cluster(const struct table *t, const struct cluster_paths *paths);
/* Forks a child that waits for the database and brings its schema up to date: exit status 0 done, 2 not reachable, 1 refused. */
pid_t boot_schema(const struct table *t, const struct cluster_paths *paths, struct str blob);

/* The libpq connection string in force: [pepsi-postgres] CONFIG, or the private cluster's. */
int boot_conninfo(const struct config *c, const struct table *t, char *out, size_t size);

/* ---- inherited.c */
enum { INHERITED_FIRST = 4 }; /* descriptors 4, 5, …: behind 0..2 and the channel of each child */
/* The sockets of sd_listen_fds(3), if they are for us, moved to INHERITED_FIRST and on, close-on-exec; the variables are gone
 * after it. 0 (perhaps none), or -1 (logged). Before any other descriptor is opened. */
int inherited_take(struct ingress_inherited *in);
/* In a child that has no business with them. */
void inherited_close(const struct ingress_inherited *in);

/* ---- grant.c */
/* In the spawner: forks the child that opens what blob's listeners name. The end of its channel for the reactor, or -1. */
int grant_start(const struct boot *b, struct str blob);
struct event_base;
struct grants;
/* In the reactor: collects what comes from sock (taken), then calls done once. NULL: no memory. */
struct grants *grants_new(struct event_base *base, int sock, void (*done)(void *arg), void *arg);
void grants_free(struct grants *g); /* accepts NULL; not from inside done */
/* Closes what nobody took; also from inside done. */
void grants_release(struct grants *g);
/* What has come, as a supply; g outlives it. */
struct ingress_supply grants_supply(struct grants *g);

/* ---- child.c */
struct child {
	pid_t pid;             /* 0: there is none */
	int64_t at;            /* when to start it; 0: not wanted now */
	int64_t born, pause_us;
	bool ended;            /* by us */
};
/* Forks. In the child: begin(keep), what every child does first, gives its descriptor (keep -1: it has none) for *ret_fd; its name, its part in the
 * log; 0 is returned. In the parent: the pid; or -1, and c->at says when to try again. */
pid_t child_fork(struct child *c, const struct boot *b, const char *process, const char *part, int keep, int (*begin)(int keep), int *ret_fd);
/* It could not even be tried: c->at says when to try again. */
void child_failed(struct child *c);
/* In the child: its account; parent: of child_fork()'s caller. 0, or -1 (logged). */
int child_become(const struct account *a, pid_t parent, const char *part);
/* In the child: so many descriptors, if it may; no core file. */
void child_limits(unsigned descriptors);
/* Kills it, where there is one. */
void child_end(struct child *c);
/* It was waited for. wanted: as it should be, or after child_end(): silence. Else a line with the hint, and c->at is set. */
void child_died(struct child *c, const char *part, int status, bool wanted, const char *hint);

/* ---- signin.c */
/* Forks it. The reactor's end of its channel; -1: failed, and s->at says when to try again. */
int signin_spawn(struct child *s, const struct boot *b, struct str blob, const struct table *t, int (*begin)(int keep));
void signin_died(struct child *s, int status, bool wanted);

/* ---- services.c */
enum { SERVICES = 3 };
void services_begin(struct child s[SERVICES], const struct table *t);
void services_start_due(struct child s[SERVICES], const struct boot *b, struct str blob, const struct table *t, int (*begin)(int keep), int64_t now);
/* Ends all; those that t wants follow when they have been waited for, unless all stops. */
void services_reload(struct child s[SERVICES], const struct table *t, bool stopping);
/* Was it one of them? */
bool services_died(struct child s[SERVICES], const struct table *t, pid_t pid, int status, bool stopping);
bool services_left(const struct child s[SERVICES]);
/* Is one to be started later? */
bool services_timed(const struct child s[SERVICES]);

/* ---- pickup.c */
/* STATE/submit and what is in it, with owners and modes. 0, or -1 (logged). */
int pickup_folders(const struct table *t, const struct account *owner);
/* An inotify descriptor that becomes readable when a message was dropped; -1 (logged): there is only the clock. */
int pickup_watch(const struct table *t);
enum { PICKUP_NONE = 0, PICKUP_LEFT = 75 };
/* Forks the child that takes what lies in the drop folder. Its exit status: PICKUP_NONE: nothing is left; else some is. */
pid_t pickup_spawn(const struct boot *b, struct str blob, const struct table *t);
/* When and how the spawner runs it. */
struct pickup {
	pid_t pid;
	int watch;             /* -1: none */
	int64_t at, pause_us;  /* at: when to run next; 0: not wanted */
	bool again;            /* something came while it runs */
};
void pickup_begin(struct pickup *p, const struct table *t);
/* The watch is readable. */
void pickup_event(struct pickup *p);
void pickup_ended(struct pickup *p, int status);
/* How long the spawner may sleep for its sake, in milliseconds; -1: for ever. */
int pickup_wait(const struct pickup *p, int64_t now);

/* ---- spawner.c */
int spawner_run(const struct boot *b, struct buf *blob, struct table *t);

/* ---- limits.c */
/* In the reactor, before it gives root up: RLIMIT_NOFILE for the MAX_CONNECTIONS of all listeners, as far as is allowed (a warning
 * tells when that is not far enough); no core files. */
void limits_raise(const struct config *c);

/* ---- reactor.c: never returns to the spawner's code; exit status */
int reactor_main(const struct boot *b, struct str blob, const struct table *t, int channel);

#endif
