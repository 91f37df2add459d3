/* How safely mail must reach a host: what DANE, MTA-STS, the operator and the message itself demand, taken together; and, when the host has been
 * tried, whether mail may go, and what a TLS report says of it. Pure functions.
 *
 *     struct tls_rules rules = { .site = TLS_MAY, .dane = d.status, .mx_secure = r.mx_secure, .sts = policy.mode, .sts_covers = covered };
 *     struct tls_need need;
 *     tls_need(&rules, &need);
 *     if (!need.usable)                    // not even connected to; the next host
 *     ... connect, EHLO, STARTTLS where need.try_tls and it is offered, certificates against need.dane, need.pkix_look ...
 *     tls_judge(&rules, &need, &seen, &verdict);
 *     if (verdict.go) MAIL FROM...;  else QUIT, the next host; verdict.status, .reason, .detail for the last of them
 *     for (i < verdict.n_reports)          // count one session: verdict.report[i]
 *
 * The table. For a host,
 *     DANE usable     TLS, and a certificate that its TLSA records name. MTA-STS has no say, not even to save what fails (RFC 8461 §2) —
 *                     but where the MX records are not validated, an enforced policy must name the host: they could be forged
 *     DANE unusable   TLS, whatever the certificate (RFC 7672 §2.2); and what MTA-STS demands
 *     DANE bogus      not used at all (§2.1.2), whatever else
 *     DANE none       MTA-STS enforce: a host that the policy names, TLS, a certificate valid for its name; testing: as without, but
 *                     told in reports; none, or no policy: TLS where it is offered and works, whatever the certificate
 * and on top of that what the operator asks for, and REQUIRETLS (RFC 8689). "TLS-Required: No" of a message takes all but the operator's away. */
#ifndef PROTO_RELAY_TLS_H
#define PROTO_RELAY_TLS_H

#include "proto/relay/dane.h"
#include "proto/relay/sts.h"
#include "proto/report/tlsrpt.h"

/* The operator's, by destination: "none", "may", "require", "verify", "dane". */
enum tls_operator {
	TLS_NEVER,      /* no TLS: for a host that breaks it. DANE, MTA-STS and REQUIRETLS overrule this, or they would be nothing */
	TLS_MAY,
	TLS_REQUIRE,    /* encrypted, whatever the certificate */
	TLS_VERIFY,     /* encrypted, with a certificate valid for the host's name, or for one that the operator gives. A DANE match with
	                 * validated MX records will do, too, but not where he gives one */
	TLS_DANE_ONLY,  /* usable TLSA records, MX records validated, and a match */
};
const char *tls_operator_name(enum tls_operator o);
int tls_operator_parse(struct str s, enum tls_operator *ret);

struct tls_rules {
	enum tls_operator site;
	bool site_named;            /* TLS_VERIFY, and the names that the certificate must be valid for are the operator's */
	enum dane_status dane;      /* dane_lookup.status; DANE_NONE where DANE is off */
	bool mx_secure;             /* route.mx_secure; true, too, where there are no MX records to forge: an operator's own next hop */
	enum sts_mode sts;          /* of the policy that holds; STS_NONE: none, or MTA-STS is off */
	bool sts_covers;            /* sts_policy_covers() of the host's name in the MX record */
	bool sts_failed;            /* a policy was announced and could not be had; told in reports, no more (RFC 8461 §5) */
	enum tlsrpt_result sts_failure; /* then: TLSRPT_STS_POLICY_FETCH_ERROR, _POLICY_INVALID, _WEBPKI_INVALID */
	bool requiretls;            /* the message came with REQUIRETLS */
	bool optional;              /* it has "TLS-Required: No", and came without REQUIRETLS */
};
/* Does the header block say "TLS-Required: No" (RFC 8689 §3)? Exactly one such field, and nothing else in it: one that was added to, or that is
 * not understood, weakens nothing. With REQUIRETLS on MAIL the field has no say (§4.1). */
bool tls_optional(struct str headers);

struct tls_need {
	bool usable;                /* false: this host is not to be used; tls_judge() without `seen` says why */
	bool try_tls;               /* STARTTLS where it is offered; a session is begun anew without it only when !encrypt */
	bool encrypt;               /* no mail without TLS */
	bool dane;                  /* dane_check() must match; SNI is the TLSA base domain */
	bool pkix;                  /* the certificate must be valid for the host's name by the usual authorities; SNI is that name */
	bool verify;                /* and, or, for what the operator says: site_error counts */
	bool dane_look, pkix_look;  /* do these checks: they are needed, or told in reports */
	bool requiretls;            /* the host must offer REQUIRETLS, and MAIL must say it */
};
void tls_need(const struct tls_rules *rules, struct tls_need *ret);

struct tls_seen {
	bool starttls;              /* it was offered */
	const char *refused;        /* offered, and refused when it was asked for: the reply; else NULL */
	bool tls;                   /* and the handshake went through */
	bool requiretls;            /* offered within TLS */
	enum dane_verdict dane;     /* of dane_check(), where looked at */
	int pkix_error;             /* X509_V_OK or X509_V_ERR_… of the certificate and the host's name, where looked at */
	int site_error;             /* the same for the operator's names; without such, pkix_error once more */
};

enum { TLS_REPORTS_MAX = 2 };   /* one of TLSA, one of MTA-STS; or one of neither */
struct tls_report {
	enum tlsrpt_type policy;
	bool success;
	enum tlsrpt_result failure; /* unless success */
	const char *code;           /* failure-reason-code: a constant word, or NULL */
};
struct tls_verdict {
	bool go;
	const char *status;         /* "4.7.5", …; 5.7.x: no later attempt will do. NULL: go */
	const char *reason;         /* a constant clause for people; NULL: go */
	const char *detail;         /* what was seen, in a few words: "certificate has expired", seen->refused; NULL: no more is known */
	bool authenticated;         /* the host is who it is said to be, by DANE or MTA-STS and all the way from the domain */
	struct tls_report report[TLS_REPORTS_MAX];
	size_t n_reports;
};
/* seen NULL: no connection was made, as !need->usable. */
void tls_judge(const struct tls_rules *rules, const struct tls_need *need, const struct tls_seen *seen, struct tls_verdict *ret);

#endif
