/* pepsi-stage-srs: the sender rewriting scheme (proto/srs). What we forward leaves with an envelope sender of ours, so that SPF holds at the next hop and a
 * bounce comes to us; a bounce that comes is taken back to the sender it belongs to. The message itself stays as it is: signatures hold. Rewrites
 * nothing that is not forwarded, never the null sender, never a sender of ours. */
#include "books.h"
#include "count.h"
#include "forwarded.h"
#include "ours.h"
#include "say.h"
#include "srs.h"

#include "base/log.h"

#include <json-c/json.h>
#include <stdlib.h>

enum { STATE_DEPTH = 32 };

static const struct pepsi_option options[] = {
	{ .name = "DOMAIN", .type = PEPSI_OPT_STRING, .flags = PEPSI_OPTF_REQUIRED | PEPSI_OPTF_FILE_ONLY,
	    .help = "domain of the addresses that are made, one of LOCAL_DOMAINS, with MX and SPF of ours; a domain of its own (srs.example.org) keeps them apart from mailboxes" },
	RETURN_KEY_DIR,
	{ .name = "LOCAL", .type = PEPSI_OPT_LIST, .flags = PEPSI_OPTF_FILE_ONLY,
	    .help = "domains that are ours (DOMAIN, *.DOMAIN): mail of their senders is not rewritten, mail to them not forwarded; default: LOCAL_DOMAINS of [pepsi]" },
	{ .name = "NETWORKS", .type = PEPSI_OPT_LIST, .flags = PEPSI_OPTF_FILE_ONLY,
	    .help = "clients whose mail is relayed for them, not forwarded, unless an alias led it outside; default: RELAY_NETWORKS of [pepsi]" },
	{ .name = "EXEMPT", .type = PEPSI_OPT_LIST, .help = "senders that are left as they are all the same: local@domain, domain, *.domain" },
	RETURN_MAX_AGE,
	{ .name = "SEPARATOR", .type = PEPSI_OPT_CHOICE, .def = "=", .choices = "= + -", .help = "octet behind SRS0 and SRS1; reading takes all three" },
	{ .name = "BOUNCES_EACH", .type = PEPSI_OPT_INT, .def = "100", .min = 1, .max = 1000000, .help = "bounces that one sender gets within an hour; more wait" },
	{ .name = "BOUNCES", .type = PEPSI_OPT_INT, .def = "5000", .min = 0, .max = 100000000, .help = "bounces to all senders together within an hour; 0: nothing is counted" },
	{ .name = "MOST_KEPT", .type = PEPSI_OPT_INT, .def = "100000", .min = 0, .max = 100000000,
	    .help = "senders too long for an address that are kept in the database; further ones leave as they are" },
	{ .name = "BEFORE", .type = PEPSI_OPT_PATH, .flags = PEPSI_OPTF_FILE_ONLY,
	    .help = "file with the secret of the program that made such addresses in DOMAIN before (postsrsd), one or two lines: their bounces are taken home, too" },
	{ .name = "BEFORE_UNTIL", .type = PEPSI_OPT_STRING, .flags = PEPSI_OPTF_FILE_ONLY, .help = "last day of that, such as 2027-01-31 (UTC): its tags can be guessed" },
};

static const struct return_list_source local_from = { "LOCAL", "LOCAL_DOMAINS", true }, exempt_from = { "EXEMPT", NULL, false };

static int32_t validate(const struct pepsi_host *h, const struct pepsi_conf *c, struct pepsi_report *report)
{
	const char *networks = h->conf_str(c, "NETWORKS"), *wrong;
	size_t n;
	return_list_check(h, c, &local_from, report);
	return_list_check(h, c, &exempt_from, report);
	if (networks && (wrong = ours_network_wrong(networks, &n)))
		fault(h, report, "NETWORKS", "\"%.*s\" is no address and no network", (int)n, wrong);
	before_check(h, c, report);
	return_check(h, c, report);
	return PEPSI_OK;
}

static void close_worker(void *worker)
{
	struct worker *w = worker;
	if (!w)
		return;
	return_close(&w->path);
	before_done(&w->before);
	return_list_free(&w->local);
	return_list_free(&w->exempt);
	free(w);
}

static int32_t open_worker(const struct pepsi_host *h, const struct pepsi_conf *c, void **ret)
{
	const char *separator = h->conf_str(c, "SEPARATOR"), *networks = h->conf_str(c, "NETWORKS");
	struct worker *w = calloc(1, sizeof *w);
	int32_t r = w ? return_open(&w->path, "srs", h, c) : PEPSI_RETRY;
	if (r == PEPSI_OK && (return_list_read(h, c, &local_from, &w->local) || return_list_read(h, c, &exempt_from, &w->exempt)))
		r = PEPSI_RETRY;
	if (r != PEPSI_OK) {
		close_worker(w);
		return r;
	}
	if (separator)
		w->path.srs.separator = separator[0];
	w->networks = networks ? networks : h->conf_global(c, "pepsi", "RELAY_NETWORKS");
	w->keep_s = (w->path.srs.max_age + INT64_C(2)) * RETURN_DAY_S; /* the day of the stamp, and a bit */
	w->each = h->conf_int(c, "BOUNCES_EACH");
	w->all = h->conf_int(c, "BOUNCES");
	w->most_kept = h->conf_int(c, "MOST_KEPT");
	before_read(&w->before, h, c);
	w->path.results = count_new(h, c, PEPSI_METRIC_COUNTER, "srs", "result", "forwarded kept left home before capped sender forged expired",
	    "Recipients of forwarded mail and of its bounces, by what became of them.");
	*ret = w;
	return PEPSI_OK;
}

void count(const struct pass *p, const char *what, size_t n)
{
	if (n && !p->question)
		count_add(p->h, p->w->path.results, what, (int64_t)n);
}

int32_t refuse(const struct pass *p, const struct return_refusal *const *why)
{
	for (size_t i = 0; i < p->n; i++)
		if (why[i])
			count(p, why[i]->name, 1);
	return return_refuse(&p->w->path, p->h, p->m, p->question, why);
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
		if (!return_list_has(&p->w->local, to) && (!relayed || forwarded_has(list, to)))
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
	    books_keep(p->h->database(p->w->path.conf), reference, sender, p->w->keep_s, p->w->most_kept, &why) : 0;
	int r = k < 0 ? SRS_MEMORY : k ? srs_forward_kept(&p->w->path.srs, str_from(reference), p->h->now_us() / 1000000, out) : SRS_UNCHANGED;
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
	struct buf as = BUF_INIT(RETURN_ADDRESS_MAX);
	uint32_t *idx = calloc(p->n, sizeof *idx);
	size_t n = !idx || return_list_has(&w->local, sender) || return_list_has(&w->exempt, sender) ? 0 : forwarded(p, idx);
	int32_t r = idx ? n ? return_ready(&w->path, p->h, p->m) : p->h->advance(p->m) : PEPSI_RETRY;
	if (r == PEPSI_OK && n) {
		int k = srs_forward(&w->path.srs, sender, p->h->now_us() / 1000000, &as);
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
	static const struct return_refusal not_theirs = { "sender", "5.7.1",
		"This is a return address of forwarded mail: it takes delivery reports alone, those of the null sender" };
	const struct return_refusal **why = calloc(p->n, sizeof *why);
	int32_t r = PEPSI_NONE;
	for (size_t i = 0; why && i < p->n; i++)
		if (srs_is(from_host(p->h->rcpt(p->m, i)), p->w->path.srs.domain))
			why[i] = &not_theirs;
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
