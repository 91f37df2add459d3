/* The spawner's state, shared by its decisions (spawner.c) and the starting of its children (spawner_children.c). */
#ifndef DAEMON_SPAWNER_INTERNAL_H
#define DAEMON_SPAWNER_INTERNAL_H

#include "daemon_internal.h"

enum {
	SPAWNER_WORKERS_MAX = 4096,
	SPAWNER_REACTOR_DEATHS = 40,  /* within a minute: give up, the service manager decides */
};

struct spawner {
	const struct boot *boot;
	struct buf *blob;
	struct table *t;
	struct cluster_paths paths;
	int signals, channel, lock;    /* channel: our end, -1 */
	pid_t reactor, postgres, prepare, schema;
	pid_t workers[SPAWNER_WORKERS_MAX];
	size_t n_workers;
	bool stopping, cluster_stopping, prepared, fatal, reload_asked, ready;
	int64_t stop_deadline, cluster_deadline;
	int64_t reactor_at, postgres_at, schema_at; /* when to start; 0: not wanted now */
	int64_t deaths[SPAWNER_REACTOR_DEATHS];
	unsigned n_deaths, postgres_tries;
	struct child signin, service[SERVICES];
	struct pickup pickup;
	struct boot_configuring configuring; /* a reload; pid 0: none, or it has been waited for */
	bool configured;       /* … with this status */
	int configured_status;
	int status;
};

/* Says something to the service manager (sd_notify(3)), if there is one. */
void spawner_notify(const char *text);
/* To the reactor, with a descriptor or -1; one that does not listen for ten seconds is killed. */
void spawner_tell(struct spawner *s, const struct channel_msg *m, int fd);
/* This process's name, as ps and top have it. */
void spawner_name(const char *name);
/* What a child that is no worker does first: no signal mask, no descriptor but 0..2 and keep, which becomes 3. Returns it, or -1. */
int spawner_begin_plain(int keep);

void spawner_start_signin(struct spawner *s);
/* Another one follows when this one has been waited for: with the reactor, or a new configuration. */
void spawner_end_signin(struct spawner *s);
/* A failure is tried again in a second. */
void spawner_start_reactor(struct spawner *s);
/* As the reactor asked; it is told how that went. */
void spawner_start_worker(struct spawner *s, const struct channel_msg *m);
bool spawner_has_worker(const struct spawner *s, pid_t pid);
void spawner_kill_workers(struct spawner *s);

#endif
