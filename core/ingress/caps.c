/* The glue of caps.h: session and message to the books, the books to the database, the owner told. A message is booked at its final dot and
 * taken back when it is not stored after all. */
#include "caps.h"

#include "auth.h"
#include "ingress_internal.h"
#include "notice.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WRITE_LINES = 500, WRITE_EVERY_S = 2 };
enum { OPERATOR_NOTICES = 20, HOUR_S = 3600 }; /* to postmaster, in an hour: a stolen set of passwords is no reason to flood him, too */

struct caps {
	struct ingress *in;
	struct quota *books;
	bool loaded, loading;
	struct quota_use *writing; /* WRITE_LINES; what is on its way to the database */
	size_t n_writing;
	int64_t written_us;
	int64_t operator_hour_us;  /* when the hour of OPERATOR_NOTICES began */
	unsigned operator_notices;
	uint64_t held, told, refused, lost; /* lost: owners who could not be told */
	uint64_t operator_told, operator_lost;
};

struct caps *caps_new(struct ingress *in, size_t accounts)
{
	struct caps *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->in = in;
	c->books = quota_new(accounts);
	c->writing = calloc(WRITE_LINES, sizeof *c->writing);
	if (!c->books || !c->writing) {
		caps_free(c);
		return NULL;
	}
	return c;
}

void caps_free(struct caps *c)
{
	if (!c)
		return;
	quota_free(c->books);
	free(c->writing);
	free(c);
}

bool caps_take(struct caps *c, struct session *s)
{
	const struct signed_in *w = s->who;
	struct message *m = &s->message;
	struct quota_verdict v;
	if (!w)
		return true;
	struct quota_caps caps = { w->messages_hour, w->messages_day, w->recipients_hour, w->recipients_day };
	if (!quota_take(c->books, str_from(w->account), &caps, (unsigned)m->n_rcpts, clock_wall_us() / US_PER_S, &v))
		return false;
	if (v.refuse) {
		c->refused++;
		return false;
	}
	m->booked = (unsigned)m->n_rcpts;
	if (!v.until)
		return true;
	if (v.until > m->hold_until) {
		m->hold_until = v.until;
		m->hold_why = "cap";
	}
	m->cap = v.cap;
	m->cap_limit = v.limit;
	m->cap_tell = v.tell;
	return true;
}

void caps_return(struct message *m)
{
	quota_return(m->session->in->caps->books, buf_str(&m->session->login), m->booked);
	m->booked = 0;
}

static void utc(int64_t at, char *out, size_t size)
{
	time_t t = (time_t)at;
	struct tm tm;
	if (!gmtime_r(&t, &tm) || !strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &tm))
		snprintf(out, size, "?");
}

/* One message for all that is held in this hour, to the address that the account sends from, when that is its own: with
 * SENDER_OWNERSHIP = header or none it may be anybody's, who should neither get mail for it nor learn the account's name. */
static void tell_owner(struct caps *c, const struct message *m, const char *account, const char *when)
{
	char subject[128];
	struct buf text = BUF_INIT(4096);
	if (!m->mail_from.n)
		return;
	if (!auth_may_send_as(m->session, m->mail_from)) {
		c->lost++;
		return;
	}
	snprintf(subject, sizeof subject, "Your mail is held: limit of %u %s", m->cap_limit, m->cap);
	buf_addf(&text, "The account %s has sent more than its limit of\r\n%u %s allows.\r\n\r\nThe message with the queue id %lld is held until %s,\r\n",
	    account, m->cap_limit, m->cap, (long long)m->id, when);
	buf_addz(&text, "then it goes out by itself. What is sent meanwhile is held, too, each\r\nmessage until there is room for it. Nothing is lost, and nothing needs\r\n"
			"to be sent again.\r\n\r\nIf this mail is not yours, change your password, and tell your\r\npostmaster.\r\n");
	if (text.failed || notice_send(c->in, m->mail_from, m->smtputf8, subject, buf_str(&text)))
		c->lost++;
	else
		c->told++;
	buf_free(&text);
}

/* The last one of an hour says that it is the last. */
static void tell_operator(struct caps *c, const struct message *m, struct str account, const char *when)
{
	const struct terms *t = m->session->terms;
	int64_t now = clock_mono_us();
	char subject[128];
	struct buf text = BUF_INIT(4096);
	if (!c->operator_hour_us || now - c->operator_hour_us >= HOUR_S * US_PER_S) {
		c->operator_hour_us = now;
		c->operator_notices = 0;
	}
	if (c->operator_notices == OPERATOR_NOTICES) {
		c->operator_lost++;
		return;
	}
	c->operator_notices++;
	snprintf(subject, sizeof subject, "An account is over its limit of %u %s", m->cap_limit, m->cap);
	buf_addf(&text, "The account %.*s\r\nhas sent more than its limit of %u %s allows\r\n(listener %s, client %s).\r\n\r\n"
	    "Its message with the queue id %lld is held until %s,\r\nand so is what it sends meanwhile, each message until there is room for it.\r\n\r\n",
	    STR_ARG(account), m->cap_limit, m->cap, t->name, m->session->peer.text, (long long)m->id, when);
	buf_addz(&text, "If the mail is good: pepsi queue retry, and a higher limit (pepsi account\r\nset). If it is not: pepsi account disable, and pepsi queue "
			"delete.\r\n\r\nThis is told once in an account's hour; the log has each message\r\n(event=over-cap).\r\n");
	if (c->operator_notices == OPERATOR_NOTICES)
		buf_addf(&text, "\r\nThis is the %uth such message within an hour, and the last: look into\r\nthe log for further accounts.\r\n", OPERATOR_NOTICES);
	if (text.failed || notice_send(c->in, str_from(t->postmaster), false, subject, buf_str(&text)))
		c->operator_lost++;
	else
		c->operator_told++;
	buf_free(&text);
}

void caps_settled(struct caps *c, struct message *m, enum store_rc rc)
{
	char when[40];
	const struct signed_in *w = m->session->who;
	struct str account = buf_str(&m->session->login);
	if (!m->booked || rc != STORE_OK) /* message_done() gives it back */
		return;
	m->booked = 0;
	if (!m->cap)
		return;
	c->held++;
	utc(m->hold_until, when, sizeof when);
	log_warn(NULL, "id=%lld event=over-cap account=%s from=%s rcpts=%zu limit=%u cap=%s held_until=%s", (long long)m->id, log_q(account),
	    log_q(m->mail_from), m->n_rcpts, m->cap_limit, log_qz(m->cap), when);
	if (m->cap_tell && c->in->set.tell_owner)
		tell_owner(c, m, w ? w->account : "", when);
	if (m->cap_tell && c->in->set.tell_postmaster)
		tell_operator(c, m, account, when);
}

/* --- over restarts --- */

static void loaded(void *arg, enum store_rc rc, const struct store_account_use *lines, size_t n)
{
	struct caps *c = arg;
	c->loading = false;
	if (rc != STORE_OK)
		return; /* asked again with the next connection, or below */
	c->loaded = true;
	for (size_t i = 0; i < n; i++) {
		struct quota_use u = { .hour_at = lines[i].hour_at / US_PER_S, .day_at = lines[i].day_at / US_PER_S,
			.told_at = lines[i].told_at / US_PER_S, .messages_hour = (uint64_t)lines[i].messages_hour,
			.messages_day = (uint64_t)lines[i].messages_day, .recipients_hour = (uint64_t)lines[i].recipients_hour,
			.recipients_day = (uint64_t)lines[i].recipients_day };
		if (lines[i].name.n > QUOTA_NAME_MAX)
			continue;
		snprintf(u.name, sizeof u.name, "%.*s", STR_ARG(lines[i].name));
		quota_restore(c->books, &u);
	}
}

void caps_database(struct caps *c)
{
	if (c->loaded || c->loading || !c->in->use_get)
		return;
	c->loading = true;
	c->in->use_get(c->in->admission, loaded, c);
}

static void written(void *arg, enum store_rc rc, const char *err)
{
	struct caps *c = arg;
	if (rc != STORE_OK) {
		quota_again(c->books, c->writing, c->n_writing);
		if (rc != STORE_AWAY)
			log_warn(NULL, "event=caps-not-written accounts=%zu error=%s hint=\"tried again\"", c->n_writing, log_qz(err ? err : ""));
	}
	c->n_writing = 0;
}

void caps_write(struct caps *c, bool now)
{
	int64_t us = clock_mono_us();
	if (c->n_writing || !c->in->use_put || !c->in->database_up || (!now && us - c->written_us < WRITE_EVERY_S * US_PER_S))
		return;
	if (!c->loaded) {
		caps_database(c);
		return; /* else what was stored would be overwritten unread */
	}
	c->written_us = us;
	c->n_writing = quota_changed(c->books, c->writing, WRITE_LINES);
	if (!c->n_writing)
		return;
	struct store_account_use *lines = calloc(c->n_writing, sizeof *lines);
	if (!lines) {
		written(c, STORE_FULL, "out of memory");
		return;
	}
	for (size_t i = 0; i < c->n_writing; i++) {
		const struct quota_use *u = &c->writing[i];
		lines[i] = (struct store_account_use){ .name = str_from(u->name), .hour_at = u->hour_at * US_PER_S, .day_at = u->day_at * US_PER_S,
			.told_at = u->told_at * US_PER_S, .messages_hour = (int64_t)u->messages_hour, .messages_day = (int64_t)u->messages_day,
			.recipients_hour = (int64_t)u->recipients_hour, .recipients_day = (int64_t)u->recipients_day };
	}
	c->in->use_put(c->in->admission, lines, c->n_writing, written, c);
	free(lines);
}

void caps_metrics(const struct caps *c, struct buf *out)
{
	buf_addf(out,
	    "# HELP pepsi_caps_held_total Messages held because their account was over a cap\n# TYPE pepsi_caps_held_total counter\n"
	    "pepsi_caps_held_total %llu\n"
	    "# HELP pepsi_caps_refused_total Messages refused because too many of their account are held\n# TYPE pepsi_caps_refused_total counter\n"
	    "pepsi_caps_refused_total %llu\n"
	    "# HELP pepsi_caps_told_total Owners of accounts told that their mail is held\n# TYPE pepsi_caps_told_total counter\n"
	    "pepsi_caps_told_total %llu\n"
	    "# HELP pepsi_caps_operator_told_total Messages to postmaster about accounts over a cap\n# TYPE pepsi_caps_operator_told_total counter\n"
	    "pepsi_caps_operator_told_total %llu\n"
	    "# HELP pepsi_caps_not_told_total Owners and postmaster that were not told, by whom\n# TYPE pepsi_caps_not_told_total counter\n"
	    "pepsi_caps_not_told_total{who=\"owner\"} %llu\npepsi_caps_not_told_total{who=\"postmaster\"} %llu\n"
	    "# HELP pepsi_caps_accounts Accounts with caps whose mail is counted\n# TYPE pepsi_caps_accounts gauge\npepsi_caps_accounts %zu\n",
	    (unsigned long long)c->held, (unsigned long long)c->refused, (unsigned long long)c->told,
	    (unsigned long long)c->operator_told, (unsigned long long)c->lost, (unsigned long long)c->operator_lost, quota_accounts(c->books));
}

void caps_status(const struct caps *c, struct buf *out)
{
	buf_addf(out, "{\"accounts\":%zu,\"held\":%llu,\"refused\":%llu,\"told\":%llu,\"not_told\":%llu,\"operator_told\":%llu,\"operator_not_told\":%llu}", quota_accounts(c->books),
	    (unsigned long long)c->held, (unsigned long long)c->refused, (unsigned long long)c->told, (unsigned long long)c->lost,
	    (unsigned long long)c->operator_told, (unsigned long long)c->operator_lost);
}
