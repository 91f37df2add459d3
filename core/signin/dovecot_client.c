/* The connection to Dovecot's auth service: handshake, requests, answers, trying again. The lines themselves are dovecot.c's. */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "proto/sasl/base64.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { OUT_MAX = 4 << 20, RETRY_MIN_MS = 200, RETRY_MAX_MS = 10000, HANDSHAKE_MS = 10000 };

struct dovecot {
	struct signin *s;
	struct sockaddr_un sun;
	int fd;
	struct event *ev_read, *ev_write, *timer;
	struct buf in, out;
	bool up, said;             /* handshake done; the failure was logged */
	bool version_ok;
	char mechs[DOVECOT_MECHS_MAX][DOVECOT_MECH_MAX], coming[DOVECOT_MECHS_MAX][DOVECOT_MECH_MAX];
	size_t n_mechs, n_coming;
	struct map asked;          /* exchanges by request */
	uint32_t next_id;
	unsigned wait_ms;
};

static void plan(struct dovecot *d, unsigned ms)
{
	struct timeval tv = { ms / 1000, (suseconds_t)(ms % 1000) * 1000 };
	event_add(d->timer, &tv);
}

static void drop(struct dovecot *d, const char *why)
{
	struct exchange *x;
	size_t pos = 0;
	uint64_t id;
	if (!d->said || d->up)
		log_warn(NULL, "event=dovecot-away socket=%s reason=%s", log_qz(d->sun.sun_path), log_qz(why));
	d->said = true;
	d->up = false;
	d->n_mechs = d->n_coming = 0;
	d->version_ok = false;
	if (d->ev_read)
		event_free(d->ev_read);
	if (d->ev_write)
		event_free(d->ev_write);
	d->ev_read = d->ev_write = NULL;
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
	buf_free_secret(&d->in);
	buf_free_secret(&d->out);
	d->wait_ms = d->wait_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : d->wait_ms * 2;
	plan(d, d->wait_ms);
	while ((x = map_next(&d->asked, &pos, &id))) {
		map_del(&d->asked, id);
		x->dovecot_id = 0;
		exchange_verdict(x, VERDICT_AWAY, true, STR_NULL, "Dovecot's auth service went away");
		pos = 0;
	}
	signin_offer(d->s);
}

/* ---- out */

static void flush(struct dovecot *d)
{
	while (d->out.n) {
		ssize_t n = send(d->fd, d->out.p, d->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			event_add(d->ev_write, NULL);
			return;
		}
		if (n <= 0)
			return; /* the end is told by reading */
		buf_consume(&d->out, (size_t)n);
	}
	if (d->out.p)
		explicit_bzero(d->out.p, d->out.cap);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	flush(arg);
}

/* One request into the buffer and off. */
static int say(struct dovecot *d, struct buf *line)
{
	int bad = !d->up || line->failed || buf_adds(&d->out, buf_str(line));
	buf_free_secret(line);
	if (bad) {
		d->out.failed = false;
		return -1;
	}
	flush(d);
	return 0;
}

/* ---- in */

static bool known(char names[][DOVECOT_MECH_MAX], size_t n, struct str name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(str_from(names[i]), name))
			return true;
	return false;
}

static void handshake_done(struct dovecot *d)
{
	memcpy(d->mechs, d->coming, sizeof d->mechs);
	d->n_mechs = d->n_coming;
	d->up = true;
	d->said = false;
	d->wait_ms = RETRY_MIN_MS;
	event_del(d->timer);
	log_info(NULL, "event=dovecot-up socket=%s mechanisms=%zu", log_qz(d->sun.sun_path), d->n_mechs);
	signin_offer(d->s);
}

static void answered(struct dovecot *d, const struct dovecot_line *l)
{
	struct exchange *x = map_get(&d->asked, l->id);
	struct buf text = BUF_INIT(WIRE_SIGNIN_BLOB_MAX), reason = BUF_INIT(512);
	char why[200];
	if (!x)
		return; /* given up meanwhile */
	if (l->kind == DOVECOT_CONT) {
		if (sasl_base64_decode(l->blob, &text) || x->sasl) { /* PLAIN has nothing more to say */
			exchange_verdict(x, VERDICT_AWAY, true, STR_NULL, "Dovecot's challenge cannot be read");
		} else {
			exchange_relay_challenge(x, buf_str(&text));
		}
		buf_free_secret(&text);
		return;
	}
	map_del(&d->asked, l->id);
	x->dovecot_id = 0;
	if (l->kind == DOVECOT_OK && l->nologin) {
		exchange_verdict(x, VERDICT_DISABLED, true, STR_NULL, "Dovecot: nologin");
	} else if (l->kind == DOVECOT_OK) {
		if (dovecot_unescape(l->user, &text) || (!x->sasl && l->blob.n && sasl_base64_decode(l->blob, &x->last)))
			exchange_verdict(x, VERDICT_AWAY, true, STR_NULL, "Dovecot's answer cannot be read");
		else
			exchange_verdict(x, VERDICT_YES, true, buf_str(&text), "");
	} else {
		/* a relayed name is known only from here */
		if (!x->sasl && l->user.n && (dovecot_unescape(l->user, &text) || wire_signin_name(buf_str(&text), x->account) < 0))
			x->account[0] = 0;
		dovecot_unescape(l->reason, &reason);
		snprintf(why, sizeof why, "Dovecot: %s", reason.n ? buf_z(&reason) : l->temp ? "temporary failure" : "refused");
		exchange_verdict(x, l->temp ? VERDICT_AWAY : l->disabled || l->expired ? VERDICT_DISABLED : VERDICT_NO, false, STR_NULL, why);
	}
	buf_free_secret(&text);
	buf_free(&reason);
}

/* 0, or -1: what came is no such protocol. */
static int take_line(struct dovecot *d, struct str line)
{
	struct dovecot_line l;
	if (dovecot_parse(line, &l))
		return -1;
	switch (l.kind) {
	case DOVECOT_VERSION:
		d->version_ok = l.major == 1;
		return d->version_ok ? 0 : -1;
	case DOVECOT_MECH:
		if (!l.anonymous && !str_eq(l.mech, STR("ANONYMOUS")) && d->n_coming < DOVECOT_MECHS_MAX &&
		    !known(d->coming, d->n_coming, l.mech)) {
			memcpy(d->coming[d->n_coming], l.mech.p, l.mech.n);
			d->coming[d->n_coming++][l.mech.n] = 0;
		}
		return 0;
	case DOVECOT_DONE:
		if (!d->version_ok)
			return -1;
		handshake_done(d);
		return 0;
	case DOVECOT_CONT:
	case DOVECOT_OK:
	case DOVECOT_FAIL:
		if (!d->up)
			return -1;
		answered(d, &l);
		return 0;
	default:
		return 0;
	}
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct dovecot *d = arg;
	ptrdiff_t nl;
	(void)what;
	char *at = buf_room(&d->in, 4096);
	if (!at) {
		drop(d, "a line without end");
		return;
	}
	ssize_t n = recv(fd, at, 4096, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		drop(d, n ? strerror(errno) : "it closed the connection");
		return;
	}
	d->in.n += (size_t)n;
	while (d->fd == fd && (nl = d->in.n ? str_chr(buf_str(&d->in), '\n') : -1) >= 0) {
		int bad = take_line(d, str_n(d->in.p, (size_t)nl));
		if (bad) {
			drop(d, d->version_ok ? "it said something that is no such protocol" : "it does not speak version 1 of the auth protocol");
			return;
		}
		if (d->fd == fd)
			buf_consume(&d->in, (size_t)nl + 1);
	}
}

static void connect_now(struct dovecot *d)
{
	struct buf hello = BUF_INIT(128);
	d->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	d->in = BUF_INIT(DOVECOT_LINE_MAX);
	d->out = BUF_INIT(OUT_MAX);
	if (d->fd < 0 || connect(d->fd, (const struct sockaddr *)&d->sun, sizeof d->sun)) {
		drop(d, strerror(errno)); /* EAGAIN: its backlog is full */
		return;
	}
	d->ev_read = event_new(d->s->base, d->fd, EV_READ | EV_PERSIST, on_readable, d);
	d->ev_write = event_new(d->s->base, d->fd, EV_WRITE, on_writable, d);
	buf_addf(&hello, "VERSION\t1\t2\nCPID\t%u\n", (unsigned)getpid());
	if (!d->ev_read || !d->ev_write || event_add(d->ev_read, NULL) || buf_adds(&d->out, buf_str(&hello))) {
		buf_free(&hello);
		drop(d, "out of memory");
		return;
	}
	buf_free(&hello);
	plan(d, HANDSHAKE_MS);
	flush(d);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct dovecot *d = arg;
	(void)fd;
	(void)what;
	if (d->fd < 0)
		connect_now(d);
	else if (!d->up)
		drop(d, "no handshake within ten seconds");
}

/* ---- for the others */

struct dovecot *dovecot_new(struct signin *s, const char *path)
{
	struct dovecot *d = calloc(1, sizeof *d);
	if (!d)
		return NULL;
	d->s = s;
	d->fd = -1;
	d->sun.sun_family = AF_UNIX;
	d->wait_ms = RETRY_MIN_MS;
	snprintf(d->sun.sun_path, sizeof d->sun.sun_path, "%s", path);
	d->timer = evtimer_new(s->base, on_timer, d);
	if (!d->timer) {
		free(d);
		return NULL;
	}
	plan(d, 0);
	return d;
}

void dovecot_free(struct dovecot *d)
{
	if (!d)
		return;
	if (d->ev_read)
		event_free(d->ev_read);
	if (d->ev_write)
		event_free(d->ev_write);
	event_free(d->timer);
	if (d->fd >= 0)
		close(d->fd);
	buf_free_secret(&d->in);
	buf_free_secret(&d->out);
	map_done(&d->asked);
	free(d);
}

bool dovecot_up(const struct dovecot *d)
{
	return d && d->up;
}

const char *dovecot_mech(const struct dovecot *d, size_t i)
{
	return d && d->up && i < d->n_mechs ? d->mechs[i] : NULL;
}

int dovecot_begin(struct dovecot *d, struct exchange *x, struct str mechanism, bool has_initial, struct str initial)
{
	struct buf line = BUF_INIT(64 * 1024);
	struct dovecot_request r = { .mechanism = mechanism, .service = x->start.service, .client = x->start.client, .local = x->start.local,
		.tls_version = x->start.tls_version, .tls_cipher = x->start.tls_cipher, .tls = x->start.tls_version.n > 0,
		.cert_verified = x->start.cert_verified, .has_initial = has_initial, .initial = initial };
	if (!d || !d->up)
		return -1;
	do
		r.id = ++d->next_id;
	while (!r.id || map_get(&d->asked, r.id));
	if (map_put(&d->asked, r.id, x))
		return -1;
	dovecot_request_put(&line, &r);
	if (say(d, &line)) {
		map_del(&d->asked, r.id);
		return -1;
	}
	x->dovecot_id = r.id;
	return 0;
}

int dovecot_continue(struct dovecot *d, struct exchange *x, struct str blob)
{
	struct buf line = BUF_INIT(64 * 1024);
	dovecot_cont_put(&line, x->dovecot_id, blob);
	return say(d, &line);
}

void dovecot_forget(struct dovecot *d, struct exchange *x)
{
	struct buf line = BUF_INIT(128);
	if (!d || !x->dovecot_id || map_get(&d->asked, x->dovecot_id) != x)
		return;
	map_del(&d->asked, x->dovecot_id);
	dovecot_cancel_put(&line, x->dovecot_id);
	say(d, &line);
	x->dovecot_id = 0;
}
