/* A whole message and a key record of any octets: "RECORD NUL MESSAGE". Whatever the pieces the body comes in, and whether keys or body
 * come first, the verdict is the same; nothing passes by a key that is not there. */
#include "proto/dkim/dkim.h"
#include "proto/mail/split.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void keys(struct dkim *d, struct str record)
{
	struct dns_answers *set = dns_answers_new();
	struct str name;
	enum dns_type type;
	if (!set)
		abort();
	while (dkim_evaluate(d, set) == DNS_MORE) {
		if (!dns_answers_n_missing(set))
			abort();
		while (dns_answers_missing(set, 0, &name, &type)) {
			struct dns_rr rr = { .data = record };
			struct dns_answer *a = dns_answer_new(name, type, record.n ? DNS_OK : DNS_NXDOMAIN, &rr, 1, 60, false);
			if (type != DNS_TXT || dns_answers_put(set, a))
				abort();
		}
	}
	dns_answers_free(set);
}

static void body(struct dkim *d, struct str b, size_t piece)
{
	for (size_t i = 0; i < b.n; i += piece)
		dkim_body_feed(d, b.p + i, piece < b.n - i ? piece : b.n - i);
	dkim_body_end(d);
}

static struct dkim *run(struct str record, struct str message, const struct dkim_policy *p, size_t piece, bool keys_first)
{
	struct mail_split cut;
	struct dkim *d = dkim_new(p);
	mail_split(message, &cut);
	if (!d || dkim_headers(d, cut.headers))
		abort();
	if (keys_first)
		keys(d, record);
	body(d, cut.body, piece);
	if (!keys_first)
		keys(d, record);
	if (!dkim_done(d))
		abort();
	return d;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct dkim_policy policies[] = { { .arc = true, .now = 1700000000 }, { .arc = true, .historic = true, .sha1 = true, .partial = true, .rsa_min = 8 } };
	const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
	if (!nul)
		return 0;
	struct str record = str_n((const char *)data, (size_t)(nul - data));
	struct str message = str_n((const char *)nul + 1, size - record.n - 1);
	for (size_t i = 0; i < 2; i++) {
		struct dkim *a = run(record, message, &policies[i], 1, true), *b = run(record, message, &policies[i], message.n + 1, false);
		if (dkim_n(a) != dkim_n(b) || dkim_arc(a)->result != dkim_arc(b)->result || strcmp(dkim_arc(a)->reason, dkim_arc(b)->reason) != 0)
			abort();
		for (size_t k = 0; k < dkim_n(a); k++) {
			const struct dkim_signature *x = dkim_signature(a, k), *y = dkim_signature(b, k);
			if (x->result != y->result || strcmp(x->reason, y->reason) != 0 || x->raw != y->raw || (x->result == DKIM_PASS) != !x->reason[0] ||
			    (x->result == DKIM_PASS && (!record.n || x->raw != DKIM_PASS)) || x->result == DKIM_NONE)
				abort();
		}
		dkim_release(a);
		dkim_release(b);
	}
	return 0;
}
