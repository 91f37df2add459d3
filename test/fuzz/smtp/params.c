/* Any octets as MAIL and RCPT parameters: no decoded value holds a control character, and what is encoded decodes again. */
#include "fuzz.h"

#include "proto/smtp/datetime.h"
#include "proto/smtp/params.h"
#include "proto/smtp/xtext.h"

static void check_decoded(const struct buf *b, bool utf8)
{
	must(b->n && (utf8 ? str_is_utf8(buf_str(b)) : str_is_ascii(buf_str(b))));
	for (size_t i = 0; i < b->n; i++)
		must((unsigned char)b->p[i] >= 32 && b->p[i] != 127);
}

static void check_wishes(const struct smtp_mail_params *m)
{
	struct buf text = BUF_INIT(64);
	int64_t back;
	must(m->hold_for <= 999999999 && !(m->hold_for && m->hold_until));
	must(!m->hold_until || (!smtp_datetime_write(m->hold_until, &text) && !smtp_datetime_parse(buf_str(&text), &back) && back == m->hold_until));
	must(m->deliver_by >= -999999999 && m->deliver_by <= 999999999 && (m->deliver_mode != 'R' || m->deliver_by > 0));
	must(m->priority >= -9 && m->priority <= 9 && (m->has_priority || !m->priority));
	buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct smtp_mail_params m;
	struct smtp_rcpt_params r;
	struct smtp_param at;
	struct buf out = BUF_INIT(4 * size + 16), enc = BUF_INIT(4 * size + 16);
	if (!size)
		return 0;
	struct str in = fuzz_str(data + 1, size - 1);
	/* bit 6: all extensions behind the first six, too */
	unsigned ext = data[0] & 64 ? data[0] | ~0xffu : data[0];
	bool taken = !smtp_mail_params_parse(in, ext, &m, &at);
	if (taken)
		check_wishes(&m);
	if (taken && m.envid.n) {
		must(m.envid.n <= SMTP_ENVID_MAX && !smtp_xtext_decode(m.envid, &out));
		check_decoded(&out, false);
		buf_reset(&out);
	}
	if (!smtp_rcpt_params_parse(in, ext, data[0] & 128, &r, &at) && r.orcpt.n) {
		struct str type;
		must(r.orcpt.n <= SMTP_ORCPT_MAX && !smtp_orcpt_decode(r.orcpt, data[0] & 128, &type, &out));
		must(!(r.notify & SMTP_NOTIFY_NEVER) || r.notify == SMTP_NOTIFY_NEVER);
		check_decoded(&out, true);
		buf_reset(&out);
	}
	if (!smtp_xtext_decode(in, &out)) {
		check_decoded(&out, false);
		must(!smtp_xtext_encode(buf_str(&out), &enc));
		struct buf again = BUF_INIT(4 * size + 16);
		must(!smtp_xtext_decode(buf_str(&enc), &again) && str_eq(buf_str(&again), buf_str(&out)));
		buf_free(&again);
	}
	buf_free(&out);
	buf_free(&enc);
	return 0;
}
