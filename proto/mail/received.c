/* Writes the Received field. All octets of the peer pass shown(), which lets through only what the grammar has room
 * for; the fold writer refuses controls once more. */
#include "received.h"

#include "date.h"
#include "header.h"

enum { NAME_MAX_SHOWN = 255, RCPT_MAX_SHOWN = 320 };

/* s without anything that could end a clause, open a comment or start a line. */
static void shown(struct buf *out, struct str s, bool utf8)
{
	if (s.n > NAME_MAX_SHOWN)
		s.n = NAME_MAX_SHOWN;
	utf8 = utf8 && str_is_utf8(s);
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		bool ok = c > 127 ? utf8 : c > 32 && c < 127 && !strchr("()<>;\\\",", c);
		buf_addc(out, ok ? (char)c : '?');
	}
}

/* An address is shown whole or not at all: a changed one would name somebody else. */
static bool rcpt_fit(struct str a, bool utf8)
{
	if (!a.n || a.n > RCPT_MAX_SHOWN || !(utf8 ? str_is_utf8(a) : str_is_ascii(a)))
		return false;
	for (size_t i = 0; i < a.n; i++)
		if ((unsigned char)a.p[i] < 32 || a.p[i] == 127 || a.p[i] == '<' || a.p[i] == '>')
			return false;
	return true;
}

/* "from NAME (…)": the client. */
static void write_client(struct mail_fold *f, struct buf *b, const struct mail_received *r)
{
	mail_fold_piece(f, STR("from"));
	buf_reset(b);
	if (r->helo.n)
		shown(b, r->helo, r->utf8);
	else
		buf_addz(b, "unknown");
	mail_fold_piece(f, buf_str(b));
	buf_reset(b);
	buf_addc(b, '(');
	if (r->ip.n) {
		if (r->rdns.n) {
			shown(b, r->rdns, false);
			buf_addc(b, ' ');
		}
		/* TCP-info is an address literal (RFC 5321 §4.1.3) */
		buf_addz(b, str_chr(r->ip, ':') >= 0 ? "[IPv6:" : "[");
		shown(b, r->ip, false);
		buf_addz(b, "])");
		mail_fold_piece(f, buf_str(b));
	} else if (r->user.n) {
		struct str rest = r->user, word;
		while (str_word(&rest, " ", &word)) {
			if (b->n > 1)
				buf_addc(b, ' ');
			shown(b, word, false);
		}
		buf_addc(b, ')');
		mail_fold_piece(f, buf_str(b));
	}
}

/* "(using …)" */
static void write_tls(struct mail_fold *f, struct buf *b, struct str tls)
{
	struct str word;
	mail_fold_piece(f, STR("(using"));
	while (str_word(&tls, " ", &word)) {
		buf_reset(b);
		shown(b, word, false);
		mail_fold_piece(f, buf_str(b));
	}
	mail_fold_glue(f, STR(")"));
}

/* Two words: a clause of the field. */
static void write_clause(struct mail_fold *f, struct buf *b, struct str name, struct str value, bool utf8)
{
	mail_fold_piece(f, name);
	buf_reset(b);
	shown(b, value, utf8);
	mail_fold_piece(f, buf_str(b));
}

int mail_received_write(struct buf *out, const struct mail_received *r)
{
	struct mail_fold f;
	struct buf b = BUF_INIT(2048);
	mail_fold_begin(&f, out, STR("Received"));
	if (r->helo.n || r->ip.n)
		write_client(&f, &b, r);
	if (r->tls.n)
		write_tls(&f, &b, r->tls);
	mail_fold_newline(&f);
	write_clause(&f, &b, STR("by"), r->hostname, r->utf8);
	if (r->protocol.n)
		write_clause(&f, &b, STR("with"), r->protocol, false);
	if (r->id.n)
		write_clause(&f, &b, STR("id"), r->id, false);
	if (rcpt_fit(r->rcpt, r->utf8)) {
		buf_reset(&b);
		buf_addz(&b, "for <");
		buf_adds(&b, r->rcpt);
		buf_addc(&b, '>');
		mail_fold_piece(&f, buf_str(&b));
	}
	mail_fold_glue(&f, STR(";"));
	buf_reset(&b);
	mail_date_write(&b, r->time_us, r->offset_min);
	mail_fold_piece(&f, buf_str(&b));
	int bad = b.failed ? -1 : 0;
	buf_free(&b);
	return mail_fold_end(&f) || bad ? -1 : 0;
}

/* Takes a word, or a comment with its parentheses, off *rest. False: at the end, or ";" begins the date. */
static bool next_word(struct str *rest, struct str *ret)
{
	size_t n = 0, depth = 0;
	while (rest->n && (rest->p[0] == ' ' || rest->p[0] == '\t'))
		*rest = str_skip(*rest, 1);
	if (!rest->n || rest->p[0] == ';')
		return false;
	bool comment = rest->p[0] == '(';
	for (; n < rest->n; n++) {
		char c = rest->p[n];
		if (comment ? depth == 1 && c == ')' : c == ' ' || c == '\t' || c == ';' || c == '(')
			break;
		if (comment && c == '\\' && n + 1 < rest->n)
			n++;
		else if (comment)
			depth += c == '(' ? 1 : c == ')' ? (size_t)-1 : 0;
	}
	n += comment && n < rest->n; /* its last parenthesis */
	*ret = str_n(rest->p, n);
	*rest = str_skip(*rest, n);
	return true;
}

/* "(name [IPv6:2001:db8::1])" */
static void read_client(struct str comment, struct mail_received *ret)
{
	ptrdiff_t open = str_chr(comment, '['), close = str_chr(comment, ']');
	if (open < 0 || close < open)
		return;
	struct str ip = str_n(comment.p + open + 1, (size_t)(close - open - 1)), name = str_trim(str_n(comment.p + 1, (size_t)open - 1));
	ret->ip = str_istarts(ip, STR("IPv6:")) ? str_skip(ip, 5) : ip;
	ret->rdns = name;
}

int mail_received_read(struct str value, struct mail_received *ret)
{
	static const struct str keys[] = { STR_INIT("from"), STR_INIT("by"), STR_INIT("with"), STR_INIT("id") };
	struct mail_received r = { .time_us = 0 };
	struct str *into[] = { &r.helo, &r.hostname, &r.protocol, &r.id }, rest = value, word;
	struct str *want = NULL, *last = NULL;
	while (next_word(&rest, &word)) {
		if (word.p[0] == '(') {
			if (last == &r.helo && !r.ip.n)
				read_client(word, &r);
			continue;
		}
		if (want) {
			*want = word;
			last = want;
			want = NULL;
			continue;
		}
		last = NULL;
		for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++)
			if (str_ieq(word, keys[i]) && !into[i]->n)
				want = into[i];
	}
	if (!r.hostname.n)
		return -1;
	*ret = r;
	return 0;
}

size_t mail_received_count(struct str headers, size_t most)
{
	return mail_field_count(headers, STR("Received"), most);
}
