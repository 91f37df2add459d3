/* Topic identity: whole messages of all suites, whatever they are about. Reading and writing must not change them: headers and body put together again
 * are the message, fields put together again are the headers, parts the message; and an address list that was read and written reads the same and
 * is written the same. Each message is taken as it is in its file, and with CR LF at its line ends. */
#include "vectors.h"

#include "proto/mail/addrlist.h"
#include "proto/mail/header.h"
#include "proto/mail/mime.h"
#include "proto/mail/split.h"

#include <stdio.h>

static bool same_addresses(const struct mail_addrlist *a, const struct mail_addrlist *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++) {
		const struct mail_address *x = &a->item[i], *y = &b->item[i];
		if (x->kind != y->kind || x->group != y->group || !str_eq(x->name, y->name) || !str_eq(x->comment, y->comment) || !str_eq(x->local, y->local) ||
		    !str_eq(x->domain, y->domain) || x->valid != y->valid)
			return false;
	}
	return true;
}

/* false: something changed; why is told. Lists that are bad, or hold what is no address, cannot be written as they are. */
static bool list(struct str name, struct str value, struct buf *why)
{
	struct buf out = BUF_INIT(8 << 20), again = BUF_INIT(8 << 20);
	struct mail_addrlist a = { 0 }, b = { 0 };
	struct mail_field f;
	bool ok = true, plain = mail_addrlist_parse(&a, value) == 0 && !a.bad && a.n;
	for (size_t i = 0; plain && i < a.n; i++)
		plain = a.item[i].kind != MAIL_ADDR_MAILBOX || a.item[i].valid;
	if (plain && !mail_addrlist_write(&out, name, &a, true)) {
		struct str rest = buf_str(&out);
		ok = mail_headers_sendable(rest) && mail_field_next(&rest, &f) == 1 && !rest.n && mail_addrlist_parse(&b, f.value) == 0 && !b.bad && same_addresses(&a, &b) &&
		    !mail_addrlist_write(&again, name, &b, true) && str_eq(buf_str(&out), buf_str(&again));
		if (!ok) {
			buf_addf(why, " %.*s:", STR_ARG(name));
			buf_adds(why, value);
			buf_addz(why, " became ");
			buf_adds(why, buf_str(&out));
		}
	}
	mail_addrlist_free(&a);
	mail_addrlist_free(&b);
	buf_free(&out);
	buf_free(&again);
	return ok;
}

static bool fields(struct str headers, struct buf *why)
{
	static const struct str lists[] = { STR_INIT("From"), STR_INIT("Sender"), STR_INIT("Reply-To"), STR_INIT("To"), STR_INIT("Cc"), STR_INIT("Bcc"), STR_INIT("Resent-From"),
		STR_INIT("Resent-To"), STR_INIT("Return-Path"), STR_INIT("Delivered-To") };
	struct str rest = headers;
	struct mail_field f;
	bool ok = true;
	for (int r; (r = mail_field_next(&rest, &f)); ) {
		const char *expected = rest.p - f.all.n; /* each piece ends where the next begins */
		ok &= f.all.p == expected && f.all.n && (r < 0 || (f.name.p == f.all.p && f.value.p > f.name.p && f.value.p + f.value.n + 2 == f.all.p + f.all.n));
		for (size_t i = 0; r > 0 && i < sizeof lists / sizeof *lists; i++)
			if (str_ieq(f.name, lists[i]))
				ok &= list(f.name, f.value, why);
	}
	return ok && rest.p == headers.p + headers.n;
}

static bool one_form(struct str raw, struct buf *why)
{
	struct mail_split s;
	struct buf joined = BUF_INIT(raw.n + 8), written = BUF_INIT(raw.n + 8);
	struct mail_mime m;
	bool ok = true;
	mail_split(raw, &s);
	buf_adds(&joined, s.headers);
	if (s.separated)
		buf_addz(&joined, "\r\n");
	buf_adds(&joined, s.body);
	if (!str_eq(buf_str(&joined), raw)) {
		buf_addz(why, " headers and body are not the message;");
		ok = false;
	}
	if (!s.unterminated && !fields(s.headers, why)) {
		buf_addz(why, " fields are not the headers;");
		ok = false;
	}
	if (mail_mime_parse(&m, raw, true) || mail_mime_write(&m, NULL, NULL, &written) || !str_eq(buf_str(&written), raw)) {
		buf_addz(why, " parts are not the message;");
		ok = false;
	}
	mail_mime_free(&m);
	buf_free(&joined);
	buf_free(&written);
	return ok;
}

void topic_identity(const char *file, struct json_object *one, struct verdict *v)
{
	(void)file;
	struct buf raw = BUF_INIT(64 << 20), crlf = BUF_INIT(128 << 20), why = BUF_INIT(1 << 20);
	FILE *f = fopen(vectors_str(one, "path").p, "rbe");
	char block[8192];
	size_t n;
	while (f && (n = fread(block, 1, sizeof block, f)))
		buf_add(&raw, block, n);
	if (f)
		fclose(f);
	for (size_t i = 0; i < raw.n; i++) {
		if (raw.p[i] == '\n' && (!i || raw.p[i - 1] != '\r'))
			buf_addc(&crlf, '\r');
		buf_addc(&crlf, raw.p[i]);
	}
	v->ok = f && !raw.failed && !crlf.failed && one_form(buf_str(&raw), &why) && one_form(buf_str(&crlf), &why);
	buf_addz(&v->expected, "the same");
	vectors_escape(f ? buf_str(&why) : STR("no file"), &v->got);
	buf_free(&raw);
	buf_free(&crlf);
	buf_free(&why);
}
