/* The evaluation of `pepsi auth-check`: an event loop and a resolver of its own, the engine of the listeners (proto/auth/verify.h), and
 * what it tells on its way kept as steps. Nothing is sent to pepsid, nothing is written. */
#include "auth_check.h"

#include "base/clock.h"
#include "proto/auth/dmarc_psl.h"

#include <stdlib.h>

enum {
	STEPS_MAX = 2000, /* an SPF record has some hundred terms at most */
	FIELD_MAX = 256 << 10,
};

struct run {
	struct auth_check *k;
	struct event_base *base;
	struct net_dns *dns;
	unsigned open; /* evaluations under way */
};

static struct json_object *text_of(const char *z)
{
	return json_object_new_string(z ? z : "");
}

static void on_step(void *arg, const struct verify_step *s)
{
	struct auth_check *k = arg;
	if (s->kind == VERIFY_ASKS || json_object_array_length(k->steps) >= STEPS_MAX)
		return; /* the answer says what was asked */
	struct json_object *o = json_object_new_object();
	json_object_object_add(o, "method", text_of(verify_method_name(s->method)));
	if (s->kind == VERIFY_ANSWER) {
		struct buf b = BUF_INIT(1 << 20);
		net_dns_answer_json(s->answer, NULL, &b);
		json_object_object_add(o, "kind", text_of("answer"));
		json_object_object_add(o, "answer", json_tokener_parse(buf_z(&b)));
		buf_free(&b);
	} else {
		json_object_object_add(o, "kind", text_of(s->kind == VERIFY_SAYS ? "says" : "decides"));
		json_object_object_add(o, "text", text_of(s->text));
	}
	json_object_array_add(k->steps, o);
}

static void on_done(void *arg, int rc, const struct dns_answers *set)
{
	struct run *r = arg;
	(void)rc;
	(void)set;
	if (!--r->open)
		event_base_loopbreak(r->base);
}

static bool begin(struct run *r, struct net_dns_group *g, dns_evaluate_fn fn, void *arg)
{
	bool ok = g && net_dns_evaluate(g, fn, arg, on_done, r);
	r->open += ok;
	return ok;
}

static int ask_all(struct run *r)
{
	struct auth_check *k = r->k;
	struct net_dns_group *all = net_dns_group_new(r->dns, k->terms.timeout_us, VERIFY_QUERIES), *name = NULL;
	int rc = begin(r, all, verify_evaluate, k->v) ? 0 : -1;
	if (!rc && k->has_iprev) {
		k->iprev = (struct iprev){ .ip = k->ip, .ip_n = k->ip_n };
		name = net_dns_group_new(r->dns, 0, 0);
		rc = begin(r, name, iprev_evaluate, &k->iprev) ? 0 : -1;
	}
	if (!rc)
		event_base_dispatch(r->base);
	k->queries = all ? net_dns_group_queries(all) : 0;
	net_dns_group_free(all);
	net_dns_group_free(name);
	return rc;
}

/* As the listener writes it: iprev first. */
static int write_field(struct auth_check *k)
{
	struct authres_result r = { .method = STR("iprev"), .result = str_from(iprev_result_name(k->iprev.result)),
		.prop = { { STR("policy"), STR("iprev"), str_from(k->ip_text) } }, .n_props = 1 };
	if (k->iprev.result == IPREV_PASS)
		r.comment = str_from(k->iprev.name);
	k->field = BUF_INIT(FIELD_MAX);
	return verify_authres(k->v, &k->field, str_from(k->hostname), &r, k->has_iprev, false);
}

int auth_run(struct auth_check *k)
{
	const struct vet_terms *t = &k->terms;
	struct verify_policy p = { .spf = t->spf, .dkim = t->dkim, .arc = t->arc, .dmarc = t->dmarc,
		.dkim_policy = { .now = clock_wall_us() / US_PER_S }, .sealers = t->sealers, .n_sealers = t->n_sealers,
		.fallback = t->psl ? dmarc_psl_org : NULL, .fallback_arg = t->psl, .explain = true }; /* whether it is enforced or not: it is what the domain wants people to know */
	struct verify_envelope e = { .ip_n = k->ip_n, .helo = str_from(k->helo), .mail_from = str_from(k->from), .receiver = str_from(k->hostname) };
	struct run r = { .k = k };
	memcpy(e.ip, k->ip, sizeof e.ip);
	k->steps = json_object_new_array();
	k->v = verify_new(&p);
	r.base = event_base_new();
	r.dns = r.base ? net_dns_new(r.base, &k->dns) : NULL;
	int rc = k->v && r.dns ? 0 : -1;
	if (!rc) {
		verify_trace(k->v, on_step, k);
		rc = verify_envelope(k->v, &e) || verify_headers(k->v, k->headers) ? -1 : 0;
		verify_body(k->v, k->body.p, k->body.n);
		verify_body_end(k->v);
	}
	rc = rc || ask_all(&r) || !verify_done(k->v) ? -1 : 0;
	if (!rc) {
		vet_decide(t, verify_verdict(k->v), k->ip_text, &k->decision);
		verify_applied(k->v, vet_applied(&k->decision));
		rc = write_field(k);
	}
	net_dns_free(r.dns);
	if (r.base)
		event_base_free(r.base);
	return rc ? cli_fail("out of memory") : 0;
}
