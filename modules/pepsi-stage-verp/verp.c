/* pepsi-stage-verp: mail of ours leaves with an envelope sender for each recipient (proto/srs/verp.h), and the bounce that comes to it goes home to the author;
 * on the way it is read (proto/dsn/read.h), and a recipient that it calls unknown is put on the list of pepsi-stage-suppression, if it is the very one that the
 * address was made for. So bounces can be learnt from that come hours after a next hop took the message, and forged ones teach nothing. Changes no
 * content: signatures hold. */
#include "verp_stage.h"

#include "count.h"
#include "say.h"
#include "base/log.h"
#include "proto/smtp/address.h"
#include "proto/srs/verp.h"

#include <stdio.h>
#include <stdlib.h>

enum { PATTERNS_MAX = 10000, ADDRESS_MAX = 1024, DAY = 86400, SPLIT_MAX = 1000 };

static const struct pepsi_option options[] = {
	{ .name = "DOMAIN", .type = PEPSI_OPT_STRING, .flags = PEPSI_OPTF_REQUIRED | PEPSI_OPTF_FILE_ONLY,
	    .help = "domain of the return addresses, one of LOCAL_DOMAINS, with MX and SPF of ours and nobody living there (bounces.example.org)" },
	{ .name = "KEY_DIR", .type = PEPSI_OPT_PATH, .flags = PEPSI_OPTF_REQUIRED, .help = "folder of the keys, as pepsi-keys srs makes it, readable by the stage's account alone" },
	{ .name = "SENDERS", .type = PEPSI_OPT_LIST, .help = "senders whose mail gets return addresses: local@domain, domain, *.domain; default: LOCAL_DOMAINS of [pepsi]" },
	{ .name = "MAX_AGE", .type = PEPSI_OPT_DURATION, .def = "21 d", .min = 5 * DAY, .max = INT64_C(300) * DAY,
	    .help = "how long a bounce may take to come; longer than anybody tries to deliver" },
	{ .name = "SPLIT", .type = PEPSI_OPT_INT, .def = "100", .min = 1, .max = SPLIT_MAX,
	    .help = "a message to so many recipients becomes one for each; with more it leaves with its own sender" },
	{ .name = "LEARN", .type = PEPSI_OPT_BOOL, .def = "YES", .help = "put recipients on the list of pepsi-suppression that a bounce to their own address calls unknown" },
	{ .name = "KEEP", .type = PEPSI_OPT_DURATION, .def = "30 d", .min = 60, .max = 31622400, .help = "how long what was learnt counts" },
	{ .name = "MOST", .type = PEPSI_OPT_INT, .def = "1000000", .min = 1, .max = 100000000, .help = "recipients on the list; at this number nothing more is learnt" },
};

/* Patterns of an option, of LOCAL_DOMAINS where it is not set (option NULL: of that), into *ret (NULL: only told). */
static void patterns(const struct pepsi_host *h, const struct pepsi_conf *c, const char *option, struct pattern *ret, size_t *ret_n, struct pepsi_report *report)
{
	const char *text = option ? h->conf_str(c, option) : NULL;
	if (!text)
		text = h->conf_global(c, "pepsi", "LOCAL_DOMAINS");
	struct str rest = str_from(text ? text : ""), word;
	struct pattern p;
	size_t n = 0;
	while (str_word(&rest, " \t,", &word)) {
		bool wrong = pattern_parse(word, &p) || p.kind == PATTERN_ANY || p.kind == PATTERN_LOCAL;
		if (wrong && report)
			fault(h, report, option, "\"%.*s\" is no sender and no domain", STR_ARG(word));
		if (!wrong && ret && n < PATTERNS_MAX)
			ret[(*ret_n)++] = p;
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
	const char *domain = h->conf_str(c, "DOMAIN");
	char ascii[260], address[270];
	size_t n = 0;
	struct pattern *local = calloc(PATTERNS_MAX, sizeof *local);
	patterns(h, c, "SENDERS", NULL, NULL, report);
	if (domain && take_domain(domain, ascii, sizeof ascii)) {
		fault(h, report, "DOMAIN", "\"%s\" is no domain", domain);
	} else if (domain && local) {
		patterns(h, c, NULL, local, &n, NULL);
		snprintf(address, sizeof address, "x@%s", ascii);
		if (!among(local, n, str_from(address)))
			fault(h, report, "DOMAIN", "%s is none of LOCAL_DOMAINS: bounces to it would be refused as relaying", domain);
	}
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
	free(w->senders);
	free(w->local);
	free(w);
}

static int32_t open_worker(const struct pepsi_host *h, const struct pepsi_conf *c, void **ret)
{
	const char *dir = h->conf_str(c, "KEY_DIR");
	struct worker *w = calloc(1, sizeof *w);
	if (!w || !(w->senders = calloc(PATTERNS_MAX, sizeof *w->senders)) || !(w->local = calloc(PATTERNS_MAX, sizeof *w->local))) {
		close_worker(w);
		return PEPSI_RETRY;
	}
	if (!dir || take_domain(h->conf_str(c, "DOMAIN"), w->domain, sizeof w->domain)) {
		h->log(NULL, PEPSI_LOG_ERROR, dir ? "DOMAIN is not set, or no domain" : "KEY_DIR is not set");
		close_worker(w);
		return PEPSI_PERMANENT;
	}
	w->host = h;
	w->conf = c;
	w->stage = h->conf_stage_name(c);
	w->srs = (struct srs){ .domain = str_from(w->domain), .max_age = (unsigned)(h->conf_int(c, "MAX_AGE") / DAY), .separator = '=' };
	w->keep_s = h->conf_int(c, "KEEP");
	w->most = h->conf_int(c, "MOST");
	w->split = h->conf_int(c, "SPLIT");
	w->learn = h->conf_int(c, "LEARN");
	patterns(h, c, "SENDERS", w->senders, &w->n_senders, NULL);
	patterns(h, c, NULL, w->local, &w->n_local, NULL);
	keys_init(&w->keys, dir);
	w->results = count_new(h, c, PEPSI_METRIC_COUNTER, "verp", "result", "made left home refused learnt unproven",
	    "Recipients whose mail got a return address, and bounces to those, by what became of them.");
	*ret = w;
	return PEPSI_OK;
}

void tally(const struct pass *p, const char *what, size_t n)
{
	if (n && !p->question)
		count_add(p->h, p->w->results, what, (int64_t)n);
}

int32_t ready(const struct pass *p)
{
	struct buf why = BUF_INIT(600);
	int r = keys_use(&p->w->keys, &p->w->srs, &why);
	if (r)
		say(p->h, p->m, PEPSI_LOG_ERROR, "verp has no keys: %s", buf_z(&why));
	buf_free(&why);
	return r ? PEPSI_RETRY : PEPSI_OK;
}

/* --- mail that leaves */

/* Those of idx each get a message of their own, or, where there is one recipient only, this one gets the sender. as: n addresses. */
static int32_t leave(const struct pass *p, const uint32_t *idx, char *const *as, size_t n)
{
	const struct pepsi_host *h = p->h;
	if (n == 1 && p->n == 1) {
		int32_t r = h->set_mail_from(p->m, (struct pepsi_str){ as[0], strlen(as[0]) });
		return r == PEPSI_OK ? h->advance(p->m) : r;
	}
	struct pepsi_clone *c = calloc(n, sizeof *c);
	uint32_t *rest = calloc(p->n, sizeof *rest);
	size_t n_rest = 0, k = 0, first = 0;
	int32_t r = c && rest ? PEPSI_OK : PEPSI_RETRY;
	for (size_t i = 0; r == PEPSI_OK && i < p->n; i++)
		if (k < n && idx[k] == i)
			k++;
		else
			rest[n_rest++] = (uint32_t)i;
	if (r == PEPSI_OK && !n_rest) { /* somebody keeps the row: the first of them */
		rest[n_rest++] = idx[0];
		first = 1;
	}
	for (size_t i = first; r == PEPSI_OK && i < n; i++)
		c[i - first] = (struct pepsi_clone){ .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = h->next_stage(p->m), .status = PEPSI_CLONE_PENDING, .indices = &idx[i],
			.n = 1, .mail_from = as[i] };
	if (r == PEPSI_OK)
		r = h->fan_out(p->m, c, n - first, rest, n_rest);
	if (r == PEPSI_OK && first) /* now: the others are made of the row as it was */
		r = h->set_mail_from(p->m, (struct pepsi_str){ as[0], strlen(as[0]) });
	if (r == PEPSI_OK)
		r = h->advance(p->m);
	free(c);
	free(rest);
	return r;
}

static int32_t outgoing(const struct pass *p)
{
	struct worker *w = p->w;
	struct str sender = from_host(p->h->mail_from(p->m));
	uint32_t *idx = calloc(p->n, sizeof *idx);
	char **as = calloc(p->n, sizeof *as);
	size_t n = 0, made = 0;
	int32_t r = idx && as ? PEPSI_OK : PEPSI_RETRY;
	for (size_t i = 0; r == PEPSI_OK && i < p->n; i++)
		if (!among(w->local, w->n_local, from_host(p->h->rcpt(p->m, i))))
			idx[n++] = (uint32_t)i;
	if (r == PEPSI_OK && n > (size_t)w->split) {
		say(p->h, p->m, PEPSI_LOG_INFO, "verp left from=%s rcpts=%zu: more than SPLIT", log_address(sender), n);
		tally(p, "left", n);
		n = 0;
	}
	if (r == PEPSI_OK && n)
		r = ready(p);
	for (size_t i = 0; r == PEPSI_OK && i < n; i++) {
		struct buf b = BUF_INIT(ADDRESS_MAX);
		int k = verp_make(&w->srs, sender, from_host(p->h->rcpt(p->m, idx[i])), p->h->now_us() / 1000000, &b);
		if (k == SRS_OK && (as[made] = str_dupz(buf_str(&b)))) {
			made++;
		} else if (k == SRS_TOO_LONG || k == SRS_BAD_ADDRESS) { /* the sender's fault: so it is for all of them */
			say(p->h, p->m, PEPSI_LOG_INFO, "verp left from=%s rcpts=%zu: %s", log_address(sender), n, srs_result_text(k));
			tally(p, "left", n);
			n = 0;
		} else {
			say(p->h, p->m, PEPSI_LOG_WARN, "verp cannot make a return address: %s", k == SRS_OK ? "out of memory" : srs_result_text(k));
			r = PEPSI_RETRY;
		}
		buf_free(&b);
	}
	if (r == PEPSI_OK && n && made == n) {
		say(p->h, p->m, PEPSI_LOG_INFO, "verp made from=%s as=%s rcpts=%zu of=%zu", log_address(sender), log_address(str_from(as[0])), n, p->n);
		tally(p, "made", n);
		r = leave(p, idx, as, n);
	} else if (r == PEPSI_OK) {
		r = p->h->advance(p->m);
	}
	for (size_t i = 0; as && i < made; i++)
		free(as[i]);
	free(as);
	free(idx);
	return r;
}

bool at_domain(const struct worker *w, struct str address)
{
	char end[264];
	snprintf(end, sizeof end, "@%s", w->domain);
	return str_iends(address, str_from(end));
}

static int32_t process(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct worker *w = worker;
	struct pepsi_str q;
	struct pass p = { .w = w, .h = h, .m = m, .n = h->n_rcpt(m) };
	struct str sender = from_host(h->mail_from(m));
	p.question = h->state_get(m, "question", &q) == PEPSI_OK && str_eq(from_host(q), STR("recipient"));
	for (size_t i = 0; i < p.n; i++)
		if (at_domain(w, from_host(h->rcpt(m, i))))
			return home(&p);
	return sender.n && !at_domain(w, sender) && among(w->senders, w->n_senders, sender) ? outgoing(&p) : h->advance(m);
}

PEPSI_STAGE(.name = "pepsi-stage-verp", .version = "1.0", .license = "Apache-2.0",
    .summary = "a return address for each recipient; bounces there go home and teach the suppression list", .load_class = PEPSI_LOAD_FULL,
    .caps = PEPSI_CAP_DB | PEPSI_CAP_FILES, PEPSI_OPTIONS(options), .validate = validate, .open = open_worker, .process = process, .close = close_worker);
