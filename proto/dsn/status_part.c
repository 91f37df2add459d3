/* The machine-readable part (RFC 3464 §2): fields for the message, fields for each recipient. */
#include "dsn_internal.h"
#include "proto/mail/date.h"
#include "proto/mail/header.h"
#include "proto/smtp/xtext.h"

/* Name: prefix; text: one field. Words longer than a line may be are cut by dsn_text()'s limit before. */
static void field(struct buf *out, struct str name, const char *type, struct str text, bool utf8)
{
	struct buf value = BUF_INIT(2 * DSN_TEXT_MAX);
	if (type)
		buf_addf(&value, "%s; ", type);
	dsn_text(&value, text, utf8, DSN_TEXT_MAX);
	if (mail_field_write(out, name, buf_str(&value)))
		out->failed = true;
	buf_free(&value);
}

static void date_field(struct buf *out, struct str name, int64_t us)
{
	struct buf value = BUF_INIT(MAIL_DATE_SIZE);
	mail_date_write(&value, us, 0);
	field(out, name, NULL, buf_str(&value), false);
	buf_free(&value);
}

/* address-type ";" address, decoded (RFC 3461 §6.3); what does not decode is left out */
static void original_recipient(struct buf *out, struct str orcpt, bool utf8)
{
	struct buf address = BUF_INIT(DSN_TEXT_MAX), value = BUF_INIT(2 * DSN_TEXT_MAX);
	struct str type;
	if (orcpt.n && smtp_orcpt_decode(orcpt, utf8, &type, &address) == 0 && type.n <= 40) {
		buf_adds(&value, type);
		buf_addz(&value, "; ");
		dsn_text(&value, buf_str(&address), utf8, DSN_TEXT_MAX);
		if (mail_field_write(out, STR("Original-Recipient"), buf_str(&value)))
			out->failed = true;
	}
	buf_free(&address);
	buf_free(&value);
}

void dsn_status_part(struct buf *out, const struct dsn *d, bool utf8)
{
	static const char *const actions[] = { "failed", "delayed", "delivered", "relayed" };
	struct buf b = BUF_INIT(2 * DSN_TEXT_MAX);
	field(out, STR("Reporting-MTA"), "dns", d->hostname, utf8);
	if (d->envid.n && d->envid.n <= DSN_TEXT_MAX && smtp_xtext_decode(d->envid, &b) == 0)
		field(out, STR("Original-Envelope-Id"), NULL, buf_str(&b), false);
	date_field(out, STR("Arrival-Date"), d->arrival_us);
	for (size_t i = 0; i < d->n_rcpts && i < DSN_RCPTS_MAX; i++) {
		const struct dsn_rcpt *r = &d->rcpts[i];
		bool ascii = str_is_ascii(r->address);
		buf_add(out, "\r\n", 2);
		original_recipient(out, r->orcpt, utf8);
		field(out, STR("Final-Recipient"), ascii ? "rfc822" : "utf-8", r->address, utf8);
		field(out, STR("Action"), NULL, str_from(actions[d->kind]), false);
		field(out, STR("Status"), NULL, str_from(dsn_status(r, d->kind, (char[16]){ 0 })), false);
		if (r->remote_mta.n)
			field(out, STR("Remote-MTA"), "dns", r->remote_mta, utf8);
		if (r->code) {
			buf_reset(&b);
			buf_addf(&b, "%u ", r->code);
			if (dsn_status_ok(r->status) && r->status.p[0] == (char)('0' + r->code / 100 % 10)) {
				buf_adds(&b, r->status);
				buf_addc(&b, ' ');
			}
			dsn_text(&b, r->reply, utf8, DSN_TEXT_MAX - 20);
			field(out, STR("Diagnostic-Code"), "smtp", buf_str(&b), utf8);
		} else if (r->diagnostic.n) {
			field(out, STR("Diagnostic-Code"), "X-Pepsi", r->diagnostic, utf8);
		}
		date_field(out, STR("Last-Attempt-Date"), d->now_us);
		if (d->kind == DSN_DELAYED && d->retry_until_us)
			date_field(out, STR("Will-Retry-Until"), d->retry_until_us);
	}
	out->failed |= b.failed;
	buf_free(&b);
}
