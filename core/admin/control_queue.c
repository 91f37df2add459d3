/* The commands of the control socket that change the queue: delete, retry, set-stage, hold, release, and the rules that hold and reroute
 * mail. Each works in batches, a transaction each, so that a million rows neither block the workers for minutes nor have to be done in
 * the time of one answer; what was done is done when it is cut off between two. Decides nothing about rows (db/procedures.sql does). */
#include "base/log.h"
#include "control_internal.h"
#include "json.h"

#include <inttypes.h>
#include <stdio.h>

enum {
	BATCH = 1000,          /* rows of one transaction */
	BATCH_DRY = 20000,     /* that only reads */
	RULE_MAX = 8192,       /* octets of a rule as JSON: five texts of CONTROL_TEXT_MAX, escaped */
};

static void next(struct control_peer *c);

/* Done, or as far as it went. */
static void over(struct control_peer *c, enum store_rc rc, const char *err)
{
	struct admin *a = c->p.a;
	char json[160];
	control_audit(c, rc == STORE_OK ? "ok" : "failed", c->count);
	if (c->count && !c->req.dry_run && c->req.cmd != CONTROL_QUEUE_DELETE && a->source.wake)
		a->source.wake(a->source.arg);
	if (rc == STORE_OK) {
		snprintf(json, sizeof json, "{\"count\":%" PRId64 ",\"matched\":%" PRId64 ",\"rule\":%" PRId64 ",\"dry_run\":%s}", c->count, c->matched,
		    c->rule, c->req.dry_run ? "true" : "false");
		control_answer(c, json);
	} else {
		control_answer_store(c, rc, err);
	}
}

/* Rows of the next batch. */
static unsigned batch(const struct control_peer *c)
{
	int64_t most = c->req.dry_run ? BATCH_DRY : BATCH, left = c->req.limit ? c->req.limit - c->matched : most;
	return (unsigned)(left < most ? left : most);
}

static void on_change(void *arg, enum store_rc rc, const struct store_changed *n, const char *err)
{
	struct control_peer *c = control_redeem(arg);
	if (!c)
		return;
	bool full = rc == STORE_OK && n->matched >= batch(c) && !c->req.n_ids;
	c->matched += n->matched;
	c->count += n->changed;
	c->after = n->last_id;
	if (full && batch(c)) {
		next(c);
		return;
	}
	over(c, rc, err);
	control_go(c);
}

static void on_released(void *arg, enum store_rc rc, int64_t n, const char *err)
{
	struct control_peer *c = control_redeem(arg);
	if (!c)
		return;
	c->count += n;
	c->matched += n;
	if (rc == STORE_OK && n >= BATCH) {
		next(c);
		return;
	}
	over(c, rc, err);
	control_go(c);
}

static const char *rule_json(const struct control_peer *c, struct buf *b)
{
	const struct control_request *r = &c->req;
	const struct {
		const char *key, *value;
	} texts[] = {
		{ "action", r->action }, { "sender", r->sender }, { "recipient", r->recipient }, { "client", r->client },
		{ "stage", r->stage }, { "to_stage", r->to }, { "reason", r->reason },
	};
	buf_addf(b, "{\"made_by\":\"uid:%u\"", (unsigned)c->uid);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		if (!texts[i].value)
			continue;
		buf_addf(b, ",\"%s\":", texts[i].key);
		admin_json_stringz(b, texts[i].value);
	}
	if (r->for_s)
		buf_addf(b, ",\"for\":%u", r->for_s);
	buf_addc(b, '}');
	return b->failed ? NULL : buf_z(b);
}

static void on_added(void *arg, enum store_rc rc, int64_t id, const char *err)
{
	struct control_peer *c = control_redeem(arg);
	if (!c)
		return;
	if (rc == STORE_OK) {
		c->rule = id;
		log_info(NULL, "event=rule-added rule=%" PRId64 " uid=%u", id, (unsigned)c->uid);
		next(c); /* workers learn of it by themselves; now what is in the queue already */
		return;
	}
	over(c, rc, err);
	control_go(c);
}

static void next_of_rule(struct control_peer *c, struct admin_ticket *t)
{
	struct buf b = BUF_INIT(RULE_MAX * 6);
	struct store_conn *db = c->p.a->db;
	if (c->rule) {
		store_rule_apply(db, c->rule, NULL, false, c->after, batch(c), on_change, t);
		return;
	}
	const char *rule = rule_json(c, &b);
	if (!rule)
		on_added(t, STORE_FULL, 0, "out of memory");
	else if (c->req.dry_run)
		store_rule_apply(db, 0, rule, true, c->after, batch(c), on_change, t);
	else
		store_rule_add(db, rule, on_added, t);
	buf_free(&b);
}

static void on_removed(void *arg, enum store_rc rc, int64_t n, const char *err)
{
	struct control_peer *c = control_redeem(arg);
	if (!c)
		return;
	if (rc == STORE_OK && n) {
		c->rule = c->req.ids[0];
		next(c);
		return;
	}
	if (rc == STORE_OK)
		control_answer_error(c, "no such rule", "pepsi queue hold list and pepsi queue reroute list show what there is");
	else
		over(c, rc, err);
	control_go(c);
}

static void next(struct control_peer *c)
{
	struct store_conn *db = c->p.a->db;
	struct store_filter f = control_filter(&c->req);
	struct admin_ticket *t = control_ask(c);
	if (!t)
		return;
	f.limit = batch(c);
	f.after_id = c->after;
	switch (c->req.cmd) {
	case CONTROL_QUEUE_DELETE:
		store_queue_change(db, STORE_ROWS_DELETE, &f, NULL, c->req.dry_run, on_change, t);
		break;
	case CONTROL_QUEUE_RETRY:
		store_queue_change(db, STORE_ROWS_RETRY, &f, NULL, c->req.dry_run, on_change, t);
		break;
	case CONTROL_QUEUE_HOLD:
		store_queue_change(db, STORE_ROWS_HOLD, &f, c->req.reason, c->req.dry_run, on_change, t);
		break;
	case CONTROL_QUEUE_RELEASE:
		store_queue_change(db, STORE_ROWS_RELEASE, &f, NULL, c->req.dry_run, on_change, t);
		break;
	case CONTROL_RULE_ADD:
		next_of_rule(c, t);
		break;
	case CONTROL_RULE_REMOVE:
		if (c->rule)
			store_rule_release(db, c->rule, BATCH, on_released, t);
		else
			store_rule_remove(db, c->req.ids[0], on_removed, t);
		break;
	default:
		store_queue_change(db, STORE_ROWS_SET_STAGE, &f, c->req.to, c->req.dry_run, on_change, t);
	}
}

/* A stage that is named must be one of the configuration in force, or the message would lie there for ever, or the rule never match. */
static bool stage_exists(struct control_peer *c, const char *stage)
{
	const struct admin *a = c->p.a;
	const struct config *conf = a->source.config ? a->source.config(a->source.arg) : NULL;
	const char *names[256], *section;
	char err[300], hint[300] = "";
	size_t n = 0;
	if (!conf || !stage)
		return true;
	for (size_t i = 0; (section = config_section(conf, i)) && n < sizeof names / sizeof *names; i++)
		if (str_istarts(str_from(section), STR("stage-")))
			names[n++] = section + 6;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(names[i], stage))
			return true;
	const char *near = str_nearest(str_from(stage), names, n);
	snprintf(err, sizeof err, "no stage is called %s", log_qz(stage));
	if (near)
		snprintf(hint, sizeof hint, "did you mean %s?", near);
	control_answer_error(c, err, hint);
	return false;
}

void control_queue_run(struct control_peer *c)
{
	c->rule = c->after = c->matched = c->count = 0;
	if ((c->req.cmd == CONTROL_RULE_ADD && !stage_exists(c, c->req.stage)) || !stage_exists(c, c->req.to))
		return;
	next(c);
}
