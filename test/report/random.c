/* report_random SEED COUNT DIR: writes COUNT reports, one file each, for a schema to judge: plain-NNN.xml has values as our sender has them (every
 * word of every list, domains, addresses, up to thousands of rows), odd-NNN.xml any octets in every free text. Test only; reads nothing. */
#include "base/check.h"
#include "proto/report/dmarc.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROWS_MAX = 3000, TEXT_MAX = 3 * REPORT_TEXT_MAX };

static uint64_t state;

/* splitmix64: the same everywhere, unlike rand() */
static uint64_t next(void)
{
	uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static size_t below(size_t n)
{
	return (size_t)(next() % n);
}

static const char *const words[][9] = {
	[REPORT_POLICIES] = { "none", "quarantine", "reject" },
	[REPORT_DISPOSITIONS] = { "none", "pass", "quarantine", "reject" },
	[REPORT_ALIGNMENTS] = { "r", "s" },
	[REPORT_DISCOVERIES] = { "psl", "treewalk" },
	[REPORT_TESTING] = { "n", "y" },
	[REPORT_DKIM_RESULTS] = { "none", "pass", "fail", "policy", "neutral", "temperror", "permerror" },
	[REPORT_SPF_RESULTS] = { "none", "pass", "fail", "softfail", "policy", "neutral", "temperror", "permerror" },
	[REPORT_OVERRIDES] = { "local_policy", "mailing_list", "other", "policy_test_mode", "trusted_forwarder", "sampled_out", "forwarded" },
};

static struct str word(enum report_words list)
{
	size_t n = 0;
	while (words[list][n])
		n++;
	return str_from(words[list][below(n)]);
}

static struct str maybe(enum report_words list)
{
	return next() & 1 ? word(list) : STR_NULL;
}

static struct str copy(struct arena *a, struct str s)
{
	struct str k = arena_str(a, s);
	must(!s.n || k.p);
	return k;
}

/* Octets that XML, UTF-8 or a schema might trip over, and any others. */
static struct str octets(struct arena *a)
{
	static const char *const pieces[] = { "&", "<", ">", "]]>", "<![CDATA[", "\"", "'", "\r\n", "\t", "\n", "&amp;", "<!--", "\xef\xbf\xbe", "\xef\xbf\xbf", "\xc2\x85",
		"\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\x80", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf0\x9f", "\x7f", "\x01", "\x1b[2J", " ", "a" };
	char text[TEXT_MAX];
	size_t n = 0, most = below(8) ? below(40) : below(sizeof text - 16);
	while (n < most)
		if (next() & 1) {
			const char *p = pieces[below(sizeof pieces / sizeof *pieces)];
			memcpy(text + n, p, strlen(p));
			n += strlen(p);
		} else {
			text[n++] = (char)next();
		}
	return copy(a, str_n(text, n));
}

static struct str domain(struct arena *a)
{
	char text[80];
	int n = snprintf(text, sizeof text, "%s%c%zu.%s", next() & 1 ? "mail-" : "", (char)('a' + below(26)), below(1000), next() & 1 ? "example.org" : "xn--bcher-kva.test");
	return copy(a, str_n(text, (size_t)n));
}

static struct str free_text(struct arena *a, bool odd)
{
	return odd ? octets(a) : next() & 1 ? STR("as it \"was\" & <is>") : STR("\xc3\xa4\xe2\x82\xac");
}

static struct str name(struct arena *a, bool odd)
{
	return odd ? octets(a) : domain(a);
}

static void make_row(struct arena *a, bool odd, struct report_row *w)
{
	char ip[48];
	snprintf(ip, sizeof ip, next() & 1 ? "192.0.2.%zu" : "2001:db8::%zx", below(256));
	*w = (struct report_row){ .source_ip = copy(a, str_from(ip)), .count = 1 + next() % (below(2) ? 10 : REPORT_COUNT_MAX), .disposition = word(REPORT_DISPOSITIONS),
		.dkim_pass = next() & 1, .spf_pass = next() & 1, .n_reasons = below(REPORT_REASONS_MAX + 1), .header_from = domain(a),
		.envelope_from = next() & 1 ? name(a, odd) : STR_NULL, .envelope_to = next() & 1 ? name(a, odd) : STR_NULL, .has_spf = next() & 1 };
	for (size_t i = 0; i < w->n_reasons; i++)
		w->reason[i] = (struct report_reason){ word(REPORT_OVERRIDES), next() & 1 ? free_text(a, odd) : STR_NULL };
	w->n_dkim = below(20) ? below(4) : below(REPORT_DKIM_MAX + 3);
	struct report_dkim *d = arena_calloc(a, w->n_dkim ? w->n_dkim : 1, sizeof *d);
	must(d);
	for (size_t i = 0; i < w->n_dkim; i++)
		d[i] = (struct report_dkim){ name(a, odd), name(a, odd), word(REPORT_DKIM_RESULTS), next() & 1 ? free_text(a, odd) : STR_NULL };
	w->dkim = d;
	if (w->has_spf) {
		w->spf_domain = name(a, odd);
		w->spf_result = word(REPORT_SPF_RESULTS);
		w->spf_human = next() & 1 ? free_text(a, odd) : STR_NULL;
	}
}

static void make(struct arena *a, bool odd, struct report *r)
{
	char id[33];
	snprintf(id, sizeof id, "%016llx%016llx", (unsigned long long)next(), (unsigned long long)next());
	*r = (struct report){ .org = odd ? octets(a) : STR("Reporter & Sons"), .email = odd ? octets(a) : STR("postmaster@here.test"),
		.contact = next() & 1 ? free_text(a, odd) : STR_NULL, .id = odd && (next() & 1) ? octets(a) : copy(a, str_from(id)),
		.error = next() & 1 ? free_text(a, odd) : STR_NULL, .generator = next() & 1 ? STR("Pepsi") : STR_NULL,
		.begin = (int64_t)below((size_t)1 << 33), .policy = { .domain = domain(a), .p = word(REPORT_POLICIES), .sp = maybe(REPORT_POLICIES),
		.np = maybe(REPORT_POLICIES), .adkim = maybe(REPORT_ALIGNMENTS), .aspf = maybe(REPORT_ALIGNMENTS),
		.fo = odd ? octets(a) : next() & 1 ? STR("1:d:s") : STR_NULL, .testing = maybe(REPORT_TESTING), .discovery = maybe(REPORT_DISCOVERIES) } };
	r->end = r->begin + 86399;
	r->org = r->org.n ? r->org : STR("o");
	r->id = r->id.n ? r->id : STR("i");
	r->n_rows = 1 + (below(25) ? below(5) : below(odd ? 100 : ROWS_MAX));
	r->row = arena_calloc(a, r->n_rows, sizeof *r->row);
	must(r->row);
	for (size_t i = 0; i < r->n_rows; i++)
		make_row(a, odd, &r->row[i]);
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: report_random SEED COUNT DIR\n");
		return 2;
	}
	state = strtoull(argv[1], NULL, 10);
	for (unsigned long i = 0, n = strtoul(argv[2], NULL, 10); i < n; i++) {
		bool odd = i & 1;
		struct arena *a = arena_new((size_t)256 << 20);
		struct buf xml = BUF_INIT((size_t)256 << 20);
		struct report r;
		char path[4096];
		must(a);
		make(a, odd, &r);
		must(report_write(&r, &xml) == 0);
		snprintf(path, sizeof path, "%s/%s-%03lu.xml", argv[3], odd ? "odd" : "plain", i);
		FILE *f = fopen(path, "wxe");
		if (!f || fwrite(xml.p, 1, xml.n, f) != xml.n || fclose(f)) {
			perror(path);
			return 1;
		}
		buf_free(&xml);
		arena_free(a);
	}
	return 0;
}
