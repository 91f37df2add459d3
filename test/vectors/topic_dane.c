/* Topic dane: {"tlsa", "chain", "no_name_checks", "verify_error", "match_depth"}, of OpenSSL's own suite: what a chain comes to against TLSA
 * records, with the reference name example.com. */
#include "vectors.h"

#include "proto/relay/dane.h"

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>

enum { RECORDS = 32, NOW = 1796000000 };

struct records {
	struct dns_rr rr[RECORDS];
	struct buf data[RECORDS];
	size_t n;
	bool smtp, pkix; /* some usage 2 or 3; some usage 0 or 1 */
};

static unsigned number(struct json_object *o, const char *key)
{
	struct json_object *v;
	return json_object_object_get_ex(o, key, &v) ? (unsigned)json_object_get_int(v) : 255;
}

static bool read_records(struct json_object *one, struct records *r)
{
	struct json_object *list;
	if (!json_object_object_get_ex(one, "tlsa", &list) || json_object_array_length(list) > RECORDS)
		return false;
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *o = json_object_array_get_idx(list, i);
		struct dns_rr *rr = &r->rr[r->n];
		r->data[r->n] = BUF_INIT(65536);
		if (vectors_unhex(vectors_str(o, "data"), &r->data[r->n]))
			return false;
		*rr = (struct dns_rr){ .data = buf_str(&r->data[r->n++]), .usage = (uint8_t)number(o, "usage"),
			.selector = (uint8_t)number(o, "selector"), .matching = (uint8_t)number(o, "mtype") };
		r->smtp |= rr->usage == DANE_TA || rr->usage == DANE_EE;
		r->pkix |= rr->usage == DANE_PKIX_TA || rr->usage == DANE_PKIX_EE;
	}
	return true;
}

static X509 *certificate(struct str pem)
{
	BIO *b = BIO_new_mem_buf(pem.p, (int)pem.n);
	X509 *x = b ? PEM_read_bio_X509(b, NULL, NULL, NULL) : NULL;
	BIO_free(b);
	return x;
}

static STACK_OF(X509) *read_chain(struct json_object *one)
{
	struct json_object *list;
	STACK_OF(X509) *chain = sk_X509_new_null();
	if (!json_object_object_get_ex(one, "chain", &list))
		return chain;
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *o = json_object_array_get_idx(list, i);
		X509 *x = certificate(str_n(json_object_get_string(o), (size_t)json_object_get_string_len(o)));
		if (x)
			sk_X509_push(chain, x);
	}
	return chain;
}

/* The trust anchor beside the suite, which a PKIX chain may end in without holding it. */
static X509 *anchor(void)
{
	char path[4096];
	snprintf(path, sizeof path, "%.*sdanetest.pem", STR_ARG(vectors_folder()));
	FILE *f = fopen(path, "re");
	X509 *x = f ? PEM_read_X509(f, NULL, NULL, NULL) : NULL;
	if (f)
		fclose(f);
	return x;
}

/* Usages 0 and 1 are nothing for SMTP (RFC 7672 §3.1.3): that they are refused, and that selectors and matching types are right all the same:
 * the certificate at the depth the suite says is matched, and none where it says none. */
static void judge_pkix(const struct records *r, const STACK_OF(X509) *chain, int depth, struct verdict *v)
{
	int found = -1, n = sk_X509_num(chain);
	X509 *root = anchor();
	for (size_t i = 0; i < r->n; i++) {
		if (dane_record_usable(&r->rr[i])) {
			buf_addz(&v->got, "a PKIX usage that is usable");
			X509_free(root);
			return;
		}
		int first = r->rr[i].usage == DANE_PKIX_EE ? 0 : 1, last = r->rr[i].usage == DANE_PKIX_EE ? 0 : n;
		for (int k = first; k <= last; k++) {
			X509 *x = k < n ? sk_X509_value(chain, k) : root;
			if (x && found < 0 && dane_record_matches(&r->rr[i], x))
				found = k;
		}
	}
	X509_free(root);
	buf_addf(&v->expected, "depth %d", depth);
	buf_addf(&v->got, "depth %d", found);
	v->ok = found == depth;
}

static bool is_path_error(int e)
{
	return e == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY || e == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT ||
	    e == X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE || e == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT ||
	    e == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN || e == X509_V_ERR_DANE_NO_MATCH;
}

static bool leaf_matches_ee(const struct records *r, const STACK_OF(X509) *chain)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->rr[i].usage == DANE_EE && dane_record_matches(&r->rr[i], sk_X509_value(chain, 0)))
			return true;
	return false;
}

static void judge_smtp(const struct records *r, STACK_OF(X509) *chain, int error, int depth, struct verdict *v)
{
	struct dane_check c = { .rr = r->rr, .n_rr = r->n, .chain = chain, .name = { "example.com" }, .n_names = 1, .now = NOW };
	dane_check(&c);
	buf_addf(&v->expected, "error %d depth %d", error, depth);
	buf_addf(&v->got, "error %d depth %d (%s: %s)", c.error, c.depth, dane_verdict_name(c.verdict), c.reason);
	/* ways to say that no path to a match is there are one */
	bool same = c.error == error || (error && is_path_error(c.error) && is_path_error(error));
	v->ok = same && (c.depth == depth || error);
	if (v->ok)
		return;
	if (c.verdict == DANE_MATCHED && error == X509_V_ERR_HOSTNAME_MISMATCH && leaf_matches_ee(r, chain) && c.depth == 0) {
		v->ok = true;
		v->note = "RFC 7672 §3.1.1: no name checks with usage DANE-EE(3)";
	} else if (c.verdict == DANE_MISMATCH && r->pkix) {
		/* the match may have been by a record that SMTP does not use */
		struct records only = *r;
		size_t kept = 0;
		for (size_t i = 0; i < r->n; i++)
			if (r->rr[i].usage == DANE_PKIX_TA || r->rr[i].usage == DANE_PKIX_EE)
				only.rr[kept++] = r->rr[i];
		only.n = kept;
		buf_reset(&v->expected);
		buf_reset(&v->got);
		judge_pkix(&only, chain, depth, v);
		v->note = v->ok ? "RFC 7672 §3.1.3: PKIX usages are unusable" : NULL;
	}
}

void topic_dane(const char *file, struct json_object *one, struct verdict *v)
{
	struct records r = { 0 };
	struct json_object *o;
	int error = json_object_object_get_ex(one, "verify_error", &o) ? json_object_get_int(o) : -1;
	int depth = json_object_object_get_ex(one, "match_depth", &o) ? json_object_get_int(o) : -2;
	STACK_OF(X509) *chain = read_chain(one);
	(void)file;
	if (!read_records(one, &r) || !sk_X509_num(chain))
		buf_addz(&v->got, "not a case of this topic");
	else if (r.smtp)
		judge_smtp(&r, chain, error, depth, v);
	else
		judge_pkix(&r, chain, depth, v);
	for (size_t i = 0; i < r.n; i++)
		buf_free(&r.data[i]);
	sk_X509_pop_free(chain, X509_free);
}
