/* The child of a trial (trial.h): loads the module as a worker does, confined as a worker is, runs the messages through it and reports each. One trial
 * per process, hence the statics. What it notes is in memory that outlives it. Writes nothing to a database. */
#include "trial_internal.h"

#include "base/clock.h"
#include "concurrent.h"
#include "confine.h"
#include "measure.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { REPORT_FD = 3, NOFILE = 1024, NOTE_MAX = 8192 };
enum { UNSAID = INT32_MIN }; /* no module gives this: process_batch() said nothing */

static struct shared *sh;
static const struct trial *trial;
static struct pepsi_msg msgs[TRIAL_BATCH];
static const char *terminals[TRIAL_BATCH]; /* of msgs */
static size_t first, n_msgs;               /* of the trial's items: those in msgs */
static size_t n_faults;

static void step(enum step what, size_t at)
{
	sh->since = clock_mono_us();
	sh->at = (uint32_t)at;
	sh->step = what;
}

static void note(int32_t level, const char *text)
{
	size_t n = strnlen(text, NOTE_MAX);
	if (n + 2 > sizeof sh->notes - sh->n_notes) {
		sh->lost = 1;
		return;
	}
	char *p = sh->notes + sh->n_notes;
	p[0] = (char)('0' + level + 1);
	memcpy(p + 1, text, n);
	p[1 + n] = 0;
	sh->n_notes += n + 2;
}

static void note_fault(void *arg, const char *option, const char *text)
{
	(void)arg;
	char line[NOTE_MAX];
	snprintf(line, sizeof line, "%s%s%s", option ? option : "", option ? ": " : "", text);
	note(TRIAL_NOTE_FAULT, line);
	n_faults++;
}

static void trial_log(struct pepsi_msg *m, int32_t level, const char *text)
{
	if (level < 0 || level > PEPSI_LOG_DEBUG)
		level = PEPSI_LOG_INFO;
	text = text ? text : "";
	if (m && level <= PEPSI_LOG_WARN) /* as host_log() does: the reason of a retry */
		snprintf(m->last_log, sizeof m->last_log, "%s", text);
	if (m && trial->n_items > 1) {
		char line[NOTE_MAX];
		snprintf(line, sizeof line, "message %lld: %s", (long long)m->id, text);
		note(level, line);
	} else {
		note(level, text);
	}
}

/* A module may ask whether a stage exists before it takes its name. */
static const char *trial_global(const struct pepsi_conf *conf, const char *section, const char *option)
{
	const char *v = worker_host.conf_global(conf, section, option);
	return v || !trial->any_stage || !str_istarts(str_from(section), STR("stage-")) || !str_ieq(str_from(option), STR("PROGRAM")) ? v :
		"pepsi-stage-unknown";
}

/* The terminals, to learn by which name the pass ended; the rules are worker_host's. */
static int32_t ended(const struct pepsi_msg *m, const char *name, int32_t r)
{
	if (r == PEPSI_OK)
		terminals[m - msgs] = name;
	return r;
}

static int32_t t_advance(struct pepsi_msg *m)
{
	return ended(m, "advance", worker_host.advance(m));
}

static int32_t t_advance_to(struct pepsi_msg *m, const char *stage)
{
	return ended(m, "advance_to", worker_host.advance_to(m, stage));
}

static int32_t t_reroute(struct pepsi_msg *m, const char *stage, const char *state)
{
	return ended(m, "reroute", worker_host.reroute(m, stage, state));
}

static int32_t t_pause(struct pepsi_msg *m, const char *state, uint32_t secs)
{
	return ended(m, "pause", worker_host.pause(m, state, secs));
}

static int32_t t_pause_with(struct pepsi_msg *m, const char *merge, uint32_t secs, const uint32_t *keep, size_t n_keep,
    const struct pepsi_clone *clones, size_t n_clones)
{
	return ended(m, "pause_with", worker_host.pause_with(m, merge, secs, keep, n_keep, clones, n_clones));
}

static int32_t t_fail(struct pepsi_msg *m, const char *state)
{
	return ended(m, "fail", worker_host.fail(m, state));
}

static int32_t t_finish(struct pepsi_msg *m)
{
	return ended(m, "finish", worker_host.finish(m));
}

static int32_t t_finish_with(struct pepsi_msg *m, const struct pepsi_clone *clones, size_t n_clones)
{
	return ended(m, "finish_with", worker_host.finish_with(m, clones, n_clones));
}

static int32_t t_advance_or_finish(struct pepsi_msg *m)
{
	return ended(m, "advance_or_finish", worker_host.advance_or_finish(m));
}

static int32_t t_complete_success(struct pepsi_msg *m, const uint32_t *indices, size_t n, uint32_t dsn_here)
{
	return ended(m, "complete_success", worker_host.complete_success(m, indices, n, dsn_here));
}

static int32_t t_rewrite_recipients(struct pepsi_msg *m, const char *const *rcpts, size_t n, const char *state)
{
	return ended(m, "rewrite_recipients", worker_host.rewrite_recipients(m, rcpts, n, state));
}

static struct pepsi_host trial_host(void)
{
	struct pepsi_host h = worker_host;
	h.conf_global = trial_global;
	h.log = trial_log;
	h.advance = t_advance;
	h.advance_to = t_advance_to;
	h.reroute = t_reroute;
	h.pause = t_pause;
	h.pause_with = t_pause_with;
	h.fail = t_fail;
	h.finish = t_finish;
	h.finish_with = t_finish_with;
	h.advance_or_finish = t_advance_or_finish;
	h.complete_success = t_complete_success;
	h.rewrite_recipients = t_rewrite_recipients;
	return h;
}

static void note_measured(const char *line)
{
	note(TRIAL_NOTE_METRIC, line);
}

static _Noreturn void refuse(const char *text)
{
	if (text)
		note(PEPSI_LOG_ERROR, text);
	_exit(TRIAL_EXIT_REFUSED);
}

static void send_report(const struct buf *b)
{
	for (size_t at = 0; at < b->n;) {
		ssize_t k = write(REPORT_FD, b->p + at, b->n - at);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			refuse("the report could not be written");
		at += (size_t)k;
	}
}

static void returned(void)
{
	sh->process_us = (sh->process_us < 0 ? 0 : sh->process_us) + clock_mono_us() - sh->since;
}

/* --- messages, as worker/batch.c, worker/pass.c and worker/fuse.c bring them */

static int more_waiting(void *arg)
{
	(void)arg;
	return first + n_msgs < trial->n_items;
}

static void report(size_t i, int32_t rc, enum trial_fuse fuse)
{
	static size_t written;
	struct buf out = BUF_INIT(TRIAL_REPORT_MAX);
	struct trial_pass p = { first + i, &msgs[i], terminals[i], rc, fuse };
	step(STEP_REPORT, first + i);
	if (fuse != TRIAL_DECLINES && fuse != TRIAL_FUSE_BROKEN)
		pass_conclude(&msgs[i], rc);
	trial->report(trial->arg, &p, &out);
	if (buf_addc(&out, '\n') || out.n > TRIAL_REPORT_MAX - written)
		refuse("the outcome is larger than a report may be");
	written += out.n;
	send_report(&out);
	buf_free(&out);
	pass_end(&msgs[i]);
}

/* The hook may only read: the message has the terminal of a stage before, so that whatever changes something is refused. */
static enum trial_fuse asks(const struct worker_env *env, const struct pepsi_host *h, struct pepsi_msg *m)
{
	char log[sizeof m->last_log];
	if (!trial->fused || !env->mod->stage.can_fuse)
		return trial->fused ? TRIAL_FUSES : TRIAL_NOT_ASKED;
	memcpy(log, m->last_log, sizeof log);
	step(STEP_FUSE, first);
	m->end = END_MOVE;
	int32_t yes = env->mod->stage.can_fuse(env->state, h, m);
	m->end = END_NONE;
	memcpy(m->last_log, log, sizeof log);
	return m->misuse[0] ? TRIAL_FUSE_BROKEN : yes == 1 ? TRIAL_FUSES : TRIAL_DECLINES;
}

static void begin(const struct worker_env *env, size_t n)
{
	n_msgs = n;
	for (size_t i = 0; i < n; i++) {
		terminals[i] = NULL;
		if (pass_begin(&msgs[i], env, &trial->items[first + i]))
			refuse("out of memory");
	}
}

static void one(const struct worker_env *env, const struct pepsi_host *h)
{
	begin(env, 1);
	enum trial_fuse fuse = asks(env, h, &msgs[0]);
	int32_t rc = PEPSI_OK;
	if (fuse == TRIAL_NOT_ASKED || fuse == TRIAL_FUSES) {
		step(STEP_PROCESS, first);
		rc = env->mod->stage.process(env->state, h, &msgs[0]);
		returned();
	}
	report(0, rc, fuse);
}

static void batch(const struct worker_env *env, const struct pepsi_host *h, size_t n)
{
	int32_t status[TRIAL_BATCH];
	struct pepsi_msg *list[TRIAL_BATCH];
	begin(env, n);
	for (size_t i = 0; i < n; i++) {
		list[i] = &msgs[i];
		status[i] = UNSAID;
	}
	step(STEP_BATCH, first);
	int32_t rc = env->mod->stage.process_batch(env->state, h, list, status, n);
	returned();
	for (size_t i = 0; i < n; i++) {
		if (status[i] == UNSAID && rc == PEPSI_OK)
			status[i] = pass_misuse(&msgs[i], "process_batch() gave no status for a message");
		report(i, status[i] == UNSAID ? rc : status[i], TRIAL_NOT_ASKED);
	}
}

/* --- a module that drives many messages at once: so many as are there are begun, and its events run until all are over */

static struct pending pending[TRIAL_BATCH];
static int32_t ended_with[TRIAL_BATCH];
static size_t n_over;

static void over(void *arg, struct pepsi_msg *m, int32_t rc)
{
	(void)arg;
	ended_with[m - msgs] = rc;
	n_over++;
}

/* Whose turn it is; between turns the oldest that is pending, which is the one to be named when time runs out. */
static void hand(void *arg, const struct pepsi_msg *m, int64_t since)
{
	size_t i = 0;
	(void)arg;
	while (!since && i < n_msgs && pending[i].life != PENDING_WAITS)
		i++;
	if (m)
		i = (size_t)(m - msgs);
	if ((m || !since) && i < n_msgs)
		sh->at = (uint32_t)(first + i);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	concurrent_stop_near(arg, clock_mono_us()); /* the parent kills what goes on beyond the time */
}

/* The deadline is for the whole crowd: a call of the module's does not begin it anew. */
static void crowd(const struct worker_env *env, struct concurrent *c, size_t n)
{
	struct timeval tick = { .tv_usec = 50 * 1000 };
	struct event *ev = event_new(concurrent_base(c), -1, EV_PERSIST, on_tick, c);
	if (!ev || event_add(ev, &tick))
		refuse("no event loop");
	begin(env, n);
	n_over = 0;
	step(STEP_PROCESS, first);
	for (size_t i = 0; i < n && !trial->fused; i++)
		concurrent_begin(c, &msgs[i], &pending[i]);
	while (n_over < n && !trial->fused)
		event_base_loop(concurrent_base(c), EVLOOP_ONCE);
	returned();
	event_free(ev);
	for (size_t i = 0; i < n; i++)
		report(i, ended_with[i], trial->fused ? TRIAL_DECLINES : TRIAL_NOT_ASKED);
}

static void all(const struct worker_env *env, const struct pepsi_host *h, struct concurrent *c)
{
	const struct pepsi_stage *st = &env->mod->stage;
	bool batches = st->process_batch && st->load_class == PEPSI_LOAD_METADATA && !trial->fused;
	for (; first < trial->n_items; first += n_msgs) {
		size_t left = trial->n_items - first;
		if (c)
			crowd(env, c, left < TRIAL_BATCH ? left : TRIAL_BATCH);
		else if (batches)
			batch(env, h, left < TRIAL_BATCH ? left : TRIAL_BATCH);
		else
			one(env, h);
	}
}

static _Noreturn void run(const struct trial *t)
{
	struct worker_module mod = { .dl = NULL };
	struct pepsi_conf conf = { .v = NULL };
	struct buf why = BUF_INIT(4096);
	struct pepsi_host h = trial_host();
	trial = t;
	step(STEP_LOAD, 0);
	if (module_load(&mod, t->path, &why))
		refuse(buf_z(&why));
	sh->step = STEP_CONFIGURE; /* the same deadline */
	int faults = conf_init(&conf, t->c, t->stage, &mod, note_fault, NULL);
	if (faults)
		refuse(faults < 0 ? "out of memory" : NULL);
	sh->step = STEP_VALIDATE;
	struct pepsi_report findings = { note_fault, NULL };
	if (mod.stage.validate && mod.stage.validate(&h, &conf, &findings) != PEPSI_OK)
		refuse("validate() of the module failed");
	if (n_faults)
		refuse(NULL);
	struct worker_env env = { .mod = &mod, .conf = &conf, .stage = conf.stage,
		.next = config_str(t->c, conf.section, "NEXT_STAGE"), .bounce = config_str(t->c, conf.section, "BOUNCE_STAGE"),
		.lifetime_s = config_int(t->c, conf.section, "MAX_LIFETIME"), .runtime_ms = t->runtime_ms,
		.success_dsn = conf_host_bool(t->c, conf.section, "ORIGINATE_SUCCESS_DSN", 1), .any_stage = t->any_stage,
		.more = more_waiting };
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (confine(mod.stage.caps & PEPSI_CAP_HELPER)) /* what a worker may not do fails here, too */
		note(PEPSI_LOG_WARN, "this kernel has no seccomp filters: the module is less confined than in a worker");
	struct concurrent *c = NULL;
	const struct pepsi_host *host = &h;
	if (mod.stage.caps & PEPSI_CAP_CONCURRENT) {
		struct concurrent_owner owner = { NULL, over, hand };
		if (!(c = concurrent_new(&env, &owner, &h)))
			refuse("no event loop");
		host = concurrent_table();
	}
	sh->step = STEP_OPEN;
	int64_t began = clock_mono_us();
	int32_t rc = mod.stage.open ? mod.stage.open(host, &conf, &env.state) : PEPSI_OK;
	sh->open_us = clock_mono_us() - began;
	if (rc != PEPSI_OK) {
		char text[80];
		snprintf(text, sizeof text, "open() of the module returned %d", rc);
		refuse(text);
	}
	all(&env, &h, c);
	step(STEP_CLOSE, 0);
	if (mod.stage.close)
		mod.stage.close(env.state);
	measure_each(conf.stage, note_measured);
	sh->step = STEP_END;
	_exit(0);
}

static void settle(const struct trial *t, int fd)
{
	sigset_t none;
	for (int sig = 1; sig < NSIG; sig++) /* the caller's handlers must not run here */
		signal(sig, SIG_DFL);
	signal(SIGPIPE, SIG_IGN); /* as in a worker */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null >= 0)
		dup2(null, STDIN_FILENO);
	dup2(STDERR_FILENO, STDOUT_FILENO); /* as in a worker */
	if (fd != REPORT_FD && dup2(fd, REPORT_FD) < 0)
		_exit(1);
	fcntl(REPORT_FD, F_SETFD, FD_CLOEXEC);
	close_range(REPORT_FD + 1, ~0u, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){ NOFILE, NOFILE });
#ifndef PEPSI_SANITIZED
	char section[160];
	snprintf(section, sizeof section, "stage-%.100s", t->stage);
	rlim_t memory = (rlim_t)config_int(t->c, section, "MEMORY_LIMIT");
	if (memory)
		setrlimit(RLIMIT_AS, &(struct rlimit){ memory, memory });
#else
	(void)t;
#endif
}

_Noreturn void trial_child(const struct trial *t, struct shared *shared, int report_fd)
{
	sh = shared;
	settle(t, report_fd);
	run(t);
}
