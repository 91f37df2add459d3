/* The admin child's life: privileged beginnings, loop, channel to the reactor, counts. See signin.h. */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "net/loop.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

struct out {
	struct out *next;
	struct buf datagram;
};

/* ---- to the reactor */

void signin_stop(struct signin *s, int status)
{
	s->status = status;
	event_base_loopbreak(s->base);
}

static bool try_send(struct signin *s, const struct buf *b)
{
	ssize_t n = send(s->channel, b->p, b->n, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
		signin_stop(s, 0);
	return n >= 0;
}

void signin_send(struct signin *s, const struct wire_signin *m)
{
	struct out *o = calloc(1, sizeof *o);
	if (o)
		o->datagram = BUF_INIT(WIRE_SIGNIN_DATAGRAM_MAX);
	if (!o || wire_signin_put(&o->datagram, m)) {
		/* without its answer the reactor would wait for ever: a new child clears that up */
		log_error(NULL, "event=signin-unsaid op=%d reason=\"out of memory, or a limit of the channel\"", (int)m->op);
		free(o);
		signin_stop(s, 1);
		return;
	}
	if (!s->out.head && try_send(s, &o->datagram)) {
		buf_free_secret(&o->datagram);
		free(o);
		return;
	}
	if ((s->out.octets += o->datagram.n) > SEND_QUEUE_MAX) {
		log_error(NULL, "event=signin-stuck reason=\"the reactor does not take answers\"");
		signin_stop(s, 1);
	}
	*s->out.tail = o;
	s->out.tail = &o->next;
	event_add(s->ev_write, NULL);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct signin *s = arg;
	struct out *o;
	(void)fd;
	(void)what;
	while ((o = s->out.head)) {
		if (!try_send(s, &o->datagram)) {
			event_add(s->ev_write, NULL);
			return;
		}
		s->out.octets -= o->datagram.n;
		if (!(s->out.head = o->next))
			s->out.tail = &s->out.head;
		buf_free_secret(&o->datagram);
		free(o);
	}
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	static char datagram[WIRE_SIGNIN_DATAGRAM_MAX];
	struct signin *s = arg;
	(void)what;
	for (int i = 0; i < 64; i++) { /* then others have their turn */
		struct wire_signin m;
		ssize_t n = recv(fd, datagram, sizeof datagram, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			signin_stop(s, 0); /* the reactor is gone, or has got another child */
			return;
		}
		if (wire_signin_get(str_n(datagram, (size_t)n), &m)) {
			log_error(NULL, "event=signin-garbage hint=\"the reactor speaks another language\"");
			signin_stop(s, 1);
		} else {
			exchange_message(s, &m);
		}
		explicit_bzero(datagram, (size_t)n);
	}
}

void signin_offer(struct signin *s)
{
	char now[BACKEND_KINDS + 1][WIRE_SIGNIN_TEXT_MAX] = { "" };
	struct wire_signin m = { .op = WIRE_SIGNIN_OFFER, .offer = { .n_backends = s->n_backends } };
	for (size_t i = 0; i < s->n_backends; i++)
		backend_offer(s, 1u << i, now[i], sizeof now[i]);
	backend_offer(s, ~0u, now[BACKEND_KINDS], sizeof now[0]);
	if (s->offer_told && memcmp(now, s->offered, sizeof now) == 0)
		return;
	s->offer_told = true;
	memcpy(s->offered, now, sizeof now);
	m.offer.mechanisms = str_from(now[BACKEND_KINDS]);
	for (size_t i = 0; i < s->n_backends; i++) {
		m.offer.backends[i].name = str_from(backend_name(s->backends[i].kind));
		m.offer.backends[i].mechanisms = str_from(now[i]);
	}
	signin_send(s, &m);
	log_info(NULL, "event=signin-offer mechanisms=%s", log_qz(now[BACKEND_KINDS]));
}

static void send_counts(struct signin *s)
{
	struct keeper_counts h = keeper_counts(s->hash), p = keeper_counts(s->pam);
	struct wire_signin m = { .op = WIRE_SIGNIN_COUNTS };
	m.counts = (struct wire_signin_counts){ .hashing = h.running + p.running, .hashing_max = h.max + p.max, .queued = h.queued + p.queued,
		.queue_max = h.queue_max + p.queue_max, .exchanges = (uint32_t)s->by_id.n, .hashed = h.done + p.done, .hash_us = h.us + p.us,
		.busy = h.refused + p.refused, .n_backends = s->n_backends };
	for (size_t i = 0; i < s->n_backends; i++) {
		const struct backend *b = &s->backends[i];
		m.counts.backends[i] = (struct wire_signin_backend_counts){ str_from(backend_name(b->kind)), backend_up(s, b), b->ok, b->refused,
			b->away };
	}
	signin_send(s, &m);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct signin *s = arg;
	(void)fd;
	(void)what;
	exchange_tick(s, clock_mono_us());
	if (s->oauth)
		oauth_tick(s->oauth, clock_mono_us());
	accounts_database(s->accounts, clock_mono_us());
	signin_offer(s);
	if (s->counts_changed || s->by_id.n) {
		s->counts_changed = s->by_id.n > 0; /* once more when all is quiet again */
		send_counts(s);
	}
}

/* ---- database */

static void db_state(void *arg, struct store_conn *c, bool up, const char *err)
{
	struct signin *s = arg;
	(void)c;
	if (s->db_up != up || !s->db_said) {
		if (up)
			log_info(NULL, "event=database-up connection=signin");
		else
			log_warn(NULL, "event=database-away connection=signin reason=%s", log_qz(err));
	}
	s->db_said = true;
	s->db_up = up;
	s->counts_changed = true;
	if (up)
		accounts_database(s->accounts, 0);
}

static void keeper_gone(void *arg)
{
	signin_stop(arg, 1);
}

static void on_term(evutil_socket_t sig, short what, void *arg)
{
	(void)sig;
	(void)what;
	signin_stop(arg, 0);
}

/* ---- beginning and end */

/* Memory holds digests, keys and passwords: none of it may land on a disk, nor be looked at by a debugger of the same account. */
static void keep_secret(void)
{
	struct rlimit none = { 0, 0 };
	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* Accounts of the machine looked up at once, and waiting for that. */
enum { NAMES_AT_ONCE = 4, NAMES_WAITING = 512 };

static const struct signin_params *params; /* for the keepers' first steps, in their own processes */

static int hash_begin(void *arg)
{
	if (params->become(arg))
		return -1;
	keep_secret();
	job_http_load(); /* whether that is needed is known later; where it fails, the jobs say so */
	return 0;
}

static int pam_begin(void *arg)
{
	const char *bad = job_pam_load();
	if (bad)
		log_error(NULL, "event=pam reason=%s", log_qz(bad));
	if (params->become_pam(arg))
		return -1;
	keep_secret();
	return 0;
}

static int start(struct signin *s)
{
	struct store_params db = { .conninfo = params->conninfo, .role = params->embedded ? "pepsi-config" : NULL,
		.set_role = params->embedded ? NULL : "pepsi-config", .name = "pepsi sign-in" };
	struct timeval second = { .tv_sec = 1 };
	struct event *term = evsignal_new(s->base, SIGTERM, on_term, s);
	if (password_dummy(s->dummy))
		return -1;
	s->ev_read = event_new(s->base, s->channel, EV_READ | EV_PERSIST, on_readable, s);
	s->ev_write = event_new(s->base, s->channel, EV_WRITE, on_writable, s);
	s->tick = event_new(s->base, -1, EV_PERSIST, on_tick, s);
	if (!term || event_add(term, NULL) || !s->ev_read || !s->ev_write || !s->tick || event_add(s->ev_read, NULL) ||
	    event_add(s->tick, &second) || keeper_attach(s->hash, s->base, keeper_gone, s) ||
	    (s->pam && keeper_attach(s->pam, s->base, keeper_gone, s)) ||
	    (s->names && keeper_attach(s->names, s->base, keeper_gone, s)) || !(s->db = store_conn_open(s->base, &db, db_state, s)) ||
	    accounts_start(s->accounts, s))
		return -1;
	if (backend_has(s, BACKEND_DOVECOT)) {
		char *path = config_path(s->config, "pepsi-signin", "DOVECOT_SOCKET");
		s->dovecot = path ? dovecot_new(s, path) : NULL;
		free(path);
		if (!s->dovecot)
			return -1;
	}
	if (backend_has(s, BACKEND_OAUTH)) {
		if (!(s->oauth = oauth_new(s)))
			return -1;
		oauth_start(s->oauth);
	}
	signin_offer(s);
	s->counts_changed = true;
	return 0;
}

static void end(struct signin *s)
{
	struct out *o;
	exchange_end_all(s);
	store_conn_close(s->db);
	accounts_free(s->accounts);
	dovecot_free(s->dovecot);
	oauth_free(s->oauth);
	keeper_free(s->hash);
	keeper_free(s->pam);
	keeper_free(s->names);
	while ((o = s->out.head)) {
		s->out.head = o->next;
		buf_free_secret(&o->datagram);
		free(o);
	}
	map_done(&s->by_id);
	map_done(&s->by_serial);
	config_free(s->config);
	explicit_bzero(s, sizeof *s);
}

int signin_main(const struct signin_params *p)
{
	static struct signin s;
	params = p;
	log_setup((enum log_level)p->log_level, "signin");
	signal(SIGPIPE, SIG_IGN);
	s.channel = p->channel;
	s.out.tail = &s.out.head;
	if (!(s.config = config_thaw(p->blob)))
		return 1;
	unsigned hashers = (unsigned)config_int(s.config, "pepsi-signin", "HASHERS"),
		 waiting = (unsigned)config_int(s.config, "pepsi-signin", "QUEUE_LIMIT");
	/* before root is given up, and before there is anything a keeper should not inherit */
	if (!(s.accounts = accounts_bind(p->state_dir)))
		return 1;
	s.hash = keeper_start("pepsi-hash", hashers, waiting, hash_begin, p->arg);
	if (p->pam)
		s.pam = keeper_start("pepsi-pam", hashers, waiting, pam_begin, p->arg);
	if (system_wanted(s.config))
		s.names = keeper_start("pepsi-names", NAMES_AT_ONCE, NAMES_WAITING, hash_begin, p->arg);
	/* while root can still read it, and with the keepers gone: they need no secret */
	if (lasting_key(p->state_dir, s.dummy_key, sizeof s.dummy_key))
		return 1;
	if (!s.hash || (p->pam && !s.pam) || (system_wanted(s.config) && !s.names) || p->become(p->arg))
		return 1;
	keep_secret();
	config_load_secrets(s.config, NULL);
	backend_settings(&s);
	if (!(s.base = net_loop_new()) || start(&s)) {
		log_error(NULL, "event=signin-start reason=\"out of memory, or out of descriptors\"");
		return 1;
	}
	event_base_dispatch(s.base);
	int status = s.status;
	end(&s);
	return status;
}
