/* The two doors for operators: the control socket (STATE_DIR/run/control.sock, peer credentials decide) and the HTTP
 * listener of [pepsi-httpd] (/healthz, /metrics). Both live on the reactor's loop, both ask struct admin_source, which
 * the daemon fills in. Neither touches the queue but through store/queue.h.
 *
 * Control protocol: one JSON object per line each way. Request {"cmd":"queue.list","args":{…}}; answer
 * {"ok":true,"data":…} or {"ok":false,"error":"…","hint":"…"}; queue.cat answers {"ok":true,"length":N} and then N octets. */
#ifndef PEPSI_ADMIN_ADMIN_H
#define PEPSI_ADMIN_ADMIN_H

#include "config/config.h"
#include "store/queue.h"

#include <event2/event.h>

struct net_dns;

struct admin_source {
	void *arg;
	/* What only the daemon's memory knows, appended as members of an open JSON object: `"stages":[…],"ingress":{…}` (no
	 * braces around it). Counts of the queue are asked from the database by the admin. */
	void (*status)(void *arg, struct buf *json);
	/* Prometheus lines of ingress, dispatcher, store. */
	void (*metrics)(void *arg, struct buf *text);
	/* Is mail being accepted (listeners up, database up)? reason: one line when not. */
	bool (*healthy)(void *arg, char *reason, size_t size);
	/* Rows became pending by an operator's hand. */
	void (*wake)(void *arg);
	/* Reload: answers later through done(ctx, faults as text, or NULL; in_force: the rest of it is in force all the same). */
	void (*reload)(void *arg, void (*done)(void *ctx, const char *faults, bool in_force), void *ctx);
	void (*stop)(void *arg);
	const struct config *(*config)(void *arg); /* the one in force */
	struct net_dns *(*dns)(void *arg);         /* the resolver; it outlives the admin. NULL: none */
	/* What would a RCPT with this address be told? done(): once, at once or later; a word and who said so (ingress.h). */
	void (*recipient)(void *arg, struct str address, void (*done)(void *ctx, const char *answer, const char *source, const char *why), void *ctx);
	/* What workers report of themselves, as one JSON array; of this stage, or of all (NULL). */
	void (*reports)(void *arg, const char *stage, struct buf *json);
};

struct admin;
/* Binds the HTTP listener and the control socket (before privileges are dropped). faults as in ingress_new(). The
 * control socket is mode 0660, owned by the account `owner_uid`, group `owner_gid`. */
struct admin *admin_new(const struct config *c, const char *state_dir, unsigned owner_uid, unsigned owner_gid,
    struct config_faults *faults);
/* db: connection of role pepsi for views and repairs; owned by the caller. */
int admin_start(struct admin *a, struct event_base *base, struct store_conn *db, const struct admin_source *source);
void admin_free(struct admin *a);

#endif
