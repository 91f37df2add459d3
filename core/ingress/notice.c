/* Makes the messages of notice.h. No template, no choice of words: that is the caller's. */
#include "notice.h"

#include "ingress_internal.h"

#include "base/clock.h"
#include "proto/mail/date.h"
#include "proto/mail/header.h"

#include <stdio.h>
#include <stdlib.h>

enum { HEAD_MAX = 8192 };

struct notice {
	struct message message; /* the first member */
	struct notice *next;
};

static int write_head(struct ingress *in, struct buf *out, struct str to, const char *subject, int64_t now)
{
	const struct terms *t = in->listening ? in->listening->terms : NULL;
	const char *host = t ? t->hostname : "localhost";
	char text[700];
	snprintf(text, sizeof text, "Mail Delivery System <%s>", t ? t->postmaster : "postmaster");
	mail_field_write(out, STR("From"), str_from(text));
	snprintf(text, sizeof text, "<%.*s>", STR_ARG(to));
	if (mail_field_write(out, STR("To"), str_from(text)) || mail_field_write(out, STR("Subject"), str_from(subject)))
		return -1;
	buf_addz(out, "Date: ");
	mail_date_write(out, now, 0);
	buf_addz(out, "\r\n");
	snprintf(text, sizeof text, "<notice.%lld.%llu@%s>", (long long)now, (unsigned long long)in->n_notices, host);
	mail_field_write(out, STR("Message-ID"), str_from(text));
	buf_addz(out, "Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
		      "Content-Transfer-Encoding: 8bit\r\n\r\n");
	return out->failed ? -1 : 0;
}

static void drop(struct notice *n)
{
	message_done(&n->message);
	free(n);
}

int notice_send(struct ingress *in, struct str to, bool smtputf8, const char *subject, struct str text)
{
	struct notice *n = calloc(1, sizeof *n);
	struct buf head = BUF_INIT(HEAD_MAX);
	struct message *m = n ? &n->message : NULL;
	if (!n)
		return -1;
	spool_init(&m->spool, &in->house);
	in->n_notices++;
	m->text = BUF_INIT(to.n + 1);
	m->rcpts = calloc(1, sizeof *m->rcpts);
	m->smtputf8 = smtputf8;
	m->body = SMTP_BODY_8BITMIME;
	bool bad = !m->rcpts || !buf_room(&m->text, to.n + 1) || write_head(in, &head, to, subject, clock_wall_us()) ||
	    spool_add(&m->spool, buf_str(&head)) || spool_add(&m->spool, text) || spool_finish(&m->spool);
	buf_free(&head);
	if (bad) {
		drop(n);
		return -1;
	}
	buf_adds(&m->text, to);
	m->mail_from = STR("");
	m->rcpts[0] = buf_str(&m->text);
	m->n_rcpts = 1;
	n->next = in->notices;
	in->notices = n;
	admit_submit(in->admit, m);
	return 0;
}

void notice_settled(struct ingress *in, struct message *m, enum store_rc rc)
{
	struct notice **at = &in->notices;
	while (*at && &(*at)->message != m)
		at = &(*at)->next;
	if (!*at)
		return;
	struct notice *n = *at;
	*at = n->next;
	if (rc == STORE_OK)
		log_info(NULL, "id=%lld event=notice to=%s", (long long)m->id, log_q(m->rcpts[0]));
	else
		log_warn(NULL, "event=notice-lost to=%s rc=%d", log_q(m->rcpts[0]), (int)rc);
	drop(n);
}

void notice_free_all(struct ingress *in)
{
	while (in->notices) {
		struct notice *n = in->notices;
		in->notices = n->next;
		drop(n);
	}
}
