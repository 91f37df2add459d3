/* Fuzz: SPF records. Reading ends, terms lie in the record in order, and what a valid record's domain-specs expand to is a name or none. */
#include "proto/auth/spf.h"

#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct spf_values values = { .s = STR_INIT("a.b@x.example.org"), .l = STR_INIT("a.b"), .o = STR_INIT("x.example.org"),
	.d = STR_INIT("x.example.org"), .i = STR_INIT("192.0.2.1"), .p = STR_INIT("unknown"), .v = STR_INIT("in-addr"),
	.h = STR_INIT("h.example") };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = str_n((const char *)data, size);
	struct spf_record r;
	struct spf_term t;
	const char *why;
	char name[DNS_NAME_MAX + 1];
	int more;
	if (size > 65536)
		return 0;
	int bad = spf_record_parse(text, &r);
	must((bad != 0) == (r.why != NULL));
	must(!bad || !r.bad.n || (r.bad.p >= text.p && r.bad.p + r.bad.n <= text.p + text.n));
	if (!spf_record_is(text) || size > SPF_RECORD_MAX) {
		must(bad);
		return 0;
	}
	struct str rest = r.terms;
	const char *at = text.p + 6;
	while ((more = spf_term_next(&rest, &t, &why)) > 0) {
		must(t.text.n && t.text.p >= at && t.text.p + t.text.n <= text.p + text.n && !why);
		at = t.text.p + t.text.n;
		must(t.cidr4 <= 32 && t.cidr6 <= 128);
		must(!t.spec.p || t.kind == SPF_MODIFIER || t.spec.n);
		if (!t.spec.p || t.kind == SPF_MODIFIER)
			continue;
		int n = spf_expand_domain(t.spec, &values, name);
		must(n >= -1 && n <= DNS_NAME_MAX && strlen(name) == (size_t)(n > 0 ? n : 0));
	}
	must(more == 0 ? !why : why != NULL);
	must(bad || more == 0);
	return 0;
}
