/* The reactor: one event loop that owns ingress, dispatcher, control socket and HTTP. This file wires them to each
 * other, to the database connections and to the spawner; it decides nothing about mail. It never loads a module and
 * never blocks. */
#include "reactor_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "net/loop.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	DRAIN_GRACE_S = 10,    /* sessions in the middle of a message */
	WORKERS_GRACE_S = 20,  /* workers in the middle of a delivery */
	BODY_GC_S = 600,
	/* The tables of large bodies are turned once this much was accepted: looked at often only while mail comes in. */
	ROTATE_OCTETS = 16 << 20,
	ROTATE_S = 60,
	ROTATE_BUSY_MS = 100,
	ROTATE_IDLE_MS = 2000,
};

const char *const reactor_db_name[DB_COUNT] = { "admission", "admission_large_1", "admission_large_2", "dispatch", "listen", "views", "lookups" };
static const char *const db_role[DB_COUNT] = { "pepsi-ingress", "pepsi-ingress", "pepsi-ingress", "pepsi", "pepsi", "pepsi", "pepsi-ingress" };

void reactor_tell_spawner(struct reactor *r, const struct channel_msg *m)
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

void reactor_tell_retries(struct reactor *r)
{
	uint64_t n = 0;
	for (int i = 0; i < DB_COUNT; i++)
		n += store_conn_retries(r->db[i]);
	dispatch_retries(r->dispatch, n);
}

static void sessions_gone(void *arg)
{
	struct reactor *r = arg;
	reactor_tell_retries(r); /* the statistics of the stop have them */
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
	reactor_tell_spawner(arg, &m);
	stop(arg);
}

/* ---- database connections */

static void say_ready(struct reactor *r)
{
	struct channel_msg m = { .op = CH_READY };
	if (r->ready_said || !r->db_up[DB_ADMISSION] || !r->db_up[DB_DISPATCH])
		return;
	r->ready_said = true;
	reactor_tell_spawner(r, &m);
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
			log_info(NULL, "event=database-up connection=%s", reactor_db_name[i]);
		else
			log_warn(NULL, "event=database-away connection=%s reason=%s", reactor_db_name[i], log_qz(err));
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
	reactor_tell_spawner(arg, &m);
}

/* For stages before acceptance. */
static void ask_start_before(void *arg, uint32_t token, const char *stage)
{
	struct channel_msg m = { .op = CH_START, .token = token, .status = CH_START_BEFORE };
	snprintf(m.stage, sizeof m.stage, "%s", stage);
	reactor_tell_spawner(arg, &m);
}

static void ask_kill(void *arg, pid_t pid, int sig)
{
	struct channel_msg m = { .op = CH_KILL, .pid = pid, .status = sig };
	reactor_tell_spawner(arg, &m);
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
				reactor_new_config(r, fd);
			break;
		case CH_GRANT:
			reactor_new_grants(r, fd);
			fd = -1;
			break;
		case CH_FAULTS: {
			struct buf text = BUF_INIT(CONFIG_FAULTS_MAX);
			if (fd >= 0)
				channel_slurp(fd, &text);
			reactor_reload_done(r, text.n ? buf_z(&text) : "the configuration was refused\n", false);
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
	reactor_tell_retries(r);
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
	struct admin_source source = reactor_source(r);
	struct ingress_spawner before = { r, ask_start_before, ask_kill };
	struct ingress_sink sink;

	r->base = net_loop_new();
	if (!r->base)
		return 1;
	r->dispatch = dispatch_new(r->base, r->config, &sp);
	if (!r->dispatch || reactor_dns_new(r) || open_databases(r))
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
