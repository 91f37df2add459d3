/* The message that carries a failure report; see arf_write.h. Three parts (RFC 5965 §2): a sentence for people, the report, and the header block. */
#include "proto/report/arf_write.h"

#include "mail_internal.h"
#include "proto/mail/date.h"
#include "proto/mail/header.h"

#include <stdio.h>

/* A field of the report whose value is somebody's word: through the one encoder, what is no text of a header is "?". */
static void field(struct buf *out, const char *name, struct str value)
{
	struct buf v = BUF_INIT(8192);
	if (!value.n)
		return;
	for (size_t i = 0; i < value.n && i < 8000; i++)
		buf_addc(&v, value.p[i] >= 0x20 && value.p[i] < 0x7f ? value.p[i] : value.p[i] == '\r' || value.p[i] == '\n' || value.p[i] == '\t' ? ' ' : '?');
	if (v.failed || mail_field_write(out, str_from(name), buf_str(&v)))
		out->failed = true;
	buf_free(&v);
}

static void address(struct buf *out, const char *name, struct str a)
{
	struct buf v = BUF_INIT(400);
	if (a.n && a.n < 330 && !buf_addf(&v, "<%.*s>", STR_ARG(a)))
		field(out, name, buf_str(&v));
	buf_free(&v);
}

static void put_report(const struct arf_mail *m, struct buf *out)
{
	buf_addz(out, "Feedback-Type: auth-failure\r\nVersion: 1\r\n");
	field(out, "User-Agent", m->user_agent);
	field(out, "Auth-Failure", m->auth_failure);
	field(out, "Identity-Alignment", m->alignment); /* RFC 9991 */
	field(out, "Delivery-Result", m->delivery_result);
	field(out, "Authentication-Results", m->auth_results);
	field(out, "Source-IP", m->source_ip);
	buf_addz(out, "Arrival-Date: ");
	mail_date_write(out, m->arrival_us, 0);
	buf_addz(out, "\r\n");
	address(out, "Original-Mail-From", m->mail_from);
	field(out, "Reported-Domain", m->domain);
	field(out, "DKIM-Domain", m->dkim_domain);
	field(out, "DKIM-Selector", m->dkim_selector);
	if (m->spf_domain.n) {
		struct buf v = BUF_INIT(400);
		buf_addf(&v, "txt : %.*s", STR_ARG(m->spf_domain)); /* RFC 6591 §3.2.4: without the record, which was looked up and let go */
		if (str_eq(m->auth_failure, STR("spf")))
			field(out, "SPF-DNS", buf_str(&v));
		buf_free(&v);
	}
	buf_addz(out, "Incidents: 1\r\n");
}

int arf_write(const struct arf_mail *m, struct buf *headers, struct buf *body)
{
	char boundary[80];
	if (!report_mail_plain(m->id) || m->id.n > 64 || !report_mail_address_ok(m->from) || !report_mail_address_ok(m->to) || !report_mail_name_ok(m->domain) ||
	    !report_mail_name_ok(m->submitter) || !mail_headers_sendable(m->headers))
		return -1;
	snprintf(boundary, sizeof boundary, "=_%.*s", STR_ARG(m->id));
	report_mail_from(m->from, m->from_name, headers);
	buf_addf(headers, "To: <%.*s>\r\nSubject: DMARC failure report for %.*s\r\nDate: ", STR_ARG(m->to), STR_ARG(m->domain));
	mail_date_write(headers, m->now_us, 0);
	buf_addf(headers, "\r\nMessage-ID: <%.*s.%u@%.*s>\r\nAuto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n", STR_ARG(m->id), m->nth, STR_ARG(m->submitter));
	buf_addf(headers, "Content-Type: multipart/report; report-type=feedback-report;\r\n\tboundary=\"%s\"\r\n", boundary);
	buf_addf(body,
	    "--%s\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\nThis is a report about one message in the name of %.*s\r\nthat failed authentication. It was received at %.*s"
	    " from\r\n%.*s. It goes to the addresses that the ruf tag of the DMARC policy\r\nrecord names. Addresses and fields that are nobody's business are left out.\r\n\r\n--%s\r\n"
	    "Content-Type: message/feedback-report\r\n\r\n",
	    boundary, STR_ARG(m->domain), STR_ARG(m->submitter), STR_ARG(m->source_ip), boundary);
	put_report(m, body);
	buf_addf(body, "\r\n--%s\r\nContent-Type: text/rfc822-headers\r\n\r\n", boundary);
	buf_adds(body, m->headers);
	buf_addf(body, "\r\n--%s--\r\n", boundary);
	return headers->failed || body->failed ? -1 : 0;
}
