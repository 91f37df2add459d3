/* What of a header block is told in a failure report; see arf_write.h. A list of fields that are: what nobody thought of stays here. */
#include "proto/report/arf_write.h"

#include "proto/mail/addrlist.h"
#include "proto/mail/header.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

enum { FIELD_MAX = 4096, OCTETS_OF_LINE_MAX = 900 };

static bool told(struct str name, bool all)
{
	static const char *const names[] = { "Received", "DKIM-Signature", "ARC-Seal", "ARC-Message-Signature", "Date", "Message-ID", "MIME-Version", "Content-Type",
		"Content-Transfer-Encoding", "List-Id", "User-Agent", "X-Mailer" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (str_ieq(name, str_from(names[i])))
			return true;
	return all && str_ieq(name, STR("Subject"));
}

static bool is_author(struct str name)
{
	return str_ieq(name, STR("From")) || str_ieq(name, STR("Sender")) || str_ieq(name, STR("Reply-To"));
}

/* -- local parts */

static void put_local(struct str local, struct str domain, const struct arf_redaction *how, struct buf *out)
{
	unsigned char sum[32];
	unsigned n = 0;
	struct buf text = BUF_INIT(2 * FIELD_MAX);
	if (how->local == ARF_KEEP) {
		buf_adds(out, local);
		return;
	}
	for (size_t i = 0; i < local.n; i++)
		buf_addc(&text, ascii_lower(local.p[i]));
	buf_addc(&text, '@');
	for (size_t i = 0; i < domain.n; i++)
		buf_addc(&text, ascii_lower(domain.p[i]));
	if (how->local == ARF_DROP || text.failed ||
	    !HMAC(EVP_sha256(), how->key, sizeof how->key, (const unsigned char *)text.p, text.n, sum, &n)) {
		buf_addz(out, "redacted");
	} else {
		buf_addc(out, 'r');
		for (unsigned i = 0; i < 8; i++)
			buf_addf(out, "%02x", sum[i]);
	}
	buf_free(&text);
}

static bool domain_octet(char c)
{
	return ascii_is_alnum(c) || c == '-' || c == '.' || c == '_' || (unsigned char)c > 127;
}

static struct str domain_at(struct str s, size_t at)
{
	size_t end = at;
	while (end < s.n && domain_octet(s.p[end]))
		end++;
	return str_n(s.p + at, end - at);
}

int arf_redact_address(struct str address, const struct arf_redaction *how, struct buf *out)
{
	struct buf a = BUF_INIT(FIELD_MAX);
	ptrdiff_t at = -1;
	for (size_t i = address.n; i-- > 0 && at < 0;)
		if (address.p[i] == '@')
			at = (ptrdiff_t)i;
	if (at > 0) {
		struct str domain = domain_at(address, (size_t)at + 1);
		put_local(str_n(address.p, (size_t)at), domain, how, &a);
		buf_addc(&a, '@');
		buf_adds(&a, domain);
	}
	for (size_t i = 0; i < a.n; i++)
		if (a.p[i] <= ' ' || a.p[i] >= 0x7f || a.p[i] == '<' || a.p[i] == '>')
			a.p[i] = '?';
	int r = a.failed ? -1 : buf_adds(out, buf_str(&a));
	buf_free(&a);
	return r;
}

/* -- fields */

/* What may stand to the left of @: a quoted string, or all up to a blank or what parts addresses. Percent-encoded and routed forms (VERP, RFC 1123's
 * "a%b@c") are local parts as a whole. */
static size_t local_begin(struct str s, size_t at)
{
	size_t i = at;
	while (i) {
		if (s.p[i - 1] == '"') { /* "a b"@c, and of old a."b c"@d: back to where it opens */
			for (i--; i && (s.p[i - 1] != '"' || (i > 1 && s.p[i - 2] == '\\')); i--)
				;
			i -= i > 0;
		} else if (memchr(" \t\r\n<>(),;:[]", s.p[i - 1], 13)) {
			break;
		} else {
			i--;
		}
	}
	return i;
}

/* Every address in running text, wherever it stands. */
static void put_text(struct str value, const struct arf_redaction *how, struct buf *out)
{
	size_t from = 0;
	for (size_t i = 0; i < value.n && how->local != ARF_KEEP; i++) {
		if (value.p[i] != '@')
			continue;
		size_t begin = local_begin(value, i);
		if (begin < from) /* "a@b@c": told is nothing of it */
			begin = from;
		/* i=user@domain of a signature: the tag's name is no part of it */
		if (i - begin >= 2 && value.p[begin] == 'i' && value.p[begin + 1] == '=')
			begin += 2;
		struct str domain = domain_at(value, i + 1);
		buf_add(out, value.p + from, begin - from);
		if (i > begin)
			put_local(str_n(value.p + begin, i - begin), domain, how, out);
		buf_addc(out, '@');
		from = i + 1;
	}
	buf_adds(out, str_skip(value, from));
}

/* Addresses only, without names and comments; what is no list says nothing. */
static void put_author(struct str value, const struct arf_redaction *how, struct buf *out)
{
	struct mail_addrlist l;
	size_t n = 0;
	if (how->local == ARF_KEEP) {
		put_text(value, how, out);
		return;
	}
	buf_addc(out, ' ');
	if (mail_addrlist_parse(&l, value) == 0)
		for (size_t i = 0; i < l.n && n < 20; i++) {
			if (l.item[i].kind != MAIL_ADDR_MAILBOX || !l.item[i].valid)
				continue;
			buf_addz(out, n++ ? ",\r\n <" : "<");
			arf_redact_address(l.item[i].address, how, out);
			buf_addc(out, '>');
		}
	if (!n)
		buf_addz(out, "redacted");
	mail_addrlist_free(&l);
}

/* Only octets that may stand in a header of ours, and no line longer than may be. */
static void clean(struct buf *field)
{
	size_t line = 0;
	for (size_t i = 0; i < field->n; i++) {
		char *c = &field->p[i];
		bool end = *c == '\r' && i + 2 < field->n && c[1] == '\n' && (c[2] == ' ' || c[2] == '\t');
		if (end) {
			line = 0;
			i += 2;
			continue;
		}
		if ((*c < 0x20 && *c != '\t') || *c >= 0x7f)
			*c = '?';
		if (++line > OCTETS_OF_LINE_MAX) {
			field->n = i;
			field->p[i] = 0;
		}
	}
	while (field->n && memchr(" \t\r\n", field->p[field->n - 1], 4))
		field->p[--field->n] = 0;
}

int arf_redact_text(struct str text, const struct arf_redaction *how, struct buf *out)
{
	struct buf one = BUF_INIT(2 * FIELD_MAX);
	put_text(text, how, &one);
	if (one.n)
		clean(&one);
	int r = one.failed ? -1 : buf_adds(out, buf_str(&one));
	buf_free(&one);
	return r;
}

int arf_redact(struct str headers, const struct arf_redaction *how, struct buf *out)
{
	struct mail_field f;
	int r;
	while ((r = mail_field_next(&headers, &f))) {
		bool author = r == 1 && is_author(f.name);
		if (r != 1 || (!author && !told(f.name, how->local == ARF_KEEP)) || f.value.n > FIELD_MAX / 2)
			continue;
		struct buf one = BUF_INIT(2 * FIELD_MAX);
		buf_adds(&one, f.name);
		buf_addc(&one, ':');
		(author ? put_author : put_text)(f.value, how, &one);
		clean(&one);
		bool fits = !one.failed && out->n + one.n + 2 <= ARF_TOLD_MAX;
		if (fits) {
			buf_adds(out, buf_str(&one));
			buf_addz(out, "\r\n");
		}
		buf_free(&one);
		if (!fits && !out->failed)
			continue;
	}
	return out->failed ? -1 : 0;
}
