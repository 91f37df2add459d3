/* ARC sets of any octets. The header block is the input, with a body of nothing; what the result says of its sets must hold together. */
#include "proto/dkim/dkim.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char record[] = "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
	struct dkim *d = dkim_new(&(struct dkim_policy){ .arc = true });
	struct dns_answers *set = dns_answers_new();
	struct str name;
	enum dns_type type;
	if (!d || !set || dkim_headers(d, str_n((const char *)data, size)))
		abort();
	dkim_body_end(d);
	size_t asked = 0;
	while (dkim_evaluate(d, set) == DNS_MORE)
		while (dns_answers_missing(set, 0, &name, &type)) {
			struct dns_rr rr = { .data = STR(record) };
			if (++asked > DKIM_SIGNATURES_MAX + 2 * ARC_SETS_MAX || dns_answers_put(set, dns_answer_new(name, type, DNS_OK, &rr, 1, 60, false)))
				abort();
		}
	const struct arc_result *r = dkim_arc(d);
	if (!dkim_done(d) || r->n > ARC_SETS_MAX || r->oldest_pass > r->n || (r->result == DKIM_PASS) != (r->result != DKIM_NONE && !r->reason[0]) ||
	    (r->result == DKIM_PASS && (!r->n || r->set[0].cv != DKIM_NONE || r->set[r->n - 1].message != DKIM_PASS)))
		abort();
	dns_answers_free(set);
	dkim_release(d);
	return 0;
}
