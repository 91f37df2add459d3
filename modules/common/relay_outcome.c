/* From results per recipient to one terminal: delivered, to be tried again, to be returned, in every mixture. Talks to
 * the host only; opens nothing. */
#include "relay.h"

#include "base/log.h"
#include "proto/dsn/notify.h"
#include "proto/relay/backoff.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	ERROR_MAX = 800,
	RESERVE = 65536, RESERVE_RCPT = 4096, /* octets that texts and states take at most, and for each recipient */
};

enum relay_verdict relay_judge(const struct smtp_result *r)
{
	switch (r->outcome) {
	case SMTP_OUT_OK:
		return RELAY_OK;
	case SMTP_OUT_PERMANENT:
		/* what we found out ourselves (code 0) is about the message or its domain */
		return (r->code && r->phase < SMTP_PHASE_MAIL) || r->code == 530 ? RELAY_RETRY : RELAY_BOUNCE;
	case SMTP_OUT_NONE:
	case SMTP_OUT_TRANSIENT:
	case SMTP_OUT_LOST:
	case SMTP_OUT_PROTOCOL:
		break;
	}
	return RELAY_RETRY;
}

uint32_t relay_backoff(const struct relay_policy *p, uint64_t attempts, int64_t lifetime_left, uint64_t seed)
{
	return relay_backoff_s(p->retry_min, p->retry_max, attempts, lifetime_left, seed);
}

static void add(struct json_object *o, const char *key, struct str s)
{
	if (s.n)
		json_object_object_add(o, key, json_object_new_string_len(s.p, s.n > INT32_MAX ? INT32_MAX : (int)s.n));
}

/* "550 5.1.1 no such user" */
static void reply_text(struct buf *b, const struct smtp_result *r)
{
	if (r->code)
		buf_addf(b, "%u ", r->code);
	if (r->status[0] && r->code)
		buf_addf(b, "%s ", r->status);
	buf_adds(b, r->text);
}

static struct relay_where where_of(const struct relay_policy *p, size_t i)
{
	return p->where && p->where[i] ? *p->where[i] : (struct relay_where){ p->hop, p->remote_mta };
}

/* Who answered what. */
static void add_reply(struct json_object *o, const struct relay_policy *p, const struct smtp_client_msg *m, uint32_t i)
{
	const struct smtp_result *r = &m->rcpts[i].result;
	const char *remote_mta = where_of(p, i).remote_mta;
	if (r->code && remote_mta)
		add(o, "remote_mta", str_from(remote_mta));
	if (r->code)
		json_object_object_add(o, "smtp_code", json_object_new_int((int)r->code));
	add(o, "enhanced_status", str_from(r->status));
	add(o, "phase", str_from(smtp_phase_name(r->phase)));
	if (r->code)
		add(o, "reply_text", r->text);
}

static struct json_object *rcpt_json(const struct relay_policy *p, const struct smtp_client_msg *m, uint32_t i, bool over, bool asked)
{
	const struct smtp_client_rcpt *to = &m->rcpts[i];
	bool expired = over && relay_judge(&to->result) == RELAY_RETRY;
	struct json_object *o = json_object_new_object();
	struct buf b = BUF_INIT(ERROR_MAX);
	add(o, "failed_recipient", to->address);
	if (expired)
		buf_addz(&b, "delivery time expired; last attempt: ");
	reply_text(&b, &to->result);
	add(o, "diagnostic", buf_str(&b));
	buf_free(&b);
	add_reply(o, p, m, i);
	if (expired)
		add(o, "enhanced_status", STR("4.4.7"));
	add(o, "notify", asked ? STR("SUCCESS") : to->notify); /* what is told by another wish than NOTIFY is told */
	add(o, "orcpt", to->orcpt);
	return o;
}

/* {"bounce":{…}} for the chosen recipients; "last_error" beside it. Text owned by the object returned. */
static struct json_object *bounce_json(const struct relay_policy *p, const struct smtp_client_msg *m, const uint32_t *idx,
    size_t n, const char *kind, bool lifetime_over, const char *last_error)
{
	struct json_object *state = json_object_new_object(), *bounce = json_object_new_object();
	struct json_object *list = json_object_new_array_ext(n > INT32_MAX ? INT32_MAX : (int)n);
	bool success = !strcmp(kind, "success");
	if (n == 1) { /* the documents' keys, directly */
		json_object_put(bounce);
		bounce = rcpt_json(p, m, idx[0], lifetime_over, success);
	}
	json_object_object_add(bounce, "kind", json_object_new_string(kind));
	for (size_t i = 0; i < n; i++)
		json_object_array_add(list, rcpt_json(p, m, idx[i], lifetime_over, success));
	json_object_object_add(bounce, "rcpts", list);
	add(bounce, "envid", m->envid);
	add(bounce, "ret", m->ret);
	json_object_object_add(state, "bounce", bounce);
	json_object_object_add(state, "last_error", json_object_new_string(last_error));
	return state;
}

static const char *text(struct json_object *o)
{
	return json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

/* "mx.example.net:25: rcpt: 450 4.2.0 try again" */
static void error_text(char *out, size_t size, const struct relay_policy *p, const struct smtp_client_msg *m, uint32_t i)
{
	const struct smtp_result *r = &m->rcpts[i].result;
	const char *hop = where_of(p, i).hop;
	struct buf b = BUF_INIT(ERROR_MAX);
	reply_text(&b, r);
	if (r->phase == SMTP_PHASE_CONNECT) /* the text says it: "connect to …", "host … not found" */
		snprintf(out, size, "%s: %s", hop, buf_z(&b));
	else
		snprintf(out, size, "%s: %s: %s", hop, smtp_phase_name(r->phase), buf_z(&b));
	buf_free(&b);
}

struct sorted {
	uint32_t *ok, *retry, *bounce, *trace; /* trace: of those delivered, whose sender hears of it by DELIVERBY, or from us
	                                        * while the others' hosts have that duty */
	size_t n_ok, n_retry, n_bounce, n_trace;
	bool success_wanted; /* somebody asked to hear of a success that we would have to report */
};

static uint64_t attempts_before(const struct pepsi_host *host, struct pepsi_msg *msg)
{
	struct pepsi_str s;
	uint64_t n = 0;
	if (host->state_get(msg, "attempts", &s) == PEPSI_OK && str_u64(str_n(s.p, s.n), 1u << 30, &n))
		n = 0;
	return n;
}

/* When waiting begins: a hold that the sender asked for is none, nor is one of an operator. */
static int64_t began(const struct pepsi_host *host, struct pepsi_msg *msg)
{
	int64_t at = host->received_at(msg);
	struct pepsi_str s = host->state(msg), until;
	uint64_t n;
	if (s.n && memmem(s.p, s.n, "\"hold\"", 6) && host->state_get(msg, "hold.until", &until) == PEPSI_OK &&
	    !str_u64(str_n(until.p, until.n), INT32_MAX * UINT64_C(100), &n) && (int64_t)n * 1000000 > at)
		at = (int64_t)n * 1000000;
	if (s.n && memmem(s.p, s.n, "\"held\"", 6) && host->state_get(msg, "held.s", &until) == PEPSI_OK &&
	    !str_u64(str_n(until.p, until.n), INT32_MAX * UINT64_C(100), &n))
		at += (int64_t)n * 1000000;
	return at;
}

/* A session that ended behind the final dot (RFC 5321 §4.5.3.2.6): the next attempt may make it two, and who hears of a failure should hear of
 * that, too. For the row, or the report, of the chosen recipients. */
static void add_maybe(struct json_object *state, const struct relay_policy *p, const struct pepsi_host *host, struct pepsi_msg *msg,
    const struct smtp_client_msg *m, const uint32_t *idx, size_t n)
{
	struct pepsi_str before;
	uint64_t count = 0;
	size_t i = 0;
	while (i < n && !m->rcpts[idx[i]].result.maybe)
		i++;
	if (i == n)
		return;
	if (host->state_get(msg, "maybe_delivered.count", &before) != PEPSI_OK || str_u64(str_n(before.p, before.n), 1u << 30, &count))
		count = 0;
	struct json_object *o = json_object_new_object();
	json_object_object_add(o, "count", json_object_new_int64((int64_t)count + 1));
	json_object_object_add(o, "at", json_object_new_int64(host->now_us() / 1000000));
	add(o, "hop", str_from(where_of(p, idx[i]).hop));
	json_object_object_add(state, "maybe_delivered", o);
}

/* A row that goes on waiting, perhaps telling the sender so. Returns NULL or the merge for the row; *delay: clone for the
 * sender or untouched. */
static struct json_object *wait_json(const struct relay_policy *p, const struct pepsi_host *host, struct pepsi_msg *msg,
    const struct smtp_client_msg *m, const struct sorted *s, uint64_t attempts, const char *error, int64_t life, struct json_object **delay)
{
	struct json_object *o = json_object_new_object();
	struct pepsi_str sent;
	json_object_object_add(o, "attempts", json_object_new_int64((int64_t)attempts));
	json_object_object_add(o, "last_error", json_object_new_string(error));
	/* what a server said to one of them: a report needs it when the message is given up elsewhere */
	if (m->rcpts[s->retry[0]].result.code) {
		struct json_object *said = json_object_new_object();
		add(said, "failed_recipient", m->rcpts[s->retry[0]].address);
		add_reply(said, p, m, s->retry[0]);
		json_object_object_add(o, "last_reply", said);
	} else if (host->state_get(msg, "last_reply", &sent) == PEPSI_OK) {
		json_object_object_add(o, "last_reply", NULL);
	}
	if (!p->delay_warning || !host->bounce_stage(msg) || !m->mail_from.n || host->state_get(msg, "delay_sent", &sent) == PEPSI_OK ||
	    host->now_us() - began(host, msg) < p->delay_warning * INT64_C(1000000))
		return o;
	uint32_t *told = calloc(s->n_retry, sizeof *told);
	size_t n = 0;
	for (size_t i = 0; told && i < s->n_retry; i++)
		if (dsn_owed(dsn_notify(m->rcpts[s->retry[i]].notify), DSN_DELAYED, false, false))
			told[n++] = s->retry[i];
	if (n) {
		*delay = bounce_json(p, m, told, n, "delay", false, error);
		if (life > 0)
			json_object_object_add(json_object_object_get(*delay, "bounce"), "retry_until", json_object_new_int64(host->now_us() / 1000000 + life));
		json_object_object_add(o, "delay_sent", json_object_new_boolean(1));
	}
	free(told);
	return o;
}

static int32_t decide(const struct relay_policy *p, const struct pepsi_host *host, struct pepsi_msg *msg,
    const struct smtp_client_msg *m, const struct sorted *s, uint32_t dsn_here, bool counted)
{
	const char *bounce_stage = host->bounce_stage(msg);
	uint64_t attempts = attempts_before(host, msg);
	int64_t life = host->lifetime_left(msg);
	char error[ERROR_MAX + 400];
	struct json_object *bounce = NULL, *wait = NULL, *delay = NULL, *trace = NULL;
	struct pepsi_clone clones[4];
	size_t n_clones = 0;
	int32_t r;
	error_text(error, sizeof error, p, m, s->n_retry ? s->retry[0] : s->n_bounce ? s->bounce[0] : s->ok[0]);
	if (s->n_trace && bounce_stage) {
		trace = bounce_json(p, m, s->trace, s->n_trace, "success", false, error);
		clones[n_clones++] = (struct pepsi_clone){ .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = bounce_stage, .indices = s->trace,
			.n = s->n_trace, .state = text(trace) };
	}
	if (s->n_bounce) {
		char why[sizeof error];
		error_text(why, sizeof why, p, m, s->bounce[0]);
		bounce = bounce_json(p, m, s->bounce, s->n_bounce, "permanent", life <= 0, why);
		add_maybe(bounce, p, host, msg, m, s->bounce, s->n_bounce);
		if (s->n_bounce == m->n_rcpts) {
			/* the whole row, and its id, go where the failure is handled */
			r = bounce_stage ? host->reroute(msg, bounce_stage, text(bounce)) : host->fail(msg, text(bounce));
			goto out;
		}
		clones[n_clones++] = (struct pepsi_clone){ .abi = PEPSI_ABI_OF(struct pepsi_clone),
			.stage = bounce_stage ? bounce_stage : p->stage,
			.status = bounce_stage ? PEPSI_CLONE_PENDING : PEPSI_CLONE_FAILED, .indices = s->bounce, .n = s->n_bounce,
			.state = text(bounce) };
	}
	if (!s->n_retry) {
		r = host->fan_out(msg, clones, n_clones, s->ok, s->n_ok);
		if (r == PEPSI_OK)
			r = host->complete_success(msg, NULL, 0, dsn_here);
		goto out;
	}
	uint32_t secs = p->wait_s ? (life > 0 && p->wait_s > life ? (uint32_t)life : p->wait_s) : relay_backoff(p, attempts, life, (uint64_t)host->id(msg) ^ (uint64_t)host->now_us());
	wait = wait_json(p, host, msg, m, s, attempts + counted, error, life, &delay);
	add_maybe(wait, p, host, msg, m, s->retry, s->n_retry);
	if (delay)
		add_maybe(delay, p, host, msg, m, s->retry, s->n_retry);
	if (delay)
		clones[n_clones++] = (struct pepsi_clone){ .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = bounce_stage,
			.indices = s->retry, .n = s->n_retry, .state = text(delay) };
	if (s->n_ok && (host->next_stage(msg) || s->success_wanted)) {
		/* the delivered ones still have a way to go: they keep this row, the waiting ones get one of their own */
		clones[n_clones++] = (struct pepsi_clone){ .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = p->stage,
			.status = PEPSI_CLONE_RETRY, .retry_s = secs, .indices = s->retry, .n = s->n_retry, .state = text(wait) };
		r = host->fan_out(msg, clones, n_clones, s->ok, s->n_ok);
		if (r == PEPSI_OK)
			r = host->complete_success(msg, NULL, 0, dsn_here);
		goto out;
	}
	bool all = s->n_retry == m->n_rcpts;
	if (all && !n_clones)
		r = host->pause(msg, text(wait), secs);
	else
		r = host->pause_with(msg, text(wait), secs, all ? NULL : s->retry, all ? 0 : s->n_retry, clones, n_clones);
out:
	json_object_put(bounce);
	json_object_put(wait);
	json_object_put(delay);
	json_object_put(trace);
	return r;
}

static void measure(const struct relay_measure *to, const struct pepsi_host *host, struct pepsi_msg *msg, const struct smtp_client_msg *m, bool over, bool counted)
{
	size_t ok = 0, later = 0;
	bool maybe = false;
	for (size_t i = 0; i < m->n_rcpts; i++) {
		enum relay_verdict v = relay_judge(&m->rcpts[i].result);
		ok += v == RELAY_OK;
		later += v == RELAY_RETRY && !over;
		maybe |= m->rcpts[i].result.maybe;
	}
	relay_measure_outcome(to, ok, counted ? later : 0, m->n_rcpts - ok - later, counted ? 0 : later, ok ? host->now_us() - began(host, msg) : 0);
	if (maybe)
		relay_measure_maybe(to);
}

int32_t relay_decide(const struct relay_policy *p, const struct pepsi_host *host, struct pepsi_msg *msg,
    const struct smtp_client_msg *m, uint32_t dsn_here, bool counted)
{
	struct sorted s = { 0 };
	bool over = host->lifetime_left(msg) <= 0;
	size_t n_ok = 0;
	for (size_t i = 0; i < m->n_rcpts; i++)
		n_ok += relay_judge(&m->rcpts[i].result) == RELAY_OK;
	if (p->measure)
		measure(p->measure, host, msg, m, over, counted);
	bool passed = false, kept = false; /* some hosts took the duty to report over, others did not: then each recipient has his own */
	for (size_t i = 0; i < m->n_rcpts; i++)
		if (relay_judge(&m->rcpts[i].result) == RELAY_OK)
			*(m->rcpts[i].dsn_passed ? &passed : &kept) = true;
	bool mixed = passed && kept;
	if (n_ok == m->n_rcpts && !m->deliver_trace && !mixed)
		return host->complete_success(msg, NULL, 0, dsn_here);
	uint32_t *idx = p->room ? p->room : calloc(m->n_rcpts, RELAY_ROOM * sizeof *idx);
	if (!idx)
		return PEPSI_RETRY;
	/* json-c does not survive the lack of memory; what was delivered must be told all the same, or it comes twice */
	void *reserve = malloc(RESERVE + m->n_rcpts * RESERVE_RCPT);
	if (!reserve)
		return relay_decide_bare(p, host, msg, m, dsn_here, idx);
	free(reserve);
	s.ok = idx;
	s.retry = idx + m->n_rcpts;
	s.bounce = idx + 2 * m->n_rcpts;
	s.trace = idx + 3 * m->n_rcpts;
	for (size_t i = 0; i < m->n_rcpts; i++) {
		enum relay_verdict v = relay_judge(&m->rcpts[i].result);
		if (v == RELAY_OK) {
			s.ok[s.n_ok++] = (uint32_t)i;
			unsigned notify = dsn_notify(m->rcpts[i].notify);
			if (mixed && p->success_dsn && dsn_owed(notify, DSN_RELAYED, m->rcpts[i].dsn_passed, !m->mail_from.n)) {
				s.trace[s.n_trace++] = (uint32_t)i;
				continue;
			}
			/* one report is enough where NOTIFY=SUCCESS brings one */
			if (m->deliver_trace && m->mail_from.n && !(notify & (DSN_NOTIFY_NEVER | DSN_NOTIFY_SUCCESS)))
				s.trace[s.n_trace++] = (uint32_t)i;
			s.success_wanted |= !mixed && dsn_owed(notify, DSN_RELAYED, !dsn_here, !m->mail_from.n);
		} else if (v == RELAY_RETRY && !over) {
			s.retry[s.n_retry++] = (uint32_t)i;
		} else {
			s.bounce[s.n_bounce++] = (uint32_t)i;
		}
	}
	int32_t r = decide(p, host, msg, m, &s, mixed ? 0 : dsn_here, counted);
	if (!p->room)
		free(idx);
	return r;
}
