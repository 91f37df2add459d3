/* pepsi-stage-if: sends a message one way or the other, by conditions over envelope and state (condition.h). */
#include "condition.h"
#include "say.h"

#include <stdlib.h>

enum { CONDITIONS_MAX = 100 };

struct worker {
	struct condition *cond;
	size_t n;
	bool any;
	const char *yes, *no; /* stages; no NULL: NEXT_STAGE, or the end of the way */
};

static const struct pepsi_option options[] = {
	{ .name = "CONDITION*", .type = PEPSI_OPT_MULTI, .flags = PEPSI_OPTF_REQUIRED,
	    .help = "[not] null-sender | sender P… | sender-domain D… | recipient P… | recipient-domain D… | every-recipient P… | "
		    "state PATH [VALUE…]; may stand several times, as CONDITION_1, CONDITION_2" },
	{ .name = "MATCH", .type = PEPSI_OPT_CHOICE, .def = "all", .choices = "all any",
	    .help = "whether all conditions must hold, or one is enough" },
	{ .name = "THEN", .type = PEPSI_OPT_STAGE, .flags = PEPSI_OPTF_REQUIRED, .help = "stage of messages for which they hold" },
	{ .name = "ELSE", .type = PEPSI_OPT_STAGE, .help = "stage of all others; default: NEXT_STAGE" },
};

static int32_t validate(const struct pepsi_host *h, const struct pepsi_conf *c, struct pepsi_report *r)
{
	const char *name, *value;
	struct buf why = BUF_INIT(512);
	for (size_t i = 0; h->conf_multi(c, "CONDITION*", i, &name, &value) == PEPSI_OK; i++) {
		struct condition cond;
		buf_reset(&why);
		if (condition_parse(value, &cond, &why))
			h->report(r, name, buf_z(&why));
		else
			condition_done(&cond);
		if (i == CONDITIONS_MAX)
			fault(h, r, name, "more than %d conditions", CONDITIONS_MAX);
	}
	if (!h->conf_str(c, "ELSE") && !h->conf_str(c, "NEXT_STAGE"))
		h->report(r, "ELSE", "neither ELSE nor NEXT_STAGE is set: messages for which the condition does not hold have nowhere to go");
	buf_free(&why);
	return PEPSI_OK;
}

static void close_worker(void *worker)
{
	struct worker *w = worker;
	if (!w)
		return;
	for (size_t i = 0; i < w->n; i++)
		condition_done(&w->cond[i]);
	free(w->cond);
	free(w);
}

static int32_t open_worker(const struct pepsi_host *h, const struct pepsi_conf *c, void **ret)
{
	const char *name, *value, *match = h->conf_str(c, "MATCH");
	struct buf why = BUF_INIT(512);
	struct worker *w = calloc(1, sizeof *w);
	if (!w || !(w->cond = calloc(CONDITIONS_MAX, sizeof *w->cond))) {
		free(w);
		return PEPSI_RETRY;
	}
	w->any = match && !strcmp(match, "any");
	w->yes = h->conf_str(c, "THEN");
	w->no = h->conf_str(c, "ELSE");
	if (!w->no)
		w->no = h->conf_str(c, "NEXT_STAGE");
	for (size_t i = 0; i < CONDITIONS_MAX && h->conf_multi(c, "CONDITION*", i, &name, &value) == PEPSI_OK; i++) {
		if (condition_parse(value, &w->cond[i], &why)) {
			say(h, NULL, PEPSI_LOG_ERROR, "%s: %s", name, buf_z(&why));
			break;
		}
		w->n++;
	}
	bool bad = why.n || !w->n || !w->yes || !w->no;
	if (bad && !why.n)
		h->log(NULL, PEPSI_LOG_ERROR, "CONDITION, THEN, and ELSE or NEXT_STAGE must be set");
	buf_free(&why);
	if (bad) {
		close_worker(w);
		return PEPSI_PERMANENT;
	}
	*ret = w;
	return PEPSI_OK;
}

static int32_t process(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	const struct worker *w = worker;
	bool yes = !w->any;
	for (size_t i = 0; i < w->n && yes != w->any; i++)
		yes = condition_holds(&w->cond[i], h, m);
	return h->advance_to(m, yes ? w->yes : w->no);
}

PEPSI_STAGE(.name = "pepsi-stage-if", .version = "0.1", .license = "Apache-2.0",
    .summary = "one way or the other, by envelope and state", .load_class = PEPSI_LOAD_METADATA, PEPSI_OPTIONS(options),
    .validate = validate, .open = open_worker, .process = process, .close = close_worker);
