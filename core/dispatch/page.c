/* What a worker shows of itself (proto/wire/page.h): taken over with its first line, read at the tick and when it is dead. It
 * is a hint from a process with code that is not ours: nothing here decides whether a message is done. */
#include "dispatch_internal.h"

#include "base/clock.h"
#include "base/fds.h"
#include "proto/wire/page.h"

#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FRAME_MAX = 200, REPORT_FRAMES = 16 };

/* The first WIRE_PAGE_AVOID_MAX of them; more at once are a machine with other worries. */
static void put_avoided(const struct dispatch *d, struct worker *w)
{
	const struct stage *st;
	unsigned n = 0;
	if (w->stage->unfused_until)
		wire_page_avoid(w->page, n++, "*");
	TAILQ_FOREACH(st, &d->stages, link)
		if (st->unfused_until && n < WIRE_PAGE_AVOID_MAX)
			wire_page_avoid(w->page, n++, st->name);
	while (n < WIRE_PAGE_AVOID_MAX)
		wire_page_avoid(w->page, n++, "");
}

static void tell_avoided(struct dispatch *d)
{
	struct stage *st;
	struct worker *w;
	TAILQ_FOREACH(st, &d->stages, link)
		TAILQ_FOREACH(w, &st->workers, link)
			if (w->page)
				put_avoided(d, w);
}

void page_blame(struct dispatch *d, const struct worker *w)
{
	struct wire_page_copy c;
	if (!w->page)
		return;
	wire_page_read(w->page, &c);
	struct stage *st = !c.id ? NULL : c.hop ? dispatch_stage_find(d, c.stage) : w->stage;
	if (!st)
		return;
	if (!st->unfused_until)
		log_warn(NULL, "stage=%s event=not-fused for_s=%d reason=\"it did harm in a worker of stage %s\"", st->name, UNFUSED_US / 1000000,
		    w->stage->name);
	st->unfused_until = clock_mono_us() + UNFUSED_US;
	tell_avoided(d);
}

void page_tick(struct dispatch *d, int64_t now)
{
	struct stage *st;
	bool changed = false;
	TAILQ_FOREACH(st, &d->stages, link)
		if (st->unfused_until && st->unfused_until <= now) {
			st->unfused_until = 0;
			changed = true;
		}
	if (changed)
		tell_avoided(d);
}

static void adopt(struct worker *w, int fd)
{
	struct stat st;
	/* only memory that nobody can take away again may be looked at: a cut file would be a signal here */
	int seals = fcntl(fd, F_GET_SEALS);
	if (!w->page && seals >= 0 && seals & F_SEAL_SHRINK && !fstat(fd, &st) && st.st_size >= WIRE_PAGE_SIZE) {
		void *p = mmap(NULL, WIRE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (p != MAP_FAILED) {
			w->page = p;
			put_avoided(w->stage->d, w);
		}
	}
	close(fd);
}

ssize_t page_recv(struct worker *w, void *room, size_t size)
{
	if (w->ready)
		return recv(w->fd, room, size, MSG_DONTWAIT); /* descriptors are let fall */
	union fds_room ctl;
	struct iovec v = { room, size };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	int fds[FDS_MAX];
	fds_expect(&m, &ctl);
	ssize_t n = recvmsg(w->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	size_t came = n >= 0 ? fds_take(&m, fds, FDS_MAX) : 0;
	for (size_t i = 0; i < came; i++)
		adopt(w, fds[i]);
	return n;
}

static void count_retries(struct dispatch *d, struct worker *w, const struct wire_page_copy *c)
{
	uint64_t more = c->retries - w->retries_seen;
	if (c->retries <= w->retries_seen)
		return;
	w->retries_seen = c->retries;
	if (more > RETRIES_MAX)
		return;
	d->retries_total += more;
	d->d_retries += (int64_t)more;
}

void page_retries(struct dispatch *d)
{
	struct stage *st;
	struct worker *w;
	struct wire_page_copy c;
	TAILQ_FOREACH(st, &d->stages, link)
		TAILQ_FOREACH(w, &st->workers, link)
			if (w->page) {
				wire_page_read(w->page, &c);
				count_retries(d, w, &c);
			}
}

static void add_costs(struct page_costs *n, const struct wire_page_copy *c)
{
	n->selects += c->selects;
	n->writes += c->writes;
	n->trips += c->trips;
	n->put_off += c->put_off;
}

void page_drop(struct dispatch *d, struct worker *w)
{
	struct wire_page_copy c;
	if (!w->page)
		return;
	wire_page_read(w->page, &c);
	count_retries(d, w, &c);
	add_costs(&d->gone, &c);
	munmap(w->page, WIRE_PAGE_SIZE);
	w->page = NULL;
}

struct page_costs page_sums(const struct dispatch *d)
{
	const struct stage *st;
	const struct worker *w;
	struct wire_page_copy c;
	struct page_costs n = d->gone;
	TAILQ_FOREACH(st, &d->stages, link)
		TAILQ_FOREACH(w, &st->workers, link) {
			if (!w->page)
				continue;
			wire_page_read(w->page, &c);
			add_costs(&n, &c);
		}
	return n;
}

/* The row is one that this worker was sent; the stage one that is configured; the time one that can be. A module can still
 * write another row of its own worker there: then that one is blamed, at whose turn it might as well have crashed. */
bool page_in_hand(struct dispatch *d, const struct worker *w, int64_t now, struct page_hand *ret)
{
	struct wire_page_copy c;
	struct flight *f;
	*ret = (struct page_hand){ .id = 0 };
	if (!w->page)
		return false;
	wire_page_read(w->page, &c);
	if (!c.steady || c.id <= 0 || c.since <= 0 || c.since > now || c.hop >= PAGE_HOPS_MAX)
		return false;
	f = map_get(&d->flights, (uint64_t)c.id);
	if (!f || f->worker != w || !f->sent)
		return false;
	struct stage *st = dispatch_stage_find(d, c.stage);
	if (!st || (!c.hop && st != w->stage))
		return false;
	*ret = (struct page_hand){ c.id, c.since, f, st };
	return true;
}

/* One that drives many at once ends their messages itself; what it cannot end is a call of the module's that does not return. */
static bool many_overrun(struct dispatch *d, const struct worker *w, int64_t now, struct page_hand *ret)
{
	struct wire_page_copy c = { .steady = false };
	int64_t most = w->stage->max_runtime_us < MANY_CALL_US ? w->stage->max_runtime_us : MANY_CALL_US;
	if (w->page)
		wire_page_read(w->page, &c);
	if (!page_in_hand(d, w, now, ret))
		ret->since = c.since;
	ret->stage = w->stage;
	bool hangs = c.steady && c.since > 0 && c.since <= now && now - c.since >= most;
	return hangs || now - w->busy_since >= w->stage->max_runtime_us + MANY_SILENT_US;
}

bool page_overrun(struct dispatch *d, const struct worker *w, int64_t now, struct page_hand *ret)
{
	const struct stage *s;
	if (w->by_id)
		return many_overrun(d, w, now, ret);
	int64_t busy = now - w->busy_since, longest = w->stage->max_runtime_us, since;
	if (!page_in_hand(d, w, now, ret)) { /* at its own stage, with several at once or none */
		ret->stage = w->stage;
		return busy >= w->stage->max_runtime_us;
	}
	/* Each hop has its own stage's time, from when it began; and a page that tells of ever new hops is not believed longer than
	 * the longest chain of the slowest stage would take. */
	TAILQ_FOREACH(s, &d->stages, link)
		longest = s->max_runtime_us > longest ? s->max_runtime_us : longest;
	since = ret->since > w->busy_since ? ret->since : w->busy_since; /* that begins anew when the database was away */
	return now - since >= ret->stage->max_runtime_us || busy / PAGE_HOPS_MAX >= longest;
}

struct stage *page_stage(struct dispatch *d, const struct worker *w)
{
	struct wire_page_copy c = { .steady = false };
	if (w->page)
		wire_page_read(w->page, &c);
	struct stage *st = c.steady && c.id && c.hop ? dispatch_stage_find(d, c.stage) : NULL;
	return st ? st : w->stage;
}

/* --- crash reports */

static void add_text(json_object *o, const char *key, const char *z)
{
	if (z && *z)
		json_object_object_add(o, key, json_object_new_string(z));
}

json_object *page_report(const struct worker *w, const char *what, int signal)
{
	const struct stage *st = w->stage;
	struct wire_page_copy c = { .steady = false };
	json_object *o = json_object_new_object();
	if (w->page)
		wire_page_read(w->page, &c);
	add_text(o, "what", what);
	add_text(o, "stage", c.stage[0] && c.id ? c.stage : st->name);
	if (c.stage[0] && c.id && strcmp(c.stage, st->name))
		add_text(o, "worker_stage", st->name);
	add_text(o, "program", c.module[0] && c.id ? c.module : st->program);
	add_text(o, "version", c.version);
	if (signal)
		json_object_object_add(o, "signal", json_object_new_int(signal));
	json_object *frames = c.signal ? json_object_new_array() : NULL;
	char frame[FRAME_MAX];
	for (unsigned i = 0; frames && i < REPORT_FRAMES && wire_page_frame(w->page, i, frame, sizeof frame); i++)
		json_object_array_add(frames, json_object_new_string(frame));
	if (frames)
		json_object_object_add(o, "backtrace", frames);
	return o;
}

void page_log(const struct worker *w)
{
	struct wire_page_copy c;
	char frame[FRAME_MAX];
	if (!w->page)
		return;
	wire_page_read(w->page, &c);
	if (!c.id && !c.signal)
		return;
	log_error(NULL, "id=%lld stage=%s pid=%d event=crash-report in=%s program=%s version=%s signal=%d", (long long)c.id, w->stage->name,
	    (int)w->pid, c.stage, c.module, c.version[0] ? c.version : "-", (int)c.signal);
	for (unsigned i = 0; c.signal && i < REPORT_FRAMES && wire_page_frame(w->page, i, frame, sizeof frame); i++)
		log_error(NULL, "stage=%s pid=%d event=backtrace frame=%u at=%s", w->stage->name, (int)w->pid, i, log_qz(frame));
}
