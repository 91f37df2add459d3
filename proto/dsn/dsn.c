/* Puts a report together: header block, three parts, a boundary that occurs in none of them. */
#include "dsn_internal.h"
#include "proto/mail/addrlist.h"
#include "proto/mail/date.h"
#include "proto/mail/encoded.h"
#include "proto/mail/header.h"
#include "proto/mail/transfer.h"

#include <stdio.h>

const char *dsn_status(const struct dsn_rcpt *r, enum dsn_kind kind, char room[16])
{
	static const char *const classes[] = { "5.0.0", "4.0.0", "2.0.0", "2.0.0", "2.0.0" };
	bool fits = dsn_status_ok(r->status) && r->status.n < 16;
	/* a failure after too much time is 4.4.7 and still a failure; success and failure must not be mixed up */
	if (fits && kind == DSN_FAILED)
		fits = r->status.p[0] != '2';
	else if (fits && kind == DSN_DELAYED)
		fits = r->status.p[0] == '4';
	else if (fits)
		fits = r->status.p[0] == '2';
	if (!fits)
		return classes[kind];
	memcpy(room, r->status.p, r->status.n);
	room[r->status.n] = 0;
	return room;
}

/* Can the octets be part of a message as they are: CRLF lines, no NUL? *eight is set when any is above 127. */
static bool clean(struct str s, bool *eight)
{
	bool ok = true;
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (c > 127)
			*eight = true;
		else if (!c || (c == '\n' && (!i || s.p[i - 1] != '\r')) || (c == '\r' && (i + 1 == s.n || s.p[i + 1] != '\n')))
			ok = false;
	}
	return ok;
}

/* The header block as text, whatever it holds: lines ended by any of CR, LF, CRLF, at most max octets, cut at a line. */
static void headers_part(struct buf *out, struct str h, size_t max, bool *eight)
{
	size_t start = out->n;
	if (h.n > max) {
		h.n = max;
		while (h.n && h.p[h.n - 1] != '\n')
			h.n--;
	}
	for (size_t i = 0; i < h.n; i++) {
		unsigned char c = (unsigned char)h.p[i];
		if (c == '\r' || c == '\n') {
			i += c == '\r' && i + 1 < h.n && h.p[i + 1] == '\n';
			buf_add(out, "\r\n", 2);
		} else {
			buf_addc(out, c ? (char)c : '?');
			*eight |= c > 127;
		}
	}
	if (out->n > start && out->p[out->n - 1] != '\n')
		buf_add(out, "\r\n", 2);
}

/* A message id we may refer to: "<…@…>", one word of printable ASCII. */
static bool message_id(struct buf *out, struct str headers)
{
	struct mail_field f;
	if (mail_field_find(headers, STR("Message-ID"), 0, &f) || f.value.n > DSN_TEXT_MAX || mail_field_unfold(out, f.value))
		return false;
	struct str s = buf_str(out);
	if (s.n < 5 || s.p[0] != '<' || s.p[s.n - 1] != '>' || str_chr(s, '@') < 0)
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= 32 || s.p[i] > 126)
			return false;
	return true;
}

static uint64_t mix(uint64_t h, struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		h = (h ^ (unsigned char)s.p[i]) * UINT64_C(1099511628211); /* FNV-1a */
	return h;
}

static bool occurs(const struct buf *b, const char *text)
{
	return b->n && memmem(b->p, b->n, text, strlen(text));
}

/* Deterministic, so that a pass repeated after a crash writes the same report; counted on while it occurs in a part. */
static void boundary(char *out, size_t size, const struct dsn *d, const struct buf *parts, size_t n)
{
	uint64_t h = mix(UINT64_C(14695981039346656037), d->id) ^ (uint64_t)d->now_us * UINT64_C(0x9e3779b97f4a7c15);
	for (;; h++) {
		bool again = false;
		snprintf(out, size, "=_dsn_%016llx", (unsigned long long)h);
		for (size_t i = 0; i < n; i++)
			again |= occurs(&parts[i], out);
		if (!again)
			return;
	}
}

static void field(struct buf *out, const char *name, const struct buf *value)
{
	if (value->failed || mail_field_write(out, str_from(name), buf_str(value)))
		out->failed = true;
}

/* A text of the language as a field; what it names (a host, say) is anything. */
static void words_field(struct buf *out, const char *name, const struct dsn_words *w, const char *text, const struct str *values, bool utf8)
{
	struct buf b = BUF_INIT(4 * DSN_TEXT_MAX);
	dsn_words_fill(&b, w, text, values);
	if (b.failed || mail_encoded_field(out, str_from(name), buf_str(&b), utf8))
		out->failed = true;
	buf_free(&b);
}

static void from_field(struct buf *out, const struct dsn *d, const struct dsn_words *w, const struct str *values, bool utf8)
{
	struct buf name = BUF_INIT(4 * DSN_TEXT_MAX), b = BUF_INIT(4 * DSN_TEXT_MAX);
	dsn_words_fill(&name, w, "from", values);
	if (d->from.n) {
		buf_adds(&b, d->from);
	} else {
		buf_addz(&b, "MAILER-DAEMON@");
		dsn_text(&b, d->hostname, utf8, 255);
	}
	if (name.failed || b.failed || mail_addrlist_write_one(out, STR("From"), buf_str(&name), buf_str(&b), utf8)) {
		/* a host name that is none */
		buf_reset(&b);
		buf_addz(&b, "Mail Delivery System <MAILER-DAEMON@");
		dsn_text(&b, d->hostname, utf8, 255);
		buf_addc(&b, '>');
		field(out, "From", &b);
	}
	buf_free(&name);
	buf_free(&b);
}

static void header_block(struct buf *out, const struct dsn *d, const struct dsn_words *w, const char *bound, const struct dsn_form *form)
{
	static const char *const subjects[] = { "subject.failed", "subject.delayed", "subject.success", "subject.success", "subject.success" };
	struct buf b = BUF_INIT(4 * DSN_TEXT_MAX), made = BUF_INIT(4 * DSN_TEXT_MAX);
	struct str values[DSN_VALUES];
	dsn_values(values, d, &made);
	from_field(out, d, w, values, form->utf8);
	buf_addc(&b, '<');
	buf_adds(&b, d->to);
	buf_addc(&b, '>');
	/* an address is one piece: the blanks of a quoted local part must not become folds */
	struct mail_fold f;
	mail_fold_begin(&f, out, STR("To"));
	mail_fold_piece(&f, buf_str(&b));
	if (b.failed || mail_fold_end(&f))
		out->failed = true;
	words_field(out, "Subject", w, subjects[d->kind], values, form->utf8);
	buf_reset(&b);
	mail_date_write(&b, d->now_us, 0);
	field(out, "Date", &b);
	buf_reset(&b);
	buf_addf(&b, "<%llx.", (unsigned long long)d->now_us);
	dsn_text(&b, d->id, false, 64);
	buf_addz(&b, ".dsn@");
	dsn_text(&b, d->hostname, form->utf8, 255);
	buf_addc(&b, '>');
	field(out, "Message-ID", &b);
	buf_reset(&b);
	if (message_id(&b, d->headers)) {
		field(out, "In-Reply-To", &b);
		field(out, "References", &b);
	}
	buf_reset(&b);
	buf_addz(&b, "auto-replied"); /* RFC 3834 §5 */
	field(out, "Auto-Submitted", &b);
	buf_addz(out, "MIME-Version: 1.0\r\n");
	buf_addf(out, "Content-Type: multipart/report; report-type=%s;\r\n\tboundary=\"%s\"\r\n",
	    form->utf8 ? "global-delivery-status" : "delivery-status", bound);
	buf_addf(out, "Content-Transfer-Encoding: %s\r\n", form->eight_bit ? "8bit" : "7bit");
	buf_free(&b);
	buf_free(&made);
}

struct part {
	const char *type, *what; /* what: a text's name */
	const struct buf *text;
	struct str language;
	bool qp; /* the text is quoted-printable already */
};

/* "--boundary", the part's own header, the part. */
static void part(struct buf *out, const char *bound, const struct dsn *d, const struct dsn_words *w, const struct part *p)
{
	bool eight = !str_is_ascii(buf_str(p->text));
	struct str values[DSN_VALUES];
	struct buf made = BUF_INIT(4 * DSN_TEXT_MAX);
	dsn_values(values, d, &made);
	buf_addf(out, "--%s\r\nContent-Type: %s\r\n", bound, p->type);
	words_field(out, "Content-Description", w, p->what, values, false);
	if (p->language.n && mail_field_write(out, STR("Content-Language"), p->language))
		out->failed = true;
	buf_addf(out, "Content-Transfer-Encoding: %s\r\n\r\n", p->qp ? "quoted-printable" : eight ? "8bit" : "7bit");
	buf_adds(out, buf_str(p->text));
	buf_add(out, "\r\n", 2);
	out->failed |= p->text->failed;
	buf_free(&made);
}

/* The part for people in the form that passes everywhere: itself where it is plain, else quoted-printable. Returns whether it was encoded. */
static bool encode(struct buf *text)
{
	struct buf qp = BUF_INIT(4 * (size_t)DSN_OVERHEAD_MAX);
	size_t line = 0, longest = 0;
	for (size_t i = 0; i < text->n; i++) {
		line = text->p[i] == '\n' ? 0 : line + 1;
		longest = line > longest ? line : longest;
	}
	if (longest <= MAIL_LINE_MAX && str_is_ascii(buf_str(text)))
		return false;
	bool failed = text->failed;
	if (mail_transfer_encode_qp(buf_str(text), &qp))
		failed = true;
	buf_free(text);
	*text = qp;
	text->failed = failed;
	return true;
}

/* Text that somebody else's texts are part of: English where there are none. NULL: no memory. */
static struct dsn_words *english(void)
{
	struct str tag, file;
	dsn_words_builtin(0, &tag, &file);
	return dsn_words_parse(file, NULL, NULL, NULL);
}

static bool any_utf8(const struct dsn *d)
{
	bool is = !str_is_ascii(d->headers);
	for (size_t i = 0; i < d->n_rcpts && !is; i++)
		is = !str_is_ascii(d->rcpts[i].address);
	return is;
}

/* The original, or its header. */
static void returned(struct buf *out, const struct dsn *d, bool full)
{
	bool eight = false;
	if (!full) {
		headers_part(out, d->headers, d->max_original, &eight);
		return;
	}
	buf_adds(out, d->headers);
	if (d->headers.n && (d->headers.n < 2 || d->headers.p[d->headers.n - 1] != '\n'))
		buf_add(out, "\r\n", 2);
	buf_add(out, "\r\n", 2);
	buf_adds(out, d->body);
}

int dsn_write(const struct dsn *d, struct buf *headers, struct buf *body, struct dsn_form *ret)
{
	struct dsn_form form = { 0 };
	size_t size = d->headers.n + d->body.n + 2;
	bool head8 = false, body8 = false;
	bool sendable = clean(d->headers, &head8);
	sendable = clean(d->body, &body8) && sendable; /* both are looked at, for their eighth bits */
	struct dsn_words *own = NULL;
	char bound[40];
	if (!d->to.n || !d->n_rcpts || (!d->words && !(own = english())))
		return -1;
	const struct dsn_words *w = d->words ? d->words : own;
	struct buf parts[3] = { BUF_INIT(DSN_OVERHEAD_MAX), BUF_INIT(DSN_OVERHEAD_MAX), BUF_INIT(DSN_OVERHEAD_MAX + d->max_original) };
	/* RFC 3461 §6.2: RET tells about failures only; other reports carry the headers */
	form.full = d->kind == DSN_FAILED && d->ret != 'H' && sendable && size <= d->max_original;
	/* RFC 6533 §1: where the sender's address or what is to be shown needs it; a report that does not goes further */
	form.utf8 = !str_is_ascii(d->to) || (d->smtputf8 && any_utf8(d));
	dsn_human_part(&parts[0], d, w, form.full);
	bool plain = str_is_ascii(buf_str(&parts[0])), qp = encode(&parts[0]);
	dsn_status_part(&parts[1], d, form.utf8);
	returned(&parts[2], d, form.full);
	for (int i = 0; i < 3; i++)
		form.eight_bit |= !str_is_ascii(buf_str(&parts[i]));
	boundary(bound, sizeof bound, d, parts, 3);
	header_block(headers, d, w, bound, &form);
	buf_addz(body, "This is a MIME message; a mail program shows its parts.\r\n\r\n");
	const struct part form_parts[3] = {
		{ plain ? "text/plain; charset=us-ascii" : "text/plain; charset=utf-8", "part.text", &parts[0], d->language, qp },
		{ form.utf8 ? "message/global-delivery-status" : "message/delivery-status", "part.status", &parts[1], STR_NULL, false },
		{ form.utf8 ? (form.full ? "message/global" : "message/global-headers") : form.full ? "message/rfc822" : "text/rfc822-headers",
		    form.full ? "part.message" : "part.headers", &parts[2], STR_NULL, false },
	};
	for (int i = 0; i < 3; i++)
		part(body, bound, d, w, &form_parts[i]);
	buf_addf(body, "--%s--\r\n", bound);
	for (int i = 0; i < 3; i++)
		buf_free(&parts[i]);
	dsn_words_free(own);
	if (ret)
		*ret = form;
	return headers->failed || body->failed ? -1 : 0;
}
