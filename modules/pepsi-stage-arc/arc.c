/* pepsi-stage-arc: seals mail that came from outside and goes on to others (RFC 8617): what this host found out about it on arrival, signed, so that
 * the next one can believe it although passing on broke SPF, or DKIM. Everything else passes as it is. What was found is the listener's word, in
 * the state and in our Authentication-Results; nothing is evaluated here, and no name is looked up. */
#include "keydir.h"
#include "say.h"
#include "terms.h"
#include "base/json.h"
#include "proto/auth/authres.h"

#include <stdio.h>
#include <stdlib.h>

enum { RESULTS_MAX = 32 << 10, ID_MAX = 256 };

struct stage {
	struct terms terms;
	struct keydir *keys;
	char *hostname;
	struct pepsi_metric *count;
};

static int32_t check(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report)
{
	terms_check(host, conf, report);
	return PEPSI_OK;
}

static void stop(void *worker)
{
	struct stage *s = worker;
	if (!s)
		return;
	keydir_free(s->keys);
	terms_free(&s->terms);
	free(s->hostname);
	free(s);
}

static int32_t start(const struct pepsi_host *host, const struct pepsi_conf *conf, void **ret_worker)
{
	const char *dir = host->conf_str(conf, "KEY_DIR"), *hostname = host->conf_global(conf, "pepsi", "HOSTNAME");
	struct stage *s = calloc(1, sizeof *s);
	if (!dir || !*dir) {
		free(s);
		host->log(NULL, PEPSI_LOG_ERROR, "KEY_DIR is not set");
		return PEPSI_PERMANENT;
	}
	if (!s || terms_read(host, conf, &s->terms) || !(s->keys = keydir_new(dir)) || !(s->hostname = strdup(hostname ? hostname : ""))) {
		host->log(NULL, PEPSI_LOG_ERROR, "cannot seal: out of memory, or neither DOMAIN nor HOSTNAME is a domain");
		stop(s);
		return PEPSI_RETRY;
	}
	s->count = host->metric(conf, PEPSI_METRIC_COUNTER, "arc_messages", "result", "What became of messages at the stage that seals.");
	*ret_worker = s;
	return PEPSI_OK;
}

/* One message on its way through. */
struct pass {
	const struct stage *s;
	const struct pepsi_host *host;
	struct pepsi_msg *msg;
	struct str headers, body;
	char id[ID_MAX]; /* of our Authentication-Results */
	struct terms_sealer by;
	const struct keydir_domain *domain;
	const struct keydir_key *key;
};

/* Passes on as it is. result: for the books. */
static int32_t unsealed(const struct pass *p, int32_t level, const char *result, const char *why)
{
	p->host->measure(p->s->count, result, 1);
	say(p->host, p->msg, level, "not sealed: %s", why);
	return p->host->advance(p->msg);
}

/* The address of ours that a recipient's copy was sent to: what an alias replaced, or the recipient itself. */
static struct str sent_to(const struct pass *p, size_t i)
{
	char path[64];
	struct pepsi_str s;
	snprintf(path, sizeof path, "dsn.rcpt.%zu.alias", i);
	return p->host->state_get(p->msg, path, &s) == PEPSI_OK && s.n ? from_host(s) : from_host(p->host->rcpt(p->msg, i));
}

/* The first recipient whose mail is sealed says by whom. */
static bool wanted(struct pass *p)
{
	for (size_t i = 0; i < p->host->n_rcpt(p->msg); i++) {
		struct str to = sent_to(p, i);
		if (terms_wanted(&p->s->terms, from_host(p->host->rcpt(p->msg, i)), to)) {
			terms_by(&p->s->terms, to, &p->by);
			return true;
		}
	}
	return false;
}

/* The chain as it was received. NULL, or why that is not known, or does not fit the fields that are there now. */
static const char *chain_status(const struct pass *p, const struct arc_place *at, enum dkim_result *ret)
{
	struct pepsi_str text;
	uint64_t sets;
	bool looked = p->host->state_get(p->msg, "auth.arc.result", &text) == PEPSI_OK;
	struct str r = looked ? from_host(text) : STR_NULL;
	if (!looked && at->any)
		return "the listener did not look at its chain (ARC = record)";
	if (!looked || str_eq(r, STR("none"))) {
		*ret = DKIM_NONE;
		return at->any ? "it has ARC fields that were not there on arrival" : NULL;
	}
	if (!at->any)
		return "the ARC fields it had on arrival are gone";
	if (str_eq(r, STR("fail"))) {
		*ret = DKIM_FAIL;
		return NULL;
	}
	if (!str_eq(r, STR("pass")))
		return "its chain could not be looked at on arrival";
	if (p->host->state_get(p->msg, "auth.arc.instances", &text) != PEPSI_OK || str_u64(from_host(text), ARC_SETS_MAX, &sets) || sets + 1 != at->instance)
		return "its ARC fields are not those it had on arrival";
	*ret = DKIM_PASS;
	return NULL;
}

/* Of the active keys the one of that selector, or the first of the algorithm, or the first. NULL: none of that selector. */
static const struct keydir_key *choose(const struct keydir_domain *d, const char *selector, bool ed25519)
{
	for (size_t i = 0; i < d->n; i++)
		if (*selector ? !strcmp(d->key[i].selector, selector) : (d->key[i].algorithm == DKIM_ALG_ED25519) == ed25519)
			return &d->key[i];
	return *selector ? NULL : &d->key[0];
}

/* The key that seals: of the domain that the terms say, or of one above it. PEPSI_OK, or PEPSI_RETRY and said why. */
static int32_t key_of(struct pass *p)
{
	const struct terms *t = &p->s->terms;
	struct buf faults = BUF_INIT(4000);
	enum keydir_found found = keydir_nearest(p->s->keys, p->by.domain, p->by.above, p->host->now_us(), &p->domain, &faults);
	if (found == KEYDIR_NONE && p->by.self) {
		p->by = t->usual;
		found = keydir_nearest(p->s->keys, p->by.domain, p->by.above, p->host->now_us(), &p->domain, &faults);
	}
	p->key = found == KEYDIR_OK ? choose(p->domain, p->by.selector, t->ed25519) : NULL;
	if (found == KEYDIR_BAD)
		say(p->host, p->msg, PEPSI_LOG_ERROR, "not sealed yet domain=%s: %s", p->by.domain, buf_z(&faults));
	else if (found == KEYDIR_NONE)
		say(p->host, p->msg, PEPSI_LOG_ERROR, "not sealed yet domain=%s: KEY_DIR has no active key of it (pepsi-keys dkim add)", p->by.domain);
	else if (!p->key)
		say(p->host, p->msg, PEPSI_LOG_ERROR, "not sealed yet domain=%s selector=%s: it is none of the domain's active keys", p->domain->name, p->by.selector);
	else if (faults.n)
		say(p->host, NULL, PEPSI_LOG_ERROR, "a key is left out domain=%s: %s", p->domain->name, buf_z(&faults));
	buf_free(&faults);
	if (!p->key)
		p->host->measure(p->s->count, "waits", 1);
	return p->key ? PEPSI_OK : PEPSI_RETRY;
}

/* Puts the set on top, and remembers it: two stages of this kind on one way make one set. */
static int32_t put(const struct pass *p, const struct arc_seal *how, struct buf *set)
{
	struct buf state = BUF_INIT(2000);
	int32_t rc = PEPSI_RETRY;
	buf_addz(&state, "{\"arc\":{");
	json_put_key(&state, "instance");
	buf_addf(&state, "%u", how->instance);
	json_put_member(&state, "cv", str_from(dkim_result_name(how->cv)));
	json_put_member(&state, "domain", how->domain);
	json_put_member(&state, "selector", how->selector);
	buf_addz(&state, "}}");
	if (!buf_adds(set, p->headers) && !state.failed) {
		rc = p->host->set_headers(p->msg, (struct pepsi_str){ set->p, set->n });
		if (rc == PEPSI_OK)
			rc = p->host->merge_state(p->msg, buf_z(&state));
	}
	if (rc == PEPSI_OK) {
		p->host->measure(p->s->count, how->cv == DKIM_NONE ? "sealed_none" : how->cv == DKIM_PASS ? "sealed_pass" : "sealed_fail", 1);
		say(p->host, p->msg, PEPSI_LOG_INFO, "sealed domain=%.*s selector=%.*s algorithm=%s instance=%u cv=%s", STR_ARG(how->domain), STR_ARG(how->selector), p->key->kind,
		    how->instance, dkim_result_name(how->cv));
	}
	buf_free(&state);
	return rc == PEPSI_OK ? p->host->advance(p->msg) : rc;
}

static int32_t seal(struct pass *p, unsigned instance, enum dkim_result cv)
{
	const struct terms *t = &p->s->terms;
	struct buf results = BUF_INIT(RESULTS_MAX), set = BUF_INIT(ARC_SEAL_SET_MAX + p->headers.n);
	struct arc_seal how = { .domain = str_from(p->domain->name), .selector = str_from(p->key->selector), .key = p->key->key, .now = p->host->now_us() / 1000000,
		.instance = instance, .cv = cv, .names = t->name[0] ? t->name : NULL, .oversign = t->oversign[0] ? t->oversign : NULL };
	const char *why;
	size_t n;
	int32_t rc;
	if (authres_arc(&results, instance, str_from(p->id), p->headers, &n)) {
		rc = unsealed(p, PEPSI_LOG_WARN, "failed", "its Authentication-Results cannot stand in a set");
	} else if (!n) {
		rc = unsealed(p, PEPSI_LOG_WARN, "no_results", "it has no Authentication-Results of ours");
	} else {
		how.results = buf_str(&results);
		if (arc_seal(&how, p->headers, p->body, &set, &why))
			rc = unsealed(p, PEPSI_LOG_WARN, "failed", why);
		else if (!arc_seal_holds(&how, buf_str(&p->key->record), buf_str(&set), p->headers, p->body))
			rc = unsealed(p, PEPSI_LOG_ERROR, "failed", "what was sealed does not verify");
		else
			rc = put(p, &how, &set);
	}
	buf_free(&results);
	buf_free(&set);
	return rc;
}

/* Of the listener that took it; a name that could stand in a field. */
static void id_of(struct pass *p)
{
	struct pepsi_str s;
	if (p->host->state_get(p->msg, "origin.authserv_id", &s) == PEPSI_OK && s.n && s.n < sizeof p->id)
		snprintf(p->id, sizeof p->id, "%.*s", (int)s.n, s.p);
	else
		snprintf(p->id, sizeof p->id, "%s", p->s->hostname);
}

static int32_t process(void *worker, const struct pepsi_host *host, struct pepsi_msg *msg)
{
	struct pass p = { .s = worker, .host = host, .msg = msg };
	struct pepsi_str h, b, s;
	enum dkim_result cv = DKIM_NONE;
	const char *why;
	int32_t rc = host->headers(msg, &h);
	if (rc == PEPSI_OK)
		rc = host->body(msg, &b);
	if (rc != PEPSI_OK)
		return rc;
	p.headers = from_host(h);
	p.body = from_host(b);
	if (host->state_get(msg, "auth", &s) != PEPSI_OK)
		return unsealed(&p, PEPSI_LOG_DEBUG, "not_ours_to_seal", "it was not looked at on arrival: ours, or nobody's business");
	if (host->state_get(msg, "arc.instance", &s) == PEPSI_OK)
		return unsealed(&p, PEPSI_LOG_DEBUG, "done_before", "another stage of ours has done it");
	if (!wanted(&p))
		return unsealed(&p, PEPSI_LOG_DEBUG, "left_out", "SENT_TO, NOT_SENT_TO, SEAL_FOR and NOT_FOR leave its recipients out");
	struct arc_place at = arc_place(p.headers);
	if (!at.instance)
		return unsealed(&p, PEPSI_LOG_INFO, "closed", at.why);
	if ((why = chain_status(&p, &at, &cv)))
		return unsealed(&p, PEPSI_LOG_WARN, "chain_unknown", why);
	if ((rc = key_of(&p)) != PEPSI_OK)
		return rc;
	id_of(&p);
	return seal(&p, at.instance, cv);
}

PEPSI_STAGE(.name = "pepsi-stage-arc", .version = "1.0", .license = "Apache-2.0", .summary = "seals mail from outside that goes on to others (ARC)", .load_class = PEPSI_LOAD_FULL,
    .caps = PEPSI_CAP_FILES | PEPSI_CAP_SIGNS, PEPSI_OPTIONS(terms_options), .validate = check, .open = start,
    .process = process, .close = stop);
