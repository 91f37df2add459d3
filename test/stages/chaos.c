/* A stage module that does anything the contract allows, and some that it does not, by chance: what the state-machine test
 * (test/e2e/state_machine.py) sends messages through. Before a recipient's way ends here, it says so in JOURNAL, one line per
 * fact, appended at once: "D pid recipient" it is being delivered; "X pid" this process is about to die or to hang, so what it
 * delivered may come again. DRAIN: only delivers. CHAOS_LOAD: what it loads; CHAOS_BATCH: it works on batches. */
#include <pepsi/stage.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { STAGES_MAX = 32, RCPTS_MAX = 64 };

struct worker {
	int journal, drain, harm;
	char *stages, *stage[STAGES_MAX];
	size_t n_stages;
};

static uint32_t below(uint32_t n)
{
	uint32_t r = 0;
	if (getrandom(&r, sizeof r, 0) != sizeof r)
		abort();
	return r % n;
}

static void note(const struct worker *w, const char *fmt, struct pepsi_str rcpt)
{
	char line[600];
	int n = snprintf(line, sizeof line, "%s %d %.*s\n", fmt, (int)getpid(), (int)rcpt.n, rcpt.n ? rcpt.p : "");
	if (write(w->journal, line, (size_t)n) != n)
		abort();
}

static void about_to_die(const struct worker *w)
{
	note(w, "X", (struct pepsi_str){ NULL, 0 });
}

static int32_t open_chaos(const struct pepsi_host *h, const struct pepsi_conf *c, void **ret)
{
	struct worker *w = calloc(1, sizeof *w);
	const char *list = h->conf_str(c, "STAGES");
	if (!w || !(w->stages = strdup(list ? list : "")))
		return PEPSI_RETRY;
	char *rest = w->stages, *word;
	while (w->n_stages < STAGES_MAX && (word = strtok_r(rest, " ", &rest)))
		w->stage[w->n_stages++] = word;
	w->drain = (int)h->conf_int(c, "DRAIN");
	w->harm = (int)h->conf_int(c, "HARM");
	w->journal = open(h->conf_str(c, "JOURNAL"), O_WRONLY | O_APPEND | O_CLOEXEC);
	*ret = w;
	return w->journal < 0 ? PEPSI_RETRY : PEPSI_OK;
}

static void close_chaos(void *worker)
{
	struct worker *w = worker;
	close(w->journal);
	free(w->stages);
	free(w);
}

static const char *somewhere(const struct worker *w)
{
	return w->stage[below((uint32_t)w->n_stages)];
}

static int32_t deliver(const struct worker *w, const struct pepsi_host *h, struct pepsi_msg *m, const uint32_t *idx, size_t n)
{
	for (size_t i = 0; i < n; i++)
		note(w, "D", h->rcpt(m, idx ? idx[i] : i));
	return PEPSI_OK;
}

/* Cuts the recipients in two; both parts have at least one. */
static void halves(size_t n, uint32_t *a, size_t *n_a, uint32_t *b, size_t *n_b)
{
	*n_a = *n_b = 0;
	for (uint32_t i = 0; i < n; i++)
		if (i == 0 || (i > 1 && below(2)))
			a[(*n_a)++] = i;
		else
			b[(*n_b)++] = i;
}

static void write_something(const struct pepsi_host *h, struct pepsi_msg *m)
{
	static const char body[] = "changed\r\n";
	char text[200];
	int n = snprintf(text, sizeof text, "Subject: %u\r\nX-Chaos: yes\r\n", below(1000));
	if (below(2))
		h->set_headers(m, (struct pepsi_str){ text, (size_t)n });
	if (below(4) == 0)
		h->set_body(m, (struct pepsi_str){ body, sizeof body - 1 });
	if (below(3) == 0)
		h->set_mail_from(m, (struct pepsi_str){ "chaos@example.test", 18 });
	if (below(2)) {
		snprintf(text, sizeof text, "{\"chaos\":%u,\"list\":%s}", below(1000), below(2) ? "null" : "\"x\"");
		h->merge_state(m, text);
	}
}

/* "r12.3@x" becomes "r12.3+7@x": another address, the same recipient to the test, which cuts at the plus. */
static int32_t rename_all(const struct pepsi_host *h, struct pepsi_msg *m, size_t n)
{
	static char text[RCPTS_MAX][100];
	const char *list[RCPTS_MAX];
	for (size_t i = 0; i < n; i++) {
		struct pepsi_str r = h->rcpt(m, i);
		size_t base = 0;
		while (base < r.n && r.p[base] != '+' && r.p[base] != '@')
			base++;
		snprintf(text[i], sizeof text[i], "%.*s+%u@chaos.test", (int)base, r.p, below(100));
		list[i] = text[i];
	}
	return h->rewrite_recipients(m, list, n, below(2) ? "{\"renamed\":true}" : NULL);
}

static int32_t fan(const struct worker *w, const struct pepsi_host *h, struct pepsi_msg *m, size_t n)
{
	uint32_t a[RCPTS_MAX], b[RCPTS_MAX], kind = below(6);
	size_t n_a, n_b;
	halves(n, a, &n_a, b, &n_b);
	struct pepsi_clone cl[2] = {
		{ .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = somewhere(w), .indices = b, .n = n_b, .status = below(3), .retry_s = below(2) },
		{ .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = somewhere(w), .indices = a, .n = n_a, .state = "{\"cloned\":1}" },
	};
	switch (kind) {
	case 0:
		h->split_off_recipients(m, b, n_b, somewhere(w));
		return below(2) ? h->advance_to(m, somewhere(w)) : h->pause(m, NULL, below(2));
	case 1:
		h->split_to_one_per_row(m);
		return h->advance_to(m, somewhere(w));
	case 2:
		h->fan_out(m, cl, 1, a, n_a);
		return h->advance_to(m, somewhere(w));
	case 3: /* all go elsewhere, in two rows */
		return h->finish_with(m, cl, 2);
	case 4:
		return h->pause_with(m, "{\"paused\":1}", below(2), a, n_a, cl, 1);
	default: /* one half is delivered, the other goes on */
		deliver(w, h, m, a, n_a);
		return h->finish_with(m, cl, 1);
	}
}

static int32_t harm(const struct worker *w, const struct pepsi_host *h, struct pepsi_msg *m)
{
	switch (below(7)) {
	case 0:
		about_to_die(w);
		raise(SIGSEGV);
		break;
	case 1:
		about_to_die(w);
		raise(SIGKILL);
		break;
	case 2:
		about_to_die(w);
		_exit(0);
	case 3:
		about_to_die(w);
		for (;;)
			pause();
	case 4:
		h->advance(m);
		h->finish(m); /* two terminals */
		return PEPSI_OK;
	case 5:
		return PEPSI_PERMANENT;
	default:
		write_something(h, m);
		return PEPSI_OK; /* no terminal */
	}
	return PEPSI_PERMANENT;
}

static int32_t process(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	static const char headers[] = "Subject: side\r\n", body[] = "side\r\n";
	struct worker *w = worker;
	size_t n = h->n_rcpt(m);
	uint32_t dice = below(1000);
	if (w->drain || n > RCPTS_MAX) {
		deliver(w, h, m, NULL, n);
		return h->finish(m);
	}
	if (dice < (uint32_t)w->harm)
		return harm(w, h, m);
	if (dice < 150 && n > 1)
		return fan(w, h, m, n);
	if (dice < 170 && !memmem(h->rcpt(m, 0).p, h->rcpt(m, 0).n, "side", 4)) {
		char to[64];
		const char *list[] = { to };
		snprintf(to, sizeof to, "side-%08x%08x@chaos.test", below(UINT32_MAX), below(UINT32_MAX));
		h->enqueue_new(m, somewhere(w), (struct pepsi_str){ "", 0 }, list, 1, (struct pepsi_str){ headers, sizeof headers - 1 },
		    (struct pepsi_str){ body, sizeof body - 1 }, "{}");
		return h->advance_to(m, somewhere(w));
	}
	if (dice < 240)
		return h->pause(m, below(2) ? "{\"attempts\":1}" : NULL, below(2));
	if (below(3) == 0)
		write_something(h, m);
	if (dice < 250)
		return (h->fail)(m, "{\"last_error\":\"chaos\"}");
	if (dice < 300)
		return rename_all(h, m, n);
	if (dice < 350)
		return h->reroute(m, somewhere(w), "{\"rerouted\":1}");
	if (dice < 450)
		return h->advance_to(m, somewhere(w));
	if (dice < 820)
		return h->advance(m);
	deliver(w, h, m, NULL, n);
	return h->finish(m);
}

#ifdef CHAOS_BATCH
static int32_t process_batch(void *worker, const struct pepsi_host *h, struct pepsi_msg *const *m, int32_t *status, size_t n)
{
	for (size_t i = 0; i < n; i++)
		status[i] = process(worker, h, m[i]);
	return PEPSI_OK;
}
#define BATCH process_batch
#else
#define BATCH NULL
#endif

static const struct pepsi_option options[] = {
	{ .name = "JOURNAL", .type = PEPSI_OPT_PATH, .flags = PEPSI_OPTF_REQUIRED, .help = "where to tell what is done" },
	{ .name = "STAGES", .type = PEPSI_OPT_LIST, .flags = PEPSI_OPTF_REQUIRED, .help = "where messages may go" },
	{ .name = "DRAIN", .type = PEPSI_OPT_BOOL, .def = "NO", .help = "deliver everything" },
	{ .name = "HARM", .type = PEPSI_OPT_INT, .def = "10", .min = 0, .max = 150, .help = "per mille of passes that crash, hang or break rules" },
};

PEPSI_STAGE(.name = CHAOS_NAME, .version = "1.0", .license = "none", .summary = "anything at all", .load_class = CHAOS_LOAD,
    .caps = PEPSI_CAP_DELIVER | PEPSI_CAP_FILES, PEPSI_OPTIONS(options), .open = open_chaos, .process = process, .process_batch = BATCH,
    .close = close_chaos);
