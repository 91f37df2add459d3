/* pepsi-stage-verp: mail of ours leaves with an envelope sender for each recipient (proto/srs/verp.h), and the bounce that comes to it goes home to the author;
 * on the way it is read (proto/dsn/read.h), and a recipient that it calls unknown is put on the list of pepsi-stage-suppression, if it is the very one that the
 * address was made for. So bounces can be learnt from that come hours after a next hop took the message, and forged ones teach nothing. Changes no
 * content: signatures hold. */
#include "verp_stage.h"

#include "count.h"
#include "say.h"
#include "base/log.h"
#include "proto/srs/verp.h"

#include <stdio.h>
#include <stdlib.h>

enum { SPLIT_MAX = 1000 };

static const struct pepsi_option options[] = {
	{ .name = "DOMAIN", .type = PEPSI_OPT_STRING, .flags = PEPSI_OPTF_REQUIRED | PEPSI_OPTF_FILE_ONLY,
	    .help = "domain of the return addresses, one of LOCAL_DOMAINS, with MX and SPF of ours and nobody living there (bounces.example.org)" },
	RETURN_KEY_DIR,
	{ .name = "SENDERS", .type = PEPSI_OPT_LIST, .help = "senders whose mail gets return addresses: local@domain, domain, *.domain; default: LOCAL_DOMAINS of [pepsi]" },
	RETURN_MAX_AGE,
	{ .name = "SPLIT", .type = PEPSI_OPT_INT, .def = "100", .min = 1, .max = SPLIT_MAX,
	    .help = "a message to so many recipients becomes one for each; with more it leaves with its own sender" },
	{ .name = "LEARN", .type = PEPSI_OPT_BOOL, .def = "YES", .help = "put recipients on the list of pepsi-suppression that a bounce to their own address calls unknown" },
	{ .name = "KEEP", .type = PEPSI_OPT_DURATION, .def = "30 d", .min = 60, .max = 31622400, .help = "how long what was learnt counts" },
	{ .name = "MOST", .type = PEPSI_OPT_INT, .def = "1000000", .min = 1, .max = 100000000, .help = "recipients on the list; at this number nothing more is learnt" },
};

static const struct return_list_source senders_from = { "SENDERS", "LOCAL_DOMAINS", false }, local_from = { NULL, "LOCAL_DOMAINS", true };

static int32_t validate(const struct pepsi_host *h, const struct pepsi_conf *c, struct pepsi_report *report)
{
	return_list_check(h, c, &senders_from, report);
	return_check(h, c, report);
	return PEPSI_OK;
}

static void close_worker(void *worker)
{
	struct worker *w = worker;
	if (!w)
		return;
	return_close(&w->path);
	return_list_free(&w->senders);
	return_list_free(&w->local);
	free(w);
}

static int32_t open_worker(const struct pepsi_host *h, const struct pepsi_conf *c, void **ret)
{
	struct worker *w = calloc(1, sizeof *w);
	int32_t r = w ? return_open(&w->path, "verp", h, c) : PEPSI_RETRY;
	if (r == PEPSI_OK && (return_list_read(h, c, &senders_from, &w->senders) || return_list_read(h, c, &local_from, &w->local)))
		r = PEPSI_RETRY;
	if (r != PEPSI_OK) {
		close_worker(w);
		return r;
	}
	w->keep_s = h->conf_int(c, "KEEP");
	w->most = h->conf_int(c, "MOST");
	w->split = h->conf_int(c, "SPLIT");
	w->learn = h->conf_int(c, "LEARN");
	w->path.results = count_new(h, c, PEPSI_METRIC_COUNTER, "verp", "result", "made left home refused learnt unproven",
	    "Recipients whose mail got a return address, and bounces to those, by what became of them.");
	*ret = w;
	return PEPSI_OK;
}

void tally(const struct pass *p, const char *what, size_t n)
{
	if (n && !p->question)
		count_add(p->h, p->w->path.results, what, (int64_t)n);
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
		if (!return_list_has(&w->local, from_host(p->h->rcpt(p->m, i))))
			idx[n++] = (uint32_t)i;
	if (r == PEPSI_OK && n > (size_t)w->split) {
		say(p->h, p->m, PEPSI_LOG_INFO, "verp left from=%s rcpts=%zu: more than SPLIT", log_address(sender), n);
		tally(p, "left", n);
		n = 0;
	}
	if (r == PEPSI_OK && n)
		r = return_ready(&w->path, p->h, p->m);
	for (size_t i = 0; r == PEPSI_OK && i < n; i++) {
		struct buf b = BUF_INIT(RETURN_ADDRESS_MAX);
		int k = verp_make(&w->path.srs, sender, from_host(p->h->rcpt(p->m, idx[i])), p->h->now_us() / 1000000, &b);
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
	char end[RETURN_DOMAIN_MAX + 2];
	snprintf(end, sizeof end, "@%s", w->path.domain);
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
	return sender.n && !at_domain(w, sender) && return_list_has(&w->senders, sender) ? outgoing(&p) : h->advance(m);
}

PEPSI_STAGE(.name = "pepsi-stage-verp", .version = "1.0", .license = "Apache-2.0",
    .summary = "a return address for each recipient; bounces there go home and teach the suppression list", .load_class = PEPSI_LOAD_FULL,
    .caps = PEPSI_CAP_DB | PEPSI_CAP_FILES, PEPSI_OPTIONS(options), .validate = validate, .open = open_worker, .process = process, .close = close_worker);
