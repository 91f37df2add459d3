/* See before.h. The pass itself is that of pass.h and host_*.c; here is what differs: which host functions there are, what a
 * terminal means before acceptance, and the loop over parcels. May not touch the queue. */
#include "before.h"

#include "base/clock.h"
#include "measure.h"
#include "net/parcel.h"
#include "state.h"

#include <errno.h>
#include <json-c/json.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BODY_INLINE = WIRE_INLINE_MAX, JOB_ARENA_MAX = 64 * 1024 * 1024 };

/* The pass under way was ended by advance() or its kin, not by a terminal that names a stage. One pass at a time. */
static bool went_on;

/* --- host functions */

static int32_t not_here(struct pepsi_msg *m, const char *what)
{
	return pass_misuse(m, "%s() before acceptance: the message is no row yet, so no rows can be made of it; "
			      "do that in a stage behind init", what);
}

static int32_t on(int32_t r)
{
	went_on |= r == PEPSI_OK;
	return r;
}

static int32_t b_advance(struct pepsi_msg *m)
{
	return on(worker_host.advance(m));
}

static int32_t b_advance_or_finish(struct pepsi_msg *m)
{
	return on(worker_host.advance_or_finish(m));
}

static int32_t b_rewrite_recipients(struct pepsi_msg *m, const char *const *rcpts, size_t n, const char *state)
{
	return on(worker_host.rewrite_recipients(m, rcpts, n, state));
}

static int32_t b_pause_with(struct pepsi_msg *m, const char *merge, uint32_t secs, const uint32_t *keep, size_t n_keep,
    const struct pepsi_clone *clones, size_t n_clones)
{
	if (n_clones || (keep && n_keep != m->n_rcpts0))
		return not_here(m, "pause_with");
	return worker_host.pause_with(m, merge, secs, keep, n_keep, clones, n_clones);
}

static int32_t b_finish_with(struct pepsi_msg *m, const struct pepsi_clone *clones, size_t n_clones)
{
	return n_clones ? not_here(m, "finish_with") : worker_host.finish_with(m, clones, n_clones);
}

static int32_t b_complete_success(struct pepsi_msg *m, const uint32_t *indices, size_t n, uint32_t dsn_here)
{
	(void)indices;
	(void)n;
	(void)dsn_here;
	return pass_misuse(m, "complete_success() before acceptance: nothing may be delivered before its sender was told 250");
}

/* Nobody is told of a message that is not accepted yet; what becomes of its recipients is told as if they had been given so. */
static int32_t b_tell_success(struct pepsi_msg *m, const uint32_t *indices, size_t n, uint32_t what, uint8_t *ret_told)
{
	(void)m;
	(void)indices;
	(void)what;
	if (ret_told)
		memset(ret_told, 0, n);
	return PEPSI_OK;
}

static int32_t b_split_off_recipients(struct pepsi_msg *m, const uint32_t *indices, size_t n, const char *stage)
{
	(void)indices;
	(void)n;
	(void)stage;
	return not_here(m, "split_off_recipients");
}

static int32_t b_split_to_one_per_row(struct pepsi_msg *m)
{
	return not_here(m, "split_to_one_per_row");
}

static int32_t b_fan_out(struct pepsi_msg *m, const struct pepsi_clone *groups, size_t n_groups, const uint32_t *keep, size_t n_keep)
{
	(void)groups;
	(void)n_groups;
	(void)keep;
	(void)n_keep;
	return not_here(m, "fan_out");
}

static int32_t b_enqueue_new(struct pepsi_msg *m, const char *stage, struct pepsi_str mail_from, const char *const *rcpts, size_t n,
    struct pepsi_str headers, struct pepsi_str body, const char *state)
{
	(void)stage;
	(void)mail_from;
	(void)rcpts;
	(void)n;
	(void)headers;
	(void)body;
	(void)state;
	return not_here(m, "enqueue_new");
}

const struct pepsi_host *before_host(void)
{
	static struct pepsi_host h;
	if (h.abi.size)
		return &h;
	h = worker_host;
	h.advance = b_advance;
	h.advance_or_finish = b_advance_or_finish;
	h.rewrite_recipients = b_rewrite_recipients;
	h.pause_with = b_pause_with;
	h.finish_with = b_finish_with;
	h.complete_success = b_complete_success;
	h.tell_success = b_tell_success;
	h.split_off_recipients = b_split_off_recipients;
	h.split_to_one_per_row = b_split_to_one_per_row;
	h.fan_out = b_fan_out;
	h.enqueue_new = b_enqueue_new;
	return &h;
}

/* --- the verdict */

static struct str cut(struct str s, size_t max)
{
	return s.n > max ? str_n(s.p, max) : s;
}

/* A text of the state that this pass has merged. */
static struct str merged(struct pepsi_msg *m, const char *path)
{
	struct json_object *o = m->merge ? state_at(m->merge, path) : NULL;
	return json_object_is_type(o, json_type_string) ? str_from(json_object_get_string(o)) : STR_NULL;
}

/* For good: what the sender would find in the report is what the client is told now. */
static void reject(struct pepsi_msg *m, struct wire_verdict *v)
{
	v->what = WIRE_REJECT;
	v->text = merged(m, "bounce.diagnostic");
	if (!v->text.n)
		v->text = merged(m, "last_error");
	struct str enhanced = merged(m, "bounce.enhanced_status");
	v->enhanced = enhanced.n <= WIRE_ENHANCED_MAX ? enhanced : STR_NULL;
	v->detail = v->text.n ? v->text : str_from(m->last_log);
}

static void fault(struct wire_verdict *v, struct str why)
{
	*v = (struct wire_verdict){ .id = v->id, .what = WIRE_FAULT, .detail = cut(why, WIRE_TEXT_MAX) };
}

/* Did it go where its section says, or to a stage that the module chose? */
static bool to_next(const struct pepsi_msg *m)
{
	const char *next = config_str(m->env->conf->c, m->env->conf->section, "NEXT_STAGE");
	return went_on || (next && !strcmp(m->end_stage, next));
}

/* It may go on: with what the stage made of it. */
static void pass(struct pepsi_msg *m, struct wire_verdict *v)
{
	v->what = WIRE_PASS;
	v->stage = to_next(m) ? STR_NULL : str_from(m->end_stage);
	v->changed = (m->touched & STORE_SET_MAIL_FROM ? WIRE_CHANGED_SENDER : 0) | (m->touched & STORE_SET_RCPT_TO ? WIRE_CHANGED_RCPTS : 0) |
	    (m->touched & STORE_SET_HEADERS ? WIRE_CHANGED_HEADERS : 0) | (m->touched & STORE_SET_BODY ? WIRE_CHANGED_BODY : 0) |
	    (m->merge ? WIRE_CHANGED_STATE : 0);
	v->mail_from = m->mail_from;
	v->rcpts = (struct str *)(uintptr_t)m->rcpts;
	v->n_rcpts = v->changed & WIRE_CHANGED_RCPTS ? m->n_rcpts : 0;
	v->headers = m->headers;
	if (v->changed & WIRE_CHANGED_BODY) {
		v->body = m->body;
		v->body_size = m->body.n;
	}
	if (m->merge)
		v->state = state_text(m->a, pass_state(m));
	if (v->stage.n > WIRE_STAGE_MAX)
		fault(v, STR("the stage's name is too long"));
	else if (m->merge && !v->state.p)
		fault(v, STR("out of memory"));
}

static void judge(struct pepsi_msg *m, int32_t rc, struct wire_verdict *v)
{
	pass_rules(m, rc);
	if (m->misuse[0]) {
		fault(v, str_from(m->misuse));
	} else if (rc == PEPSI_RETRY) {
		*v = (struct wire_verdict){ .id = v->id, .what = WIRE_DEFER, .detail = str_from(m->last_log) };
	} else if (rc == PEPSI_PERMANENT) {
		*v = (struct wire_verdict){ .id = v->id, .what = WIRE_REJECT, .detail = str_from(m->last_log) };
	} else if (m->end == END_PAUSE) {
		v->what = WIRE_DEFER;
		v->detail = str_from(m->last_log);
	} else if (m->end == END_FINISH) {
		v->what = WIRE_DISCARD;
	} else if (m->end == END_FAIL || (!to_next(m) && !strcmp(m->end_stage, m->env->bounce))) {
		reject(m, v);
	} else {
		pass(m, v);
	}
	v->text = cut(v->text, WIRE_TEXT_MAX);
	v->detail = cut(v->detail, WIRE_TEXT_MAX);
}

void before_pass(struct pepsi_msg *m, struct wire_verdict *ret)
{
	*ret = (struct wire_verdict){ .id = m->id };
	went_on = false;
	judge(m, m->env->mod->stage.process(m->env->state, before_host(), m), ret);
}

/* --- the loop */

static int wait_to_send(int channel, struct str record, int body_fd)
{
	int r;
	while ((r = net_parcel_send(channel, record, body_fd)) == 0) {
		struct pollfd p = { .fd = channel, .events = POLLOUT };
		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			return -1;
	}
	return r > 0 ? 0 : -1;
}

static int send_verdict(int channel, struct wire_verdict *v)
{
	struct buf out = BUF_INIT(WIRE_BEFORE_MAX);
	int fd = -1;
	if (v->changed & WIRE_CHANGED_BODY && v->body.n > BODY_INLINE) {
		fd = net_sealed_new("pepsi-body", v->body);
		v->body_in_fd = fd >= 0;
		v->body = fd >= 0 ? STR_NULL : v->body;
	}
	if (wire_verdict_put(&out, v)) {
		struct wire_verdict sorry = { .id = v->id };
		fault(&sorry, STR("the changed message does not fit into memory"));
		buf_reset(&out);
		if (wire_verdict_put(&out, &sorry)) {
			buf_free(&out);
			if (fd >= 0)
				close(fd);
			return -1;
		}
	}
	int r = wait_to_send(channel, buf_str(&out), v->body_in_fd ? fd : -1);
	if (fd >= 0)
		close(fd);
	buf_free(&out);
	return r;
}

struct job {
	struct buf record;
	struct arena *a;
	struct wire_item item;
	int fd;        /* of the body, or -1 */
	void *map;
};

/* 0, or -1: it is not what was promised. */
static int map_body(struct job *j)
{
	struct stat st;
	if (!j->item.body_in_fd)
		return j->fd < 0 ? 0 : -1;
	if (j->fd < 0 || fstat(j->fd, &st) || st.st_size < 0 || (uint64_t)st.st_size < j->item.body_size || j->item.body_size > SIZE_MAX / 2)
		return -1;
	if (!j->item.body_size)
		return 0;
	void *p = mmap(NULL, (size_t)j->item.body_size, PROT_READ, MAP_PRIVATE, j->fd, 0);
	if (p == MAP_FAILED)
		return -1;
	j->map = p;
	j->item.body = str_n(p, (size_t)j->item.body_size);
	return 0;
}

static int one(const struct before *b, struct job *j, struct pepsi_msg *m)
{
	struct wire_verdict v;
	uint32_t ms;
	if (wire_job_get(buf_str(&j->record), j->a, &ms, &j->item) || map_body(j)) {
		log_error(NULL, "event=channel-broken stage=%s error=\"a job of the ingress is malformed\"", b->env->stage);
		return -1;
	}
	b->env->runtime_ms = ms;
	if (pass_begin(m, b->env, &j->item)) {
		v = (struct wire_verdict){ .id = j->item.id };
		fault(&v, STR("out of memory"));
		return send_verdict(b->channel, &v);
	}
	log_ctx_set(&m->log, NULL, "before=%lld stage=%s", (long long)j->item.id, b->env->stage);
	before_pass(m, &v);
	int r = send_verdict(b->channel, &v);
	pass_end(m);
	return r;
}

static void job_reset(struct job *j)
{
	if (j->map)
		munmap(j->map, (size_t)j->item.body_size);
	if (j->fd >= 0)
		close(j->fd);
	j->map = NULL;
	j->fd = -1;
	arena_reset(j->a);
	if (j->record.cap > BODY_INLINE * 4) /* after a large one */
		buf_free(&j->record);
	j->record = (struct buf){ .p = j->record.p, .cap = j->record.cap, .max = WIRE_BEFORE_MAX };
}

static bool send_lines(void *arg, struct str lines)
{
	const int *channel = arg;
	struct buf b = BUF_INIT(lines.n + sizeof WIRE_BEFORE_METRICS);
	buf_addz(&b, WIRE_BEFORE_METRICS);
	bool sent = !buf_adds(&b, lines) && net_parcel_send(*channel, buf_str(&b), -1) == 1;
	buf_free(&b);
	return sent;
}

void before_tell(int channel, bool now)
{
	measure_tell_by(send_lines, &channel, now);
}

/* 1: a job has come. 0: stop, or the end. -1: broken. */
static int next_job(const struct before *b, struct job *j)
{
	while (!*b->stop) {
		struct pollfd p[2] = { { .fd = b->channel, .events = POLLIN }, { .fd = b->stop_fd, .events = POLLIN } };
		before_tell(b->channel, false);
		if (poll(p, 2, measure_due_ms()) < 0 && errno != EINTR)
			return -1;
		if (!p[0].revents)
			continue;
		int r = net_parcel_recv(b->channel, &j->record, &j->fd);
		if (r)
			return r > 0 ? 1 : 0; /* the ingress is gone, or has no more for us */
	}
	return 0;
}

int before_serve(const struct before *b)
{
	struct job j = { .record = BUF_INIT(WIRE_BEFORE_MAX), .a = arena_new(JOB_ARENA_MAX), .fd = -1 };
	struct pepsi_msg *m = calloc(1, sizeof *m);
	int r = !j.a || !m ? -1 : wait_to_send(b->channel, STR(WIRE_BEFORE_READY), -1);
	while (r == 0 && (r = next_job(b, &j)) > 0) {
		r = one(b, &j, m);
		job_reset(&j);
	}
	if (m)
		pass_free(m);
	free(m);
	if (j.a)
		job_reset(&j);
	arena_free(j.a);
	buf_free(&j.record);
	return r < 0;
}
