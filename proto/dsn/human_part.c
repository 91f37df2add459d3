/* The part for people: what happened, to whom, why, and what to do. Plain words, lines of at most 76 columns. */
#include "dsn_internal.h"

enum { WIDTH = 76 };

/* Writes text as paragraphs' lines of at most WIDTH columns, each behind indent; ends the line. */
static void wrap(struct buf *out, const char *indent, struct str text)
{
	struct str word;
	size_t column = 0, n = strlen(indent);
	while (str_word(&text, " ", &word)) {
		if (column && column + 1 + word.n > WIDTH) {
			buf_add(out, "\r\n", 2);
			column = 0;
		}
		if (!column)
			buf_add(out, indent, n);
		else
			buf_addc(out, ' ');
		column += (column ? 1 : n) + word.n;
		buf_adds(out, word);
	}
	if (column)
		buf_add(out, "\r\n", 2);
}

static void wrapz(struct buf *out, const char *indent, const char *text)
{
	wrap(out, indent, str_from(text));
}

static const char *phase_words(struct str phase)
{
	static const struct {
		struct str phase;
		const char *words;
	} known[] = {
		{ STR_INIT("banner"), "as its greeting" },
		{ STR_INIT("ehlo"), "in reply to our greeting" },
		{ STR_INIT("starttls"), "when encryption was to begin" },
		{ STR_INIT("auth"), "when we signed in" },
		{ STR_INIT("mail"), "in reply to the sender address" },
		{ STR_INIT("rcpt"), "in reply to the recipient address" },
		{ STR_INIT("data"), "when the message was announced" },
		{ STR_INIT("dot"), "after the message was sent" },
	};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (str_eq(phase, known[i].phase))
			return known[i].words;
	return NULL;
}

static void recipient(struct buf *out, const struct dsn *d, const struct dsn_rcpt *r, bool utf8)
{
	struct buf b = BUF_INIT(4 * DSN_TEXT_MAX);
	char room[16];
	const char *status = dsn_status(r, d->kind, room), *words = phase_words(r->phase);
	buf_addz(&b, "<");
	dsn_text(&b, r->address, utf8, DSN_TEXT_MAX);
	buf_addz(&b, ">:");
	wrap(out, "", buf_str(&b));
	wrapz(out, "    ", dsn_advice(str_from(status), d->kind));
	if (d->kind == DSN_FAILED || d->kind == DSN_DELAYED) {
		buf_reset(&b);
		if (r->code) {
			buf_addz(&b, "The server ");
			dsn_text(&b, r->remote_mta, utf8, 300);
			buf_addf(&b, "%ssaid: %u ", r->remote_mta.n ? " " : "", r->code);
			dsn_text(&b, r->reply, utf8, DSN_TEXT_MAX);
			if (words)
				buf_addf(&b, " (%s)", words);
		} else if (r->diagnostic.n) {
			buf_addz(&b, "Reason: ");
			dsn_text(&b, r->diagnostic, utf8, DSN_TEXT_MAX);
		} else {
			buf_addz(&b, "Reason: none was given.");
		}
		wrap(out, "    ", buf_str(&b));
	}
	buf_add(out, "\r\n", 2);
	out->failed |= b.failed;
	buf_free(&b);
}

void dsn_human_part(struct buf *out, const struct dsn *d, bool full, bool utf8)
{
	struct buf b = BUF_INIT(4096);
	buf_addz(&b, "This is the mail system at host ");
	dsn_text(&b, d->hostname, utf8, 300);
	buf_addc(&b, '.');
	wrap(out, "", buf_str(&b));
	buf_add(out, "\r\n", 2);
	switch (d->kind) {
	case DSN_FAILED:
		wrapz(out, "", d->n_rcpts == 1 ? "I am sorry to tell you that your message could not be delivered to the following "
						"recipient. It will not be tried again." :
					     "I am sorry to tell you that your message could not be delivered to the following "
						"recipients. It will not be tried again for them.");
		break;
	case DSN_DELAYED:
		wrapz(out, "", "Your message is still waiting to be delivered to the addresses below. THIS IS A WARNING ONLY.");
		break;
	case DSN_DELIVERED:
	case DSN_RELAYED:
		wrapz(out, "", "You asked for this notice: your message has reached the addresses below, as far as we can tell.");
		break;
	}
	wrapz(out, "", full ? "Your message is attached." : "The header of your message is attached.");
	buf_add(out, "\r\n", 2);
	if (d->stage.n) {
		buf_reset(&b);
		buf_addz(&b, "It was given up here at stage ");
		dsn_text(&b, d->stage, utf8, 64);
		buf_addc(&b, '.');
		wrap(out, "", buf_str(&b));
		buf_add(out, "\r\n", 2);
	}
	if (d->note.n) {
		buf_reset(&b);
		dsn_text(&b, d->note, utf8, DSN_TEXT_MAX);
		wrap(out, "", buf_str(&b));
		buf_add(out, "\r\n", 2);
	}
	for (size_t i = 0; i < d->n_rcpts && i < DSN_RCPTS_MAX; i++)
		recipient(out, d, &d->rcpts[i], utf8);
	out->failed |= b.failed;
	buf_free(&b);
}
