/* Worker processes of pre-acceptance stages: asked for at need up to PARALLELISM, one message at a time, replaced after
 * MAX_MESSAGES, ended when idle, killed when late. The spawner forks them; this process only has their channels. */
#include "before_internal.h"

#include "base/clock.h"
#include "net/parcel.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* For close(); the shorter time where a message waits and twice PARALLELISM processes are there already. */
enum { LEAVE_US = 10 * 1000 * 1000, LEAVE_PRESSED_US = 1000 * 1000, VERDICT_ARENA_MAX = 8 * 1024 * 1024 };

static void on_read(evutil_socket_t fd, short what, void *arg);

/* --- settings */

static void read_settings(struct before_pool *p, const struct config *c)
{
	char section[80];
	snprintf(section, sizeof section, "stage-%s", p->stage);
	p->parallelism = (unsigned)config_int(c, section, "PARALLELISM");
	p->queue_max = config_queue_limit(c, section, false) * (p->parallelism ? p->parallelism : 1);
	p->max_messages = (uint64_t)config_int(c, section, "MAX_MESSAGES");
	p->runtime_us = config_max_runtime(c, section, false) * US_PER_S;
	p->idle_us = config_int(c, "pepsi-dispatch", "WORKER_IDLE_TIMEOUT") * US_PER_S;
	p->pause_us = config_int(c, "pepsi-dispatch", "LAUNCH_COOLDOWN") * US_PER_S;
}

static struct before_pool *find(struct before *b, const char *stage)
{
	struct before_pool *p;
	TAILQ_FOREACH(p, &b->pools, link)
		if (strcmp(p->stage, stage) == 0)
			return p;
	return NULL;
}

struct before_pool *before_pool_find(struct before *b, const char *stage)
{
	struct before_pool *p = find(b, stage);
	if (p || !(p = calloc(1, sizeof *p)))
		return p;
	p->b = b;
	snprintf(p->stage, sizeof p->stage, "%s", stage);
	TAILQ_INIT(&p->workers);
	TAILQ_INIT(&p->waiting);
	TAILQ_INSERT_TAIL(&b->pools, p, link);
	return p;
}

static void retire(struct before_worker *w)
{
	if (w->leaving || w->busy || w->fd < 0)
		return;
	w->leaving = true;
	w->since_us = clock_mono_us();
	shutdown(w->fd, SHUT_WR);
}

/* Words that name stages: all of them, or those behind a prefix. */
static void list_stages(struct before *b, const char *words, struct str prefix)
{
	struct str rest = str_from(words), word;
	struct before_pool *p;
	char name[64];
	while (str_word(&rest, " \t,", &word)) {
		if (!str_istarts(word, prefix))
			continue;
		word = str_skip(word, prefix.n);
		if (!word.n || word.n >= sizeof name)
			continue; /* the check of the configuration has refused it */
		snprintf(name, sizeof name, "%.*s", STR_ARG(word));
		ascii_lower_z(name);
		if ((p = before_pool_find(b, name)))
			p->listed = true;
	}
}

void before_configure(struct before *b, const struct config *c)
{
	const char *section;
	struct before_pool *p;
	struct before_worker *w;
	TAILQ_FOREACH(p, &b->pools, link)
		p->listed = false;
	list_stages(b, config_str(c, "pepsi", "RECIPIENTS"), STR(RECIPIENTS_STAGE));
	for (size_t i = 0; (section = config_section(c, i)); i++)
		if (ingress_is_listener(section))
			list_stages(b, config_str(c, section, "BEFORE_ACCEPT"), STR_NULL);
		else if (str_istarts(str_from(section), STR("domain-")))
			list_stages(b, config_str(c, section, "RECIPIENTS"), STR(RECIPIENTS_STAGE));
	/* those no listener names any more keep what they had, for sessions that began under the former terms */
	TAILQ_FOREACH(p, &b->pools, link) {
		p->cool_until = 0;
		if (p->listed)
			read_settings(p, c);
		TAILQ_FOREACH(w, &p->workers, link) {
			w->served = UINT64_MAX / 2; /* another one follows, with the new configuration */
			retire(w);
		}
	}
}

/* --- the life of a worker */

static void forget(struct before_worker *w)
{
	if (w->job)
		w->job->w = NULL;
	if (w->ev)
		event_free(w->ev);
	if (w->fd >= 0)
		close(w->fd);
	if (!w->pid)
		w->pool->n_starting--;
	w->pool->n_workers--;
	TAILQ_REMOVE(&w->pool->workers, w, link);
	free(w);
}

void before_pool_free(struct before_pool *p)
{
	struct before_worker *w;
	while ((w = TAILQ_FIRST(&p->workers)))
		forget(w);
	TAILQ_REMOVE(&p->b->pools, p, link);
	free(p);
}

void before_worker_kill(struct before_worker *w)
{
	struct before *b = w->pool->b;
	if (w->pid && !w->exited)
		b->sp.kill(b->sp.arg, w->pid, SIGKILL);
}

static unsigned not_ready(const struct before_pool *p)
{
	const struct before_worker *w;
	unsigned n = 0;
	TAILQ_FOREACH(w, &p->workers, link)
		n += !w->ready && (w->fd >= 0 || !w->pid);
	return n;
}

/* On its way out, or deaf: whatever it still does, no message will be its. */
static bool going(const struct before_worker *w)
{
	return w->pid && !w->busy && (w->leaving || w->fd < 0);
}

/* Successors do not wait for those on their way out, within a bound. */
static bool has_place(const struct before_pool *p)
{
	const struct before_worker *w;
	unsigned n = 0;
	TAILQ_FOREACH(w, &p->workers, link)
		n += going(w);
	return p->n_workers - n < p->parallelism && p->n_workers < 2 * p->parallelism;
}

static void grow(struct before_pool *p)
{
	struct before *b = p->b;
	unsigned coming = not_ready(p);
	while (coming < p->n_waiting && has_place(p)) {
		struct before_worker *w = calloc(1, sizeof *w);
		if (!w)
			return;
		w->pool = p;
		w->fd = -1;
		w->token = INGRESS_TOKEN | ++b->next_token;
		TAILQ_INSERT_TAIL(&p->workers, w, link);
		p->n_workers++;
		p->n_starting++;
		coming++;
		b->sp.start(b->sp.arg, w->token, p->stage);
	}
}

/* None can be started now: whoever waits here without a worker to hope for goes the way of failure. */
static void give_up(struct before_pool *p)
{
	struct before_worker *w;
	struct before_job *job;
	TAILQ_FOREACH(w, &p->workers, link)
		if (w->ready && w->fd >= 0 && !w->leaving)
			return;
	while ((job = TAILQ_FIRST(&p->waiting)))
		job->kind->failed(job, BEFORE_NO_WORKER, "no worker of the stage can be started (see the log)");
}

static void give(struct before_worker *w, struct before_job *job)
{
	struct before_pool *p = w->pool;
	struct buf record = BUF_INIT(WIRE_BEFORE_MAX);
	int fd;
	TAILQ_REMOVE(&p->waiting, job, wait);
	p->n_waiting--;
	job->waiting = false;
	if (job->kind->record(job, &record, &fd)) {
		buf_free(&record);
		job->kind->failed(job, BEFORE_CONTENT, "no memory or descriptor to show it to the stage");
		return;
	}
	w->busy = true;
	w->job = job;
	w->job_id = job->id;
	w->since_us = clock_mono_us();
	/* as long as whoever asks would wait, whatever is left of it; then this worker is no good */
	w->until_us = w->since_us + (job->patience_us < p->runtime_us ? job->patience_us : p->runtime_us);
	job->w = w;
	/* it is idle: its socket has room for one datagram */
	if (net_parcel_send(w->fd, buf_str(&record), fd) != 1)
		before_worker_kill(w); /* its end comes as an event, and with it the job's failure */
	if (fd >= 0)
		close(fd);
	buf_free(&record);
}

void before_pool_deal(struct before_pool *p)
{
	struct before_worker *w;
	struct before_job *job;
	for (;;) {
		TAILQ_FOREACH(w, &p->workers, link)
			if (w->ready && !w->busy && !w->leaving && w->fd >= 0)
				break;
		if (!w || !(job = TAILQ_FIRST(&p->waiting)))
			break;
		give(w, job);
	}
	if (!p->n_waiting)
		return;
	if (p->cool_until > clock_mono_us() || !p->b->sp.start)
		give_up(p);
	else
		grow(p);
}

bool before_pool_add(struct before_pool *p, struct before_job *job)
{
	job->pool = p;
	if (p->n_waiting >= p->queue_max)
		return false;
	TAILQ_INSERT_TAIL(&p->waiting, job, wait);
	job->waiting = true;
	p->n_waiting++;
	before_pool_deal(p);
	return true;
}

void before_pool_leave(struct before_job *job)
{
	if (job->waiting) {
		TAILQ_REMOVE(&job->pool->waiting, job, wait);
		job->pool->n_waiting--;
		job->waiting = false;
	}
	if (job->w)
		job->w->job = NULL;
	job->w = NULL;
}

uint32_t before_pool_ms(const struct before_job *job)
{
	int64_t left = job->deadline_us - clock_mono_us();
	if (left > job->pool->runtime_us)
		left = job->pool->runtime_us;
	return left > 1000 ? (uint32_t)(left / 1000) : 1;
}

static void cool_down(struct before_pool *p, const char *why)
{
	p->cool_until = clock_mono_us() + p->pause_us;
	log_error(NULL, "event=before-launch-failed stage=%s reason=%s retry_s=%lld", p->stage, log_qz(why), (long long)(p->pause_us / US_PER_S));
	give_up(p);
}

static struct before_worker *by_token(struct before *b, uint32_t token)
{
	struct before_pool *p;
	struct before_worker *w;
	TAILQ_FOREACH(p, &b->pools, link)
		TAILQ_FOREACH(w, &p->workers, link)
			if (w->token == token)
				return w;
	return NULL;
}

static struct before_worker *by_pid(struct before *b, pid_t pid)
{
	struct before_pool *p;
	struct before_worker *w;
	TAILQ_FOREACH(p, &b->pools, link)
		TAILQ_FOREACH(w, &p->workers, link)
			if (w->pid == pid)
				return w;
	return NULL;
}

bool before_worker_started(struct before *b, uint32_t token, pid_t pid, int fd)
{
	struct before_worker *w = by_token(b, token);
	if (!w || w->pid)
		return false;
	w->pid = pid;
	w->fd = fd;
	w->pool->n_starting--;
	w->since_us = clock_mono_us();
	w->ev = event_new(b->in->base, fd, EV_READ | EV_PERSIST, on_read, w);
	if (!w->ev || event_add(w->ev, NULL)) {
		before_worker_kill(w);
		cool_down(w->pool, "out of memory");
	}
	return true;
}

bool before_worker_failed(struct before *b, uint32_t token)
{
	struct before_worker *w = by_token(b, token);
	if (!w || w->pid)
		return false;
	struct before_pool *p = w->pool;
	forget(w);
	cool_down(p, "the worker process could not be made");
	return true;
}

/* Its channel has ended. The structure stays until its exit status is known. */
static void gone(struct before_worker *w)
{
	struct before_pool *p = w->pool;
	struct before_job *job = w->job;
	if (w->ev)
		event_free(w->ev);
	w->ev = NULL;
	close(w->fd);
	w->fd = -1;
	w->job = NULL;
	bool was_ready = w->ready, late = w->killed, told = w->leaving;
	if (w->busy || !was_ready) /* it let go of us: whatever it still does, nobody hears of it */
		before_worker_kill(w);
	w->busy = false;
	w->since_us = clock_mono_us();
	if (w->exited)
		forget(w);
	if (job) {
		job->w = NULL;
		job->kind->failed(job, late ? BEFORE_TIMEOUT : BEFORE_CRASH,
		    late ? "the stage was killed: it gave no verdict in time" : "the worker ended without a verdict");
	}
	if (!was_ready && !told) /* one told to go while its module was opening shows nothing of the module */
		cool_down(p, "the module cannot be loaded or opened (see the worker's log)");
	else
		before_pool_deal(p);
}

bool before_worker_exited(struct before *b, pid_t pid, int status)
{
	struct before_worker *w = by_pid(b, pid);
	if (!w)
		return false;
	w->exited = true;
	if (status && !w->killed)
		log_warn(NULL, "event=before-worker-died stage=%s pid=%d status=0x%x served=%llu", w->pool->stage, (int)pid, status,
		    (unsigned long long)w->served);
	if (w->fd < 0) {
		struct before_pool *p = w->pool;
		forget(w);
		before_pool_deal(p);
		return true;
	}
	on_read(w->fd, EV_READ, w); /* what it still said; finds the end */
	w = by_pid(b, pid);
	if (w && w->fd >= 0) /* something it forked holds the channel open: that is no worker */
		gone(w);
	return true;
}

/* Lines about what its module counts. */
static bool take_metrics(struct before_worker *w, struct str lines)
{
	struct ingress *in = w->pool->b->in;
	struct str line;
	if (!metrics_afford(&w->told, lines.n + 1, clock_mono_us()))
		return false;
	while (str_word(&lines, "\n", &line))
		if (in->sink.measure && str_starts(line, STR("4 ")))
			in->sink.measure(in->sink.arg, w->pool->stage, str_skip(line, 2));
	return true;
}

/* One parcel. False: the worker must go. */
static bool take(struct before_worker *w, struct buf *record, int body_fd)
{
	struct wire_verdict v;
	if (!w->ready) {
		if (body_fd >= 0)
			close(body_fd);
		if (!str_eq(buf_str(record), STR(WIRE_BEFORE_READY)))
			return false;
		w->ready = true;
		w->since_us = clock_mono_us();
		log_debug(NULL, "event=before-worker-ready stage=%s pid=%d", w->pool->stage, (int)w->pid);
		return true;
	}
	if (str_starts(buf_str(record), STR(WIRE_BEFORE_METRICS)) && body_fd < 0)
		return take_metrics(w, str_skip(buf_str(record), sizeof WIRE_BEFORE_METRICS - 1));
	struct arena *a = arena_new(VERDICT_ARENA_MAX);
	if (!a || !w->busy || wire_verdict_get(buf_str(record), a, &v) || v.id != w->job_id) {
		if (body_fd >= 0)
			close(body_fd);
		arena_free(a);
		return false;
	}
	struct before_job *job = w->job;
	w->job = NULL;
	w->busy = false;
	w->since_us = clock_mono_us();
	w->served++;
	if (w->pool->max_messages && w->served >= w->pool->max_messages)
		retire(w);
	if (job) {
		job->w = NULL;
		job->kind->judged(job, &v, body_fd);
	} else if (body_fd >= 0) {
		close(body_fd);
	}
	arena_free(a);
	return true;
}

static void on_read(evutil_socket_t sock, short what, void *arg)
{
	struct before_worker *w = arg;
	struct buf record = BUF_INIT(WIRE_BEFORE_MAX);
	int fd, r;
	(void)what;
	bool fine = true;
	while (fine && (r = net_parcel_recv(sock, &record, &fd)) > 0)
		fine = take(w, &record, fd);
	buf_free(&record);
	if (!fine) {
		log_error(NULL, "event=before-worker-garbage stage=%s pid=%d hint=\"its channel is out of step; killing it\"", w->pool->stage,
		    (int)w->pid);
		before_worker_kill(w);
	}
	if (!fine || r < 0)
		gone(w);
	else
		before_pool_deal(w->pool);
}

static void tick_worker(struct before_worker *w, int64_t now)
{
	int64_t leave_us = w->pool->n_waiting && w->pool->n_workers >= 2 * w->pool->parallelism ? LEAVE_PRESSED_US : LEAVE_US;
	if (w->busy && now >= w->until_us && !w->killed) {
		w->killed = true;
		log_error(NULL, "event=before-overrun stage=%s pid=%d before=%lld ms=%lld hint=\"killing it\"", w->pool->stage, (int)w->pid,
		    (long long)w->job_id, (long long)((now - w->since_us) / 1000));
		before_worker_kill(w);
	} else if (going(w) && !w->exited && now - w->since_us > leave_us && !w->killed) {
		w->killed = true;
		log_warn(NULL, "event=before-worker-stays stage=%s pid=%d hint=\"close() of its module does not return; killing it\"",
		    w->pool->stage, (int)w->pid);
		before_worker_kill(w);
	} else if (w->ready && !w->busy && !w->leaving && now - w->since_us > w->pool->idle_us) {
		retire(w);
	} else if (w->pid && w->fd >= 0 && !w->ready && !w->killed && now - w->since_us > w->pool->runtime_us) {
		w->killed = true; /* its open() hangs */
		before_worker_kill(w);
	}
}

void before_pool_tick(struct before *b, int64_t now)
{
	struct before_pool *p, *next_pool;
	struct before_worker *w, *next;
	for (p = TAILQ_FIRST(&b->pools); p; p = next_pool) {
		next_pool = TAILQ_NEXT(p, link);
		for (w = TAILQ_FIRST(&p->workers); w; w = next) {
			next = TAILQ_NEXT(w, link);
			tick_worker(w, now);
		}
		if (p->n_waiting)
			before_pool_deal(p);
	}
}
