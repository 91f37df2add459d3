/* After the commit: clients are answered, the message is handed to the worker that waits for it or its stage is woken, and the log and the counts hear
 * what came of it. Nothing is decided here any more. */
#include "ingress_internal.h"
#include "notice.h"

#include "base/clock.h"
#include "proto/mail/header.h"

#include <stdio.h>
#include <time.h>

static void wake_now(struct ingress *in)
{
	in->woke_us = clock_mono_us();
	in->sink.wake(in->sink.arg, INGRESS_FIRST_STAGE);
}

void ingress_on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct ingress *in = arg;
	(void)fd;
	(void)what;
	in->wake_armed = false;
	wake_now(in);
}

void ingress_wake(struct ingress *in)
{
	int64_t since = clock_mono_us() - in->woke_us;
	if (in->wake_armed)
		return;
	if (!in->woke_us || since >= in->set.wake_us) {
		wake_now(in);
		return;
	}
	struct timeval tv = { (in->set.wake_us - since) / US_PER_S, (in->set.wake_us - since) % US_PER_S };
	in->wake_armed = evtimer_add(in->wake, &tv) == 0;
	if (!in->wake_armed)
		wake_now(in);
}

static void answer(struct session *s, const struct message *m, enum store_rc rc)
{
	struct smtp_reply r = { 451, "4.3.0", "Mail cannot be stored at the moment; try again later" };
	char text[64];
	if (rc == STORE_REPEAT) {
		r = (struct smtp_reply){ 250, "2.0.0", "Ok: taken before" };
	} else if (rc == STORE_OK) {
		snprintf(text, sizeof text, "Ok: queued as %lld", (long long)m->id);
		r = (struct smtp_reply){ 250, "2.0.0", text };
	} else if (rc == STORE_FULL) {
		r = (struct smtp_reply){ 452, "4.3.1", "Insufficient storage; try again later" };
	}
	if (rc == STORE_OK || rc == STORE_REPEAT)
		smtp_server_accept(s->engine, &r);
	else
		smtp_server_reject(s->engine, &r);
}

/* What people know of a message that is asked about: its Message-ID and, of a user's, the account. Last in its line, which is cut
 * where it is too long. */
static const char *log_known_by(const struct session *s, const struct message *m, char *out, size_t size)
{
	struct mail_field f;
	size_t n = 0;
	out[0] = 0;
	if (s->login.n)
		n = (size_t)snprintf(out, size, " account=%s", log_q(buf_str(&s->login)));
	if (n >= size || mail_field_find(buf_str(&m->headers), STR("Message-ID"), 0, &f))
		return out;
	while (f.value.n && strchr(" \t\r\n", f.value.p[0]) && f.value.p[0]) /* folded in front of the id, as long ones are */
		f.value = str_skip(f.value, 1);
	snprintf(out + n, size - n, " message_id=%s", log_q(str_trim(f.value)));
	return out;
}

static void log_outcome(struct ingress *in, const struct session *s, const struct message *m, enum store_rc rc)
{
	char user[32] = "";
	if (s->user_known)
		snprintf(user, sizeof user, " uid=%u", (unsigned)s->uid);
	char held[48] = "", known[2400], repeated[32] = "";
	if (rc == STORE_OK) {
		if (message_held(m)) {
			in->held_for_sender += !strcmp(m->hold_why, "sender");
			time_t until = (time_t)m->hold_until;
			struct tm tm;
			if (gmtime_r(&until, &tm))
				strftime(held, sizeof held, " held_until=%Y-%m-%dT%H:%M:%SZ", &tm);
		}
		if (m->repeated)
			snprintf(repeated, sizeof repeated, " repeated=%zu", m->repeated);
		if (log_max() >= LOG_LV_INFO)
			log_info(NULL,
			    "id=%lld event=accepted session=%llu listener=%s client=%s%s helo=%s from=%s "
			    "rcpts=%zu%s size=%llu%s%s%s%s%s",
			    (long long)m->id, (unsigned long long)s->id, s->terms->name, s->peer.text, user,
			    log_q(buf_str(&s->helo)), log_q(m->mail_from), m->n_rcpts, repeated,
			    (unsigned long long)m->spool.size, m->chunked ? " chunked=1" : "",
			    m->body == SMTP_BODY_BINARYMIME ? " body=BINARYMIME" : "", held, s->conn ? "" : " client_gone=1", log_known_by(s, m, known, sizeof known));
		vet_log(m);
		return;
	}
	if (rc == STORE_REPEAT) {
		log_info(&s->log, "event=repeat once=%s from=%s rcpts=%zu", log_q(m->once), log_q(m->mail_from), m->n_rcpts);
		return;
	}
	ingress_refused(in, s, rc == STORE_AWAY ? REFUSED_DATABASE : rc == STORE_FULL ? REFUSED_MEMORY : REFUSED_ROW,
	    "at=commit from=%s rcpts=%zu size=%llu rc=%d", log_q(m->mail_from), m->n_rcpts,
	    (unsigned long long)m->spool.size, (int)rc);
	if (rc == STORE_REFUSED)
		log_error(&s->log,
		    "event=row-refused id=%lld from=%s rcpts=%zu hint=\"the database did not take the row; see "
		    "its log\"",
		    (long long)m->id, log_q(m->mail_from), m->n_rcpts);
}

/* Gives the committed row to the worker that was reserved for it. */
static void hand_off(struct ingress *in, const struct message *m)
{
	struct wire_item item;
	int fd = -1;
	bool fits = message_item(m, &item); /* it did before the commit, else nothing would be reserved */
	if (!fits || (item.body_in_fd && (fd = spool_body_fd(&m->spool)) < 0)) {
		/* no descriptor for the body: the worker reads the row from the database */
		item = (struct wire_item){ .id = m->id };
	}
	in->sink.hand_off(in->sink.arg, message_stage(m), m->sender_key, &item, fd);
}

void ingress_admitted(void *arg, struct message *const *msgs, const enum store_rc *rcs, size_t n)
{
	struct ingress *in = arg;
	bool wake = false, due = false;
	/* First all answers: clients prepare their next message while we go on. */
	for (size_t i = 0; i < n; i++) {
		struct session *s = msgs[i]->session;
		if (rcs[i] == STORE_OK && s) {
			in->accepted++;
			in->octets += msgs[i]->spool.size;
			in->local_accepted += s->user_known;
			if (!s->exempt && s->terms->abuse.banner_delay_us)
				limits_good(in->limits, &s->peer);
		}
		in->local_repeats += rcs[i] == STORE_REPEAT;
		if (s && s->conn) {
			answer(s, msgs[i], rcs[i]);
			session_flush(s);
		}
	}
	for (size_t i = 0; i < n; i++) {
		const struct message *m = msgs[i];
		if (m->reserved && rcs[i] == STORE_OK)
			hand_off(in, m);
		else if (m->reserved)
			in->sink.unreserve(in->sink.arg, message_stage(m), m->sender_key, m->reserved_octets);
		else if (rcs[i] == STORE_OK && message_held(m))
			due = true;
		else if (rcs[i] == STORE_OK && m->stage[0]) /* a stage before acceptance sent it there */
			in->sink.wake(in->sink.arg, m->stage);
		else if (rcs[i] == STORE_OK)
			wake = true;
	}
	if (wake)
		ingress_wake(in);
	if (due && in->sink.due)
		in->sink.due(in->sink.arg);
	for (size_t i = 0; i < n; i++)
		if (msgs[i]->session) {
			log_outcome(in, msgs[i]->session, msgs[i], rcs[i]);
			caps_settled(in->caps, msgs[i], rcs[i]);
			if (rcs[i] == STORE_OK)
				vet_settled(in, msgs[i]);
		}
	for (size_t i = 0; i < n; i++)
		if (msgs[i]->session)
			session_settled(msgs[i]->session);
		else
			notice_settled(in, msgs[i], rcs[i]);
}
