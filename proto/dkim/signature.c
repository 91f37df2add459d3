/* One signature on its way from its field to its result: the digest of the header fields, the key, the body hash. */
#include "dkim_internal.h"

static const struct str from_name = STR_INIT("From");

void dkim_digest_sink(void *arg, const char *p, size_t n)
{
	EVP_DigestUpdate(arg, p, n);
}

void dkim_sig_check_from(struct dkim_sig *s, const struct dkim_fields *f)
{
	size_t there = dkim_fields_count(f, from_name), signed_ones = 0;
	struct str rest = s->names, name;
	bool more = true;
	while (dkim_tags_item(&rest, &more, &name))
		signed_ones += str_ieq(name, from_name);
	if (s->kind != DKIM_SIGNATURE && (!there || !signed_ones))
		return; /* RFC 8617 §4.1.2 leaves the choice of fields to the sealer */
	if (!there)
		dkim_sig_settle(s, DKIM_PERMERROR, "the message has no From");
	else if (there > signed_ones) /* who reads it may be shown the one that is not signed (RFC 6376 §8.15) */
		s->policy_why = "a From field is not signed";
}

int dkim_sig_hash_fields(struct dkim_sig *s, struct dkim_fields *f, size_t own)
{
	struct str rest = s->names, name;
	bool more = true;
	unsigned n = 0;
	EVP_MD_CTX *ctx = dkim_digest_new(s->alg == DKIM_RSA_SHA1);
	if (!ctx)
		return -1;
	struct dkim_out out = { .sink = dkim_digest_sink, .arg = ctx };
	dkim_fields_begin(f);
	while (dkim_tags_item(&rest, &more, &name)) {
		const struct dkim_field *one = dkim_fields_next(f, name, own);
		if (one && one->all.n > f->left) {
			dkim_sig_settle(s, DKIM_POLICY, "more header octets are signed than are looked at");
			EVP_MD_CTX_free(ctx);
			return 0;
		}
		f->left -= one ? one->all.n : 0;
		if (one) /* those that are not there are signed as not being there (§5.4.2) */
			dkim_canon_field(s->header_canon, one->all, 0, 0, false, &out);
	}
	const struct dkim_field *self = &f->field[own];
	size_t at = (size_t)(self->value.p - self->all.p);
	dkim_canon_field(s->header_canon, self->all, at + s->cut, at + s->cut_end, true, &out);
	dkim_out_flush(&out);
	int r = EVP_DigestFinal_ex(ctx, s->digest, &n) == 1 ? 0 : -1;
	s->n_digest = n;
	EVP_MD_CTX_free(ctx);
	return r;
}

/* g= of RFC 4871: at most one "*", which stands for anything; nothing matches an empty one. */
static bool granularity_matches(struct str g, struct str local)
{
	ptrdiff_t star = str_chr(g, '*');
	if (star < 0)
		return g.n && str_eq(g, local);
	struct str before = str_n(g.p, (size_t)star), behind = str_skip(g, (size_t)star + 1);
	return local.n >= before.n + behind.n && str_starts(local, before) &&
	       str_eq(str_skip(local, local.n - behind.n), behind);
}

/* Tries one record. True: the signature is its. */
static bool try_record(struct dkim_sig *s, const struct dkim_policy *p, struct str record, struct dkim_key *k)
{
	dkim_key_read(record, s->alg, p, k);
	if (k->result != DKIM_PASS)
		return false;
	if (s->kind == DKIM_SIGNATURE && k->strict && !str_eq(s->identity_domain, s->pub.domain)) {
		k->result = DKIM_PERMERROR;
		k->why = "the key is for d= itself, i= is below it";
	} else if (s->kind == DKIM_SIGNATURE && k->granularity.p && !granularity_matches(k->granularity, s->identity_local)) {
		k->result = DKIM_PERMERROR;
		k->why = "the key is not for this i=";
	} else {
		return dkim_key_verify(k->pkey, s->alg, s->digest, s->n_digest, (const unsigned char *)s->signature.p, s->signature.n);
	}
	return false;
}

/* Which of two records that did not verify says more? */
static bool says_more(const struct dkim_key *a, const struct dkim_key *b)
{
	if ((a->result == DKIM_PASS) != (b->result == DKIM_PASS))
		return a->result == DKIM_PASS;
	return a->is_key && !b->is_key;
}

bool dkim_sig_key(struct dkim_sig *s, const struct dkim_policy *p, struct dns_answers *set, unsigned *tries)
{
	if (s->settled || s->keyed)
		return true;
	const struct dns_answer *a = dns_answers_get(set, s->key_name, DNS_TXT);
	if (!a)
		return false;
	if (a->status == DNS_TEMPFAIL) {
		dkim_sig_settle(s, DKIM_TEMPERROR, "the key could not be looked up");
		return true;
	}
	struct dkim_key best = { .result = DKIM_PERMERROR, .why = "there is no key" };
	for (size_t i = 0; i < a->n_rr && i < DKIM_KEYS_MAX && !s->verified; i++) {
		struct dkim_key k;
		if (!*tries) {
			dkim_sig_settle(s, DKIM_POLICY, "too many signatures, or keys at one name");
			return true;
		}
		--*tries;
		s->verified = try_record(s, p, a->rr[i].data, &k);
		dkim_key_free(&k);
		if (s->verified || !i || says_more(&k, &best))
			best = k;
	}
	s->pub.bits = best.bits;
	s->pub.testing = best.testing;
	s->keyed = best.result == DKIM_PASS;
	if (!s->keyed && best.bits)
		dkim_sig_settle(s, best.result, "%s: %u bits", best.why, best.bits);
	else if (!s->keyed)
		dkim_sig_settle(s, best.result, "%s", best.why);
	return true;
}

/* Compares the body. True: nothing speaks against it. */
static bool body_holds(struct dkim_sig *s, const struct dkim_bodies *b, const struct dkim_policy *p)
{
	const struct dkim_hash *h = &b->hash[s->hash];
	uint64_t total = b->total[s->body_canon];
	if (!h->n_digest) {
		dkim_sig_settle(s, DKIM_TEMPERROR, "the body could not be hashed");
		return false;
	}
	if (s->pub.has_length && s->length > total) {
		s->pub.raw = s->pub.body = DKIM_FAIL;
		dkim_sig_settle(s, DKIM_FAIL, "the body is shorter than l=");
		return false;
	}
	if (s->body_hash.n != h->n_digest || memcmp(s->body_hash.p, h->digest, h->n_digest) != 0) {
		s->pub.raw = s->pub.body = DKIM_FAIL;
		dkim_sig_settle(s, DKIM_FAIL, "the body is not what was signed");
		return false;
	}
	s->pub.body = DKIM_PASS;
	if (s->pub.has_length && s->length < total && !p->partial)
		s->policy_why = "l= leaves a part of the body unsigned";
	return true;
}

void dkim_sig_finish(struct dkim_sig *s, const struct dkim_bodies *b, const struct dkim_policy *p)
{
	if (s->settled || !s->keyed)
		return;
	s->pub.headers = s->verified ? DKIM_PASS : DKIM_FAIL;
	if (s->kind != DKIM_ARC_SEAL && s->hash < 0) {
		dkim_sig_settle(s, DKIM_POLICY, "too many different body hashes");
		return;
	}
	if (s->kind != DKIM_ARC_SEAL && !body_holds(s, b, p))
		return;
	s->pub.raw = s->verified ? DKIM_PASS : DKIM_FAIL;
	if (!s->verified)
		dkim_sig_settle(s, DKIM_FAIL, "the signature is not one of these header fields by this key");
	else if (s->policy_why)
		dkim_sig_settle(s, DKIM_POLICY, "%s", s->policy_why);
	else
		dkim_sig_settle(s, DKIM_PASS, "%s", "");
}
