/* What becomes of a message that this peer cannot take as it is: content made fit by proto/mail/downgrade.h, where the caller allows it, and addresses
 * with A-labels. Decides nothing that the caller's enum smtp_downgrade does not allow. */
#include "client_internal.h"

#include "proto/address/address.h"
#include "proto/mail/charset.h"

#include <stdio.h>
#include <stdlib.h>

const char *smtp_lacking(unsigned lacks)
{
	static const char *const names[] = { "", "8BITMIME", "BINARYMIME", "8BITMIME,BINARYMIME", "SMTPUTF8", "8BITMIME,SMTPUTF8", "BINARYMIME,SMTPUTF8",
		"8BITMIME,BINARYMIME,SMTPUTF8" };
	return names[lacks & 7];
}

void client_downgrade_done(struct smtp_client *c)
{
	if (c->plan)
		mail_downgrade_free(c->plan);
	free(c->plan);
	c->plan = NULL;
}

static bool later(struct smtp_client *c)
{
	struct smtp_result r;
	client_result_text(c, &r, SMTP_OUT_LOST, SMTP_PHASE_MAIL, "4.3.0", "out of memory");
	client_undecided(c, &r);
	client_downgrade_done(c);
	return false;
}

bool client_downgrade(struct smtp_client *c, unsigned lacks)
{
	struct smtp_client_msg *m = c->msg;
	char text[SMTP_CLIENT_TEXT_MAX];
	c->plan = calloc(1, sizeof *c->plan);
	if (!c->plan)
		return later(c);
	if (mail_downgrade_plan(c->plan, m->headers, m->body, lacks)) {
		if (c->plan->fault == MAIL_DOWNGRADE_MEMORY)
			return later(c);
		client_refuse(c, SMTP_PHASE_MAIL, c->plan->status, c->plan->why);
		client_downgrade_done(c);
		return false;
	}
	bool breaks = c->plan->breaks && mail_is_signed(m->headers);
	if (breaks && m->downgrade == SMTP_DOWNGRADE_UNSIGNED) {
		snprintf(text, sizeof text, "the message would have to be converted for the next hop (%s), which would break its signature (DKIM)", smtp_lacking(lacks));
		client_refuse(c, SMTP_PHASE_MAIL, lacks == MAIL_LACKS_UTF8 ? "5.6.7" : "5.6.3", text);
		client_downgrade_done(c);
		return false;
	}
	if (!c->plan->changed) {
		client_downgrade_done(c);
		return true;
	}
	m->downgraded.lacks = lacks;
	m->downgraded.parts = c->plan->parts;
	m->downgraded.fields = c->plan->fields;
	m->downgraded.left_out = c->plan->left_out;
	m->downgraded.breaks = breaks;
	return true;
}

static bool ascii_form(struct str address, struct buf *out)
{
	struct smtp_address a;
	if (smtp_address_parse(address, true, &a) || !str_is_ascii(a.local))
		return false;
	buf_adds(out, a.local);
	buf_addc(out, '@');
	return smtp_domain_to_ascii(a.domain, out) == 0 && !out->failed;
}

bool client_address_ascii(struct str address)
{
	struct buf b = BUF_INIT(SMTP_CLIENT_ADDRESS_MAX);
	bool ok = str_is_ascii(address) || ascii_form(address, &b);
	buf_free(&b);
	return ok;
}

void client_address_put(const struct smtp_client *c, struct str address, struct buf *out)
{
	if (c->utf8 || str_is_ascii(address) || !ascii_form(address, out)) /* the last was looked at before */
		buf_adds(out, address);
}

void client_address_result(struct smtp_client *c, struct smtp_result *res, enum smtp_phase phase, struct str address)
{
	char text[SMTP_CLIENT_TEXT_MAX];
	struct buf shown = BUF_INIT(SMTP_CLIENT_TEXT_MAX / 2);
	mail_charset_clean(str_n(address.p, str_utf8_cut(address, SMTP_CLIENT_TEXT_MAX / 2)), &shown);
	snprintf(text, sizeof text, "the address %s cannot be written in ASCII, and the next hop does not take internationalized addresses (SMTPUTF8)", buf_z(&shown));
	buf_free(&shown);
	client_result_text(c, res, SMTP_OUT_PERMANENT, phase, "5.6.7", text);
}
