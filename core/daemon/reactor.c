/* The reactor: one event loop that owns ingress, dispatcher, control socket and HTTP. This file wires them to each
 * other, to the database connections and to the spawner; it decides nothing about mail. It never loads a module and
 * never blocks. */
#include "daemon_internal.h"
#include "memory.h"

#include "admin/admin.h"
#include "base/clock.h"
#include "base/log.h"
#include "dispatch/dispatch.h"
#include "ingress/ingress.h"
#include "net/dns.h"
#include "net/loop.h"
#include "store/queue.h"
#include "worker/resolve.h"
#include "token/token.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

enum {
	EXIT_CONFIG_REFUSED = 78,
	BLOB_MAX = 16 << 20,
	DRAIN_GRACE_S = 10,    /* sessions in the middle of a message */
	WORKERS_GRACE_S = 20,  /* workers in the middle of a delivery */
	BODY_GC_S = 600,
	/* The tables of large bodies are turned once this much was accepted: looked at often only while mail comes in. */
	ROTATE_OCTETS = 16 << 20,
	ROTATE_S = 60,
	ROTATE_BUSY_MS = 100,
	ROTATE_IDLE_MS = 2000,
};

enum { DB_ADMISSION, DB_LARGE_1, DB_LARGE_2, DB_DISPATCH, DB_LISTEN, DB_VIEWS, DB_LOOKUPS, DB_COUNT };

struct waiting_reload {
	SLIST_ENTRY(waiting_reload) link;
	void (*done)(void *ctx, const char *faults, bool in_force);
	void *ctx;
};

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
	bool started, ready_said, stopping, went_on; /* went_on: the spawner is gone */
	SLIST_HEAD(, waiting_reload) reloads;
};

static const char *const db_name[DB_COUNT] = { "admission", "admission_large_1", "admission_large_2", "dispatch", "listen", "views", "lookups" };
static const char *const db_role[DB_COUNT] = { "pepsi-ingress", "pepsi-ingress", "pepsi-ingress", "pepsi", "pepsi", "pepsi", "pepsi-ingress" };

static void tell_spawner(struct reactor *r, const struct channel_msg *m)
{
	if (channel_send(r->channel, m, -1, -1))
		log_error(NULL, "event=spawner-gone reason=%s", log_qz(strerror(errno)));
}

/* ---- stop */

static void workers_stopped(void *arg)
{
	struct reactor *r = arg;
	event_base_loopbreak(r->base);
}

static void tell_retries(struct reactor *r)
{
	uint64_t n = 0;
	for (int i = 0; i < DB_COUNT; i++)
		n += store_conn_retries(r->db[i]);
	dispatch_retries(r->dispatch, n);
}

static void sessions_gone(void *arg)
{
	struct reactor *r = arg;
	tell_retries(r); /* the statistics of the stop have them */
	dispatch_stop(r->dispatch, WORKERS_GRACE_S, workers_stopped, r);
}

static void stop(struct reactor *r)
{
	if (r->stopping)
		return;
	r->stopping = true;
	log_info(NULL, "event=draining");
	ingress_drain(r->ingress, DRAIN_GRACE_S, sessions_gone, r);
}

static void on_term(evutil_socket_t sig, short what, void *arg)
{
	(void)sig;
	(void)what;
	struct channel_msg m = { .op = CH_STOP_ASKED };
	tell_spawner(arg, &m);
	stop(arg);
}

/* ---- database connections */

static void say_ready(struct reactor *r)
{
	struct channel_msg m = { .op = CH_READY };
	if (r->ready_said || !r->db_up[DB_ADMISSION] || !r->db_up[DB_DISPATCH])
		return;
	r->ready_said = true;
	tell_spawner(r, &m);
}

static void new_workers(struct reactor *r)
{
	dispatch_reload(r->dispatch, r->config);
	ingress_workers_changed(r->ingress, r->config);
}

static void db_state(void *arg, struct store_conn *c, bool up, const char *err)
{
	struct reactor *r = arg;
	int i = 0;
	while (i < DB_COUNT && r->db[i] != c)
		i++;
	if (i == DB_COUNT)
		return;
	if (r->db_up[i] != up || !r->db_said[i]) {
		if (up)
			log_info(NULL, "event=database-up connection=%s", db_name[i]);
		else
			log_warn(NULL, "event=database-away connection=%s reason=%s", db_name[i], log_qz(err));
	}
	r->db_said[i] = true;
	r->db_up[i] = up;
	if (i == DB_ADMISSION)
		ingress_database(r->ingress, up);
	else if (i == DB_DISPATCH)
		dispatch_database(r->dispatch, up);
	if ((i == DB_LISTEN || i == DB_LOOKUPS) && up)
		ingress_recipients_changed(r->ingress); /* what was notified meanwhile was missed */
	if (i == DB_LISTEN && up) {
		dispatch_wake(r->dispatch, NULL); /* likewise */
		if (r->listened) /* and what is laid over the configuration */
			new_workers(r);
		r->listened = true;
	}
	if (up)
		say_ready(r);
}

static void on_notify(void *arg, const char *channel, const char *payload)
{
	struct reactor *r = arg;
	(void)payload;
	if (strcmp(channel, "workqueue") == 0) {
		dispatch_wake(r->dispatch, NULL);
	} else if (strcmp(channel, "recipient_changed") == 0) {
		ingress_recipients_changed(r->ingress);
	} else if (strcmp(channel, "config_changed") == 0) {
		log_info(NULL, "event=config-changed hint=\"retiring workers\"");
		new_workers(r);
	}
}

/* How long a connection that sessions wait for may be silent; 0: as long as any. */
static unsigned answer_s(const struct reactor *r, int i)
{
	unsigned s = (unsigned)config_int(r->config, "pepsi-postgres", "ADMISSION_TIMEOUT");
	return i == DB_ADMISSION || i == DB_LOOKUPS ? s : i == DB_LARGE_1 || i == DB_LARGE_2 ? 3 * s : 0;
}

static int open_databases(struct reactor *r)
{
	static const char *const channels[] = { "workqueue", "config_changed", "recipient_changed" };
	static const char *const app[DB_COUNT] = { "pepsi admission", "pepsi admission large 1", "pepsi admission large 2", "pepsi dispatch", "pepsi listen", "pepsi views", "pepsi lookups" };
	char conninfo[1024];
	if (boot_conninfo(r->config, r->table, conninfo, sizeof conninfo))
		return -1;
	for (int i = 0; i < DB_COUNT; i++) {
		struct store_params p = { .conninfo = conninfo, .role = r->table->embedded ? db_role[i] : NULL,
			.set_role = r->table->embedded ? NULL : db_role[i], .name = app[i],
			/* the greylist may forget the last second */
			.answer_s = answer_s(r, i),
			.async_commit = i == DB_LOOKUPS || (i == DB_DISPATCH && !config_int(r->config, "pepsi-postgres", "DURABLE_COMPLETION")) };
		r->db[i] = store_conn_open(r->base, &p, db_state, r);
		if (!r->db[i])
			return -1;
	}
	return store_conn_listen(r->db[DB_LISTEN], channels, 3, on_notify, r);
}

/* ---- workers, through the spawner */

static void ask_start(void *arg, uint32_t token, const char *stage)
{
	struct channel_msg m = { .op = CH_START, .token = token };
	snprintf(m.stage, sizeof m.stage, "%s", stage);
	tell_spawner(arg, &m);
}

/* For stages before acceptance. */
static void ask_start_before(void *arg, uint32_t token, const char *stage)
{
	struct channel_msg m = { .op = CH_START, .token = token, .status = CH_START_BEFORE };
	snprintf(m.stage, sizeof m.stage, "%s", stage);
	tell_spawner(arg, &m);
}

static void ask_kill(void *arg, pid_t pid, int sig)
{
	struct channel_msg m = { .op = CH_KILL, .pid = pid, .status = sig };
	tell_spawner(arg, &m);
}

/* ---- reload */

static void reload_done(struct reactor *r, const char *faults, bool in_force)
{
	struct waiting_reload *w;
	while ((w = SLIST_FIRST(&r->reloads))) {
		SLIST_REMOVE_HEAD(&r->reloads, link);
		w->done(w->ctx, faults, in_force);
		free(w);
	}
}

static int make_dns(struct reactor *r)
{
	struct net_dns_settings s;
	char err[256];
	if (resolve_settings(r->config, &s, err, sizeof err)) {
		log_error(NULL, "event=dns-settings reason=%s", log_qz(err));
		return -1;
	}
	s.reuse = true;
	return (r->dns = net_dns_new(r->base, &s)) ? 0 : -1;
}

static void reload_dns(struct reactor *r)
{
	struct net_dns_settings s;
	char err[256];
	if (resolve_settings(r->config, &s, err, sizeof err)) { /* the check has refused it before */
		log_error(NULL, "event=dns-settings reason=%s hint=\"the old ones stay\"", log_qz(err));
	} else {
		s.reuse = true;
		net_dns_reload(r->dns, &s);
	}
}

static void new_config(struct reactor *r, int fd)
{
	struct buf blob = BUF_INIT(BLOB_MAX);
	/* a reload that was under way is overtaken */
	grants_free(r->grants);
	r->grants = NULL;
	config_free(r->next_config);
	r->next_config = channel_slurp(fd, &blob) ? NULL : config_thaw(buf_str(&blob));
	buf_free_secret(&blob);
	if (!r->next_config) {
		log_error(NULL, "event=reload-failed reason=\"the new configuration did not arrive whole\"");
		reload_done(r, "the new configuration did not arrive whole\n", false);
		return;
	}
	config_load_secrets(r->next_config, NULL);
}

/* The new configuration is here, and what could be opened for it. */
static void take_config(struct reactor *r, const struct ingress_supply *supply)
{
	struct config_faults *faults = config_faults_new();
	struct buf text = BUF_INIT(1 << 20);
	struct config *old = r->config;
	if (!faults)
		return;
	r->config = r->next_config;
	r->next_config = NULL;
	ingress_reload(r->ingress, r->config, supply, faults);
	dispatch_reload(r->dispatch, r->config);
	reload_dns(r);
	config_free(old);
	for (size_t i = 0; i < config_faults_n(faults, true); i++) {
		const struct config_fault *f = config_faults_at(faults, i);
		log_line(f->warning ? LOG_LV_WARN : LOG_LV_ERROR, NULL, "event=reload-fault at=%s:%u reason=%s", f->file, f->line,
		    log_qz(f->text));
		config_fault_print(f, &text);
	}
	config_faults_free(faults);
	reload_done(r, text.n ? buf_z(&text) : NULL, true);
	buf_free(&text);
}

static void on_grants(void *arg)
{
	struct reactor *r = arg;
	struct ingress_supply supply = grants_supply(r->grants);
	if (r->next_config)
		take_config(r, &supply);
	grants_release(r->grants); /* the rest of it with the next reload: it is calling us */
}

static void new_grants(struct reactor *r, int fd)
{
	if (!r->next_config) {
		if (fd >= 0)
			close(fd);
		return;
	}
	r->grants = fd >= 0 ? grants_new(r->base, fd, on_grants, r) : NULL;
	if (!r->grants) /* the rest of the configuration is no reason to wait */
		take_config(r, NULL);
}

static void worker_failed(struct reactor *r, uint32_t token)
{
	if (token & INGRESS_TOKEN)
		ingress_worker_failed(r->ingress, token);
	else
		dispatch_worker_failed(r->dispatch, token);
}

/* fd is taken. */
static void worker_started(struct reactor *r, const struct channel_msg *m, int fd)
{
	if (fd < 0)
		worker_failed(r, m->token);
	else if (!(m->token & INGRESS_TOKEN))
		dispatch_worker_started(r->dispatch, m->token, m->pid, fd);
	else if (!ingress_worker_started(r->ingress, m->token, m->pid, fd))
		close(fd); /* nobody waits for it any more: it sees the end and leaves */
}

static void on_channel(evutil_socket_t sock, short what, void *arg)
{
	struct reactor *r = arg;
	struct channel_msg m;
	int fd, got;
	(void)what;
	while ((got = channel_recv(sock, &m, &fd)) > 0) {
		switch (m.op) {
		case CH_STARTED:
			worker_started(r, &m, fd);
			fd = -1;
			break;
		case CH_FAILED:
			worker_failed(r, m.token);
			break;
		case CH_EXITED:
			if (!ingress_worker_exited(r->ingress, m.pid, m.status))
				dispatch_worker_exited(r->dispatch, m.pid, m.status);
			break;
		case CH_CONFIG:
			if (fd >= 0)
				new_config(r, fd);
			break;
		case CH_GRANT:
			new_grants(r, fd);
			fd = -1;
			break;
		case CH_FAULTS: {
			struct buf text = BUF_INIT(1 << 20);
			if (fd >= 0)
				channel_slurp(fd, &text);
			reload_done(r, text.n ? buf_z(&text) : "the configuration was refused\n", false);
			buf_free(&text);
			break;
		}
		case CH_SIGNIN:
			ingress_signin(r->ingress, fd); /* the former child, if it still lives, sees the end of its channel */
			fd = -1;
			break;
		case CH_STOP:
			stop(r);
			break;
		default:
			log_error(NULL, "event=channel-garbage op=%u", m.op);
		}
		if (fd >= 0)
			close(fd);
	}
	if (got < 0) {
		/* without the spawner nothing can be started, and somebody else may take our place: leave at once;
		 * what was acknowledged is in the database */
		log_error(NULL, "event=spawner-gone hint=\"leaving\"");
		_exit(1);
	}
}

/* ---- what the admin asks */

static void src_status(void *arg, struct buf *json)
{
	struct reactor *r = arg;
	dispatch_status(r->dispatch, json);
	buf_addz(json, ",\"ingress\":");
	ingress_status(r->ingress, json);
	buf_addz(json, ",\"dns\":");
	net_dns_status(r->dns, json);
	buf_addz(json, ",\"tokens\":");
	token_status(r->config, json);
	buf_addz(json, ",\"connections\":{");
	for (int i = 0; i < DB_COUNT; i++)
		buf_addf(json, "%s\"%s\":%s", i ? "," : "", db_name[i], r->db_up[i] ? "true" : "false");
	buf_addf(json, "},\"memory\":{\"resident\":%zu,\"in_use\":%zu,\"returned\":%llu", r->memory.resident, r->memory.in_use,
	    (unsigned long long)r->memory.returned);
	buf_addf(json, "},\"processes\":{\"spawner\":%d,\"reactor\":%d}", (int)getppid(), (int)getpid());
}

static void src_metrics(void *arg, struct buf *text)
{
	struct reactor *r = arg;
	tell_retries(r);
	ingress_metrics(r->ingress, text);
	dispatch_metrics(r->dispatch, text);
	net_dns_metrics(r->dns, text);
	token_metrics(r->config, text);
	memory_metrics(&r->memory, text);
	buf_addz(text, "# HELP pepsi_database_connection_up Is the connection to the database there?\n"
		       "# TYPE pepsi_database_connection_up gauge\n");
	for (int i = 0; i < DB_COUNT; i++)
		buf_addf(text, "pepsi_database_connection_up{connection=\"%s\"} %d\n", db_name[i], r->db_up[i]);
}

static bool src_healthy(void *arg, char *reason, size_t size)
{
	struct reactor *r = arg;
	if (r->stopping)
		snprintf(reason, size, "stopping");
	else if (!r->db_up[DB_ADMISSION])
		snprintf(reason, size, "the database is away: mail is answered 451");
	else if (!r->db_up[DB_DISPATCH])
		snprintf(reason, size, "the dispatcher's database connection is away");
	else if (!dispatch_ready(r->dispatch))
		snprintf(reason, size, "the dispatcher has not begun (does another pepsid use this database?)");
	else
		return true;
	return false;
}

static void src_wake(void *arg)
{
	struct reactor *r = arg;
	dispatch_wake(r->dispatch, NULL);
}

static void src_reload(void *arg, void (*done)(void *ctx, const char *faults, bool in_force), void *ctx)
{
	struct reactor *r = arg;
	struct channel_msg m = { .op = CH_RELOAD };
	struct waiting_reload *w = malloc(sizeof *w);
	if (!w) {
		done(ctx, "out of memory\n", false);
		return;
	}
	w->done = done;
	w->ctx = ctx;
	SLIST_INSERT_HEAD(&r->reloads, w, link);
	tell_spawner(r, &m);
}

static void src_stop(void *arg)
{
	struct channel_msg m = { .op = CH_STOP_ASKED };
	tell_spawner(arg, &m);
}

static void src_recipient(void *arg, struct str address, void (*done)(void *ctx, const char *answer, const char *source), void *ctx)
{
	struct reactor *r = arg;
	ingress_test_recipient(r->ingress, address, done, ctx);
}

static void src_reports(void *arg, const char *stage, struct buf *json)
{
	struct reactor *r = arg;
	dispatch_reports(r->dispatch, stage, json);
}

static const struct config *src_config(void *arg)
{
	struct reactor *r = arg;
	return r->config;
}

static struct net_dns *src_dns(void *arg)
{
	struct reactor *r = arg;
	return r->dns;
}

/* ---- start */

static void swept(void *arg, enum store_rc rc, unsigned n)
{
	(void)arg;
	if (rc == STORE_OK && n)
		log_info(NULL, "event=body-gc freed=%u", n);
}

static void on_gc(evutil_socket_t fd, short what, void *arg)
{
	struct reactor *r = arg;
	(void)fd;
	(void)what;
	if (r->db_up[DB_VIEWS])
		store_body_gc(r->db[DB_VIEWS], swept, r);
}

static void on_memory(evutil_socket_t fd, short what, void *arg)
{
	struct reactor *r = arg;
	(void)fd;
	(void)what;
	memory_look(&r->memory);
}

static void rotated(void *arg, enum store_rc rc, unsigned n)
{
	struct reactor *r = arg;
	r->rotating = false;
	if (rc == STORE_OK && n && log_max() >= LOG_LV_DEBUG)
		log_debug(NULL, "event=body-tables-truncated n=%u", n);
}

static void plan_rotation(struct reactor *r, int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };
	event_add(r->ev_rotate, &tv);
}

static void on_rotate(evutil_socket_t fd, short what, void *arg)
{
	struct reactor *r = arg;
	uint64_t now = ingress_octets(r->ingress);
	int64_t us = clock_mono_us();
	(void)fd;
	(void)what;
	plan_rotation(r, now - r->octets_seen >= ROTATE_OCTETS / 16 ? ROTATE_BUSY_MS : ROTATE_IDLE_MS);
	r->octets_seen = now;
	tell_retries(r);
	if (r->rotating || !r->db_up[DB_VIEWS] ||
	    (now - r->octets_rotated < ROTATE_OCTETS && us - r->rotated_us < ROTATE_S * US_PER_S))
		return;
	r->rotating = true;
	r->octets_rotated = now;
	r->rotated_us = us;
	store_body_rotate(r->db[DB_VIEWS], rotated, r);
}

static int bind_all(struct reactor *r)
{
	struct config_faults *faults = config_faults_new();
	if (!faults)
		return -1;
	struct ingress_supply supply = ingress_supply_direct(r->inherited);
	r->ingress = ingress_new(r->config, &supply, faults);
	r->admin = admin_new(r->config, r->table->state_dir, r->table->reactor.uid, r->table->reactor.gid, faults);
	for (size_t i = 0; i < config_faults_n(faults, true); i++) {
		const struct config_fault *f = config_faults_at(faults, i);
		log_line(f->warning ? LOG_LV_WARN : LOG_LV_ERROR, NULL, "event=bind at=%s:%u reason=%s", f->file, f->line, log_qz(f->text));
	}
	config_faults_free(faults);
	return r->ingress && r->admin ? 0 : -1;
}

static int run(struct reactor *r)
{
	struct dispatch_spawner sp = { r, ask_start, ask_kill };
	struct admin_source source = { r, src_status, src_metrics, src_healthy, src_wake, src_reload, src_stop, src_config, src_dns, src_recipient,
		src_reports };
	struct ingress_spawner before = { r, ask_start_before, ask_kill };
	struct ingress_sink sink;

	r->base = net_loop_new();
	if (!r->base)
		return 1;
	r->dispatch = dispatch_new(r->base, r->config, &sp);
	if (!r->dispatch || make_dns(r) || open_databases(r))
		return 1;
	sink = (struct ingress_sink){ r->dispatch, dispatch_reserve, dispatch_unreserve, dispatch_hand_off, dispatch_wake_sink, dispatch_due_sink,
		dispatch_measure_sink };
	ingress_dns(r->ingress, r->dns);
	ingress_spawner(r->ingress, &before);
	ingress_lookups(r->ingress, r->db[DB_LOOKUPS]);
	if (dispatch_start(r->dispatch, r->db[DB_DISPATCH]) ||
	    ingress_start(r->ingress, r->base, r->db[DB_ADMISSION], &r->db[DB_LARGE_1], 2, &sink) ||
	    admin_start(r->admin, r->base, r->db[DB_VIEWS], &source))
		return 1;

	struct timeval gc = { .tv_sec = BODY_GC_S }, second = { .tv_sec = 1 };
	r->ev_channel = event_new(r->base, r->channel, EV_READ | EV_PERSIST, on_channel, r);
	r->ev_term = evsignal_new(r->base, SIGTERM, on_term, r);
	r->ev_gc = event_new(r->base, -1, EV_PERSIST, on_gc, r);
	r->ev_memory = event_new(r->base, -1, EV_PERSIST, on_memory, r);
	r->ev_rotate = evtimer_new(r->base, on_rotate, r);
	if (!r->ev_channel || !r->ev_term || !r->ev_gc || !r->ev_rotate || !r->ev_memory || event_add(r->ev_channel, NULL) || event_add(r->ev_term, NULL) ||
	    event_add(r->ev_gc, &gc) || event_add(r->ev_memory, &second))
		return 1;
	memory_open(&r->memory);
	plan_rotation(r, ROTATE_IDLE_MS);
	event_base_dispatch(r->base);

	for (int i = 0; i < DB_COUNT; i++) /* first: what still waits for an answer is told here, while it exists */
		store_conn_close(r->db[i]);
	admin_free(r->admin);
	ingress_free(r->ingress);
	net_dns_free(r->dns);
	dispatch_free(r->dispatch);
	event_free(r->ev_channel);
	event_free(r->ev_term);
	event_free(r->ev_gc);
	event_free(r->ev_rotate);
	event_free(r->ev_memory);
	memory_close(&r->memory);
	event_base_free(r->base);
	grants_free(r->grants);
	config_free(r->next_config);
	config_free(r->config);
	return 0;
}

int reactor_main(const struct boot *b, struct str blob, const struct table *t, int channel)
{
	static struct reactor r;
	char err[200];

	log_setup((enum log_level)b->log_level, "reactor");
	r = (struct reactor){ .table = t, .channel = channel, .inherited = &b->inherited };
	r.config = config_thaw(blob);
	if (!r.config)
		return 1;
	limits_raise(r.config);
	if (bind_all(&r))
		return EXIT_CONFIG_REFUSED;
	inherited_close(r.inherited); /* what is listened on, the ingress has by descriptors of its own */
	if (account_become(&t->reactor, SIGKILL, getppid(), err, sizeof err)) {
		log_error(NULL, "event=reactor-account reason=%s", log_qz(err));
		return 1;
	}
	config_load_secrets(r.config, NULL);
	return run(&r);
}
