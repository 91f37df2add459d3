/* The message behind DATA: chunks for the caller, the size limit, and the verdict on what may not be in a message. */
#include "server_internal.h"

static const char too_big[] = "Message size exceeds the limit";

void smtp_server_data_begin(struct smtp_server *s)
{
	s->state = SMTP_STATE_DATA;
	s->data = (struct smtp_data){ 0 };
	s->data_fault = NULL;
}

static int whole(struct smtp_server *s, struct smtp_event *ret)
{
	if (!s->data_fault) {
		s->pending = SMTP_EV_MESSAGE;
		*ret = (struct smtp_event){ .kind = SMTP_EV_MESSAGE, .tx = &s->tx };
		return 1;
	}
	s->state = SMTP_STATE_READY;
	if (s->data_fault == too_big)
		smtp_server_refuse_message(s, 552, "5.3.4", too_big);
	else
		smtp_server_refuse_message(s, 550, "5.6.0", s->data_fault);
	return 0;
}

/* Each turn uses input, so the loop ends with it. */
int smtp_server_data(struct smtp_server *s, struct smtp_event *ret)
{
	while (smtp_server_unread(s)) {
		struct str chunk;
		size_t n = smtp_server_unread(s);
		/* no further than to the octet that is too much: which fault comes first is no matter of the cut */
		if (s->conf->size_limit && !s->data_fault && n > s->conf->size_limit - s->data.size)
			n = (size_t)(s->conf->size_limit - s->data.size) + 1;
		s->in_at += smtp_data_feed(&s->data, s->in.p + s->in_at, n, &chunk);
		if (!s->data_fault) {
			s->data_fault = smtp_data_fault_text(s->data.fault);
			if (!s->data_fault && s->conf->size_limit && s->data.size > s->conf->size_limit)
				s->data_fault = too_big;
			if (s->data_fault) {
				smtp_server_abort(s, s->data_fault);
				return 0;
			}
		}
		if (s->data.state == SMTP_DATA_END)
			return whole(s, ret);
		if (chunk.n && !s->data_fault) {
			*ret = (struct smtp_event){ .kind = SMTP_EV_CHUNK, .tx = &s->tx, .chunk = chunk };
			return 1;
		}
	}
	return 0;
}
