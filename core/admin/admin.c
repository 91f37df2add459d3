/* The life of the admin: bind, start, end. The doors themselves are http.c and control.c. */
#include "admin/admin.h"

#include "admin_internal.h"
#include "control_internal.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct admin *admin_new(const struct config *c, const char *state_dir, unsigned owner_uid, unsigned owner_gid,
    struct config_faults *faults)
{
	struct admin *a = calloc(1, sizeof *a);
	if (!a)
		return NULL;
	a->control_fd = -1;
	a->owner_uid = owner_uid;
	a->owner_gid = owner_gid;
	a->embedded = !config_get(c, "pepsi-postgres", "CONFIG");
	a->started = clock_mono_us();
	/* both, so that all faults are seen in one run */
	int http = admin_http_bind(a, c, faults), control = admin_control_bind(a, state_dir, faults);
	if (http || control) {
		admin_free(a);
		return NULL;
	}
	return a;
}

int admin_start(struct admin *a, struct event_base *base, struct store_conn *db, const struct admin_source *source)
{
	a->base = base;
	a->db = db;
	if (source)
		a->source = *source;
	return admin_http_start(a) || admin_control_start(a) ? -1 : 0;
}

static void free_waiters(struct admin_waiter *w)
{
	while (w) {
		struct admin_waiter *next = w->next;
		free(w);
		w = next;
	}
}

static void free_peers(struct admin *a)
{
	struct admin_peer *p;
	size_t pos = 0;
	uint64_t key;
	while ((p = map_next(&a->peers, &pos, &key))) {
		map_del(&a->peers, key);
		net_conn_free(p->conn);
		event_free(p->timer);
		buf_free(&p->in);
		buf_free(&p->out);
		p->calls->release(p);
	}
	map_done(&a->peers);
}

void admin_free(struct admin *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n_http; i++) {
		net_listener_free(a->http[i]);
		close(a->http_fds[i]);
	}
	net_listener_free(a->control);
	admin_control_unlink(a);
	if (a->control_fd >= 0)
		close(a->control_fd);
	control_dns_forget(a);
	free_peers(a);
	free_waiters(a->counted);
	free_waiters(a->to_count);
	/* answers still to come find that nobody is here */
	for (struct admin_ticket *t = a->tickets; t; t = t->next)
		t->a = NULL;
	free(a->hosts);
	free(a);
}

bool admin_db_up(const struct admin *a)
{
	return a->db && store_conn_up(a->db) && store_conn_pending(a->db) < ADMIN_STORE_PENDING_MAX;
}

bool admin_healthy(const struct admin *a, char *reason, size_t size)
{
	snprintf(reason, size, "not started");
	return a->source.healthy && a->source.healthy(a->source.arg, reason, size);
}
