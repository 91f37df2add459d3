/* Feedback reports that come in (ARF): a provider's complaint of a user about one message (RFC 5965), an authentication failure (RFC 6591, and RFC 9991
 * for DMARC). No I/O, no clock. A report is its sender's claim about a message he may have made up: it is read, bounded, and decides nothing.
 *
 *     struct arf r;
 *     if (arf_read(headers, body, arena, &r, &why) == 0)
 *             r.kind, r.domain[0], r.source_ip, r.original.from        // what is reported, about whom
 *
 * What it holds of the reported message is personal data of others: only From's domain, Message-ID and the header block are kept, no body. */
#ifndef PROTO_REPORT_ARF_H
#define PROTO_REPORT_ARF_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

enum {
	ARF_PART_MAX = 128 << 10,    /* octets of the machine-readable part, decoded; what is beyond is not read */
	ARF_FIELDS_MAX = 400,        /* of it; likewise */
	ARF_LIST_MAX = 16,           /* values of one field that may come often; what is beyond is counted */
	ARF_TEXT_MAX = 1024,         /* octets kept of a value, cut between characters */
	ARF_HEADERS_MAX = 64 << 10,  /* kept of the reported message's header block, whole fields */
	ARF_MEMORY_MAX = 1 << 20,    /* for an arena that all of this fits into */
};
#define ARF_INCIDENTS_MAX UINT64_C(1000000000)

enum arf_kind {
	ARF_OTHER,         /* a type nobody registered */
	ARF_ABUSE, ARF_FRAUD, ARF_VIRUS, ARF_NOT_SPAM,
	ARF_AUTH_FAILURE,
	ARF_OPT_OUT,       /* of drafts before RFC 5965; still sent */
};

struct arf_list {
	struct str item[ARF_LIST_MAX];
	size_t n, cut;     /* cut: there were more */
};

/* Texts are clean UTF-8 on one line, with encoded words decoded; empty: not said, or not as it should be. */
struct arf {
	enum arf_kind kind;
	struct str type;               /* Feedback-Type as it was said, lower case */
	struct str user_agent, version;
	const char *flaw;              /* what RFC 5965 §3.1 demands and it does not do, a constant clause; or NULL */
	bool loose;                    /* a complaint without the part that makes it one: Outlook.com's (JMRP) */

	struct str envelope_id, mail_from, reporting_mta, source_ip; /* mail_from without <>; source_ip as inet_ntop() writes it */
	bool has_mail_from;            /* said, perhaps the null sender */
	uint16_t source_port;          /* 0: not said */
	bool has_arrival;
	int64_t arrival;               /* seconds since 1970 */
	uint64_t incidents;            /* 1 where nothing is said */
	struct arf_list rcpt_to, domain, uri, auth_results; /* domains folded, only those that are some */
	/* RFC 6591; words lower case and of its lists */
	struct str auth_failure;       /* adsp, bodyhash, revoked, signature, spf, dmarc */
	struct str delivery_result;    /* delivered, spam, policy, reject, other */
	struct str alignment;          /* "none", or of dkim and spf those that were aligned: "dkim,spf" (RFC 9991) */
	struct str dkim_domain, dkim_identity, dkim_selector, dkim_selector_dns, dkim_adsp_dns, spf_dns;

	struct {
		bool there, whole;     /* whole: a message, else its header block only */
		struct str headers;    /* as they came, with CRLF */
		struct str from;       /* domain of From, folded; empty unless there is one */
		struct str message_id;
	} original;
};

/* Reads a message. Everything of *ret lies in the arena. 0, or -1 with *ret_why a constant clause: it is no feedback report, or memory. Only a part of this
 * message counts: a report within a message that was forwarded is the forwarded one's. */
int arf_read(struct str headers, struct str body, struct arena *a, struct arf *ret, const char **ret_why);
/* "abuse", "auth-failure"; "other". */
const char *arf_kind_name(enum arf_kind k);

#endif
