/* Fuzz: a report about anything, in any language. Fields are taken from the input, separated by 0xff. If a report comes out, it can be sent,
 * our MIME parser finds exactly its three parts in it, and our reader of bounces the recipients and what became of them. */
#include "base/check.h"
#include "proto/dsn/dsn.h"
#include "proto/dsn/read.h"
#include "proto/mail/header.h"
#include "proto/mail/mime.h"
#include "proto/address/address.h"
#include "proto/smtp/client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct str next(struct str *rest)
{
	const char *at = rest->n ? memchr(rest->p, 0xff, rest->n) : NULL;
	struct str s = str_n(rest->p, at ? (size_t)(at - rest->p) : rest->n);
	*rest = str_skip(*rest, s.n + (at != NULL));
	return s;
}

static bool plain(struct str address)
{
	struct smtp_address a;
	return !smtp_address_parse(address, false, &a) && !a.quoted && !a.literal;
}

/* The report as our own parsers see it: plain addresses come back as they are, each with what became of it. */
static void read_back(const struct dsn *d, const struct dsn_form *form, struct str raw)
{
	struct mail_mime m;
	struct dsn_read got;
	static const enum dsn_read_action actions[] = { DSN_READ_FAILED, DSN_READ_DELAYED, DSN_READ_DELIVERED, DSN_READ_RELAYED, DSN_READ_EXPANDED };
	int r = mail_mime_parse(&m, raw, false);
	must(!r || (r == MAIL_MIME_LIMIT && form->full)); /* the original is parsed, too, and may be beyond any limit */
	if (!r) {
		must(m.part[0].kind == MAIL_MIME_MULTIPART && str_eq(m.part[0].type, STR("multipart/report")));
		size_t at = m.part[0].child, n = 0;
		const char *const types[2][3] = { { "text/plain", "message/delivery-status", form->full ? "message/rfc822" : "text/rfc822-headers" },
			{ "text/plain", "message/global-delivery-status", form->full ? "message/global" : "message/global-headers" } };
		for (; at != MAIL_MIME_NONE && n < 3; at = m.part[at].next, n++)
			must(str_eq(m.part[at].type, str_from(types[form->utf8][n])));
		must(at == MAIL_MIME_NONE && n == 3);
	}
	mail_mime_free(&m);
	r = dsn_read(raw, false, &got);
	must(!r || (r == DSN_READ_LIMIT && form->full));
	if (!r) {
		bool all_plain = true;
		for (size_t k = 0; k < d->n_rcpts; k++)
			all_plain &= plain(d->rcpts[k].address);
		must(got.report && got.formal && got.n <= d->n_rcpts);
		for (size_t i = 0; i < got.n && all_plain; i++) {
			bool known = false;
			for (size_t k = 0; k < d->n_rcpts; k++)
				known |= str_ieq(got.rcpt[i].address, d->rcpts[k].address) && got.rcpt[i].action == actions[dsn_action(d, &d->rcpts[k])];
			must(known);
		}
		must(got.n || !all_plain);
	}
	dsn_read_free(&got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = str_n((const char *)data, size);
	if (size < 4)
		return 0;
	struct dsn_rcpt rcpts[2] = { 0 };
	struct dsn d = { .kind = (enum dsn_kind)((data[0] & 15) % 5), .ret = data[1] & 1 ? 'F' : data[1] & 2 ? 'H' : 0, .smtputf8 = data[1] & 4,
		.now_us = (int64_t)data[2] << 48, .max_original = (size_t)data[3] * 8, .rcpts = rcpts, .n_rcpts = 1 + (data[1] >> 7),
		.hostname = STR("mx.example"), .id = STR("1") };
	static struct dsn_words *words[8]; /* parsed once: the parser has a target of its own */
	struct str file;
	unsigned tongue = data[0] >> 5;
	if (dsn_words_builtin(tongue, &d.language, &file) && !words[tongue])
		words[tongue] = dsn_words_parse(file, NULL, NULL, NULL);
	d.words = words[tongue];
	rcpts[0].action = (enum dsn_kind)((data[1] >> 3 & 7) % 5);
	rcpts[1].cause = (enum dsn_cause)((data[1] >> 3 & 7) % 5);
	d.maybe = data[0] & 16;
	rest = str_skip(rest, 4);
	d.to = next(&rest);
	for (size_t i = 0; i < 2; i++) {
		rcpts[i].address = next(&rest);
		rcpts[i].orcpt = next(&rest);
		rcpts[i].status = next(&rest);
		rcpts[i].remote_mta = next(&rest);
		rcpts[i].reply = next(&rest);
		rcpts[i].diagnostic = next(&rest);
		rcpts[i].phase = next(&rest);
		rcpts[i].code = rcpts[i].reply.n & 1 ? 550 : 0;
	}
	d.envid = next(&rest);
	d.maybe_hop = d.stage = rcpts[0].phase;
	d.headers = next(&rest);
	d.body = rest;
	struct buf h = BUF_INIT(1 << 23), b = BUF_INIT(1 << 22);
	struct dsn_form form;
	if (dsn_write(&d, &h, &b, &form) == 0) {
		struct mail_field f;
		must(mail_headers_sendable(buf_str(&h)));
		unsigned scan = smtp_content_scan(buf_str(&h), buf_str(&b));
		must(!(scan & SMTP_CONTENT_BAD));
		must(form.eight_bit == !!(scan & SMTP_CONTENT_BODY_8BIT));
		must(form.utf8 || !(scan & SMTP_CONTENT_HEADER_8BIT));
		must(mail_field_find(buf_str(&h), STR("Content-Type"), 0, &f) == 0);
		buf_add(&h, "\r\n", 2);
		buf_adds(&h, buf_str(&b));
		must(!h.failed);
		read_back(&d, &form, buf_str(&h));
	}
	buf_free(&h);
	buf_free(&b);
	return 0;
}
