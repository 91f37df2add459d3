/* Words: safe text of others, and what a status code means to a person. */
#include "dsn.h"
#include "proto/smtp/status.h"

bool dsn_status_ok(struct str s)
{
	struct smtp_status st;
	size_t used;
	return smtp_status_parse(s, &st, &used) == 0 && used == s.n;
}

/* The character at s.p[i], known to be UTF-8; *n: its octets. */
static unsigned long character(struct str s, size_t i, size_t *n)
{
	unsigned char c = (unsigned char)s.p[i];
	unsigned long v = c < 0x80 ? c : c < 0xe0 ? c & 0x1f : c < 0xf0 ? c & 0x0f : c & 0x07;
	*n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
	for (size_t k = 1; k < *n; k++)
		v = v << 6 | ((unsigned char)s.p[i + k] & 0x3f);
	return v;
}

int dsn_text(struct buf *out, struct str s, bool utf8, size_t max)
{
	bool valid = str_is_utf8(s);
	size_t end = out->n + max;
	for (size_t i = 0, n = 1; i < s.n; i += n) {
		unsigned long v = valid ? character(s, i, &n) : (unsigned char)s.p[i];
		char text[16];
		struct str piece = str_n(s.p + i, n);
		if (v < 32 || v == 127 || (valid && v > 127 && v < 160)) {
			piece = STR(" ");
		} else if (v > 127 && !valid) {
			piece = STR("?");
		} else if (v > 127 && !utf8) {
			static const char digits[] = "0123456789ABCDEF";
			size_t k = sizeof text;
			text[--k] = '}';
			for (; v; v >>= 4)
				text[--k] = digits[v & 15];
			text[--k] = '{';
			text[--k] = 'x';
			text[--k] = '\\';
			piece = str_n(text + k, sizeof text - k);
		}
		if (out->n + piece.n > end)
			break;
		buf_adds(out, piece);
	}
	return out->failed ? -1 : 0;
}

const char *dsn_advice(struct str status, enum dsn_kind kind)
{
	static const struct {
		struct str status; /* class left open: compared from the first dot */
		const char *advice;
	} known[] = {
		{ STR_INIT(".1.1"), "The address does not exist there. Please check its spelling, or ask the person for the right one." },
		{ STR_INIT(".1.2"), "The domain of the address does not exist or takes no mail. Please check its spelling." },
		{ STR_INIT(".1.3"), "The address is not written correctly. Please check it." },
		{ STR_INIT(".1.6"), "The mailbox has moved and left no new address. Please ask the person for the new one." },
		{ STR_INIT(".1.10"), "The domain of the address declares that it takes no mail. Please check the address." },
		{ STR_INIT(".2.1"), "The mailbox is switched off at present. Please try another way to reach the person." },
		{ STR_INIT(".2.2"), "The mailbox is full. Please try again later, or tell the person some other way." },
		{ STR_INIT(".2.3"), "The message is too large for this mailbox. Please send a smaller one." },
		{ STR_INIT(".3.4"), "The message is too large. Please send a smaller one, or pass large files on by another way." },
		{ STR_INIT(".4.1"), "The server for the address did not answer. Please try again later." },
		{ STR_INIT(".4.7"), "The message could not be handed over within the time allowed. Please try again later; if it is urgent, use another way." },
		{ STR_INIT(".6.3"), "The message uses characters the next server cannot take. Please send it as plain text or with encoded attachments." },
		{ STR_INIT(".6.7"), "The message uses an internationalized address, which the next server cannot take. Please use an address in plain ASCII." },
		{ STR_INIT(".6.0"), "The message has a form that cannot be passed on. Please send it again with another mail program." },
		{ STR_INIT(".7.1"), "The server refuses this message by its rules. Please read its words below, or ask its postmaster." },
	};
	if (kind == DSN_DELAYED)
		return "Nothing needs to be done: we keep trying and tell you if we have to give up. Please do not send the message again.";
	if (kind == DSN_DELIVERED)
		return "The message has been delivered.";
	if (kind == DSN_RELAYED)
		return "The message was handed on to a server that sends no reports of this kind; you may hear no more about it.";
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (status.n && str_eq(str_skip(status, 1), known[i].status))
			return known[i].advice;
	if (status.n > 3 && status.p[2] == '7')
		return "The server refuses this message by its rules. Please read its words below, or ask its postmaster.";
	if (status.n > 3 && status.p[2] == '1')
		return "Something is wrong with the address. Please check it.";
	return status.n && status.p[0] == '4' ? "Please try again later." :
					      "Please read the reason below; if it does not help, ask the postmaster of the receiving side.";
}
