/* XML to a report, with expat. The document is strangers': no DOCTYPE (so no entity but the five), bounded depth, elements, text and
 * rows; given to the parser in one piece, because expat looks at a long token again with each further piece.
 *
 * Elements are known by their path. One with a prefix that is not the root's is an extension; it and everything unknown is stepped
 * over as a whole. One without a prefix below a root with one is known: the schema of RFC 7489 (Appendix C) qualifies the root only. */
#include "proto/report/dmarc.h"

#include "proto/dns/answers.h"

#include <arpa/inet.h>
#include <expat.h>
#include <stdio.h>

enum el {
	DOCUMENT, FEEDBACK, META, RANGE, POLICY, RECORD, ROW, EVALUATED, REASON, IDS, AUTH, DKIM, SPF,
	LEAF, /* from here on: elements whose text is kept */
	ORG = LEAF, EMAIL, CONTACT, ID, ERROR, GENERATOR, BEGIN, END,
	P_DOMAIN, P_P, P_SP, P_NP, P_ADKIM, P_ASPF, P_FO, P_TESTING, P_DISCOVERY,
	IP, COUNT, DISPOSITION, E_DKIM, E_SPF, R_TYPE, R_COMMENT, HEADER_FROM, ENVELOPE_FROM, ENVELOPE_TO,
	D_DOMAIN, D_SELECTOR, D_RESULT, D_HUMAN, S_DOMAIN, S_RESULT, S_HUMAN,
};

static const struct {
	unsigned char parent;
	const char *name;
	unsigned char el;
} tree[] = {
	{ DOCUMENT, "feedback", FEEDBACK },
	{ FEEDBACK, "report_metadata", META }, { FEEDBACK, "policy_published", POLICY }, { FEEDBACK, "record", RECORD },
	{ META, "org_name", ORG }, { META, "email", EMAIL }, { META, "extra_contact_info", CONTACT }, { META, "report_id", ID },
	{ META, "error", ERROR }, { META, "generator", GENERATOR }, { META, "date_range", RANGE }, { RANGE, "begin", BEGIN }, { RANGE, "end", END },
	{ POLICY, "domain", P_DOMAIN }, { POLICY, "p", P_P }, { POLICY, "sp", P_SP }, { POLICY, "np", P_NP }, { POLICY, "adkim", P_ADKIM },
	{ POLICY, "aspf", P_ASPF }, { POLICY, "fo", P_FO }, { POLICY, "testing", P_TESTING }, { POLICY, "discovery_method", P_DISCOVERY },
	{ RECORD, "row", ROW }, { RECORD, "identifiers", IDS }, { RECORD, "identities", IDS }, { RECORD, "auth_results", AUTH },
	{ ROW, "source_ip", IP }, { ROW, "count", COUNT }, { ROW, "policy_evaluated", EVALUATED },
	{ EVALUATED, "disposition", DISPOSITION }, { EVALUATED, "dkim", E_DKIM }, { EVALUATED, "spf", E_SPF }, { EVALUATED, "reason", REASON },
	{ REASON, "type", R_TYPE }, { REASON, "comment", R_COMMENT },
	{ IDS, "header_from", HEADER_FROM }, { IDS, "envelope_from", ENVELOPE_FROM }, { IDS, "envelope_to", ENVELOPE_TO },
	{ AUTH, "dkim", DKIM }, { AUTH, "spf", SPF },
	{ DKIM, "domain", D_DOMAIN }, { DKIM, "selector", D_SELECTOR }, { DKIM, "result", D_RESULT }, { DKIM, "human_result", D_HUMAN },
	{ SPF, "domain", S_DOMAIN }, { SPF, "result", S_RESULT }, { SPF, "human_result", S_HUMAN },
};

struct reader {
	XML_Parser parser;
	struct arena *arena;
	struct report *r;
	size_t cap_rows;
	const char *why;          /* set: it is over */
	unsigned char open[REPORT_DEPTH_MAX];
	unsigned depth, skip;     /* skip: open elements of something that is stepped over */
	size_t elements;
	char prefix[64];          /* the root's, with its colon */
	size_t prefix_n;
	char text[REPORT_TEXT_MAX];
	size_t text_n;
	bool text_cut;            /* there was more of it */
	bool has_begin, has_end, has_count;
	struct report_row row;    /* being read */
	struct report_dkim dkim[REPORT_DKIM_MAX], signature;
	bool spf_done;
};

static void stop(struct reader *x, const char *why)
{
	if (!x->why)
		x->why = why;
	XML_StopParser(x->parser, XML_FALSE);
}

static struct str keep(struct reader *x, struct str s)
{
	struct str k = s.n ? arena_str(x->arena, s) : STR_NULL;
	if (s.n && !k.p)
		stop(x, "it is too large");
	return k.p ? k : STR_NULL;
}

/* A domain, folded; or what was there, when it is none: shown, and never used as a domain. */
static struct str domain(struct reader *x, struct str s)
{
	char name[DNS_NAME_MAX + 1];
	int n = dns_name_fold(s, name);
	return keep(x, n > 0 ? str_n(name, (size_t)n) : s);
}

static bool is_domain(struct str s)
{
	char name[DNS_NAME_MAX + 1];
	return dns_name_fold(s, name) > 0;
}

static struct str address(struct reader *x, struct str s)
{
	char text[64], out[INET6_ADDRSTRLEN];
	unsigned char ip[16];
	if (s.n >= sizeof text)
		return STR_NULL;
	memcpy(text, s.p, s.n);
	text[s.n] = 0;
	int family = memchr(text, ':', s.n) ? AF_INET6 : AF_INET;
	if (memchr(text, 0, s.n) || inet_pton(family, text, ip) != 1 || !inet_ntop(family, ip, out, sizeof out))
		return STR_NULL;
	return keep(x, str_from(out));
}

static bool is_pass(struct str s)
{
	return str_ieq(s, STR("pass"));
}

/* ---- beginnings */

static void begin_row(struct reader *x)
{
	x->row = (struct report_row){ 0 };
	x->has_count = x->spf_done = false;
}

static enum el element(struct reader *x, const char *name)
{
	unsigned char parent = x->depth ? x->open[x->depth - 1] : DOCUMENT;
	if (!x->depth) {
		const char *colon = strchr(name, ':');
		size_t n = colon ? (size_t)(colon - name) + 1 : 0;
		if (n >= sizeof x->prefix)
			return DOCUMENT;
		memcpy(x->prefix, name, n);
		x->prefix_n = n;
	}
	const char *local = strncmp(name, x->prefix, x->prefix_n) ? name : name + x->prefix_n;
	for (size_t i = 0; i < sizeof tree / sizeof *tree; i++) /* a prefix that is left makes it none of these */
		if (tree[i].parent == parent && !strcmp(tree[i].name, local))
			return tree[i].el;
	return DOCUMENT;
}

static void on_start(void *arg, const XML_Char *name, const XML_Char **attributes)
{
	struct reader *x = arg;
	if (++x->elements > REPORT_ELEMENTS_MAX || x->depth + x->skip >= REPORT_DEPTH_MAX) {
		stop(x, "it has too many elements, or too many within each other");
		return;
	}
	enum el el = x->skip ? DOCUMENT : element(x, name);
	if (el == DOCUMENT) {
		if (!x->depth)
			stop(x, "it is no DMARC report: its root is not \"feedback\"");
		x->skip++;
		return;
	}
	if (el == FEEDBACK)
		for (size_t i = 0; attributes[i]; i += 2)
			x->r->rfc9990 |= !strncmp(attributes[i], "xmlns", 5) && !strcmp(attributes[i + 1], REPORT_NAMESPACE);
	else if (el == RECORD)
		begin_row(x);
	else if (el == DKIM)
		x->signature = (struct report_dkim){ 0 };
	x->open[x->depth++] = (unsigned char)el;
	x->text_n = 0;
	x->text_cut = false;
}

static void on_text(void *arg, const XML_Char *s, int len)
{
	struct reader *x = arg;
	if (x->skip || !x->depth || x->open[x->depth - 1] < LEAF || x->text_cut)
		return;
	/* expat hands over whole characters; what is kept of them are whole ones, and nothing after the first that did not fit */
	size_t n = str_utf8_cut(str_n(s, (size_t)len), sizeof x->text - x->text_n);
	x->text_cut = n < (size_t)len;
	memcpy(x->text + x->text_n, s, n);
	x->text_n += n;
}

/* ---- ends */

static void end_row(struct reader *x)
{
	struct report *r = x->r;
	struct report_row *w = &x->row;
	if (!x->has_count || !w->source_ip.n || !is_domain(w->header_from) || !w->disposition.n) {
		r->rows_bad++;
		return;
	}
	if (r->n_rows == REPORT_ROWS_MAX) {
		r->rows_cut++;
		return;
	}
	if (w->n_dkim) {
		struct report_dkim *d = arena_calloc(x->arena, w->n_dkim, sizeof *d);
		if (!d) {
			stop(x, "it is too large");
			return;
		}
		memcpy(d, x->dkim, w->n_dkim * sizeof *d);
		w->dkim = d;
	}
	if (r->n_rows == x->cap_rows) {
		size_t cap = x->cap_rows ? x->cap_rows * 2 : 32;
		struct report_row *more = arena_calloc(x->arena, cap, sizeof *more);
		if (!more) {
			stop(x, "it is too large");
			return;
		}
		if (r->n_rows)
			memcpy(more, r->row, r->n_rows * sizeof *more);
		r->row = more;
		x->cap_rows = cap;
	}
	r->row[r->n_rows++] = *w;
}

static void end_dkim(struct reader *x)
{
	/* without a result it says nothing */
	if (x->signature.result.n && x->row.n_dkim < REPORT_DKIM_MAX)
		x->dkim[x->row.n_dkim++] = x->signature;
}

static bool seconds(struct str s, int64_t *ret)
{
	uint64_t v;
	ptrdiff_t dot = str_chr(s, '.'); /* some write fractions */
	if (str_u64(dot > 0 ? str_n(s.p, (size_t)dot) : s, UINT64_C(1) << 40, &v))
		return false;
	*ret = (int64_t)v;
	return true;
}

static void end_text(struct reader *x, enum el el, struct str s)
{
	struct report *r = x->r;
	struct report_row *w = &x->row;
	struct report_policy *p = &r->policy;
	struct report_reason *why = w->n_reasons && w->n_reasons <= REPORT_REASONS_MAX ? &w->reason[w->n_reasons - 1] : NULL;
	uint64_t n;
	switch (el) {
	case ORG: r->org = keep(x, s); break;
	case EMAIL: r->email = keep(x, s); break;
	case CONTACT: r->contact = keep(x, s); break;
	case ID: r->id = keep(x, s); break;
	case ERROR: r->error = r->error.n ? r->error : keep(x, s); break;
	case GENERATOR: r->generator = keep(x, s); break;
	case BEGIN: x->has_begin = seconds(s, &r->begin); break;
	case END: x->has_end = seconds(s, &r->end); break;
	case P_DOMAIN: p->domain = domain(x, s); break;
	case P_P: p->p = report_word(REPORT_POLICIES, s); break;
	case P_SP: p->sp = report_word(REPORT_POLICIES, s); break;
	case P_NP: p->np = report_word(REPORT_POLICIES, s); break;
	case P_ADKIM: p->adkim = report_word(REPORT_ALIGNMENTS, s); break;
	case P_ASPF: p->aspf = report_word(REPORT_ALIGNMENTS, s); break;
	case P_FO: p->fo = keep(x, s); break;
	case P_TESTING: p->testing = report_word(REPORT_TESTING, s); break;
	case P_DISCOVERY: p->discovery = report_word(REPORT_DISCOVERIES, s); break;
	case IP: w->source_ip = address(x, s); break;
	case COUNT:
		x->has_count = str_u64(s, REPORT_COUNT_MAX, &n) == 0;
		w->count = x->has_count ? n : 0;
		break;
	case DISPOSITION: w->disposition = report_word(REPORT_DISPOSITIONS, s); break;
	case E_DKIM: w->dkim_pass = is_pass(s); break;
	case E_SPF: w->spf_pass = is_pass(s); break;
	case R_TYPE:
		if (why)
			why->type = report_word(REPORT_OVERRIDES, s).n ? report_word(REPORT_OVERRIDES, s) : STR("other");
		break;
	case R_COMMENT:
		if (why)
			why->comment = keep(x, s);
		break;
	case HEADER_FROM: w->header_from = domain(x, s); break;
	case ENVELOPE_FROM: w->envelope_from = domain(x, s); break;
	case ENVELOPE_TO: w->envelope_to = domain(x, s); break;
	case D_DOMAIN: x->signature.domain = domain(x, s); break;
	case D_SELECTOR: x->signature.selector = keep(x, s); break;
	case D_RESULT: x->signature.result = report_word(REPORT_DKIM_RESULTS, s); break;
	case D_HUMAN: x->signature.human = keep(x, s); break;
	/* RFC 7489 allows several, one scope each; the first that has a result counts */
	case S_DOMAIN: w->spf_domain = x->spf_done ? w->spf_domain : domain(x, s); break;
	case S_RESULT: w->spf_result = x->spf_done ? w->spf_result : report_word(REPORT_SPF_RESULTS, s); break;
	case S_HUMAN: w->spf_human = x->spf_done ? w->spf_human : keep(x, s); break;
	default: break;
	}
}

static void on_end(void *arg, const XML_Char *name)
{
	struct reader *x = arg;
	(void)name;
	if (x->skip) {
		x->skip--;
		return;
	}
	enum el el = x->open[--x->depth];
	if (el >= LEAF) {
		for (size_t i = 0; i < x->text_n; i++)
			if ((unsigned char)x->text[i] < 0x20)
				x->text[i] = ' ';
		end_text(x, el, str_trim(str_n(x->text, x->text_n)));
		x->text_n = 0;
		x->text_cut = false;
	} else if (el == REASON) {
		struct report_reason *why = x->row.n_reasons ? &x->row.reason[x->row.n_reasons - 1] : NULL;
		if (why && !why->type.n)
			why->type = STR("other");
	} else if (el == DKIM) {
		end_dkim(x);
	} else if (el == SPF) {
		x->row.has_spf |= x->row.spf_result.n > 0;
		x->spf_done = x->row.has_spf;
	} else if (el == RECORD) {
		end_row(x);
	}
}

static void on_doctype(void *arg, const XML_Char *name, const XML_Char *sysid, const XML_Char *pubid, int internal)
{
	(void)name;
	(void)sysid;
	(void)pubid;
	(void)internal;
	stop(arg, "it has a document type declaration, which no report needs");
}

/* A reason begins: there must be a place for it before its type is read. */
static void on_start_reason(void *arg, const XML_Char *name, const XML_Char **attributes)
{
	struct reader *x = arg;
	on_start(arg, name, attributes);
	if (!x->skip && x->depth && x->open[x->depth - 1] == REASON) {
		if (x->row.n_reasons < REPORT_REASONS_MAX) {
			x->row.reason[x->row.n_reasons++] = (struct report_reason){ 0 };
		} else { /* more than anybody reads */
			x->depth--;
			x->skip++;
		}
	}
}

static const char *incomplete(const struct reader *x)
{
	const struct report *r = x->r;
	if (!r->org.n)
		return "it does not say whose report it is (org_name)";
	if (!r->id.n)
		return "it has no report_id";
	if (!is_domain(r->policy.domain))
		return "it does not say which domain it is about";
	if (!x->has_begin || !x->has_end || r->begin > r->end)
		return "it does not say which period it is about";
	return NULL;
}

int report_read(struct str xml, struct arena *a, struct report *ret, const char **ret_why)
{
	struct report r = { 0 };
	const char *why = NULL;
	if (xml.n > REPORT_XML_MAX) {
		*ret_why = "it is too large";
		return -1;
	}
	struct reader *x = arena_alloc(a, sizeof *x);
	XML_Parser parser = x ? XML_ParserCreate(NULL) : NULL;
	if (!parser) {
		*ret_why = "out of memory";
		return -1;
	}
	x->parser = parser;
	x->arena = a;
	x->r = &r;
	XML_SetUserData(parser, x);
	XML_SetElementHandler(parser, on_start_reason, on_end);
	XML_SetCharacterDataHandler(parser, on_text);
	XML_SetStartDoctypeDeclHandler(parser, on_doctype);
	enum XML_Status status = XML_Parse(parser, xml.p ? xml.p : "", (int)xml.n, XML_TRUE);
	if (x->why)
		why = x->why;
	else if (status != XML_STATUS_OK)
		why = XML_ErrorString(XML_GetErrorCode(parser));
	else
		why = incomplete(x);
	XML_ParserFree(parser);
	if (why) {
		*ret_why = why;
		return -1;
	}
	*ret = r;
	return 0;
}
