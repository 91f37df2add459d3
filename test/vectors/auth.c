/* Runs messages through the verifier with keys out of a suite. Test code; no network. */
#include "auth.h"

#include "proto/mail/split.h"

#include <stdio.h>

struct dns_answer *auth_txt(struct str name, struct str text)
{
	struct dns_rr rr = { .data = text };
	return dns_answer_new(name, DNS_TXT, DNS_OK, &rr, 1, 60, false);
}

struct dns_answer *auth_error(struct str name, struct str word)
{
	if (str_ieq(word, STR("NXDOMAIN")))
		return dns_answer_new(name, DNS_TXT, DNS_NXDOMAIN, NULL, 0, 60, false);
	return dns_answer_fail(name, DNS_TXT, "as the suite says");
}

void auth_crlf(struct str text, struct buf *out)
{
	for (size_t i = 0; i < text.n; i++) {
		if (text.p[i] == '\n' && (!i || text.p[i - 1] != '\r'))
			buf_addc(out, '\r');
		buf_addc(out, text.p[i]);
	}
}

int auth_read_file(const char *path, struct buf *out)
{
	FILE *f = fopen(path, "re");
	char piece[4096];
	size_t n;
	if (!f)
		return -1;
	while ((n = fread(piece, 1, sizeof piece, f)))
		buf_add(out, piece, n);
	int r = ferror(f) || out->failed ? -1 : 0;
	fclose(f);
	return r;
}

static int feed(struct dkim *d, struct str message, size_t piece)
{
	struct mail_split cut;
	mail_split(message, &cut);
	if (dkim_headers(d, cut.headers))
		return -1;
	for (size_t i = 0; i < cut.body.n; i += piece ? piece : cut.body.n)
		dkim_body_feed(d, cut.body.p + i, piece && piece < cut.body.n - i ? piece : cut.body.n - i);
	dkim_body_end(d);
	return 0;
}

struct dkim *auth_verify(struct str message, const struct dkim_policy *p, size_t piece, auth_zone_fn *zone, void *arg)
{
	struct dkim *d = dkim_new(p);
	struct dns_answers *set = dns_answers_new();
	struct str name;
	enum dns_type type;
	int r = d && set && !feed(d, message, piece) ? DNS_MORE : -1;
	while (r == DNS_MORE && (r = dkim_evaluate(d, set)) == DNS_MORE)
		while (dns_answers_missing(set, 0, &name, &type)) {
			struct dns_answer *a = zone(arg, name);
			if (!a)
				a = auth_error(name, STR("NXDOMAIN"));
			dns_answers_put(set, a);
		}
	dns_answers_free(set);
	if (r == DNS_DONE && dkim_done(d))
		return d;
	dkim_release(d);
	return NULL;
}
