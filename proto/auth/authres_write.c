/* Writing our Authentication-Results field. */
#include "proto/auth/authres.h"
#include "proto/auth/authres_scan.h"

#include "proto/mail/header.h"

static bool all(struct str s, bool (*ok)(char))
{
	for (size_t i = 0; i < s.n; i++)
		if (!ok(s.p[i]))
			return false;
	return s.n > 0;
}

/* [[local-part] "@"] domain-name of nothing but token octets */
static bool is_address(struct str s)
{
	ptrdiff_t at = str_chr(s, '@');
	return at >= 0 && (at == 0 || all(str_n(s.p, (size_t)at), authres_is_token)) &&
	    all(str_skip(s, (size_t)at + 1), authres_is_token);
}

static char safe(char c, bool utf8)
{
	unsigned char u = (unsigned char)c;
	return u < 32 || u == 127 || (u > 127 && !utf8) ? '?' : c;
}

/* Text with its open and close marks and backslashes escaped. */
static void put_quoted(struct buf *b, struct str s, char open, char close, bool utf8)
{
	buf_addc(b, open);
	for (size_t i = 0, from = 0; i <= s.n; i++) {
		bool escaped = i < s.n && (s.p[i] == open || s.p[i] == close || s.p[i] == '\\');
		if (i < s.n && !escaped && safe(s.p[i], utf8) == s.p[i])
			continue;
		buf_add(b, s.p + from, i - from);
		if (escaped)
			buf_addc(b, '\\');
		if (i < s.n)
			buf_addc(b, safe(s.p[i], utf8));
		from = i + 1;
	}
	buf_addc(b, close);
}

static void put_value(struct buf *b, struct str s, bool utf8)
{
	utf8 = utf8 && str_is_utf8(s);
	if ((utf8 || str_is_ascii(s)) && (all(s, authres_is_token) || is_address(s)))
		buf_adds(b, s);
	else
		put_quoted(b, s, '"', '"', utf8);
}

static bool is_keyword(struct str s)
{
	return s.n > 0 && s.n < 64 && authres_keyword(s) == s.n;
}

static void put_prop(struct mail_fold *f, const struct authres_prop *p, struct buf *b, bool utf8)
{
	f->bad |= !is_keyword(p->ptype) || !is_keyword(p->name);
	if (f->bad || !p->value.p || p->value.n > AUTHRES_VALUE_MAX)
		return;
	buf_reset(b);
	buf_adds(b, p->ptype);
	buf_addc(b, '.');
	buf_adds(b, p->name);
	buf_addc(b, '=');
	put_value(b, p->value, utf8);
	f->bad |= b->failed;
	mail_fold_piece(f, buf_str(b));
}

static void put_result(struct mail_fold *f, const struct authres_result *r, struct buf *b, bool utf8)
{
	f->bad |= !is_keyword(r->method) || !is_keyword(r->result) || r->n_props > AUTHRES_PROPS_MAX;
	if (f->bad)
		return;
	mail_fold_glue(f, STR(";"));
	mail_fold_newline(f);
	buf_reset(b);
	buf_adds(b, r->method);
	if (r->version != 1 && r->version)
		buf_addf(b, "/%u", r->version);
	buf_addc(b, '=');
	buf_adds(b, r->result);
	mail_fold_piece(f, buf_str(b));
	if (r->comment.n && r->comment.n <= AUTHRES_VALUE_MAX) {
		buf_reset(b);
		put_quoted(b, r->comment, '(', ')', utf8 && str_is_utf8(r->comment));
		mail_fold_piece(f, buf_str(b));
	}
	if (r->reason.p && r->reason.n <= AUTHRES_VALUE_MAX) {
		buf_reset(b);
		buf_addz(b, "reason=");
		put_value(b, r->reason, utf8);
		mail_fold_piece(f, buf_str(b));
	}
	f->bad |= b->failed;
	for (size_t i = 0; i < r->n_props; i++)
		put_prop(f, &r->prop[i], b, utf8);
}

int authres_write(struct buf *out, struct str id, const struct authres_result *result, size_t n, bool utf8)
{
	struct mail_fold f;
	struct buf b = BUF_INIT(4096);
	size_t before = out->n;
	mail_fold_begin(&f, out, STR("Authentication-Results"));
	f.bad |= !id.n || id.n > AUTHRES_VALUE_MAX || !all(id, authres_is_token) || (!utf8 && !str_is_ascii(id));
	mail_fold_piece(&f, id);
	for (size_t i = 0; i < n; i++)
		put_result(&f, &result[i], &b, utf8);
	if (!n) {
		mail_fold_glue(&f, STR(";"));
		mail_fold_piece(&f, STR("none"));
	}
	buf_free(&b);
	if (mail_fold_end(&f) == 0)
		return 0;
	if (out->n > before) {
		out->n = before;
		out->p[before] = 0;
	}
	return -1;
}
