/* BDAT (RFC 3030): a chunk whose length was declared is always read to its end, or the session ends; what follows it is
 * never mistaken for content, nor content for commands. No dot means anything here. The content is held to the line ends of
 * DATA, but for the body where it is BODY=BINARYMIME; chunks may be cut anywhere, between CR and LF, too. */
#include "server_internal.h"

#include <stdio.h>

/* A refused chunk larger than this is not read over: the session ends. */
#define DISCARD_MAX (UINT64_C(64) << 20)

/* chunk-size [SP "LAST"]; chunk-size = 1*DIGIT: no sign, no base, nothing that does not fit. */
static int parse(struct str args, uint64_t *ret_size, bool *ret_last)
{
	struct str size, last;
	if (!str_word(&args, " ", &size) || size.n > 20 || str_u64(size, INT64_MAX, ret_size))
		return -1;
	*ret_last = str_word(&args, " ", &last);
	return (*ret_last && !str_ieq(last, STR("LAST"))) || str_word(&args, " ", &last) ? -1 : 0;
}

/* The reply is out: reads over the chunk. */
static void drop(struct smtp_server *s)
{
	if (s->state == SMTP_STATE_CLOSED)
		return;
	if (s->chunk_left > DISCARD_MAX) {
		smtp_server_finish(s, "a refused chunk too large to be read over");
		return;
	}
	s->chunk_drop = true;
	s->chunk_back = s->state;
	s->state = SMTP_STATE_BDAT;
}

static const char *out_of_place(const struct smtp_server *s)
{
	if (!(smtp_server_extensions(s) & SMTP_EXT_CHUNKING))
		return s->state == SMTP_STATE_CONNECTED ? "Send EHLO first" : "BDAT is not offered";
	if (s->state == SMTP_STATE_RCPT || s->state == SMTP_STATE_CHUNKS)
		return NULL;
	return s->chunk_lost ? "The message was refused" : s->state == SMTP_STATE_MAIL ? "No valid recipients" : "Need MAIL first";
}

bool smtp_server_bdat_check(struct smtp_server *s, struct str args)
{
	uint64_t size, limit = s->conf->size_limit, so_far = s->begun ? s->data.size : 0;
	if (parse(args, &size, &s->chunk_last)) { /* how long the chunk is nobody knows */
		smtp_server_fail(s, 501, "5.5.4", "Syntax: BDAT size [LAST]");
		return false;
	}
	s->chunk_left = size;
	const char *why = out_of_place(s);
	if (why && s->chunk_lost) {
		s->chunk_lost = !s->chunk_last;
		smtp_server_say(s, 503, "5.5.1", why);
		drop(s);
		return false;
	}
	if (why) {
		smtp_server_refuse(s, 503, "5.5.1", why);
		drop(s);
		return false;
	}
	if (!limit || (so_far <= limit && size <= limit - so_far))
		return true;
	if (!s->begun)
		smtp_server_tell(s, SMTP_EV_RESET, "Message size exceeds the limit");
	smtp_server_abort(s, "Message size exceeds the limit");
	s->state = SMTP_STATE_READY;
	s->chunk_lost = !s->chunk_last;
	s->replies = s->chunk_last ? s->tx.n_rcpts : 1;
	smtp_server_refuse_message(s, 552, "5.3.4", "Message size exceeds the limit");
	drop(s);
	return false;
}

void smtp_server_bdat_begin(struct smtp_server *s)
{
	s->state = SMTP_STATE_BDAT;
	s->chunk_drop = false;
	s->data = (struct smtp_data){ .binary = s->tx.body == SMTP_BODY_BINARYMIME };
	s->data_fault = NULL;
}

/* The transaction ends: a later chunk must not begin a message that lacks this one. */
void smtp_server_bdat_refused(struct smtp_server *s)
{
	smtp_server_tell(s, SMTP_EV_RESET, "BDAT refused");
	s->state = SMTP_STATE_READY;
	s->chunk_lost = !s->chunk_last;
	drop(s);
}

static int content(struct smtp_server *s, struct smtp_event *ret)
{
	const char *p = s->in.p + s->in_at;
	size_t n = smtp_server_unread(s) < s->chunk_left ? smtp_server_unread(s) : (size_t)s->chunk_left;
	if (!n)
		return 0;
	s->in_at += n;
	s->chunk_left -= n;
	if (s->chunk_drop || s->data_fault)
		return 2;
	smtp_data_look(&s->data, p, n);
	s->data_fault = smtp_data_fault_text(s->data.fault);
	if (s->data_fault) {
		smtp_server_abort(s, s->data_fault);
		return 2;
	}
	*ret = (struct smtp_event){ .kind = SMTP_EV_CHUNK, .tx = &s->tx, .chunk = str_n(p, n) };
	return 1;
}

static int chunk_over(struct smtp_server *s, struct smtp_event *ret)
{
	char text[48];
	if (s->chunk_drop) {
		s->chunk_drop = false;
		s->state = s->chunk_back;
		return 2;
	}
	if (s->chunk_last && !s->data_fault) {
		smtp_data_look_end(&s->data);
		s->data_fault = smtp_data_fault_text(s->data.fault);
		if (s->data_fault)
			smtp_server_abort(s, s->data_fault);
	}
	if (s->data_fault) {
		s->state = SMTP_STATE_READY;
		s->chunk_lost = !s->chunk_last;
		if (!s->chunk_last)
			s->replies = 1;
		smtp_server_refuse_message(s, 550, "5.6.0", s->data_fault);
		return 2;
	}
	if (s->chunk_last) {
		s->pending = SMTP_EV_MESSAGE;
		*ret = (struct smtp_event){ .kind = SMTP_EV_MESSAGE, .tx = &s->tx };
		return 1;
	}
	s->state = SMTP_STATE_CHUNKS;
	snprintf(text, sizeof text, "%llu octets so far", (unsigned long long)s->data.size);
	smtp_server_say(s, 250, "2.0.0", text);
	return 2;
}

int smtp_server_bdat(struct smtp_server *s, struct smtp_event *ret)
{
	return s->chunk_left ? content(s, ret) : chunk_over(s, ret);
}
