/* The commands of the control socket. Each works through typed calls of core/store or through struct admin_source; each
 * change leaves one line in the log that says who did what to how many messages. */
#include "base/log.h"
#include "config/schema.h"
#include "control_internal.h"
#include "json.h"

#include <inttypes.h>
#include <stdio.h>

enum {
	ANSWER_MS = 30 * 1000,  /* the database's answer */
	RELOAD_MS = 120 * 1000, /* describe children of all modules */
	CAT_CHUNK = 256 * 1024,
};

void control_audit(const struct control_peer *c, const char *result, int64_t count)
{
	char what[1024];
	control_request_describe(&c->req, what, sizeof what);
	log_info(NULL, "event=control cmd=%s uid=%u pid=%d%s%s result=%s count=%" PRId64, c->req.name, (unsigned)c->uid,
	    (int)c->pid, what[0] ? " " : "", what, result, count);
}

void control_answer_store(struct control_peer *c, enum store_rc rc, const char *err)
{
	char text[400];
	switch (rc) {
	case STORE_AWAY:
		control_answer_error(c, "the database is away", "pepsid reconnects by itself; try again in a moment");
		break;
	case STORE_FULL:
		snprintf(text, sizeof text, "the database has no room: %s", err ? err : "disk, memory or connections");
		control_answer_error(c, text, "");
		break;
	case STORE_RETRY:
		control_answer_error(c, "the database was too busy with these messages", "try again");
		break;
	default:
		snprintf(text, sizeof text, "the database refused: %s", err ? err : "no reason given");
		control_answer_error(c, text, "");
	}
}

/* A ticket for one database call, with its deadline; answers itself when there is none. */
struct admin_ticket *control_ask(struct control_peer *c)
{
	struct admin_ticket *t = admin_ticket_new(&c->p);
	if (t)
		admin_peer_deadline(&c->p, ANSWER_MS);
	else
		control_answer_error(c, "out of memory", "");
	return t;
}

struct control_peer *control_redeem(void *ticket)
{
	return (struct control_peer *)admin_ticket_redeem(ticket);
}

struct store_filter control_filter(const struct control_request *r)
{
	return (struct store_filter){ .stage = r->stage, .status = r->status, .sender = r->sender,
		.recipient = r->recipient, .ids = r->ids, .n_ids = r->n_ids, .after_id = r->after_id, .limit = r->limit };
}

/* --- status --- */

static void answer_status(struct control_peer *c, const struct store_counts *counts)
{
	struct buf json = BUF_INIT(CONTROL_ANSWER_MAX / 2);
	admin_status_write(c->p.a, counts, &json);
	if (json.failed)
		control_answer_error(c, "out of memory", "");
	else
		control_answer(c, buf_z(&json));
	buf_free(&json);
}

static void on_counts(struct admin_peer *p, const struct store_counts *counts)
{
	struct control_peer *c = (struct control_peer *)p;
	answer_status(c, counts);
	control_go(c);
}

static void run_status(struct control_peer *c)
{
	if (admin_counts_ask(&c->p, on_counts))
		answer_status(c, NULL);
	else
		admin_peer_deadline(&c->p, 2000);
}

/* --- queue, looking --- */

static void on_json(void *arg, enum store_rc rc, const char *json, const char *err)
{
	struct control_peer *c = control_redeem(arg);
	if (!c)
		return;
	if (rc != STORE_OK)
		control_answer_store(c, rc, err);
	else if (c->req.cmd == CONTROL_QUEUE_SHOW && (!json || !strcmp(json, "null")))
		control_answer_error(c, "no such message", "it may have been delivered meanwhile");
	else
		control_answer(c, json ? json : "null");
	control_go(c);
}

static void run_list(struct control_peer *c)
{
	struct store_filter f = control_filter(&c->req);
	struct admin_ticket *t = control_ask(c);
	if (t)
		store_queue_list(c->p.a->db, &f, on_json, t);
}

static void run_show(struct control_peer *c)
{
	struct admin_ticket *t = control_ask(c);
	if (t)
		store_queue_show(c->p.a->db, c->req.ids[0], on_json, t);
}

static void run_rules(struct control_peer *c)
{
	struct admin_ticket *t = control_ask(c);
	if (t)
		store_rule_list(c->p.a->db, c->req.action, on_json, t);
}

static void cat_next(struct control_peer *c);

static void on_data(void *arg, enum store_rc rc, struct str data, int64_t total)
{
	struct control_peer *c = control_redeem(arg);
	if (!c)
		return;
	bool begun = c->cat_total >= 0;
	if (!begun && rc != STORE_OK) {
		control_answer_store(c, rc, NULL);
	} else if (!begun && total < 0) {
		control_answer_error(c, "no such message", "it may have been delivered meanwhile");
	} else if (rc != STORE_OK || (begun && (total != c->cat_total || !data.n))) {
		/* the length is promised already: a connection that ends early says that this is not all */
		admin_peer_close(&c->p);
	} else {
		if (!begun)
			buf_addf(&c->p.out, "{\"ok\":true,\"length\":%" PRId64 "}\n", total);
		c->cat_total = total;
		c->cat_at += (int64_t)data.n;
		buf_adds(&c->p.out, data);
		if (c->p.out.failed || c->cat_at > total)
			admin_peer_close(&c->p);
		else if (c->cat_at == total)
			control_answered(c);
		else if (admin_peer_send(&c->p))
			cat_next(c);
		else
			admin_peer_deadline(&c->p, ANSWER_MS);
	}
	control_go(c);
}

static void cat_next(struct control_peer *c)
{
	struct admin_ticket *t = admin_ticket_new(&c->p);
	if (!t) {
		admin_peer_close(&c->p);
		return;
	}
	admin_peer_deadline(&c->p, ANSWER_MS);
	store_queue_cat(c->p.a->db, c->req.ids[0], c->cat_at, CAT_CHUNK, on_data, t);
}

void control_cmd_drained(struct control_peer *c)
{
	if (c->req.cmd == CONTROL_QUEUE_CAT)
		cat_next(c);
}

static void run_cat(struct control_peer *c)
{
	c->cat_at = 0;
	c->cat_total = -1;
	cat_next(c);
}

/* --- the daemon itself --- */

static void run_config(struct control_peer *c)
{
	const struct admin *a = c->p.a;
	const struct config *conf = a->source.config ? a->source.config(a->source.arg) : NULL;
	struct buf json = BUF_INIT(CONTROL_ANSWER_MAX / 2);
	if (!conf)
		control_answer_error(c, "no configuration is in force", "");
	else if (config_show(conf, NULL, NULL, true, &json))
		control_answer_error(c, "out of memory", "");
	else
		control_answer(c, buf_z(&json));
	buf_free(&json);
}

static void run_reports(struct control_peer *c)
{
	const struct admin_source *s = &c->p.a->source;
	struct buf json = BUF_INIT(CONTROL_ANSWER_MAX / 2);
	if (s->reports)
		s->reports(s->arg, c->req.stage, &json);
	else
		buf_addz(&json, "[]");
	if (json.failed)
		control_answer_error(c, "out of memory", "");
	else
		control_answer(c, buf_z(&json));
	buf_free(&json);
}

static void on_reloaded(void *arg, const char *faults, bool in_force)
{
	struct admin_ticket *t = arg;
	if (t->a)
		t->a->reloading = false;
	struct control_peer *c = control_redeem(t);
	if (!c)
		return;
	control_audit(c, faults ? "failed" : "ok", 0);
	if (faults)
		control_answer_error(c, faults, in_force ? "the rest of the new configuration is in force" : "the former configuration stays in force");
	else
		control_answer(c, "{\"reloaded\":true}");
	control_go(c);
}

static void run_reload(struct control_peer *c)
{
	struct admin *a = c->p.a;
	if (!a->source.reload) {
		control_answer_error(c, "this daemon cannot reload", "");
		return;
	}
	if (a->reloading) {
		control_answer_error(c, "a reload is under way", "try again when it is done");
		return;
	}
	struct admin_ticket *t = control_ask(c);
	if (!t)
		return;
	admin_peer_deadline(&c->p, RELOAD_MS);
	a->reloading = true;
	a->source.reload(a->source.arg, on_reloaded, t);
}

static void run_stop(struct control_peer *c)
{
	struct admin *a = c->p.a;
	control_audit(c, "ok", 0);
	c->p.eof = true; /* nothing after this one */
	buf_reset(&c->p.in);
	control_answer(c, "{\"stopping\":true}");
	if (a->source.stop)
		a->source.stop(a->source.arg);
}

/* --- recipients */

static void on_recipient(void *arg, const char *answer, const char *source, const char *why)
{
	struct control_peer *c = control_redeem(arg);
	if (!c)
		return;
	struct buf b = BUF_INIT(32 * 1024);
	buf_addz(&b, "{\"recipient\":");
	admin_json_stringz(&b, c->req.recipient);
	buf_addz(&b, ",\"answer\":");
	admin_json_stringz(&b, answer);
	buf_addz(&b, ",\"source\":");
	admin_json_stringz(&b, source);
	buf_addz(&b, ",\"why\":");
	admin_json_stringz(&b, why);
	buf_addc(&b, '}');
	if (b.failed)
		control_answer_error(c, "out of memory", "");
	else
		control_answer(c, buf_z(&b));
	buf_free(&b);
	control_go(c);
}

static void run_recipient(struct control_peer *c)
{
	struct admin_ticket *t = control_ask(c);
	const struct admin_source *src = &c->p.a->source;
	if (!t)
		return;
	if (src->recipient)
		src->recipient(src->arg, str_from(c->req.recipient), on_recipient, t);
	else
		on_recipient(t, "away", "", "");
}

void control_cmd_run(struct control_peer *c)
{
	if ((c->req.flags & CONTROL_DATABASE) && !admin_db_up(c->p.a)) {
		control_answer_store(c, STORE_AWAY, NULL);
		return;
	}
	switch (c->req.cmd) {
	case CONTROL_PING:
		control_answer(c, "\"pong\"");
		break;
	case CONTROL_STATUS:
		run_status(c);
		break;
	case CONTROL_QUEUE_LIST:
		run_list(c);
		break;
	case CONTROL_QUEUE_SHOW:
		run_show(c);
		break;
	case CONTROL_QUEUE_CAT:
		run_cat(c);
		break;
	case CONTROL_QUEUE_DELETE:
	case CONTROL_QUEUE_RETRY:
	case CONTROL_QUEUE_SET_STAGE:
	case CONTROL_QUEUE_HOLD:
	case CONTROL_QUEUE_RELEASE:
	case CONTROL_RULE_ADD:
	case CONTROL_RULE_REMOVE:
		control_queue_run(c);
		break;
	case CONTROL_RULE_LIST:
		run_rules(c);
		break;
	case CONTROL_CONFIG_SHOW:
		run_config(c);
		break;
	case CONTROL_DNS:
		control_dns_run(c);
		break;
	case CONTROL_RELOAD:
		run_reload(c);
		break;
	case CONTROL_STOP:
		run_stop(c);
		break;
	case CONTROL_REPORTS:
		run_reports(c);
		break;
	case CONTROL_RECIPIENT_TEST:
		run_recipient(c);
		break;
	}
}

void control_cmd_expired(struct control_peer *c)
{
	if (c->req.cmd == CONTROL_STATUS) {
		admin_counts_forget(&c->p);
		answer_status(c, NULL);
	} else if (c->req.cmd == CONTROL_QUEUE_CAT && c->cat_total >= 0) {
		admin_peer_close(&c->p);
	} else {
		if (c->req.flags & CONTROL_CHANGES)
			control_audit(c, "unknown", c->count);
		control_answer_error(c, "no answer in time; whether it was done is unknown", "look at the log of pepsid");
	}
}
