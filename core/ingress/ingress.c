/* The ingress as a whole: sockets, accepting, deadlines, reload and drain. What a session says is in session.c and policy.c; how messages are
 * committed, in admit.c; what follows, in admitted.c. */
#include "certificates.h"
#include "ingress_internal.h"
#include "notice.h"

#include "base/clock.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { REFUSAL_LINES_A_SECOND = 20 };
enum { COUNTS_GRACE_S = 3, COUNTS_STEP_US = 20 * 1000 }; /* of a stop */
enum { SWEEP_SEEN = 4000, SWEEP_ENDED = 50, SWEEP_LOOKS = 200 }; /* in one turn of the loop */

const char *const refusal_names[REFUSED_N] = { "relay", "database", "memory", "disk", "headers", "loop", "content",
	"connections", "address", "row", "drain", "early-talk", "proxy", "auth", "sender", "from", "form", "cap", "wish", "before-accept",
	"recipient", "lookup", "harvest", "rate", "dnsbl", "greylist", "queue", "spf", "dkim", "dmarc", "arc", "author-unknown" };

const char *const deadline_names[DEADLINE_N] = { "command", "message", "session", "tls", "proxy", "answer" };

/* --- beginning and end --- */

struct ingress *ingress_new(const struct config *c, const struct ingress_supply *supply, struct config_faults *faults)
{
	size_t before = config_faults_n(faults, false);
	struct ingress *in = calloc(1, sizeof *in);
	const struct ingress_supply direct = ingress_supply_direct(NULL);
	const char *section;
	if (!in || !(in->tickets = net_tickets_new()) || !(in->vet = vet_counts_new())) {
		config_fault_add(faults, "", 0, false, "out of memory");
		net_tickets_unref(in ? in->tickets : NULL);
		free(in);
		return NULL;
	}
	in->resume_tail = &in->resume_head;
	in->signin_fd = -1;
	in->config = c;
	clients_init(&in->clients);
	clients_init(&in->networks);
	in->networks.by_network = true;
	if (shared_settings_read(&in->set, c, faults) == 0 && !(in->limits = limits_new(in->set.abuse.remembered)))
		config_fault_add(faults, "", 0, false, "out of memory");
	for (size_t i = 0; (section = config_section(c, i)); i++) {
		if (!ingress_is_listener(section))
			continue;
		struct terms *t = terms_new(c, section, supply ? supply : &direct, in->tickets, NULL, faults);
		if (t)
			listening_open(in, c, section, t, supply ? supply : &direct, faults);
		terms_unref(t);
	}
	if (config_faults_n(faults, false) > before) {
		ingress_free(in);
		return NULL;
	}
	return in;
}

void ingress_check(const struct config *c, struct config_faults *faults)
{
	const struct ingress_supply direct = ingress_supply_direct(NULL);
	const char *section;
	for (size_t i = 0; (section = config_section(c, i)); i++)
		if (ingress_is_listener(section))
			terms_unref(terms_new(c, section, &direct, NULL, NULL, faults));
}

void ingress_free(struct ingress *in)
{
	if (!in)
		return;
	in->draining = false; /* nobody is to be told any more */
	for (struct session *s = in->sessions, *next; s; s = next) {
		next = s->next;
		s->awaiting = false;
		session_free(s);
	}
	before_free(in->before);
	proxied_free_all(in);
	auth_free(in->auth);
	if (in->signin_fd >= 0)
		close(in->signin_fd);
	admit_free(in->admit);
	notice_free_all(in);
	caps_free(in->caps);
	tally_free(in->tally);
	failures_free(in->failures);
	listening_free_all(in);
	net_tickets_unref(in->tickets);
	struct event *ev[6] = { in->tick, in->sweep, in->resume, in->wake, in->drain_end, in->drain_turn };
	for (unsigned i = 0; i < 6; i++)
		if (ev[i])
			event_free(ev[i]);
	clients_done(&in->clients);
	clients_done(&in->networks);
	limits_free(in->limits);
	recipients_free(in->recipients);
	greylist_free(in->greylist);
	shared_settings_done(&in->set);
	vet_counts_free(in->vet);
	free(in);
}

/* --- refusals --- */

void ingress_refused(struct ingress *in, const struct session *s, enum refusal why, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	in->rejected[why]++;
	int64_t second = clock_mono_us() / US_PER_S;
	if (second != in->refusal_second) {
		if (in->refusals_unlogged)
			log_info(NULL, "event=refusals-not-logged n=%llu", (unsigned long long)in->refusals_unlogged);
		in->refusal_second = second;
		in->refusal_lines = 0;
		in->refusals_unlogged = 0;
	}
	if (in->refusal_lines >= REFUSAL_LINES_A_SECOND) {
		in->refusals_unlogged++;
		return;
	}
	in->refusal_lines++;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	log_info(s ? &s->log : NULL, "event=refused reason=%s helo=%s %s", refusal_names[why],
	    s ? log_q(buf_str(&s->helo)) : "\"\"", text);
}

/* --- turns of the loop --- */

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct ingress *in = arg;
	/* those there are now: whoever asks again while they run waits for the next turn */
	struct session *last = NULL;
	(void)fd;
	(void)what;
	for (struct session *s = in->resume_head; s; s = s->resume_next)
		last = s;
	while (in->resume_head) {
		struct session *s = in->resume_head;
		bool end = s == last;
		in->resume_head = s->resume_next;
		if (!in->resume_head)
			in->resume_tail = &in->resume_head;
		s->queued = false;
		session_pump(s);
		if (end)
			break;
	}
	if (in->resume_head)
		event_active(in->resume, EV_TIMEOUT, 0);
}

void ingress_resume_later(struct ingress *in, struct session *s)
{
	if (s->queued)
		return;
	s->queued = true;
	s->resume_next = NULL;
	*in->resume_tail = s;
	in->resume_tail = &s->resume_next;
	event_active(in->resume, EV_TIMEOUT, 0);
}

/* Fetches what a trickling client has sent, if it is time. False: that was the end of the session. */
static bool look_at(struct ingress *in, struct session *s, bool now, unsigned *ret_looks)
{
	in->trickling_seen++;
	in->looked_at = s;
	*ret_looks += net_conn_look(s->conn, now);
	bool there = in->looked_at == s;
	in->looked_at = NULL;
	return there;
}

static bool is_late(const struct session *s, int64_t now_us, bool *ret_command)
{
	const struct terms *t = s->terms;
	*ret_command = now_us > s->deadline_us;
	return *ret_command || (t->session_us && now_us - s->started_us > t->session_us && !s->has_spool);
}

static void sweep_one(struct ingress *in, struct session *s, int64_t now_us, unsigned *ret_ended, unsigned *ret_looks)
{
	bool late;
	if (s->conn && net_conn_trickles(s->conn) && !look_at(in, s, is_late(s, now_us, &late), ret_looks))
		return;
	if (s->has_spool && !s->awaiting)
		smtp_server_trim(s->engine); /* once a second; a message that flows does not notice */
	if (!s->conn || !is_late(s, now_us, &late))
		return;
	enum deadline which = s->awaiting ? DEADLINE_ANSWER : !late ? DEADLINE_SESSION : s->has_spool ? DEADLINE_MESSAGE :
	    net_conn_securing(s->conn) ? DEADLINE_TLS : DEADLINE_COMMAND;
	in->timeouts++;
	in->deadlines[which]++;
	++*ret_ended;
	log_info(&s->log, "event=timeout deadline=%s state=%s session_s=%lld", deadline_names[which], smtp_server_state_name(s->engine),
	    (long long)((now_us - s->started_us) / US_PER_S));
	if (s->awaiting)
		session_drop(s); /* the outcome is unknown: no answer at all, never a wrong one */
	else
		session_shutdown(s, "4.4.2", late ? "Timeout" : "Session has lasted too long");
}

/* From in->sweep_at on; session_free() moves it on when it goes away. */
static void sweep_on(struct ingress *in, int64_t now_us)
{
	struct timeval soon = { 0, 1000 };
	unsigned ended = 0, looks = 0;
	for (unsigned seen = 0; in->sweep_at; seen++) {
		if (seen == SWEEP_SEEN || ended == SWEEP_ENDED || looks == SWEEP_LOOKS) {
			/* thousands that came together go together: others get their turn in between */
			if (!in->sweep || evtimer_add(in->sweep, &soon))
				in->sweep_at = NULL; /* the next tick begins anew */
			return;
		}
		struct session *s = in->sweep_at;
		in->sweep_at = s->next;
		sweep_one(in, s, now_us, &ended, &looks);
	}
	in->trickling = in->trickling_seen;
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	sweep_on(arg, clock_mono_us());
}

/* From in->drain_at on; session_free() moves it on when it goes away. Those that are not idle now end themselves when they are. */
static void drain_on(struct ingress *in)
{
	struct timeval soon = { 0, 1000 };
	unsigned ended = 0;
	for (unsigned seen = 0; in->drain_at; seen++) {
		if ((seen == SWEEP_SEEN || ended == SWEEP_ENDED) && evtimer_add(in->drain_turn, &soon) == 0)
			return; /* messages under way get their turn in between */
		struct session *s = in->drain_at;
		in->drain_at = s->next;
		if (!s->conn || s->awaiting || s->has_spool || !smtp_server_idle(s->engine))
			continue;
		ended++;
		session_shutdown(s, "4.3.2", "Service is stopping");
	}
}

static void on_drain_turn(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	drain_on(arg);
}

void ingress_sweep(struct ingress *in, int64_t now_us)
{
	if (in->sweep_at && in->sweep && evtimer_pending(in->sweep, NULL))
		return; /* the one before is not through yet */
	in->sweep_at = in->sessions;
	in->trickling_seen = 0;
	sweep_on(in, now_us);
}

static void look_at_disk(struct ingress *in)
{
	struct statvfs st;
	bool low = in->set.min_free && statvfs(in->house.dir, &st) == 0 &&
	    (uint64_t)st.f_bavail * st.f_frsize < in->set.min_free;
	if (low != in->disk_low)
		log_warn(NULL,
		    low ? "event=disk-low folder=%s mail=refused" : "event=disk-ok folder=%s mail=accepted",
		    log_qz(in->house.dir));
	in->disk_low = low;
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct ingress *in = arg;
	(void)fd;
	(void)what;
	look_at_disk(in);
	int64_t now = clock_mono_us();
	ingress_sweep(in, now);
	auth_sweep(in->auth, now);
	proxied_sweep(in, now);
	recipients_tick(in->recipients, now);
	greylist_tick(in->greylist, now);
	backend_count_queue(in, now);
	certificates_watch(in, now);
	caps_write(in->caps, false);
	tally_flush(in->tally, now, false);
	if (in->failures)
		failures_flush(in->failures, now, false);
}

void ingress_dns(struct ingress *in, struct net_dns *dns)
{
	in->dns = dns;
}

void ingress_workers_changed(struct ingress *in, const struct config *c)
{
	if (in->before)
		before_configure(in->before, c);
}

void ingress_recipients_changed(struct ingress *in)
{
	if (in->recipients)
		recipients_changed(in->recipients);
}

void ingress_lookups(struct ingress *in, struct store_conn *c)
{
	in->lookups = c;
}

bool ingress_queue_full(const struct ingress *in)
{
	uint64_t max = in->set.abuse.queue_max;
	return max && in->queue_rows >= 0 && (uint64_t)in->queue_rows + (in->accepted - in->queue_accepted) >= max;
}

void ingress_database(struct ingress *in, bool up)
{
	if (!in->started || in->database_up == up)
		return;
	in->database_up = up;
	admit_database(in->admit, up);
	if (up)
		caps_database(in->caps);
	recipients_changed(in->recipients); /* what was notified meanwhile was missed */
}

/* --- start, reload, drain --- */

static void use_settings(struct ingress *in)
{
	in->house.dir = in->set.spool_dir;
	in->house.threshold = in->set.spool_threshold;
	in->house.max = in->set.message_memory;
	if (in->admit)
		admit_limits(in->admit, in->set.batch_rows, in->set.batch_octets);
	if (in->auth)
		auth_settings(in->auth, &in->set.auth);
	limits_remember(in->limits, in->set.abuse.remembered);
	greylist_terms(in->greylist, &in->set.abuse.greylist);
	tally_configure(in->tally, &in->set.tally);
	if (in->failures)
		failures_configure(in->failures, &in->set.failures);
	/* now, as the account that will write into it */
	if ((mkdir(in->house.dir, 0700) && errno != EEXIST) || access(in->house.dir, W_OK | X_OK))
		log_error(NULL,
		    "event=spool-folder-unusable folder=%s error=%s effect=\"messages above SPOOL_THRESHOLD "
		    "get 452\"",
		    log_qz(in->house.dir), log_qz(strerror(errno)));
}

int ingress_start_with(struct ingress *in, struct event_base *base, const struct admission_backend *be,
    const struct ingress_sink *sink)
{
	struct timeval second = { 1, 0 };
	in->base = base;
	in->sink = *sink;
	in->admit = admit_new(base, be, sink, ingress_admitted, in);
	in->auth = auth_new(in, &in->set.auth);
	in->caps = caps_new(in, in->set.counted);
	const struct recipient_backend rb = backend_recipients(in);
	const struct greylist_backend gb = backend_greylist(in);
	const struct tally_backend tb = backend_tally(in);
	const struct failures_backend fb = backend_failures(in);
	char life[64];
	snprintf(life, sizeof life, "%lld.%ld", (long long)clock_wall_us(), (long)getpid());
	in->tally = tally_new(&tb, life);
	strcat(life, "f");
	in->failures = failures_new(&fb, life);
	in->recipients = recipients_new(base, &rb);
	in->greylist = greylist_new(base, &gb);
	if (in->auth)
		auth_peer(in->auth, in->signin_fd);
	in->signin_fd = -1;
	in->tick = event_new(base, -1, EV_PERSIST, on_tick, in);
	in->sweep = evtimer_new(base, on_sweep, in);
	in->drain_turn = evtimer_new(base, on_drain_turn, in);
	in->resume = event_new(base, -1, 0, on_resume, in);
	in->wake = evtimer_new(base, ingress_on_wake, in);
	in->before = before_new(in, &in->spawner);
	if (in->before)
		before_configure(in->before, in->config);
	if (!in->recipients || !in->greylist || !in->admit || !in->auth || !in->caps || !in->before || !in->tick || !in->sweep || !in->drain_turn || !in->resume || !in->wake ||
	    event_add(in->tick, &second))
		return -1;
	/* now, as the account that will read the files again */
	if (recipients_configure(in->recipients, in->config, &in->set.abuse.recipients, NULL))
		return -1;
	in->config = NULL;
	use_settings(in);
	look_at_disk(in);
	for (struct listening *l = in->listening; l; l = l->next)
		if (listening_start(l))
			return -1;
	in->started = true;
	certificates_watch(in, clock_mono_us());
	return 0;
}

void ingress_spawner(struct ingress *in, const struct ingress_spawner *sp)
{
	in->spawner = *sp;
}

bool ingress_worker_started(struct ingress *in, uint32_t token, pid_t pid, int fd)
{
	return token & INGRESS_TOKEN && in->before && before_worker_started(in->before, token, pid, fd);
}

bool ingress_worker_failed(struct ingress *in, uint32_t token)
{
	return token & INGRESS_TOKEN && in->before && before_worker_failed(in->before, token);
}

bool ingress_worker_exited(struct ingress *in, pid_t pid, int status)
{
	return in->before && before_worker_exited(in->before, pid, status);
}

void ingress_signin(struct ingress *in, int fd)
{
	if (in->auth) {
		auth_peer(in->auth, fd);
		return;
	}
	if (in->signin_fd >= 0)
		close(in->signin_fd);
	in->signin_fd = fd;
}

void ingress_reload(struct ingress *in, const struct config *c, const struct ingress_supply *supply, struct config_faults *faults)
{
	const struct ingress_supply direct = ingress_supply_direct(NULL);
	struct shared_settings set = { 0 };
	const char *section;
	if (shared_settings_read(&set, c, faults) == 0) {
		shared_settings_done(&in->set);
		in->set = set;
		if (in->started) {
			use_settings(in);
			recipients_configure(in->recipients, c, &in->set.abuse.recipients, faults);
		}
	}
	if (in->draining)
		return; /* its listeners are closed already */
	if (in->before)
		before_configure(in->before, c);
	listening_mark(in);
	for (size_t i = 0; (section = config_section(c, i)); i++) {
		if (!ingress_is_listener(section))
			continue;
		struct terms *t =
		    terms_new(c, section, supply ? supply : &direct, in->tickets, listening_terms(in, section), faults);
		if (t)
			listening_open(in, c, section, t, supply ? supply : &direct, faults);
		else
			listening_keep(in, section); /* the fault says why; the old terms go on */
		terms_unref(t);
	}
	listening_sweep(in);
	in->certificates_us = 0;
	certificates_watch(in, clock_mono_us());
}

/* The last counts for DMARC reports, what the last sessions brought among them: they are worth a moment's wait. */
static bool counts_are_stored(struct ingress *in)
{
	const struct timeval soon = { 0, COUNTS_STEP_US };
	int64_t now = clock_mono_us();
	if (!in->counts_until_us)
		in->counts_until_us = now + COUNTS_GRACE_S * US_PER_S;
	bool more = in->tally && tally_drain(in->tally, now);
	more |= in->failures && failures_drain(in->failures, now);
	return !more || now >= in->counts_until_us || evtimer_add(in->drain_end, &soon);
}

static void on_drain_end(evutil_socket_t fd, short what, void *arg)
{
	struct ingress *in = arg;
	(void)fd;
	(void)what;
	if (!in->draining || !in->drained || !counts_are_stored(in))
		return;
	void (*done)(void *) = in->drained;
	in->drained = NULL;
	if (in->n_sessions)
		log_warn(NULL, "event=drain-grace-over sessions=%u", in->n_sessions);
	done(in->drained_arg);
}

void ingress_session_gone(struct ingress *in)
{
	if (in->draining && !in->n_sessions && in->drain_end)
		event_active(in->drain_end, EV_TIMEOUT, 0);
}

void ingress_drain(struct ingress *in, unsigned grace_s, void (*done)(void *arg), void *arg)
{
	struct timeval grace = { grace_s, 0 };
	if (in->draining)
		return;
	in->draining = true;
	if (in->caps)
		caps_write(in->caps, true);
	in->drained = done;
	in->drained_arg = arg;
	for (struct listening *l = in->listening; l; l = l->next)
		listening_close(l);
	proxied_free_all(in);
	in->drain_end = in->base ? evtimer_new(in->base, on_drain_end, in) : NULL;
	if (!in->base) { /* never started: nobody to wait for */
		in->drained = NULL;
		done(arg);
		return;
	}
	if (!in->drain_end || evtimer_add(in->drain_end, &grace)) {
		log_error(NULL, "event=drain-failed error=\"out of memory\" effect=\"no grace\"");
		in->drained = NULL;
		done(arg);
		return;
	}
	in->drain_at = in->sessions;
	drain_on(in);
	ingress_session_gone(in);
}
