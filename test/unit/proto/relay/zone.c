/* See zone.h. */
#include "zone.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { RECORDS = 64 };

struct found {
	struct dns_rr rr[RECORDS];
	unsigned char octets[RECORDS][128];
	size_t n;
	bool exists, fails, secure;
	struct str cname;
};

static void add(struct found *f, enum dns_type type, struct str value)
{
	struct dns_rr *rr = &f->rr[f->n];
	unsigned char *o = f->octets[f->n++];
	char z[128];
	snprintf(z, sizeof z, "%.*s", STR_ARG(value));
	rr->data = value;
	if (type == DNS_A || type == DNS_AAAA) {
		assert_int_equal(inet_pton(type == DNS_A ? AF_INET : AF_INET6, z, o), 1);
		rr->data = str_n((char *)o, type == DNS_A ? 4 : 16);
	} else if (type == DNS_MX) {
		struct str rest = value, word;
		uint64_t preference = 0;
		assert_true(str_word(&rest, " ", &word) && str_u64(word, 65535, &preference) == 0);
		rr->preference = (uint16_t)preference;
		rr->data = str_trim(rest);
		if (str_eq(rr->data, STR(".")))
			rr->data = STR("");
	} else if (type == DNS_TLSA) { /* usage selector matching length: that many octets */
		unsigned u, s, m, length;
		assert_int_equal(sscanf(z, "%u %u %u %u", &u, &s, &m, &length), 4);
		rr->usage = (uint8_t)u;
		rr->selector = (uint8_t)s;
		rr->matching = (uint8_t)m;
		rr->data = str_n((char *)o, length);
	}
}

static void look(struct found *f, zone_lines zone, struct str name, enum dns_type type)
{
	memset(f, 0, sizeof *f);
	f->secure = true;
	bool any = false;
	for (; *zone && f->n < RECORDS; zone++) {
		struct str rest = str_from(*zone), owner, kind;
		enum dns_type is;
		bool signed_line = str_starts(rest, STR("+"));
		if (!str_word(&rest, " ", &owner) || !str_ieq(str_skip(owner, signed_line), name) || !str_word(&rest, " ", &kind))
			continue;
		f->exists = any = true;
		f->secure &= signed_line;
		rest = str_trim(rest);
		if (str_eq(kind, STR("!")))
			f->fails = true;
		if (dns_type_parse(kind, &is))
			continue;
		if (is == type && str_eq(rest, STR("!")))
			f->fails = true;
		else if (is == DNS_CNAME && type != DNS_CNAME)
			f->cname = rest;
		else if (is == type)
			add(f, type, rest);
	}
	f->secure &= any;
}

static struct dns_answer *answer(zone_lines zone, struct str name, enum dns_type type)
{
	struct found f;
	struct str chain[DNS_CHAIN_MAX];
	size_t n_chain = 0;
	bool secure = true;
	look(&f, zone, name, type);
	secure &= f.secure;
	while (!f.n && !f.fails && f.cname.n && n_chain < DNS_CHAIN_MAX) {
		struct str next = f.cname;
		chain[n_chain++] = next;
		look(&f, zone, next, type);
		secure &= f.secure;
	}
	if (f.fails || (!f.n && f.cname.n))
		return dns_answer_fail(name, type, "no answer in time");
	struct dns_answer *a = dns_answer_new(name, type, f.n ? DNS_OK : f.exists ? DNS_NODATA : DNS_NXDOMAIN, f.rr, f.n, 60, secure);
	assert_non_null(a);
	if (n_chain) { /* dns_answer_new() makes none: one that leaks is avoided by a static store */
		static struct str kept[64][DNS_CHAIN_MAX];
		static size_t at;
		memcpy(kept[at % 64], chain, n_chain * sizeof *chain);
		a->chain = kept[at++ % 64];
		a->n_chain = n_chain;
	}
	return a;
}

size_t zone_run(dns_evaluate_fn fn, void *arg, struct dns_answers *set, zone_lines zone)
{
	struct str name;
	enum dns_type type;
	int rc;
	while ((rc = fn(arg, set)) == DNS_MORE) {
		assert_true(dns_answers_n_missing(set) > 0);
		while (dns_answers_missing(set, 0, &name, &type))
			assert_int_equal(dns_answers_put(set, answer(zone, name, type)), 0);
	}
	assert_int_equal(rc, DNS_DONE);
	return dns_answers_n(set);
}
