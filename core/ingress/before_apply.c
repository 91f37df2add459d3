/* What a pre-acceptance stage made of a message, held against what a message may be, and put in its place. The worker runs
 * code that is not ours: nothing it says is believed. */
#include "before_internal.h"

#include "base/json.h"

#include "net/parcel.h"
#include "proto/mail/split.h"

#include <stdio.h>
#include <unistd.h>

enum {
	ADDRESS_MAX = 1000,
	STATE_OCTETS_MAX = 4 << 20, /* a worker reads no more (core/worker/state.h), so the row would be stuck */
};

static bool address_good(struct str a, bool sender)
{
	if (!a.n || a.n > ADDRESS_MAX)
		return sender && !a.n;
	for (size_t i = 0; i < a.n; i++)
		if ((unsigned char)a.p[i] < 0x20 || a.p[i] == 0x7f)
			return false;
	return str_is_utf8(a);
}

/* CRLF line ends, none empty, no blank at the front: what mail_split() would find again. */
static bool headers_good(struct str h)
{
	size_t line = 0;
	if (mail_headless(h))
		return false;
	for (size_t i = 0; i < h.n; i++, line++) {
		if (!h.p[i])
			return false;
		if (h.p[i] == '\n')
			return false; /* bare */
		if (h.p[i] != '\r')
			continue;
		if (!line || i + 1 == h.n || h.p[i + 1] != '\n')
			return false;
		i++;
		line = (size_t)-1;
	}
	return !line;
}

/* As a section of the configuration can have it: it goes into the log, and into a row. */
static bool stage_good(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~' || s.p[i] == '"' || s.p[i] == '\\')
			return false;
	return true;
}

/* room: WHY_MAX octets for an answer that is made up. */
static const char *wrong(const struct session *s, const struct wire_verdict *v, int body_fd, char *room)
{
	const char *why;
	uint64_t limit = s->terms->smtp.size_limit;
	if (!stage_good(v->stage))
		return "the stage it is to go to has no name";
	if (v->changed & WIRE_CHANGED_SENDER && !address_good(v->mail_from, true))
		return "the new sender is no address";
	for (size_t i = 0; i < v->n_rcpts; i++)
		if (!address_good(v->rcpts[i], false))
			return "a new recipient is no address";
	if (v->changed & WIRE_CHANGED_HEADERS && !headers_good(v->headers))
		return "the new headers are none";
	if (v->changed & WIRE_CHANGED_STATE && v->state.n > STATE_OCTETS_MAX)
		return "the new state is too large";
	if (v->changed & WIRE_CHANGED_STATE && (why = json_object_fault(v->state))) {
		snprintf(room, WHY_MAX, "the new state cannot be stored: %s", why);
		return room;
	}
	if (v->body_in_fd && (body_fd < 0 || !net_sealed(body_fd, v->body_size)))
		return "the new body is not what was announced";
	if (v->changed & WIRE_CHANGED_BODY && ((limit && v->body_size > limit) || (!v->body_in_fd && v->body.n > SPOOL_HEAP)))
		return "the new body is larger than a message may be";
	return NULL;
}

static const char *apply(struct session *s, const struct wire_verdict *v, int *body_fd, char *room)
{
	struct message *m = &s->message;
	struct buf state = BUF_INIT(STATE_OCTETS_MAX);
	const char *why = wrong(s, v, *body_fd, room);
	if (why)
		return why;
	/* what can fail for want of memory first; half of it done is seen by nobody, for the message goes the way of failure */
	if (v->changed & WIRE_CHANGED_STATE && buf_adds(&state, v->state)) {
		buf_free(&state);
		return "no memory for the new state";
	}
	enum spool_fault f = v->changed & WIRE_CHANGED_HEADERS ? spool_set_head(&m->spool, v->headers) : SPOOL_OK;
	if (!f && v->body_in_fd) {
		f = spool_set_body_fd(&m->spool, *body_fd, v->body_size);
		*body_fd = -1;
	} else if (!f && v->changed & WIRE_CHANGED_BODY) {
		f = spool_set_body(&m->spool, v->body);
	}
	bool sender = v->changed & WIRE_CHANGED_SENDER, rcpts = v->changed & WIRE_CHANGED_RCPTS;
	if (f || ((sender || rcpts) &&
		     message_set_envelope(m, sender ? &v->mail_from : NULL, rcpts ? v->rcpts : NULL, v->n_rcpts))) {
		buf_free(&state);
		return f == SPOOL_HEADERS_LONG || f == SPOOL_HEADERS_MANY ? "the new headers are more than a message may have"
									  : "no memory for the changed message";
	}
	if (v->changed & WIRE_CHANGED_STATE) {
		buf_free(&m->state);
		m->state = state;
	}
	return NULL;
}

const char *before_apply(struct session *s, const struct wire_verdict *v, int body_fd, char room[WHY_MAX])
{
	const char *why = apply(s, v, &body_fd, room);
	if (body_fd >= 0)
		close(body_fd);
	return why;
}

/* "5.7.1" at the front of s: how many octets; 0: none. */
static size_t enhanced_at(struct str s, char class)
{
	size_t i = 1, dots = 0, digits = 0;
	if (s.n < 5 || s.p[0] != class)
		return 0;
	for (; i < s.n && (s.p[i] == '.' || (s.p[i] >= '0' && s.p[i] <= '9')); i++) {
		if (s.p[i] != '.') {
			if (++digits > 3)
				return 0;
			continue;
		}
		if (++dots > 2 || (dots == 2 && !digits))
			return 0;
		digits = 0;
	}
	return dots == 2 && digits && (i == s.n || s.p[i] == ' ') ? i : 0;
}

void before_reply_text(struct str in, bool reject, char *text, size_t size, char enhanced[12])
{
	char class = reject ? '5' : '4';
	size_t n = 0;
	if (enhanced_at(str_from(enhanced), class) != strlen(enhanced))
		enhanced[0] = 0;
	in = str_trim(in);
	if (in.n > 3 && in.p[0] == class && in.p[1] >= '0' && in.p[1] <= '9' && in.p[2] >= '0' && in.p[2] <= '9' &&
	    (in.p[3] == ' ' || in.p[3] == '-'))
		in = str_skip(in, 4);
	if ((n = enhanced_at(in, class)) && n < 12) {
		if (!enhanced[0])
			snprintf(enhanced, 12, "%.*s", (int)n, in.p);
		in = str_trim(str_skip(in, n));
	}
	for (n = 0; n < in.n && n + 1 < size; n++)
		text[n] = in.p[n] >= 0x20 && in.p[n] < 0x7f ? in.p[n] : in.p[n] == '\t' || in.p[n] == '\n' || in.p[n] == '\r' ? ' ' : '?';
	text[n] = 0;
}
