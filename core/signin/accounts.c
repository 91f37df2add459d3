/* The socket of `pepsi account`: STATE/run/account.sock, for root and the account that runs all this (without root), so that passwords
 * go from the operator's terminal to the process that digests them and nowhere else. One request at a time per connection. */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "proto/smtp/address.h"
#include "config/overlay.h"
#include "store/overlay.h"
#include "store/recipient.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { PEERS_MAX = 32, BACKLOG = 16, IDLE_S = 60, DATABASE_S = 10 };

struct peer {
	LIST_ENTRY(peer) link;
	struct accounts *a;
	int fd;
	struct event *ev;
	struct ucred who;
	enum wire_account_op op;
	char name[WIRE_SIGNIN_NAME_MAX + 1];
	struct buf kept;         /* senders and certificates */
	struct str senders[WIRE_SIGNIN_SENDERS_MAX];
	struct str certificates[WIRE_ACCOUNT_CERTIFICATES_MAX];
	struct store_account_change change;
	struct buf rows;
	bool more;
	struct buf held;         /* a request for which the database is not there yet, until held_until */
	int64_t held_until;
};

struct accounts {
	int fd;
	uid_t owner;
	struct signin *s;
	struct event *ev;
	LIST_HEAD(, peer) peers;
	unsigned n;
};

/* ---- answers */

static void peer_free(struct peer *p)
{
	LIST_REMOVE(p, link);
	p->a->n--;
	event_free(p->ev);
	close(p->fd);
	buf_free(&p->kept);
	buf_free(&p->rows);
	buf_free_secret(&p->held);
	free(p);
}

static void send_answer(struct peer *p, const struct wire_account_answer *an)
{
	struct buf b = BUF_INIT(WIRE_ACCOUNT_DATAGRAM_MAX);
	/* it asks again only when it has this, so the socket has room */
	if (wire_account_answer_put(&b, an) || send(p->fd, b.p, b.n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)b.n) {
		buf_free(&b);
		peer_free(p);
		return;
	}
	buf_free(&b);
	struct timeval idle = { .tv_sec = IDLE_S };
	event_add(p->ev, &idle);
}

static void refuse(struct peer *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void refuse(struct peer *p, const char *fmt, ...)
{
	char text[600];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	for (char *t = text; *t; t++)
		if ((unsigned char)*t < 0x20 || *t == 0x7f)
			*t = '?';
	struct wire_account_answer an = { .error = str_from(text) };
	send_answer(p, &an);
}

static void database_says_no(struct peer *p, enum store_rc rc, const char *err)
{
	if (rc == STORE_AWAY)
		refuse(p, "the database is away (%s)", err);
	else
		refuse(p, "the database refused: %s", err);
}

static void done_ok(struct peer *p)
{
	struct wire_account_answer an = { .ok = true, .more = p->more, .rows = buf_str(&p->rows) };
	send_answer(p, &an);
}

/* ---- reading */

static void add_row(struct peer *p, const struct store_account *a)
{
	struct wire_account_row r = { .name = a->name, .has_password = a->has_password, .enabled = a->enabled, .n_senders = a->n_senders,
		.n_certificates = a->n_certificates, .created_at = (uint64_t)(a->created_at / 1000000),
		.changed_at = (uint64_t)(a->changed_at / 1000000), .signed_in_at = (uint64_t)(a->signed_in_at / 1000000) };
	for (size_t i = 0; i < a->n_senders; i++)
		r.senders[i] = a->senders[i];
	for (size_t i = 0; i < a->n_certificates; i++)
		r.certificates[i] = a->certificates[i];
	for (unsigned i = 0; i < WIRE_CAPS; i++)
		r.caps[i] = a->caps[i] < 0 ? WIRE_ACCOUNT_CAP_DEFAULT : (uint32_t)a->caps[i];
	if (p->rows.n > WIRE_ACCOUNT_ROWS_ENOUGH || p->more)
		p->more = true; /* the rest is asked for again, behind the last one that was told */
	else
		wire_account_row_put(&p->rows, &r);
}

static void on_list_row(void *arg, const struct store_account *a)
{
	add_row(arg, a);
}

static void on_listed(void *arg, enum store_rc rc, unsigned n, const char *err)
{
	struct peer *p = arg;
	if (rc != STORE_OK) {
		database_says_no(p, rc, err);
		return;
	}
	if (n == STORE_ACCOUNT_PAGE)
		p->more = true;
	done_ok(p);
}

static void on_shown(void *arg, enum store_rc rc, const struct store_account *a, const char *err)
{
	struct peer *p = arg;
	if (rc != STORE_OK) {
		database_says_no(p, rc, err);
	} else if (!a) {
		refuse(p, "there is no account %s", p->name);
	} else {
		add_row(p, a);
		done_ok(p);
	}
}

/* ---- writing */

static const char *const events[] = { [WIRE_ACCOUNT_ADD] = "account-added", [WIRE_ACCOUNT_CHANGE] = "account-changed",
	[WIRE_ACCOUNT_REMOVE] = "account-removed" };

static void on_written(void *arg, enum store_rc rc, unsigned n, const char *err)
{
	struct peer *p = arg;
	if (rc != STORE_OK) {
		database_says_no(p, rc, err);
	} else if (!n && p->op == WIRE_ACCOUNT_ADD) {
		refuse(p, "there is an account %s already", p->name);
	} else if (!n) {
		refuse(p, "there is no account %s", p->name);
	} else {
		log_info(NULL, "event=%s account=%s uid=%u pid=%d", events[p->op], log_qz(p->name), (unsigned)p->who.uid, (int)p->who.pid);
		done_ok(p);
	}
}

static void write_out(struct peer *p, struct str phc, struct str scram)
{
	struct store_account_change *c = &p->change;
	c->name = str_from(p->name);
	c->password = phc;
	c->scram = scram;
	if (p->op == WIRE_ACCOUNT_CHANGE) {
		store_account_change(p->a->s->db, c, on_written, p);
		return;
	}
	struct store_account a = { .name = c->name, .password = phc, .scram = scram, .enabled = !c->set_enabled || c->enabled,
		.n_senders = c->n_senders, .n_certificates = c->n_certificates };
	for (size_t i = 0; i < c->n_senders; i++)
		a.senders[i] = c->senders[i];
	for (size_t i = 0; i < c->n_certificates; i++)
		a.certificates[i] = c->certificates[i];
	for (unsigned i = 0; i < STORE_CAPS; i++)
		a.caps[i] = c->caps[i] < 0 ? -1 : c->caps[i];
	store_account_add(p->a->s->db, &a, on_written, p);
}

static void on_hashed(void *arg, const struct job_msg *answer)
{
	struct peer *p = arg;
	if (!answer || answer->what != JOB_YES || answer->n != 2)
		refuse(p, "the password's digest could not be computed (out of memory?); nothing was changed");
	else
		write_out(p, answer->f[0], answer->f[1]);
}

/* ---- requests */

/* "a@b", "@b" or "*", its domain in lower case; appended to kept. NULL, or why not. */
static const char *take_sender(struct buf *kept, struct str s, struct str *ret)
{
	struct smtp_address a;
	size_t at = kept->n;
	if (str_eq(s, STR("*"))) {
		buf_addc(kept, '*');
	} else if (s.n && s.p[0] == '@') {
		char domain[CONFIG_DOMAIN_MAX + 1];
		if (smtp_domain_check(str_skip(s, 1), true) || config_domain_fold(str_skip(s, 1), domain, sizeof domain))
			return "not a domain";
		buf_addc(kept, '@');
		buf_addz(kept, domain);
	} else {
		int fault = smtp_address_parse(s, true, &a);
		if (fault)
			return smtp_address_fault_text(fault);
		buf_adds(kept, a.local);
		buf_addc(kept, '@');
		for (size_t i = 0; i < a.domain.n; i++)
			buf_addc(kept, a.domain.p[i] >= 'A' && a.domain.p[i] <= 'Z' ? (char)(a.domain.p[i] + 32) : a.domain.p[i]);
	}
	*ret = str_n(kept->p + at, kept->n - at);
	return kept->failed ? "too long" : NULL;
}

/* 64 hexadecimal digits, colons between them allowed, as programs print SHA-256 fingerprints. */
static const char *take_certificate(struct buf *kept, struct str s, struct str *ret)
{
	size_t at = kept->n;
	for (size_t i = 0; i < s.n; i++)
		if (isxdigit((unsigned char)s.p[i]))
			buf_addc(kept, (char)tolower((unsigned char)s.p[i]));
		else if (s.p[i] != ':')
			return "not a SHA-256 fingerprint: 64 hexadecimal digits";
	if (kept->failed || kept->n - at != 64)
		return "not a SHA-256 fingerprint: 64 hexadecimal digits";
	*ret = str_n(kept->p + at, 64);
	return NULL;
}

static bool take_lists(struct peer *p, const struct wire_account_request *r)
{
	const char *bad;
	buf_free(&p->kept);
	p->kept = BUF_INIT(64 * 1024);
	if (!buf_room(&p->kept, 48 * 1024)) { /* more than all can be: it must not move */
		refuse(p, "out of memory");
		return false;
	}
	for (size_t i = 0; i < r->n_senders; i++)
		if ((bad = take_sender(&p->kept, r->senders[i], &p->senders[i]))) {
			refuse(p, "sender \"%.*s\": %s (wanted: an address, @DOMAIN, or *)", STR_ARG(r->senders[i]), bad);
			return false;
		}
	for (size_t i = 0; i < r->n_certificates; i++)
		if ((bad = take_certificate(&p->kept, r->certificates[i], &p->certificates[i]))) {
			refuse(p, "certificate \"%.*s\": %s", STR_ARG(r->certificates[i]), bad);
			return false;
		}
	p->change = (struct store_account_change){ .set_enabled = r->set_enabled, .enabled = r->enabled, .set_senders = r->set_senders,
		.senders = p->senders, .n_senders = r->n_senders, .set_certificates = r->set_certificates, .certificates = p->certificates,
		.n_certificates = r->n_certificates };
	for (unsigned i = 0; i < WIRE_CAPS; i++)
		p->change.caps[i] = r->caps[i] == WIRE_ACCOUNT_CAP_KEEP ? STORE_CAP_KEEP :
		    r->caps[i] == WIRE_ACCOUNT_CAP_DEFAULT ? -1 : (int32_t)r->caps[i];
	return true;
}

static void add_or_change(struct peer *p, const struct wire_account_request *r)
{
	struct buf prepared = BUF_INIT(4 * WIRE_SIGNIN_PASSWORD_MAX);
	struct job_msg m = { .what = JOB_HASH, .n = 1 };
	const char *bad = r->set_password ? password_fault(r->password) : NULL;
	if (bad) {
		refuse(p, "this password cannot be taken: %s", bad);
		return;
	}
	if (!take_lists(p, r))
		return;
	if (!r->set_password) {
		write_out(p, STR_NULL, STR_NULL);
		return;
	}
	if (password_prepare(r->password, &prepared)) {
		buf_free_secret(&prepared);
		refuse(p, "out of memory");
		return;
	}
	m.f[0] = buf_str(&prepared);
	uint64_t ticket = keeper_run(p->a->s->hash, &m, on_hashed, p);
	buf_free_secret(&prepared);
	if (!ticket)
		refuse(p, "too many password checks are waiting; try again in a moment");
}

static void on_recipient_row(void *arg, struct str name, bool alias)
{
	struct store_account row = { .name = name };
	(void)alias;
	add_row(arg, &row);
}

static void on_recipients_listed(void *arg, enum store_rc rc, unsigned n, const char *err)
{
	on_listed(arg, rc, n == STORE_RECIPIENT_PAGE ? STORE_ACCOUNT_PAGE : 0, err);
}

static void on_recipient_written(void *arg, enum store_rc rc, unsigned n, const char *err)
{
	struct peer *p = arg;
	bool add = p->op == WIRE_RECIPIENT_ADD;
	if (rc != STORE_OK) {
		database_says_no(p, rc, err);
	} else if (!n) {
		refuse(p, add ? "%s is a recipient already" : "there is no recipient %s in the table", p->name);
	} else {
		log_info(NULL, "event=recipient-%s recipient=%s uid=%u pid=%d", add ? "added" : "removed", log_qz(p->name), (unsigned)p->who.uid,
		    (int)p->who.pid);
		done_ok(p);
	}
}

/* "a@b" or "@b" in the form that is compared, into p->name. */
static bool take_recipient(struct peer *p, struct str s)
{
	struct smtp_address a;
	char domain[CONFIG_DOMAIN_MAX + 1];
	bool whole = s.n && s.p[0] == '@';
	int fault = whole ? (smtp_domain_check(str_skip(s, 1), true) ? -SMTP_ADDRESS_DOMAIN : 0) : smtp_address_parse(s, true, &a);
	if (whole)
		a = (struct smtp_address){ .domain = str_skip(s, 1) };
	if (!fault && config_domain_fold(a.domain, domain, sizeof domain))
		fault = -SMTP_ADDRESS_DOMAIN;
	if (!fault && a.local.n + 1 + strlen(domain) >= sizeof p->name)
		fault = -SMTP_ADDRESS_LONG;
	if (fault) {
		refuse(p, "\"%.*s\": %s (wanted: an address or @DOMAIN)", STR_ARG(s), smtp_address_fault_text(fault));
		return false;
	}
	snprintf(p->name, sizeof p->name, "%.*s@%s", STR_ARG(a.local), domain);
	for (char *c = p->name; *c; c++)
		*c = *c >= 'A' && *c <= 'Z' ? (char)(*c + 32) : *c;
	return true;
}

static void handle_recipient(struct peer *p, const struct wire_account_request *r)
{
	p->name[0] = 0;
	if (r->op == WIRE_RECIPIENT_LIST) {
		store_recipient_list(p->a->s->db, r->name, on_recipient_row, on_recipients_listed, p);
		return;
	}
	if (!take_recipient(p, r->name))
		return;
	(r->op == WIRE_RECIPIENT_ADD ? store_recipient_add : store_recipient_remove)(p->a->s->db, str_from(p->name), on_recipient_written, p);
}

/* ---- what is laid over the configuration */

static void on_override_row(void *arg, struct str section, struct str option, struct str value)
{
	struct peer *p = arg;
	struct wire_overlay_row r = { section, option, value };
	if (p->rows.n > WIRE_ACCOUNT_ROWS_ENOUGH || p->more)
		p->more = true;
	else if (wire_overlay_row_put(&p->rows, &r)) /* longer than anything that came through here */
		log_warn(NULL, "event=overlay-row section=%s option=%s reason=\"too long to be shown\"", log_q(section), log_q(option));
}

static void on_overrides(void *arg, enum store_rc rc, unsigned n, const char *err)
{
	on_listed(arg, rc, n == STORE_OVERLAY_PAGE ? STORE_ACCOUNT_PAGE : 0, err);
}

static void on_override_written(void *arg, enum store_rc rc, unsigned n, const char *err)
{
	struct peer *p = arg;
	bool set = p->op == WIRE_OVERLAY_SET;
	if (rc != STORE_OK) {
		database_says_no(p, rc, err);
	} else if (!n) {
		refuse(p, "%s is not set there", p->name);
	} else {
		log_info(NULL, "event=overlay-%s option=%s value=%s uid=%u pid=%d", set ? "set" : "unset", log_qz(p->name),
		    set ? log_q(buf_str(&p->kept)) : "-", (unsigned)p->who.uid, (int)p->who.pid);
		done_ok(p);
	}
}

/* The tool has asked the module; here is what can be known without loading foreign code. The worker asks again. */
static void handle_overlay(struct peer *p, const struct wire_account_request *r)
{
	struct store_conn *db = p->a->s->db;
	char section[WIRE_OVERLAY_NAME_MAX + 1], option[WIRE_OVERLAY_NAME_MAX + 1], *value = str_dupz(r->value);
	struct buf why = BUF_INIT(2048);
	snprintf(section, sizeof section, "%.*s", STR_ARG(r->section));
	snprintf(option, sizeof option, "%.*s", STR_ARG(r->option));
	snprintf(p->name, sizeof p->name, "[%.120s] %.120s", section, option);
	buf_free(&p->kept);
	p->kept = BUF_INIT(WIRE_OVERLAY_VALUE_MAX);
	if (r->op == WIRE_OVERLAY_LIST)
		store_overlay_list(db, r->section, r->option, on_override_row, on_overrides, p);
	else if (r->op == WIRE_OVERLAY_UNSET)
		store_overlay_unset(db, r->section, r->option, on_override_written, p);
	else if (!value || strlen(value) != r->value.n || buf_addz(&p->kept, value))
		refuse(p, "out of memory, or a value with NUL in it");
	else if (config_overlay_check(p->a->s->config, NULL, section, option, value, NULL, &why))
		refuse(p, "%s: %s", p->name, buf_z(&why));
	else
		store_overlay_set(db, r->section, r->option, r->value, on_override_written, p);
	buf_free(&why);
	free(value);
}

static void handle(struct peer *p, const struct wire_account_request *r)
{
	p->op = r->op;
	p->more = false;
	buf_free(&p->rows);
	p->rows = BUF_INIT(WIRE_ACCOUNT_ROWS_MAX);
	if (r->op >= WIRE_OVERLAY_SET) {
		handle_overlay(p, r);
		return;
	}
	if (r->op >= WIRE_RECIPIENT_ADD) {
		handle_recipient(p, r);
		return;
	}
	p->name[0] = 0;
	if ((r->name.n || r->op != WIRE_ACCOUNT_LIST) && wire_signin_name(r->name, p->name) < 0) {
		refuse(p, "\"%.*s\" cannot be an account's name: wanted are 1 to %d octets of UTF-8 without blanks, quotation marks, "
		    "backslashes and control characters, and \"" WIRE_SIGNIN_NAME_RESERVED "\" at the front is kept for users of this machine", STR_ARG(r->name), WIRE_SIGNIN_NAME_MAX);
		return;
	}
	switch (r->op) {
	case WIRE_ACCOUNT_ADD:
	case WIRE_ACCOUNT_CHANGE:
		add_or_change(p, r);
		break;
	case WIRE_ACCOUNT_REMOVE:
		store_account_remove(p->a->s->db, str_from(p->name), on_written, p);
		break;
	case WIRE_ACCOUNT_LIST:
		store_account_list(p->a->s->db, str_from(p->name), STORE_ACCOUNT_PAGE, on_list_row, on_listed, p);
		break;
	case WIRE_ACCOUNT_SHOW:
		store_account_get(p->a->s->db, str_from(p->name), on_shown, p);
		break;
	case WIRE_RECIPIENT_ADD:
	case WIRE_RECIPIENT_REMOVE:
	case WIRE_RECIPIENT_LIST:
	case WIRE_OVERLAY_SET:
	case WIRE_OVERLAY_UNSET:
	case WIRE_OVERLAY_LIST:
		break; /* above */
	}
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	static char datagram[WIRE_ACCOUNT_DATAGRAM_MAX];
	struct wire_account_request r;
	struct peer *p = arg;
	ssize_t n = what & EV_TIMEOUT ? 0 : recv(fd, datagram, sizeof datagram, MSG_DONTWAIT);
	struct timeval idle = { .tv_sec = IDLE_S };
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		event_add(p->ev, &idle);
		return;
	}
	if (n <= 0 || wire_account_request_get(str_n(datagram, (size_t)n), &r)) {
		if (n > 0)
			log_warn(NULL, "event=account-garbage uid=%u pid=%d", (unsigned)p->who.uid, (int)p->who.pid);
		peer_free(p);
	} else {
		/* until its answer is sent nothing is read, so nothing frees it but the answer */
		p->held = BUF_INIT(WIRE_ACCOUNT_DATAGRAM_MAX);
		/* a daemon that has just been started is asked at once by many a script */
		if (store_conn_up(p->a->s->db) || buf_add(&p->held, datagram, (size_t)n))
			handle(p, &r);
		else
			p->held_until = clock_mono_us() + DATABASE_S * US_PER_S;
	}
	if (n > 0)
		explicit_bzero(datagram, (size_t)n);
}

void accounts_database(struct accounts *a, int64_t now)
{
	struct peer *p, *next;
	bool up = store_conn_up(a->s->db);
	for (p = LIST_FIRST(&a->peers); p; p = next) {
		struct wire_account_request r;
		next = LIST_NEXT(p, link);
		if (!p->held.n || (!up && now < p->held_until))
			continue;
		struct buf held = p->held;
		p->held = BUF_INIT(WIRE_ACCOUNT_DATAGRAM_MAX);
		if (wire_account_request_get(buf_str(&held), &r) == 0)
			handle(p, &r); /* with no database it says so */
		buf_free_secret(&held);
	}
}

static void on_connect(evutil_socket_t fd, short what, void *arg)
{
	struct accounts *a = arg;
	struct timeval idle = { .tv_sec = IDLE_S };
	struct ucred who;
	socklen_t size = sizeof who;
	(void)what;
	int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (c < 0)
		return;
	/* the socket's mode says the same; this is the rule */
	if (getsockopt(c, SOL_SOCKET, SO_PEERCRED, &who, &size) || (who.uid != 0 && who.uid != a->owner) || a->n == PEERS_MAX) {
		if (a->n < PEERS_MAX)
			log_warn(NULL, "event=account-refused uid=%u pid=%d", (unsigned)who.uid, (int)who.pid);
		close(c);
		return;
	}
	struct peer *p = calloc(1, sizeof *p);
	if (p)
		p->ev = event_new(a->s->base, c, EV_READ, on_readable, p);
	if (!p || !p->ev || event_add(p->ev, &idle)) {
		if (p && p->ev)
			event_free(p->ev);
		free(p);
		close(c);
		return;
	}
	p->a = a;
	p->fd = c;
	p->who = who;
	LIST_INSERT_HEAD(&a->peers, p, link);
	a->n++;
}

/* ---- beginning and end */

struct accounts *accounts_bind(const char *state_dir)
{
	struct accounts *a = calloc(1, sizeof *a);
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	if (!a)
		return NULL;
	a->owner = geteuid();
	int n = snprintf(sun.sun_path, sizeof sun.sun_path, "%s/run/account.sock", state_dir);
	a->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (n >= (int)sizeof sun.sun_path || a->fd < 0) {
		log_error(NULL, "event=account-socket path=%s reason=%s", log_qz(sun.sun_path),
		    a->fd < 0 ? log_qz(strerror(errno)) : "\"the state folder's name is too long for a socket\"");
		goto bad;
	}
	/* What a former child left. There is one pepsid a state folder, so whatever lies here is nobody's. Who listens is root where
	 * pepsid is, before that is given up: the tool looks at that (SO_PEERCRED) before it sends a password. */
	unlink(sun.sun_path);
	mode_t before = umask(0177);
	int rc = bind(a->fd, (const struct sockaddr *)&sun, sizeof sun) || listen(a->fd, BACKLOG);
	umask(before);
	if (rc) {
		log_error(NULL, "event=account-socket path=%s reason=%s", log_qz(sun.sun_path), log_qz(strerror(errno)));
		goto bad;
	}
	return a;
bad:
	if (a->fd >= 0)
		close(a->fd);
	free(a);
	return NULL;
}

int accounts_start(struct accounts *a, struct signin *s)
{
	a->s = s;
	a->ev = event_new(s->base, a->fd, EV_READ | EV_PERSIST, on_connect, a);
	return a->ev && event_add(a->ev, NULL) == 0 ? 0 : -1;
}

void accounts_free(struct accounts *a)
{
	struct peer *p, *next;
	if (!a)
		return;
	for (p = LIST_FIRST(&a->peers); p; p = next) {
		next = LIST_NEXT(p, link);
		peer_free(p);
	}
	if (a->ev)
		event_free(a->ev);
	close(a->fd);
	free(a);
}
