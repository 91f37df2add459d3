/* Fuzz: a hostile peer. The first octet chooses the session, the rest are its replies, fed in pieces. Whatever they are:
 * the engine comes to an end, every recipient gets an outcome exactly once per message, signing in has one end, texts are clean and
 * hold no secret, limits are kept, and what is sent is whole CRLF lines. */
#include "base/check.h"
#include "proto/smtp/client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N = 4 };

#define SECRET "sesam+open"
#define SECRET64 "c2VzYW0" /* how it begins in Base64 */

static void check_result(const struct smtp_result *r)
{
	must(r->text.n <= SMTP_CLIENT_TEXT_MAX && r->text.p[r->text.n] == 0 && str_is_utf8(r->text));
	for (size_t i = 0; i < r->text.n; i++)
		must((unsigned char)r->text.p[i] >= 32 && r->text.p[i] != 127);
	must(!memmem(r->text.p, r->text.n, SECRET, strlen(SECRET)) && !memmem(r->text.p, r->text.n, SECRET64, strlen(SECRET64)));
	must(strnlen(r->status, sizeof r->status) < sizeof r->status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (memmem(data, size, SECRET, strlen(SECRET)) || memmem(data, size, SECRET64, strlen(SECRET64)))
		return 0; /* the peer guessed it, and may say it */
	unsigned flags = size ? data[0] : 0, sent = 0, done = 0;
	struct smtp_client_conf conf = { .helo = STR("us"), .lmtp = flags & 1, .tls = flags & 8 };
	/* bit 3: signs in; what with, by bits 1 and 2 */
	struct smtp_client_auth auth = { .name = STR("user"), .nonce = STR("rOprNGfwEbeRWgbNEkqO"), .external = flags & 4,
		.binding = { flags & 4 ? STR("tls-exporter") : STR(""), STR("bind") } };
	struct smtp_client *c = smtp_client_new(&conf);
	struct smtp_client_rcpt rcpts[N] = { { .address = STR("a@b") }, { .address = STR("c>@d") },
		{ .address = STR("\xc3\xa9@f"), .notify = STR("NEVER") }, { .address = STR("g@h"), .orcpt = STR("rfc822;g@h") } };
	struct smtp_client_msg m = { .mail_from = STR("x@y"), .headers = STR("A: b\r\n"), .envid = STR("e"), .ret = STR("FULL"),
		.body = flags & 2 ? STR(".\r\nx") : STR("x\xe9\r\n"), .downgrade = flags & 16 ? SMTP_DOWNGRADE_ALWAYS : SMTP_DOWNGRADE_NEVER, .rcpts = rcpts, .n_rcpts = N };
	struct str seg[SMTP_CLIENT_SEGMENTS];
	bool closed = false, tls = false, asked = false, ended = false;
	size_t mails = 0;
	if (flags & 2)
		auth.token = STR(SECRET);
	else
		auth.password = STR(SECRET);
	char last = '\n', before = '\r';
	must(c != NULL);
	size_t step = (flags >> 4) + 1;
	for (size_t at = 1;; at += step) {
		enum smtp_client_event ev;
		size_t n;
		while ((ev = smtp_client_next(c))) {
			must(!closed);
			if (ev == SMTP_CEV_DONE) {
				done++;
				for (size_t i = 0; i < N; i++) {
					must(rcpts[i].result.outcome != SMTP_OUT_NONE);
					check_result(&rcpts[i].result);
				}
			} else if (ev == SMTP_CEV_CLOSED) {
				closed = true;
				check_result(smtp_client_failure(c));
			} else if (ev == SMTP_CEV_SIGNED_IN || ev == SMTP_CEV_AUTH_FAILED) {
				must(asked && !ended);
				ended = true;
				must((ev == SMTP_CEV_SIGNED_IN) == (smtp_client_auth_fault(c) == SMTP_AUTH_NONE));
				if (ev == SMTP_CEV_AUTH_FAILED)
					check_result(smtp_client_failure(c));
			} else if (ev == SMTP_CEV_STARTTLS) {
				smtp_client_tls_started(c);
			} else if (ev == SMTP_CEV_READY) {
				if ((flags & 4) && !tls && smtp_client_starttls(c) == 0)
					tls = true;
				else if ((flags & 8) && !asked && smtp_client_auth(c, &auth) == 0)
					asked = true;
				else if (sent < 3 && smtp_client_send(c, &m) == 0)
					sent++;
				else
					must(smtp_client_quit(c) == 0);
			}
		}
		while ((n = smtp_client_out(c, seg))) {
			size_t total = 0;
			must(n <= SMTP_CLIENT_SEGMENTS);
			for (size_t i = 0; i < n; i++)
				for (size_t k = 0; k < seg[i].n; k++, total++) {
					must((seg[i].p[k] == '\n') == (last == '\r' && seg[i].p[k] == '\n'));
					must(last != '\r' || seg[i].p[k] == '\n');
					must(seg[i].p[k] != 0);
					mails += last == 'M' && seg[i].p[k] == 'A' && before == '\n';
					before = last;
					last = seg[i].p[k];
				}
			must(total > 0);
			smtp_client_sent(c, total);
		}
		if (closed)
			break;
		must(last == '\n' && before == '\r');
		if (at < size)
			smtp_client_feed(c, (const char *)data + at, size - at < step ? size - at : step);
		else
			smtp_client_lost(c, NULL);
	}
	must(done == sent);
	must(!smtp_client_limits(c).mail_max || mails <= sent);
	smtp_client_free(c);
	return 0;
}
