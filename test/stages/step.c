/* Stage modules for tests of fusion and batching: each goes on to NEXT_STAGE or finishes, and writes on the way what WRITE
 * says. STEP_LOAD: what it loads; STEP_BATCH: it works on batches, with an outcome that depends on its place in the batch. */
#include <pepsi/stage.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct worker {
	const char *write, *stage;
	int fuse;
};

static int32_t open_step(const struct pepsi_host *h, const struct pepsi_conf *c, void **ret)
{
	struct worker *w = calloc(1, sizeof *w);
	if (!w)
		return PEPSI_RETRY;
	w->write = h->conf_str(c, "WRITE");
	w->stage = h->conf_stage_name(c);
	w->fuse = (int)h->conf_int(c, "FUSE");
	*ret = w;
	return PEPSI_OK;
}

static void close_step(void *worker)
{
	free(worker);
}

static int32_t process(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct worker *w = worker;
	char text[200];
	int n;
	if (strstr(w->write, "headers")) {
		n = snprintf(text, sizeof text, "X-Stage: %s\r\n", w->stage);
		h->set_headers(m, (struct pepsi_str){ text, (size_t)n });
	}
	if (strstr(w->write, "body")) {
		n = snprintf(text, sizeof text, "%s\r\n", w->stage);
		h->set_body(m, (struct pepsi_str){ text, (size_t)n });
	}
	if (strstr(w->write, "sender")) {
		n = snprintf(text, sizeof text, "%s@x", w->stage);
		h->set_mail_from(m, (struct pepsi_str){ text, (size_t)n });
	}
	if (strstr(w->write, "state")) {
		snprintf(text, sizeof text, "{\"%s\":\"yes\"}", w->stage);
		h->merge_state(m, text);
	}
	return h->advance_or_finish(m);
}

#ifdef STEP_BATCH
static int32_t process_batch(void *worker, const struct pepsi_host *h, struct pepsi_msg *const *m, int32_t *status, size_t n)
{
	(void)worker;
	for (size_t i = 0; i < n; i++)
		switch (i % 5) {
		case 0:
			status[i] = h->advance(m[i]);
			break;
		case 1:
			status[i] = h->advance_to(m[i], "other");
			break;
		case 2:
			status[i] = h->pause(m[i], "{\"attempts\":1}", 60);
			break;
		case 3:
			h->set_mail_from(m[i], (struct pepsi_str){ "batch@x", 7 });
			status[i] = h->advance(m[i]);
			break;
		default:
			status[i] = h->finish(m[i]);
		}
	return PEPSI_OK;
}
#define BATCH process_batch
#else
#define BATCH NULL
#endif

static int32_t can_fuse(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct worker *w = worker;
	return w->fuse && h->n_rcpt(m) > 0;
}

static const struct pepsi_option options[] = {
	{ .name = "WRITE", .type = PEPSI_OPT_LIST, .def = "", .help = "headers body sender state" },
	{ .name = "FUSE", .type = PEPSI_OPT_BOOL, .def = "YES", .help = "what can_fuse() says" },
};

PEPSI_STAGE(.name = STEP_NAME, .version = "1.0", .license = "none", .summary = "one step on", .load_class = STEP_LOAD, PEPSI_OPTIONS(options),
    .open = open_step, .process = process, .process_batch = BATCH, .can_fuse = can_fuse, .close = close_step);
