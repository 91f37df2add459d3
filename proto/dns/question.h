/* The other side of message.h: one question read, one reply framed. For the child that resolves by itself (core/recursor); sans I/O, no
 * memory. Whatever is not one plain question of class IN is refused.
 *
 *     n = recv(fd, p, sizeof p, 0);
 *     if (dns_question_read(p, n, &q))  … close: no client of ours speaks like this
 *     resolve(q.text, q.type) …
 *     n = dns_question_answer(p, &q, rcode, reply, reply_n, secure, out);
 *     send(fd, out, n, 0); */
#ifndef PROTO_DNS_QUESTION_H
#define PROTO_DNS_QUESTION_H

#include "proto/dns/message.h"

enum { DNS_QUESTION_TEXT = 4 * 255 + 2 };

struct dns_question {
	unsigned type;
	size_t n;                      /* octets of the question in the query, from octet 12 */
	char text[DNS_QUESTION_TEXT];  /* the name in presentation form with a final dot, unusual octets as \DDD; "." */
};
/* 0, or -1: not a query with one question of class IN (records beyond it are not looked at). */
int dns_question_read(const unsigned char *p, size_t n, struct dns_question *ret);

/* Frames a reply to the query p: its id, its question letter for letter (with its case), and all that stands behind the question in
 * `reply`, a whole message about the same name; AD as told. rcode not 0, or a reply that is none to this question: no records, and this
 * code or SERVFAIL. Returns the octets written to out, which has room for DNS_MESSAGE_MAX. */
size_t dns_question_answer(const unsigned char *p, const struct dns_question *q, unsigned rcode, const unsigned char *reply, size_t reply_n,
    bool authenticated, unsigned char *out);

#endif
