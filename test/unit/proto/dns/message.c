/* Queries against an independent reader (ldns), replies made by it; then what hostile servers send, octet by octet. */
#include "proto/dns/message.h"

#include <ldns/ldns.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct wire {
	unsigned char p[70000];
	size_t n;
};

static void rrs(ldns_pkt *pkt, ldns_pkt_section section, const char *text)
{
	struct str rest = str_from(text ? text : ""), line;
	while (str_word(&rest, "\n", &line)) {
		char *z = str_dupz(line);
		ldns_rr *rr = NULL;
		if (ldns_rr_new_frm_str(&rr, z, 300, NULL, NULL) != LDNS_STATUS_OK)
			fail_msg("%s", z);
		ldns_pkt_push_rr(pkt, section, rr);
		free(z);
	}
}

/* A reply to q with these records. */
static struct wire *reply(const struct dns_query *q, unsigned rcode, const char *answer, const char *authority, const char *additional)
{
	static struct wire w;
	ldns_pkt *pkt = NULL;
	uint8_t *p = NULL;
	assert_int_equal(ldns_wire2pkt(&pkt, q->wire, q->n), LDNS_STATUS_OK);
	ldns_pkt_set_qr(pkt, true);
	ldns_pkt_set_ra(pkt, true);
	ldns_pkt_set_rcode(pkt, (uint8_t)rcode);
	rrs(pkt, LDNS_SECTION_ANSWER, answer);
	rrs(pkt, LDNS_SECTION_AUTHORITY, authority);
	rrs(pkt, LDNS_SECTION_ADDITIONAL, additional);
	assert_int_equal(ldns_pkt2wire(&p, pkt, &w.n), LDNS_STATUS_OK);
	memcpy(w.p, p, w.n);
	free(p);
	ldns_pkt_free(pkt);
	return &w;
}

static struct dns_query ask(const char *name, enum dns_type type)
{
	struct dns_query q;
	assert_int_equal(dns_query_make(&q, str_from(name), type, 0x1234, DNS_QUERY_EDNS, NULL), 0);
	return q;
}

static void query(void **st)
{
	struct dns_query q = ask("Mail.Example.org.", DNS_MX);
	ldns_pkt *pkt = NULL;
	(void)st;
	assert_int_equal(ldns_wire2pkt(&pkt, q.wire, q.n), LDNS_STATUS_OK);
	assert_int_equal(ldns_pkt_id(pkt), 0x1234);
	assert_true(ldns_pkt_rd(pkt) && ldns_pkt_ad(pkt) && !ldns_pkt_cd(pkt) && !ldns_pkt_qr(pkt));
	assert_int_equal(ldns_pkt_edns_udp_size(pkt), 1232);
	assert_false(ldns_pkt_edns_do(pkt));
	ldns_rr *rr = ldns_rr_list_rr(ldns_pkt_question(pkt), 0);
	char *z = ldns_rdf2str(ldns_rr_owner(rr));
	assert_string_equal(z, "mail.example.org.");
	assert_int_equal(ldns_rr_get_type(rr), LDNS_RR_TYPE_MX);
	free(z);
	ldns_pkt_free(pkt);

	unsigned char bits[DNS_RANDOM_CASE];
	memset(bits, 0x55, sizeof bits);
	assert_int_equal(dns_query_make(&q, STR("mail.example"), DNS_A, 1, 0, bits), 0);
	assert_memory_equal(q.wire + 12, "\4MaIl\7eXaMpLe\0", 14);
	assert_string_equal(q.name, "mail.example");
	assert_int_equal(q.n, 12 + 14 + 4);
	assert_int_equal(dns_query_make(&q, STR("a..b"), DNS_A, 1, 0, NULL), -1);
	assert_int_equal(dns_query_make(&q, STR("a"), (enum dns_type)255, 1, 0, NULL), -1);
	/* the longest name there is */
	char name[DNS_NAME_MAX + 1];
	memset(name, 'a', DNS_NAME_MAX);
	name[63] = name[127] = name[191] = '.';
	name[DNS_NAME_MAX] = 0;
	assert_int_equal(dns_query_make(&q, str_from(name), DNS_TXT, 1, DNS_QUERY_EDNS, NULL), 0);
	assert_int_equal(q.n, DNS_QUERY_MAX);
}

/* An answer as text: "status ttl chain… | data…" */
static void show(const struct dns_answer *a, char *out, size_t size)
{
	size_t n = (size_t)snprintf(out, size, "%s %u", dns_status_name(a->status), a->ttl);
	for (size_t i = 0; i < a->n_chain && n < size; i++)
		n += (size_t)snprintf(out + n, size - n, " >%s", a->chain[i].p);
	for (size_t i = 0; i < a->n_rr && n < size; i++) {
		const struct dns_rr *r = &a->rr[i];
		n += (size_t)snprintf(out + n, size - n, " |");
		if (a->type == DNS_MX)
			n += (size_t)snprintf(out + n, size - n, "%u ", r->preference);
		if (a->type == DNS_TLSA)
			n += (size_t)snprintf(out + n, size - n, "%u %u %u ", r->usage, r->selector, r->matching);
		bool octets = a->type == DNS_A || a->type == DNS_AAAA || a->type == DNS_TLSA;
		for (size_t k = 0; octets && k < r->data.n && n < size; k++)
			n += (size_t)snprintf(out + n, size - n, "%02x", (unsigned char)r->data.p[k]);
		if (!octets)
			n += (size_t)snprintf(out + n, size - n, "%.*s", STR_ARG(r->data));
	}
}

#define SOA "example.org. 600 IN SOA ns.example.org. root.example.org. 1 2 3 4 120"

static void answers(void **st)
{
	static const struct {
		const char *name;
		enum dns_type type;
		unsigned rcode;
		const char *answer, *authority, *expect; /* expect: "!why" for failures */
	} cases[] = {
		{ "example.org", DNS_A, 0, "example.org. 60 IN A 192.0.2.1\nEXAMPLE.org. 50 IN A 192.0.2.2", NULL, "ok 50 |c0000201 |c0000202" },
		{ "example.org", DNS_AAAA, 0, "example.org. 60 IN AAAA 2001:db8::1", NULL, "ok 60 |20010db8000000000000000000000001" },
		{ "example.org", DNS_MX, 0, "example.org. 60 IN MX 20 B.example.org.\nexample.org. 60 IN MX 5 a.example.org.", NULL,
		    "ok 60 |5 a.example.org |20 b.example.org" },
		{ "example.org", DNS_MX, 0, "example.org. 60 IN MX 0 .", NULL, "ok 60 |0 " },
		{ "example.org", DNS_TXT, 0, "example.org. 60 IN TXT \"v=spf1 \" \"-all\"\nexample.org. 60 IN TXT \"\"", NULL,
		    "ok 60 |v=spf1 -all |" },
		{ "example.org", DNS_NS, 0, "example.org. 60 IN NS ns.Example.org.", NULL, "ok 60 |ns.example.org" },
		{ "1.2.0.192.in-addr.arpa", DNS_PTR, 0, "1.2.0.192.in-addr.arpa. 60 IN PTR a.test.\n1.2.0.192.in-addr.arpa. 60 IN PTR b.test.", NULL,
		    "ok 60 |a.test |b.test" },
		{ "_25._tcp.mx.test", DNS_TLSA, 0, "_25._tcp.mx.test. 60 IN TLSA 3 1 1 00ff10", NULL, "ok 60 |3 1 1 00ff10" },
		{ "example.org", DNS_SOA, 0, SOA, NULL, "ok 600 |ns.example.org" },
		{ "a.test", DNS_CNAME, 0, "a.test. 60 IN CNAME b.test.\nb.test. 60 IN CNAME c.test.", NULL, "ok 60 |b.test" },
		/* chains */
		{ "a.test", DNS_A, 0, "a.test. 60 IN CNAME b.test.\nb.test. 30 IN CNAME c.test.\nc.test. 90 IN A 192.0.2.1", NULL,
		    "ok 30 >b.test >c.test |c0000201" },
		{ "a.test", DNS_A, 0, "c.test. 90 IN A 192.0.2.1\nb.test. 30 IN CNAME c.test.\na.test. 60 IN CNAME b.test.", NULL,
		    "ok 30 >b.test >c.test |c0000201" },
		{ "a.test", DNS_A, 3, "a.test. 60 IN CNAME b.example.org.", SOA, "nxdomain 60 >b.example.org" },
		{ "a.test", DNS_A, 0, "a.test. 600 IN CNAME b.example.org.", SOA, "nodata 120 >b.example.org" },
		{ "a.test", DNS_A, 0, "a.test. 60 IN CNAME a.test.", NULL, "!CNAME chain too long" },
		{ "a.test", DNS_A, 0, "a.test. 60 IN CNAME b.test.\nb.test. 60 IN CNAME a.test.", NULL, "!CNAME chain too long" },
		{ "a.test", DNS_A, 0,
		    "a.test. 1 IN CNAME 1.test.\n1.test. 1 IN CNAME 2.test.\n2.test. 1 IN CNAME 3.test.\n3.test. 1 IN CNAME 4.test.\n"
		    "4.test. 1 IN CNAME 5.test.\n5.test. 1 IN CNAME 6.test.\n6.test. 1 IN CNAME 7.test.\n7.test. 1 IN CNAME 8.test.\n"
		    "8.test. 1 IN A 192.0.2.1", NULL,
		    "ok 1 >1.test >2.test >3.test >4.test >5.test >6.test >7.test >8.test |c0000201" },
		{ "a.test", DNS_A, 0, "a.test. 60 IN CNAME .", NULL, "!CNAME to what is no domain name" },
		{ "a.test", DNS_A, 0, "a.test. 60 IN CNAME a\\.b.test.", NULL, "!CNAME to what is no domain name" },
		/* negative (RFC 2308) */
		{ "no.example.org", DNS_A, 3, NULL, SOA, "nxdomain 120" },
		{ "example.org", DNS_A, 0, NULL, SOA, "nodata 120" },
		{ "example.org", DNS_A, 0, NULL, "example.org. 60 IN SOA a. b. 1 2 3 4 3600", "nodata 60" },
		{ "example.org", DNS_A, 0, NULL, "org. 60 IN SOA a. b. 1 2 3 4 3600", "nodata 60" },
		{ "no.example.org", DNS_A, 3, NULL, NULL, "nxdomain 0" },
		{ "no.example.org", DNS_A, 3, NULL, "attacker.test. 86400 IN SOA a. b. 1 2 3 4 86400", "nxdomain 0" },
		{ "example.org", DNS_A, 3, "example.org. 60 IN A 192.0.2.1", NULL, "!NXDOMAIN with data" },
		/* servers that cannot tell */
		{ "example.org", DNS_A, 2, NULL, NULL, "!SERVFAIL" },
		{ "example.org", DNS_A, 5, NULL, NULL, "!REFUSED" },
		{ "example.org", DNS_A, 9, NULL, NULL, "!unexpected response code" },
		/* what is not ours is not seen */
		{ "example.org", DNS_A, 0, "other.test. 60 IN A 192.0.2.9\nexample.org. 60 IN TXT \"x\"\nexample.org. 60 CH A 192.0.2.8", SOA, "nodata 120" },
		{ "example.org", DNS_MX, 0, "example.org. 60 IN MX 1 a\\.b.test.\nexample.org. 60 IN MX 2 b\\009.test.\nexample.org. 60 IN MX 3 c.test.",
		    NULL, "ok 60 |3 c.test" },
		{ "example.org", DNS_TXT, 0, "example.org. 4294967295 IN TXT \"x\"", NULL, "ok 0 |x" },
	};
	(void)st;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct dns_query q = ask(cases[i].name, cases[i].type);
		struct wire *w = reply(&q, cases[i].rcode, cases[i].answer, cases[i].authority, "extra.test. 60 IN A 192.0.2.77");
		struct dns_answer *a = NULL;
		const char *why = NULL;
		char got[500];
		enum dns_reply rc = dns_reply_read(&q, w->p, w->n, false, true, &a, &why);
		if (rc == DNS_REPLY_OK)
			show(a, got, sizeof got);
		else
			snprintf(got, sizeof got, "%c%s", rc == DNS_REPLY_FAILED ? '!' : '?', why);
		if (strcmp(got, cases[i].expect) != 0)
			fail_msg("%s %s (case %zu): %s, not %s", cases[i].name, dns_type_name(cases[i].type), i, got, cases[i].expect);
		dns_answer_unref(a);
	}
}

struct judged {
	enum dns_reply rc;
	bool ad;
	const char *why;
};

static struct judged judge(const struct dns_query *q, const struct wire *w, bool tcp, bool trust)
{
	struct dns_answer *a = NULL;
	struct judged j = { .why = "" };
	/* a copy of just that size, so that the sanitizer sees a read behind it */
	unsigned char *p = malloc(w->n ? w->n : 1);
	memcpy(p, w->p, w->n);
	j.rc = dns_reply_read(q, p, w->n, tcp, trust, &a, &j.why);
	free(p);
	assert_int_equal(j.rc == DNS_REPLY_OK, a != NULL);
	j.ad = a && a->authenticated;
	dns_answer_unref(a);
	return j;
}

static void header(void **st)
{
	struct dns_query q = ask("example.org", DNS_A), plain, mixed;
	unsigned char bits[DNS_RANDOM_CASE];
	struct wire *w = reply(&q, 0, "example.org. 60 IN A 192.0.2.1", NULL, NULL), good = *w, x;
	(void)st;
	assert_int_equal(judge(&q, &good, false, true).rc, DNS_REPLY_OK);
#define CHANGED(at, with) (x = good, x.p[at] = (unsigned char)(with), judge(&q, &x, false, true))
	assert_int_equal(CHANGED(0, 0x13).rc, DNS_REPLY_IGNORE);               /* id */
	assert_int_equal(CHANGED(2, 0x01).rc, DNS_REPLY_IGNORE);               /* no reply */
	assert_int_equal(CHANGED(2, 0xa1).rc, DNS_REPLY_IGNORE);               /* opcode */
	assert_int_equal(CHANGED(5, 0).rc, DNS_REPLY_IGNORE);                  /* no question */
	assert_int_equal(CHANGED(5, 2).rc, DNS_REPLY_IGNORE);
	assert_int_equal(CHANGED(13, 'f').rc, DNS_REPLY_IGNORE);               /* another name */
	assert_int_equal(CHANGED(13, 'E').rc, DNS_REPLY_OK);                   /* case does not matter … */
	assert_int_equal(CHANGED(12 + 13 + 1, 28).rc, DNS_REPLY_IGNORE);       /* another type */
	assert_int_equal(CHANGED(12 + 13 + 3, 3).rc, DNS_REPLY_IGNORE);        /* another class */
	assert_int_equal(CHANGED(2, 0x83).rc, DNS_REPLY_TRUNCATED);
	x = good, x.p[2] = 0x83;
	assert_int_equal(judge(&q, &x, true, true).rc, DNS_REPLY_FAILED);      /* TC by TCP */
	for (size_t n = 0; n < 12; n++) {
		x = good, x.n = n;
		assert_int_equal(judge(&q, &x, false, true).rc, DNS_REPLY_IGNORE);
	}
	/* AD counts only where it is trusted */
	assert_false(judge(&q, &good, false, false).ad);
	x = good, x.p[3] &= (unsigned char)~0x20;
	assert_false(judge(&q, &x, false, true).ad);
	x.p[3] |= 0x20;
	assert_true(judge(&q, &x, false, true).ad);
	assert_false(judge(&q, &x, false, false).ad);
	/* EDNS not known: with and without the question */
	assert_int_equal(CHANGED(3, 0x81).rc, DNS_REPLY_NO_EDNS);
	assert_int_equal(CHANGED(3, 0x84).rc, DNS_REPLY_NO_EDNS);
	x = good, x.p[3] = 0x81, x.p[5] = x.p[7] = x.p[11] = 0, x.n = 12;
	assert_int_equal(judge(&q, &x, false, true).rc, DNS_REPLY_NO_EDNS);
	assert_int_equal(dns_query_make(&plain, STR("example.org"), DNS_A, 0x1234, 0, NULL), 0);
	struct judged j = judge(&plain, &x, false, true);
	assert_int_equal(j.rc, DNS_REPLY_FAILED);
	assert_string_equal(j.why, "FORMERR");
	/* the upper bits of the code stand in the OPT record: BADVERS */
	unsigned char opt[] = { 0, 0, 41, 0x04, 0xd0, 1, 0, 0, 0, 0, 0 };
	x = good;
	x.p[11] = 1;
	x.n -= w->n - good.n;
	memcpy(x.p + (12 + 13 + 4 + 16), opt, sizeof opt); /* question; A record with a compressed owner */
	x.n = 12 + 13 + 4 + 16 + sizeof opt;
	assert_int_equal(judge(&q, &x, false, true).rc, DNS_REPLY_NO_EDNS);
	/* 0x20: the very octets */
	memset(bits, 0xff, sizeof bits);
	assert_int_equal(dns_query_make(&mixed, STR("example.org"), DNS_A, 0x1234, DNS_QUERY_EDNS, bits), 0);
	assert_int_equal(judge(&mixed, &good, false, true).rc, DNS_REPLY_IGNORE);
	x = good;
	memcpy(x.p + 12, mixed.wire + 12, mixed.name_n);
	assert_int_equal(judge(&mixed, &x, false, true).rc, DNS_REPLY_OK);
	/* a referral from a server that does not resolve */
	w = reply(&q, 0, NULL, "example.org. 60 IN NS ns.example.org.", NULL);
	assert_int_equal(judge(&q, w, false, true).rc, DNS_REPLY_OK);
	w->p[3] &= 0x7f;
	assert_string_equal(judge(&q, w, false, true).why, "server does not resolve for us");
}

/* Every prefix, and every octet changed in some ways: never a crash, never an answer out of the cut ones. */
static void octets(void **st)
{
	struct dns_query q = ask("a.example.org", DNS_MX);
	struct wire good = *reply(&q, 0,
	    "a.example.org. 60 IN CNAME b.example.org.\nb.example.org. 60 IN MX 10 mx.example.org.\nb.example.org. 60 IN MX 20 c.test.",
	    SOA, "mx.example.org. 60 IN A 192.0.2.1");
	(void)st;
	for (size_t n = 12; n < good.n; n++) {
		struct wire x = good;
		x.n = n;
		assert_int_not_equal(judge(&q, &x, true, true).rc, DNS_REPLY_OK);
	}
	for (size_t i = 0; i < good.n; i++)
		for (unsigned v = 0; v < 256; v += 3) {
			struct wire *x = malloc(sizeof *x);
			memcpy(x->p, good.p, good.n);
			x->n = good.n;
			x->p[i] = (unsigned char)v;
			judge(&q, x, true, true);
			free(x);
		}
}

static void put(struct wire *w, const void *p, size_t n)
{
	memcpy(w->p + w->n, p, n);
	w->n += n;
}

/* A reply whose one answer record has this owner name; an A record behind it. */
static enum dns_reply owner(const void *name, size_t n)
{
	struct dns_query q = ask("example.org", DNS_A);
	struct wire w = { .n = 0 };
	put(&w, q.wire, 12 + q.name_n + 4);
	w.p[2] |= 0x80;
	w.p[3] |= 0x80;
	w.p[7] = 1;
	w.p[11] = 0;
	put(&w, name, n);
	put(&w, "\0\1\0\1\0\0\0\x3c\0\4\xc0\0\2\1", 14);
	return judge(&q, &w, true, true).rc;
}

static void compression(void **st)
{
	unsigned char many[3 * 256];
	(void)st;
	assert_int_equal(owner("\xc0\x0c", 2), DNS_REPLY_OK);
	assert_int_equal(owner("\xc0\x1d", 2), DNS_REPLY_FAILED);         /* to itself (29) */
	assert_int_equal(owner("\xc0\x1e", 2), DNS_REPLY_FAILED);         /* forward */
	assert_int_equal(owner("\xff\xff", 2), DNS_REPLY_FAILED);
	assert_int_equal(owner("\xc0\x05", 2), DNS_REPLY_FAILED);         /* into the header */
	assert_int_equal(owner("\1a\xc0\x1d", 4), DNS_REPLY_FAILED);      /* a loop that grows */
	assert_int_equal(owner("\x40" "a\0", 3), DNS_REPLY_FAILED);       /* label types that are none */
	assert_int_equal(owner("\x80" "a\0", 3), DNS_REPLY_FAILED);
	memset(many, 1, sizeof many);
	many[254] = 0;
	assert_int_equal(owner(many, 255), DNS_REPLY_OK); /* 127 labels of one octet: no name of ours, but a name */
	many[254] = 1;
	many[256] = 0;
	assert_int_equal(owner(many, 257), DNS_REPLY_FAILED); /* 257 octets */
}

/* A tower of pointers, each to the one before. */
static void pointers(void **st)
{
	static const unsigned char a_record[] = { 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1 };
	(void)st;
	for (unsigned height = 1; height < 200; height += 7) {
		struct dns_query q = ask("example.org", DNS_A);
		struct wire w = { .n = 0 };
		put(&w, q.wire, 12 + q.name_n + 4);
		w.p[2] |= 0x80;
		w.p[7] = (unsigned char)height;
		unsigned to = 12;
		for (unsigned i = 0; i < height; i++) {
			unsigned at = (unsigned)w.n;
			unsigned char p[2] = { (unsigned char)(0xc0 | to >> 8), (unsigned char)to };
			put(&w, p, 2);
			put(&w, a_record, sizeof a_record);
			to = at;
		}
		w.p[11] = 0;
		assert_int_equal(judge(&q, &w, true, true).rc, height <= 32 ? DNS_REPLY_OK : DNS_REPLY_FAILED);
	}
}

/* Floods: more records than an answer may have, and as many as it may; big TXT records. */
static void large(void **st)
{
	static struct wire w;
	struct dns_query q = ask("example.org", DNS_A), t = ask("example.org", DNS_TXT);
	(void)st;
	for (unsigned n = DNS_RR_MAX; n <= DNS_RR_MAX + 1; n++) {
		w.n = 0;
		put(&w, q.wire, 12 + q.name_n + 4);
		w.p[2] |= 0x80;
		w.p[6] = (unsigned char)(n >> 8);
		w.p[7] = (unsigned char)n;
		w.p[11] = 0;
		for (unsigned i = 0; i < n; i++)
			put(&w, "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc0\0\2\1", 16);
		struct judged j = judge(&q, &w, true, true);
		assert_int_equal(j.rc, n == DNS_RR_MAX ? DNS_REPLY_OK : DNS_REPLY_FAILED);
		assert_int_equal(judge(&q, &w, false, true).rc, DNS_REPLY_TRUNCATED); /* larger than we take by UDP */
	}
	w.n = 0;
	put(&w, t.wire, 12 + t.name_n + 4);
	w.p[2] |= 0x80;
	w.p[7] = 1;
	w.p[11] = 0;
	put(&w, "\xc0\x0c\0\x10\0\1\0\0\0\x3c\xf0\x00", 12);
	for (unsigned i = 0; i < 240; i++) {
		unsigned char string[256] = { 255 };
		memset(string + 1, 'x', 255);
		put(&w, string, 256);
	}
	struct dns_answer *a = NULL;
	const char *why = NULL;
	if (dns_reply_read(&t, w.p, w.n, true, false, &a, &why) != DNS_REPLY_OK)
		fail_msg("%s", why);
	assert_int_equal(a->rr[0].data.n, 240 * 255);
	dns_answer_unref(a);
	w.p[w.n - 256] = 254; /* the strings no longer end where the record does */
	assert_int_equal(judge(&t, &w, true, false).rc, DNS_REPLY_FAILED);
}

/* Extra additional records and TSIG: measured, never decoded. */
static void additional(void **st)
{
	static struct wire w;
	struct dns_query q = ask("example.org", DNS_A);
	(void)st;
	for (unsigned n = 0; n <= 300; n += 100) {
		w = *reply(&q, 0, "example.org. 60 IN A 192.0.2.1", NULL, NULL);
		w.n = 12 + q.name_n + 4 + 16;
		w.p[10] = (unsigned char)(n >> 8);
		w.p[11] = (unsigned char)n;
		for (unsigned i = 0; i < n; i++) /* TSIG, class ANY */
			put(&w, "\1k\0\0\xfa\0\xff\0\0\0\0\0\3abc", 16);
		assert_int_equal(judge(&q, &w, true, true).rc, n <= 256 ? DNS_REPLY_OK : DNS_REPLY_FAILED);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(query), cmocka_unit_test(answers), cmocka_unit_test(header), cmocka_unit_test(octets),
		cmocka_unit_test(compression), cmocka_unit_test(pointers), cmocka_unit_test(large), cmocka_unit_test(additional) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
