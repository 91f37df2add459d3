/* See trial.h. The child (trial_child.c) and its parent share a page of notes, so that what a module logged before it crashed is not
 * lost with it, and a memfd for the report. The parent, here, believes no length in either. Never loads a module in the caller. */
#include "trial_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const step_names[] = { "load", "configure", "validate", "open", "can_fuse", "process", "process_batch", "report",
	"close", "end" };

static struct shared *sh;

static void read_report(int fd, struct buf *out)
{
	*out = BUF_INIT(TRIAL_REPORT_MAX + 1);
	for (off_t at = 0;;) {
		size_t want = TRIAL_REPORT_MAX - out->n < 65536 ? TRIAL_REPORT_MAX - out->n : 65536;
		char *room = buf_room(out, want + 1);
		ssize_t n = room ? pread(fd, room, want, at) : 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (room)
			room[n > 0 ? n : 0] = 0;
		if (n <= 0)
			return;
		out->n += (size_t)n;
		at += n;
	}
}

/* The notes, copied before they are looked at: somebody the module left behind may still write to them. */
static void read_notes(const struct shared *s, struct trial_result *ret)
{
	size_t n = s->n_notes < sizeof s->notes ? s->n_notes : sizeof s->notes, records = 0;
	ret->notes_lost = s->lost || s->n_notes > sizeof s->notes;
	ret->notes_text = malloc(n + 1);
	if (!ret->notes_text)
		return;
	memcpy(ret->notes_text, s->notes, n);
	ret->notes_text[n] = 0;
	for (size_t i = 0; i < n; i++)
		records += !ret->notes_text[i];
	ret->notes = calloc(records + 1, sizeof *ret->notes);
	for (size_t at = 0; ret->notes && at < n && ret->n_notes < records;) {
		const char *rec = ret->notes_text + at;
		size_t len = strlen(rec);
		int32_t level = rec[0] - '0' - 1;
		if (len) {
			bool good = level >= TRIAL_NOTE_FAULT && level <= TRIAL_NOTE_METRIC;
			ret->notes[ret->n_notes++] = (struct trial_note){ good ? level : PEPSI_LOG_INFO, rec + 1 };
		}
		at += len + 1;
	}
}

/* Until it is gone or the time of the call it is in is up. false: it is late. What the child says of when that began is
 * believed only as far as `last`: the module can write there. */
static bool wait_for(int pidfd, pid_t pid, int64_t runtime_us, int64_t last)
{
	for (;;) {
		int64_t now = clock_mono_us(), since = *(volatile int64_t *)&sh->since;
		int64_t until = (since > now ? now : since) + runtime_us;
		int64_t left = ((until < last ? until : last) - now + 999) / 1000;
		struct pollfd p = { .fd = pidfd, .events = POLLIN };
		if (left <= 0)
			return waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOHANG | WNOWAIT) == 0 && poll(&p, 1, 0) > 0;
		int k = poll(&p, 1, left > 1000000 ? 1000000 : (int)left);
		if (k > 0)
			return true;
		if (k < 0 && errno != EINTR)
			return false;
	}
}

static void finish(pid_t pid, int pidfd, const struct trial *t, struct trial_result *ret)
{
	int st = 0;
	uint32_t last;
	int64_t runtime_us = t->runtime_ms * 1000;
	bool in_time = wait_for(pidfd, pid, runtime_us, clock_mono_us() + (2 * (int64_t)t->n_items + 2) * runtime_us);
	kill(-pid, SIGKILL); /* and whatever it started */
	kill(pid, SIGKILL);
	while (waitpid(pid, &st, 0) < 0 && errno == EINTR)
		;
	last = *(volatile uint32_t *)&sh->step;
	ret->during = step_names[last <= STEP_END ? last : STEP_END];
	ret->at = *(volatile uint32_t *)&sh->at < t->n_items ? sh->at : 0;
	if (!in_time) {
		ret->end = TRIAL_LATE;
	} else if (WIFSIGNALED(st)) {
		ret->end = TRIAL_CRASHED;
		ret->code = WTERMSIG(st);
	} else if (WEXITSTATUS(st) == TRIAL_EXIT_REFUSED) {
		ret->end = TRIAL_REFUSED;
	} else if (WEXITSTATUS(st) || last != STEP_END) {
		ret->end = TRIAL_EXITED;
		ret->code = WEXITSTATUS(st);
	} else {
		ret->end = TRIAL_DONE;
	}
}

void trial_run(const struct trial *t, struct trial_result *ret)
{
	*ret = (struct trial_result){ .end = TRIAL_FAILED, .during = step_names[0], .open_us = -1, .process_us = -1 };
	int fd = memfd_create("report", MFD_CLOEXEC);
	void *p = mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	sh = p == MAP_FAILED ? NULL : p;
	if (fd < 0 || !sh) {
		snprintf(ret->why, sizeof ret->why, "no memory for a trial: %m");
	} else {
		sh->open_us = sh->process_us = -1;
		sh->since = clock_mono_us();
		pid_t pid = fork();
		if (pid == 0)
			trial_child(t, sh, fd);
		int pidfd = -1;
		if (pid > 0)
			setpgid(pid, pid); /* whoever comes first */
		if (pid < 0 || (pidfd = pidfd_open(pid, 0)) < 0) {
			snprintf(ret->why, sizeof ret->why, "no process to try it in: %m");
			if (pid > 0) {
				kill(pid, SIGKILL);
				waitpid(pid, NULL, 0);
			}
		} else {
			finish(pid, pidfd, t, ret);
			ret->open_us = sh->open_us;
			ret->process_us = sh->process_us;
			read_notes(sh, ret);
			read_report(fd, &ret->report);
			close(pidfd);
		}
	}
	if (sh)
		munmap(sh, sizeof *sh);
	if (fd >= 0)
		close(fd);
	sh = NULL;
}

void trial_result_free(struct trial_result *r)
{
	buf_free(&r->report);
	free(r->notes);
	free(r->notes_text);
	*r = (struct trial_result){ .end = TRIAL_FAILED };
}
