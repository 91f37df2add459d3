/* The verifier: finds the signatures of a message, feeds its body, fetches keys, and knows when all is said. OpenSSL's error queue is
 * left as it was found: a TLS connection in the same thread reads it, too. */
#include "dkim_internal.h"

#include <openssl/err.h>
#include <stdlib.h>

enum { ARENA_MAX = 64 << 20 }; /* a bound for bugs; what is kept is a small multiple of the header block, which is limited */

struct dkim {
	struct dkim_policy policy;
	struct arena *arena;
	struct dkim_sig sig[DKIM_SIGNATURES_MAX];
	size_t n, n_ignored;
	struct dkim_chain chain;
	struct dkim_bodies bodies;
	unsigned tries;
	bool headers, ended, done;
};

static const struct str field_name = STR_INIT("DKIM-Signature");

const char *dkim_result_name(enum dkim_result r)
{
	static const char *const names[] = { "none", "pass", "fail", "policy", "neutral", "temperror", "permerror" };
	return (unsigned)r < sizeof names / sizeof *names ? names[r] : "?";
}

struct dkim *dkim_new(const struct dkim_policy *policy)
{
	struct dkim *d = calloc(1, sizeof *d);
	if (!d)
		return NULL;
	if (policy)
		d->policy = *policy;
	d->tries = DKIM_TRIES_MAX;
	dkim_bodies_init(&d->bodies);
	d->arena = arena_new(ARENA_MAX);
	if (d->arena)
		return d;
	free(d);
	return NULL;
}

void dkim_release(struct dkim *d)
{
	if (!d)
		return;
	dkim_bodies_free(&d->bodies);
	arena_free(d->arena);
	free(d);
}

/* Everything that can be settled is, and both the keys and the body are here. */
static void conclude(struct dkim *d)
{
	bool all = d->headers && d->ended;
	for (size_t i = 0; i < d->n; i++)
		all = all && (d->sig[i].settled || d->sig[i].keyed);
	for (unsigned i = 0; i < d->chain.n && !d->chain.settled; i++)
		all = all && (d->chain.seal[i].settled || d->chain.seal[i].keyed) &&
		      (d->chain.message[i].settled || d->chain.message[i].keyed);
	if (!all || d->done)
		return;
	for (size_t i = 0; i < d->n; i++)
		dkim_sig_finish(&d->sig[i], &d->bodies, &d->policy);
	dkim_chain_finish(&d->chain, &d->bodies, &d->policy);
	d->done = true;
}

/* The least that tells it from the others, but eight octets (RFC 6008 §4). */
static size_t b_length(const struct dkim *d, size_t which)
{
	struct str b = d->sig[which].pub.b;
	size_t n = 8;
	for (size_t i = 0; i < d->n; i++) {
		struct str other = d->sig[i].pub.b;
		size_t same = 0;
		if (i == which || str_eq(other, b))
			continue;
		while (same < b.n && same < other.n && b.p[same] == other.p[same])
			same++;
		n = same + 1 > n ? same + 1 : n;
	}
	return n < b.n ? n : b.n;
}

static int read_signatures(struct dkim *d, struct dkim_fields *f)
{
	for (size_t i = 0; i < f->n; i++) {
		if (!str_ieq(f->field[i].name, field_name))
			continue;
		if (d->n == DKIM_SIGNATURES_MAX) {
			d->n_ignored++;
			continue;
		}
		struct dkim_sig *s = &d->sig[d->n++];
		if (dkim_sig_parse(s, DKIM_SIGNATURE, f->field[i].value, &d->policy, d->arena))
			return -1;
		if (!s->settled)
			dkim_sig_check_from(s, f);
		if (s->settled)
			continue;
		if (dkim_sig_hash_fields(s, f, i))
			return -1;
		if (s->settled)
			continue;
		s->hash = dkim_bodies_want(&d->bodies, s->body_canon, s->alg == DKIM_RSA_SHA1, s->pub.has_length, s->length);
	}
	size_t length[DKIM_SIGNATURES_MAX];
	for (size_t i = 0; i < d->n; i++)
		length[i] = b_length(d, i);
	for (size_t i = 0; i < d->n; i++)
		d->sig[i].pub.b.n = length[i];
	return 0;
}

int dkim_headers(struct dkim *d, struct str headers)
{
	struct arena *scratch = arena_new(ARENA_MAX); /* the index dies with this call */
	struct dkim_fields f;
	if (!scratch)
		return -1;
	ERR_set_mark();
	int r = dkim_fields_index(&f, scratch, headers);
	if (!r && f.too_many) {
		/* may be signed or not: one entry that says why nobody looked */
		dkim_sig_settle(&d->sig[0], DKIM_POLICY, "the header block is too large");
		d->n = 1;
	} else if (!r && !d->policy.arc_newest) {
		r = read_signatures(d, &f);
	}
	if (!r && d->policy.arc)
		r = dkim_chain_read(&d->chain, &f, &d->bodies, &d->policy, d->arena);
	if (!r && !d->policy.arc)
		d->chain.settled = true;
	arena_free(scratch);
	ERR_pop_to_mark();
	for (size_t i = 0; i < d->n; i++)
		d->sig[i].names = STR_NULL;
	d->headers = !r;
	conclude(d);
	return r;
}

bool dkim_wants_body(const struct dkim *d)
{
	return d->bodies.n;
}

void dkim_body_feed(struct dkim *d, const void *p, size_t n)
{
	if (!d->ended && n)
		dkim_bodies_add(&d->bodies, p, n);
}

void dkim_body_end(struct dkim *d)
{
	if (d->ended)
		return;
	ERR_set_mark();
	dkim_bodies_end(&d->bodies);
	ERR_pop_to_mark();
	d->ended = true;
	conclude(d);
}

static bool within(struct str domain, struct str parent)
{
	return str_ieq(domain, parent) || (domain.n > parent.n && domain.p[domain.n - parent.n - 1] == '.' && str_iends(domain, parent));
}

void dkim_ask_first(const struct dkim *d, struct str domain, struct dns_answers *set)
{
	for (size_t i = 0; i < d->n && d->headers && domain.n; i++) {
		const struct dkim_sig *s = &d->sig[i];
		if (!s->settled && !s->keyed && (within(s->pub.domain, domain) || within(domain, s->pub.domain)))
			dns_answers_get(set, s->key_name, DNS_TXT);
	}
}

int dkim_evaluate_keys(void *arg, struct dns_answers *set)
{
	struct dkim *d = arg;
	bool all = true;
	if (!d->headers)
		return -1;
	ERR_set_mark();
	for (size_t i = 0; i < d->n; i++)
		all &= dkim_sig_key(&d->sig[i], &d->policy, set, &d->tries);
	ERR_pop_to_mark();
	return all ? DNS_DONE : DNS_MORE;
}

int dkim_evaluate(void *arg, struct dns_answers *set)
{
	struct dkim *d = arg;
	bool all = true;
	if (!d->headers)
		return -1;
	ERR_set_mark();
	for (size_t i = 0; i < d->n; i++)
		all &= dkim_sig_key(&d->sig[i], &d->policy, set, &d->tries);
	all &= dkim_chain_keys(&d->chain, &d->policy, set, &d->tries);
	ERR_pop_to_mark();
	if (all)
		conclude(d);
	return all ? DNS_DONE : DNS_MORE;
}

bool dkim_done(const struct dkim *d)
{
	return d->done;
}

size_t dkim_n(const struct dkim *d)
{
	return d->n;
}

size_t dkim_n_ignored(const struct dkim *d)
{
	return d->n_ignored;
}

const struct dkim_signature *dkim_signature(const struct dkim *d, size_t i)
{
	return i < d->n ? &d->sig[i].pub : NULL;
}

const struct arc_result *dkim_arc(const struct dkim *d)
{
	return &d->chain.result;
}
