/* SPF mechanisms (RFC 7208 §5) but include: what they ask and when they match. */
#include "proto/auth/spf_internal.h"

#include <stdio.h>

enum spf_step spf_stop(struct spf_run *r, enum spf_step step, const char *why)
{
	r->c->reason = why;
	return step;
}

enum spf_step spf_count_term(struct spf_run *r)
{
	if (++r->c->n_terms > SPF_TERMS_MAX)
		return spf_stop(r, SPF_STEP_PERMERROR, "more than 10 terms need DNS look-ups");
	return SPF_STEP_NO;
}

/* The question of a term. NULL: *step says what that means. What cannot be asked is no void look-up: it costs nothing. */
static const struct dns_answer *ask(struct spf_run *r, const char *name, enum dns_type type, enum spf_step *step)
{
	const struct dns_answer *a = dns_answers_get(r->set, str_from(name), type);
	*step = SPF_STEP_NO;
	if (!a) {
		*step = SPF_STEP_MORE;
		return NULL;
	}
	if (a->status == DNS_TEMPFAIL) {
		*step = spf_stop(r, SPF_STEP_TEMPERROR, "a look-up failed");
		return NULL;
	}
	if (a->status != DNS_OK && !a->why && ++r->c->n_voids > (r->c->voids_max ? r->c->voids_max : SPF_VOIDS_MAX)) {
		*step = spf_stop(r, SPF_STEP_PERMERROR, "too many look-ups found nothing");
		return NULL;
	}
	return a;
}

static bool in_network(const unsigned char *a, const unsigned char *b, unsigned bits)
{
	unsigned rest = bits % 8;
	if (memcmp(a, b, bits / 8))
		return false;
	return !rest || ((a[bits / 8] ^ b[bits / 8]) & (0xff00 >> rest) & 0xff) == 0;
}

static bool any_in(const struct spf_run *r, const struct dns_answer *a, unsigned bits)
{
	for (size_t i = 0; i < a->n_rr; i++)
		if (a->rr[i].data.n == r->ip_n && in_network((const unsigned char *)a->rr[i].data.p, r->ip, bits))
			return true;
	return false;
}

static enum dns_type address_type(const struct spf_run *r)
{
	return r->ip_n == 4 ? DNS_A : DNS_AAAA;
}

static unsigned bits_of(const struct spf_run *r, const struct spf_term *t)
{
	return r->ip_n == 4 ? t->cidr4 : t->cidr6;
}

static enum spf_step match_a(struct spf_run *r, const struct spf_term *t, const char *target)
{
	enum spf_step step;
	const struct dns_answer *a = ask(r, target, address_type(r), &step);
	return a && any_in(r, a, bits_of(r, t)) ? SPF_STEP_YES : step;
}

/* §5.7: type A, whatever the client's address is. */
static enum spf_step match_exists(struct spf_run *r, const char *target)
{
	enum spf_step step;
	const struct dns_answer *a = ask(r, target, DNS_A, &step);
	return a && a->n_rr ? SPF_STEP_YES : step;
}

static enum spf_step match_mx(struct spf_run *r, const struct spf_term *t, const char *target)
{
	enum spf_step step;
	const struct dns_answer *mx = ask(r, target, DNS_MX, &step);
	bool more = false, unknown = false;
	if (!mx)
		return step;
	for (size_t i = 0; i < mx->n_rr && i < SPF_NAMES_MAX; i++) {
		const struct dns_answer *a = dns_answers_get(r->set, mx->rr[i].data, address_type(r));
		if (!a) {
			more = true; /* go on: all are asked at the same time */
			continue;
		}
		if (!more && !unknown && any_in(r, a, bits_of(r, t)))
			return SPF_STEP_YES;
		unknown |= a->status == DNS_TEMPFAIL;
	}
	if (more)
		return SPF_STEP_MORE;
	if (unknown)
		return spf_stop(r, SPF_STEP_TEMPERROR, "a look-up failed");
	if (mx->n_rr > SPF_NAMES_MAX) /* §4.6.4: no match so far, and no more addresses may be asked for */
		return spf_stop(r, SPF_STEP_PERMERROR, "an mx term with more than 10 names");
	return SPF_STEP_NO;
}

/* -- validated names (§5.5) */

/* How near a name is to the domain: 2: the same, 1: below it, 0: neither. */
static int nearness(struct str name, struct str domain)
{
	if (str_ieq(name, domain))
		return 2;
	return name.n > domain.n && str_iends(name, domain) && name.p[name.n - domain.n - 1] == '.';
}

/* The validated name of the client that is nearest to the domain, or "" in ret; failures count as "no such name". DNS_DONE or DNS_MORE. */
static int validated_name(struct spf_run *r, const struct dns_answer *ptr, const char *domain, char *ret, int *how_near)
{
	bool more = false;
	ret[0] = 0;
	*how_near = -1;
	for (size_t i = 0; i < ptr->n_rr && i < SPF_NAMES_MAX; i++) { /* §4.6.4: those beyond are ignored */
		const struct dns_answer *a = dns_answers_get(r->set, ptr->rr[i].data, address_type(r));
		int near = nearness(ptr->rr[i].data, str_from(domain));
		more |= !a;
		if (!a || near <= *how_near || !any_in(r, a, (unsigned)r->ip_n * 8))
			continue;
		*how_near = near;
		snprintf(ret, DNS_NAME_MAX + 1, "%.*s", STR_ARG(ptr->rr[i].data));
	}
	return more ? DNS_MORE : DNS_DONE;
}

static enum spf_step match_ptr(struct spf_run *r, const char *target)
{
	char reverse[DNS_NAME_MAX + 1], name[DNS_NAME_MAX + 1], folded[DNS_NAME_MAX + 1];
	enum spf_step step;
	int near;
	if (dns_name_reverse(r->ip, r->ip_n, NULL, reverse) < 0 || dns_name_fold(str_from(target), folded) < 0)
		return SPF_STEP_NO;
	const struct dns_answer *ptr = ask(r, reverse, DNS_PTR, &step);
	if (!ptr && step == SPF_STEP_TEMPERROR) /* §5.5: an error of the PTR look-up is no match */
		return SPF_STEP_NO;
	if (!ptr)
		return step;
	if (validated_name(r, ptr, folded, name, &near) == DNS_MORE)
		return SPF_STEP_MORE;
	return near > 0 ? SPF_STEP_YES : SPF_STEP_NO;
}

/* -- targets */

enum spf_step spf_values_for(struct spf_run *r, struct str text)
{
	char reverse[DNS_NAME_MAX + 1];
	const char *domain = r->level[r->depth].domain;
	int near;
	r->values.d = str_from(domain);
	if (r->depth == 0 && !strcmp(domain, r->c->domain)) /* with the case the client wrote */
		r->values.d = str_from(r->domain_as_given);
	if (!spf_macro_occurs(text, 'p'))
		return SPF_STEP_YES;
	r->values.p = STR("unknown"); /* §7.3 */
	if (dns_name_reverse(r->ip, r->ip_n, NULL, reverse) < 0)
		return SPF_STEP_YES;
	const struct dns_answer *ptr = dns_answers_get(r->set, str_from(reverse), DNS_PTR);
	if (!ptr || validated_name(r, ptr, domain, r->validated, &near) == DNS_MORE)
		return SPF_STEP_MORE;
	if (r->validated[0])
		r->values.p = str_from(r->validated);
	return SPF_STEP_YES;
}

enum spf_step spf_target(struct spf_run *r, struct str spec, char ret[DNS_NAME_MAX + 1])
{
	if (!spec.p) {
		snprintf(ret, DNS_NAME_MAX + 1, "%s", r->level[r->depth].domain);
		return SPF_STEP_YES;
	}
	if (spf_macro_occurs(spec, 'p') && !r->p_counted) { /* §4.6.4: its PTR look-up counts as a term; it is made once */
		r->p_counted = true;
		if (spf_count_term(r) == SPF_STEP_PERMERROR)
			return SPF_STEP_PERMERROR;
	}
	if (spf_values_for(r, spec) == SPF_STEP_MORE)
		return SPF_STEP_MORE;
	int n = spf_expand_domain(spec, &r->values, ret);
	/* RFC 8616 §4: a term that a non-ASCII local part goes into matches nothing; it must not become a U-label. */
	return n > 0 && str_is_ascii(str_n(ret, (size_t)n)) ? SPF_STEP_YES : SPF_STEP_NO;
}

enum spf_step spf_mechanism_match(struct spf_run *r, const struct spf_term *t)
{
	char target[DNS_NAME_MAX + 1];
	if (t->kind == SPF_ALL)
		return SPF_STEP_YES;
	if (t->kind == SPF_IP4 || t->kind == SPF_IP6) {
		size_t n = t->kind == SPF_IP4 ? 4 : 16;
		return n == r->ip_n && in_network(t->ip, r->ip, bits_of(r, t)) ? SPF_STEP_YES : SPF_STEP_NO;
	}
	if (spf_count_term(r) == SPF_STEP_PERMERROR)
		return SPF_STEP_PERMERROR;
	enum spf_step step = spf_target(r, t->spec, target);
	if (step != SPF_STEP_YES)
		return step;
	switch (t->kind) {
	case SPF_A:
		return match_a(r, t, target);
	case SPF_MX:
		return match_mx(r, t, target);
	case SPF_PTR:
		return match_ptr(r, target);
	case SPF_EXISTS:
		return match_exists(r, target);
	default:
		return SPF_STEP_NO;
	}
}
