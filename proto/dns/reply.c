/* Judges a reply and turns it into an answer. First everything is measured (wire.c); then those records that can belong to
 * the answer are decoded by ldns, one by one; then the CNAME chain is followed from the name that was asked. Anything
 * else in the reply (additional data, other owners, other classes) is never looked at, so it cannot poison anything. */
#include "proto/dns/message.h"

#include "answers_internal.h"
#include "wire.h"

#include <ldns/ldns.h>
#include <stdlib.h>

enum { FLAG_QR = 0x8000, FLAG_OPCODE = 0x7800, FLAG_AA = 0x0400, FLAG_TC = 0x0200, FLAG_RA = 0x0080, FLAG_AD = 0x0020 };
enum { RCODE_OK = 0, RCODE_FORMERR = 1, RCODE_SERVFAIL = 2, RCODE_NXDOMAIN = 3, RCODE_NOTIMP = 4, RCODE_REFUSED = 5, RCODE_BADVERS = 16 };

struct reading {
	const struct dns_query *q;
	const unsigned char *p;
	size_t n, at;
	uint16_t flags;
	unsigned rcode;
	ldns_rr **rr; /* decoded records of the answer section: of the type asked for, and CNAMEs */
	size_t n_rr;
	ldns_rr *soa;
	const char *why;
};

static bool same_name(const struct dns_query *q, const unsigned char *p)
{
	const unsigned char *w = q->wire + WIRE_HEADER;
	if (q->mixed_case)
		return memcmp(w, p, q->name_n) == 0;
	return str_ieq(str_n((const char *)w, q->name_n), str_n((const char *)p, q->name_n)); /* lengths are below 'A' */
}

/* Is it a reply to q at all? */
static bool is_reply(struct reading *r)
{
	const struct dns_query *q = r->q;
	if (r->n < WIRE_HEADER || wire_u16(r->p) != q->id)
		return false;
	r->flags = wire_u16(r->p + 2);
	r->rcode = r->flags & 15u;
	if (!(r->flags & FLAG_QR) || r->flags & FLAG_OPCODE)
		return false;
	unsigned questions = wire_u16(r->p + 4);
	r->at = WIRE_HEADER;
	/* servers that understood nothing repeat nothing */
	if (!questions && (r->rcode == RCODE_FORMERR || r->rcode == RCODE_NOTIMP))
		return true;
	if (questions != 1 || r->n < WIRE_HEADER + q->name_n + 4 || !same_name(q, r->p + WIRE_HEADER))
		return false;
	r->at += q->name_n;
	if (memcmp(r->p + r->at, q->wire + r->at, 4) != 0) /* type and class */
		return false;
	r->at += 4;
	return true;
}

static ldns_rr *decode(struct reading *r, const struct wire_record *w)
{
	ldns_rr *rr = NULL;
	size_t pos = w->at;
	if (ldns_wire2rr(&rr, r->p, r->n, &pos, LDNS_SECTION_ANSWER) != LDNS_STATUS_OK || !rr)
		return NULL;
	if (ldns_rr_owner(rr) && ldns_rr_rd_count(rr) && pos == w->data + w->data_n)
		return rr;
	ldns_rr_free(rr);
	return NULL;
}

/* Walks all sections. Returns 0, or -1 with why. */
static int measure(struct reading *r)
{
	const struct wire_record none = { .at = 0 };
	struct wire_record w = none;
	unsigned answers = wire_u16(r->p + 6), authority = wire_u16(r->p + 8), additional = wire_u16(r->p + 10);
	r->why = "malformed reply";
	if (answers > WIRE_ANSWERS_MAX || authority > WIRE_OTHERS_MAX || additional > WIRE_OTHERS_MAX) {
		r->why = "too many records";
		return -1;
	}
	for (unsigned i = 0; i < answers; i++) {
		if (wire_record(r->p, r->n, &r->at, &w))
			return -1;
		if (w.class != WIRE_CLASS_IN || (w.type != (uint16_t)r->q->type && w.type != DNS_CNAME))
			continue;
		if (r->n_rr == DNS_RR_MAX) {
			r->why = "too many records";
			return -1;
		}
		if (!r->rr && !(r->rr = malloc((answers < DNS_RR_MAX ? answers : DNS_RR_MAX) * sizeof *r->rr))) {
			r->why = "out of memory";
			return -1;
		}
		if (!(r->rr[r->n_rr] = decode(r, &w)))
			return -1;
		r->n_rr++;
	}
	for (unsigned i = 0; i < authority; i++) {
		if (wire_record(r->p, r->n, &r->at, &w))
			return -1;
		if (w.class == WIRE_CLASS_IN && w.type == DNS_SOA && !r->soa && !(r->soa = decode(r, &w)))
			return -1;
	}
	for (unsigned i = 0; i < additional; i++) {
		if (wire_record(r->p, r->n, &r->at, &w))
			return -1;
		if (w.type == WIRE_TYPE_OPT) /* RFC 6891 §6.1.3: the upper bits of the code */
			r->rcode |= (w.ttl >> 24) << 4;
	}
	r->why = NULL;
	return 0;
}

/* A name out of ldns as our text; -1: octets we do not take in names. The root is "". */
static int text_of(const ldns_rdf *name, char *out)
{
	const unsigned char *p = ldns_rdf_data(name);
	size_t n = ldns_rdf_size(name), at = 0, used = 0;
	char raw[WIRE_NAME_MAX + 1];
	while (at < n && p[at]) {
		size_t len = p[at++];
		if (len > n - at || used + len + 1 > sizeof raw || memchr(p + at, '.', len))
			return -1;
		if (used)
			raw[used++] = '.';
		memcpy(raw + used, p + at, len);
		used += len;
		at += len;
	}
	if (!used) {
		out[0] = 0;
		return 0;
	}
	/* only ASCII can come through: bytes of a label are no UTF-8 text to be converted */
	return str_is_ascii(str_n(raw, used)) ? dns_name_fold(str_n(raw, used), out) : -1;
}

struct extract {
	struct dns_rr rr[DNS_RR_MAX];
	struct str chain[DNS_CHAIN_MAX];
	char chain_text[DNS_CHAIN_MAX][DNS_NAME_MAX + 1];
	struct dns_answer parts;
	char *texts; /* room for names and joined strings */
	size_t used, room;
};

/* RFC 2181 §8: a TTL with the top bit set is 0. */
static uint32_t ttl_of(const ldns_rr *rr)
{
	uint32_t t = ldns_rr_ttl(rr);
	return t > INT32_MAX ? 0 : t;
}

/* One record into the answer; a name that cannot be used makes the record one we do not see. -1: no room. */
static int take(struct extract *x, enum dns_type type, const ldns_rr *rr)
{
	struct dns_rr *out = &x->rr[x->parts.n_rr];
	char *at = x->texts + x->used;
	size_t fields = ldns_rr_rd_count(rr), n = 0;
	*out = (struct dns_rr){ .preference = 0 };
	if (type == DNS_A || type == DNS_AAAA) {
		const ldns_rdf *f = ldns_rr_rdf(rr, 0);
		out->data = str_n((const char *)ldns_rdf_data(f), ldns_rdf_size(f));
	} else if (type == DNS_TXT) {
		for (size_t i = 0; i < fields; i++) {
			const ldns_rdf *f = ldns_rr_rdf(rr, i);
			size_t len = ldns_rdf_size(f) ? ldns_rdf_size(f) - 1 : 0;
			if (len > x->room - x->used - n)
				return -1;
			memcpy(at + n, ldns_rdf_data(f) + 1, len);
			n += len;
		}
		out->data = str_n(at, n);
	} else if (type == DNS_TLSA) {
		if (fields != 4)
			return 0;
		const ldns_rdf *f = ldns_rr_rdf(rr, 3);
		out->usage = ldns_rdf_data(ldns_rr_rdf(rr, 0))[0];
		out->selector = ldns_rdf_data(ldns_rr_rdf(rr, 1))[0];
		out->matching = ldns_rdf_data(ldns_rr_rdf(rr, 2))[0];
		out->data = str_n((const char *)ldns_rdf_data(f), ldns_rdf_size(f));
	} else {
		if (type == DNS_MX)
			out->preference = ldns_rdf2native_int16(ldns_rr_rdf(rr, 0));
		if (x->room - x->used < DNS_NAME_MAX + 1)
			return -1;
		int len = text_of(ldns_rr_rdf(rr, type == DNS_MX ? 1 : 0), at);
		if (len < 0)
			return 0;
		n = (size_t)len;
		out->data = str_n(at, n);
	}
	x->used += n;
	x->parts.n_rr++;
	if (ttl_of(rr) < x->parts.ttl)
		x->parts.ttl = ttl_of(rr);
	return 0;
}

/* Not ldns_dname_compare(): it allocates for each label, for each comparison, and a reply may hold many long names. */
static bool same(const ldns_rdf *a, const ldns_rdf *b)
{
	return str_ieq(str_n((const char *)ldns_rdf_data(a), ldns_rdf_size(a)), str_n((const char *)ldns_rdf_data(b), ldns_rdf_size(b)));
}

/* RFC 2308 §5: the SOA of the zone of the name, its TTL or its MINIMUM, whichever is less; 0: none, not to be kept. */
static uint32_t negative_ttl(const struct reading *r, const ldns_rdf *name)
{
	if (!r->soa || ldns_rr_rd_count(r->soa) < 7)
		return 0;
	const ldns_rdf *zone = ldns_rr_owner(r->soa);
	if (!same(zone, name) && !ldns_dname_is_subdomain(name, zone))
		return 0;
	uint32_t minimum = ldns_rdf2native_int32(ldns_rr_rdf(r->soa, 6)), ttl = ttl_of(r->soa);
	return minimum < ttl ? minimum : ttl;
}

static const ldns_rr *cname_of(const struct reading *r, const ldns_rdf *name)
{
	for (size_t i = 0; i < r->n_rr; i++)
		if (ldns_rr_get_type(r->rr[i]) == LDNS_RR_TYPE_CNAME && same(ldns_rr_owner(r->rr[i]), name))
			return r->rr[i];
	return NULL;
}

static int take_all(const struct reading *r, struct extract *x, const ldns_rdf *name)
{
	for (size_t i = 0; i < r->n_rr; i++)
		if (ldns_rr_get_type(r->rr[i]) == (ldns_rr_type)r->q->type && same(ldns_rr_owner(r->rr[i]), name) &&
		    take(x, r->q->type, r->rr[i]))
			return -1;
	return 0;
}

/* Follows the chain and fills x->parts. Returns 0, or -1 with why. */
static int extract(struct reading *r, struct extract *x, ldns_rdf *asked)
{
	const ldns_rdf *name = asked;
	x->parts.ttl = INT32_MAX;
	for (;;) {
		if (take_all(r, x, name)) {
			r->why = "answer too large";
			return -1;
		}
		const ldns_rr *c = r->q->type == DNS_CNAME || x->parts.n_rr ? NULL : cname_of(r, name);
		if (!c)
			break;
		if (x->parts.n_chain == DNS_CHAIN_MAX) {
			r->why = "CNAME chain too long";
			return -1;
		}
		char *text = x->chain_text[x->parts.n_chain];
		int n = text_of(ldns_rr_rdf(c, 0), text);
		if (n <= 0) {
			r->why = "CNAME to what is no domain name";
			return -1;
		}
		x->chain[x->parts.n_chain++] = str_n(text, (size_t)n);
		if (ttl_of(c) < x->parts.ttl)
			x->parts.ttl = ttl_of(c);
		name = ldns_rr_rdf(c, 0);
	}
	if (x->parts.n_rr && r->rcode == RCODE_NXDOMAIN) {
		r->why = "NXDOMAIN with data";
		return -1;
	}
	if (!x->parts.n_rr) {
		uint32_t ttl = negative_ttl(r, name);
		/* not recursive, not authoritative, no answer: a referral, from a server that cannot be asked */
		if (r->rcode == RCODE_OK && !(r->flags & (FLAG_AA | FLAG_RA)) && !r->soa) {
			r->why = "server does not resolve for us";
			return -1;
		}
		if (ttl < x->parts.ttl)
			x->parts.ttl = ttl;
		x->parts.status = r->rcode == RCODE_NXDOMAIN ? DNS_NXDOMAIN : DNS_NODATA;
	}
	return 0;
}

static struct dns_answer *make(struct reading *r, bool authenticated)
{
	struct dns_answer *a = NULL;
	struct extract *x = malloc(sizeof *x);
	ldns_rdf *asked = ldns_rdf_new_frm_data(LDNS_RDF_TYPE_DNAME, r->q->name_n, r->q->wire + WIRE_HEADER);
	r->why = "out of memory";
	if (x && asked) {
		x->parts = (struct dns_answer){ .name = str_from(r->q->name), .type = r->q->type, .rr = x->rr, .chain = x->chain,
			.authenticated = authenticated };
		x->used = 0;
		x->room = r->n + (r->n_rr + 1) * (DNS_NAME_MAX + 1); /* strings are no longer than the message, names no longer than names */
		x->texts = malloc(x->room);
		if (x->texts && extract(r, x, asked) == 0) {
			a = dns_answer_build(&x->parts);
			r->why = NULL;
		}
		free(x->texts);
	}
	ldns_rdf_deep_free(asked);
	free(x);
	if (!a && !r->why)
		r->why = "out of memory";
	return a;
}

static enum dns_reply judge(struct reading *r, bool tcp, bool trust_ad, struct dns_answer **ret)
{
	r->why = "not the reply to this question";
	if (!is_reply(r))
		return DNS_REPLY_IGNORE;
	r->why = "truncated";
	if (!tcp && (r->flags & FLAG_TC || r->n > DNS_UDP_SIZE))
		return DNS_REPLY_TRUNCATED;
	if (r->flags & FLAG_TC)
		return DNS_REPLY_FAILED;
	bool edns = r->q->flags & DNS_QUERY_EDNS;
	int bad = measure(r);
	/* what servers say that do not know EDNS may be no whole message either (RFC 6891 §7) */
	if (edns && (r->rcode == RCODE_FORMERR || r->rcode == RCODE_NOTIMP || r->rcode == RCODE_BADVERS)) {
		r->why = "server does not know EDNS";
		return DNS_REPLY_NO_EDNS;
	}
	if (bad)
		return DNS_REPLY_FAILED;
	if (r->rcode != RCODE_OK && r->rcode != RCODE_NXDOMAIN) {
		r->why = r->rcode == RCODE_SERVFAIL ? "SERVFAIL"
			 : r->rcode == RCODE_REFUSED ? "REFUSED"
			 : r->rcode == RCODE_FORMERR ? "FORMERR"
			 : r->rcode == RCODE_NOTIMP  ? "NOTIMP"
						     : "unexpected response code";
		return DNS_REPLY_FAILED;
	}
	return (*ret = make(r, trust_ad && r->flags & FLAG_AD)) ? DNS_REPLY_OK : DNS_REPLY_FAILED;
}

enum dns_reply dns_reply_read(const struct dns_query *q, const unsigned char *p, size_t n, bool tcp, bool trust_ad,
    struct dns_answer **ret_answer, const char **ret_why)
{
	struct reading r = { .q = q, .p = p, .n = n };
	struct dns_answer *a = NULL;
	enum dns_reply rc = judge(&r, tcp, trust_ad, &a);
	for (size_t i = 0; i < r.n_rr; i++)
		ldns_rr_free(r.rr[i]);
	free(r.rr);
	ldns_rr_free(r.soa);
	if (rc == DNS_REPLY_OK)
		*ret_answer = a;
	else
		*ret_why = r.why;
	return rc;
}
