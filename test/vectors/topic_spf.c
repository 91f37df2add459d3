/* Topic spf: check_host() over the zones of the public suites (RFC 7208). Two forms of cases: {"helo", "host", "mailfrom",
 * "results"} with zone rows {"name", "type", "value" | "strings"}, and {"domain", "sender", "ip", "expect"} with rows {"name",
 * "kind", "value" | "values"}. */
#include "vectors.h"

#include "proto/auth/spf.h"

#include <arpa/inet.h>
#include <stdio.h>

enum { ROWS_MAX = 64 };

/* A zone, and what a suite thinks of it where RFC 7208 thinks otherwise; see argue(). */
struct zone {
	struct json_object *rows;
	bool exists_by_aaaa; /* a name with AAAA records only has an A record, too */
	bool all_ends;       /* records end with their first "all" */
};

/* -- zones */

struct found {
	struct dns_rr rr[ROWS_MAX];
	char octets[ROWS_MAX][16], names[ROWS_MAX][DNS_NAME_MAX + 1];
	struct buf text[ROWS_MAX];
	size_t n;
	bool name, timeout;
	struct str cname;
};

static struct str text_of(struct json_object *o)
{
	return str_n(json_object_get_string(o), (size_t)json_object_get_string_len(o));
}

static bool same_name(struct str zone, struct str asked)
{
	char folded[DNS_NAME_MAX + 1];
	int n = dns_name_fold(zone, folded);
	return n > 0 && str_eq(str_n(folded, (size_t)n), asked);
}

/* An address as text. Returns its octets, or 0. */
static size_t address(struct str s, unsigned char ip[16])
{
	char z[64];
	snprintf(z, sizeof z, "%.*s", STR_ARG(s));
	return inet_pton(AF_INET, z, ip) == 1 ? 4 : inet_pton(AF_INET6, z, ip) == 1 ? 16 : 0;
}

/* The second form names PTR rows by the address. */
static bool is_reverse(struct str zone, struct str asked)
{
	char name[DNS_NAME_MAX + 1];
	unsigned char ip[16];
	size_t octets = address(zone, ip);
	int n = octets ? dns_name_reverse(ip, octets, NULL, name) : -1;
	return n > 0 && str_eq(str_n(name, (size_t)n), asked);
}

/* "mx-INDEX.NAME": what the second form's MX rows, which list addresses, name their hosts here. -1: no such name. */
static int exchanger_index(struct str asked, struct str *ret_zone)
{
	ptrdiff_t dot = str_chr(asked, '.');
	uint64_t n;
	if (!str_starts(asked, STR("mx-")) || dot < 0 || str_u64(str_n(asked.p + 3, (size_t)dot - 3), ROWS_MAX, &n))
		return -1;
	*ret_zone = str_skip(asked, (size_t)dot + 1);
	return (int)n;
}

static void add(struct found *f, enum dns_type type, struct str value, unsigned preference)
{
	char folded[DNS_NAME_MAX + 1];
	unsigned char ip[16];
	struct dns_rr rr = { .data = value, .preference = (uint16_t)preference };
	if (f->n == ROWS_MAX)
		return;
	if (type == DNS_A || type == DNS_AAAA) {
		if (address(value, ip) != (type == DNS_A ? 4 : 16))
			return;
		memcpy(f->octets[f->n], ip, 16);
		rr.data = str_n(f->octets[f->n], type == DNS_A ? 4 : 16);
	} else if (type != DNS_TXT && value.n && dns_name_fold(value, folded) < 0) {
		return; /* no name a server could give */
	}
	f->rr[f->n++] = rr;
}

static void add_strings(struct found *f, struct json_object *list)
{
	if (f->n == ROWS_MAX)
		return;
	struct buf *b = &f->text[f->n];
	*b = BUF_INIT(1 << 16);
	for (size_t i = 0; i < json_object_array_length(list); i++)
		buf_adds(b, text_of(json_object_array_get_idx(list, i)));
	f->rr[f->n++].data = buf_str(b);
}

static void add_values(struct found *f, struct str name, struct json_object *list, enum dns_type type)
{
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct str value = text_of(json_object_array_get_idx(list, i));
		unsigned char ip[16];
		if (type == DNS_MX && f->n < ROWS_MAX && address(value, ip)) {
			snprintf(f->names[f->n], sizeof f->names[0], "mx-%zu.%.*s", i, STR_ARG(name));
			value = str_from(f->names[f->n]);
		}
		add(f, type, value, (unsigned)i);
	}
}

/* The record without what stands behind "all". */
static struct str to_all(struct str record)
{
	struct str rest = record, word;
	while (str_word(&rest, " ", &word))
		if (str_iends(word, STR("all")) && word.n <= 4)
			return str_n(record.p, (size_t)(word.p + word.n - record.p));
	return record;
}

static void add_row(struct found *f, const struct zone *z, struct json_object *row, enum dns_type type)
{
	struct json_object *list, *preference;
	struct str value = vectors_str(row, "value"), kind = vectors_str(row, "kind");
	bool second = kind.p != NULL;
	enum dns_type is = 0;
	if (!second)
		kind = vectors_str(row, "type");
	if (second && (str_ieq(kind, STR("spf")) || str_ieq(kind, STR("exp"))))
		is = DNS_TXT;
	else if (dns_type_parse(kind, &is))
		return; /* type SPF is not looked at (RFC 7208 §3.1) */
	if (is == DNS_CNAME && type != DNS_CNAME)
		f->cname = value;
	if (is == DNS_AAAA && type == DNS_A && z->exists_by_aaaa)
		add(f, type, STR("127.0.0.2"), 0);
	if (is != type)
		return;
	if (json_object_object_get_ex(row, "strings", &list))
		add_strings(f, list);
	else if (json_object_object_get_ex(row, "values", &list))
		add_values(f, vectors_str(row, "name"), list, type);
	else
		add(f, type, type == DNS_TXT && z->all_ends ? to_all(value) : value,
		    json_object_object_get_ex(row, "preference", &preference) ? (unsigned)json_object_get_int(preference) : 0);
}

/* The address of a host that the second form's MX row stands for. */
static void add_exchanger(struct found *f, struct json_object *row, struct str asked, enum dns_type type)
{
	struct json_object *list;
	struct str zone;
	int i = exchanger_index(asked, &zone);
	if (i < 0 || !str_ieq(vectors_str(row, "kind"), STR("mx")) || !same_name(vectors_str(row, "name"), zone) ||
	    !json_object_object_get_ex(row, "values", &list) || (size_t)i >= json_object_array_length(list))
		return;
	f->name = true;
	add(f, type, text_of(json_object_array_get_idx(list, (size_t)i)), 0);
}

static void look_up(const struct zone *z, struct str name, enum dns_type type, struct found *f)
{
	memset(f, 0, sizeof *f);
	/* the second form's word for a name whose look-ups fail */
	f->timeout = str_starts(name, STR("_dns_error."));
	for (size_t i = 0; i < json_object_array_length(z->rows); i++) {
		struct json_object *row = json_object_array_get_idx(z->rows, i);
		struct str owner = vectors_str(row, "name"), kind = vectors_str(row, "type");
		if (type == DNS_A || type == DNS_AAAA)
			add_exchanger(f, row, name, type);
		if (!same_name(owner, name) && !(str_ieq(vectors_str(row, "kind"), STR("ptr")) && is_reverse(owner, name)))
			continue;
		f->name = true;
		if (str_ieq(kind, STR("TIMEOUT")) || str_ieq(kind, STR("SERVFAIL")))
			f->timeout |= !f->n; /* what stands before it answers */
		else if (!f->timeout)
			add_row(f, z, row, type);
	}
}

static void drop(struct found *f)
{
	for (size_t i = 0; i < f->n; i++)
		buf_free(&f->text[i]);
}

static struct dns_answer *answer(const struct zone *zone, struct str asked, enum dns_type type)
{
	struct found f;
	char names[2][DNS_NAME_MAX + 1];
	struct str name = asked;
	for (size_t hop = 0; hop <= DNS_CHAIN_MAX; hop++) {
		look_up(zone, name, type, &f);
		if (f.n || f.timeout || !f.cname.n)
			break;
		int n = dns_name_fold(f.cname, names[hop % 2]);
		name = str_n(names[hop % 2], (size_t)(n > 0 ? n : 0));
		f.timeout = hop == DNS_CHAIN_MAX; /* a chain too long, or a loop, is a failure */
	}
	enum dns_status status = f.n ? DNS_OK : f.name ? DNS_NODATA : DNS_NXDOMAIN;
	struct dns_answer *a = f.timeout ? dns_answer_fail(asked, type, "time-out") :
					   dns_answer_new(asked, type, status, f.rr, f.n, 60, false);
	drop(&f);
	return a;
}

/* Runs it to its end. False: it asked for nothing new, or for more than its limits allow. */
static bool run(struct spf_check *c, const struct zone *zone, struct dns_answers *set)
{
	struct str name;
	enum dns_type type;
	while (spf_evaluate(c, set) == DNS_MORE) {
		if (!dns_answers_n_missing(set))
			return false;
		while (dns_answers_missing(set, 0, &name, &type))
			if (dns_answers_put(set, answer(zone, name, type)))
				return false;
	}
	return dns_answers_n(set) <= 2 * SPF_QUESTIONS_MAX; /* HELO and MAIL FROM share a set */
}

/* -- cases */

static bool is_any(struct json_object *one, const char *result)
{
	struct json_object *list;
	if (!json_object_object_get_ex(one, "results", &list))
		return str_eq(vectors_str(one, "expect"), str_from(result));
	for (size_t i = 0; i < json_object_array_length(list); i++)
		if (!strcmp(json_object_get_string(json_object_array_get_idx(list, i)), result))
			return true;
	return false;
}

/* The result of an evaluation of its own, for the questions below. */
static bool result_is_any(struct json_object *one, const struct spf_check *check, const struct zone *zone)
{
	struct spf_check c = *check;
	struct dns_answers *set = dns_answers_new();
	bool ok = run(&c, zone, set) && is_any(one, spf_result_name(c.result));
	dns_answers_free(set);
	return ok;
}

static bool record_has(const struct zone *z, struct str what)
{
	for (size_t i = 0; i < json_object_array_length(z->rows); i++) {
		struct json_object *row = json_object_array_get_idx(z->rows, i);
		const char *text = json_object_to_json_string_ext(row, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
		for (const char *at = strchr(text, what.p[0]); at; at = strchr(at + 1, what.p[0]))
			if (str_istarts(str_from(at), what))
				return true;
	}
	return false;
}

/* Where a suite is at odds with RFC 7208: its expectation must be what follows from that one difference, or it is a failure. */
static const char *argue(struct json_object *one, const struct spf_check *c, const struct zone *zone)
{
	static const enum spf_result all[] = { SPF_NONE, SPF_NEUTRAL, SPF_PASS, SPF_FAIL, SPF_SOFTFAIL, SPF_TEMPERROR, SPF_PERMERROR };
	bool known = false;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		known |= is_any(one, spf_result_name(all[i]));
	if (!known)
		return "RFC 7208 §2.6: no result of SPF, but of a library's linting mode";
	struct zone other = *zone;
	struct spf_check more = *c;
	more.voids_max = SPF_TERMS_MAX;
	if (c->result == SPF_PERMERROR && result_is_any(one, &more, zone))
		return "RFC 7208 §4.6.4: no more than two void look-ups";
	other.exists_by_aaaa = true;
	if (record_has(zone, STR("exists:")) && result_is_any(one, c, &other))
		return "RFC 7208 §5.7: exists asks for type A, whatever the client's address";
	other = *zone;
	other.all_ends = true;
	if (c->result == SPF_PERMERROR && result_is_any(one, c, &other))
		return "RFC 7208 §4.6: a syntax error anywhere in the record is a permerror";
	if (c->ip_n == 4 && c->result != SPF_PASS && is_any(one, "pass") && record_has(zone, STR("ip6:::ffff:")))
		return "RFC 7208 §5, §5.6: an IPv4 client is compared with ip4 only";
	if (c->result == SPF_NEUTRAL && record_has(zone, STR(" default=")))
		return "RFC 7208 §6: a modifier that is not known has no effect";
	return NULL;
}

static void compare(struct json_object *one, const struct spf_check *c, const struct zone *zone, struct verdict *v)
{
	struct json_object *results;
	struct str explanation = vectors_str(one, "explanation");
	if (json_object_object_get_ex(one, "results", &results))
		buf_addz(&v->expected, json_object_to_json_string_ext(results, JSON_C_TO_STRING_PLAIN));
	vectors_escape(vectors_str(one, "expect"), &v->expected);
	spf_text(c, &v->got);
	v->ok = is_any(one, spf_result_name(c->result));
	if (!v->ok && (v->note = argue(one, c, zone)))
		v->ok = true;
	if (!v->ok || !explanation.p)
		return;
	struct str want = str_eq(explanation, STR("DEFAULT")) ? STR("") : explanation;
	v->ok = c->result != SPF_FAIL || str_eq(str_from(c->explanation), want);
	buf_addf(&v->expected, " explained \"%.*s\"", STR_ARG(want));
	buf_addf(&v->got, " explained \"%s\"", c->explanation);
}

/* The second form gives both names of a client: a fail of the HELO identity is final (§2.3). */
static bool judge(struct spf_check *c, const struct zone *zone, bool helo_first, struct dns_answers *set)
{
	struct spf_check helo = *c;
	helo.identity = SPF_HELO;
	if (!helo_first || !run(&helo, zone, set) || helo.result != SPF_FAIL)
		return run(c, zone, set);
	*c = helo;
	return true;
}

void topic_spf(const char *file, struct json_object *one, struct verdict *v)
{
	unsigned char ip[16];
	struct str host = vectors_str(one, "host"), helo = vectors_str(one, "helo"), sender = vectors_str(one, "mailfrom");
	struct json_object *empty = json_object_new_array();
	struct zone zone = { .rows = empty };
	bool second = !host.p;
	(void)file;
	if (second) {
		host = vectors_str(one, "ip");
		helo = vectors_str(one, "domain");
		sender = vectors_str(one, "sender");
	}
	if (!json_object_object_get_ex(one, "zone", &zone.rows) || !json_object_is_type(zone.rows, json_type_array))
		zone.rows = empty;
	struct spf_check c = { .ip = ip, .ip_n = address(host, ip), .identity = SPF_MAILFROM, .helo = helo, .sender = sender,
		.receiver = vectors_str(one, "receiver"), .explain = true };
	struct dns_answers *set = dns_answers_new();
	if (!c.ip_n)
		buf_addf(&v->got, "no address: %.*s", STR_ARG(host));
	else if (!judge(&c, &zone, second, set))
		buf_addf(&v->got, "no end, or too many questions: %zu", dns_answers_n(set));
	else
		compare(one, &c, &zone, v);
	dns_answers_free(set);
	json_object_put(empty);
}
