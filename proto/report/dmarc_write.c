/* A report as XML, in the order of RFC 9990's schema. Text is made legal here and nowhere else: XML 1.0 has no way to write most
 * controls, so they, and octets that are no UTF-8, become U+FFFD. */
#include "proto/report/dmarc.h"

static size_t sequence(struct str s)
{
	unsigned char c = (unsigned char)s.p[0];
	size_t n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
	return n && n <= s.n && str_is_utf8(str_n(s.p, n)) ? n : 0;
}

/* XML 1.0 §2.2 Char, for one well-formed sequence. The C1 range is legal, and discouraged: nobody needs it. */
static bool legal(const char *p, size_t n)
{
	const unsigned char *c = (const unsigned char *)p;
	if (n == 1)
		return (c[0] >= 0x20 && c[0] != 0x7f) || c[0] == '\t';
	if (n == 2)
		return !(c[0] == 0xc2 && c[1] < 0xa0);
	return !(n == 3 && c[0] == 0xef && c[1] == 0xbf && c[2] >= 0xbe); /* U+FFFE, U+FFFF */
}

static void put_text(struct buf *out, struct str s)
{
	s.n = str_utf8_cut(s, REPORT_TEXT_MAX);
	while (s.n) {
		size_t n = sequence(s);
		if (!n || !legal(s.p, n))
			buf_addz(out, s.p[0] == '\r' || s.p[0] == '\n' ? " " : "\xef\xbf\xbd");
		else if (s.p[0] == '&')
			buf_addz(out, "&amp;");
		else if (s.p[0] == '<')
			buf_addz(out, "&lt;");
		else if (s.p[0] == '>')
			buf_addz(out, "&gt;");
		else
			buf_add(out, s.p, n);
		s = str_skip(s, n ? n : 1);
	}
}

static void put(struct buf *out, unsigned depth, const char *name, struct str text)
{
	buf_addf(out, "%*s<%s>", (int)depth * 2, "", name);
	put_text(out, text);
	buf_addf(out, "</%s>\n", name);
}

static void put_if(struct buf *out, unsigned depth, const char *name, struct str text)
{
	if (text.n)
		put(out, depth, name, text);
}

/* A word the schema demands. */
static void need(struct buf *out, unsigned depth, const char *name, enum report_words list, struct str word)
{
	struct str w = report_word(list, word);
	if (!w.n)
		out->failed = true;
	put(out, depth, name, w);
}

static void want(struct buf *out, unsigned depth, const char *name, enum report_words list, struct str word)
{
	put_if(out, depth, name, report_word(list, word));
}

static void put_head(struct buf *out, const struct report *r)
{
	const struct report_policy *p = &r->policy;
	buf_addz(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<feedback xmlns=\"" REPORT_NAMESPACE "\">\n  <version>1.0</version>\n"
		      "  <report_metadata>\n");
	put(out, 2, "org_name", r->org);
	put(out, 2, "email", r->email);
	put_if(out, 2, "extra_contact_info", r->contact);
	put(out, 2, "report_id", r->id);
	buf_addf(out, "    <date_range>\n      <begin>%lld</begin>\n      <end>%lld</end>\n    </date_range>\n", (long long)r->begin,
	    (long long)r->end);
	put_if(out, 2, "error", r->error);
	put_if(out, 2, "generator", r->generator);
	buf_addz(out, "  </report_metadata>\n  <policy_published>\n");
	put(out, 2, "domain", p->domain);
	need(out, 2, "p", REPORT_POLICIES, p->p);
	want(out, 2, "sp", REPORT_POLICIES, p->sp);
	want(out, 2, "np", REPORT_POLICIES, p->np);
	want(out, 2, "adkim", REPORT_ALIGNMENTS, p->adkim);
	want(out, 2, "aspf", REPORT_ALIGNMENTS, p->aspf);
	want(out, 2, "discovery_method", REPORT_DISCOVERIES, p->discovery);
	put_if(out, 2, "fo", p->fo);
	want(out, 2, "testing", REPORT_TESTING, p->testing);
	buf_addz(out, "  </policy_published>\n");
}

static void put_results(struct buf *out, const struct report_row *w)
{
	buf_addz(out, "    <auth_results>\n");
	for (size_t i = 0; i < w->n_dkim && i < REPORT_DKIM_MAX; i++) {
		buf_addz(out, "      <dkim>\n");
		put(out, 4, "domain", w->dkim[i].domain);
		put(out, 4, "selector", w->dkim[i].selector);
		need(out, 4, "result", REPORT_DKIM_RESULTS, w->dkim[i].result);
		put_if(out, 4, "human_result", w->dkim[i].human);
		buf_addz(out, "      </dkim>\n");
	}
	if (w->has_spf) {
		buf_addz(out, "      <spf>\n");
		put(out, 4, "domain", w->spf_domain);
		put(out, 4, "scope", STR("mfrom"));
		need(out, 4, "result", REPORT_SPF_RESULTS, w->spf_result);
		put_if(out, 4, "human_result", w->spf_human);
		buf_addz(out, "      </spf>\n");
	}
	buf_addz(out, "    </auth_results>\n");
}

static void put_row(struct buf *out, const struct report_row *w)
{
	buf_addz(out, "  <record>\n    <row>\n");
	put(out, 3, "source_ip", w->source_ip);
	buf_addf(out, "      <count>%llu</count>\n      <policy_evaluated>\n", (unsigned long long)w->count);
	need(out, 4, "disposition", REPORT_DISPOSITIONS, w->disposition);
	put(out, 4, "dkim", w->dkim_pass ? STR("pass") : STR("fail"));
	put(out, 4, "spf", w->spf_pass ? STR("pass") : STR("fail"));
	for (size_t i = 0; i < w->n_reasons; i++) {
		buf_addz(out, "        <reason>\n");
		need(out, 5, "type", REPORT_OVERRIDES, w->reason[i].type);
		put_if(out, 5, "comment", w->reason[i].comment);
		buf_addz(out, "        </reason>\n");
	}
	buf_addz(out, "      </policy_evaluated>\n    </row>\n    <identifiers>\n");
	put(out, 3, "header_from", w->header_from);
	put_if(out, 3, "envelope_from", w->envelope_from);
	put_if(out, 3, "envelope_to", w->envelope_to);
	buf_addz(out, "    </identifiers>\n");
	put_results(out, w);
	buf_addz(out, "  </record>\n");
}

int report_write(const struct report *r, struct buf *out)
{
	if (!r->n_rows || !r->policy.domain.n || !r->org.n || !r->id.n)
		return -1;
	put_head(out, r);
	for (size_t i = 0; i < r->n_rows; i++)
		put_row(out, &r->row[i]);
	buf_addz(out, "</feedback>\n");
	return out->failed ? -1 : 0;
}
