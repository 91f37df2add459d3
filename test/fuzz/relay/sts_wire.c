/* Fuzz: the datagrams of the fetching child. The first octet says which: a question, or an answer. What is taken is what our side would have written. */
#include "proto/relay/sts_wire.h"

#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char domain[DNS_NAME_MAX + 1];
	struct sts_wire_answer a;
	bool fresh;
	if (!size)
		return 0;
	struct str in = str_n((const char *)data + 1, size - 1);
	struct buf out = BUF_INIT(STS_WIRE_ANSWER_MAX);
	if (data[0] & 1) {
		if (sts_wire_request_get(in, domain, &fresh) == 0)
			must(sts_wire_request_put(&out, str_from(domain), fresh) == 0 && str_eq(buf_str(&out), in));
	} else if (sts_wire_answer_get(in, &a) == 0) {
		must(a.text.n <= STS_POLICY_MAX && (!a.text.n || (a.text.p >= in.p && a.text.p + a.text.n <= in.p + in.n)));
		must(sts_wire_answer_put(&out, a.class, a.text) == 0 && str_eq(buf_str(&out), in));
	}
	buf_free(&out);
	return 0;
}
