/* Shared by the reactor's files: the one structure that holds its parts together, and who does what with it.
 *   reactor.c         makes the parts, runs the loop, the connections to the database, the channel of the spawner, the stop
 *   reactor_reload.c  a new configuration: received, brought into force, told to who asked for it
 *   reactor_source.c  what the admin interface asks of the others
 * Nothing here is seen outside these files. */
#ifndef PEPSI_DAEMON_REACTOR_INTERNAL_H
#define PEPSI_DAEMON_REACTOR_INTERNAL_H

#include "daemon_internal.h"
#include "memory.h"

#include "admin/admin.h"
#include "dispatch/dispatch.h"
#include "ingress/ingress.h"
#include "net/dns.h"
#include "store/queue.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

enum { DB_ADMISSION, DB_LARGE_1, DB_LARGE_2, DB_DISPATCH, DB_LISTEN, DB_VIEWS, DB_LOOKUPS, DB_COUNT };

struct waiting_reload; /* reactor_reload.c */

struct reactor {
	const struct table *table;
	struct config *config, *next_config; /* next: waits for its grants */
	struct grants *grants;
	const struct ingress_inherited *inherited;
	struct event_base *base;
	int channel;
	struct event *ev_channel, *ev_term, *ev_gc, *ev_rotate, *ev_memory;
	struct memory memory;
	uint64_t octets_seen, octets_rotated; /* of ingress_octets(): at the last look, at the last rotation */
	int64_t rotated_us;
	bool rotating;
	struct store_conn *db[DB_COUNT];
	bool db_up[DB_COUNT], db_said[DB_COUNT];
	bool listened;          /* DB_LISTEN was up before */
	struct ingress *ingress;
	struct dispatch *dispatch;
	struct net_dns *dns;
	struct admin *admin;
	bool ready_said, stopping;
	SLIST_HEAD(, waiting_reload) reloads;
};

extern const char *const reactor_db_name[DB_COUNT]; /* as they stand in logs, metrics and the status */

/* ---- reactor.c */
void reactor_tell_spawner(struct reactor *r, const struct channel_msg *m);
/* The dispatcher's statistics learn of the serialization failures of all connections. */
void reactor_tell_retries(struct reactor *r);

/* ---- reactor_reload.c */
/* The resolver, by the configuration in force. 0 or -1 (logged). */
int reactor_dns_new(struct reactor *r);
/* CH_CONFIG: a configuration is in the memfd, which stays the caller's. It comes into force with the grants that follow. */
void reactor_new_config(struct reactor *r, int fd);
/* CH_GRANT: fd is taken; -1: nothing can be opened for it. */
void reactor_new_grants(struct reactor *r, int fd);
/* An operator asks for a reload (struct admin_source's `reload`; arg: the reactor). done is called when all is over. */
void reactor_reload_asked(void *arg, void (*done)(void *ctx, const char *faults, bool in_force), void *ctx);
/* Whoever waits for a reload is told: the faults (NULL: none), and whether the new configuration is in force. */
void reactor_reload_done(struct reactor *r, const char *faults, bool in_force);

/* ---- reactor_source.c */
/* All pointers in it live as long as r. */
struct admin_source reactor_source(struct reactor *r);

#endif
