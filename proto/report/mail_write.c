/* The message that carries a report: a sentence for people, and the report. */
#include "proto/report/mail.h"

#include "mail_internal.h"
#include "proto/mail/date.h"
#include "proto/mail/header.h"
#include "proto/sasl/base64.h"

#include <stdio.h>

enum { BASE64_LINE = 57 }; /* octets that make 76 characters (RFC 2045 §6.8) */

bool report_mail_plain(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!ascii_is_alnum(s.p[i]))
			return false;
	return s.n > 0;
}

bool report_mail_name_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] >= 0x7f || strchr("\"\\!<>/;@()", s.p[i]))
			return false;
	return s.n > 0 && s.n <= 253;
}

bool report_mail_address_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] >= 0x7f || s.p[i] == '<' || s.p[i] == '>')
			return false;
	return s.n > 0 && s.n <= 320;
}

int report_file_name(const struct report_mail *m, struct buf *out)
{
	if (!report_mail_name_ok(m->submitter) || !report_mail_name_ok(m->domain) || !report_mail_plain(m->id))
		return -1;
	return buf_addf(out, "%.*s!%.*s!%lld!%lld!%.*s.%s.gz", STR_ARG(m->submitter), STR_ARG(m->domain), (long long)m->begin, (long long)m->end,
	    STR_ARG(m->id), m->tls ? "json" : "xml");
}

int report_mail_id(const struct report_mail *m, struct buf *out)
{
	if (!report_mail_name_ok(m->submitter) || !report_mail_plain(m->id))
		return -1;
	buf_adds(out, m->id);
	return m->tls ? buf_addf(out, "@%.*s", STR_ARG(m->submitter)) : out->failed ? -1 : 0;
}

static void piecef(struct mail_fold *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void piecef(struct mail_fold *f, const char *fmt, ...)
{
	struct buf b = BUF_INIT(1000);
	va_list ap;
	va_start(ap, fmt);
	f->bad |= buf_vaddf(&b, fmt, ap) != 0;
	va_end(ap);
	mail_fold_piece(f, buf_str(&b));
	buf_free(&b);
}

/* A display name as a quoted string; what is not ASCII is left out, for it would have to be encoded. */
void report_mail_from(struct str address, struct str name, struct buf *out)
{
	struct mail_fold f;
	mail_fold_begin(&f, out, STR("From"));
	if (name.n && str_is_ascii(name) && name.n < 200) {
		struct buf b = BUF_INIT(500);
		buf_addc(&b, '"');
		for (size_t i = 0; i < name.n; i++) {
			if (strchr("\"\\", name.p[i]) && name.p[i])
				buf_addc(&b, '\\');
			buf_addc(&b, name.p[i]);
		}
		buf_addc(&b, '"');
		mail_fold_piece(&f, buf_str(&b));
		buf_free(&b);
	}
	piecef(&f, "<%.*s>", STR_ARG(address));
	if (mail_fold_end(&f))
		out->failed = true;
}

static void put_headers(const struct report_mail *m, struct buf *out, const char *boundary)
{
	report_mail_from(m->from, m->from_name, out);
	buf_addf(out, "To: <%.*s>\r\n", STR_ARG(m->to));
	/* folded with a blank where RFC 9990's example folds it: programs look for these words */
	buf_addf(out, "Subject: Report Domain: %.*s\r\n Submitter: %.*s\r\n Report-ID: <", STR_ARG(m->domain), STR_ARG(m->submitter));
	report_mail_id(m, out);
	buf_addz(out, ">\r\n");
	if (m->tls)
		buf_addf(out, "TLS-Report-Domain: %.*s\r\nTLS-Report-Submitter: %.*s\r\nTLS-Required: No\r\n", STR_ARG(m->domain),
		    STR_ARG(m->submitter));
	buf_addz(out, "Date: ");
	mail_date_write(out, m->now_us, 0);
	buf_addf(out, "\r\nMessage-ID: <%.*s.%u@%.*s>\r\n", STR_ARG(m->id), m->nth, STR_ARG(m->submitter));
	buf_addf(out, "Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\nContent-Type: multipart/%s;\r\n\tboundary=\"%s\"\r\n",
	    m->tls ? "report; report-type=\"tlsrpt\"" : "mixed", boundary);
}

static void put_base64(struct str data, struct buf *out)
{
	for (; data.n; data = str_skip(data, BASE64_LINE)) {
		sasl_base64_encode(str_n(data.p, data.n < BASE64_LINE ? data.n : BASE64_LINE), out);
		buf_addz(out, "\r\n");
	}
}

int report_mail_write(const struct report_mail *m, struct buf *headers, struct buf *body)
{
	char boundary[80];
	struct buf file = BUF_INIT(REPORT_NAME_MAX);
	if (!report_mail_plain(m->id) || m->id.n > 64 || !report_mail_address_ok(m->from) || !report_mail_address_ok(m->to) || report_file_name(m, &file)) {
		buf_free(&file);
		return -1;
	}
	/* "=_" stands in no base64, and in no text of ours */
	snprintf(boundary, sizeof boundary, "=_%.*s", STR_ARG(m->id));
	put_headers(m, headers, boundary);
	buf_addf(body, "--%s\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\n", boundary);
	buf_adds(body, m->text);
	buf_addf(body,
	    "\r\n--%s\r\nContent-Type: application/%s\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: attachment;\r\n"
	    "\tfilename=\"%s\"\r\n\r\n",
	    boundary, m->tls ? "tlsrpt+gzip" : "gzip", buf_z(&file));
	put_base64(m->packed, body);
	buf_addf(body, "--%s--\r\n", boundary);
	buf_free(&file);
	return headers->failed || body->failed ? -1 : 0;
}
