/* What a message to the report address is. Reports are known by the octets of their attachment, not by names and types, which are
 * wrong as often as not; notices of failure by their type. */
#include "proto/report/mail.h"

#include "proto/auth/dmarc.h"
#include "proto/mail/header.h"
#include "proto/mail/split.h"
#include "proto/report/pack.h"
#include "proto/report/parts.h"

#include <stdio.h>

struct look {
	struct report_mail_read *r;
	bool dsn, failed, returned, single, too_large;
};

/* "<ID.N@host>" of the message that came back. */
static void read_id(struct str headers, struct report_mail_read *r)
{
	struct mail_field f;
	uint64_t nth;
	if (mail_field_find(headers, STR("Message-ID"), 0, &f))
		return;
	struct str s = str_trim(f.value);
	if (s.n < REPORT_ID_SIZE + 4 || s.p[0] != '<' || s.p[REPORT_ID_SIZE + 1] != '.')
		return;
	for (size_t i = 1; i <= REPORT_ID_SIZE; i++)
		if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
			return;
	struct str rest = str_skip(s, REPORT_ID_SIZE + 2);
	ptrdiff_t at = str_chr(rest, '@');
	if (at <= 0 || str_u64(str_n(rest.p, (size_t)at), 1000, &nth))
		return;
	memcpy(r->id, s.p + 1, REPORT_ID_SIZE);
	r->id[REPORT_ID_SIZE] = 0;
	r->nth = (unsigned)nth;
}

/* Is any recipient's Action "failed" (RFC 3464 §2.3.3)? Delays and relays are no failures. */
static bool has_failed(struct str status)
{
	while (status.n) {
		const char *nl = memchr(status.p, '\n', status.n);
		struct str line = str_n(status.p, nl ? (size_t)(nl - status.p) + 1 : status.n);
		status = str_skip(status, line.n);
		if (str_istarts(line, STR("Action:")) && str_istarts(str_trim(str_skip(line, 7)), STR("failed")))
			return true;
	}
	return false;
}

static bool on_part(void *arg, const struct parts_part *p)
{
	struct look *k = arg;
	struct str type = str_from(p->type);
	if (str_eq(type, STR("message/delivery-status")) || str_eq(type, STR("message/global-delivery-status"))) {
		struct buf text = BUF_INIT(p->body.n + 1);
		k->dsn = true;
		if (parts_decode(p, &text) == 0)
			k->failed |= has_failed(buf_str(&text));
		buf_free(&text);
		return false;
	}
	if (str_eq(type, STR("message/feedback-report"))) {
		k->single = true;
		return false;
	}
	if (str_eq(type, STR("message/rfc822")) || str_eq(type, STR("text/rfc822-headers")) || str_eq(type, STR("message/global"))) {
		struct mail_split s;
		struct buf text = BUF_INIT(p->body.n + 1);
		if (k->dsn && !k->returned && parts_decode(p, &text) == 0) {
			mail_split(buf_str(&text), &s);
			read_id(s.headers, k->r);
			k->returned = true;
		}
		buf_free(&text);
		return false;
	}
	if (str_eq(type, STR("text/plain")) || str_eq(type, STR("text/html")))
		return false;
	buf_reset(&k->r->data);
	if (parts_decode(p, &k->r->data)) {
		k->too_large = true;
		return false;
	}
	return report_packing(buf_str(&k->r->data)) != REPORT_UNKNOWN;
}

void report_mail_read(struct str headers, struct str body, size_t max, struct report_mail_read *ret)
{
	struct look k = { .r = ret };
	struct dmarc_author author;
	*ret = (struct report_mail_read){ .data = BUF_INIT(max) };
	dmarc_author(headers, &author);
	if (author.state == DMARC_AUTHOR_OK)
		snprintf(ret->from, sizeof ret->from, "%s", author.domain[0]);
	if (parts_walk(headers, body, on_part, &k))
		ret->kind = REPORT_MAIL_REPORT;
	else if (k.dsn && k.failed)
		ret->kind = REPORT_MAIL_FAILED;
	else if (k.single)
		ret->kind = REPORT_MAIL_SINGLE;
	else
		ret->why = k.dsn ? "a notice that is no failure" : k.too_large ? "what is attached is too large" : "no report is attached";
	if (ret->kind != REPORT_MAIL_REPORT)
		buf_free(&ret->data);
}

void report_mail_done(struct report_mail_read *r)
{
	buf_free(&r->data);
}
