/* One question read, one reply framed; see question.h. */
#include "proto/dns/question.h"

#include "wire.h"

#include <stdio.h>

enum { SERVFAIL = 2, FLAG_QR = 0x80, FLAG_TC = 0x02, FLAG_RD = 0x01, FLAG_RA = 0x80, FLAG_AD = 0x20, OPCODE = 0x78 };


static size_t put_octet(char *out, unsigned char c)
{
	if (ascii_is_alnum(c) || c == '-' || c == '_') {
		*out = (char)c;
		return 1;
	}
	return (size_t)snprintf(out, 5, "\\%03u", c);
}

int dns_question_read(const unsigned char *p, size_t n, struct dns_question *ret)
{
	size_t at = WIRE_HEADER, text = 0;
	if (n < WIRE_HEADER || p[2] & (FLAG_QR | OPCODE) || wire_u16(p + 4) != 1)
		return -1;
	while (at < n && p[at]) {
		size_t label = p[at++];
		if (label > DNS_LABEL_MAX || label >= n - at || at + label > WIRE_HEADER + DNS_NAME_MAX + 1)
			return -1;
		for (; label; label--)
			text += put_octet(ret->text + text, p[at++]);
		ret->text[text++] = '.';
	}
	if (n < 5 || at > n - 5 || wire_u16(p + at + 3) != WIRE_CLASS_IN)
		return -1;
	if (!text)
		ret->text[text++] = '.';
	ret->text[text] = 0;
	ret->type = wire_u16(p + at + 1);
	ret->n = at + 5 - WIRE_HEADER;
	return 0;
}

/* The name and the type of both questions, the case of letters aside. */
static bool same_question(const unsigned char *a, const unsigned char *b, size_t n)
{
	return str_ieq(str_n((const char *)a, n), str_n((const char *)b, n));
}

size_t dns_question_answer(const unsigned char *p, const struct dns_question *q, unsigned rcode, const unsigned char *reply, size_t reply_n,
    bool authenticated, unsigned char *out)
{
	size_t head = WIRE_HEADER + q->n, n = head;
	bool good = !rcode && reply && reply_n >= head && reply_n <= DNS_MESSAGE_MAX && wire_u16(reply + 4) == 1 && !(reply[2] & FLAG_TC) &&
		    same_question(p + WIRE_HEADER, reply + WIRE_HEADER, q->n);
	memset(out, 0, WIRE_HEADER);
	out[0] = p[0];
	out[1] = p[1];
	out[2] = FLAG_QR | FLAG_RD;
	out[3] = (unsigned char)(FLAG_RA | (rcode & 15 ? rcode & 15 : SERVFAIL));
	out[5] = 1;
	memcpy(out + WIRE_HEADER, p + WIRE_HEADER, q->n);
	if (good) {
		out[3] = (unsigned char)(FLAG_RA | (authenticated ? FLAG_AD : 0) | (reply[3] & 15));
		memcpy(out + 6, reply + 6, 6);
		memcpy(out + head, reply + head, reply_n - head);
		n = reply_n;
	}
	return n;
}
