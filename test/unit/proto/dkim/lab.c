/* See lab.h. Test code: any failure aborts. */
#include "lab.h"

#include "proto/dkim/canon.h"
#include "proto/mail/header.h"
#include "proto/mail/split.h"

#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>

#define must(x) ((x) ? (void)0 : abort())

static struct {
	const char *name;
	int bits;
	EVP_PKEY *key;
	char p[1500], pkcs1[1500];
} keys[] = { { .name = "rsa2048", .bits = 2048 }, { .name = "rsa1024", .bits = 1024 }, { .name = "rsa1016", .bits = 1016 },
	{ .name = "rsa512", .bits = 512 }, { .name = "rsa4096", .bits = 4096 }, { .name = "ed25519" } };

static size_t load(const char *name)
{
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		if (strcmp(keys[i].name, name) != 0)
			continue;
		if (keys[i].key)
			return i;
		unsigned char der[1000], *at = der;
		keys[i].key = keys[i].bits ? EVP_RSA_gen((unsigned)keys[i].bits) : EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
		must(keys[i].key);
		memcpy(keys[i].p, "p=", 3);
		memcpy(keys[i].pkcs1, "p=", 3);
		if (!keys[i].bits) {
			size_t n = sizeof der;
			must(EVP_PKEY_get_raw_public_key(keys[i].key, der, &n) == 1);
			EVP_EncodeBlock((unsigned char *)keys[i].p + 2, der, (int)n);
			return i;
		}
		int n = i2d_PUBKEY(keys[i].key, &at);
		must(n > 0);
		EVP_EncodeBlock((unsigned char *)keys[i].p + 2, der, n);
		at = der;
		n = i2d_PublicKey(keys[i].key, &at);
		must(n > 0);
		EVP_EncodeBlock((unsigned char *)keys[i].pkcs1 + 2, der, n);
		return i;
	}
	abort();
}

EVP_PKEY *lab_key(const char *name)
{
	return keys[load(name)].key;
}

const char *lab_p(const char *name)
{
	return keys[load(name)].p;
}

const char *lab_p_pkcs1(const char *name)
{
	return keys[load(name)].pkcs1;
}

void lab_end(void)
{
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		EVP_PKEY_free(keys[i].key);
		keys[i].key = NULL;
	}
}

static void to_buf(void *arg, const char *p, size_t n)
{
	must(!buf_add(arg, p, n));
}

static void add_base64(struct buf *out, const unsigned char *p, size_t n)
{
	char text[2000];
	EVP_EncodeBlock((unsigned char *)text, p, (int)n);
	buf_addz(out, text);
}

/* Appends the template with @BH@ and @B@ replaced. */
static void fill(struct buf *out, const char *tmpl, struct str bh, struct str b)
{
	for (const char *at = tmpl; *at;)
		if (!strncmp(at, "@BH@", 4))
			buf_adds(out, bh), at += 4;
		else if (!strncmp(at, "@B@", 3))
			buf_adds(out, b), at += 3;
		else
			buf_addc(out, *at++);
}

/* Signs the digest of data; appends Base64. */
static void sign_data(struct buf *out, const char *key, int hash, struct str data)
{
	unsigned char sum[64], sig[1024];
	unsigned n_sum;
	size_t n = sizeof sig;
	EVP_PKEY *k = lab_key(key);
	const EVP_MD *md = hash == 1 ? EVP_sha1() : EVP_sha256();
	must(EVP_Digest(data.p, data.n, sum, &n_sum, md, NULL) == 1);
	if (!strcmp(key, "ed25519")) {
		EVP_MD_CTX *c = EVP_MD_CTX_new();
		must(EVP_DigestSignInit(c, NULL, NULL, NULL, k) == 1 && EVP_DigestSign(c, sig, &n, sum, n_sum) == 1);
		EVP_MD_CTX_free(c);
	} else {
		EVP_PKEY_CTX *c = EVP_PKEY_CTX_new(k, NULL);
		must(EVP_PKEY_sign_init(c) == 1 && EVP_PKEY_CTX_set_rsa_padding(c, RSA_PKCS1_PADDING) == 1 &&
		    EVP_PKEY_CTX_set_signature_md(c, md) == 1 && EVP_PKEY_sign(c, sig, &n, sum, n_sum) == 1);
		EVP_PKEY_CTX_free(c);
	}
	add_base64(out, sig, n);
}

void lab_sign(struct buf *message, const struct lab_sign *how)
{
	struct mail_split cut;
	struct buf body = BUF_INIT(1 << 26), head = BUF_INIT(1 << 26), bh = BUF_INIT(1000), b = BUF_INIT(2000), whole = BUF_INIT(1 << 26);
	unsigned char sum[64];
	unsigned n_sum;
	mail_split(buf_str(message), &cut);
	struct dkim_canon_body cb = { .canon = how->body == 'r' ? DKIM_RELAXED : DKIM_SIMPLE, .out = { .sink = to_buf, .arg = &body } };
	dkim_canon_body_add(&cb, cut.body.p, cut.body.n);
	dkim_canon_body_end(&cb);
	must(EVP_Digest(body.p ? body.p : "", body.n < how->limit ? body.n : how->limit, sum, &n_sum,
		 how->hash == 1 ? EVP_sha1() : EVP_sha256(), NULL) == 1);
	add_base64(&bh, sum, n_sum);

	struct dkim_out o = { .sink = to_buf, .arg = &head };
	enum dkim_canon hc = how->header == 'r' ? DKIM_RELAXED : DKIM_SIMPLE;
	struct str names[64], rest = str_from(how->names), name;
	size_t n = 0;
	while (str_word(&rest, ":", &name)) {
		name = str_trim(name);
		size_t before = 0, there = mail_field_count(cut.headers, name, 0);
		for (size_t i = 0; i < n; i++)
			before += str_ieq(names[i], name);
		names[n++] = name;
		struct mail_field f;
		if (before < there && !mail_field_find(cut.headers, name, there - 1 - before, &f))
			dkim_canon_field(hc, f.all, 0, 0, false, &o);
	}
	struct buf own = BUF_INIT(1 << 20);
	buf_addf(&own, "%s: ", how->field);
	fill(&own, how->tmpl, buf_str(&bh), STR_NULL);
	buf_addz(&own, "\r\n");
	dkim_canon_field(hc, buf_str(&own), 0, 0, true, &o);
	dkim_out_flush(&o);
	sign_data(&b, how->key, how->hash, buf_str(&head));

	buf_addf(&whole, "%s: ", how->field);
	fill(&whole, how->tmpl, buf_str(&bh), buf_str(&b));
	buf_addz(&whole, "\r\n");
	buf_adds(&whole, buf_str(message));
	must(!whole.failed);
	buf_free(message);
	*message = whole;
	buf_free(&body);
	buf_free(&head);
	buf_free(&bh);
	buf_free(&b);
	buf_free(&own);
}

/* Fields of a set stand in any order; each says "i=N" as its first tag in these tests. */
static struct str set_field(struct str headers, const char *name, unsigned i)
{
	struct mail_field f;
	char want[16];
	snprintf(want, sizeof want, " i=%u;", i);
	for (size_t k = 0; !mail_field_find(headers, str_from(name), k, &f); k++)
		if (str_starts(f.value, str_from(want)))
			return f.all;
	abort();
}

void lab_seal(struct buf *message, unsigned n, const char *key, const char *tmpl)
{
	struct mail_split cut;
	struct buf head = BUF_INIT(1 << 26), b = BUF_INIT(2000), own = BUF_INIT(1 << 16), whole = BUF_INIT(1 << 26);
	struct dkim_out o = { .sink = to_buf, .arg = &head };
	mail_split(buf_str(message), &cut);
	for (unsigned i = 1; i <= n; i++) {
		dkim_canon_field(DKIM_RELAXED, set_field(cut.headers, "ARC-Authentication-Results", i), 0, 0, false, &o);
		dkim_canon_field(DKIM_RELAXED, set_field(cut.headers, "ARC-Message-Signature", i), 0, 0, false, &o);
		if (i < n)
			dkim_canon_field(DKIM_RELAXED, set_field(cut.headers, "ARC-Seal", i), 0, 0, false, &o);
	}
	buf_addz(&own, "ARC-Seal: ");
	fill(&own, tmpl, STR_NULL, STR_NULL);
	buf_addz(&own, "\r\n");
	dkim_canon_field(DKIM_RELAXED, buf_str(&own), 0, 0, true, &o);
	dkim_out_flush(&o);
	sign_data(&b, key, 256, buf_str(&head));
	buf_addz(&whole, "ARC-Seal: ");
	fill(&whole, tmpl, STR_NULL, buf_str(&b));
	buf_addz(&whole, "\r\n");
	buf_adds(&whole, buf_str(message));
	must(!whole.failed);
	buf_free(message);
	*message = whole;
	buf_free(&head);
	buf_free(&b);
	buf_free(&own);
}

static struct dns_answer *look(const char *zone, struct str name)
{
	struct str rest = str_from(zone), line;
	struct dns_rr rr[16];
	size_t n = 0;
	while (str_word(&rest, "\n", &line)) {
		ptrdiff_t blank = str_chr(line, ' ');
		if (blank < 0 || !str_eq(str_n(line.p, (size_t)blank), name))
			continue;
		struct str record = str_skip(line, (size_t)blank + 1);
		if (str_eq(record, STR("!")))
			return dns_answer_fail(name, DNS_TXT, "SERVFAIL");
		must(n < 16);
		rr[n++] = (struct dns_rr){ .data = record };
	}
	return dns_answer_new(name, DNS_TXT, n ? DNS_OK : DNS_NXDOMAIN, rr, n, 60, false);
}

struct dkim *lab_verify(struct str message, const struct dkim_policy *p, const char *zone, size_t piece)
{
	struct mail_split cut;
	struct dkim *d = dkim_new(p);
	struct dns_answers *set = dns_answers_new();
	struct str name;
	enum dns_type type;
	must(d && set);
	mail_split(message, &cut);
	must(!dkim_headers(d, cut.headers));
	/* keys before or behind the body: both orders are used */
	bool body_first = piece & 1;
	for (unsigned round = 0; round < 2; round++) {
		if (body_first == (round == 0)) {
			for (size_t i = 0; i < cut.body.n; i += piece)
				dkim_body_feed(d, cut.body.p + i, piece < cut.body.n - i ? piece : cut.body.n - i);
			dkim_body_end(d);
			continue;
		}
		while (dkim_evaluate(d, set) == DNS_MORE) {
			must(dns_answers_n_missing(set));
			while (dns_answers_missing(set, 0, &name, &type))
				must(type == DNS_TXT && !dns_answers_put(set, look(zone, name)));
		}
		if (!round) { /* the answers are not needed afterwards */
			dns_answers_free(set);
			set = NULL;
		}
	}
	dns_answers_free(set);
	must(dkim_done(d));
	return d;
}
