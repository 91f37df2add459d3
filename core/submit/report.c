/* The letter to a sender whose message, or some recipients of it, were refused for good: what sendmail's -oem asks for, and what
 * becomes of a dropped message that pepsid does not take. Pure. */
#include "submit.h"

#include "proto/mail/date.h"
#include "proto/mail/header.h"

void submit_problems(struct buf *out, const struct smtp_client_msg *msg, size_t *count)
{
	for (size_t i = 0; i < msg->n_rcpts; i++) {
		const struct smtp_result *r = &msg->rcpts[i].result;
		if (r->outcome != SMTP_OUT_PERMANENT)
			continue;
		++*count;
		buf_addf(out, "<%.*s>: ", STR_ARG(msg->rcpts[i].address));
		if (r->code)
			buf_addf(out, "%u ", r->code);
		if (r->status[0])
			buf_addf(out, "%s ", r->status);
		buf_adds(out, r->text);
		buf_addc(out, '\n');
	}
}

/* Lines of text with CRLF, no octet that would make the report's body something else. */
static void put_lines(struct buf *out, struct str text)
{
	for (size_t i = 0; i < text.n; i++) {
		unsigned char c = (unsigned char)text.p[i];
		if (c == '\n')
			buf_add(out, "\r\n", 2);
		else if (c != '\r')
			buf_addc(out, c < 32 && c != '\t' ? '?' : (char)c);
	}
}

int submit_report(struct submit_message *m, const struct smtp_client_msg *msg, struct str problems, const char *host, struct str to,
    int64_t now_us, int offset_min, const char *unique)
{
	struct buf value = BUF_INIT(2048), date = BUF_INIT(128);
	int r = 0;
	mail_date_write(&date, now_us, offset_min);
	buf_addf(&value, "Mail delivery system <MAILER-DAEMON@%s>", host);
	r |= mail_field_write(&m->headers, STR("From"), buf_str(&value));
	r |= mail_field_write(&m->headers, STR("To"), to);
	r |= mail_field_write(&m->headers, STR("Subject"), STR("Your message was not sent"));
	r |= mail_field_write(&m->headers, STR("Date"), buf_str(&date));
	buf_reset(&value);
	buf_addf(&value, "<%s@%s>", unique, host);
	r |= mail_field_write(&m->headers, STR("Message-ID"), buf_str(&value));
	r |= mail_field_write(&m->headers, STR("Auto-Submitted"), STR("auto-replied")); /* RFC 3834 §5 */
	r |= mail_field_write(&m->headers, STR("MIME-Version"), STR("1.0"));
	r |= mail_field_write(&m->headers, STR("Content-Type"), STR("text/plain; charset=utf-8"));
	r |= mail_field_write(&m->headers, STR("Content-Transfer-Encoding"), STR("8bit"));
	buf_addf(&m->body, "This is the mail system at %s.\r\n\r\nA message that you, or a program of yours, sent could not be sent on:\r\n\r\n", host);
	put_lines(&m->body, problems);
	buf_addz(&m->body, "\r\nIts header was:\r\n\r\n");
	put_lines(&m->body, msg->headers);
	m->eight = !str_is_ascii(buf_str(&m->body));
	buf_free(&value);
	buf_free(&date);
	return r || m->body.failed || m->headers.failed ? -1 : 0;
}
