/* A module that drives many messages at once (PEPSI_CAP_CONCURRENT), well or not. The local part of the
 * first recipient is what a message wants, so that well-behaved ones and others meet in one worker:
 *
 *     wait-500            a timer of so many milliseconds, then on its way
 *     talk-PORT           a line to a server on loopback, and back
 *     dns-NAME            the address of NAME (dots as underscores); paused when nobody knows it
 *     now                 done within process()
 *     stay                never ends, but does as stop() says
 *     forever             never ends, and hears nothing
 *     crash-500 hang-500  after so many milliseconds, with the message in hand
 *     nobody-500          crashes so, with nobody in hand
 *     twice noend retry pending late block early again     ends so, or breaks a rule
 * Anything else is done after WAIT. */
#include <pepsi/stage.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct job;
struct many {
	struct job *jobs;
	const struct pepsi_host *h;
	const struct pepsi_conf *conf;
	struct pepsi_msg *old; /* the last that was completed */
};

struct job {
	struct job *next, **prev;
	struct many *w;
	struct pepsi_msg *m;
	struct pepsi_event *e;
	int fd;
	char what[64];
	char got[128];
	size_t n_got;
};

static void over(struct job *j, int32_t rc)
{
	const struct pepsi_host *h = j->w->h;
	h->event_free(j->e);
	if (j->fd >= 0)
		close(j->fd);
	j->w->old = j->m;
	*j->prev = j->next;
	if (j->next)
		j->next->prev = j->prev;
	h->complete(j->m, rc);
	free(j);
}

static void pass(struct job *j)
{
	const struct pepsi_host *h = j->w->h;
	int32_t rc = h->advance_or_finish(j->m);
	over(j, rc);
}

static int is(const struct job *j, const char *word)
{
	return !strncmp(j->what, word, strlen(word)) && (j->what[strlen(word)] == 0 || j->what[strlen(word)] == '-');
}

static long number(const struct job *j)
{
	const char *dash = strchr(j->what, '-');
	return dash ? strtol(dash + 1, NULL, 10) : 0;
}

static void on_time(void *arg, uint32_t what)
{
	struct job *j = arg;
	const struct pepsi_host *h = j->w->h;
	(void)what;
	if (is(j, "nobody"))
		abort();
	h->in_hand(j->m);
	if (is(j, "crash"))
		abort();
	if (is(j, "hang"))
		for (;;)
			pause();
	if (is(j, "twice")) { /* two terminals */
		h->advance_or_finish(j->m);
		pass(j);
	} else if (is(j, "noend")) { /* none */
		over(j, PEPSI_OK);
	} else if (is(j, "retry")) {
		h->log(j->m, PEPSI_LOG_WARN, "not now");
		over(j, PEPSI_RETRY);
	} else if (is(j, "pending")) {
		over(j, PEPSI_PENDING);
	} else if (is(j, "late")) { /* uses what is no longer its own, and completes it again */
		struct pepsi_msg *m = j->m;
		pass(j);
		h->mail_from(m);
		h->finish(m);
		h->complete(m, PEPSI_OK);
		h->in_hand(m);
		h->log(m, PEPSI_LOG_INFO, "about one that is complete");
	} else if (is(j, "block")) {
		h->resolve(j->m, "example.test", PEPSI_DNS_A);
		pass(j);
	} else {
		pass(j);
	}
}

static void talk(void *arg, uint32_t what)
{
	struct job *j = arg;
	const struct pepsi_host *h = j->w->h;
	h->in_hand(j->m);
	if (what & PEPSI_IO_TIMEOUT) {
		h->log(j->m, PEPSI_LOG_WARN, "the server does not answer");
		over(j, PEPSI_RETRY);
	} else if (what & PEPSI_IO_WRITE) {
		char line[100];
		int n = snprintf(line, sizeof line, "hello %lld\n", (long long)h->id(j->m));
		if (write(j->fd, line, (size_t)n) != n || h->event_arm(j->e, PEPSI_IO_READ, 30000) != PEPSI_OK)
			over(j, PEPSI_RETRY);
	} else {
		ssize_t k = read(j->fd, j->got + j->n_got, sizeof j->got - 1 - j->n_got);
		j->n_got += k > 0 ? (size_t)k : 0;
		if (k <= 0)
			over(j, PEPSI_RETRY);
		else if (!memchr(j->got, '\n', j->n_got))
			h->event_arm(j->e, PEPSI_IO_READ, 30000);
		else
			pass(j);
	}
}

static int32_t dial(struct job *j)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)number(j)), .sin_addr = { htonl(INADDR_LOOPBACK) } };
	const struct pepsi_host *h = j->w->h;
	j->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (j->fd < 0 || (connect(j->fd, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS))
		return PEPSI_RETRY;
	j->e = h->event_new(j->w->conf, j->fd, talk, j);
	return j->e ? h->event_arm(j->e, PEPSI_IO_WRITE, 30000) : PEPSI_RETRY;
}

static void on_answer(void *arg, const struct pepsi_dns *a)
{
	struct job *j = arg;
	const struct pepsi_host *h = j->w->h;
	char text[200];
	snprintf(text, sizeof text, "{\"dns\":{\"status\":%u,\"n\":%zu,\"why\":\"%s\"}}", a->status, a->n_rr, a->why ? a->why : "");
	h->in_hand(j->m);
	h->merge_state(j->m, text);
	if (a->status == PEPSI_DNS_TEMPFAIL)
		over(j, h->pause(j->m, NULL, 3600));
	else
		pass(j);
}

static int32_t process(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct many *w = worker;
	struct pepsi_str to = h->rcpt(m, 0);
	struct job *j = calloc(1, sizeof *j);
	int32_t rc = PEPSI_OK;
	if (!j)
		return PEPSI_RETRY;
	w->h = h;
	j->w = w;
	j->m = m;
	j->fd = -1;
	for (size_t i = 0; i < to.n && i < sizeof j->what - 1 && to.p[i] != '@'; i++)
		j->what[i] = to.p[i];
	if (is(j, "now") || is(j, "early")) {
		if (is(j, "early")) /* before it is pending */
			h->complete(m, PEPSI_OK);
		free(j);
		return h->advance_or_finish(m);
	}
	if (is(j, "again")) /* somebody else's, which is complete */
		h->complete(w->old, PEPSI_OK);
	if (is(j, "talk")) {
		rc = dial(j);
	} else if (is(j, "dns")) {
		for (char *p = j->what; *p; p++)
			*p = *p == '_' ? '.' : *p;
		rc = h->ask(w->conf, m, j->what + 4, PEPSI_DNS_A, on_answer, j) ? PEPSI_OK : PEPSI_RETRY;
	} else if (!is(j, "stay") && !is(j, "forever")) {
		j->e = h->event_new(w->conf, -1, on_time, j);
		long ms = strchr(j->what, '-') ? number(j) : (long)h->conf_int(w->conf, "WAIT") * 1000;
		rc = j->e ? h->event_arm(j->e, 0, ms) : PEPSI_RETRY;
	}
	if (rc != PEPSI_OK) {
		h->event_free(j->e);
		if (j->fd >= 0)
			close(j->fd);
		free(j);
		return rc;
	}
	j->next = w->jobs;
	j->prev = &w->jobs;
	if (j->next)
		j->next->prev = &j->next;
	w->jobs = j;
	return PEPSI_PENDING;
}

#if !defined(MANY_NOSTOP)
static void stop(void *worker, const struct pepsi_host *h, struct pepsi_msg *m, uint32_t why)
{
	struct many *w = worker;
	struct job *j = w->jobs;
	while (j && j->m != m)
		j = j->next;
	if (!j || is(j, "forever") || why == PEPSI_STOP_YIELD)
		return;
	h->log(m, PEPSI_LOG_INFO, why == PEPSI_STOP_LEAVE ? "stopped: leave" : "stopped: runtime");
	if (is(j, "stay") || is(j, "wait"))
		over(j, h->pause(m, NULL, why == PEPSI_STOP_LEAVE ? 0 : 3600));
}
#endif

static int32_t open_hook(const struct pepsi_host *h, const struct pepsi_conf *conf, void **ret)
{
	struct many *w = calloc(1, sizeof *w);
	if (!w)
		return PEPSI_RETRY;
	w->h = h;
	w->conf = conf;
	*ret = w;
	return PEPSI_OK;
}

static void close_hook(void *worker)
{
	free(worker);
}

static const struct pepsi_option options[] = {
	{ .name = "WAIT", .type = PEPSI_OPT_DURATION, .def = "1 s", .min = 0, .max = 3600, .help = "how long a message takes" },
};

PEPSI_STAGE(.name = MANY_NAME, .version = "1.0", .license = "none", .summary = "drives many messages at once", .load_class = PEPSI_LOAD_METADATA,
    .caps = PEPSI_CAP_CONCURRENT | PEPSI_CAP_DELIVER | PEPSI_CAP_NET, PEPSI_OPTIONS(options), .open = open_hook, .process = process, .close = close_hook,
#if !defined(MANY_NOSTOP)
    .stop = stop,
#endif
);
