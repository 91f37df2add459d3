/* pepsi-stage-dkim-sign: signs what our side sends in the name of its author's domain (RFC 6376, RFC 8463), with every key of that domain that is
 * active, and passes it on. What came from outside, and what is of no domain with keys, passes as it is. What ought to be signed and cannot, waits:
 * an unsigned message is refused elsewhere, a late one is not. */
#include "authors.h"
#include "keydir.h"
#include "ours.h"
#include "pattern.h"
#include "say.h"
#include "seal.h"
#include "proto/mail/downgrade.h"
#include "proto/mail/header.h"
#include "proto/address/address.h"

#include <stdio.h>
#include <stdlib.h>

enum { SIGNED_MAX = 64 * 1024 };

struct stage {
	struct keydir *keys;
	struct seal *seal;
	char *networks, *required;
	bool all, subdomains, again, seven;
	struct pepsi_metric *messages, *signatures;
};

static const struct pepsi_option options[] = {
	{ "KEY_DIR", PEPSI_OPT_PATH, PEPSI_OPTF_REQUIRED, NULL, 0, 0, NULL,
	    "folder of the keys, as pepsi-keys makes it: DOMAIN/SELECTOR.pem, readable by the stage's account alone" },
	{ "SIGN_FOR", PEPSI_OPT_CHOICE, PEPSI_OPTF_FILE_ONLY, "ours", 0, 0, "ours all",
	    "ours: only mail of signed-in senders, of NETWORKS, and of Pepsi itself; all: whatever comes to this stage, from outside too" },
	{ "NETWORKS", PEPSI_OPT_LIST, PEPSI_OPTF_FILE_ONLY, NULL, 0, 0, NULL, "clients whose mail is ours; default: RELAY_NETWORKS of [pepsi]" },
	{ "REQUIRE", PEPSI_OPT_LIST, 0, NULL, 0, 0, NULL,
	    "domains whose mail never leaves unsigned (DOMAIN, *.DOMAIN, *): without a key it waits; that of a domain with a folder in KEY_DIR waits anyway while no "
	    "key of it can be used" },
	{ "SUBDOMAINS", PEPSI_OPT_BOOL, 0, "NO", 0, 0, NULL, "mail of a domain without keys is signed by the nearest domain above it that has some" },
	{ "SIGN_AGAIN", PEPSI_OPT_BOOL, 0, "NO", 0, 0, NULL, "sign even where a signature of the same domain and selector is there and holds" },
	{ "SEVEN_BIT", PEPSI_OPT_BOOL, 0, "NO", 0, 0, NULL,
	    "before signing, encode what a server without 8BITMIME could not take: no relay has to convert it then, which would break the signature" },
	{ "HEADERS", PEPSI_OPT_LIST, 0, NULL, 0, 0, NULL, "fields to sign, where they are there, instead of the usual ones; From always" },
	{ "OVERSIGN", PEPSI_OPT_LIST, 0, NULL, 0, 0, NULL, "fields that nobody may add later, instead of the usual ones; From always" },
	{ "EXPIRE", PEPSI_OPT_DURATION, 0, "0 s", 0, INT64_C(366) * 86400, NULL, "how long signatures hold (x=); 0: without end. At least 5 days: mail may be under way so long" },
	{ "CANONICALIZATION", PEPSI_OPT_CHOICE, 0, "relaxed/relaxed", 0, 0, "relaxed/relaxed relaxed/simple simple/relaxed simple/simple",
	    "what may change under way: of header fields, of the body" },
};

static void check_names(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report, const char *option)
{
	const char *names = host->conf_str(conf, option), *wrong;
	size_t n;
	if (!names || !(wrong = seal_names_wrong(names, &n)))
		return;
	if (n)
		fault(host, report, option, "\"%.*s\" is no field to sign: no name, or one that servers on the way write or change", (int)n, wrong);
	else
		fault(host, report, option, "%s", wrong);
}

static int32_t check(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report)
{
	const char *networks = host->conf_str(conf, "NETWORKS"), *required = host->conf_str(conf, "REQUIRE"), *wrong;
	int64_t expire = host->conf_int(conf, "EXPIRE");
	struct str rest = str_from(required ? required : ""), word;
	struct pattern p;
	size_t n;
	check_names(host, conf, report, "HEADERS");
	check_names(host, conf, report, "OVERSIGN");
	if (networks && (wrong = ours_network_wrong(networks, &n)))
		fault(host, report, "NETWORKS", "\"%.*s\" is no address and no network", (int)n, wrong);
	while (str_word(&rest, " \t,", &word))
		if (pattern_parse(word, &p) || p.kind == PATTERN_ADDRESS || p.kind == PATTERN_LOCAL)
			fault(host, report, "REQUIRE", "\"%.*s\" is no domain", STR_ARG(word));
	if (expire && expire < 5 * 86400)
		fault(host, report, "EXPIRE", "shorter than 5 days: mail that is tried so long would arrive with a signature that holds no more");
	if (!host->conf_str(conf, "NEXT_STAGE"))
		host->report(report, NULL, "NEXT_STAGE is not set: what is signed has nowhere to go");
	return PEPSI_OK;
}

static void stop(void *worker)
{
	struct stage *s = worker;
	if (!s)
		return;
	keydir_free(s->keys);
	seal_free(s->seal);
	free(s->networks);
	free(s->required);
	free(s);
}

static int32_t start(const struct pepsi_host *host, const struct pepsi_conf *conf, void **ret_worker)
{
	const char *dir = host->conf_str(conf, "KEY_DIR"), *networks = host->conf_str(conf, "NETWORKS"), *required = host->conf_str(conf, "REQUIRE");
	const char *canon = host->conf_str(conf, "CANONICALIZATION"), *whom = host->conf_str(conf, "SIGN_FOR"), *why = "out of memory";
	const struct seal_terms terms = { .headers = host->conf_str(conf, "HEADERS"), .oversign = host->conf_str(conf, "OVERSIGN"),
		.simple_headers = canon && str_starts(str_from(canon), STR("simple/")), .simple_body = canon && str_iends(str_from(canon), STR("/simple")),
		.expire_s = host->conf_int(conf, "EXPIRE") };
	struct stage *s = calloc(1, sizeof *s);
	if (!dir || !*dir) {
		free(s);
		host->log(NULL, PEPSI_LOG_ERROR, "KEY_DIR is not set");
		return PEPSI_PERMANENT;
	}
	if (!networks)
		networks = host->conf_global(conf, "pepsi", "RELAY_NETWORKS");
	if (!s || !(s->networks = strdup(networks ? networks : "")) || !(s->required = strdup(required ? required : "")) || !(s->keys = keydir_new(dir)) ||
	    seal_new(&terms, &s->seal, &why)) {
		say(host, NULL, PEPSI_LOG_ERROR, "cannot sign: %s", why);
		stop(s);
		return PEPSI_RETRY;
	}
	s->all = whom && !strcmp(whom, "all");
	s->subdomains = host->conf_int(conf, "SUBDOMAINS") != 0;
	s->seven = host->conf_int(conf, "SEVEN_BIT") != 0;
	s->again = host->conf_int(conf, "SIGN_AGAIN") != 0;
	s->messages = host->metric(conf, PEPSI_METRIC_COUNTER, "dkim_messages", "result", "What became of messages at the stage that signs.");
	s->signatures = host->metric(conf, PEPSI_METRIC_COUNTER, "dkim_signatures", "algorithm", "Signatures made, by the kind of key.");
	*ret_worker = s;
	return PEPSI_OK;
}

static bool required(const struct stage *s, const char *domain)
{
	struct str rest = str_from(s->required), word;
	while (str_word(&rest, " \t,", &word)) {
		bool below = str_starts(word, STR("*."));
		struct str parent = below ? str_skip(word, 2) : word;
		struct buf ascii = BUF_INIT(300);
		bool yes = str_eq(word, STR("*")) ||
		    (!smtp_domain_to_ascii(parent, &ascii) && smtp_domain_within(str_from(domain), buf_str(&ascii)) && below != str_eq(str_from(domain), buf_str(&ascii)));
		buf_free(&ascii);
		if (yes)
			return true;
	}
	return false;
}

/* One message on its way through. */
struct pass {
	const struct stage *s;
	const struct pepsi_host *host;
	struct pepsi_msg *msg;
	struct str headers, body;
	struct authors authors;
	struct seal_job job[SEAL_SIGNATURES_MAX];
	size_t n;
	bool must; /* some author's domain is in REQUIRE */
};

static int32_t later(const struct pass *p, const char *domain, const char *why)
{
	p->host->measure(p->s->messages, "waits", 1);
	say(p->host, p->msg, PEPSI_LOG_ERROR, "not signed yet domain=%s: %s", domain, why);
	return PEPSI_RETRY;
}

/* Leaves unsigned, or is given back: what no key will ever help. */
static int32_t unsignable(const struct pass *p, const char *why)
{
	const char *bounce = p->host->bounce_stage(p->msg);
	char state[400];
	p->host->measure(p->s->messages, p->must ? "returned" : "cannot_be", 1);
	if (!p->must) {
		say(p->host, p->msg, PEPSI_LOG_WARN, "not signed author=%s: %s", p->authors.n ? p->authors.domain[0] : "?", why);
		return p->host->advance(p->msg);
	}
	say(p->host, p->msg, PEPSI_LOG_WARN, "refused author=%s: it must be signed and cannot be: %s", p->authors.domain[0], why);
	/* our own words: nothing in them needs escaping */
	snprintf(state, sizeof state, "{\"bounce\":{\"kind\":\"permanent\",\"enhanced_status\":\"5.6.0\",\"phase\":\"queue\",\"diagnostic\":"
	    "\"mail of this domain must be signed, and this message cannot be: %s\"},\"last_error\":\"cannot be signed: %s\"}", why, why);
	return bounce ? p->host->reroute(p->msg, bounce, state) : p->host->fail(p->msg, state);
}

static void add_jobs(struct pass *p, const struct keydir_domain *d)
{
	for (size_t i = 0; i < p->n; i++)
		if (!strcmp(p->job[i].domain, d->name))
			return;
	for (size_t i = 0; i < d->n && p->n < SEAL_SIGNATURES_MAX; i++)
		p->job[p->n++] = (struct seal_job){ d->name, &d->key[i] };
}

/* The keys of one author: of the domain itself, or of one above it. */
static int32_t keys_of(struct pass *p, const char *author)
{
	struct buf faults = BUF_INIT(4000);
	const struct keydir_domain *d = NULL;
	enum keydir_found found = keydir_nearest(p->s->keys, author, p->s->subdomains, p->host->now_us(), &d, &faults);
	int32_t rc = PEPSI_OK;
	if (found == KEYDIR_BAD)
		rc = later(p, author, buf_z(&faults));
	else if (found == KEYDIR_OK && faults.n)
		say(p->host, NULL, PEPSI_LOG_ERROR, "a key is left out domain=%s: %s", d->name, buf_z(&faults));
	else if (found == KEYDIR_NONE && required(p->s, author))
		rc = later(p, author, "REQUIRE names it, and KEY_DIR has no active key of it (pepsi-keys dkim add)");
	if (rc == PEPSI_OK && found == KEYDIR_OK)
		add_jobs(p, d);
	buf_free(&faults);
	return rc;
}

/* Takes out the jobs that are done already. */
static int skip_done(struct pass *p)
{
	int holds = p->s->again ? 0 : seal_holds(p->job, p->n, p->headers, p->headers, p->body, p->host->now_us() / 1000000);
	size_t n = 0;
	for (size_t i = 0; holds > 0 && i < p->n; i++)
		if (!(holds & (1 << i)))
			p->job[n++] = p->job[i];
		else
			say(p->host, p->msg, PEPSI_LOG_INFO, "signed before domain=%s selector=%s: left as it is", p->job[i].domain, p->job[i].key->selector);
	if (holds > 0)
		p->n = n;
	return holds < 0 ? -1 : 0;
}

/* Makes all signatures, looks at them, puts them on top. */
static int32_t sign(struct pass *p)
{
	struct buf all = BUF_INIT(SIGNED_MAX + p->headers.n), why = BUF_INIT(500);
	int32_t rc = PEPSI_OK;
	int holds = 0;
	for (size_t i = 0; i < p->n && rc == PEPSI_OK; i++)
		if (seal_sign(p->s->seal, &p->job[i], p->headers, p->body, &all, &why))
			rc = later(p, p->job[i].domain, buf_z(&why));
	if (rc == PEPSI_OK && (holds = seal_holds(p->job, p->n, buf_str(&all), p->headers, p->body, p->host->now_us() / 1000000)) < 0)
		rc = PEPSI_RETRY;
	if (rc == PEPSI_OK && holds != (1 << p->n) - 1) {
		rc = unsignable(p, "what was signed does not verify");
	} else if (rc == PEPSI_OK) {
		if (buf_adds(&all, p->headers))
			rc = PEPSI_RETRY;
		else
			rc = p->host->set_headers(p->msg, (struct pepsi_str){ all.p, all.n });
		if (rc == PEPSI_OK)
			p->host->measure(p->s->messages, "signed", 1);
		for (size_t i = 0; i < p->n && rc == PEPSI_OK; i++) {
			p->host->measure(p->s->signatures, p->job[i].key->kind, 1);
			say(p->host, p->msg, PEPSI_LOG_INFO, "signed domain=%s selector=%s algorithm=%s author=%s", p->job[i].domain, p->job[i].key->selector, p->job[i].key->kind,
			    p->authors.domain[0]);
		}
		if (rc == PEPSI_OK)
			rc = p->host->advance(p->msg);
	}
	buf_free(&all);
	buf_free(&why);
	return rc;
}

/* RFC 6376 §5.3: what is on its way is 7-bit before it is signed. Not where a signature is there that would break; what cannot be encoded stays as it is. */
static int32_t seven_bit(struct pass *p, struct buf *headers, struct buf *body)
{
	struct mail_downgrade d = { 0 };
	int32_t rc = PEPSI_OK;
	if (!p->s->seven || mail_is_signed(p->headers) || (str_is_ascii(p->headers) && str_is_ascii(p->body)))
		return PEPSI_OK;
	if (mail_downgrade_plan(&d, p->headers, p->body, MAIL_LACKS_8BIT)) {
		rc = d.fault == MAIL_DOWNGRADE_MEMORY ? PEPSI_RETRY : PEPSI_OK;
		say(p->host, p->msg, PEPSI_LOG_INFO, "not made 7-bit: %s", d.why);
	} else if (d.changed) {
		*headers = BUF_INIT(d.size + 2);
		*body = BUF_INIT(d.size + 2);
		rc = mail_downgrade_headers(&d, headers) || mail_downgrade_body(&d, body) || (d.open && buf_addz(body, "\r\n")) ? PEPSI_RETRY
			: p->host->set_body(p->msg, (struct pepsi_str){ body->p, body->n });
		p->headers = buf_str(headers);
		p->body = buf_str(body);
		say(p->host, p->msg, PEPSI_LOG_INFO, "event=made-7bit parts=%u fields=%u", d.parts, d.fields);
	}
	mail_downgrade_free(&d);
	return rc;
}

static int32_t process(void *worker, const struct pepsi_host *host, struct pepsi_msg *msg)
{
	struct pass p = { .s = worker, .host = host, .msg = msg };
	struct pepsi_str h, b;
	const char *why;
	int32_t rc = host->headers(msg, &h);
	if (rc == PEPSI_OK)
		rc = host->body(msg, &b);
	if (rc != PEPSI_OK)
		return rc;
	/* what came from outside is never signed as if it were ours, whatever its From says */
	if (!p.s->all && !ours_sent(host, msg, p.s->networks)) {
		host->measure(p.s->messages, "from_outside", 1);
		say(host, msg, PEPSI_LOG_DEBUG, "not signed: it came from outside");
		return host->advance(msg);
	}
	p.headers = from_host(h);
	p.body = from_host(b);
	authors_read(p.headers, &p.authors);
	for (size_t i = 0; i < p.authors.n; i++)
		p.must |= required(p.s, p.authors.domain[i]);
	if (p.authors.why)
		return unsignable(&p, p.authors.why);
	for (size_t i = 0; i < p.authors.n && rc == PEPSI_OK; i++)
		rc = keys_of(&p, p.authors.domain[i]);
	if (rc != PEPSI_OK)
		return rc;
	if (!p.n) {
		host->measure(p.s->messages, "no_key", 1);
		say(host, msg, PEPSI_LOG_DEBUG, "not signed author=%s: no keys of that domain", p.authors.domain[0]);
		return host->advance(msg);
	}
	if ((why = seal_unsignable(p.s->seal, p.headers)))
		return unsignable(&p, why);
	if (skip_done(&p))
		return PEPSI_RETRY;
	if (!p.n)
		host->measure(p.s->messages, "signed_before", 1);
	struct buf headers = BUF_INIT(0), body = BUF_INIT(0);
	rc = p.n ? seven_bit(&p, &headers, &body) : PEPSI_OK;
	if (rc == PEPSI_OK)
		rc = p.n ? sign(&p) : host->advance(msg);
	buf_free(&headers);
	buf_free(&body);
	return rc;
}

PEPSI_STAGE(.name = "pepsi-stage-dkim-sign", .version = "1.0", .license = "Apache-2.0", .summary = "signs mail of our own domains (DKIM)",
    .load_class = PEPSI_LOAD_FULL, .caps = PEPSI_CAP_FILES | PEPSI_CAP_SIGNS, PEPSI_OPTIONS(options), .validate = check, .open = start, .process = process, .close = stop);
