/* pepsi-stage-route: each recipient goes to the stage of the first rule that matches; a message whose recipients go
 * different ways is split, one row per way. */
#include "base/buf.h"
#include "pattern.h"
#include "say.h"

#include <stdlib.h>

enum { RULES_MAX = 10000 };

struct rule {
	struct pattern p;
	unsigned to; /* index into stages */
};

struct worker {
	struct rule *rules;
	size_t n, cap;
	char **stages; /* distinct; [0] is where everything goes that no rule takes, NULL: nowhere */
	size_t n_stages;
	/* per message, kept for the next */
	uint32_t *idx, *keep;
	unsigned *way;
	struct pepsi_clone *clones; /* one per stage */
	size_t room;
};

static const struct pepsi_option options[] = {
	{ .name = "ROUTE_*", .type = PEPSI_OPT_MULTI,
	    .help = "PATTERN… STAGE: local@domain, local@*, domain, *.domain or *; the first rule that matches decides, in file order" },
	{ .name = "DEFAULT", .type = PEPSI_OPT_STAGE, .help = "stage of recipients that no rule matches; default: NEXT_STAGE" },
};

static int add_stage(struct worker *w, struct str name, unsigned *ret)
{
	for (size_t i = 0; i < w->n_stages; i++)
		if (w->stages[i] && str_eq(name, str_from(w->stages[i]))) {
			*ret = (unsigned)i;
			return 0;
		}
	char **more = realloc(w->stages, (w->n_stages + 1) * sizeof *more);
	if (!more)
		return -1;
	w->stages = more;
	if (!(more[w->n_stages] = str_dupz(name)))
		return -1;
	*ret = (unsigned)w->n_stages++;
	return 0;
}

/* "PATTERN… STAGE" into rules. 0, or -1 with the reason. */
static int add_rules(struct worker *w, const struct pepsi_host *h, const struct pepsi_conf *c, const char *value, struct buf *why)
{
	struct str all = str_trim(str_from(value)), rest = all, word;
	char stage[128];
	unsigned to;
	size_t words = 0;
	size_t cut = all.n;
	while (cut && all.p[cut - 1] != ' ' && all.p[cut - 1] != '\t')
		cut--;
	struct str last = str_skip(all, cut);
	if (!cut || last.n >= sizeof stage) {
		buf_addz(why, "expected one or more patterns and a stage, such as: example.org *.example.org local");
		return -1;
	}
	for (size_t i = 0; i <= last.n; i++) /* stages are named in lower case */
		stage[i] = i == last.n ? 0 : ascii_lower(last.p[i]);
	if (!stage_exists(h, c, stage)) {
		buf_addf(why, "there is no section [stage-%s]", stage);
		return -1;
	}
	if (add_stage(w, str_from(stage), &to))
		return -1;
	rest = str_n(all.p, cut);
	while (str_word(&rest, " \t", &word)) {
		words++;
		if (w->n == RULES_MAX) {
			buf_addf(why, "more than %d patterns in all", RULES_MAX);
			return -1;
		}
		if (w->n == w->cap) {
			size_t cap = w->cap ? w->cap * 2 : 16;
			struct rule *more = realloc(w->rules, cap * sizeof *more);
			if (!more)
				return -1;
			w->rules = more;
			w->cap = cap;
		}
		if (pattern_parse(word, &w->rules[w->n].p)) {
			buf_addf(why, "%.*s is no address pattern (local@domain, local@*, domain, *.domain, *)", STR_ARG(word));
			return -1;
		}
		w->rules[w->n++].to = to;
	}
	return words ? 0 : -1;
}

static void close_worker(void *worker)
{
	struct worker *w = worker;
	if (!w)
		return;
	for (size_t i = 0; i < w->n_stages; i++)
		free(w->stages[i]);
	free(w->stages);
	free(w->rules);
	free(w->idx);
	free(w->keep);
	free(w->clones);
	free(w->way);
	free(w);
}

static void fault_or_log(const struct pepsi_host *h, struct pepsi_report *r, const char *name, const char *text)
{
	if (r)
		h->report(r, name, text);
	else
		say(h, NULL, PEPSI_LOG_ERROR, "%s: %s", name, text);
}

/* Reads all rules, telling every fault (to r, or to the log). NULL: memory. */
static struct worker *make(const struct pepsi_host *h, const struct pepsi_conf *c, struct pepsi_report *r, size_t *ret_faults)
{
	struct worker *w = calloc(1, sizeof *w);
	struct buf why = BUF_INIT(512);
	const char *name, *value, *def = h->conf_str(c, "DEFAULT");
	size_t faults = 0;
	bool rest = false;
	if (!def)
		def = h->conf_str(c, "NEXT_STAGE");
	if (!w || !(w->stages = calloc(1, sizeof *w->stages)) || (def && !(w->stages[0] = str_dupz(str_from(def))))) {
		close_worker(w);
		return NULL;
	}
	w->n_stages = 1;
	for (size_t i = 0; h->conf_multi(c, "ROUTE_*", i, &name, &value) == PEPSI_OK; i++) {
		buf_reset(&why);
		if (add_rules(w, h, c, value, &why)) {
			fault_or_log(h, r, name, why.n ? buf_z(&why) : "out of memory");
			faults++;
		}
	}
	for (size_t i = 0; i < w->n; i++)
		rest = rest || w->rules[i].p.kind == PATTERN_ANY;
	if (!def && !rest) {
		fault_or_log(h, r, "DEFAULT", "neither DEFAULT nor NEXT_STAGE nor a rule for * says where the other recipients go");
		faults++;
	}
	buf_free(&why);
	*ret_faults = faults;
	return w;
}

static int32_t validate(const struct pepsi_host *h, const struct pepsi_conf *c, struct pepsi_report *r)
{
	size_t faults;
	close_worker(make(h, c, r, &faults));
	return PEPSI_OK;
}

static int32_t open_worker(const struct pepsi_host *h, const struct pepsi_conf *c, void **ret)
{
	size_t faults = 0;
	struct worker *w = make(h, c, NULL, &faults);
	if (!w || faults) {
		close_worker(w);
		return w ? PEPSI_PERMANENT : PEPSI_RETRY;
	}
	w->clones = calloc(w->n_stages, sizeof *w->clones);
	if (!w->clones) {
		close_worker(w);
		return PEPSI_RETRY;
	}
	*ret = w;
	return PEPSI_OK;
}

/* A rule that leads to the bounce stage is a refusal, and the report says so. NULL: an ordinary way. */
static const char *refuses(const char *bounce, const char *to)
{
	return bounce && !strcmp(bounce, to) ? "{\"bounce\":{\"kind\":\"permanent\",\"enhanced_status\":\"5.4.4\",\"phase\":\"route\","
					       "\"diagnostic\":\"no way leads to this recipient from here\"}}"
					     : NULL;
}

static unsigned way_of(const struct worker *w, struct pepsi_str rcpt)
{
	struct pattern_address a;
	bool bad = pattern_address(from_host(rcpt), &a);
	for (size_t i = 0; i < w->n; i++)
		if (bad ? w->rules[i].p.kind == PATTERN_ANY : pattern_match(&w->rules[i].p, &a))
			return w->rules[i].to;
	return 0;
}

static int room_for(struct worker *w, size_t n)
{
	if (n <= w->room)
		return 0;
	uint32_t *idx = realloc(w->idx, n * sizeof *idx);
	if (idx)
		w->idx = idx;
	unsigned *way = realloc(w->way, n * sizeof *way);
	if (way)
		w->way = way;
	uint32_t *keep = realloc(w->keep, n * sizeof *keep);
	if (keep)
		w->keep = keep;
	if (!idx || !way || !keep)
		return -1;
	w->room = n;
	return 0;
}

static int32_t process(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct worker *w = worker;
	size_t n = h->n_rcpt(m);
	if (!n)
		return w->stages[0] ? h->advance_to(m, w->stages[0]) : PEPSI_PERMANENT;
	if (room_for(w, n))
		return PEPSI_RETRY;
	for (size_t i = 0; i < n; i++)
		w->way[i] = way_of(w, h->rcpt(m, i));
	/* the row goes the first recipient's way, the others' ways get rows of their own */
	struct pepsi_clone *clones = w->clones;
	const char *bounce = h->bounce_stage(m);
	size_t n_clones = 0, at = 0, n_keep = 0;
	for (unsigned to = 0; to < w->n_stages; to++) {
		size_t from = at;
		for (size_t i = 0; i < n; i++)
			if (w->way[i] == to)
				w->idx[at++] = (uint32_t)i;
		if (to != w->way[0] && at > from)
			clones[n_clones++] = (struct pepsi_clone){ .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = w->stages[to],
				.indices = w->idx + from, .n = at - from, .state = refuses(bounce, w->stages[to]) };
	}
	if (n_clones) {
		for (size_t i = 0; i < n; i++)
			if (w->way[i] == w->way[0])
				w->keep[n_keep++] = (uint32_t)i;
		int32_t r = h->fan_out(m, clones, n_clones, w->keep, n_keep);
		if (r != PEPSI_OK)
			return r;
	}
	const char *to = w->stages[w->way[0]], *state = refuses(bounce, to);
	return state ? h->reroute(m, to, state) : h->advance_to(m, to);
}

PEPSI_STAGE(.name = "pepsi-stage-route", .version = "0.1", .license = "Apache-2.0",
    .summary = "sends each recipient to the stage of the first matching rule", .load_class = PEPSI_LOAD_METADATA,
    PEPSI_OPTIONS(options), .validate = validate, .open = open_worker, .process = process, .close = close_worker);
