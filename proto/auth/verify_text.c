/* The verdict of an authentication in writing: Authentication-Results (RFC 8601), state.auth (pepsi.state(7)), a line of a log. */
#include "proto/auth/dmarc_authres.h"
#include "proto/auth/spf_authres.h"
#include "verify_internal.h"

#include "base/json.h"

#include <arpa/inet.h>
#include <stdio.h>

enum { RESULTS_MAX = 8 + 2 + DKIM_SIGNATURES_MAX + 2, JSON_SEALERS_MAX = 10 };

/* -- Authentication-Results */

struct writing {
	struct authres_result result[RESULTS_MAX];
	size_t n;
	struct spf_authres spf[2];
	struct dmarc_authres dmarc;
	char dkim[DKIM_SIGNATURES_MAX][64], arc[200], oldest[16], ip[INET6_ADDRSTRLEN];
};

static void add_prop(struct authres_result *r, struct str ptype, struct str name, struct str value)
{
	if (value.n && r->n_props < AUTHRES_PROPS_MAX)
		r->prop[r->n_props++] = (struct authres_prop){ ptype, name, value };
}

static struct authres_result *add(struct writing *w, struct str method, const char *result)
{
	struct authres_result *r = &w->result[w->n++];
	*r = (struct authres_result){ .method = method, .result = str_from(result) };
	return r;
}

static void add_signature(struct writing *w, size_t i, const struct dkim_signature *s)
{
	struct authres_result *r = add(w, STR("dkim"), dkim_result_name(s->result));
	if (s->reason[0])
		r->reason = str_from(s->reason);
	if (s->bits) {
		snprintf(w->dkim[i], sizeof w->dkim[i], "%u-bit key%s", s->bits, s->testing ? ", testing" : "");
		r->comment = str_from(w->dkim[i]);
	}
	add_prop(r, STR("header"), STR("d"), s->domain);
	add_prop(r, STR("header"), STR("i"), s->identity);
	add_prop(r, STR("header"), STR("s"), s->selector);
	add_prop(r, STR("header"), STR("a"), s->algorithm);
	add_prop(r, STR("header"), STR("b"), s->b);
}

static void add_dkim(const struct verify *v, struct writing *w)
{
	const struct verify_verdict *d = &v->verdict;
	for (size_t i = 0; i < d->n_dkim; i++)
		add_signature(w, i, d->dkim[i].signature);
	if (d->n_dkim)
		return;
	struct authres_result *r = add(w, STR("dkim"), dkim_result_name(verify_dkim_result(d)));
	if (d->dkim_error)
		r->reason = str_from(d->dkim_error);
}

/* RFC 8617 §7.1, and §5.2 for the oldest pass. */
static void add_arc(const struct verify *v, struct writing *w)
{
	const struct arc_result *a = v->verdict.arc;
	struct authres_result *r = add(w, STR("arc"), a ? dkim_result_name(a->result) : "temperror");
	if (!a) {
		r->reason = str_from(v->verdict.dkim_error);
		return;
	}
	if (a->reason[0])
		r->reason = str_from(a->reason);
	if (a->result == DKIM_NONE)
		return;
	if (a->n) {
		snprintf(w->arc, sizeof w->arc, "i=%u", a->n);
		r->comment = str_from(w->arc);
	}
	if (a->result == DKIM_PASS && a->oldest_known) {
		snprintf(w->oldest, sizeof w->oldest, "%u", a->oldest_pass);
		add_prop(r, STR("header"), STR("oldest-pass"), str_from(w->oldest));
	}
	if (v->spf[VERIFY_MAILFROM].ip_n)
		inet_ntop(v->spf[VERIFY_MAILFROM].ip_n == 4 ? AF_INET : AF_INET6, v->ip, w->ip, sizeof w->ip);
	add_prop(r, STR("smtp"), STR("remote-ip"), str_from(w->ip));
}

/* What was done, or, where nobody has decided yet, what is to be done. */
static enum dmarc_policy disposition(const struct verify *v)
{
	return v->has_applied ? v->applied : v->verdict.disposition;
}

/* The disposition told is the one that counts. */
static void add_dmarc(const struct verify *v, struct writing *w)
{
	const struct verify_verdict *d = &v->verdict;
	struct dmarc_check told = *d->dmarc;
	told.disposition = disposition(v);
	dmarc_authres(&told, &w->dmarc);
	if (d->override == VERIFY_TRUSTED_SEALER) {
		size_t n = strlen(w->dmarc.comment);
		snprintf(w->dmarc.comment + n, sizeof w->dmarc.comment - n, " arc=override");
		w->dmarc.result.comment = str_from(w->dmarc.comment);
	}
	if (d->dmarc->result == DMARC_RESULT_TEMPERROR || d->dmarc->result == DMARC_RESULT_PERMERROR)
		w->dmarc.result.reason = str_from(d->dmarc->reason);
	w->result[w->n++] = w->dmarc.result;
}

int verify_authres(const struct verify *v, struct buf *out, struct str id, const struct authres_result *more, size_t n_more, bool utf8)
{
	const struct verify_verdict *d = &v->verdict;
	const struct verify_policy *p = &v->policy;
	struct writing w;
	w.n = 0;
	w.ip[0] = 0;
	for (size_t i = 0; i < n_more && i < 8; i++)
		w.result[w.n++] = more[i];
	if (p->spf || p->dmarc) {
		const struct spf_check *both[2] = { d->spf_helo, d->spf };
		for (unsigned i = 0; i < 2; i++) {
			if (!both[i])
				continue;
			spf_authres(both[i], &w.spf[i]);
			w.result[w.n++] = w.spf[i].result;
		}
	}
	if (d->dkim_checked)
		add_dkim(v, &w);
	if (v->wanted[VERIFY_ARC] && v->done[VERIFY_ARC])
		add_arc(v, &w);
	if (d->dmarc)
		add_dmarc(v, &w);
	return authres_write(out, id, w.result, w.n, utf8);
}

/* -- state.auth */

static void put_number(struct buf *out, const char *key, uint64_t n)
{
	json_put_key(out, key);
	buf_addf(out, "%llu", (unsigned long long)n);
}

static void put_text(struct buf *out, const char *key, const char *z)
{
	if (z && z[0])
		json_put_member(out, key, str_from(z));
}

/* What a signature says may be as long as a header block: a longer value is left out, as in Authentication-Results. */
static void put_str(struct buf *out, const char *key, struct str s)
{
	if (s.n && s.n <= AUTHRES_VALUE_MAX)
		json_put_member(out, key, s);
}

static void json_spf(struct buf *out, const struct spf_check *c)
{
	buf_addc(out, '{');
	put_text(out, "result", spf_result_name(c->result));
	put_text(out, "identity", c->by_helo ? "helo" : "mailfrom");
	put_text(out, "domain", c->domain);
	put_text(out, "record_domain", c->where);
	put_text(out, "term", c->term);
	put_text(out, "reason", c->reason);
	buf_addc(out, '}');
}

static void json_signature(struct buf *out, const struct verify_dkim *one)
{
	const struct dkim_signature *s = one->signature;
	buf_addc(out, '{');
	put_text(out, "result", dkim_result_name(s->result));
	put_str(out, "domain", s->domain);
	put_str(out, "selector", s->selector);
	put_str(out, "identity", s->identity);
	put_str(out, "algorithm", s->algorithm);
	if (s->bits)
		put_number(out, "bits", s->bits);
	if (s->testing)
		json_put_bool(out, "testing", true);
	json_put_bool(out, "aligned", one->aligned);
	put_text(out, "reason", s->reason);
	buf_addc(out, '}');
}

static void json_dkim(struct buf *out, const struct verify_verdict *d)
{
	json_put_key(out, "dkim");
	buf_addc(out, '[');
	for (size_t i = 0; i < d->n_dkim; i++) {
		if (i)
			buf_addc(out, ',');
		json_signature(out, &d->dkim[i]);
	}
	if (!d->n_dkim) {
		buf_addc(out, '{');
		put_text(out, "result", dkim_result_name(verify_dkim_result(d)));
		put_text(out, "reason", d->dkim_error);
		buf_addc(out, '}');
	}
	buf_addc(out, ']');
}

static void json_arc(struct buf *out, const struct verify_verdict *d)
{
	const struct arc_result *a = d->arc;
	json_put_key(out, "arc");
	buf_addc(out, '{');
	put_text(out, "result", a ? dkim_result_name(a->result) : "temperror");
	put_text(out, "reason", a ? a->reason : d->dkim_error);
	if (a && a->n) {
		put_number(out, "instances", a->n);
		if (a->result == DKIM_PASS && a->oldest_known)
			put_number(out, "oldest_pass", a->oldest_pass);
		json_put_key(out, "sealers");
		buf_addc(out, '[');
		for (unsigned i = 0; i < a->n && i < JSON_SEALERS_MAX; i++) { /* newest first */
			const struct arc_set *s = &a->set[a->n - 1 - i];
			buf_addz(out, i ? ",{" : "{");
			put_number(out, "instance", a->n - i);
			put_str(out, "domain", s->seal_domain);
			put_str(out, "selector", s->seal_selector);
			buf_addc(out, '}');
		}
		buf_addc(out, ']');
	}
	buf_addc(out, '}');
}

static void json_published(struct buf *out, const struct dmarc_record *r)
{
	json_put_key(out, "published");
	buf_addc(out, '{');
	put_text(out, "p", dmarc_policy_name(r->p));
	put_text(out, "sp", dmarc_policy_name(r->sp));
	put_text(out, "np", dmarc_policy_name(r->np));
	put_text(out, "adkim", r->adkim_strict ? "s" : "r");
	put_text(out, "aspf", r->aspf_strict ? "s" : "r");
	put_text(out, "t", r->t ? "y" : "n");
	json_put_member(out, "psd", str_n(&r->psd, 1));
	buf_addc(out, '}');
}

static void json_dmarc(struct buf *out, const struct verify *v)
{
	const struct verify_verdict *d = &v->verdict;
	const struct dmarc_check *c = d->dmarc;
	json_put_key(out, "dmarc");
	buf_addc(out, '{');
	put_text(out, "result", dmarc_result_name(c->result));
	put_text(out, "reason", c->reason);
	if (c->author->n)
		put_text(out, "domain", c->author->domain[0]);
	if (c->author->n > 1) {
		json_put_key(out, "domains");
		buf_addc(out, '[');
		for (size_t i = 0; i < c->author->n; i++) {
			if (i)
				buf_addc(out, ',');
			json_put_str(out, str_from(c->author->domain[i]));
		}
		buf_addc(out, ']');
	}
	put_text(out, "policy", dmarc_policy_name(c->policy));
	put_text(out, "disposition", dmarc_policy_name(d->disposition));
	if (v->has_applied)
		put_text(out, "applied", dmarc_policy_name(v->applied));
	put_text(out, "organizational_domain", c->walk.org);
	put_text(out, "policy_domain", c->walk.policy_domain);
	if (d->record) {
		json_published(out, d->record);
		put_text(out, "discovery", d->psl ? "psl" : "treewalk");
	}
	json_put_bool(out, "spf_aligned", c->spf_aligned);
	json_put_bool(out, "dkim_aligned", c->dkim_aligned);
	if (d->override != VERIFY_NO_OVERRIDE) {
		json_put_key(out, "override");
		buf_addc(out, '{');
		put_text(out, "type", verify_override_name(d->override));
		put_text(out, "comment", d->comment);
		buf_addc(out, '}');
	}
	buf_addc(out, '}');
}

int verify_json(const struct verify *v, struct buf *out)
{
	const struct verify_verdict *d = &v->verdict;
	struct buf b = BUF_INIT(out->max); /* json_put_key() looks at what stands before it */
	buf_addc(&b, '{');
	if (d->spf || d->spf_helo) {
		json_put_key(&b, "spf");
		buf_addc(&b, '[');
		if (d->spf)
			json_spf(&b, d->spf);
		if (d->spf && d->spf_helo)
			buf_addc(&b, ',');
		if (d->spf_helo)
			json_spf(&b, d->spf_helo);
		buf_addc(&b, ']');
	}
	if (d->dkim_checked)
		json_dkim(&b, d);
	if (v->wanted[VERIFY_ARC] && v->done[VERIFY_ARC])
		json_arc(&b, d);
	if (d->dmarc)
		json_dmarc(&b, v);
	buf_addc(&b, '}');
	int r = b.failed ? -1 : buf_adds(out, buf_str(&b));
	buf_free(&b);
	return r;
}

/* -- the log */

/* A name of the DNS may hold blanks and quotes; what could end the word becomes "?". */
static int put_name(struct buf *out, const char *key, struct str name)
{
	int r = buf_addf(out, "%s=", key);
	size_t at = out->n;
	r |= buf_adds(out, name);
	for (size_t i = at; i < out->n; i++)
		if (out->p[i] <= 0x20 || out->p[i] >= 0x7f || out->p[i] == '"' || out->p[i] == '\\')
			out->p[i] = '?';
	return r | buf_addz(out, name.n ? " " : "- ");
}

int verify_log(const struct verify *v, struct buf *out)
{
	const struct verify_verdict *d = &v->verdict;
	int r = 0;
	if (d->spf)
		r |= buf_addf(out, "spf=%s ", spf_result_name(d->spf->result)) | put_name(out, "spf_domain", str_from(d->spf->domain));
	if (d->spf_helo)
		r |= buf_addf(out, "spf_helo=%s ", spf_result_name(d->spf_helo->result));
	if (d->dkim_checked) {
		r |= buf_addf(out, "dkim=%s signatures=%zu ", dkim_result_name(verify_dkim_result(d)), d->n_dkim + d->dkim_ignored);
		for (size_t i = 0; i < d->n_dkim; i++) {
			const struct dkim_signature *s = d->dkim[i].signature;
			if (s->result != verify_dkim_result(d) || !s->domain.n)
				continue;
			r |= put_name(out, "dkim_domain", s->domain);
			break;
		}
	}
	if (v->wanted[VERIFY_ARC] && v->done[VERIFY_ARC])
		r |= buf_addf(out, "arc=%s ", d->arc ? dkim_result_name(d->arc->result) : "temperror");
	if (d->dmarc)
		r |= buf_addf(out, "dmarc=%s policy=%s disposition=%s%s ", dmarc_result_name(d->dmarc->result),
			 dmarc_policy_name(d->dmarc->policy), dmarc_policy_name(disposition(v)),
			 d->override == VERIFY_TRUSTED_SEALER ? " override=arc" : "") |
		    put_name(out, "from_domain", d->dmarc->author->n ? str_from(d->dmarc->author->domain[0]) : STR_NULL);
	if (out->n && out->p[out->n - 1] == ' ')
		out->p[--out->n] = 0;
	return r ? -1 : 0;
}
