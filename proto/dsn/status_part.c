/* The machine-readable part (RFC 3464 §2): fields for the message, fields for each recipient. */
#include "dsn_internal.h"
#include "proto/mail/date.h"
#include "proto/mail/header.h"
#include "proto/smtp/xtext.h"

/* Name: type; text: one field. Words longer than a line may be are cut by dsn_text()'s limit before. */
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

/* Name: type; address. Of the type utf-8 it has escapes of its own (RFC 6533 §3). */
static void address_field(struct buf *out, struct str name, struct str type, struct str address, bool utf8)
{
	struct buf value = BUF_INIT(2 * DSN_TEXT_MAX);
	buf_adds(&value, type);
	buf_addz(&value, "; ");
	if (str_ieq(type, STR("utf-8")))
		dsn_utf8_address(&value, address, utf8, DSN_TEXT_MAX);
	else
		dsn_text(&value, address, utf8, DSN_TEXT_MAX);
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
	struct buf address = BUF_INIT(DSN_TEXT_MAX);
	struct str type;
	if (orcpt.n && smtp_orcpt_decode(orcpt, true, &type, &address) == 0 && type.n <= 40)
		address_field(out, STR("Original-Recipient"), type, buf_str(&address), utf8);
	buf_free(&address);
}

void dsn_status_part(struct buf *out, const struct dsn *d, bool utf8)
{
	static const char *const actions[] = { "failed", "delayed", "delivered", "relayed", "expanded" };
	struct buf b = BUF_INIT(2 * DSN_TEXT_MAX);
	field(out, STR("Reporting-MTA"), "dns", d->hostname, utf8);
	if (d->envid.n && d->envid.n <= DSN_TEXT_MAX && smtp_xtext_decode(d->envid, &b) == 0)
		field(out, STR("Original-Envelope-Id"), NULL, buf_str(&b), false);
	date_field(out, STR("Arrival-Date"), d->arrival_us);
	if (d->id.n)
		field(out, STR("X-Pepsi-Queue-ID"), NULL, d->id, false);
	for (size_t i = 0; i < d->n_rcpts && i < DSN_RCPTS_MAX; i++) {
		const struct dsn_rcpt *r = &d->rcpts[i];
		bool ascii = str_is_ascii(r->address);
		buf_add(out, "\r\n", 2);
		original_recipient(out, r->orcpt, utf8);
		address_field(out, STR("Final-Recipient"), ascii ? STR("rfc822") : STR("utf-8"), r->address, utf8);
		field(out, STR("Action"), NULL, str_from(actions[dsn_action(d, r)]), false);
		field(out, STR("Status"), NULL, str_from(dsn_status(r, d->kind, (char[16]){ 0 })), false);
		if (r->remote_mta.n && !r->hidden)
			field(out, STR("Remote-MTA"), "dns", r->remote_mta, utf8);
		if (r->code) {
			buf_reset(&b);
			buf_addf(&b, "%u ", r->code);
			/* the reply's own status; 4.4.7 is ours: the time is over (RFC 3463 §3.5) */
			if (dsn_status_ok(r->status) && r->status.p[0] == (char)('0' + r->code / 100 % 10) && !str_eq(r->status, STR("4.4.7"))) {
				buf_adds(&b, r->status);
				buf_addc(&b, ' ');
			}
			dsn_text(&b, r->hidden ? STR("(not shown)") : r->reply, utf8, DSN_TEXT_MAX - 20);
			field(out, STR("Diagnostic-Code"), "smtp", buf_str(&b), utf8);
		} else if ((r->diagnostic.n || r->cause) && d->kind <= DSN_DELAYED) { /* RFC 3464 §2.3.6: of what went wrong */
			field(out, STR("Diagnostic-Code"), "X-Pepsi",
			    r->hidden && !r->cause ? STR("not shown") : r->diagnostic.n && !r->hidden ? r->diagnostic : str_from(dsn_cause_text(r->cause)), utf8);
		}
		date_field(out, STR("Last-Attempt-Date"), d->now_us);
		if (d->kind == DSN_DELAYED && d->retry_until_us)
			date_field(out, STR("Will-Retry-Until"), d->retry_until_us);
	}
	out->failed |= b.failed;
	buf_free(&b);
}
