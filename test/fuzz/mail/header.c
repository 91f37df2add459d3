/* Fuzz: splitting a message and reading its fields; then writing what was read, which must stay sendable. */
#include "proto/mail/header.h"
#include "proto/mail/received.h"
#include "proto/mail/split.h"

#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str raw = str_n((const char *)data, size), rest;
	struct mail_split s;
	struct mail_field f, again;
	size_t total = 0;
	int r;
	mail_split(raw, &s);
	must(s.headers.n + s.body.n + (s.separated ? 2 : 0) == size);
	must(!s.separated || !s.headers.n || memmem(s.headers.p, s.headers.n, "\r\n\r\n", 4) == NULL);
	rest = s.headers;
	while ((r = mail_field_next(&rest, &f))) {
		total += f.all.n;
		if (r < 0)
			continue;
		must(f.name.n > 0 && mail_field_find(s.headers, f.name, 0, &again) == 0);
		struct buf b = BUF_INIT(1 << 20), w = BUF_INIT(1 << 21);
		must(mail_field_unfold(&b, f.value) == 0);
		struct mail_received got;
		if (mail_received_read(buf_str(&b), &got) == 0)
			must(got.hostname.n && got.hostname.p >= b.p && got.hostname.p + got.hostname.n <= b.p + b.n &&
			     (!got.ip.n || (got.ip.p >= b.p && got.ip.p + got.ip.n <= b.p + b.n)));
		if (mail_field_write(&w, f.name, buf_str(&b)) == 0)
			must(mail_headers_sendable(buf_str(&w)) && mail_field_count(buf_str(&w), f.name, 0) == 1);
		buf_free(&b);
		buf_free(&w);
		if (total > 65536)
			return 0;
	}
	must(total == s.headers.n);
	struct mail_received rc = { .helo = s.headers, .ip = s.body, .rdns = s.body, .protocol = s.body, .tls = s.headers,
		.hostname = s.headers, .id = s.body, .rcpt = s.body, .utf8 = size & 1, .time_us = (int64_t)size << 40 };
	struct buf b = BUF_INIT(1 << 20);
	if (mail_received_write(&b, &rc) == 0)
		must(mail_headers_sendable(buf_str(&b)) && mail_received_count(buf_str(&b), 0) == 1);
	buf_free(&b);
	return 0;
}
