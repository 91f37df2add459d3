/* The DATA automata of data.h. Runs of ordinary text are found by smtp_scan_special() and handed on as they lie in the
 * input; only CR, LF, NUL and dots at a line start are looked at singly. */
#include "data.h"

#include "scan.h"

static void fault(struct smtp_data *d, enum smtp_data_fault f)
{
	if (!d->fault)
		d->fault = f;
}

/* One octet in the middle of a line or at its start (no dot): the next state. */
static void octet(struct smtp_data *d, char c)
{
	d->state = c == '\r' ? SMTP_DATA_CR : SMTP_DATA_TEXT;
	if (c == '\n')
		fault(d, SMTP_DATA_BARE_LF);
	else if (!c)
		fault(d, SMTP_DATA_NUL);
}

/* A dot at a line start: undone, or the end. Returns true when p[0] belongs to the text again. */
static bool behind_dot(struct smtp_data *d, char c)
{
	if (d->state == SMTP_DATA_DOT) {
		if (c != '\r')
			return true;
		d->state = SMTP_DATA_DOT_CR;
		return false;
	}
	if (c == '\n') {
		d->state = SMTP_DATA_END;
		return false;
	}
	fault(d, SMTP_DATA_BARE_CR);
	return true;
}

size_t smtp_data_feed(struct smtp_data *d, const char *p, size_t n, struct str *ret_chunk)
{
	size_t i = 0, start;
	*ret_chunk = str_n(p, 0);
	if (d->state == SMTP_DATA_END)
		return 0;
	/* what is no part of the text: dots at a line start and the end of the message */
	for (; i < n && d->state != SMTP_DATA_TEXT && d->state != SMTP_DATA_CR; i++) {
		if (d->state == SMTP_DATA_BOL) {
			if (p[i] != '.')
				break;
			d->state = SMTP_DATA_DOT;
		} else if (behind_dot(d, p[i])) {
			break;
		} else if (d->state == SMTP_DATA_END) {
			return i + 1;
		}
	}
	start = i;
	while (i < n) {
		if (d->state == SMTP_DATA_TEXT) {
			i += smtp_scan_special(p + i, n - i);
			if (i == n)
				break;
			octet(d, p[i++]);
		} else if (d->state == SMTP_DATA_CR) {
			if (p[i] == '\n') {
				d->state = SMTP_DATA_BOL;
				i++;
			} else {
				fault(d, SMTP_DATA_BARE_CR);
				octet(d, p[i++]);
			}
		} else if (d->state == SMTP_DATA_BOL && p[i] == '.') {
			break;
		} else {
			octet(d, p[i++]);
		}
	}
	*ret_chunk = str_n(p + start, i - start);
	d->size += i - start;
	return i;
}

const char *smtp_data_fault_text(enum smtp_data_fault f)
{
	switch (f) {
	case SMTP_DATA_OK:
		break;
	case SMTP_DATA_BARE_CR:
		return "Message has a bare CR";
	case SMTP_DATA_BARE_LF:
		return "Message has a bare LF";
	case SMTP_DATA_NUL:
		return "Message has a NUL octet";
	}
	return NULL;
}

void smtp_data_look(struct smtp_data *d, const char *p, size_t n)
{
	size_t i = 0;
	d->size += n;
	while (i < n && !(d->binary && d->in_body)) {
		if (d->state == SMTP_DATA_CR && p[i] == '\n') {
			d->in_body = d->in_body || !d->line;
			d->line = 0;
			d->state = SMTP_DATA_TEXT;
			i++;
			continue;
		}
		if (d->state == SMTP_DATA_CR)
			fault(d, SMTP_DATA_BARE_CR);
		d->state = SMTP_DATA_TEXT;
		size_t run = smtp_scan_special(p + i, n - i);
		i += run;
		d->line += run;
		if (i < n)
			octet(d, p[i++]);
	}
}

void smtp_data_look_end(struct smtp_data *d)
{
	if (d->state == SMTP_DATA_CR)
		fault(d, SMTP_DATA_BARE_CR);
	d->state = SMTP_DATA_END;
}

int smtp_data_write(struct smtp_data_out *d, const char *p, size_t n, struct buf *out)
{
	size_t i = 0;
	while (i < n) {
		if (d->state == SMTP_DATA_OUT_CR) {
			if (p[i] != '\n')
				return -1;
			if (buf_addc(out, p[i++]))
				return -1;
			d->state = SMTP_DATA_OUT_BOL;
			continue;
		}
		if (d->state == SMTP_DATA_OUT_BOL && p[i] == '.' && buf_addc(out, '.'))
			return -1;
		size_t run = smtp_scan_special(p + i, n - i);
		if (run) {
			d->state = SMTP_DATA_OUT_TEXT;
		} else if (p[i] == '\r') {
			d->state = SMTP_DATA_OUT_CR;
			run = 1;
		} else {
			return -1;
		}
		if (buf_add(out, p + i, run))
			return -1;
		i += run;
	}
	return 0;
}

int smtp_data_finish(struct smtp_data_out *d, struct buf *out)
{
	if (d->state == SMTP_DATA_OUT_CR)
		return -1;
	if (d->state == SMTP_DATA_OUT_TEXT && buf_addz(out, "\r\n"))
		return -1;
	d->state = SMTP_DATA_OUT_BOL;
	return buf_addz(out, ".\r\n");
}
