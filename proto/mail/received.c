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

int mail_received_write(struct buf *out, const struct mail_received *r)
{
	struct mail_fold f;
	struct buf b = BUF_INIT(2048);
	mail_fold_begin(&f, out, STR("Received"));
	if (r->helo.n || r->ip.n) {
		mail_fold_piece(&f, STR("from"));
		if (r->helo.n)
			shown(&b, r->helo, r->utf8);
		else
			buf_addz(&b, "unknown");
		mail_fold_piece(&f, buf_str(&b));
		if (r->ip.n) {
			buf_reset(&b);
			buf_addc(&b, '(');
			if (r->rdns.n) {
				shown(&b, r->rdns, false);
				buf_addc(&b, ' ');
			}
			/* TCP-info is an address literal (RFC 5321 §4.1.3) */
			buf_addz(&b, str_chr(r->ip, ':') >= 0 ? "[IPv6:" : "[");
			shown(&b, r->ip, false);
			buf_addz(&b, "])");
			mail_fold_piece(&f, buf_str(&b));
		} else if (r->user.n) {
			struct str rest = r->user, word;
			buf_reset(&b);
			buf_addc(&b, '(');
			while (str_word(&rest, " ", &word)) {
				if (b.n > 1)
					buf_addc(&b, ' ');
				shown(&b, word, false);
			}
			buf_addc(&b, ')');
			mail_fold_piece(&f, buf_str(&b));
		}
	}
	if (r->tls.n) {
		buf_reset(&b);
		buf_addz(&b, "(using");
		mail_fold_piece(&f, buf_str(&b));
		struct str rest = r->tls, word;
		while (str_word(&rest, " ", &word)) {
			buf_reset(&b);
			shown(&b, word, false);
			mail_fold_piece(&f, buf_str(&b));
		}
		mail_fold_glue(&f, STR(")"));
	}
	mail_fold_newline(&f);
	mail_fold_piece(&f, STR("by"));
	buf_reset(&b);
	shown(&b, r->hostname, r->utf8);
	mail_fold_piece(&f, buf_str(&b));
	if (r->protocol.n) {
		mail_fold_piece(&f, STR("with"));
		buf_reset(&b);
		shown(&b, r->protocol, false);
		mail_fold_piece(&f, buf_str(&b));
	}
	if (r->id.n) {
		mail_fold_piece(&f, STR("id"));
		buf_reset(&b);
		shown(&b, r->id, false);
		mail_fold_piece(&f, buf_str(&b));
	}
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

size_t mail_received_count(struct str headers, size_t most)
{
	return mail_field_count(headers, STR("Received"), most);
}
