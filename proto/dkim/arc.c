/* The chain of ARC sets (RFC 8617 §5.2): its structure, its message signatures, its seals. Linear: a seal covers all sets before
 * it, so their digest is carried along and copied, not computed anew. */
#include "dkim_internal.h"

#include "proto/mail/header.h"

#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>

enum { RESULTS_MAX = 64 << 10 }; /* octets of one ARC-Authentication-Results kept */

static const struct str aar_name = STR_INIT("ARC-Authentication-Results"), ams_name = STR_INIT("ARC-Message-Signature"),
			as_name = STR_INIT("ARC-Seal");

__attribute__((format(printf, 2, 3))) static void chain_fails(struct dkim_chain *c, const char *fmt, ...)
{
	va_list ap;
	if (c->settled)
		return;
	c->settled = true;
	c->result.result = DKIM_FAIL;
	va_start(ap, fmt);
	vsnprintf(c->result.reason, sizeof c->result.reason, fmt, ap);
	va_end(ap);
}

unsigned dkim_results_instance(struct str v, struct str *ret_rest)
{
	size_t i = mail_skip_cfws(v, 0);
	uint64_t n;
	if (i == v.n || v.p[i] != 'i')
		return 0;
	i = mail_skip_cfws(v, i + 1);
	if (i == v.n || v.p[i] != '=')
		return 0;
	i = mail_skip_cfws(v, i + 1);
	size_t from = i;
	while (i < v.n && v.p[i] >= '0' && v.p[i] <= '9')
		i++;
	if (i - from > 2 || dkim_number(str_n(v.p + from, i - from), &n) || n > ARC_SETS_MAX)
		return 0;
	i = mail_skip_cfws(v, i);
	if (i == v.n || v.p[i] != ';')
		return 0;
	*ret_rest = str_skip(v, i + 1);
	return (unsigned)n;
}

struct sources {
	const struct dkim_field *aar[ARC_SETS_MAX], *ams[ARC_SETS_MAX], *as[ARC_SETS_MAX]; /* by instance - 1 */
};

static int keep_results(struct arc_set *set, struct str text, struct arena *a)
{
	struct buf b = BUF_INIT(RESULTS_MAX);
	if (mail_field_unfold(&b, text))
		buf_reset(&b); /* too long to be of use; the seal covers it all the same */
	set->results = arena_str(a, buf_str(&b));
	buf_free(&b);
	return set->results.p ? 0 : -1;
}

/* Puts every field at its instance; false: not a sound structure (settled), or memory (*error). */
static bool collect(struct dkim_chain *c, struct dkim_fields *f, struct sources *src, const struct dkim_policy *p, struct arena *a,
    bool *error)
{
	const struct dkim_field *one;
	struct dkim_sig s;
	dkim_fields_begin(f);
	while ((one = dkim_fields_next(f, aar_name, SIZE_MAX))) {
		struct str rest;
		unsigned i = dkim_results_instance(one->value, &rest);
		if (i < 1 || i > c->n || src->aar[i - 1])
			return chain_fails(c, "the instances of ARC-Authentication-Results are not 1 to %u", c->n), false;
		src->aar[i - 1] = one;
		if (keep_results(&c->set[i - 1], rest, a))
			return *error = true, false;
	}
	while ((one = dkim_fields_next(f, ams_name, SIZE_MAX))) {
		if (dkim_sig_parse(&s, DKIM_ARC_MESSAGE, one->value, p, a))
			return *error = true, false;
		if (s.instance < 1 || s.instance > c->n || src->ams[s.instance - 1])
			return chain_fails(c, "the instances of ARC-Message-Signature are not 1 to %u", c->n), false;
		src->ams[s.instance - 1] = one;
		c->message[s.instance - 1] = s;
	}
	while ((one = dkim_fields_next(f, as_name, SIZE_MAX))) {
		if (dkim_sig_parse(&s, DKIM_ARC_SEAL, one->value, p, a))
			return *error = true, false;
		if (s.instance < 1 || s.instance > c->n || src->as[s.instance - 1])
			return chain_fails(c, "the instances of ARC-Seal are not 1 to %u", c->n), false;
		src->as[s.instance - 1] = one;
		c->seal[s.instance - 1] = s;
	}
	return true;
}

/* §5.2 steps 1 to 3, as far as no key is needed. */
static void check_structure(struct dkim_chain *c)
{
	for (unsigned i = 0; i < c->n && !c->settled; i++) {
		const struct dkim_sig *seal = &c->seal[i];
		if (seal->settled)
			chain_fails(c, "ARC-Seal %u: %s", i + 1, seal->pub.reason);
		else if (i + 1 == c->n && seal->cv == DKIM_FAIL)
			chain_fails(c, "ARC-Seal %u says that the chain had failed", i + 1);
		else if (seal->cv != (i ? DKIM_PASS : DKIM_NONE))
			chain_fails(c, "ARC-Seal %u: cv= is not \"%s\"", i + 1, i ? "pass" : "none");
	}
	const struct dkim_sig *newest = &c->message[c->n - 1];
	if (!c->settled && newest->settled)
		chain_fails(c, "ARC-Message-Signature %u: %s", c->n, newest->pub.reason);
}

static int add_field(struct dkim_out *o, const struct dkim_field *one)
{
	dkim_canon_field(DKIM_RELAXED, one->all, 0, 0, false, o);
	return 0;
}

/* §5.1.1: the sets in order, AAR, AMS, AS; its own b= left out at the end. */
static int hash_seals(struct dkim_chain *c, const struct sources *src)
{
	EVP_MD_CTX *run = dkim_digest_new(false), *end = EVP_MD_CTX_new();
	struct dkim_out o = { .sink = dkim_digest_sink, .arg = run };
	int r = run && end ? 0 : -1;
	for (unsigned i = 0; i < c->n && !r; i++) {
		struct dkim_sig *s = &c->seal[i];
		const struct dkim_field *self = src->as[i];
		size_t at = (size_t)(self->value.p - self->all.p);
		unsigned n = 0;
		add_field(&o, src->aar[i]);
		add_field(&o, src->ams[i]);
		dkim_out_flush(&o);
		if (EVP_MD_CTX_copy_ex(end, run) != 1) {
			r = -1;
			break;
		}
		struct dkim_out last = { .sink = dkim_digest_sink, .arg = end };
		dkim_canon_field(DKIM_RELAXED, self->all, at + s->cut, at + s->cut_end, true, &last);
		dkim_out_flush(&last);
		r = EVP_DigestFinal_ex(end, s->digest, &n) == 1 ? 0 : -1;
		s->n_digest = n;
		add_field(&o, self);
	}
	EVP_MD_CTX_free(run);
	EVP_MD_CTX_free(end);
	return r;
}

/* The newest first: the others only matter for the oldest pass, and the number of hashes is limited. */
static int hash_messages(struct dkim_chain *c, struct dkim_fields *f, const struct sources *src, struct dkim_bodies *b)
{
	for (unsigned i = c->n; i-- > 0;) {
		struct dkim_sig *s = &c->message[i];
		s->old = i + 1 < c->n;
		if (!s->settled)
			dkim_sig_check_from(s, f);
		if (s->settled)
			continue;
		if (dkim_sig_hash_fields(s, f, (size_t)(src->ams[i] - f->field)))
			return -1;
		if (s->settled)
			continue;
		s->hash = dkim_bodies_want(b, s->body_canon, false, s->pub.has_length, s->length);
	}
	return 0;
}

int dkim_chain_read(struct dkim_chain *c, struct dkim_fields *f, struct dkim_bodies *b, const struct dkim_policy *p, struct arena *a)
{
	size_t n_aar = dkim_fields_count(f, aar_name), n_ams = dkim_fields_count(f, ams_name), n_as = dkim_fields_count(f, as_name);
	struct sources src = { 0 };
	bool error = false;
	if (f->too_many) {
		chain_fails(c, "the header block is too large");
		return 0;
	}
	if (!n_aar && !n_ams && !n_as) {
		c->settled = true;
		c->result.result = DKIM_NONE;
		return 0;
	}
	if (n_aar != n_ams || n_ams != n_as || n_as > ARC_SETS_MAX) {
		chain_fails(c, "%zu ARC-Authentication-Results, %zu ARC-Message-Signature, %zu ARC-Seal: no sets", n_aar, n_ams, n_as);
		return 0;
	}
	c->n = (unsigned)n_as;
	c->message = arena_calloc(a, c->n, sizeof *c->message);
	c->seal = arena_calloc(a, c->n, sizeof *c->seal);
	c->set = arena_calloc(a, c->n, sizeof *c->set);
	if (!c->message || !c->seal || !c->set)
		return -1;
	if (!collect(c, f, &src, p, a, &error)) {
		c->n = 0;
		return error ? -1 : 0;
	}
	for (unsigned i = 0; i < c->n; i++) {
		c->set[i].seal_domain = c->seal[i].pub.domain;
		c->set[i].seal_selector = c->seal[i].pub.selector;
		c->set[i].message_domain = c->message[i].pub.domain;
		c->set[i].cv = c->seal[i].cv;
	}
	c->result.n = c->n;
	c->result.set = c->set;
	check_structure(c);
	for (unsigned i = 0; i + 1 < c->n && p->arc_newest; i++) {
		dkim_sig_settle(&c->seal[i], DKIM_PASS, "%s", "");
		dkim_sig_settle(&c->message[i], DKIM_NONE, "not looked at");
	}
	return c->settled ? 0 : hash_messages(c, f, &src, b) || hash_seals(c, &src) ? -1 : 0;
}

static bool name_known(const struct dkim_chain *c, const struct dkim_sig *s)
{
	for (unsigned i = 0; i < c->n; i++)
		if (str_eq(c->seal[i].key_name, s->key_name))
			return true;
	return str_eq(c->message[c->n - 1].key_name, s->key_name);
}

/* Sets are looked at from the newest down, as dkim_chain_finish() judges them (RFC 8617 §5.2): behind one that does not hold the others matter
 * to nobody. Nor are their keys asked for before: as many sets at once as were found to hold, one at first, so that an honest chain of
 * three takes two rounds, and a made-up one of fifty two queries. */
bool dkim_chain_keys(struct dkim_chain *c, const struct dkim_policy *p, struct dns_answers *set, unsigned *tries)
{
	bool all = true, holds = true;
	unsigned extra = 0, known = 0, open = 0;
	if (c->settled)
		return true;
	for (unsigned i = c->n; i-- > 0;) {
		struct dkim_sig *s = &c->message[i], *seal = &c->seal[i];
		if (holds && open && open >= known)
			return false; /* what is open decides whether these matter */
		if (!holds && !seal->settled && !seal->keyed)
			dkim_sig_settle(seal, DKIM_NONE, "not looked at");
		bool here = dkim_sig_key(seal, p, set, tries);
		holds = holds && !seal->settled && (!seal->keyed || seal->verified);
		if (!holds && s->old && !s->settled && !s->keyed)
			dkim_sig_settle(s, DKIM_NONE, "not looked at");
		if (s->old && !s->settled && !name_known(c, s) && ++extra > ARC_OLD_NAMES_MAX)
			dkim_sig_settle(s, DKIM_NONE, "not looked at: too many keys");
		else
			here &= dkim_sig_key(s, p, set, tries);
		holds = holds && (s->old || (!s->settled && (!s->keyed || s->verified)));
		known += here;
		open += !here;
		all &= here;
	}
	return all;
}

static void fails_by(struct dkim_chain *c, const char *what, unsigned i, const struct dkim_sig *s)
{
	if (c->settled)
		return;
	c->result.temporary = s->pub.result == DKIM_TEMPERROR;
	chain_fails(c, "%s %u: %s", what, i, s->pub.reason);
}

void dkim_chain_finish(struct dkim_chain *c, const struct dkim_bodies *b, const struct dkim_policy *p)
{
	unsigned good = 0; /* message signatures that pass, from the newest on */
	bool run = true;
	if (c->settled)
		return;
	for (unsigned i = c->n; i-- > 0;) {
		struct dkim_sig *s = &c->message[i];
		dkim_sig_finish(s, b, p);
		c->set[i].message = s->pub.result;
		run = run && s->pub.result == DKIM_PASS;
		good += run;
	}
	if (!good)
		fails_by(c, "ARC-Message-Signature", c->n, &c->message[c->n - 1]);
	for (unsigned i = c->n; i-- > 0 && !c->settled;) {
		dkim_sig_finish(&c->seal[i], b, p);
		if (c->seal[i].pub.result != DKIM_PASS)
			fails_by(c, "ARC-Seal", i + 1, &c->seal[i]);
	}
	c->result.oldest_pass = !good || good == c->n ? 0 : c->n - good + 1;
	c->result.oldest_known = good == c->n || (good && c->message[c->n - good - 1].pub.result != DKIM_NONE);
	if (!c->settled) {
		c->settled = true;
		c->result.result = DKIM_PASS;
	}
}
