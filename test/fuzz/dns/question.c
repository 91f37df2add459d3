/* Fuzz: the question a client of the recursor sends, and the frame of its reply. The first octet says where the input is cut: a query, then
 * what shall be the reply. Out comes a reply that our own reader takes for one to this question, or finds no more than a failure. */
#include "base/check.h"
#include "proto/dns/question.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned char out[DNS_MESSAGE_MAX];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dns_question q, again;
	if (!size || size > 4096)
		return 0;
	size_t n = data[0] < size - 1 ? data[0] : size - 1;
	const unsigned char *query = data + 1, *reply = data + 1 + n;
	size_t reply_n = size - 1 - n;
	if (dns_question_read(query, n, &q))
		return 0;
	must(q.n >= 5 && q.n <= n - 12 && strlen(q.text) < DNS_QUESTION_TEXT && q.text[strlen(q.text) - 1] == '.');
	must(str_is_ascii(str_from(q.text)));
	for (unsigned rcode = 0; rcode < 4; rcode++) {
		size_t m = dns_question_answer(query, &q, rcode, reply, reply_n, size & 1, out);
		must(m >= 12 + q.n && m <= DNS_MESSAGE_MAX && (m == 12 + q.n || (!rcode && m == reply_n)));
		must(!memcmp(out, query, 2) && !memcmp(out + 12, query + 12, q.n) && out[2] & 0x80);
		must(!rcode || (out[3] & 15) == rcode);
		out[2] &= 0x7f;
		must(dns_question_read(out, m, &again) == 0 && again.n == q.n && again.type == q.type && !strcmp(again.text, q.text));
	}
	return 0;
}
