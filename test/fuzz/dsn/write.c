/* Fuzz: a report about anything. Fields are taken from the input, separated by 0xff. If a report comes out, it can be sent,
 * and taken apart again into exactly three parts. */
#include "base/check.h"
#include "proto/dsn/dsn.h"
#include "proto/mail/header.h"
#include "proto/smtp/client.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct str next(struct str *rest)
{
	const char *at = rest->n ? memchr(rest->p, 0xff, rest->n) : NULL;
	struct str s = str_n(rest->p, at ? (size_t)(at - rest->p) : rest->n);
	*rest = str_skip(*rest, s.n + (at != NULL));
	return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = str_n((const char *)data, size);
	if (size < 4)
		return 0;
	struct dsn_rcpt rcpts[2] = { 0 };
	struct dsn d = { .kind = data[0] & 3, .ret = data[1] & 1 ? 'F' : data[1] & 2 ? 'H' : 0, .smtputf8 = data[1] & 4,
		.now_us = (int64_t)data[2] << 48, .max_original = (size_t)data[3] * 8, .rcpts = rcpts, .n_rcpts = 1 + (data[1] >> 7),
		.hostname = STR("mx.example"), .id = STR("1") };
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
	d.headers = next(&rest);
	d.body = rest;
	struct buf h = BUF_INIT(1 << 20), b = BUF_INIT(1 << 22);
	struct dsn_form form;
	if (dsn_write(&d, &h, &b, &form) == 0) {
		struct mail_field f;
		char boundary[80], delim[90];
		must(mail_headers_sendable(buf_str(&h)));
		unsigned scan = smtp_content_scan(buf_str(&h), buf_str(&b));
		must(!(scan & SMTP_CONTENT_BAD));
		must(form.eight_bit == !!(scan & SMTP_CONTENT_BODY_8BIT));
		must(form.utf8 || !(scan & SMTP_CONTENT_HEADER_8BIT));
		must(mail_field_find(buf_str(&h), STR("Content-Type"), 0, &f) == 0);
		const char *at = memmem(f.value.p, f.value.n, "boundary=\"", 10);
		must(at && sscanf(at + 10, "%70[^\"]", boundary) == 1);
		snprintf(delim, sizeof delim, "--%s", boundary);
		struct str left = buf_str(&b);
		int found = 0;
		const char *p;
		while ((p = memmem(left.p, left.n, delim, strlen(delim)))) {
			must(p[-1] == '\n');
			left = str_skip(left, (size_t)(p - left.p) + strlen(delim));
			found++;
		}
		must(found == 4 && str_eq(left, STR("--\r\n")));
	}
	buf_free(&h);
	buf_free(&b);
	return 0;
}
