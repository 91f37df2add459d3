/* Feedback reports, read; see arf.h. Fields are known by a table; a value is taken as far as it is what it should be, and the rest of the report does not
 * suffer from one that is not: senders of these reports are many and old. */
#include "proto/report/arf.h"

#include "proto/auth/dmarc.h"
#include "proto/mail/date.h"
#include "proto/mail/encoded.h"
#include "proto/mail/header.h"
#include "proto/mail/split.h"
#include "proto/report/parts.h"

#include <arpa/inet.h>

struct reading {
	struct arena *a;
	struct arf *r;
	bool there, failed;
	unsigned types, agents, versions; /* how often each came */
	bool has_date;
	struct parts_part report, original;
	bool has_original;
};

static const char *const kinds[] = {
	[ARF_OTHER] = "other", [ARF_ABUSE] = "abuse", [ARF_FRAUD] = "fraud", [ARF_VIRUS] = "virus", [ARF_NOT_SPAM] = "not-spam",
	[ARF_AUTH_FAILURE] = "auth-failure", [ARF_OPT_OUT] = "opt-out",
};

const char *arf_kind_name(enum arf_kind k)
{
	return kinds[k];
}

static struct str keep(struct reading *x, struct str s)
{
	s.n = str_utf8_cut(s, ARF_TEXT_MAX);
	struct str k = s.n ? arena_str(x->a, s) : STR_NULL;
	x->failed |= s.n && !k.p;
	return k.p ? k : STR_NULL;
}

static struct str lower(struct reading *x, struct str s)
{
	char text[64];
	size_t n = s.n < sizeof text ? s.n : sizeof text;
	for (size_t i = 0; i < n; i++)
		text[i] = ascii_lower(s.p[i]);
	return keep(x, str_n(text, str_utf8_cut(str_n(text, n), sizeof text - 1)));
}

static struct str first_word(struct str s)
{
	struct str rest = s, w;
	return str_word(&rest, " \t;(", &w) ? w : STR_NULL;
}

static struct str one_of(const char *const *words, struct str s)
{
	for (; *words; words++)
		if (str_ieq(s, str_from(*words)))
			return str_from(*words);
	return STR_NULL;
}

/* <path> or address; folded text behind it is none of it. */
static struct str path(struct str s)
{
	if (s.n && s.p[0] == '<') {
		ptrdiff_t end = str_chr(s, '>');
		return end > 0 ? str_trim(str_n(s.p + 1, (size_t)end - 1)) : STR_NULL;
	}
	return s;
}

static struct str address(struct reading *x, struct str s)
{
	char text[64], out[INET6_ADDRSTRLEN];
	unsigned char ip[16];
	s = first_word(s);
	if (s.n > 2 && s.p[0] == '[' && s.p[s.n - 1] == ']')
		s = str_n(s.p + 1, s.n - 2);
	if (str_istarts(s, STR("IPv6:")))
		s = str_skip(s, 5);
	if (!s.n || s.n >= sizeof text || memchr(s.p, 0, s.n))
		return STR_NULL;
	memcpy(text, s.p, s.n);
	text[s.n] = 0;
	int family = memchr(text, ':', s.n) ? AF_INET6 : AF_INET;
	return inet_pton(family, text, ip) == 1 && inet_ntop(family, ip, out, sizeof out) ? keep(x, str_from(out)) : STR_NULL;
}

static void add(struct reading *x, struct arf_list *l, struct str s)
{
	if (!s.n)
		return;
	if (l->n == ARF_LIST_MAX)
		l->cut++;
	else
		l->item[l->n++] = keep(x, s);
}

/* Some write several into one field. */
static void add_domains(struct reading *x, struct arf_list *l, struct str s)
{
	char name[DNS_NAME_MAX + 1];
	struct str w;
	while (str_word(&s, " \t,;", &w)) {
		int n = dns_name_fold(w, name);
		if (n > 0)
			add(x, l, str_n(name, (size_t)n));
	}
}

/* "dkim, spf" in any order; "none" (RFC 9991). */
static void alignment(struct arf *r, struct str s)
{
	bool dkim = false, spf = false, none = false;
	struct str w;
	while (str_word(&s, " \t,;/", &w)) {
		dkim |= str_ieq(w, STR("dkim"));
		spf |= str_ieq(w, STR("spf"));
		none |= str_ieq(w, STR("none"));
	}
	r->alignment = dkim && spf ? STR("dkim,spf") : dkim ? STR("dkim") : spf ? STR("spf") : none ? STR("none") : STR_NULL;
}

static void type(struct reading *x, struct str s)
{
	struct arf *r = x->r;
	if (x->types++)
		return;
	r->type = lower(x, first_word(s));
	for (enum arf_kind k = ARF_ABUSE; k <= ARF_OPT_OUT; k++)
		if (str_eq(r->type, str_from(kinds[k])))
			r->kind = k;
	if (str_eq(r->type, STR("dkim"))) /* RFC 5965's name before RFC 6591 */
		r->kind = ARF_AUTH_FAILURE;
}

static void date(struct reading *x, struct str s, bool sure)
{
	int64_t at;
	if ((x->has_date && !sure) || mail_date_read(s, &at))
		return;
	x->r->arrival = at;
	x->r->has_arrival = x->has_date = true;
}

enum field { F_TYPE, F_AGENT, F_VERSION, F_ENVELOPE, F_FROM, F_TO, F_ARRIVAL, F_RECEIVED, F_MTA, F_IP, F_PORT, F_INCIDENTS, F_DOMAIN, F_URI, F_RESULTS, F_FAILURE,
	F_DELIVERY, F_ALIGNMENT, F_D, F_I, F_S, F_S_DNS, F_ADSP_DNS, F_SPF_DNS };
static const struct {
	const char *name;
	enum field field;
} fields[] = {
	{ "Feedback-Type", F_TYPE }, { "User-Agent", F_AGENT }, { "Version", F_VERSION }, { "Original-Envelope-Id", F_ENVELOPE }, { "Original-Mail-From", F_FROM },
	{ "Original-Rcpt-To", F_TO }, { "Arrival-Date", F_ARRIVAL }, { "Received-Date", F_RECEIVED }, { "Reporting-MTA", F_MTA }, { "Source-IP", F_IP },
	{ "Source-Port", F_PORT }, { "Incidents", F_INCIDENTS }, { "Reported-Domain", F_DOMAIN }, { "Reported-URI", F_URI }, { "Authentication-Results", F_RESULTS },
	{ "Auth-Failure", F_FAILURE }, { "Delivery-Result", F_DELIVERY }, { "Identity-Alignment", F_ALIGNMENT }, { "DKIM-Domain", F_D }, { "DKIM-Identity", F_I },
	{ "DKIM-Selector", F_S }, { "DKIM-Selector-DNS", F_S_DNS }, { "DKIM-ADSP-DNS", F_ADSP_DNS }, { "SPF-DNS", F_SPF_DNS },
};

static void take(struct reading *x, enum field f, struct str s)
{
	static const char *const failures[] = { "adsp", "bodyhash", "revoked", "signature", "spf", "dmarc", NULL };
	static const char *const deliveries[] = { "delivered", "spam", "policy", "reject", "other", NULL };
	struct arf *r = x->r;
	uint64_t n;
	ptrdiff_t semicolon;
	switch (f) {
	case F_TYPE: type(x, s); break;
	case F_AGENT: r->user_agent = x->agents++ ? r->user_agent : keep(x, s); break;
	case F_VERSION: r->version = x->versions++ ? r->version : keep(x, first_word(s)); break;
	case F_ENVELOPE: r->envelope_id = keep(x, s); break;
	case F_FROM:
		r->mail_from = keep(x, path(s));
		r->has_mail_from = true;
		break;
	case F_TO: add(x, &r->rcpt_to, path(s)); break;
	case F_ARRIVAL: date(x, s, true); break;
	case F_RECEIVED: date(x, s, false); break; /* the name of the drafts */
	case F_MTA:
		semicolon = str_chr(s, ';'); /* "dns; name" (RFC 3464 §2.2.2) */
		r->reporting_mta = keep(x, str_trim(semicolon < 0 ? s : str_skip(s, (size_t)semicolon + 1)));
		break;
	case F_IP: r->source_ip = address(x, s); break;
	case F_PORT: r->source_port = str_u64(first_word(s), UINT16_MAX, &n) ? 0 : (uint16_t)n; break;
	case F_INCIDENTS: r->incidents = str_u64(first_word(s), ARF_INCIDENTS_MAX, &n) ? 1 : n; break;
	case F_DOMAIN: add_domains(x, &r->domain, s); break;
	case F_URI: add(x, &r->uri, s); break;
	case F_RESULTS: add(x, &r->auth_results, s); break;
	case F_FAILURE: r->auth_failure = one_of(failures, first_word(s)); break;
	case F_DELIVERY: r->delivery_result = one_of(deliveries, first_word(s)); break;
	case F_ALIGNMENT: alignment(r, s); break;
	case F_D: r->dkim_domain = keep(x, s); break;
	case F_I: r->dkim_identity = keep(x, s); break;
	case F_S: r->dkim_selector = keep(x, s); break;
	case F_S_DNS: r->dkim_selector_dns = keep(x, s); break;
	case F_ADSP_DNS: r->dkim_adsp_dns = keep(x, s); break;
	case F_SPF_DNS: r->spf_dns = keep(x, s); break;
	}
}

/* A value as one line of clean text. */
static void clean(struct str value, struct buf *out)
{
	buf_reset(out);
	value.n = value.n > 4 * ARF_TEXT_MAX ? 4 * ARF_TEXT_MAX : value.n;
	if (mail_encoded_decode(value, out))
		buf_reset(out);
}

static void read_fields(struct reading *x, struct str text)
{
	struct buf value = BUF_INIT(16 * ARF_TEXT_MAX);
	struct mail_field f;
	int more;
	for (size_t n = 0; n < ARF_FIELDS_MAX && (more = mail_field_next(&text, &f)); n++) {
		if (more < 0)
			continue;
		for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
			if (str_ieq(f.name, str_from(fields[i].name))) {
				clean(f.value, &value);
				take(x, fields[i].field, str_trim(buf_str(&value)));
			}
	}
	buf_free(&value);
}

/* Whole fields, as many as fit. */
static struct str some(struct str headers)
{
	struct str rest = headers;
	struct mail_field f;
	size_t n = 0;
	while (mail_field_next(&rest, &f) && headers.n - rest.n <= ARF_HEADERS_MAX)
		n = headers.n - rest.n;
	return str_n(headers.p, n);
}

static void read_original(struct reading *x)
{
	struct arf *r = x->r;
	struct buf text = BUF_INIT(x->original.body.n + 1), id = BUF_INIT(16 * ARF_TEXT_MAX);
	struct dmarc_author author;
	struct mail_split s;
	struct mail_field f;
	r->original.there = true;
	r->original.whole = str_eq(str_from(x->original.type), STR("message/rfc822")) || str_eq(str_from(x->original.type), STR("message/global"));
	if (parts_decode(&x->original, &text) == 0) {
		mail_split(buf_str(&text), &s);
		struct str h = some(s.headers);
		r->original.headers = h.n ? arena_str(x->a, h) : STR_NULL;
		x->failed |= h.n && !r->original.headers.p;
		dmarc_author(h, &author);
		if (author.state == DMARC_AUTHOR_OK)
			r->original.from = keep(x, str_from(author.domain[0]));
		if (mail_field_find(h, STR("Message-ID"), 0, &f) == 0) {
			clean(f.value, &id);
			r->original.message_id = keep(x, str_trim(buf_str(&id)));
		}
	}
	buf_free(&text);
	buf_free(&id);
}

static bool on_part(void *arg, const struct parts_part *p)
{
	static const char *const originals[] = { "message/rfc822", "message/global", "text/rfc822-headers", "text/rfc822-header", "message/rfc822-headers",
		"message/global-headers", NULL };
	struct reading *x = arg;
	struct str t = str_from(p->type);
	if (!p->depth)
		return true; /* not in a multipart: nothing that is reported can stand beside it */
	if (!x->there && str_eq(t, STR("message/feedback-report"))) {
		x->report = *p;
		x->there = true;
	} else if (!x->has_original && one_of(originals, t).n) {
		x->original = *p;
		x->has_original = true;
	}
	return x->there && x->has_original;
}

/* Outlook.com's complaints: the message in a multipart/mixed, the recipient in a field on top of it, the source in the Subject. */
static bool read_jmrp(struct reading *x, struct str headers)
{
	struct arf *r = x->r;
	struct mail_field f;
	struct buf text = BUF_INIT(16 * ARF_TEXT_MAX);
	bool is = r->original.there && mail_field_find(r->original.headers, STR("X-HmXmrOriginalRecipient"), 0, &f) == 0;
	if (is) {
		clean(f.value, &text);
		add(x, &r->rcpt_to, path(str_trim(buf_str(&text))));
		r->kind = ARF_ABUSE;
		r->type = STR("abuse");
		r->loose = true;
		if (mail_field_find(headers, STR("Subject"), 0, &f) == 0) {
			struct str rest, w, last = STR_NULL;
			clean(f.value, &text);
			rest = buf_str(&text);
			while (str_word(&rest, " ", &w))
				last = w;
			r->source_ip = address(x, last);
		}
	}
	buf_free(&text);
	return is;
}

int arf_read(struct str headers, struct str body, struct arena *a, struct arf *ret, const char **ret_why)
{
	struct arf r = { .incidents = 1 };
	struct reading x = { .a = a, .r = &r };
	const char *why = NULL;
	parts_walk(headers, body, on_part, &x);
	if (x.has_original)
		read_original(&x);
	if (x.there) {
		struct buf text = BUF_INIT(x.report.body.n + 1);
		if (parts_decode(&x.report, &text) == 0)
			read_fields(&x, str_n(text.p, text.n > ARF_PART_MAX ? ARF_PART_MAX : text.n));
		buf_free(&text);
		if (!r.type.n)
			why = "it does not say which type of feedback it is";
		r.flaw = x.types != 1 ? "Feedback-Type more than once" : x.agents != 1 ? "User-Agent not once" : x.versions != 1 ? "Version not once" :
			!x.has_original ? "no message and no header block" : NULL;
	} else if (!read_jmrp(&x, headers)) {
		why = "it has no part with a feedback report";
	}
	if (x.failed)
		why = "out of memory";
	if (why) {
		*ret_why = why;
		return -1;
	}
	*ret = r;
	return 0;
}
