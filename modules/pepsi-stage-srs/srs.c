/* pepsi-stage-srs: the sender rewriting scheme (proto/srs). What we forward leaves with an envelope sender of ours, so that SPF holds at the next hop and a
 * bounce comes to us; a bounce that comes is taken back to the sender it belongs to. The message itself stays as it is: signatures hold. Rewrites
 * nothing that is not forwarded, never the null sender, never a sender of ours. */
#include "books.h"
#include "forwarded.h"
#include "ours.h"
#include "say.h"
#include "srs.h"
#include "base/log.h"
#include "proto/smtp/address.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const results[] = { "forwarded", "kept", "left", "home", "before", "capped", "sender", "forged", "expired" };

enum { PATTERNS_MAX = 10000, ADDRESS_MAX = 1024, STATE_DEPTH = 32, DAY = 86400 };

static const struct pepsi_option options[] = {
	{ .name = "DOMAIN", .type = PEPSI_OPT_STRING, .flags = PEPSI_OPTF_REQUIRED | PEPSI_OPTF_FILE_ONLY,
	    .help = "domain of the addresses that are made, one of LOCAL_DOMAINS, with MX and SPF of ours; a domain of its own (srs.example.org) keeps them apart from mailboxes" },
	{ .name = "KEY_DIR", .type = PEPSI_OPT_PATH, .flags = PEPSI_OPTF_REQUIRED, .help = "folder of the keys, as pepsi-keys srs makes it, readable by the stage's account alone" },
	{ .name = "LOCAL", .type = PEPSI_OPT_LIST, .flags = PEPSI_OPTF_FILE_ONLY,
	    .help = "domains that are ours (DOMAIN, *.DOMAIN): mail of their senders is not rewritten, mail to them not forwarded; default: LOCAL_DOMAINS of [pepsi]" },
	{ .name = "NETWORKS", .type = PEPSI_OPT_LIST, .flags = PEPSI_OPTF_FILE_ONLY,
	    .help = "clients whose mail is relayed for them, not forwarded, unless an alias led it outside; default: RELAY_NETWORKS of [pepsi]" },
	{ .name = "EXEMPT", .type = PEPSI_OPT_LIST, .help = "senders that are left as they are all the same: local@domain, domain, *.domain" },
	{ .name = "MAX_AGE", .type = PEPSI_OPT_DURATION, .def = "21 d", .min = 5 * DAY, .max = INT64_C(300) * DAY,
	    .help = "how long a bounce may take to come; longer than anybody tries to deliver" },
	{ .name = "SEPARATOR", .type = PEPSI_OPT_CHOICE, .def = "=", .choices = "= + -", .help = "octet behind SRS0 and SRS1; reading takes all three" },
	{ .name = "BOUNCES_EACH", .type = PEPSI_OPT_INT, .def = "100", .min = 1, .max = 1000000, .help = "bounces that one sender gets within an hour; more wait" },
	{ .name = "BOUNCES", .type = PEPSI_OPT_INT, .def = "5000", .min = 0, .max = 100000000, .help = "bounces to all senders together within an hour; 0: nothing is counted" },
	{ .name = "MOST_KEPT", .type = PEPSI_OPT_INT, .def = "100000", .min = 0, .max = 100000000,
	    .help = "senders too long for an address that are kept in the database; further ones leave as they are" },
	{ .name = "BEFORE", .type = PEPSI_OPT_PATH, .flags = PEPSI_OPTF_FILE_ONLY,
	    .help = "file with the secret of the program that made such addresses in DOMAIN before (postsrsd), one or two lines: their bounces are taken home, too" },
	{ .name = "BEFORE_UNTIL", .type = PEPSI_OPT_STRING, .flags = PEPSI_OPTF_FILE_ONLY, .help = "last day of that, such as 2027-01-31 (UTC): its tags can be guessed" },
};

/* Patterns of an option into *ret (NULL: only told); the domains of conf_global where it is not set. */
static void patterns(const struct pepsi_host *h, const struct pepsi_conf *c, const char *option, const char *fallback, struct pattern **ret, size_t *ret_n,
    struct pepsi_report *report)
{
	const char *text = h->conf_str(c, option);
	if (!text && fallback)
		text = h->conf_global(c, "pepsi", fallback);
	struct str rest = str_from(text ? text : ""), word;
	struct pattern p;
	size_t n = 0;
	while (str_word(&rest, " \t,", &word)) {
		bool wrong = pattern_parse(word, &p) || p.kind == PATTERN_ANY || p.kind == PATTERN_LOCAL || (fallback && p.kind == PATTERN_ADDRESS);
		if (wrong && report)
			fault(h, report, option, "\"%.*s\" is no %s", STR_ARG(word), fallback ? "domain" : "sender or domain");
		if (!wrong && ret && n < PATTERNS_MAX)
			(*ret)[(*ret_n)++] = p;
		n++;
	}
	if (n > PATTERNS_MAX && report)
		fault(h, report, option, "more than %d", PATTERNS_MAX);
}

static bool among(const struct pattern *p, size_t n, struct str address)
{
	struct pattern_address a;
	bool yes = false;
	if (pattern_address(address, &a))
		return false;
	for (size_t i = 0; i < n && !yes; i++)
		yes = pattern_match(&p[i], &a);
	return yes;
}

static int take_domain(const char *text, char *out, size_t size)
{
	struct buf ascii = BUF_INIT(300);
	int r = !text || smtp_domain_to_ascii(str_from(text), &ascii) || ascii.n >= size ? -1 : 0;
	if (!r)
		snprintf(out, size, "%s", buf_z(&ascii));
	buf_free(&ascii);
	return r;
}

static int32_t validate(const struct pepsi_host *h, const struct pepsi_conf *c, struct pepsi_report *report)
{
	const char *domain = h->conf_str(c, "DOMAIN"), *networks = h->conf_str(c, "NETWORKS"), *wrong;
	char ascii[260], address[270];
	size_t n, n_local = 0;
	struct pattern *local = calloc(PATTERNS_MAX, sizeof *local);
	patterns(h, c, "LOCAL", "LOCAL_DOMAINS", NULL, NULL, report);
	patterns(h, c, "EXEMPT", NULL, NULL, NULL, report);
	if (networks && (wrong = ours_network_wrong(networks, &n)))
		fault(h, report, "NETWORKS", "\"%.*s\" is no address and no network", (int)n, wrong);
	if (domain && take_domain(domain, ascii, sizeof ascii)) {
		fault(h, report, "DOMAIN", "\"%s\" is no domain", domain);
	} else if (domain) {
		struct str rest = str_from(h->conf_global(c, "pepsi", "LOCAL_DOMAINS")), word;
		while (local && str_word(&rest, " \t,", &word) && n_local < PATTERNS_MAX)
			n_local += !pattern_parse(word, &local[n_local]);
		snprintf(address, sizeof address, "x@%s", ascii);
		if (local && !among(local, n_local, str_from(address)))
			fault(h, report, "DOMAIN", "%s is none of LOCAL_DOMAINS: bounces to it would be refused as relaying", domain);
	}
	before_check(h, c, report);
	if (!h->conf_str(c, "NEXT_STAGE"))
		h->report(report, NULL, "NEXT_STAGE must be set: the stage that delivers, or tells who does");
	if (!h->conf_str(c, "BOUNCE_STAGE"))
		h->report(report, NULL, "BOUNCE_STAGE must be set: for recipients that are no return addresses of ours");
	free(local);
	return PEPSI_OK;
}

static void close_worker(void *worker)
{
	struct worker *w = worker;
	if (!w)
		return;
	keys_done(&w->keys);
	before_done(&w->before);
	free(w->local);
	free(w->exempt);
	free(w);
}

static int32_t open_worker(const struct pepsi_host *h, const struct pepsi_conf *c, void **ret)
{
	const char *dir = h->conf_str(c, "KEY_DIR"), *separator = h->conf_str(c, "SEPARATOR"), *networks = h->conf_str(c, "NETWORKS");
	struct worker *w = calloc(1, sizeof *w);
	if (!w || !(w->local = calloc(PATTERNS_MAX, sizeof *w->local)) || !(w->exempt = calloc(PATTERNS_MAX, sizeof *w->exempt))) {
		close_worker(w);
		return PEPSI_RETRY;
	}
	if (!dir || take_domain(h->conf_str(c, "DOMAIN"), w->domain, sizeof w->domain)) {
		h->log(NULL, PEPSI_LOG_ERROR, dir ? "DOMAIN is not set, or no domain" : "KEY_DIR is not set");
		close_worker(w);
		return PEPSI_PERMANENT;
	}
	w->conf = c;
	w->stage = h->conf_stage_name(c);
	w->networks = networks ? networks : h->conf_global(c, "pepsi", "RELAY_NETWORKS");
	int64_t age = h->conf_int(c, "MAX_AGE");
	w->srs = (struct srs){ .domain = str_from(w->domain), .max_age = (unsigned)(age / DAY), .separator = separator ? separator[0] : '=' };
	w->keep_s = (age / DAY + 2) * DAY; /* the day of the stamp, and a bit */
	w->each = h->conf_int(c, "BOUNCES_EACH");
	w->all = h->conf_int(c, "BOUNCES");
	w->most_kept = h->conf_int(c, "MOST_KEPT");
	patterns(h, c, "LOCAL", "LOCAL_DOMAINS", &w->local, &w->n_local, NULL);
	patterns(h, c, "EXEMPT", NULL, &w->exempt, &w->n_exempt, NULL);
	keys_init(&w->keys, dir);
	before_read(&w->before, h, c);
	w->host = h;
	if (PEPSI_HAS(h, metric) && PEPSI_HAS(h, measure)) {
		w->results = h->metric(c, PEPSI_METRIC_COUNTER, "srs", "result", "Recipients of forwarded mail and of its bounces, by what became of them.");
		for (size_t i = 0; i < sizeof results / sizeof *results; i++)
			h->measure(w->results, results[i], 0);
	}
	*ret = w;
	return PEPSI_OK;
}

void count(const struct pass *p, const char *what, size_t n)
{
	if (p->w->results && n && !p->question)
		p->w->host->measure(p->w->results, what, (int64_t)n);
}

int32_t ready(const struct pass *p)
{
	struct buf why = BUF_INIT(600);
	int r = keys_use(&p->w->keys, &p->w->srs, &why);
	if (r)
		say(p->h, p->m, PEPSI_LOG_ERROR, "srs has no keys: %s", buf_z(&why));
	buf_free(&why);
	return r ? PEPSI_RETRY : PEPSI_OK;
}

/* --- forwarded mail */

/* state.forwarded: where aliases of ours led to. NULL: nowhere. */
static struct json_object *marks(const struct pass *p)
{
	struct pepsi_str s;
	if (p->h->state_get(p->m, "forwarded", &s) != PEPSI_OK || s.n > INT32_MAX)
		return NULL;
	struct json_tokener *tok = json_tokener_new_ex(STATE_DEPTH);
	struct json_object *list = tok ? json_tokener_parse_ex(tok, s.p, (int)s.n) : NULL;
	if (tok)
		json_tokener_free(tok);
	return list;
}

/* Recipients outside that the message was not sent to. How many. */
static size_t forwarded(const struct pass *p, uint32_t *idx)
{
	struct json_object *list = NULL;
	size_t n = 0;
	if (ours_signed_in(p->h, p->m)) /* a submission */
		return 0;
	bool relayed = ours_sent(p->h, p->m, p->w->networks);
	if (relayed && !(list = marks(p)))
		return 0;
	for (size_t i = 0; i < p->n; i++) {
		struct str to = from_host(p->h->rcpt(p->m, i));
		if (!among(p->w->local, p->w->n_local, to) && (!relayed || forwarded_has(list, to)))
			idx[n++] = (uint32_t)i;
	}
	json_object_put(list);
	return n;
}

/* A sender that does not fit is kept, and its reference written. As srs_forward(), with 1 for "leave it". */
static int keep(const struct pass *p, struct str sender, struct buf *out)
{
	char reference[BOOKS_REFERENCE + 1];
	struct buf why = BUF_INIT(600);
	int k = p->w->most_kept && !books_reference(sender, reference) ?
	    books_keep(p->h->database(p->w->conf), reference, sender, p->w->keep_s, p->w->most_kept, &why) : 0;
	int r = k < 0 ? SRS_MEMORY : k ? srs_forward_kept(&p->w->srs, str_from(reference), p->h->now_us() / 1000000, out) : SRS_UNCHANGED;
	if (k < 0)
		say(p->h, p->m, PEPSI_LOG_WARN, "srs cannot keep a long sender: %s", why.n ? buf_z(&why) : "out of memory");
	else if (!k)
		say(p->h, p->m, PEPSI_LOG_WARN, "srs left from=%s: too long for an address, and MOST_KEPT senders are kept already", log_address(sender));
	count(p, "kept", k > 0);
	buf_free(&why);
	return r;
}

/* {"srs":{"sender":…}}; put it. */
static struct json_object *state_of(struct str sender)
{
	struct json_object *o = json_object_new_object(), *srs = json_object_new_object();
	json_object_object_add(srs, "sender", json_object_new_string_len(sender.p, (int)sender.n));
	json_object_object_add(o, "srs", srs);
	return o;
}

/* Those of idx leave with another sender, the others as they are. */
static int32_t rewrite(const struct pass *p, const uint32_t *idx, size_t n, struct str as)
{
	const struct pepsi_host *h = p->h;
	struct str sender = from_host(h->mail_from(p->m));
	struct json_object *o = state_of(sender);
	const char *json = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	char *from = str_dupz(as);
	uint32_t *rest = calloc(p->n, sizeof *rest);
	size_t n_rest = 0;
	int32_t r = from && rest ? PEPSI_OK : PEPSI_RETRY;
	if (r == PEPSI_OK) {
		count(p, "forwarded", n);
		say(h, p->m, PEPSI_LOG_INFO, "srs forwarded from=%s as=%s rcpts=%zu of=%zu", log_address(sender), log_address(str_from(from)), n, p->n);
	}
	if (r == PEPSI_OK && n == p->n) {
		r = h->merge_state(p->m, json);
		if (r == PEPSI_OK)
			r = h->set_mail_from(p->m, (struct pepsi_str){ as.p, as.n });
		if (r == PEPSI_OK)
			r = h->advance(p->m);
	} else if (r == PEPSI_OK) {
		for (size_t i = 0, k = 0; i < p->n; i++)
			if (k < n && idx[k] == i)
				k++;
			else
				rest[n_rest++] = (uint32_t)i;
		struct pepsi_clone c = { .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = h->next_stage(p->m), .status = PEPSI_CLONE_PENDING, .indices = idx, .n = n,
			.state = json, .mail_from = from };
		r = h->fan_out(p->m, &c, 1, rest, n_rest);
		if (r == PEPSI_OK)
			r = h->advance(p->m);
	}
	free(rest);
	free(from);
	json_object_put(o);
	return r;
}

static int32_t forward(const struct pass *p)
{
	struct worker *w = p->w;
	struct str sender = from_host(p->h->mail_from(p->m));
	struct buf as = BUF_INIT(ADDRESS_MAX);
	uint32_t *idx = calloc(p->n, sizeof *idx);
	size_t n = !idx || among(w->local, w->n_local, sender) || among(w->exempt, w->n_exempt, sender) ? 0 : forwarded(p, idx);
	int32_t r = idx ? n ? ready(p) : p->h->advance(p->m) : PEPSI_RETRY;
	if (r == PEPSI_OK && n) {
		int k = srs_forward(&w->srs, sender, p->h->now_us() / 1000000, &as);
		if (k == SRS_TOO_LONG)
			k = keep(p, sender, &as);
		if (k == SRS_BAD_ADDRESS)
			say(p->h, p->m, PEPSI_LOG_WARN, "srs left from=%s: %s", log_address(sender), srs_result_text(k));
		if (k == SRS_UNCHANGED || k == SRS_BAD_ADDRESS) {
			count(p, "left", n);
			r = p->h->advance(p->m);
		} else {
			r = k == SRS_OK ? rewrite(p, idx, n, buf_str(&as)) : PEPSI_RETRY;
		}
	}
	free(idx);
	buf_free(&as);
	return r;
}

/* A message that has a sender. Return addresses are not for it, valid or not. */
static int32_t of_somebody(const struct pass *p)
{
	const struct refusal **why = calloc(p->n, sizeof *why);
	int32_t r = PEPSI_NONE;
	for (size_t i = 0; why && i < p->n; i++)
		if (srs_is(from_host(p->h->rcpt(p->m, i)), p->w->srs.domain))
			why[i] = &refusal_sender;
	r = why ? refuse(p, why) : PEPSI_RETRY;
	free(why);
	return r == PEPSI_NONE ? forward(p) : r;
}

static int32_t process(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct pepsi_str q;
	struct pass p = { .w = worker, .h = h, .m = m, .n = h->n_rcpt(m) };
	p.question = h->state_get(m, "question", &q) == PEPSI_OK && str_eq(from_host(q), STR("recipient"));
	if (!p.n)
		return h->advance(m);
	return h->mail_from(m).n ? of_somebody(&p) : home(&p);
}

PEPSI_STAGE(.name = "pepsi-stage-srs", .version = "1.0", .license = "Apache-2.0",
    .summary = "forwarded mail leaves with an envelope sender of ours, and its bounces go home (SRS)", .load_class = PEPSI_LOAD_METADATA,
    .caps = PEPSI_CAP_DB | PEPSI_CAP_FILES, PEPSI_OPTIONS(options), .validate = validate, .open = open_worker, .process = process, .close = close_worker);
