/* The table of tls.h. */
#include "proto/relay/tls.h"

#include "proto/mail/header.h"

#include <openssl/x509.h>

static const char *const operators[] = { "none", "may", "require", "verify", "dane" };

const char *tls_operator_name(enum tls_operator o)
{
	return (unsigned)o < sizeof operators / sizeof *operators ? operators[o] : "";
}

int tls_operator_parse(struct str s, enum tls_operator *ret)
{
	for (unsigned i = 0; i < sizeof operators / sizeof *operators; i++)
		if (str_ieq(s, str_from(operators[i]))) {
			*ret = (enum tls_operator)i;
			return 0;
		}
	return -1;
}

bool tls_optional(struct str headers)
{
	static const struct str name = STR_INIT("TLS-Required");
	struct mail_field f;
	struct buf v = BUF_INIT(64); /* a value that does not fit is not ours */
	if (mail_field_count(headers, name, 2) != 1 || mail_field_find(headers, name, 0, &f))
		return false;
	bool no = mail_field_unfold(&v, f.value) == 0 && str_ieq(buf_str(&v), STR("No"));
	buf_free(&v);
	return no;
}

/* Does an enforced policy decide about this host? Usable TLSA records do it better, unless the way to them may be forged. */
static bool sts_enforced(const struct tls_rules *r)
{
	return r->sts == STS_ENFORCE && !r->optional && !(r->dane == DANE_USABLE && r->mx_secure);
}

/* What keeps a host from being used before it is asked; or NULL. */
static const char *unusable(const struct tls_rules *r, const char **ret_status)
{
	bool optional = r->optional;
	*ret_status = "4.7.5";
	if (r->dane == DANE_BOGUS && !optional) {
		*ret_status = "4.4.3";
		return "whether the host has TLSA records cannot be looked up";
	}
	if (r->site == TLS_DANE_ONLY && (r->dane != DANE_USABLE || !r->mx_secure))
		return r->dane == DANE_USABLE ? "DANE is required here, and the MX records are not validated (DNSSEC)" :
						"DANE is required here, and the host has no TLSA records that can be used";
	if (sts_enforced(r) && !r->sts_covers)
		return "the domain's MTA-STS policy does not name the host";
	return NULL;
}

/* RFC 8689 §4.2.1: the way to the host is authenticated, too: by DNSSEC, or by a policy that names it. */
static bool way_known(const struct tls_rules *r)
{
	return r->mx_secure || (r->sts == STS_ENFORCE && r->sts_covers);
}

void tls_need(const struct tls_rules *r, struct tls_need *ret)
{
	const char *status;
	struct tls_need n = { .usable = !unusable(r, &status) };
	bool dane = r->dane == DANE_USABLE && (!r->optional || r->site == TLS_DANE_ONLY);
	n.dane = dane;
	n.pkix = (sts_enforced(r) && r->dane != DANE_USABLE) || (r->requiretls && !dane);
	n.verify = r->site == TLS_VERIFY && (r->site_named || !dane || !r->mx_secure);
	n.requiretls = r->requiretls;
	n.encrypt = n.dane || n.pkix || r->requiretls || (r->dane == DANE_UNUSABLE && !r->optional) || sts_enforced(r) ||
	    r->site >= TLS_REQUIRE;
	n.dane_look = r->dane == DANE_USABLE;
	n.pkix_look = n.pkix || n.verify || r->sts != STS_NONE;
	n.try_tls = n.encrypt || r->site != TLS_NEVER;
	*ret = n;
}

/* -- reports */

static void tell(struct tls_verdict *v, enum tlsrpt_type policy, bool success, enum tlsrpt_result failure, const char *code)
{
	v->report[v->n_reports++] = (struct tls_report){ policy, success, failure, success ? NULL : code };
}

/* Why there is no TLS with a host that offered it. */
static const char *not_begun(const struct tls_seen *s)
{
	return s->refused ? "starttls-refused" : "tls-handshake-failed";
}

static void tell_dane(const struct tls_rules *r, const struct tls_seen *s, struct tls_verdict *v)
{
	enum tlsrpt_result failure = TLSRPT_VALIDATION_FAILURE;
	const char *code = NULL;
	bool ok = false;
	if (r->dane == DANE_BOGUS)
		failure = TLSRPT_DNSSEC_INVALID;
	else if (r->dane == DANE_UNUSABLE) /* told whatever became of the session: the records are wrong */
		failure = TLSRPT_TLSA_INVALID;
	else if (!s)
		return;
	else if (!s->starttls)
		failure = TLSRPT_STARTTLS_NOT_SUPPORTED;
	else if (!s->tls)
		code = not_begun(s);
	else if (s->dane == DANE_MATCHED)
		ok = true;
	else if (s->dane == DANE_EXPIRED)
		failure = TLSRPT_CERTIFICATE_EXPIRED;
	else if (s->dane == DANE_NAME)
		failure = TLSRPT_CERTIFICATE_HOST_MISMATCH;
	else if (s->dane == DANE_UNTRUSTED)
		failure = TLSRPT_CERTIFICATE_NOT_TRUSTED;
	else
		code = dane_verdict_name(s->dane);
	tell(v, TLSRPT_TLSA, ok, failure, code);
}

static enum tlsrpt_result pkix_result(int error)
{
	switch (error) {
	case X509_V_ERR_HOSTNAME_MISMATCH:
		return TLSRPT_CERTIFICATE_HOST_MISMATCH;
	case X509_V_ERR_CERT_HAS_EXPIRED:
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return TLSRPT_CERTIFICATE_EXPIRED;
	default:
		return TLSRPT_CERTIFICATE_NOT_TRUSTED;
	}
}

static void tell_sts(const struct tls_rules *r, const struct tls_seen *s, struct tls_verdict *v)
{
	if (r->sts_failed && r->sts == STS_NONE)
		tell(v, TLSRPT_STS, false, r->sts_failure, NULL);
	else if (!r->sts_covers)
		tell(v, TLSRPT_STS, false, TLSRPT_VALIDATION_FAILURE, "mx-not-in-policy");
	else if (!s)
		return;
	else if (!s->starttls)
		tell(v, TLSRPT_STS, false, TLSRPT_STARTTLS_NOT_SUPPORTED, NULL);
	else if (!s->tls)
		tell(v, TLSRPT_STS, false, TLSRPT_VALIDATION_FAILURE, not_begun(s));
	else
		tell(v, TLSRPT_STS, s->pkix_error == X509_V_OK, pkix_result(s->pkix_error), NULL);
}

static void tell_none(const struct tls_rules *r, const struct tls_seen *s, struct tls_verdict *v)
{
	if (r->site == TLS_DANE_ONLY && !s)
		tell(v, TLSRPT_NO_POLICY, false, TLSRPT_DANE_REQUIRED, NULL);
	else if (s)
		tell(v, TLSRPT_NO_POLICY, s->tls, s->starttls ? TLSRPT_VALIDATION_FAILURE : TLSRPT_STARTTLS_NOT_SUPPORTED,
		    s->starttls ? not_begun(s) : NULL);
}

/* -- the verdict */

static void refuse(struct tls_verdict *v, const char *status, const char *reason, const char *detail)
{
	v->go = false;
	v->status = status;
	v->reason = reason;
	v->detail = detail;
}

static void judge(const struct tls_rules *r, const struct tls_need *n, const struct tls_seen *s, struct tls_verdict *v)
{
	if (n->encrypt && !s->starttls)
		refuse(v, r->requiretls ? "5.7.10" : "4.7.4", "TLS is a must there, and the host does not offer it", NULL);
	else if (n->encrypt && !s->tls)
		refuse(v, "4.7.5", s->refused ? "TLS is a must there, and the host refuses it" : "TLS is a must there, and the handshake failed",
		    s->refused);
	else if (n->dane && s->dane != DANE_MATCHED)
		refuse(v, "4.7.5", "the host's certificate does not match its TLSA records (DANE)", dane_verdict_name(s->dane));
	else if (n->pkix && s->pkix_error != X509_V_OK)
		refuse(v, "4.7.5", sts_enforced(r) ? "the host's certificate is not valid, which the domain's MTA-STS policy demands" :
						     "the host's certificate is not valid, which REQUIRETLS demands",
		    X509_verify_cert_error_string(s->pkix_error));
	else if (n->verify && s->site_error != X509_V_OK)
		refuse(v, "4.7.5", r->site_named ? "the host's certificate is not valid for the names that are demanded here" :
						   "the host's certificate is not valid, which is demanded here",
		    X509_verify_cert_error_string(s->site_error));
	else if (n->requiretls && !way_known(r))
		refuse(v, "5.7.30", "REQUIRETLS demands a way to the host that is authenticated, by DNSSEC or MTA-STS", NULL);
	else if (n->requiretls && !s->requiretls)
		refuse(v, "5.7.30", "the host does not offer REQUIRETLS", NULL);
}

void tls_judge(const struct tls_rules *r, const struct tls_need *n, const struct tls_seen *s, struct tls_verdict *ret)
{
	struct tls_verdict v = { .go = true };
	const char *status, *why = unusable(r, &status);
	bool told = n->try_tls || !n->usable; /* nothing is said of TLS that was not even tried */
	if (!n->usable)
		s = NULL;
	if (told && r->dane != DANE_NONE)
		tell_dane(r, s, &v);
	if (told && (r->sts != STS_NONE || r->sts_failed))
		tell_sts(r, s, &v);
	if (told && r->dane == DANE_NONE && r->sts == STS_NONE && !r->sts_failed)
		tell_none(r, s, &v);
	if (!s)
		refuse(&v, status, why ? why : "no connection was made", NULL);
	else
		judge(r, n, s, &v);
	if (v.go && s->tls)
		v.authenticated = (r->dane == DANE_USABLE && s->dane == DANE_MATCHED && way_known(r)) ||
		    (r->sts == STS_ENFORCE && r->sts_covers && s->pkix_error == X509_V_OK);
	*ret = v;
}
