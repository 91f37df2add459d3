/* From the octets a program wrote on standard input to header and body as SMTP carries them. Pure; one pass over the input, one
 * over the header fields. */
#include "submit.h"

#include "proto/mail/date.h"
#include "proto/mail/header.h"

const char *submit_fault_text(enum submit_fault f)
{
	switch (f) {
	case SUBMIT_OK:
		break;
	case SUBMIT_TOO_LARGE:
		return "the message is larger than MESSAGE_SIZE_LIMIT";
	case SUBMIT_MEMORY:
		return "out of memory";
	case SUBMIT_HEADER_CR:
		return "a carriage return stands inside a header line";
	case SUBMIT_HEADER_NUL:
		return "a NUL octet stands in the header";
	case SUBMIT_HEADER_LARGE:
		return "the header is larger than 1 MiB";
	case SUBMIT_TOO_MANY:
		return "more than 10000 recipients";
	}
	return "no fault";
}

/* The next line of *rest without its end, CRs before the LF included. */
static struct str take_line(struct str *rest)
{
	ptrdiff_t lf = str_chr(*rest, '\n');
	struct str line = lf < 0 ? *rest : str_n(rest->p, (size_t)lf);
	*rest = lf < 0 ? str_skip(*rest, rest->n) : str_skip(*rest, (size_t)lf + 1);
	while (line.n && line.p[line.n - 1] == '\r')
		line.n--;
	return line;
}

/* Header lines up to the empty one, or to the first that is none. *rest: where the body begins. */
static enum submit_fault take_header(struct buf *out, struct str *rest)
{
	bool first = true;
	while (rest->n) {
		struct str at = *rest, line = take_line(rest);
		if (first && str_starts(line, STR("From "))) {
			first = false;
			continue;
		}
		first = false;
		if (!line.n)
			break;
		bool folded = (line.p[0] == ' ' || line.p[0] == '\t') && out->n;
		if (!folded && !mail_field_line_ok(line)) {
			*rest = at;
			break;
		}
		if (str_chr(line, '\r') >= 0)
			return SUBMIT_HEADER_CR;
		if (str_chr(line, 0) >= 0)
			return SUBMIT_HEADER_NUL;
		/* a fold of nothing but blanks would end the header for those who trim */
		if (folded && !str_trim(line).n)
			continue;
		if (buf_adds(out, line) || buf_add(out, "\r\n", 2))
			return SUBMIT_HEADER_LARGE;
	}
	return SUBMIT_OK;
}

static enum submit_fault take_body(struct buf *out, struct str rest)
{
	for (size_t i = 0; i < rest.n;) {
		size_t from = i;
		while (i < rest.n && rest.p[i] != '\r' && rest.p[i] != '\n' && rest.p[i])
			i++;
		buf_add(out, rest.p + from, i - from);
		if (i == rest.n)
			break;
		if (!rest.p[i]) {
			buf_addc(out, '?');
			i++;
			continue;
		}
		size_t end = i;
		while (end < rest.n && rest.p[end] == '\r')
			end++;
		if (end < rest.n && rest.p[end] == '\n')
			i = end + 1; /* any CRs before an LF belong to it */
		else
			i++;         /* a CR of its own ends a line */
		buf_add(out, "\r\n", 2);
	}
	if (out->n && out->p[out->n - 1] != '\n')
		buf_add(out, "\r\n", 2);
	return out->failed ? SUBMIT_TOO_LARGE : SUBMIT_OK;
}

/* What the header has. */
struct seen {
	bool resent, from, date, id, resent_from, resent_date, resent_id;
};

static void look(struct str headers, struct seen *s)
{
	struct mail_field f;
	int r;
	*s = (struct seen){ false };
	while ((r = mail_field_next(&headers, &f))) {
		if (r < 0)
			continue;
		struct str name = str_trim(f.name);
		s->from = s->from || str_ieq(name, STR("From"));
		s->date = s->date || str_ieq(name, STR("Date"));
		s->id = s->id || str_ieq(name, STR("Message-ID"));
		s->resent = s->resent || str_istarts(name, STR("Resent-"));
		s->resent_from = s->resent_from || str_ieq(name, STR("Resent-From"));
		s->resent_date = s->resent_date || str_ieq(name, STR("Resent-Date"));
		s->resent_id = s->resent_id || str_ieq(name, STR("Resent-Message-ID"));
	}
}

static bool names_recipients(struct str name, bool resent)
{
	if (resent != str_istarts(name, STR("Resent-")))
		return false;
	if (resent)
		name = str_skip(name, 7);
	return str_ieq(name, STR("To")) || str_ieq(name, STR("Cc")) || str_ieq(name, STR("Bcc"));
}

static bool stays(struct str name)
{
	return !str_ieq(name, STR("Bcc")) && !str_ieq(name, STR("Resent-Bcc")) && !str_ieq(name, STR("Return-Path"));
}

/* A phrase (RFC 5322 §3.2.5) of any name: quoted where it has to be; RFC 2047 where it is not ASCII. */
static void put_name(struct buf *out, struct str name)
{
	bool quote = false;
	if (!str_is_ascii(name)) {
		static const char hex[] = "0123456789ABCDEF";
		buf_addz(out, "=?utf-8?Q?");
		for (size_t i = 0; i < name.n; i++) {
			unsigned char c = (unsigned char)name.p[i];
			if (ascii_is_alpha((char)c)) {
				buf_addc(out, (char)c);
			} else {
				buf_addc(out, '=');
				buf_addc(out, hex[c >> 4]);
				buf_addc(out, hex[c & 15]);
			}
		}
		buf_addz(out, "?= ");
		return;
	}
	for (size_t i = 0; i < name.n; i++)
		quote = quote || strchr("()<>[]:;@\\,.\"", name.p[i]);
	if (quote)
		buf_addc(out, '"');
	for (size_t i = 0; i < name.n; i++) {
		if (name.p[i] == '"' || name.p[i] == '\\')
			buf_addc(out, '\\');
		buf_addc(out, name.p[i]);
	}
	buf_addz(out, quote ? "\" " : " ");
}

static void put_from(struct buf *out, struct str field, const struct submit_options *o)
{
	struct buf value = BUF_INIT(4096);
	struct str name = o->full_name, from = o->from.n ? o->from : o->from_header;
	if (name.n > 50) /* an encoded word is no longer than 75 (RFC 2047 §2); a name seldom is */
		name.n = 0;
	for (size_t i = 0; i < name.n; i++)
		if ((unsigned char)name.p[i] < 32 || name.p[i] == 127)
			name.n = 0;
	if (!str_is_utf8(name) || (!str_is_ascii(name) && name.n > 18))
		name.n = 0;
	if (name.n)
		put_name(&value, name);
	if (name.n)
		buf_addc(&value, '<');
	buf_adds(&value, from);
	if (name.n)
		buf_addc(&value, '>');
	mail_field_write(out, field, buf_str(&value));
	buf_free(&value);
}

static void put_date(struct buf *out, struct str field, const struct submit_options *o)
{
	struct buf value = BUF_INIT(128);
	mail_date_write(&value, o->now_us, o->offset_min);
	mail_field_write(out, field, buf_str(&value));
	buf_free(&value);
}

static void put_id(struct buf *out, struct str field, const struct submit_options *o)
{
	struct buf value = BUF_INIT(1024);
	buf_addf(&value, "<%s@%s>", o->unique, o->host);
	mail_field_write(out, field, buf_str(&value));
	buf_free(&value);
}

static void add_missing(struct buf *out, const struct seen *s, const struct submit_options *o)
{
	if (s->resent && !s->resent_from)
		put_from(out, STR("Resent-From"), o);
	if (s->resent && !s->resent_date)
		put_date(out, STR("Resent-Date"), o);
	if (s->resent && !s->resent_id)
		put_id(out, STR("Resent-Message-ID"), o);
	if (!s->from)
		put_from(out, STR("From"), o);
	if (!s->date)
		put_date(out, STR("Date"), o);
	if (!s->id)
		put_id(out, STR("Message-ID"), o);
}

enum submit_fault submit_prepare(struct submit_message *m, struct submit_addresses *rcpts, struct str raw, const struct submit_options *o)
{
	struct buf head = BUF_INIT(SUBMIT_HEADER_MAX);
	struct mail_field f;
	struct seen seen;
	enum submit_fault fault = take_header(&head, &raw);
	if (!fault)
		fault = take_body(&m->body, raw);
	look(buf_str(&head), &seen);
	if (!fault)
		add_missing(&m->headers, &seen, o);
	struct str rest = buf_str(&head);
	for (int r; !fault && (r = mail_field_next(&rest, &f));) {
		if (r < 0) /* take_header() lets none through */
			continue;
		struct str name = str_trim(f.name);
		if (o->extract && names_recipients(name, seen.resent) && submit_addresses_add(rcpts, f.value, o->host))
			fault = SUBMIT_TOO_MANY;
		if (stays(name))
			buf_adds(&m->headers, f.all);
	}
	if (!fault && m->headers.failed)
		fault = SUBMIT_HEADER_LARGE;
	m->eight = !str_is_ascii(buf_str(&m->headers)) || !str_is_ascii(buf_str(&m->body));
	buf_free(&head);
	return fault;
}
