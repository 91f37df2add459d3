/* The head of a part written anew (downgrade.h): fields as ASCII, the encoding, what MIME wants beside it. Knows nothing of other parts. */
#include "proto/mail/downgrade.h"

#include "proto/mail/ascii.h"
#include "proto/mail/charset.h"

#include <stdio.h>

void mail_downgrade_fail(struct mail_downgrade *d, enum mail_downgrade_fault fault, const char *status, const char *fmt, ...)
{
	char raw[sizeof d->why];
	struct buf clean = BUF_INIT(sizeof raw * 4);
	va_list ap;
	if (d->fault != MAIL_DOWNGRADE_FINE)
		return; /* the first is told */
	d->fault = fault;
	d->status = status;
	va_start(ap, fmt);
	vsnprintf(raw, sizeof raw, fmt, ap);
	va_end(ap);
	mail_charset_clean(str_from(raw), &clean);
	size_t n = str_utf8_cut(buf_str(&clean), sizeof d->why - 1);
	memcpy(d->why, buf_z(&clean), n);
	d->why[n] = 0;
	buf_free(&clean);
}

static void field_fault(struct mail_downgrade *d, const struct mail_field *f, enum mail_ascii r, struct str culprit, unsigned lacks)
{
	const char *status = lacks & MAIL_LACKS_UTF8 ? "5.6.7" : "5.6.3", *hop = lacks & MAIL_LACKS_UTF8 ? "SMTPUTF8" : "8BITMIME";
	int n = (int)(f->name.n > 40 ? 40 : f->name.n), c = (int)str_utf8_cut(culprit, 120);
	if (r == MAIL_ASCII_MEMORY)
		mail_downgrade_fail(d, MAIL_DOWNGRADE_MEMORY, "4.3.0", "out of memory, or fields too long to be written anew");
	else if (r == MAIL_ASCII_ADDRESS)
		mail_downgrade_fail(d, MAIL_DOWNGRADE_ADDRESS, "5.6.7", "the address %.*s in the %.*s field cannot be written in ASCII, and the next hop takes "
		    "nothing else (%s)", c, culprit.p ? culprit.p : "", n, f->name.p, hop);
	else
		mail_downgrade_fail(d, MAIL_DOWNGRADE_FIELD, status, "the %.*s field cannot be written in ASCII, and the next hop takes nothing else (%s)%s%.*s", n,
		    f->name.p ? f->name.p : "", hop, c ? ": " : "", c, culprit.p ? culprit.p : "");
}

static bool field_ascii(struct mail_downgrade *d, const struct mail_field *f, unsigned lacks, struct buf *out)
{
	struct str culprit = STR_NULL;
	enum mail_ascii r = mail_field_to_ascii(f, out, &culprit);
	if (r < 0) {
		field_fault(d, f, r, culprit, lacks);
		return false;
	}
	if (r == MAIL_ASCII_LEFT_OUT)
		d->left_out++;
	else
		d->fields++;
	d->breaks |= !mail_field_is_trace(f->name);
	return true;
}

static void line(struct buf *out, const char *name, const char *value)
{
	buf_addf(out, "%s: %s\r\n", name, value);
}

/* What is missing. */
static void additions(const struct mail_head_change *c, struct buf *out)
{
	struct mail_field f;
	if (c->version && mail_field_find(c->head, STR("MIME-Version"), 0, &f))
		line(out, "MIME-Version", "1.0");
	if (c->charset && mail_field_find(c->head, STR("Content-Type"), 0, &f))
		buf_addf(out, "Content-Type: text/plain; charset=%s\r\n", c->charset);
	if (c->encoding && mail_field_find(c->head, STR("Content-Transfer-Encoding"), 0, &f))
		line(out, "Content-Transfer-Encoding", c->encoding);
}

bool mail_head_write(struct mail_downgrade *d, const struct mail_head_change *c, unsigned lacks, struct buf *out)
{
	struct str rest = c->head;
	struct mail_field f;
	bool encoded = false, garbage = false;
	int r;
	while ((r = mail_field_next(&rest, &f)))
		garbage |= r < 0;
	/* some readers end the head at a line that is no field: what is added must be before it. Not before a blank, which would continue it */
	garbage = garbage && c->head.p[0] != ' ' && c->head.p[0] != '\t';
	if (garbage)
		additions(c, out);
	rest = c->head;
	while ((r = mail_field_next(&rest, &f))) {
		bool cte = r > 0 && c->encoding && str_ieq(f.name, STR("Content-Transfer-Encoding"));
		if (cte) {
			if (!encoded)
				line(out, "Content-Transfer-Encoding", c->encoding);
			encoded = true; /* a second one would be another reader's first */
		} else if (c->ascii && mail_field_needs_ascii(f.all)) {
			if (r < 0) {
				mail_downgrade_fail(d, MAIL_DOWNGRADE_BROKEN, "5.6.3", "a line among the header fields that is none has octets that the next hop does not take");
				return false;
			}
			if (!field_ascii(d, &f, lacks, out))
				return false;
		} else {
			buf_adds(out, f.all);
		}
		if (out->n && out->p[out->n - 1] != '\n')
			buf_add(out, "\r\n", 2);
	}
	if (!garbage)
		additions(c, out);
	if (c->close)
		buf_add(out, "\r\n", 2);
	if (out->failed)
		mail_downgrade_fail(d, MAIL_DOWNGRADE_MEMORY, "4.3.0", "out of memory, or heads too long to be written anew");
	return !out->failed;
}
