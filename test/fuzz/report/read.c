/* Fuzz: a report's XML. What is read keeps its promises, and where it can be written again, that reads back with the same rows. */
#include "base/check.h"
#include "proto/report/dmarc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool text_ok(struct str s)
{
	return str_is_utf8(s) && s.n <= REPORT_TEXT_MAX;
}

static void check(const struct report *r)
{
	must(r->n_rows <= REPORT_ROWS_MAX && r->org.n && r->id.n && r->policy.domain.n && r->begin <= r->end && r->begin >= 0);
	must(text_ok(r->org) && text_ok(r->id) && text_ok(r->email) && text_ok(r->contact) && text_ok(r->error) && text_ok(r->generator) &&
	    text_ok(r->policy.domain) && text_ok(r->policy.fo));
	for (size_t i = 0; i < r->n_rows; i++) {
		const struct report_row *w = &r->row[i];
		must(w->source_ip.n && w->count <= REPORT_COUNT_MAX && w->header_from.n && w->disposition.n);
		must(w->n_dkim <= REPORT_DKIM_MAX && w->n_reasons <= REPORT_REASONS_MAX && (!w->has_spf || w->spf_result.n));
		for (size_t k = 0; k < w->n_dkim; k++)
			must(w->dkim[k].result.n && text_ok(w->dkim[k].domain) && text_ok(w->dkim[k].selector) && text_ok(w->dkim[k].human));
		must(text_ok(w->envelope_from) && text_ok(w->envelope_to) && text_ok(w->spf_domain) && text_ok(w->spf_human));
		for (size_t k = 0; k < w->n_reasons; k++)
			must(w->reason[k].type.n && text_ok(w->reason[k].comment));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena *a = arena_new(REPORT_MEMORY_MAX), *b = arena_new(REPORT_MEMORY_MAX);
	struct buf xml = BUF_INIT(REPORT_XML_MAX);
	struct report r, back;
	const char *why = NULL;
	must(a && b);
	if (report_read(str_n((const char *)data, size), a, &r, &why)) {
		must(why);
	} else {
		check(&r);
		if (report_write(&r, &xml) == 0) {
			must(report_read(buf_str(&xml), b, &back, &why) == 0);
			check(&back);
			must(back.n_rows == r.n_rows && !back.rows_bad && back.rfc9990 && str_eq(back.policy.domain, r.policy.domain));
			for (size_t i = 0; i < r.n_rows; i++)
				must(back.row[i].count == r.row[i].count && str_eq(back.row[i].source_ip, r.row[i].source_ip) &&
				    back.row[i].n_dkim == r.row[i].n_dkim && str_eq(back.row[i].header_from, r.row[i].header_from));
		}
	}
	buf_free(&xml);
	arena_free(a);
	arena_free(b);
	return 0;
}
