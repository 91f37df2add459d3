/* Fuzz: a TLS report: as a message, as what is packed, as JSON, and the octets as a record. What is read keeps its promises, and where it can
 * be written again, that reads back the same. */
#include "base/check.h"
#include "proto/mail/split.h"
#include "proto/report/tlsrpt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct tlsrpt *r)
{
	size_t failures = 0;
	must(r->org.n && r->id.n && r->n_policies && r->n_policies <= TLSRPT_POLICIES_MAX && r->begin <= r->end);
	must(str_is_utf8(r->org) && r->org.n <= TLSRPT_TEXT_MAX);
	for (size_t i = 0; i < r->n_policies; i++) {
		const struct tlsrpt_policy *p = &r->policy[i];
		must(p->n_strings <= TLSRPT_STRINGS_MAX && p->n_mx <= TLSRPT_STRINGS_MAX && p->successes <= TLSRPT_COUNT_MAX);
		failures += p->n_failures;
		for (size_t k = 0; k < p->n_failures; k++)
			must(p->failure[k].count <= TLSRPT_COUNT_MAX && str_is_utf8(p->failure[k].info));
	}
	must(failures <= TLSRPT_FAILURES_MAX);
}

static void try_json(struct str json)
{
	struct arena *a = arena_new(TLSRPT_MEMORY_MAX), *b = arena_new(TLSRPT_MEMORY_MAX);
	struct buf again = BUF_INIT(16 << 20);
	struct tlsrpt r, back;
	const char *why = NULL;
	must(a && b);
	if (tlsrpt_read(json, a, &r, &why)) {
		must(why);
	} else {
		check(&r);
		if (tlsrpt_write(&r, &again) == 0 && again.n <= TLSRPT_JSON_MAX) {
			must(tlsrpt_read(buf_str(&again), b, &back, &why) == 0);
			check(&back);
			must(back.n_policies == r.n_policies && back.begin == r.begin && back.end == r.end && str_eq(back.org, r.org));
			for (size_t i = 0; i < r.n_policies; i++)
				must(back.policy[i].n_failures == r.policy[i].n_failures && back.policy[i].failures == r.policy[i].failures &&
				    str_eq(back.policy[i].domain, r.policy[i].domain) && back.policy[i].n_mx == r.policy[i].n_mx);
		}
	}
	buf_free(&again);
	arena_free(a);
	arena_free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str raw = str_n((const char *)data, size);
	struct mail_split s;
	struct tlsrpt_mail m;
	struct tlsrpt_record record;
	struct buf json = BUF_INIT(TLSRPT_JSON_MAX);
	const char *why = NULL;
	mail_split(raw, &s);
	tlsrpt_mail_read(s.headers, s.body, 1 << 20, &m);
	must(m.found || m.why);
	if (m.found && tlsrpt_unpack(buf_str(&m.data), &json, &why) == 0)
		try_json(buf_str(&json));
	buf_reset(&json);
	if (tlsrpt_unpack(raw, &json, &why) == 0)
		try_json(buf_str(&json));
	else
		must(why);
	if (tlsrpt_record_parse(raw, &record, &why) == 0)
		must(tlsrpt_record_is(raw) && record.n && record.n <= TLSRPT_RUA_MAX && record.uri[0].n && record.uri[0].n <= TLSRPT_URI_MAX);
	tlsrpt_mail_done(&m);
	buf_free(&json);
	return 0;
}
